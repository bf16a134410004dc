"""The world as the rescaler sees it at one moment: hosts, jobs as their engine runs them, and what users allow.

Values only. `View` is the whole cluster; `World` is the part that one job's control looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.ids import Cluster
from surescale.contracts.job_labels import in_force
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, Host, JobTopology
from surescale.contracts.modes import ModeInForce, mode_in_force
from surescale.contracts.pauses import NO_PAUSES, Pauses, pauses_of
from surescale.contracts.topology import units_of
from surescale.rescaler.gate import Mode


@dataclass(frozen=True, slots=True)
class View:
    """The latest of every topology and setting; a job without settings has the defaults."""

    cluster: ClusterTopology | None = None
    jobs: Mapping[str, JobTopology] = field(default_factory=dict)
    settings: Mapping[str, JobSettings] = field(default_factory=dict)

    def settings_of(self, job: str) -> JobSettings:
        """Return what the user allows for a job, in its labels too."""
        topology = self.jobs.get(job)
        return in_force(self.settings.get(job) or JobSettings(job=job), topology.labels if topology else {})

    def mode_of(self, job: str) -> ModeInForce:
        """Return the mode that a job is in."""
        return mode_in_force(self.settings.get(job), self.jobs.get(job), self.engine)

    def pauses_of(self, job: str, now_ms: int) -> Pauses:
        """Return what is paused for a job."""
        return pauses_of(job, self.settings, now_ms)

    @property
    def engine(self) -> Capabilities | None:
        """What the cluster's engine can do; None: its topology is not known yet."""
        return self.cluster.engine if self.cluster else None

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Every live host, sorted by name."""
        return tuple(sorted(self.cluster.hosts, key=lambda host: host.host)) if self.cluster else ()


@dataclass(frozen=True, slots=True)
class World:
    """What one job's control sees."""

    cluster: Cluster
    now_ms: int
    """When the event being handled happened."""
    learned_ms: int
    """When we learned of it; never earlier."""
    topology: JobTopology | None
    """The job as the engine last described it."""
    allowed: JobSettings
    mode: ModeInForce
    engine: Capabilities
    """What the job's engine can do; of an unknown one, nothing."""
    hosts: tuple[Host, ...]
    placement_generation: int
    units_of_others: Callable[[], frozenset[int]]
    """Units that all other jobs hold or are about to hold; computed only when asked for."""
    pauses: Pauses = NO_PAUSES

    @property
    def by_counts(self) -> bool:
        """The engine is asked for a parallelism and chooses the places itself, or is only watched."""
        return self.engine.acts != "units"


def leaving_units(hosts: Iterable[Host]) -> set[int]:
    """Return the units on hosts that will be removed soon."""
    return {unit for host in hosts if host.state == "removed_soon" for unit in host.units}


def calling_jobs(view: View) -> set[str]:
    """Return jobs that need the rescaler without any decision: they wait for units, or sit on a host that will be removed."""
    leaving = leaving_units(view.hosts)
    if view.engine is not None and view.engine.acts != "units":
        return set()  # the engine starts and moves them by itself
    return {job for job, topology in view.jobs.items() if topology.state == "waiting" or units_of(topology) & leaving}


def running_jobs(view: View, now_ms: int, *, acting: bool) -> frozenset[str]:
    """Return jobs that have units; ``acting``: only those in mode act that nobody has paused in both directions."""
    running = (job for job, topology in view.jobs.items() if topology.state in ("running", "restarting"))
    return frozenset(job for job in running if not acting or _acts(view, job, now_ms))


def _acts(view: View, job: str, now_ms: int) -> bool:
    return view.mode_of(job).mode == "act" and not view.pauses_of(job, now_ms).stops_all


def parallelism_of(topology: JobTopology) -> dict[str, int]:
    """Return the parallelism of each task."""
    return {spec.task: spec.parallelism for spec in topology.tasks}


def mode_of(topology: JobTopology) -> Mode:
    """Return whether the job has running tasks; a job that restarts counts as running."""
    return Mode.WAITING if topology.state == "waiting" else Mode.EXECUTING
