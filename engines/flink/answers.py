"""The parts of Flink's answers that are used, versions 1.20 to 2.3. Unknown fields are ignored.

Times are milliseconds since 1970; -1 and 0 stand for "not yet", as Flink writes them. A field that some version leaves out has a
default. A figure may be the string ``"NaN"``, which ``known`` makes None.
"""

import msgspec

from surescale.contracts.figures import known_count

Figure = int | float | str | None
"""A number, or the string ``"NaN"``."""

FAILURES_COUNTED = (
    "Checkpoint expired before completing.",
    "Checkpoint was declined.",
    "Asynchronous task checkpoint failed.",
    "An Exception occurred while triggering the checkpoint. IO-problem detected.",
)
"""What the message of a checkpoint ends with whose failure counts."""

NEVER_MS = 2**63 - 1
"""Flink's checkpoint interval of a job that takes none."""


def known(figure: Figure) -> int | None:
    """Return a count or time as an integer, None for what Flink does not know."""
    return known_count(figure)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the parts; Flink writes names in several ways, each class says which."""


class Overview(Part, frozen=True, rename="kebab"):
    """``GET /overview``: slots of the cluster."""

    flink_version: str
    taskmanagers: int
    slots_total: int
    slots_available: int


class JobEntry(Part, frozen=True, rename="kebab"):
    """One job of ``GET /jobs/overview``. ``job_type`` and ``scheduler_type`` are there from 2.3 on, null while it starts."""

    jid: str
    name: str
    state: str
    start_time: int
    end_time: int = -1
    job_type: str | None = msgspec.field(default=None, name="jobType")
    scheduler_type: str | None = msgspec.field(default=None, name="schedulerType")


class Jobs(Part, frozen=True):
    """``GET /jobs/overview``."""

    jobs: tuple[JobEntry, ...]


class IoMetrics(Part, frozen=True, rename="kebab"):
    """Counters since the attempt began, of one subtask or summed over those of a vertex; ``complete``: none is missing.

    Before anybody has asked for a job's figures, all are 0 and incomplete.
    """

    read_records: Figure = None
    read_records_complete: bool = False
    write_records: Figure = None
    write_records_complete: bool = False
    read_bytes: Figure = None
    read_bytes_complete: bool = False
    write_bytes: Figure = None
    write_bytes_complete: bool = False
    accumulated_busy_time: Figure = None
    accumulated_idle_time: Figure = None
    accumulated_backpressured_time: Figure = None

    @property
    def is_complete(self) -> bool:
        """Return whether all counters have been fetched and can be used: one that cannot is not 0."""
        return (
            self.read_records_complete and self.write_records_complete and self.read_bytes_complete and self.write_bytes_complete
        ) and None not in map(known, (self.read_records, self.write_records, self.read_bytes, self.write_bytes))


class Vertex(Part, frozen=True, rename="camel"):
    """A vertex in ``GET /jobs/:id``."""

    id: str
    name: str
    parallelism: int
    max_parallelism: int = -1
    status: str = ""
    slot_sharing_group_id: str = ""
    start_time: int = msgspec.field(default=-1, name="start-time")
    metrics: IoMetrics = IoMetrics()


class PlanInput(Part, frozen=True):
    """An edge into a node of the plan."""

    id: str
    num: int = 0
    ship_strategy: str = ""


class PlanNode(Part, frozen=True):
    """A node of the plan in ``GET /jobs/:id``; its id is the vertex'."""

    id: str
    inputs: tuple[PlanInput, ...] = ()


class Plan(Part, frozen=True):
    """The graph as it was submitted."""

    nodes: tuple[PlanNode, ...] = ()


class JobDetail(JobEntry, frozen=True, kw_only=True, rename="kebab"):
    """``GET /jobs/:id``."""

    now: int
    vertices: tuple[Vertex, ...] = ()
    plan: Plan = Plan()
    timestamps: dict[str, int] = {}
    duration: int = -1
    job_type: str | None = None  # another name than in the overview
    max_parallelism: int = msgspec.field(default=-1, name="maxParallelism")


class Subtask(Part, frozen=True, rename="kebab"):
    """A subtask in ``GET /jobs/:id/vertices/:vid``. ``attempt`` is this subtask's own: see ``identity.attempt_of``."""

    subtask: int
    status: str
    attempt: int = 0
    start_time: int = -1
    metrics: IoMetrics = IoMetrics()
    taskmanager_id: str = ""


class VertexDetail(Part, frozen=True, rename="camel"):
    """``GET /jobs/:id/vertices/:vid``."""

    id: str
    name: str
    parallelism: int
    now: int
    max_parallelism: int = -1
    subtasks: tuple[Subtask, ...] = ()


class ExecutionConfig(Part, frozen=True, rename="kebab"):
    """How the job's author configured it; ``user_config`` holds the job's own parameters."""

    user_config: dict[str, str] = {}


class JobConfig(Part, frozen=True, rename="kebab"):
    """``GET /jobs/:id/config``."""

    execution_config: ExecutionConfig | None = None


class CheckpointConfig(Part, frozen=True):
    """``GET /jobs/:id/checkpoints/config``."""

    mode: str = ""
    interval: int = NEVER_MS
    timeout: int = -1
    unaligned_checkpoints: bool = False

    @property
    def takes_checkpoints(self) -> bool:
        """Return whether the job takes checkpoints by itself."""
        return 0 < self.interval < NEVER_MS


class CheckpointCounts(Part, frozen=True):
    """How many checkpoints a job has taken since it was submitted."""

    restored: int = 0
    total: int = 0
    completed: int = 0
    failed: int = 0


class Checkpoint(Part, frozen=True):
    """One checkpoint of ``GET /jobs/:id/checkpoints``."""

    id: int
    status: str = ""
    is_savepoint: bool = False
    trigger_timestamp: int = -1
    latest_ack_timestamp: int = -1
    state_size: int = -1
    end_to_end_duration: int = -1
    failure_timestamp: int = -1
    failure_message: str | None = None

    @property
    def has_failed(self) -> bool:
        """Return whether it failed in a way that counts towards ``execution.checkpointing.tolerable-failed-checkpoints``.

        Others failed before they began, as while not all tasks run, or since something else happened to the job. Flink tells the
        reason only in words, the last ones of the message (``CheckpointFailureReason``; ``CheckpointFailureManager`` counts).
        """
        return (
            self.status == "FAILED" and not self.is_savepoint and (self.failure_message or "").strip().endswith(FAILURES_COUNTED)
        )


class Restored(Part, frozen=True):
    """The checkpoint that the running graph started from."""

    id: int
    restore_timestamp: int = -1
    is_savepoint: bool = False


class LatestCheckpoints(Part, frozen=True):
    """The newest checkpoint of each kind."""

    completed: Checkpoint | None = None
    savepoint: Checkpoint | None = None
    failed: Checkpoint | None = None
    restored: Restored | None = None


class Checkpoints(Part, frozen=True):
    """``GET /jobs/:id/checkpoints``."""

    counts: CheckpointCounts = CheckpointCounts()
    latest: LatestCheckpoints = LatestCheckpoints()
    history: tuple[Checkpoint, ...] = ()


class JobException(Part, frozen=True, rename="camel"):
    """One entry of a job's exceptions."""

    stacktrace: str = ""
    timestamp: int = -1


class ExceptionHistory(Part, frozen=True):
    """The newest exceptions first."""

    entries: tuple[JobException, ...] = ()


class Exceptions(Part, frozen=True, rename="camel"):
    """``GET /jobs/:id/exceptions``."""

    exception_history: ExceptionHistory = ExceptionHistory()


class Resources(Part, frozen=True, rename="camel"):
    """Resources of a TaskManager."""

    cpu_cores: float = 0.0


class Memory(Part, frozen=True, rename="camel"):
    """How a TaskManager's memory is configured, in bytes."""

    total_process_memory: int = 0


class Hardware(Part, frozen=True, rename="camel"):
    """The machine under a TaskManager."""

    cpu_cores: int = 0
    physical_memory: int = 0


class TaskManager(Part, frozen=True, rename="camel"):
    """One TaskManager of ``GET /taskmanagers``."""

    id: str
    slots_number: int
    free_slots: int
    path: str = ""
    total_resource: Resources = Resources()
    hardware: Hardware = Hardware()
    memory_configuration: Memory = Memory()
    blocked: bool = False


class TaskManagers(Part, frozen=True):
    """``GET /taskmanagers``."""

    taskmanagers: tuple[TaskManager, ...]


class ConfigEntry(Part, frozen=True):
    """One key of the configuration in force."""

    key: str
    value: str


class Metric(Part, frozen=True):
    """One metric over all subtasks of a vertex, of the aggregates that were asked for; or one without aggregate."""

    id: str
    min: Figure = None
    max: Figure = None
    avg: Figure = None
    sum: Figure = None
    value: Figure = None


class Bounds(Part, frozen=True, rename="camel"):
    """Least and most parallelism of a vertex. Flink runs as many subtasks as fit between the two."""

    lower_bound: int
    upper_bound: int


class Requirement(Part, frozen=True):
    """What Flink is asked for, for one vertex."""

    parallelism: Bounds


Requirements = dict[str, Requirement]
"""What Flink is asked for, by vertex id."""


class Requested(Part, frozen=True, rename="kebab"):
    """The answer to a request that is carried out later."""

    request_id: str


class SchedulerState(Part, frozen=True, rename="camel"):
    """One state of the scheduler during a rescale."""

    state: str
    enter_timestamp_in_millis: int | None = None


class RescaledVertex(Part, frozen=True, rename="camel"):
    """A vertex before and after a rescale; null where it did not run."""

    pre_rescale_parallelism: int | None = None
    post_rescale_parallelism: int | None = None


class Rescale(Part, frozen=True, rename="camel"):
    """One rescale, from 2.3 on."""

    rescale_uuid: str
    end_timestamp_in_millis: int | None = None
    terminal_state: str | None = None
    trigger_cause: str | None = None
    scheduler_states: tuple[SchedulerState, ...] = ()
    vertices: dict[str, RescaledVertex] = {}
