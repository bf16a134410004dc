"""One frozen struct per kind of record. The tag ``type`` names kind and schema version: ``sample/1``.

Times are integer milliseconds of the pipeline's clock (``_ms``), sizes bytes (``_bytes``), money dollars. ``contracts.wire``
encodes them. Decisions are in ``contracts.decisions``, job settings in ``contracts.job_settings``, commands and their outcomes in
``contracts.commands``, releases of policies in ``contracts.releases``.

Every field is written: null is what is unknown or not set, and a default is written out, so that a record can be read without
knowing the defaults. Only ``TaskSample``, of which there are many, leaves out fields at their default. What a record lacks has
its default: that is how fields are added inside one version. A change of meaning is a new version (docs/upgrade.md).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from surescale.contracts.capabilities import SIMULATED, Capabilities
from surescale.contracts.errors import RecordRejected
from surescale.contracts.free_text import LETTERS_MAX

Text = Annotated[str, Meta(min_length=1, max_length=LETTERS_MAX)]
Sentence = Annotated[str, Meta(min_length=1, max_length=1024)]  # for people, with figures in it
Identity = Annotated[str, Meta(min_length=1, max_length=1024)]  # made of several names (`contracts.ids`), so longer than one
Label = Annotated[str, Meta(max_length=1024)]  # a name or an id that may be empty; of two, if one did it for the other
REMARK_LETTERS_MAX = 4_096
Remark = Annotated[str, Meta(max_length=REMARK_LETTERS_MAX)]  # for people, longer than a sentence; may be empty
Count = Annotated[int, Meta(ge=0, le=2**53)]
TIME_MS_MAX = 2**53
"""The last instant that a record can hold."""
TimeMs = Annotated[int, Meta(ge=0, le=TIME_MS_MAX)]
Parallelism = Annotated[int, Meta(ge=1, le=1_000_000)]
Carries = tuple[Parallelism, Annotated[float, Meta(gt=0.0, le=1_000_000.0)]]
Size = Annotated[int, Meta(ge=0, le=1_000_000)]  # of a task that is asked for; 0: it is at rest
Permille = Annotated[int, Meta(ge=0, le=1000)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
# `$` alone would let a line break follow.
PlainName = Annotated[  # may become a file's name; `*` stands for all jobs
    str, Meta(min_length=1, max_length=256, pattern=r"^(?!(\.|\.\.|\*)$)[^/\\\x00-\x1f\x7f]+$(?!\n)")
]
JobState = Literal["running", "restarting", "waiting", "finished", "failed", "created", "suspended", "resting"]
Sha256 = Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?$(?!\n)")]  # empty: of something without a file


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of every record that travels on its own."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the parts inside a record."""


# --- task-metrics -----------------------------------------------------------------------------------------------------------


class ReceivedRecords(Part, frozen=True, kw_only=True):
    """Records that a subtask got from one upstream task since its attempt began."""

    task: Text
    records: Count


class TaskSample(Message, frozen=True, kw_only=True, tag="sample/1", omit_defaults=True):
    """The counters of one subtask since its attempt began. Identity: (job, task, subtask, attempt, sampled_at_ms).

    All figures except ``queued_records``, ``parallelism``, ``state_bytes``, the two pools and the watermark's lag are cumulative
    within the attempt and start at 0. ``attempt`` numbers the job's execution graphs: one number for all its subtasks, which
    grows with each restart and rescale. A figure that the engine does not know is null, never 0. If it is null in one subtask,
    the task's sum is unknown.

    ``arrived_records`` alone goes on counting across attempts, since records arrive while a job is down: the sum over a task's
    subtasks never falls. Split it among them in any way.
    """

    job: Text
    task: Text
    subtask: Count
    attempt: Count
    sampled_at_ms: TimeMs
    records_in: Count
    records_out: Count
    bytes_in: Count
    bytes_out: Count
    busy_ms: Count | None
    idle_ms: Count | None
    backpressured_ms: Count | None
    queued_records: Count | None  # waiting now, not cumulative; of a source: still in the broker
    parallelism: Parallelism  # of the task, now
    state_bytes: Count = 0  # now
    queue_wait_record_ms: Count | None = None  # sum over records of the time spent waiting
    latency_record_ms: Count | None = None  # sum over records of the time from arrival to completion at this task
    arrived_records: Count | None = None  # at a source: came in at the door, taken or still waiting; across attempts
    received: tuple[ReceivedRecords, ...] = ()  # records by upstream task, where the engine counts them
    in_pool_permille: Permille | None = None  # of the buffers for input, in use now
    out_pool_permille: Permille | None = None
    watermark_lag_ms: Count | None = None  # the watermark's distance from the clock now
    as_of_ms: TimeMs | None = None  # when the figures were true, if earlier than ``sampled_at_ms``


class Input(Part, frozen=True, kw_only=True):
    """One edge into a task, and how records travel along it."""

    task: Text
    ship: Literal["forward", "hash", "rebalance", "rescale", "broadcast", "other"] = "other"


class TaskMemory(Part, frozen=True, kw_only=True):
    """Memory of the process that runs a task, of the one that has least room if several do. Null: unknown, never 0."""

    gc_share: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None  # of the last minute, stood still to collect garbage
    heap_share: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None  # used of the largest heap, with what is garbage
    managed_share: Annotated[float, Meta(ge=0.0, le=1.0)] | None = None  # used of what Flink manages itself


class TaskSpec(Part, frozen=True, kw_only=True):
    """One vertex of a job's graph as the engine runs it."""

    task: Text
    upstream: tuple[Text, ...] = ()
    parallelism: Parallelism = 1  # running; while the job does not run, the last one that ran
    max_parallelism: Parallelism = 10
    scalable: bool = True  # false for the virtual source and sink, whose parallelism stays 1
    stateful: bool = False
    sharing_group: Text = "default"
    configured_parallelism: Parallelism | None = None  # what the job's author asked for
    units: tuple[Count, ...] = ()  # parallel unit of each subtask, in order of subtask index; empty where the engine places
    vnodes: Annotated[int, Meta(ge=1, le=65_536)] = 256
    label: Label = ""  # the name people know the task by, where ``task`` is an engine's id
    inputs: tuple[Input, ...] = ()  # the same edges as ``upstream``; empty: how records travel is unknown
    tied: Label = ""  # tasks of one name are connected forward and keep one parallelism
    # What the engine was asked for; 0: to rest. It differs from ``parallelism`` while slots are missing.
    required: Size | None = None
    useful_max: Parallelism | None = None  # more subtasks than this would get no records, e.g. the partitions of a source
    # Where partitions are unequal: sizes from 1 up, and how many even subtasks each is as fast as; a size between is as fast as
    # the one before it. Empty: all are alike, or nobody knows. A change of it makes no version.
    carries: Annotated[tuple[Carries, ...], Meta(max_length=256)] = ()
    state: Literal["running", "starting", "finished"] = "running"
    hindrance: Annotated[str, Meta(max_length=512)] = ""  # for people: why no subtask runs, or more of them would not help
    fixed: Annotated[str, Meta(max_length=512)] = ""  # for people: why no other size can be asked for now, and what to do
    # For people: why a part of what waits is unknown, so that what is counted is the least; empty: all of it is known, or none.
    backlog_partly_unknown: Annotated[str, Meta(max_length=512)] = ""
    memory: TaskMemory | None = None  # at the topology's ``at_ms``; a change of it makes no version; null: unknown


class Checkpointing(Part, frozen=True, kw_only=True):
    """How a job takes checkpoints."""

    interval_ms: Count | None  # null: it takes none, and a rescale would lose its state
    exactly_once: bool = True
    unaligned: bool = False
    last_completed_ms: TimeMs | None = None
    last_duration_ms: Count | None = None
    last_bytes: Count | None = None


class GroupPartition(Part, frozen=True, kw_only=True):
    """One partition that a consumer group reads. Null is unknown, except where another meaning is named."""

    topic: Text
    partition: Count
    subtask: Count | None  # of the member that has it; null: nobody has
    end: Count | None  # offset after its last record
    committed: Count | None  # offset of the next record that the group will read; null: it has committed none
    lag: Count | None  # records that wait, as counted for decisions
    problem: Annotated[str, Meta(max_length=512)] = ""  # why ``lag`` is unknown
    arrived_per_minute: Annotated[float, Meta(ge=0)] | None  # records, since the look before
    read_per_minute: Annotated[float, Meta(ge=0)] | None
    stands_since_ms: TimeMs | None  # since when records wait and the group commits nothing further; null: it gets on


class GroupMember(Part, frozen=True, kw_only=True):
    """One member of a consumer group. Null is unknown."""

    subtask: Count
    client_id: Annotated[str, Meta(max_length=256)]
    host: Annotated[str, Meta(max_length=256)]
    partitions: Count  # that it has
    lag: Count | None  # records that wait in them
    read_per_minute: Annotated[float, Meta(ge=0)] | None


class GroupWorker(Part, frozen=True, kw_only=True):
    """One process that surescale keeps running for a consumer group. Times are of the wall."""

    index: Count
    pid: Count | None  # null: it does not run
    started_ms: TimeMs | None
    is_ending: bool = False  # it was asked to end and finishes what it has in hand
    failures: Count = 0  # starts in a row after which it soon ended
    failure: Annotated[str, Meta(max_length=512)] = ""  # how the last of those ended: exit code and last lines, for people
    log: Annotated[str, Meta(max_length=4096)] = ""  # path of its output on the machine that runs it


class ConsumerGroup(Part, frozen=True, kw_only=True):
    """A consumer group as people look at it. The lists are cut; what waits most, and what has a problem, stays."""

    task: Text
    group: Text
    state: Literal["stable", "rebalancing", "empty", "dead"]
    assignor: Annotated[str, Meta(max_length=256)]
    topics: tuple[Text, ...]
    lag: Count | None  # records that wait in the partitions where that is known; null: it is known of none
    lag_unknown: Count  # partitions of which it is unknown
    oldest_ms: (
        Count | None
    )  # age of the oldest record that is known to wait; null: unknown, or older than the monitor's first look
    partitions: tuple[GroupPartition, ...]
    partitions_left_out: Count = 0
    members: tuple[GroupMember, ...]
    members_left_out: Count = 0
    workers: tuple[GroupWorker, ...] = ()  # empty where somebody else runs the members
    workers_left_out: Count = 0


class Quiet(Part, frozen=True, kw_only=True):
    """Whether a job has nothing to do, by offsets alone: no allowance is made for markers of transactions or old records."""

    since_ms: TimeMs | None  # since when no record has come and all are committed; null: that is not so, or not known
    waiting: Count  # records behind the last commits, where those are known; all, where a partition has none
    why: Annotated[str, Meta(max_length=512)] = ""  # why it is not known whether more wait


class JobTopology(Message, frozen=True, kw_only=True, tag="topology/1"):
    """A job's graph, parallelism and units. ``version`` grows with every change; ``generation`` is the last one applied.

    ``epoch`` names one submission of the job and changes with an upgrade. ``requirement_id`` names the requirements in force.
    Both are empty where the engine has none. A job is ``resting`` while its engine is asked for no subtask, and none runs.
    """

    job: Text
    version: Count
    at_ms: TimeMs
    tasks: Annotated[tuple[TaskSpec, ...], Meta(min_length=1, max_length=10_000)]
    generation: Count = 0  # desired_generation that the engine has applied
    attempt: Count = 0
    state: JobState = "running"
    engine: Label = (
        SIMULATED.engine
    )  # kind of engine that runs the job, as in ``Capabilities``; some limits' defaults depend on it
    epoch: Label = ""
    requirement_id: Label = ""
    engine_name: Label = ""  # the job's name in the engine, for people
    labels: dict[Label, Remark] = {}  # set by the job's own author, e.g. ``surescale.mode``
    checkpointing: Checkpointing | None = None  # null: the engine does not say
    restart_ms: Count | None = None  # that a rescale stopped the job: median of the last few measured; null: unknown
    began_ms: TimeMs | None = None  # when the present attempt began to run, by the engine's clock; null: it does not say
    groups: tuple[ConsumerGroup, ...] = ()  # for people, at ``at_ms``; a change of them makes no version, and markers lack them
    quiet: Quiet | None = None  # at ``at_ms``, as ``groups``; null: the source cannot tell


class HourlyLoad(Part, frozen=True, kw_only=True):
    """Records that entered the job in one hour of event time, counted over the ``minutes`` known minutes."""

    hour_start_ms: TimeMs
    records: Count
    minutes: Annotated[int, Meta(ge=1, le=60)]
    peak_records: Count | None = None  # most records in five consecutive minutes ending in this hour; null: unknown


class Saturation(Part, frozen=True, kw_only=True):
    """What a task showed when it last never rested (``contracts.saturation``)."""

    task: Text
    # Of its busiest subtask, the share of its time that its busy counter showed; null: it has none.
    shown: Annotated[float, Meta(gt=0.0, le=1.0)] | None = None
    record_ms: Annotated[float, Meta(gt=0.0)] | None = None  # that a record took a subtask, of a task without a counter
    at_ms: TimeMs
    holds_ms: Count = 24 * 3_600_000  # from then on it is believed
    epoch: Label = ""  # of the job's submission


class MinuteMarker(Message, frozen=True, kw_only=True, tag="minute/1"):
    """End of one job's minute: all its samples have been acknowledged. It closes the minute, even an idle one.

    It carries the topology of that minute, so a window depends on a single ordered partition and nothing else.
    """

    job: Text
    minute_end_ms: TimeMs
    topology: JobTopology
    reached_wall_ms: TimeMs | None = None  # wall time at which the pipeline's clock reached the end of the minute
    age_ms: Count | None = None  # of the oldest figure in the minute; null: the source does not know
    observer: Label = ""  # the monitor's run that took the figures
    # Hours before the pipeline started watching; in a monitor's first marker.
    load_history: Annotated[tuple[HourlyLoad, ...], Meta(max_length=1_000)] = ()


# --- topologies and events --------------------------------------------------------------------------------------------------


class Host(Part, frozen=True, kw_only=True):
    """A machine that offers parallel units."""

    host: Text
    units: tuple[Count, ...] = ()  # empty where the engine places
    slots: Count | None = None  # subtasks it can hold, where the engine places
    free_slots: Count | None = None
    state: Literal["running", "removed_soon"] = "running"
    cpu_cores: Annotated[float, Meta(gt=0)] = 4.0
    memory_gb: Annotated[float, Meta(gt=0)] = 8.0
    price_per_s: Annotated[float, Meta(ge=0)] = 0.0  # dollars; 0: unknown
    zone: Label = ""


SLOT_PRICES_MAX = 32
"""Days of which a cluster's record knows what a slot cost: as many as a job's costs are shown for, and the one before."""


class SlotPrice(Part, frozen=True, kw_only=True):
    """What a slot costs from an instant on, in dollars per second, where the engine places."""

    at_ms: TimeMs
    per_s: Annotated[float, Meta(ge=0)]


class ClusterTopology(Message, frozen=True, kw_only=True, tag="cluster/1"):
    """The hosts of a cluster with their units. Dead hosts are not listed."""

    cluster: PlainName
    version: Count
    at_ms: TimeMs
    hosts: tuple[Host, ...]
    engine: Capabilities = SIMULATED
    worker_price_per_s: Annotated[float, Meta(ge=0)] | None = None  # dollars, of a worker whose host nobody knows; null: unknown
    slot_prices: Annotated[tuple[SlotPrice, ...], Meta(max_length=SLOT_PRICES_MAX)] = ()
    """The last price of each day on which it changed, oldest first: this topic keeps only the newest record."""
    monitor: Annotated[str, Meta(max_length=128)] = ""  # host and process of the one that watches the cluster; empty: not told


EventKind = Literal[
    "job_started",
    "job_restarted",
    "job_stopped",
    "job_failed",
    "checkpoint_completed",
    "checkpoint_failed",
    "host_joined",
    "host_leaving",
    "host_lost",
    "standbys_ready",
    "rescaled",
    "requirement_changed",
    "exception",
]


class EngineEvent(Message, frozen=True, kw_only=True, tag="engine-event/1"):
    """Something that happened in the engine. Identity: (cluster, ``identity``).

    ``event_id`` follows from what happened, so an engine or a monitor that restarts gives the same event the same id.
    ``sequence`` only orders the events of one job: a later one has a higher number, also after such a restart.
    """

    cluster: PlainName
    sequence: Count
    event_id: Annotated[str, Meta(max_length=256)] = ""  # empty: an engine that counts its events once and for all
    at_ms: TimeMs
    kind: EventKind
    job: Label | None = None
    host: Label | None = None
    detail: Remark = ""

    @property
    def identity(self) -> str:
        """Return what tells this event from every other one of its cluster."""
        return self.event_id or str(self.sequence)


# --- what releases set, and the clock ---------------------------------------------------------------------------------------


class Tuning(Part, frozen=True, kw_only=True):
    """What a release sets in its policy beyond name and hash (``policies.tuned``)."""

    constants: Annotated[dict[Text, Annotated[float, Meta(ge=-1e9, le=1e9)] | Text], Meta(max_length=20)] = {}
    sizes: Annotated[dict[Text, Parallelism], Meta(max_length=10_000)] = {}  # by task, of the policy ``static``


class ReleaseTarget(Part, frozen=True, kw_only=True):
    """The part of a cluster's jobs that the release behind a decision is for."""

    scope: Literal["job", "canary", "cluster"]
    share_permille: Permille | None = None  # of a canary
    valid_from_ms: TimeMs
    tuned: Tuning | None = None  # null: the policy as it ships


class ClockPrerequisites(Part, frozen=True, kw_only=True):
    """What had happened when the clock stopped; a role must know all of it before it acts at that time."""

    hosts: Count  # version of the cluster's topology
    events: Count  # sequence of the newest engine event
    jobs: dict[Text, Count] = {}  # version of the topology of each job's last finished minute


SPEED_MIN, SPEED_MAX = 1e-3, 1e9
"""Slower than that, the wall time of an event may have more than 64 bits."""


class ClockSegment(Message, frozen=True, kw_only=True, tag="clock/1"):
    """One stretch of the pipeline's clock: ``now = min(e0 + speed * (wall - w0), until)``.

    A clock in lockstep sets ``told`` in every segment. A segment with ``e0_ms == until_ms`` means the clock is stopped and
    everything up to there has been read. Without ``told`` the clock runs free.
    """

    pipeline: Text
    sequence: Count
    e0_ms: TimeMs
    w0_ms: TimeMs
    speed: Annotated[float, Meta(ge=SPEED_MIN, le=SPEED_MAX)]
    until_ms: TimeMs
    end_ms: TimeMs | None = None  # where the trace ends, if it does
    told: ClockPrerequisites | None = None


# --- refused records --------------------------------------------------------------------------------------------------------


class DeadLetter(Message, frozen=True, kw_only=True, tag="dead-letter/1"):
    """A refused record: where it is and why it was refused. Identity: (topic, partition, offset)."""

    topic: Text
    partition: Count
    offset: Count
    reason: Text
    field: Remark
    message: Remark
    refused_by: Text
    payload: Remark = ""  # the first 4,096 bytes of the record, as text with replacement characters


KEY_BYTES_MAX = 1_024  # of a refused record, kept as its dead letter's key: a larger one might not be accepted as a key again
PAYLOAD_BYTES_MAX = 4_096  # of a refused record, kept in its dead letter: enough for a whole sample and the start of a window


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where a record is; ``topic`` is the full name."""

    topic: str
    partition: int
    offset: int


def beginning_of(raw: bytes | None) -> bytes:
    """Return the part of a record its dead letter keeps."""
    return (raw or b"")[:PAYLOAD_BYTES_MAX]


def key_of_letter(key: bytes | None) -> bytes | None:
    """Return the key of a dead letter: the record's own, or its beginning."""
    return None if key is None else key[:KEY_BYTES_MAX]


def dead_letter(at: Coordinates, raw: bytes | None, error: RecordRejected, *, refused_by: str) -> DeadLetter:
    """Return the dead letter. Its message does not repeat the field, which has its own place."""
    return DeadLetter(
        topic=at.topic,
        partition=at.partition,
        offset=at.offset,
        reason=error.reason,
        field=error.field,
        message=error.message,
        refused_by=refused_by,
        payload=beginning_of(raw).decode("utf-8", "replace"),
    )
