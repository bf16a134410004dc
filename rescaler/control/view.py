"""What the rescaler sees of the world at one moment: hosts, jobs as their engine runs them, and what users allow.

Values only. What it does not do: read topics (`rescaler.service.views` does), or remember.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from contracts.messages import ClusterTopology, Host, JobSettings, JobTopology, TaskSpec
from contracts.topology import units_of
from rescaler.control.memory import JobMemory
from rescaler.gate import Mode

SHOWN_WITHIN_MS = 120_000
"""A topology that is younger than a command's end by more than this would show it."""


@dataclass(frozen=True, slots=True)
class View:
    """The latest of every topology and setting; a job without settings has the defaults."""

    cluster: ClusterTopology | None = None
    jobs: Mapping[str, JobTopology] = field(default_factory=dict)
    settings: Mapping[str, JobSettings] = field(default_factory=dict)

    def settings_of(self, job: str) -> JobSettings:
        """What the user allows for a job."""
        return self.settings.get(job) or JobSettings(job=job)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Every host that is alive, by name."""
        return tuple(sorted(self.cluster.hosts, key=lambda host: host.host)) if self.cluster else ()


def calling_jobs(view: View) -> set[str]:
    """Jobs that need the rescaler without any decision: they wait without units, or have some on a host that will be removed."""
    leaving = {unit for host in view.hosts if host.state == "removed_soon" for unit in host.units}
    return {job for job, topology in view.jobs.items() if topology.state == "waiting" or units_of(topology) & leaving}


def is_behind(topology: JobTopology, memory: JobMemory) -> bool:
    """Say whether the command last carried out may not have reached the topic yet.

    A topology from long after its end that does not show it is one of a job that was submitted again, whose generations begin
    anew: it counts as it is.
    """
    is_younger = memory.applied_at_ms > 0 and topology.at_ms > memory.applied_at_ms + SHOWN_WITHIN_MS
    return topology.generation < memory.applied_generation and not is_younger


def observed(topology: JobTopology, memory: JobMemory) -> JobTopology:
    """The topology as it must be now: a command known to be carried out may not have reached the topic yet."""
    if not memory.applied_units or not is_behind(topology, memory):
        return topology
    tasks = tuple(_with_units(spec, memory.applied_units.get(spec.task)) for spec in topology.tasks)
    state = "running" if topology.state == "waiting" else topology.state
    return msgspec.structs.replace(topology, tasks=tasks, generation=memory.applied_generation, state=state)


def _with_units(spec: TaskSpec, units: tuple[int, ...] | None) -> TaskSpec:
    return spec if not units else msgspec.structs.replace(spec, units=units, parallelism=len(units))


def parallelism_of(topology: JobTopology) -> dict[str, int]:
    """Parallelism per task."""
    return {spec.task: spec.parallelism for spec in topology.tasks}


def mode_of(topology: JobTopology) -> Mode:
    """Whether the job has running tasks; one that restarts counts as running."""
    return Mode.WAITING if topology.state == "waiting" else Mode.EXECUTING
