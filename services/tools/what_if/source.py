"""What a what-if needs of a recording: the job's minutes, what decided on it, its settings, what its hosts cost."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from contracts.errors import RecordRejected, SettingsError
from contracts.ids import cluster_of
from contracts.job_settings import JobSettings
from contracts.messages import ClusterTopology, Host, JobTopology
from contracts.rent import rent_costs
from contracts.topics import CLUSTER_TOPOLOGY, JOB_TOPOLOGY
from contracts.topology import units_of
from contracts.wire import decode
from services.tools.calibrate.windows import windows_of
from services.tools.recording.replay import learn
from services.tools.recording.sources import FileSource
from services.tools.what_if.variants import AsRecorded
from simulation.calibration.recorded import Recorded, put_together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from contracts.windows import Window
    from services.tools.recording.format import Recording

_HOUR_S = 3_600


@dataclass(frozen=True, slots=True)
class ReplayInput:
    """What was taken from a recording."""

    recorded: Recorded
    first_window: "Window"
    in_force: AsRecorded
    seed: int


def read_input(opened: "Recording", job: str, folder: str, span_minutes: int) -> ReplayInput:
    """Return what a recording says about a job; ``span_minutes`` holds where no rule decided twice.

    Raises:
        SettingsError: the recording has no window of the job.
        CalibrationError: the windows cannot be put together.
        RecordingRejected: the file is damaged.
    """
    windows = _First(windows_of(opened, job))
    recorded = put_together(job, windows)
    known = learn(FileSource(opened), frozenset((job,)))
    settings = next((each.settings for each in opened.header.jobs if each.job == job and each.settings), None)
    in_force = AsRecorded(
        policy=known.policy() if known.asked else settings.policy if settings else None,
        settings=settings or JobSettings(job=job),
        span_minutes=known.span_minutes(span_minutes),
        price=_price(opened, job, recorded.last_ms),
        folder=folder,
        tasks=tuple(name for spec in recorded.topology.tasks for name in (spec.task, spec.label) if name),
    )
    if windows.first is None:
        raise SettingsError(f"{opened.path}: it has no windows of {job}")
    return ReplayInput(recorded, windows.first, in_force, known.seed(0))


class _First:
    """Passes windows on and keeps the first one."""

    def __init__(self, windows: "Iterator[Window]") -> None:
        self._windows = windows
        self.first: Window | None = None

    def __iter__(self) -> "Iterator[Window]":
        for window in self._windows:
            self.first = self.first or window
            yield window


def _price(opened: "Recording", job: str, until_ms: int) -> float | None:
    """Return what a subtask of the job cost in an hour: the rent of its hosts over its subtask-hours; None if they have no price.

    Where the engine itself places subtasks, it is the mean price of a slot.
    """
    topologies: list[JobTopology] = []
    hosts: dict[str, Host] = {}
    for record in opened.records():
        try:
            if record.topic == CLUSTER_TOPOLOGY:
                cluster = decode(record.value, ClusterTopology)
                if cluster.cluster == cluster_of(job):
                    hosts |= {host.host: host for host in cluster.hosts}
            elif record.topic == JOB_TOPOLOGY:
                topology = decode(record.value, JobTopology)
                if topology.job == job:
                    topologies.append(topology)
        except RecordRejected:
            continue  # it was not in force in the pipeline either
    if any(units_of(topology) for topology in topologies):
        dollars = rent_costs(topologies, list(hosts.values()), {}, until_ms).jobs[job].dollars
        hours = _subtask_hours(topologies, until_ms)
        return dollars / hours if dollars and hours else None
    room = sum(host.slots or len(host.units) for host in hosts.values())
    rent = sum(host.price_per_s for host in hosts.values())
    return rent * _HOUR_S / room if room and rent else None


def _subtask_hours(topologies: list[JobTopology], until_ms: int) -> float:
    ordered = sorted(topologies, key=lambda each: (each.at_ms, each.version))
    ends = [*(each.at_ms for each in ordered[1:]), until_ms]
    return sum(
        sum(spec.parallelism for spec in each.tasks if spec.scalable) * max(0, min(end, until_ms) - each.at_ms)
        for each, end in zip(ordered, ends, strict=True)
    ) / (1_000 * _HOUR_S)
