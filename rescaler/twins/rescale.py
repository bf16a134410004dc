"""One rescale, three ways, in the simulated engine: stop and restore everything, move state cold, or warm learners first.

Each way is a run of its own of the same job under the same load, with the engine's own rules for restoring (`simulation.costs`,
`simulation.warming`):

- *restart*: the job stops, all its state is restored from a checkpoint on the hosts that will own it, the job starts.
- *cold*: only what changes its host is restored, while the job stands still.
- *learners*: what changes its host is restored while the job runs on; then it stands still for a barrier.

The simulated engine stops a job as a whole, so in every way each task pauses for as long as the slowest one needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from contracts.clock import MINUTE_MS
from contracts.commands import RescheduleCommand
from contracts.messages import Host
from rescaler.twins import changes as planning
from rescaler.twins.delays import Delays, delays
from simulation.costs import RestartCost, with_learners
from simulation.engine import RunOptions, SimulatedCluster
from simulation.jobs import SizedJob
from simulation.ownership import spread, to_restore
from simulation.refusals import RunError
from simulation.running import RunningJob
from simulation.workload import Workload

Way = Literal["restart", "cold", "learners"]
Scenario = Literal["wider", "drain"]
WAYS: tuple[Way, ...] = get_args(Way)
SCENARIOS: tuple[Scenario, ...] = get_args(Scenario)

QUIET_MINUTES = 10
"""Before the rescale is asked for."""
RUN_MINUTES = 150
_LEARNERS_MINUTES_MAX = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one way of one rescale came to."""

    way: Way
    pause_ms: int
    """That each task of the job stood still."""
    own_ms: tuple[int, ...]
    """Per subtask whose state is restored while the job stands still: how long its host took until it was done."""
    moved_bytes: int
    """State restored, in the pause or before it."""
    asked_to_done_ms: int
    """From the command until the job runs as wanted."""
    worst_minute_s: float
    """The highest mean latency of a minute, as the simulator reports it."""
    backlog_minutes: float
    """Record-minutes waited from the command on, by the simulator's own steps of 15 s."""
    delays: Delays
    """Of the records that enter from the command on."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All ways of one rescale of one job."""

    job: str
    tasks: int
    scenario: Scenario
    path_s: float
    """The time a record spends in the job where nothing waits; no record waited before the rescale."""
    outcomes: tuple[Outcome, ...]

    @property
    def settled_ms(self) -> int:
        """From the command until the slowest way has caught up: the change, over which latencies are compared."""
        return max(max(outcome.asked_to_done_ms, outcome.delays.settled_ms) for outcome in self.outcomes)

    def p99_s(self, outcome: Outcome) -> float:
        """The 99th percentile of latency over the records that entered during the change."""
        return outcome.delays.p99_s(self.path_s, self.settled_ms)


def compare(sized: SizedJob, workload: Workload, scenario: Scenario, cost: RestartCost | None = None) -> Comparison:
    """Carry out one rescale in every way.

    ``cost``: of the engine with learners; its ``restart_ms`` is what a restart takes beside restoring.

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
    """The job and its rescale, planned once on a run in which nothing is rescaled."""

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

    def run(self, way: Way) -> Outcome:
        """Carry the rescale out in one way."""
        cost = self._cost
        if way == "restart":
            # All state is restored at the same rate; the engine would count only what moves.
            cost = replace(cost, mode="restart", restart_ms=self._restart_ms, restore_bytes_per_s=None)
        elif way == "cold":
            cost = replace(cost, restart_ms=0)
        cluster, job = self._started(cost)
        restored = self._to_restore(job, everything=way == "restart")
        served_before = _served_at_most(job)
        if way == "learners":
            self._warm(cluster, job)
            restored = self._to_restore(job, everything=False)  # with what was written meanwhile
        rescale = cluster.apply(self._command(job, "commit", cluster.now_ms), cluster.now_ms)
        cluster.advance(rescale.done_at_ms + MINUTE_MS)
        settled = job.rescale_at(cluster.now_ms)
        assert settled is not None
        assert settled.state == "done", settled
        cluster.advance(cluster.end_ms)
        pause_ms = settled.done_at_ms - settled.effective_at_ms
        return Outcome(
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
        """The run up to the command."""
        cluster = SimulatedCluster([self._sized], self._workload, RunOptions(minutes=RUN_MINUTES, cost=cost))
        cluster.advance(cluster.start_ms + QUIET_MINUTES * MINUTE_MS)
        job = cluster.job(self._sized.name)
        if self._scenario == "drain":
            first_unit = job.topology.tasks[1].units[0]
            cluster.host_leaves(cluster.hosts.host_of()[first_unit])
        return cluster, job

    def _warm(self, cluster: SimulatedCluster, job: RunningJob) -> None:
        """Let learners restore until they may take over."""
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
        """Whether the next round of learner assignment promotes every learner, from the lags that the engine shows."""
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
        """Bytes that each subtask to be must restore, by task and unit."""
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
        """When each subtask's state is there, hosts restoring one after the other in order of task and unit."""
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
    """Records per minute that the slowest task serves."""
    minutes = job.sized.service_minutes
    return min(spec.parallelism / float(each) for spec, each in zip(job.topology.tasks, minutes, strict=True) if each > 0)


def _latencies_s(job: RunningJob, first_minute: int) -> Sequence[float]:
    """Mean latency of each minute (Little's law), as the job's report takes it."""
    ledger = job.ledger
    pairs = zip(ledger.backlog_minutes[first_minute:], ledger.arrivals[first_minute:], strict=True)
    return [60 * (waited / entered + ledger.path_minutes) if entered else 0.0 for waited, entered in pairs]
