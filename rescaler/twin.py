"""Twins: closed-loop episodes in the simulator with the rescaler's own controller and actuator between decision and engine.

Same gate, same planning, same way of carrying a command out, same order of events as a pipeline in lockstep: a twin of a policy
gives the parallelism that the pipeline gives with it. What it does not do: reach Kafka, an engine process, or a clock.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from surescale.contracts.capabilities import SIMULATED, Capabilities
from surescale.contracts.commands import Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.ids import Cluster, job_id
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import Host, JobTopology
from surescale.contracts.rent import RentCosts, rent_costs
from surescale.contracts.windows import Window
from surescale.engines.ports.actuator import CANNOT_WITHDRAW, Accepted, EngineRefused, JobStatus
from surescale.policies.decide import decide
from surescale.policies.policy import Policy
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.settings import ControlSettings
from surescale.rescaler.control.world import View
from surescale.rescaler.execution import CommandExecution
from surescale.rescaler.service.actuator import execution_of
from surescale.simulation.engine.checked_changes import EngineRefusal
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.engine.episode import Episode, run_episode
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload

ResultType = TypeVar("ResultType")


@dataclass(frozen=True, slots=True)
class EngineInProcess:
    """``EngineApi`` on a simulated cluster. It is never away."""

    cluster: SimulatedCluster

    def capabilities(self) -> Capabilities:
        """Return what the simulated engine can do."""
        return SIMULATED

    def request(self, command: RescheduleCommand) -> Accepted:
        """Ask the cluster to carry a command out; asking again gets the same answer."""
        rescale = _call(lambda: self.cluster.apply(command, self.cluster.now_ms))
        return Accepted(rescale.effective_at_ms, rescale.done_at_ms)

    def look(self, job: str) -> JobStatus:
        """Return how far the cluster is with a job."""
        running = _call(lambda: self.cluster.job(job))
        parallelism = {spec.task: spec.parallelism for spec in running.topology.tasks}
        return JobStatus(
            generation=running.topology.generation,
            rescale=running.rescale_at(self.cluster.now_ms),
            required={spec.task: spec.parallelism for spec in running.wanted_tasks},
            running=parallelism,
            state=running.state_at(self.cluster.now_ms),
        )

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Refuse: a command takes effect within a minute.

        Raises:
            EngineRefused: always.
        """
        raise EngineRefused(CANNOT_WITHDRAW, "the simulated engine carries out what it has accepted")


def _call(call: Callable[[], ResultType]) -> ResultType:
    """Return what the cluster answers; its refusals become the port's.

    Raises:
        EngineRefused: the cluster refused.
    """
    try:
        return call()
    except EngineRefusal as refusal:
        raise EngineRefused(refusal.code, refusal.message) from None


class InProcessRescaler:
    """Answers decisions as the rescaler does (``simulation.engine.episode.Answer``): controller and actuator, without Kafka.

    Attributes:
        commands: those that the engine accepted, in order.
        effects: everything that the controller said, in order.
        topologies: every topology that a job had at a minute's end, by job and version.
        hosts: every host that there was, by name.
    """

    def __init__(self, cluster: str, settings: ControlSettings, allowed: Mapping[str, JobSettings]) -> None:
        self.commands: list[RescheduleCommand] = []
        self.effects: list[Effects] = []
        self.topologies: dict[tuple[str, int], JobTopology] = {}
        self.hosts: dict[str, Host] = {}
        self._controller = Controller(Cluster(cluster), settings)
        self._allowed = dict(allowed)
        self._events_read = 0
        self._open: dict[str, CommandExecution] = {}  # per job its command under way

    def minute_ended(self, cluster: SimulatedCluster) -> None:
        """Report on the commands under way, then let the controller do what is due, checkpoints included."""
        for work in [self._open[job] for job in sorted(self._open)]:
            self._step(work, cluster)
        self._note(cluster)
        view, effects = self._view(cluster), Effects()
        for event in cluster.events[self._events_read :]:
            effects += self._controller.on_engine_event(event, view, cluster.now_ms)
        self._events_read = len(cluster.events)
        self._follow(effects + self._controller.on_tick(view, cluster.now_ms), cluster)

    def decided(self, decision: Decision, cluster: SimulatedCluster) -> None:
        """Hand a decision to the controller."""
        self._follow(self._controller.on_decision(decision, self._view(cluster), cluster.now_ms), cluster)

    def progressed(self, progress: Progress, cluster: SimulatedCluster) -> None:
        """Hand the actuator's report to the controller."""
        self._follow(self._controller.on_progress(progress, self._view(cluster), cluster.now_ms), cluster)

    def _follow(self, effects: Effects, cluster: SimulatedCluster) -> None:
        """Keep what the controller said and carry its commands out."""
        self.effects.append(effects)
        self._carry_out(effects.commands, cluster)

    def _carry_out(self, commands: Sequence[RescheduleCommand], cluster: SimulatedCluster) -> None:
        """Begin commands as the actuator's thread does: a newer command of a job supersedes the one under way."""
        for command in commands:
            if command.advice:
                continue
            before = self._open.get(command.job)
            work = self._open[command.job] = execution_of(command)
            if before is not None:
                self.progressed(before.superseded(cluster.now_ms), cluster)
            self._step(work, cluster)

    def _step(self, work: CommandExecution, cluster: SimulatedCluster) -> None:
        """Do what can be done now for one command; within a minute nothing is waited for, so pipeline time paces the calls."""
        is_new = not work.is_requested
        reports = work.step(EngineInProcess(cluster), now_ms=cluster.now_ms, wall_ms=cluster.now_ms)
        if is_new and work.is_requested:
            self.commands.append(work.command)
        if work.ended and self._open.get(work.command.job) is work:
            del self._open[work.command.job]
        for progress in reports:
            self.progressed(progress, cluster)

    def _note(self, cluster: SimulatedCluster) -> None:
        for name, job in cluster.jobs.items():
            self.topologies.setdefault((name, job.topology.version), job.topology)
        self.hosts |= {host.host: host for host in cluster.topology().hosts}

    def _view(self, cluster: SimulatedCluster) -> View:
        # As in the pipeline: a job's topology is announced with its finished minutes.
        jobs = {name: job.minutes[-1].topology if job.minutes else job.topology for name, job in cluster.jobs.items()}
        return View(cluster=cluster.topology(), jobs=jobs, settings=self._allowed)


@dataclass(frozen=True, slots=True)
class Twin(Episode):
    """An episode and its cost.

    Attributes:
        rents: in dollars, of each job and of all hosts in use.
    """

    rent_costs: RentCosts


def run_twin(
    jobs: Sequence[SizedJob],
    workload: Workload,
    policy: Policy,
    *,
    seed: int = 0,
    options: RunOptions | None = None,
    settings: ControlSettings | None = None,
    span_minutes: int | None = None,
    window_minutes: int = 60,
) -> Twin:
    """Run jobs under a workload with one policy, from decision to rescaled job as the pipeline does it.

    ``span_minutes`` None: the policy's own. Every job may have as many subtasks as it was sized for.

    Raises:
        RunError: the run cannot be set up as asked.
    """
    options = options or RunOptions()
    names: dict[str, SizedJob] = {job_id(options.cluster, job.name): job for job in jobs}
    allowed = {name: JobSettings(job=name, total_limit=job.total_limit) for name, job in names.items()}

    def decided(window: Window) -> Decision:
        return decide(window, policy, allowed[window.job], seed=seed)

    answer = InProcessRescaler(options.cluster, settings or ControlSettings(), allowed)
    episode = run_episode(
        jobs,
        workload,
        decided,
        answer,
        options=options,
        span_minutes=span_minutes or policy.span_minutes,
        window_minutes=window_minutes,
    )
    placements = {
        (command.job, command.desired_generation): command.placement for command in episode.commands if command.placement
    }
    cost = rent_costs(answer.topologies.values(), tuple(answer.hosts.values()), placements, episode.cluster.end_ms)
    return Twin(episode.reports, episode.decisions, episode.commands, episode.cluster, cost)
