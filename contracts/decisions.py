"""What a policy decides for one job and span, and how it came to that.

The records follow the conventions of ``contracts.messages``.

What shadow policies would have decided has a topic of its own, which the rescaler neither reads nor may read, and a type that no
decision has: nothing acts on it.
"""

from typing import Annotated, Literal

from msgspec import Meta

from surescale.contracts.ids import decision_id, shadow_id
from surescale.contracts.messages import (
    Count,
    Identity,
    Label,
    Message,
    Parallelism,
    Part,
    PlainName,
    ReleaseTarget,
    Remark,
    Sentence,
    Sha256,
    Share,
    Text,
    TimeMs,
)
from surescale.contracts.own_acts import check_policy_name


class PolicyUsed(Part, frozen=True, kw_only=True):
    """The policy that answered. ``fallback_reason`` is set when the rule took over from the requested policy."""

    name: Text
    sha256: Label = ""
    asked: Label = ""  # the requested one, whose name is in the decision's id; empty: ``name``
    fallback_reason: Remark | None = None
    release: ReleaseTarget | None = None  # null: the job's settings or the agents' own setting chose
    left: Sentence | None = None  # why a tournament's winner does not serve now (contracts.releases)


class Amendment(Part, frozen=True, kw_only=True):
    """One guardrail changed one figure."""

    rule: Text
    before: int
    after: int


class SampledMinute(Part, frozen=True, kw_only=True):
    """One sampled snapshot of a task: an anchor minute, its weight, and the neighbours sampled in it."""

    minute_end_ms: TimeMs
    weight: float
    neighbours: tuple[Text, ...] = ()
    neighbour_weights: tuple[float, ...] = ()


class TaskDecision(Part, frozen=True, kw_only=True):
    """How the parallelism that a policy wants for one task became the final one."""

    task: Text
    current: Parallelism
    ratio: float  # proposed over current; of a policy that answers ratios, its answer
    proposed: Count  # what the policy wants, before the guardrails
    desired: Parallelism
    floor: Count = 0  # smallest parallelism that serves the measured load
    amendments: tuple[Amendment, ...] = ()
    looked_at: tuple[SampledMinute, ...] = ()
    overloaded: bool = False  # its measured demand exceeds its size, or two minutes of its work are waiting
    records_per_minute: float | None = None  # that it processed, mean of the last five known minutes
    utilisation: float | None = None  # share of that time in which its subtasks worked
    waiting_records: float | None = None  # for it: in its queue, and at the sources before it


class Candidates(Part, frozen=True, kw_only=True):
    """What sizes would come to that a policy compared: their rent in subtasks against the late minutes that it expects."""

    subtasks: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=1_000)]  # over all scalable tasks; fewest first
    # In the next ``minutes``, restart included, if the size is taken now and kept.
    late_minutes: Annotated[tuple[float, ...], Meta(min_length=1, max_length=1_000)]
    minutes: Annotated[int, Meta(ge=1, le=10_080)]
    late_seconds: float  # a minute is late in which records wait longer than this
    # That the engine needs for each size, to be paid; empty: what they cost depends on the hosts, which are chosen afterwards.
    slots: Annotated[tuple[Count, ...], Meta(max_length=1_000)] = ()

    def __post_init__(self) -> None:
        """Check that each size has its figures.

        Raises:
            ValueError: there are more or fewer of them than sizes.
        """
        count = len(self.subtasks)
        if len(self.late_minutes) != count or len(self.slots) not in (0, count):
            raise ValueError("late_minutes, slots: they are not as many as subtasks")


class ChangeScore(Part, frozen=True, kw_only=True):
    """How the best change compared with no change, of a policy that scores both. Scores are in ``unit``; higher is better.

    Where the guardrails change the present size in any case, ``present_score`` is that of what they make of it.
    """

    subtasks: Count  # of the best change: over all scalable tasks
    score: float
    present_subtasks: Count
    present_score: float
    gain_needed: float  # a change is made if it scores more than this above the present
    unit: Text
    candidates: Candidates | None = None  # null: not told


class LatencyBudget(Part, frozen=True, kw_only=True):
    """How many of a job's minutes were above its bound on latency in the last 24 hours, whole hours but for the present one."""

    seconds: Annotated[float, Meta(gt=0.0)]  # the bound
    allowed_minutes: Annotated[float, Meta(gt=0.0)]  # of a day
    used_minutes: Annotated[int, Meta(ge=0, le=1_440)]
    known_minutes: Annotated[int, Meta(ge=0, le=1_440)]  # whose latency is known; the others are in neither count


class Overload(Part, frozen=True, kw_only=True):
    """The overload that a decision answers at once (``policies.emergency``)."""

    task: Text  # the busiest that work waits for
    load_records_per_minute: float  # that come to the job now, at least
    grown_records: float  # by which what waits for the task grew in the last minute


class LoadOutlook(Part, frozen=True, kw_only=True):
    """The load that a policy expected, in stages of one length from the span's end on."""

    stage_minutes: Annotated[int, Meta(ge=1, le=10_080)]
    means: Annotated[tuple[float, ...], Meta(min_length=1, max_length=1_000)]  # records a minute
    spread: Annotated[tuple[float, ...], Meta(max_length=1_000)] = ()  # standard deviation of each mean's log; empty: not told


class FeatureDrift(Part, frozen=True, kw_only=True):
    """How far what a policy saw lies from what it was trained on. A feature outside is one in a hundred's, in training."""

    outside: Share  # of the features, those outside the range of the training
    usual: Share  # 99 of 100 windows of the training had at most this
    feature: Text  # the one that lies outside most
    feature_outside: Share  # of its values
    mean: float  # of its finite values
    low: float  # its range in training
    high: float


OVERTAKEN_BY = "overtaken-by"
"""Header of a decision's record: the end (ms, decimal) of a newer window of its job that waited when the record was written."""


class Decision(Message, frozen=True, kw_only=True, tag="decision/1"):
    """A policy's answer for one job and span, act or hold. Identity: ``decision_id``.

    It depends only on (window, policy hash, settings version, seed) and carries no wall time.
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
    completeness: Share  # share of the window's task-minutes that were reported
    minutes_known: Count
    tasks: tuple[TaskDecision, ...]
    load_records_per_minute: float | None = None  # mean over the last five known minutes
    closed_append_ms: TimeMs | None = None  # broker's append time of the record that closed the window's last minute
    reached_wall_ms: TimeMs | None = None  # wall time when the clock reached the window's end
    compared: ChangeScore | None = None  # null: the policy does not score
    outlook: LoadOutlook | None = None  # null: the policy does not look ahead
    emergency: Overload | None = None  # null: there is none
    drift: FeatureDrift | None = None  # of the policy asked; null: it cannot say
    # On a real engine: too little was known to ask a policy, or it was not its turn, so a task that stays may need less.
    undecided: bool = False
    figures_until_ms: TimeMs | None = None  # end of the window's newest minute with figures; null: it has none
    budget: LatencyBudget | None = None  # null: the job has no bound on latency

    def __post_init__(self) -> None:
        """Check that the id is that of this job, span and policy: nobody can answer under another decision's id.

        Raises:
            ValueError: it is not, or there are figures from after the span.
        """
        if self.figures_until_ms is not None and self.figures_until_ms > self.span_end_ms:
            raise ValueError("figures_until_ms: it is after span_end_ms")
        policy = self.policy.asked or self.policy.name
        check_policy_name(policy)
        if self.decision_id != decision_id(self.job, self.span_end_ms, policy):
            raise ValueError("decision_id: it does not follow from job, span_end_ms and policy")


Action = Literal["act", "hold"]
ShadowStatus = Literal["answered", "failed", "late", "skipped"]
Milliseconds = Annotated[float, Meta(ge=0.0, le=1e9)]
Utilisation = Annotated[float, Meta(ge=0.0, le=1e9)]


class ServedDecision(Part, frozen=True, kw_only=True):
    """The decision that was made, and by which policy."""

    decision_id: Identity
    policy: Text
    sha256: Sha256 = ""
    took_ms: Milliseconds  # from the window's arrival to the decision


class Verdict(Part, frozen=True, kw_only=True):
    """What one policy's answer came to once the guardrails had amended it."""

    action: Action
    subtasks: Count  # over the job's scalable tasks
    utilisation: Utilisation | None = None  # predicted of the busiest task, 1 is full; null: no task's is known


class TaskDifference(Part, frozen=True, kw_only=True):
    """A scalable task to which the two policies give another parallelism."""

    task: Text
    current: Parallelism
    served: Parallelism
    shadow: Parallelism


class Comparison(Part, frozen=True, kw_only=True):
    """The two answers to one window."""

    served: Verdict
    shadow: Verdict
    took_ms: Milliseconds  # of the shadow: features, policy and guardrails
    tasks: Count  # scalable ones
    differences: Annotated[tuple[TaskDifference, ...], Meta(max_length=10_000)] = ()


class ShadowDecision(Message, frozen=True, kw_only=True, tag="shadow-decision/1"):
    """A policy's answer on a window that another policy decided on. Identity: ``shadow_id``.

    ``comparison`` is set if ``status`` is ``answered``. ``failed`` means that the policy gave no answer or its process ended,
    ``late`` that it took too long, ``skipped`` that it was not asked because too many windows were waiting.
    """

    shadow_id: Identity
    job: Text
    span_end_ms: TimeMs
    policy: PlainName
    sha256: Sha256
    served: ServedDecision
    status: ShadowStatus
    reason: Sentence  # the policy's own, or why there is no answer
    comparison: Comparison | None = None

    def __post_init__(self) -> None:
        """Check what the types do not say, so that no reader needs to.

        Raises:
            ValueError: the fields contradict one another.
        """
        if (self.comparison is not None) != (self.status == "answered"):
            raise ValueError("comparison must be set if, and only if, the status is answered")
        if self.comparison is not None and len(self.comparison.differences) > self.comparison.tasks:
            raise ValueError("comparison names more differences than the job has scalable tasks")
        if self.shadow_id != shadow_id(self.job, self.span_end_ms, self.policy, self.sha256):
            raise ValueError("shadow_id: it does not follow from job, span_end_ms, policy and sha256")
