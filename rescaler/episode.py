"""Twins: closed-loop episodes in the simulator with the rescaler's own controller between decision and engine.

Same gate, same planning, same order of events as a road in lockstep, so that a twin of a policy gives the parallelism that the
road gives with it. What it does not do: reach Kafka, an engine process, or a clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contracts.commands import Progress, RescheduleCommand
from contracts.ids import Cluster, job_id
from contracts.messages import Decision, Host, JobSettings, JobTopology
from contracts.rent import Rents, rents
from contracts.windows import Window
from policies.decide import decide
from policies.policy import Policy
from rescaler.control.controller import Controller, Effects
from rescaler.control.situation import ControlSettings
from rescaler.control.view import View
from simulation.engine import RunOptions, SimulatedCluster
from simulation.episode import Episode, run_episode
from simulation.jobs import SizedJob
from simulation.workload import Workload


class ControllerAnswer:
    """Answers decisions as the rescaler does (``simulation.episode.Answer``).

    Attributes:
        effects: everything that the controller said, in order.
        topologies: every topology that a job had at a minute's end, by job and version.
        hosts: every host that there was, by name.
    """

    def __init__(self, cluster: str, settings: ControlSettings, allowed: Mapping[str, JobSettings]) -> None:
        self.effects: list[Effects] = []
        self.topologies: dict[tuple[str, int], JobTopology] = {}
        self.hosts: dict[str, Host] = {}
        self._controller = Controller(Cluster(cluster), settings)
        self._allowed = dict(allowed)
        self._events_heard = 0

    def progressed(self, progress: Progress, now_ms: int, cluster: SimulatedCluster) -> Sequence[RescheduleCommand]:
        """Hear how a command goes."""
        return self._commands(self._controller.on_progress(progress, self._view(cluster), now_ms))

    def ticked(self, now_ms: int, cluster: SimulatedCluster) -> Sequence[RescheduleCommand]:
        """Let time pass, checkpoints included."""
        self._note(cluster)
        view, effects = self._view(cluster), Effects()
        for event in cluster.events[self._events_heard :]:
            effects += self._controller.on_engine_event(event, view, now_ms)
        self._events_heard = len(cluster.events)
        return self._commands(effects + self._controller.on_tick(view, now_ms))

    def decided(self, decision: Decision, now_ms: int, cluster: SimulatedCluster) -> Sequence[RescheduleCommand]:
        """Take a decision on."""
        return self._commands(self._controller.on_decision(decision, self._view(cluster), now_ms))

    def _note(self, cluster: SimulatedCluster) -> None:
        for name, job in cluster.jobs.items():
            self.topologies.setdefault((name, job.topology.version), job.topology)
        self.hosts |= {host.host: host for host in cluster.topology().hosts}

    def _commands(self, effects: Effects) -> tuple[RescheduleCommand, ...]:
        self.effects.append(effects)
        return effects.commands

    def _view(self, cluster: SimulatedCluster) -> View:
        # As on the road: what a job looks like is told with its finished minutes.
        jobs = {name: job.minutes[-1].topology if job.minutes else job.topology for name, job in cluster.jobs.items()}
        return View(cluster=cluster.topology(), jobs=jobs, settings=self._allowed)


@dataclass(frozen=True, slots=True)
class Twin(Episode):
    """An episode with what it cost.

    Attributes:
        rents: in dollars, of each job and of all hosts in use.
    """

    rents: Rents


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
    """Run jobs under a workload with one policy, from decision to rescaled job as the road does it.

    ``span_minutes`` None: the policy's own. Every job may have as many subtasks as it was sized for.

    Raises:
        RunError: the run cannot be set up as asked.
    """
    options = options or RunOptions()
    names: dict[str, SizedJob] = {job_id(options.cluster, job.name): job for job in jobs}
    allowed = {name: JobSettings(job=name, total_limit=job.total_limit) for name, job in names.items()}

    def decided(window: Window) -> Decision:
        return decide(window, policy, allowed[window.job], seed=seed)

    answer = ControllerAnswer(options.cluster, settings or ControlSettings(), allowed)
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
    cost = rents(answer.topologies.values(), tuple(answer.hosts.values()), placements, episode.cluster.end_ms)
    return Twin(episode.reports, episode.decisions, episode.commands, episode.cluster, cost)
