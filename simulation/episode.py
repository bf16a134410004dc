"""Closed-loop episodes in process: any policy on simulated jobs, with the windows and the order of events of a road in lockstep.

What becomes of a decision is told by an ``Answer``. The default carries out all of it, one minute later, at the cost of a
restart; where a gate or a planner belongs in between, their room gives an answer of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from contracts.clock import MINUTE_MS
from contracts.commands import Progress, RescheduleCommand, TaskChange
from contracts.ids import command_id
from contracts.messages import Decision
from contracts.windows import Window
from simulation.engine import RunOptions, SimulatedCluster
from simulation.hosts import NewHost
from simulation.jobs import SizedJob
from simulation.refusals import EngineRefusal
from simulation.report import REWARD_LAMBDA, JobReport
from simulation.rescales import Rescale
from simulation.windows import WindowBuffer
from simulation.workload import Workload

Decide = Callable[[Window], Decision]


class Answer(Protocol):
    """What stands between a decision and the engine. At every minute's end: reports first, then time, then decisions."""

    def progressed(self, progress: Progress, now_ms: int, cluster: SimulatedCluster) -> Sequence[RescheduleCommand]:
        """Hear what an actuator would report of a command, and return further commands."""
        ...

    def ticked(self, now_ms: int, cluster: SimulatedCluster) -> Sequence[RescheduleCommand]:
        """Let a minute pass and return the commands that were due."""
        ...

    def decided(self, decision: Decision, now_ms: int, cluster: SimulatedCluster) -> Sequence[RescheduleCommand]:
        """Return the commands that a decision leads to at once."""
        ...


class ApplyAll:
    """Carries out every decision to act, all of it at once; while a job is still restarting, its decisions are dropped."""

    def progressed(self, progress: Progress, now_ms: int, cluster: SimulatedCluster) -> Sequence[RescheduleCommand]:
        """Ask for nothing more."""
        return ()

    def ticked(self, now_ms: int, cluster: SimulatedCluster) -> Sequence[RescheduleCommand]:
        """Ask for nothing by time."""
        return ()

    def decided(self, decision: Decision, now_ms: int, cluster: SimulatedCluster) -> Sequence[RescheduleCommand]:
        """Return one command, the units left to the engine."""
        job = cluster.job(decision.job)
        rescale = job.rescale_at(now_ms)
        is_under_way = rescale is not None and rescale.state in ("pending", "restarting")
        changes = tuple(
            TaskChange(task=task.task, before=task.current, after=task.desired)
            for task in decision.tasks
            if task.desired != task.current
        )
        if decision.action != "act" or not changes or is_under_way or job.is_waiting:
            return ()
        generation = job.topology.generation + 1
        return (
            RescheduleCommand(
                command_id=command_id(decision.job, generation, 0),
                cluster=cluster.options.cluster,
                job=decision.job,
                desired_generation=generation,
                step=0,
                base_placement_generation=0,
                decision_id=decision.decision_id,
                gate_reason="forced",
                gate_cause="every decision is carried out",
                issued_at_ms=now_ms,
                changes=changes,
            ),
        )


@dataclass(frozen=True, slots=True)
class Episode:
    """What an episode came to.

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

    ``decide`` gets the window that a road would have at that minute; the figures of the first ``first_counted_minute`` minutes of
    the run are left out of the reports.

    Raises:
        RunError: the run cannot be set up as asked.
    """
    cluster = SimulatedCluster(jobs, workload, options, hosts=hosts)
    loop = _Loop(cluster, decide, answer or ApplyAll())
    history = cluster.history()
    buffers = {job: WindowBuffer.after(history, window_minutes) for job in cluster.jobs}
    while not cluster.is_finished:
        cluster.advance(cluster.now_ms + MINUTE_MS)
        for job, buffer in buffers.items():
            buffer.add(cluster.jobs[job].minutes[-1])
        loop.hear()
        loop.tick()
        if cluster.now_ms % (span_minutes * MINUTE_MS) == 0:
            for job, buffer in buffers.items():
                if not cluster.jobs[job].is_waiting:
                    loop.ask(buffer.window())
    return Episode(
        reports={job: cluster.report(job, first_counted_minute, reward_lambda) for job in cluster.jobs},
        decisions=tuple(loop.decisions),
        commands=tuple(loop.commands),
        cluster=cluster,
    )


@dataclass(slots=True)
class _Loop:
    """Carries decisions to the answer, commands to the engine, and reports back."""

    cluster: SimulatedCluster
    decide: Decide
    answer: Answer
    decisions: list[Decision] = field(default_factory=list)
    commands: list[RescheduleCommand] = field(default_factory=list)
    _under_way: dict[str, RescheduleCommand] = field(default_factory=dict)  # command_id -> command
    _done_at_ms: dict[str, int] = field(default_factory=dict)  # command_id -> when it was last said to be over

    def hear(self) -> None:
        """Report the rescales that have ended, and the learners that are ready or were given up."""
        for command in sorted(self._under_way.values(), key=lambda command: command.job):
            self._hear_of(command)

    def _hear_of(self, command: RescheduleCommand) -> None:
        now_ms = self.cluster.now_ms
        rescale = self.cluster.job(command.job).rescale_at(now_ms)
        if rescale is None or rescale.command_id != command.command_id:
            return
        if rescale.state in ("done", "failed") and now_ms >= rescale.done_at_ms:
            del self._under_way[command.command_id]
            self._tell(_ended(command, rescale))
        elif rescale.state == "restarting" and rescale.done_at_ms > now_ms >= self._done_at_ms[command.command_id]:
            # A host that died meanwhile makes the job restart once more.
            self._done_at_ms[command.command_id] = rescale.done_at_ms
            self._tell(_report(command, "accepted", now_ms, duration_ms=rescale.done_at_ms - now_ms))

    def tick(self) -> None:
        """Let the answer do what is due."""
        self._carry_out(self.answer.ticked(self.cluster.now_ms, self.cluster))

    def ask(self, window: Window) -> None:
        """Decide on a window."""
        decision = self.decide(window)
        self.decisions.append(decision)
        self._carry_out(self.answer.decided(decision, self.cluster.now_ms, self.cluster))

    def _carry_out(self, commands: Sequence[RescheduleCommand]) -> None:
        for command in commands:
            if command.advice:
                continue
            now_ms = self.cluster.now_ms
            try:
                rescale = self.cluster.apply(command, now_ms)
            except EngineRefusal as refusal:
                self._tell(_report(command, "failed", now_ms, code=refusal.code, detail=refusal.message))
                continue
            self.commands.append(command)
            self._under_way[command.command_id] = command
            self._done_at_ms[command.command_id] = rescale.done_at_ms
            self._tell(_report(command, "accepted", now_ms, duration_ms=rescale.done_at_ms - now_ms))
            self._hear_of(command)

    def _tell(self, progress: Progress) -> None:
        self._carry_out(self.answer.progressed(progress, self.cluster.now_ms, self.cluster))


def _ended(command: RescheduleCommand, rescale: Rescale) -> Progress:
    if rescale.state == "failed":
        at_ms, units = rescale.done_at_ms, rescale.units
        return _report(command, "failed", at_ms, code=rescale.code, detail="the engine gave it up", units=units)
    duration_ms = rescale.done_at_ms - rescale.effective_at_ms
    return _report(command, "applied", rescale.done_at_ms, duration_ms=duration_ms, learners=rescale.learners)


def _report(
    command: RescheduleCommand,
    status: str,
    at_ms: int,
    *,
    duration_ms: int = 0,
    code: str = "",
    detail: str = "",
    units: tuple[int, ...] = (),
    learners: int = 0,
) -> Progress:
    return Progress(
        cluster=command.cluster,
        job=command.job,
        command_id=command.command_id,
        desired_generation=command.desired_generation,
        status=status,  # type: ignore[arg-type]  # accepted, applied or failed, by the callers above
        at_ms=at_ms,
        duration_ms=duration_ms,
        code=code,
        detail=detail,
        units=units,
        learners=learners,
    )
