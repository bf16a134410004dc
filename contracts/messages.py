"""One frozen struct per kind of record. The tag ``type`` names kind and schema version: ``sample/1``.

Times are integer milliseconds of the road's clock (``_ms``), sizes bytes (``_bytes``), money dollars. Fields may be added with a
default inside one version; a change of meaning is a new version. Encoding is ``contracts.wire``. Commands and what became of
them stand in ``contracts.commands``.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(min_length=1, max_length=256)]
Sentence = Annotated[str, Meta(min_length=1, max_length=1024)]  # for people, with figures in it
Identity = Annotated[str, Meta(min_length=1, max_length=1024)]  # made of names (`contracts.ids`), so longer than any of them
Count = Annotated[int, Meta(ge=0, le=2**53)]
TimeMs = Annotated[int, Meta(ge=0, le=2**53)]
Parallelism = Annotated[int, Meta(ge=1, le=1_000_000)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of every record that travels by its own."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what travels inside a record."""


# --- task-metrics -----------------------------------------------------------------------------------------------------------


class TaskSample(Message, frozen=True, kw_only=True, tag="sample/1"):
    """What one subtask has counted since its attempt began. Identity: (job, task, subtask, attempt, sampled_at_ms).

    Every figure but ``queued_records``, ``parallelism`` and ``state_bytes`` is cumulative within the attempt and starts at 0.
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
    busy_ms: Count
    idle_ms: Count
    backpressured_ms: Count
    queued_records: Count  # waiting now, not cumulative
    parallelism: Parallelism  # of the task, now
    state_bytes: Count = 0  # now
    queue_wait_record_ms: Count | None = None  # sum over records of the time spent waiting
    latency_record_ms: Count | None = None  # sum over records of the time from arrival to completion at this task


class TaskSpec(Part, frozen=True, kw_only=True):
    """One vertex of a job's graph as the engine runs it."""

    task: Text
    upstream: tuple[Text, ...] = ()
    parallelism: Parallelism = 1
    max_parallelism: Parallelism = 10
    scalable: bool = True  # false for the virtual source and sink, whose parallelism stays 1
    stateful: bool = False
    sharing_group: Text = "default"
    configured_parallelism: Parallelism | None = None  # what the job's author asked for
    units: tuple[Count, ...] = ()  # parallel unit of each subtask, in order of subtask index
    vnodes: Annotated[int, Meta(ge=1)] = 256


class JobTopology(Message, frozen=True, kw_only=True, tag="topology/1"):
    """A job's graph, parallelism and units. ``version`` grows with every change; ``generation`` is the last one applied."""

    job: Text
    version: Count
    at_ms: TimeMs
    tasks: Annotated[tuple[TaskSpec, ...], Meta(min_length=1, max_length=10_000)]
    generation: Count = 0  # desired_generation that the engine has applied
    attempt: Count = 0
    state: Literal["running", "restarting", "waiting", "finished", "failed"] = "running"


class HourlyLoad(Part, frozen=True, kw_only=True, omit_defaults=True):
    """Records that entered the job in one hour of event time, of which ``minutes`` minutes are known."""

    hour_start_ms: TimeMs
    records: Count
    minutes: Annotated[int, Meta(ge=1, le=60)]
    peak_records: Count | None = None  # most records in five minutes in a row that end in this hour; null: unknown


class MinuteMarker(Message, frozen=True, kw_only=True, tag="minute/1"):
    """End of one job's minute: every sample of it has been acknowledged. Closes the minute, also an idle one.

    It carries the topology of that minute, so that a window depends on one ordered partition and nothing else.
    """

    job: Text
    minute_end_ms: TimeMs
    topology: JobTopology
    reached_wall_ms: TimeMs | None = None  # wall time at which the road's clock reached the end of the minute
    load_history: tuple[HourlyLoad, ...] = ()  # hours before the road watched; in a monitor's first marker


# --- topologies and events --------------------------------------------------------------------------------------------------


class Host(Part, frozen=True, kw_only=True):
    """A machine that offers parallel units."""

    host: Text
    units: tuple[Count, ...]
    state: Literal["running", "removed_soon"] = "running"
    cpu_cores: Annotated[float, Meta(gt=0)] = 4.0
    memory_gb: Annotated[float, Meta(gt=0)] = 8.0
    price_per_s: Annotated[float, Meta(ge=0)] = 0.0  # dollars
    zone: str = ""


class ClusterTopology(Message, frozen=True, kw_only=True, tag="cluster/1"):
    """The hosts of a cluster with their units. A host that died is not listed."""

    cluster: Text
    version: Count
    at_ms: TimeMs
    hosts: tuple[Host, ...]


class EngineEvent(Message, frozen=True, kw_only=True, tag="engine-event/1"):
    """Something that happened in the engine. Identity: (cluster, sequence)."""

    cluster: Text
    sequence: Count
    at_ms: TimeMs
    kind: Literal[
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
    ]
    job: str | None = None
    host: str | None = None
    detail: str = ""


# --- settings ---------------------------------------------------------------------------------------------------------------


class JobSettings(Message, frozen=True, kw_only=True, tag="job-settings/1"):
    """What the user allows for a job. ``version`` grows with every change."""

    job: Text
    version: Count = 0
    mode: Literal["act", "advise", "observe"] = "act"
    parallelism_min: Parallelism = 1  # per task
    parallelism_max: Parallelism = 10  # per task; the engine's own maximum holds too
    total_limit: Parallelism = 200  # sum over the job's scalable tasks
    step_ratio_max: Annotated[float, Meta(gt=1.0, le=2.0)] = 2.0  # one decision changes a task at most by this factor
    priority: int = 0
    policy: str | None = None
    set_by: str = "default"
    set_at_ms: TimeMs = 0


class PolicyRelease(Message, frozen=True, kw_only=True, tag="policy-release/1"):
    """From an event minute on, a cluster's agents use this policy."""

    cluster: Text
    policy: Text
    sha256: str
    valid_from_ms: TimeMs
    set_by: str = ""


class Told(Part, frozen=True, kw_only=True):
    """What had happened when the clock stopped: whoever acts at that time must have heard of it."""

    hosts: Count  # version of the cluster's topology
    events: Count  # sequence of the newest engine event
    jobs: dict[str, Count] = {}  # version of the topology of each job's last finished minute


class ClockSegment(Message, frozen=True, kw_only=True, tag="clock/1"):
    """One stretch of the road's clock: ``now = min(e0 + speed * (wall - w0), until)``.

    A clock in lockstep says ``told`` in every segment; one with ``e0_ms == until_ms`` says that it stands still and has been read
    up to there. Without ``told`` the clock runs free.
    """

    road: Text
    sequence: Count
    e0_ms: TimeMs
    w0_ms: TimeMs
    speed: Annotated[float, Meta(gt=0)]
    until_ms: TimeMs
    end_ms: TimeMs | None = None  # where the trace ends, if it does
    told: Told | msgspec.UnsetType = msgspec.UNSET


# --- decisions --------------------------------------------------------------------------------------------------------------


class PolicyUsed(Part, frozen=True, kw_only=True):
    """Which policy answered. ``fallback_reason`` is set when the rule took over from the policy asked for."""

    name: Text
    sha256: str = ""
    asked: str = ""
    fallback_reason: str | None = None


class Amendment(Part, frozen=True, kw_only=True):
    """One guardrail changed one figure."""

    rule: Text
    before: int
    after: int


class LookedAt(Part, frozen=True, kw_only=True):
    """One sampled snapshot of a task: an anchor minute, its weight, and the neighbours looked at in it."""

    minute_end_ms: TimeMs
    weight: float
    neighbours: tuple[Text, ...] = ()
    neighbour_weights: tuple[float, ...] = ()


class TaskDecision(Part, frozen=True, kw_only=True):
    """From raw ratio to final parallelism for one task."""

    task: Text
    current: Parallelism
    ratio: float  # the policy's action in (0, 2]
    proposed: Count  # round_half_up(current x ratio), before the guardrails
    desired: Parallelism
    floor: Count = 0  # least parallelism that serves the measured load
    amendments: tuple[Amendment, ...] = ()
    looked_at: tuple[LookedAt, ...] = ()


class Decision(Message, frozen=True, kw_only=True, tag="decision/1"):
    """What a policy wants for one job and span, act or hold alike. Identity: ``decision_id``.

    A function of (window, policy hash, settings version, seed): it carries no wall time.
    """

    decision_id: Identity
    job: Text
    span_end_ms: TimeMs
    window_id: Identity
    policy: PolicyUsed
    seed: int
    settings_version: Count
    topology_version: Count
    action: Literal["act", "hold"]
    reason: Sentence
    completeness: Share  # share of expected task-minutes in the window that were reported
    minutes_known: Count
    tasks: tuple[TaskDecision, ...]
    load_records_per_minute: float | None = None  # mean over the last five known minutes
    closed_append_ms: TimeMs | None = None  # broker's time of the record that closed the window's last minute
    reached_wall_ms: TimeMs | None = None  # wall time at which the clock reached the window's end


# --- what the rescaler remembers, and what was refused ----------------------------------------------------------------------


class RescalerRecord(Message, frozen=True, kw_only=True, tag="rescaler-state/1"):
    """One entry of the rescaler's memory under key ``cluster/kind/id``; the body is the rescaler's own JSON document."""

    cluster: Text
    kind: Literal["job", "cluster", "request"]
    id: Identity
    at_ms: TimeMs
    body: msgspec.Raw


class DeadLetter(Message, frozen=True, kw_only=True, tag="dead-letter/1"):
    """A record that was refused, with where it lies and why. Identity: (topic, partition, offset)."""

    topic: Text
    partition: Count
    offset: Count
    reason: Text
    field: str
    message: str
    refused_by: Text
    payload: str = ""  # the first 4,096 bytes of the record, as text with replacement characters
