"""One rescale, three ways, in the simulated engine: stop and restore everything, move state cold, or warm learners first.

Each way is a separate run of the same job under the same load, with the engine's own rules for restoring
(`simulation.model.costs`, `simulation.engine.learners`):

- *restart*: the job stops, all its state is restored from a checkpoint on the hosts that will own it, and the job starts again.
- *cold*: the job stops, and only state that moves between hosts is restored.
- *learners*: state that moves is restored while the job runs. Then the job stops only for a barrier.

The simulated engine stops a job as a whole, so each task always pauses for as long as the slowest one needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from benchmarks.rescale_three_ways import changes as planning
from benchmarks.rescale_three_ways.delays import Delays, delays
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.messages import Host
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.engine.learners import spread, to_restore
from surescale.simulation.engine.running_job import RunningJob
from surescale.simulation.errors import RunError
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.model.costs import RestartCost, with_learners

Way = Literal["restart", "cold", "learners"]
Scenario = Literal["wider", "drain"]
WAYS: tuple[Way, ...] = get_args(Way)
SCENARIOS: tuple[Scenario, ...] = get_args(Scenario)

QUIET_MINUTES = 10
"""Minutes before the command."""
RUN_MINUTES = 150
_LEARNERS_MINUTES_MAX = 60


@dataclass(frozen=True, slots=True)
class WayResult:
    """The figures of one rescale done in one way."""

    way: Way
    pause_ms: int
    """How long each task of the job was down."""
    own_ms: tuple[int, ...]
    """For each subtask restored while the job is down: time until its host had restored its state."""
    moved_bytes: int
    """State restored, during the pause or before it."""
    asked_to_done_ms: int
    """From the command until the job runs with the new parallelism."""
    worst_minute_s: float
    """The highest mean latency of a minute, as the simulator reports it."""
    backlog_minutes: float
    """Record-minutes waited since the command, by the simulator's own steps of 15 s."""
    delays: Delays
    """Delays of the records that enter after the command."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One rescale of one job, in every way."""

    job: str
    tasks: int
    scenario: Scenario
    path_s: float
    """Time a record spends in the job when nothing waits. No record waited before the rescale."""
    outcomes: tuple[WayResult, ...]

    @property
    def settled_ms(self) -> int:
        """Return the time from the command until the slowest way has caught up. Latencies are compared over this period."""
        return max(max(outcome.asked_to_done_ms, outcome.delays.settled_ms) for outcome in self.outcomes)

    def p99_s(self, outcome: WayResult) -> float:
        """Return the 99th percentile of latency over the records that entered during the change."""
        return outcome.delays.p99_s(self.path_s, self.settled_ms)


def compare(sized: SizedJob, workload: Workload, scenario: Scenario, cost: RestartCost | None = None) -> Comparison:
    """Carry out one rescale in every way.

    ``cost`` is that of the engine with learners. Its ``restart_ms`` is the time of a restart without restoring.

    Raises:
        RunError: learners were not ready in time, or records waited before the rescale.
    """
    cost = cost or with_learners()
    bench = _Bench(sized, workload, scenario, cost)
    return Comparison(
        job=sized.name,
        tasks=sized.size,
        scenario=scenario,
        path_s=60 * sized.path_minutes,
        outcomes=tuple(bench.run(way) for way in WAYS),
    )


class _Bench:
    """The job and its rescale, planned once on a run without any rescale."""

    def __init__(self, sized: SizedJob, workload: Workload, scenario: Scenario, cost: RestartCost) -> None:
        self._sized, self._workload, self._scenario, self._cost = sized, workload, scenario, cost
        untouched, job = self._started(cost)
        self._hosts: tuple[Host, ...] = untouched.topology().hosts
        self._moves = planning.first_round(job.topology, self._hosts) if scenario == "drain" else {}
        if scenario == "drain":
            self._changes = planning.drained(job.topology, self._hosts, self._moves)
        else:
            self._changes = planning.wider(job.topology, self._hosts)
        self._asked_ms = untouched.now_ms
        restored = self._to_restore(job, everything=True)
        self._restart_ms = cost.cold_ms(_by_host(restored, untouched.hosts.host_of()))
        untouched.advance(untouched.end_ms)
        if max(job.ledger.backlog_minutes) > 1e-9:
            raise RunError(f"job {sized.name}: records wait without any rescale; take a lower --load-parallelism")
        self._arrivals = job.ledger.arrivals[QUIET_MINUTES:]

    def run(self, way: Way) -> WayResult:
        """Carry out the rescale in one way."""
        cost = self._cost
        if way == "restart":
            # All state is restored, at the same rate. The engine by itself would only count state that moves.
            cost = replace(cost, mode="restart", restart_ms=self._restart_ms, restore_bytes_per_s=None)
        elif way == "cold":
            cost = replace(cost, restart_ms=0)
        cluster, job = self._started(cost)
        restored = self._to_restore(job, everything=way == "restart")
        served_before = _served_at_most(job)
        if way == "learners":
            self._warm(cluster, job)
            restored = self._to_restore(job, everything=False)  # includes state written meanwhile
        rescale = cluster.apply(self._command(job, "commit", cluster.now_ms), cluster.now_ms)
        cluster.advance(rescale.done_at_ms + MINUTE_MS)
        settled = job.rescale_at(cluster.now_ms)
        assert settled is not None
        assert settled.state == "done", settled
        cluster.advance(cluster.end_ms)
        pause_ms = settled.done_at_ms - settled.effective_at_ms
        return WayResult(
            way=way,
            pause_ms=pause_ms,
            own_ms=() if way == "learners" else self._own_ms(restored, cluster.hosts.host_of()),
            moved_bytes=sum(restored.values()),
            asked_to_done_ms=settled.done_at_ms - self._asked_ms,
            worst_minute_s=max(_latencies_s(job, QUIET_MINUTES)),
            backlog_minutes=sum(job.ledger.backlog_minutes[QUIET_MINUTES:]),
            delays=delays(
                self._arrivals,
                served_before=served_before,
                served_after=_served_at_most(job),
                pause_from_ms=settled.effective_at_ms - self._asked_ms,
                pause_ms=pause_ms,
            ),
        )

    def _started(self, cost: RestartCost) -> tuple[SimulatedCluster, RunningJob]:
        """Return the run, advanced to the command."""
        cluster = SimulatedCluster([self._sized], self._workload, RunOptions(minutes=RUN_MINUTES, cost=cost))
        cluster.advance(cluster.start_ms + QUIET_MINUTES * MINUTE_MS)
        job = cluster.job(self._sized.name)
        if self._scenario == "drain":
            first_unit = job.topology.tasks[1].units[0]
            cluster.host_leaves(cluster.hosts.host_of()[first_unit])
        return cluster, job

    def _warm(self, cluster: SimulatedCluster, job: RunningJob) -> None:
        """Let learners restore until they can take over."""
        cluster.apply(self._command(job, "prepare", cluster.now_ms), cluster.now_ms)
        for _ in range(_LEARNERS_MINUTES_MAX):
            rescale = job.rescale_at(cluster.now_ms)
            if rescale and rescale.state == "done":
                break
            cluster.advance(cluster.now_ms + MINUTE_MS)
        else:
            raise RunError(f"learners were not ready within {_LEARNERS_MINUTES_MAX} minutes; restore faster")
        if self._moves and not self._assignment_agrees(job):
            raise RunError("the engine's learners are ready, the assignment's are not")

    def _assignment_agrees(self, job: RunningJob) -> bool:
        """Return whether the next round of learner assignment promotes every learner, given the lags the engine reports."""
        learners = job.preparation.learners if job.preparation else ()
        lags: dict[tuple[str, int], int] = {}
        for change in self._changes:
            before = next(spec for spec in job.topology.tasks if spec.task == change.task)
            for old, new in zip(before.units, change.units, strict=True):
                if old != new:
                    lag = sum(each.lag_bytes for each in learners if (each.task, each.unit) == (change.task, new))
                    lags[change.task, old] = lag
        return planning.may_commit(job.topology, self._hosts, self._moves, lags, self._cost.acceptable_lag_bytes)

    def _command(self, job: RunningJob, action: Literal["prepare", "commit"], now_ms: int) -> RescheduleCommand:
        step = int(action == "commit")
        return RescheduleCommand(
            command_id=f"{job.topology.job}#1.{step}",
            cluster=job.topology.job.partition("/")[0],
            job=job.topology.job,
            desired_generation=1,
            step=step,
            steps=2,
            action=action,
            base_placement_generation=0,
            decision_id="twin",
            gate_reason="desired",
            gate_cause="trigger",
            issued_at_ms=now_ms,
            changes=self._changes,
        )

    def _to_restore(self, job: RunningJob, *, everything: bool) -> dict[tuple[str, int], int]:
        """Return the bytes each future subtask must restore, by task and unit."""
        host_of = {unit: host.host for host in self._hosts for unit in host.units}
        held_bytes = dict(zip([spec.task for spec in job.topology.tasks], job.minutes[-1].state_bytes, strict=True))
        units = {change.task: change.units for change in self._changes}
        found = {}
        for spec in job.topology.tasks:
            if spec.stateful:
                before = job.held[spec.task]
                after = spread(before, units.get(spec.task, spec.units), spec.vnodes)
                gained: Mapping[int, int] = after if everything else to_restore(before, after, host_of)
                for unit, vnodes in gained.items():
                    found[spec.task, unit] = vnodes * held_bytes[spec.task] // spec.vnodes
        return found

    def _own_ms(self, restored: Mapping[tuple[str, int], int], host_of: Mapping[int, str]) -> tuple[int, ...]:
        """Return when each subtask's state is restored. A host restores one subtask at a time, in order of task and unit."""
        rate = self._cost.restore_bytes_per_s
        done: dict[str, int] = {}
        found = []
        for (_, unit), size in sorted(restored.items()):
            host = host_of[unit]
            done[host] = done.get(host, 0) + size
            found.append(0 if rate is None else round(1000 * done[host] / rate))
        return tuple(found)


def _by_host(restored: Mapping[tuple[str, int], int], host_of: Mapping[int, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for (_, unit), size in restored.items():
        found[host_of[unit]] = found.get(host_of[unit], 0) + size
    return found


def _served_at_most(job: RunningJob) -> float:
    """Return the records per minute that the slowest task can serve."""
    minutes = job.sized.service_minutes
    return min(spec.parallelism / float(each) for spec, each in zip(job.topology.tasks, minutes, strict=True) if each > 0)


def _latencies_s(job: RunningJob, first_minute: int) -> Sequence[float]:
    """Return the mean latency of each minute by Little's law, as in the job's report."""
    ledger = job.ledger
    pairs = zip(ledger.backlog_minutes[first_minute:], ledger.arrivals[first_minute:], strict=True)
    return [60 * (waited / entered + ledger.path_minutes) if entered else 0.0 for waited, entered in pairs]
