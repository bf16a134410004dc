"""What every engine behind the actuator's port does alike: the simulated engine over HTTP, and its fake in memory."""

import abc
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from contracts.clock import MINUTE_MS
from contracts.commands import RescheduleCommand, TaskChange
from rescaler.actuators.base import EngineApi, EngineAway, EngineRefused
from rescaler.actuators.engine_http import EngineHttp
from rescaler.actuators.fake import FakeEngine
from services.stack.local_road import fetch_json
from services.stack.ports import free_ports
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
JOB, TASK = "sim/j_2521346", "1"


def command(generation: int, job: str = JOB, task: str = TASK) -> RescheduleCommand:
    """Ask for four instances of a task that has five; the engine chooses the units."""
    return RescheduleCommand(
        command_id=f"{job}#{generation}.0",
        cluster="sim",
        job=job,
        desired_generation=generation,
        step=0,
        base_placement_generation=0,
        decision_id="as the test wants",
        gate_reason="desired",
        gate_cause="max_delay",
        issued_at_ms=0,
        changes=(TaskChange(task=task, before=5, after=4),),
    )


class EngineContract(abc.ABC):
    """Tests written once for every engine."""

    task = TASK

    @pytest.fixture
    @abc.abstractmethod
    def engine(self) -> EngineApi | Iterator[EngineApi]:
        """An engine that runs the job, its clock standing still."""

    def test_a_command_takes_effect_and_then_the_job_restarts(self, engine: EngineApi) -> None:
        """The answer names a whole minute for the effect, and when the job runs again."""
        accepted = engine.request(command(1, task=self.task))
        assert accepted.effective_at_ms % MINUTE_MS == 0
        assert accepted.effective_at_ms < accepted.done_at_ms <= accepted.effective_at_ms + MINUTE_MS

    def test_the_same_command_again_gets_the_same_answer(self, engine: EngineApi) -> None:
        """Asking twice is asking once."""
        assert engine.request(command(1, task=self.task)) == engine.request(command(1, task=self.task))

    def test_an_older_command_is_refused_by_name(self, engine: EngineApi) -> None:
        """What comes after a newer generation is stale."""
        engine.request(command(2, task=self.task))
        with pytest.raises(EngineRefused) as refused:
            engine.request(command(1, task=self.task))
        assert refused.value.code == "STALE_GENERATION"

    def test_a_look_says_how_far_the_last_command_is(self, engine: EngineApi) -> None:
        """Nothing before the first command; then its identity, its state and its times."""
        assert engine.look(JOB).rescale is None
        accepted = engine.request(command(1, task=self.task))
        seen = engine.look(JOB)
        assert seen.generation == 0
        assert seen.rescale is not None
        assert (seen.rescale.command_id, seen.rescale.state) == (f"{JOB}#1.0", "pending")
        assert (seen.rescale.effective_at_ms, seen.rescale.done_at_ms) == (accepted.effective_at_ms, accepted.done_at_ms)

    def test_an_unknown_job_is_refused(self, engine: EngineApi) -> None:
        """Neither asked nor looked at."""
        for call in (lambda: engine.look("sim/nobody"), lambda: engine.request(command(1, job="sim/nobody"))):
            with pytest.raises(EngineRefused) as refused:
                call()
            assert refused.value.code == "UNKNOWN_JOB"


class TestFakeEngine(EngineContract):
    """The fake keeps the contract, so that tests may trust it."""

    @pytest.fixture
    def engine(self) -> EngineApi:
        """One in memory."""
        return FakeEngine(now_ms=MINUTE_MS, jobs={JOB})


class TestSimulatedEngine(EngineContract):
    """The simulated engine as a process, over its HTTP interface."""

    @pytest.fixture
    def engine(self) -> Iterator[EngineApi]:
        """A process of its own."""
        (port,) = free_ports(1)
        url = f"http://127.0.0.1:{port}"
        arguments = ["engine", "--job", JOB.partition("/")[2], "--port", str(port), "--kafka", "none", "--pace", "free"]
        process = subprocess.Popen([sys.executable, "-m", "services.cli", *arguments], env=dict(os.environ))
        try:
            wait_until(lambda: answers(url), 60, "the engine")
            topology = fetch_json(f"{url}/jobs/{JOB.partition('/')[2]}")["topology"]
            self.task = topology["tasks"][1]["task"]
            yield EngineHttp(url)
        finally:
            process.terminate()
            process.wait(20)


def answers(url: str) -> bool:
    """The engine listens."""
    try:
        return bool(fetch_json(f"{url}/health")["ready"])
    except OSError:
        return False


def test_an_engine_that_does_not_answer_is_away() -> None:
    """Nobody listens: that is no refusal."""
    (port,) = free_ports(1)
    with pytest.raises(EngineAway, match="Connection refused"):
        EngineHttp(f"http://127.0.0.1:{port}", 500).look(JOB)
