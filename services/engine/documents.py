"""The documents of the simulated engine's HTTP API. Those that have the form of a message in the pipeline are that message.

Times (``_ms``) are milliseconds since the epoch, of the pipeline's clock unless they say wall.
"""

import msgspec

from surescale.contracts.commands import Rescale
from surescale.contracts.messages import EngineEvent, HourlyLoad, JobTopology, TaskSample
from surescale.simulation.engine.job_report import JobReport


class RunDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of the run."""

    minutes: int
    """Minutes of the trace to run."""
    minutes_done: int
    """Minutes that have passed."""
    start_ms: int
    """Beginning of the run."""
    end_ms: int
    """End of the run."""
    now_ms: int
    """Time of the pipeline's clock."""
    started: bool
    """Whether the trace has started."""
    finished: bool
    """Whether the run is over."""
    misses: int
    """Answers that did not arrive in time."""
    waiting_for: list[str]
    """What the clock is waiting for at its stop, in words; empty while it moves."""


class EngineHealth(RunDocument, frozen=True, kw_only=True):
    """Answer of ``GET /health``."""

    role: str
    """Always ``engine``."""
    ready: bool
    """Whether Kafka is connected."""


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """A job in the list of jobs."""

    job: str
    """Id of the job, ``cluster/name``."""
    state: str
    """State at the clock's time."""


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of ``GET /jobs``."""

    jobs: list[JobState]
    """All jobs."""


class StandbyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of the state of one parallel unit."""

    unit: int
    """Id of the unit."""
    host: str
    """Host that keeps the copy."""
    lag_bytes: int
    """State that it still has to restore."""
    ready: bool
    """Whether the copy can take over."""


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of ``GET /jobs/{name}``."""

    job: str
    """Id of the job, ``cluster/name``."""
    state: str
    """State at the clock's time."""
    topology: JobTopology
    """Its topology."""
    required: dict[str, int]
    """Parallelism of each task once the accepted command has taken effect; without one, as it is."""
    generation: int
    """Generation that the engine has applied."""
    rescale: Rescale | None
    """Its latest rescale."""
    standbys: list[StandbyDocument]
    """Copies of its state, by unit and host."""


class MinuteDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One finished minute of a job."""

    minute_end_ms: int
    """End of the minute."""
    samples: list[TaskSample]
    """Samples of every subtask, in order of time."""
    topology: JobTopology
    """The job's topology in that minute."""
    reached_wall_ms: int
    """Wall time at which the pipeline's clock reached the end of the minute."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of ``GET /jobs/{name}/figures``."""

    minutes: list[msgspec.Raw]
    """Finished minutes (`MinuteDocument`), oldest first; not more than one answer can hold."""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of ``GET /jobs/{name}/history``."""

    hours: tuple[HourlyLoad, ...]
    """Load of the hours before the run."""


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of ``GET /events``."""

    events: list[EngineEvent]
    """Events in order of sequence."""


class AcceptedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of ``PUT /jobs/{name}/resource-requirements``."""

    command_id: str
    """Identity of the command."""
    effective_at_ms: int
    """When the job changes."""
    done_at_ms: int
    """When it is expected to run again."""


class DyingHost(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of ``DELETE /hosts/{host}``."""

    host: str
    """Name of the host."""
    effective_at_ms: int
    """When it dies."""


class ReportedJob(JobReport, frozen=True, kw_only=True):
    """Figures of one job over the run so far; ``task_parallelism`` is absent unless ``?tasks`` asks for it."""

    state: str
    """State at the clock's time."""
    rescale: Rescale | None
    """Its latest rescale."""


class EngineReport(RunDocument, frozen=True, kw_only=True):
    """Answer of ``GET /report``."""

    jobs: dict[str, ReportedJob]
    """By id of the job."""


class EngineError(msgspec.Struct, frozen=True, kw_only=True):
    """Answer with a status of 400 or more."""

    code: str
    """One word for programs."""
    message: str
    """A sentence for people."""
