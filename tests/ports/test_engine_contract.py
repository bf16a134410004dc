"""What every engine behind the actuator's port does alike that is told units and remembers generations.

The fake, the simulated engine in this process, and over HTTP. Engines that are asked for counts are in
``test_requirement_contract``.
"""

import abc
import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from benchmarks.archive import load_job
from surescale.contracts.capabilities import SIMULATED
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Rescale, RescheduleCommand, TaskChange
from surescale.contracts.messages import ClockSegment
from surescale.engines.ports.actuator import EngineApi, EngineRefused, EngineUnavailable
from surescale.engines.simulated.actuator import EngineHttp
from surescale.rescaler.twin import EngineInProcess
from surescale.runtime.ports import free_ports
from surescale.services.engine.api import application
from surescale.services.engine.clock_driver import ClockDriver
from surescale.services.engine.settings import EngineSettings
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.load.workload import load_workload
from surescale.simulation.model.costs import RestartCost, with_learners
from tests.support.fake_engine import FakeEngine
from tests.support.watched import idle_watchdog

JOB, TASK = "sim/j_2521346", "J2_1"  # a stateful task of five subtasks, on units 0 to 4
TOO_MANY = 11  # subtasks; the engine allows ten
FAR_UNIT = 12  # on a host of its own
SLOWLY = with_learners(restore_bytes_per_s=2**15)  # learners need minutes


def command(
    generation: int, after: int = 4, *, job: str = JOB, action: str = "commit", units: tuple[int, ...] = ()
) -> RescheduleCommand:
    """Ask for another parallelism of the task; without units the engine chooses them."""
    return RescheduleCommand(
        command_id=f"{job}#{generation}.0",
        cluster="sim",
        job=job,
        desired_generation=generation,
        step=0,
        action=action,  # type: ignore[arg-type]  # of the closed set, by the tests below
        base_placement_generation=0,
        decision_id="as the test wants",
        gate_reason="desired",
        gate_cause="max_delay",
        issued_at_ms=0,
        changes=(TaskChange(task=TASK, before=5, after=after, units=units),),
    )


class Rig(abc.ABC):
    """One engine and what a test does to it."""

    api: EngineApi

    @abc.abstractmethod
    def pass_minutes(self, minutes: int) -> None:
        """Let event time pass."""

    @abc.abstractmethod
    def will_refuse(self, code: str) -> None:
        """Make sure that a command for ``TOO_MANY`` subtasks is refused with a code."""

    @abc.abstractmethod
    def lose(self, unit: int) -> None:
        """Let the host of a unit die."""

    def last(self) -> Rescale:
        """The last command, which there must be."""
        rescale = self.api.look(JOB).rescale
        assert rescale is not None
        return rescale


class EngineContract(abc.ABC):
    """Tests written once for every engine."""

    @abc.abstractmethod
    def opened(self, cost: RestartCost) -> contextlib.AbstractContextManager[Rig]:
        """Start an engine that runs the job; its clock stands still."""

    @pytest.fixture
    def rig(self) -> Iterator[Rig]:
        """An engine that restarts a job to change it."""
        with self.opened(RestartCost()) as rig:
            yield rig

    @pytest.fixture
    def slow(self) -> Iterator[Rig]:
        """An engine whose learners need minutes to restore state."""
        with self.opened(SLOWLY) as rig:
            yield rig

    def test_it_says_that_it_is_told_units(self, rig: Rig) -> None:
        """So control plans units, hosts and learners for it."""
        assert rig.api.capabilities() == SIMULATED

    def test_a_look_says_what_is_required_and_what_runs(self, rig: Rig) -> None:
        """A command is required at once, and runs from its effect on."""
        seen = rig.api.look(JOB)
        assert (seen.required[TASK], seen.running[TASK], seen.state) == (5, 5, "running")
        rig.api.request(command(1))
        shown = []
        for _ in range(3):
            seen = rig.api.look(JOB)
            shown.append((seen.required[TASK], seen.running[TASK], seen.state))
            rig.pass_minutes(1)
        assert shown == [(4, 5, "running"), (4, 4, "restarting"), (4, 4, "running")]

    def test_what_is_accepted_is_not_taken_back(self, rig: Rig) -> None:
        """It takes effect within a minute, so a withdrawal is refused and changes nothing."""
        rig.api.request(command(1))
        with pytest.raises(EngineRefused) as refused:
            rig.api.withdraw(command(1), {TASK: 5})
        assert refused.value.code == "CANNOT_WITHDRAW"
        assert rig.api.look(JOB).required[TASK] == 4

    def test_a_command_takes_effect_and_then_the_job_restarts(self, rig: Rig) -> None:
        """The answer names a whole minute for the effect, and when the job runs again."""
        accepted = rig.api.request(command(1))
        assert accepted.effective_at_ms is not None
        assert accepted.done_at_ms is not None
        assert accepted.effective_at_ms % MINUTE_MS == 0
        assert accepted.effective_at_ms < accepted.done_at_ms <= accepted.effective_at_ms + MINUTE_MS

    def test_the_same_command_again_gets_the_same_answer(self, rig: Rig) -> None:
        """Asking twice is asking once."""
        assert rig.api.request(command(1)) == rig.api.request(command(1))

    def test_an_older_command_is_refused_by_name(self, rig: Rig) -> None:
        """A command after a newer generation is stale."""
        rig.api.request(command(2))
        with pytest.raises(EngineRefused) as refused:
            rig.api.request(command(1))
        assert refused.value.code == "STALE_GENERATION"

    def test_a_look_says_how_far_the_last_command_is(self, rig: Rig) -> None:
        """Nothing before the first command; then its identity, its state and its times."""
        assert rig.api.look(JOB).rescale is None
        accepted = rig.api.request(command(1))
        last = rig.last()
        assert rig.api.look(JOB).generation == 0
        assert (last.command_id, last.state) == (f"{JOB}#1.0", "pending")
        assert (last.effective_at_ms, last.done_at_ms) == (accepted.effective_at_ms, accepted.done_at_ms)

    def test_a_command_goes_through_its_states_in_order(self, rig: Rig) -> None:
        """Pending until it takes effect, restarting until the job runs again; its generation counts from the effect on."""
        rig.api.request(command(1))
        states = []
        for _ in range(3):
            states.append((rig.last().state, rig.api.look(JOB).generation))
            rig.pass_minutes(1)
        assert states == [("pending", 0), ("restarting", 1), ("done", 1)]

    def test_an_unknown_job_is_refused(self, rig: Rig) -> None:
        """Both calls refuse it: a look and a request."""
        for call in (lambda: rig.api.look("sim/nobody"), lambda: rig.api.request(command(1, job="sim/nobody"))):
            with pytest.raises(EngineRefused) as refused:
                call()
            assert refused.value.code == "UNKNOWN_JOB"

    def test_a_refusal_has_a_code_and_changes_nothing(self, rig: Rig) -> None:
        """More subtasks than the engine allows; the next command is taken on as if it were the first."""
        rig.will_refuse("PARALLELISM_OUT_OF_RANGE")
        with pytest.raises(EngineRefused) as refused:
            rig.api.request(command(1, TOO_MANY))
        assert refused.value.code == "PARALLELISM_OUT_OF_RANGE"
        assert rig.api.look(JOB).rescale is None

    def test_a_commit_that_loses_a_unit_fails(self, rig: Rig) -> None:
        """Its host dies before it takes effect: the command is given up with a code, and its generation never counts."""
        rig.api.request(command(1, 6, units=(0, 1, 2, 3, 4, FAR_UNIT)))
        rig.lose(FAR_UNIT)
        rig.pass_minutes(3)
        assert (rig.last().state, rig.last().code, rig.api.look(JOB).generation) == ("failed", "UNIT_LOST", 0)

    def test_learners_warm_up_before_they_are_ready(self, slow: Rig) -> None:
        """A command to prepare says how much is left to restore; the job's generation stays."""
        slow.api.request(command(1, 6, action="prepare", units=(0, 1, 2, 3, 4, FAR_UNIT)))
        warming = slow.last()
        assert (warming.state, warming.learners) == ("warming", 1)
        assert warming.lag_bytes > 0
        slow.pass_minutes(60)
        ready = slow.last()
        assert (ready.state, slow.api.look(JOB).generation) == ("done", 0)

    def test_a_lost_learner_is_named(self, slow: Rig) -> None:
        """Its host dies while it restores: the command fails with the units that were lost."""
        slow.api.request(command(1, 6, action="prepare", units=(0, 1, 2, 3, 4, FAR_UNIT)))
        slow.lose(FAR_UNIT)
        slow.pass_minutes(1)
        assert (slow.last().state, slow.last().code, slow.last().units) == ("failed", "LEARNER_LOST", (FAR_UNIT,))


class RemoteRig(Rig):
    """An engine that may be out of reach."""

    @abc.abstractmethod
    def go_away(self) -> None:
        """Answer no call any more."""

    @abc.abstractmethod
    def come_back(self) -> None:
        """Answer again."""


class RemoteEngineContract(EngineContract):
    """The part of the contract for engines that may not answer."""

    def test_an_engine_that_does_not_answer_is_away(self, rig: RemoteRig) -> None:
        """That is no refusal; the same command asked again is taken on."""
        rig.go_away()
        for call in (lambda: rig.api.look(JOB), lambda: rig.api.request(command(1))):
            with pytest.raises(EngineUnavailable):
                call()
        rig.come_back()
        assert rig.api.request(command(1)).effective_at_ms == rig.last().effective_at_ms


@dataclass
class FakeRig(RemoteRig):
    """The fake, told what is to happen."""

    fake: FakeEngine

    @property
    def api(self) -> EngineApi:  # type: ignore[override]  # the port's view of the same object
        """The fake itself."""
        return self.fake

    def pass_minutes(self, minutes: int) -> None:
        """Move its clock."""
        self.fake.now_ms += minutes * MINUTE_MS

    def will_refuse(self, code: str) -> None:
        """Refuse every command."""
        self.fake.refuse_with = code

    def lose(self, unit: int) -> None:
        """Lose learners on the unit, and commits."""
        self.fake.lost_units, self.fake.lose_with = (unit,), "UNIT_LOST"

    def go_away(self) -> None:
        """Give no answer to the next two calls."""
        self.fake.away_for = 2

    def come_back(self) -> None:
        """The two calls are over."""
        assert self.fake.away_for == 0


class TestFakeEngine(RemoteEngineContract):
    """The fake keeps the contract, so tests may rely on it."""

    @contextlib.contextmanager
    def opened(self, cost: RestartCost) -> Iterator[Rig]:
        """One in memory."""
        warm_ms = 5 * MINUTE_MS if cost.mode == "learners" else 0
        yield FakeRig(FakeEngine(now_ms=MINUTE_MS, jobs={JOB}, warm_ms=warm_ms, running={JOB: {TASK: 5}}))


def cluster(cost: RestartCost) -> SimulatedCluster:
    """A simulated cluster that runs the job for two hours."""
    load = load_workload("clarknet")
    return SimulatedCluster([load_job(JOB.partition("/")[2], load)], load, RunOptions(minutes=120, cost=cost))


@dataclass
class InProcessRig(Rig):
    """A simulated cluster in this process."""

    cluster: SimulatedCluster
    api: EngineApi = field(init=False)

    def __post_init__(self) -> None:
        """Put the adapter before it."""
        self.api = EngineInProcess(self.cluster)

    def pass_minutes(self, minutes: int) -> None:
        """Advance the cluster."""
        self.cluster.advance(self.cluster.now_ms + minutes * MINUTE_MS)

    def will_refuse(self, code: str) -> None:
        """It refuses by itself."""

    def lose(self, unit: int) -> None:
        """Let the host die."""
        self.cluster.host_dies(self.cluster.hosts.host_of()[unit])


class TestEngineInProcess(EngineContract):
    """The simulated engine as the twin uses it."""

    @contextlib.contextmanager
    def opened(self, cost: RestartCost) -> Iterator[Rig]:
        """A cluster of its own."""
        yield InProcessRig(cluster(cost))


class HttpRig(RemoteRig):
    """The simulated engine behind its own HTTP interface, on a clock that the test moves."""

    def __init__(self, cost: RestartCost) -> None:
        self.cluster, self.wall_ms = cluster(cost), 0
        self.driver = ClockDriver(
            self.cluster, EngineSettings(pace="free", use_kafka=False), lambda segment: None, wall_ms=lambda: self.wall_ms
        )
        self.driver.segment = ClockSegment(
            pipeline="main", sequence=1, e0_ms=self.cluster.start_ms, w0_ms=0, speed=1.0, until_ms=self.cluster.end_ms
        )
        (self._port,) = free_ports(1)
        self.api = EngineHttp(f"http://127.0.0.1:{self._port}", 2_000)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner: web.AppRunner | None = None
        self.come_back()

    def pass_minutes(self, minutes: int) -> None:
        """Move the wall clock, which the engine's clock follows."""
        self.wall_ms += minutes * MINUTE_MS

    def will_refuse(self, code: str) -> None:
        """It refuses by itself."""

    def lose(self, unit: int) -> None:
        """Let the host die."""
        self.cluster.host_dies(self.cluster.hosts.host_of()[unit])

    def go_away(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
            self._runner = None

    def come_back(self) -> None:
        """Listen at the same port."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    async def _listen(self) -> None:
        self._runner = web.AppRunner(application(self.driver, lambda: True, idle_watchdog("engine")))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    def close(self) -> None:
        """Stop the server and its thread."""
        self.go_away()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class TestEngineHttp(RemoteEngineContract):
    """The simulated engine over its HTTP interface, through the actuator's client."""

    @contextlib.contextmanager
    def opened(self, cost: RestartCost) -> Iterator[Rig]:
        """A server of its own."""
        rig = HttpRig(cost)
        try:
            yield rig
        finally:
            rig.close()
