"""Closed-loop episodes in one process: any policy on simulated jobs, with a pipeline's windows and order of events in lockstep.

An episode lets time pass, minute by minute, and asks for decisions at the end of every span. An ``Answer`` acts on them. The
default applies every decision in full, one minute later, at the cost of a restart. A room with a gate or a planner brings an
answer of its own (``rescaler.twin``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from contracts.clock import MINUTE_MS
from contracts.commands import RescheduleCommand, TaskChange
from contracts.decisions import Decision
from contracts.ids import command_id
from contracts.windows import Window
from simulation.engine.cluster import RunOptions, SimulatedCluster
from simulation.engine.hosts import NewHost
from simulation.engine.job_report import JobReport
from simulation.engine.refusals import EngineRefusal
from simulation.engine.window_buffer import WindowBuffer
from simulation.load.jobs import SizedJob
from simulation.load.workload import Workload
from simulation.model.reward import REWARD_LAMBDA

Decide = Callable[[Window], Decision | None]


class Answer(Protocol):
    """What stands between decisions and the engine. It asks the engine for changes itself."""

    @property
    def commands(self) -> Sequence[RescheduleCommand]:
        """Return the commands that the engine has accepted, in order."""
        ...

    def minute_ended(self, cluster: SimulatedCluster) -> None:
        """Do what is due at the end of a minute, before any decision is made."""
        ...

    def decided(self, decision: Decision, cluster: SimulatedCluster) -> None:
        """Act on a decision."""
        ...


class ApplyAll:
    """Applies every decision to act, in full; while a job is still restarting, its decisions are dropped."""

    def __init__(self) -> None:
        self.commands: list[RescheduleCommand] = []

    def minute_ended(self, cluster: SimulatedCluster) -> None:
        """Do nothing."""

    def decided(self, decision: Decision, cluster: SimulatedCluster) -> None:
        """Apply one command and leave the choice of units to the engine; what the engine refuses is dropped."""
        command = _command(decision, cluster)
        if command is None:
            return
        try:
            cluster.apply(command, cluster.now_ms)
        except EngineRefusal:
            return
        self.commands.append(command)


def _command(decision: Decision, cluster: SimulatedCluster) -> RescheduleCommand | None:
    job = cluster.job(decision.job)
    rescale = job.rescale_at(cluster.now_ms)
    changes = tuple(
        TaskChange(task=task.task, before=task.current, after=task.desired)
        for task in decision.tasks
        if task.desired != task.current
    )
    if decision.action != "act" or not changes or job.is_waiting or (rescale is not None and rescale.is_under_way):
        return None
    generation = job.topology.generation + 1
    return RescheduleCommand(
        command_id=command_id(decision.job, generation, 0),
        cluster=cluster.options.cluster,
        job=decision.job,
        desired_generation=generation,
        step=0,
        base_placement_generation=0,
        decision_id=decision.decision_id,
        gate_reason="forced",
        gate_cause="every decision is carried out",
        issued_at_ms=cluster.now_ms,
        changes=changes,
    )


@dataclass(frozen=True, slots=True)
class Episode:
    """The result of an episode.

    Attributes:
        reports: per job id, its figures over the minutes counted.
        decisions: in the order in which they were made.
        commands: those that the engine accepted, in order.
        cluster: the engine at the end of the run.
    """

    reports: dict[str, JobReport]
    decisions: tuple[Decision, ...]
    commands: tuple[RescheduleCommand, ...]
    cluster: SimulatedCluster


def run_episode(
    jobs: Sequence[SizedJob],
    workload: Workload,
    decide: Decide,
    answer: Answer | None = None,
    *,
    options: RunOptions | None = None,
    hosts: Sequence[NewHost] | None = None,
    span_minutes: int = 10,
    window_minutes: int = 60,
    first_counted_minute: int = 0,
    reward_lambda: float = REWARD_LAMBDA,
) -> Episode:
    """Run jobs under a workload, deciding at the end of every span (minutes since the epoch divisible by ``span_minutes``).

    ``decide`` gets the window that a pipeline would have at that minute, and may return None: nothing is due. The figures of the
    first ``first_counted_minute`` minutes of the run are left out of the reports.

    Raises:
        RunError: the run cannot be set up as asked.
    """
    cluster = SimulatedCluster(jobs, workload, options, hosts=hosts)
    answer = answer or ApplyAll()
    history = cluster.history()
    buffers = {job: WindowBuffer.after(history, window_minutes) for job in cluster.jobs}
    decisions: list[Decision] = []
    while not cluster.is_finished:
        cluster.advance(cluster.now_ms + MINUTE_MS)
        for job, buffer in buffers.items():
            buffer.add(cluster.jobs[job].minutes[-1])
        answer.minute_ended(cluster)
        if cluster.now_ms % (span_minutes * MINUTE_MS) == 0:
            for job, buffer in buffers.items():
                if not cluster.jobs[job].is_waiting:
                    decision = decide(buffer.window())
                    if decision is not None:
                        decisions.append(decision)
                        answer.decided(decision, cluster)
    return Episode(
        reports={job: cluster.report(job, first_counted_minute, reward_lambda) for job in cluster.jobs},
        decisions=tuple(decisions),
        commands=tuple(answer.commands),
        cluster=cluster,
    )
