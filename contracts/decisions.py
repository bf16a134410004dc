"""What a policy decides for one job and span, and how it came to that.

The records follow the conventions of ``contracts.messages``.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from contracts.ids import decision_id
from contracts.messages import Count, Identity, Message, Parallelism, Part, ReleaseTarget, Sentence, Share, Text, TimeMs
from contracts.own_acts import check_policy_name


class PolicyUsed(Part, frozen=True, kw_only=True):
    """The policy that answered. ``fallback_reason`` is set when the rule took over from the requested policy."""

    name: Text
    sha256: str = ""
    asked: str = ""  # the requested one, whose name is in the decision's id; empty: ``name``
    fallback_reason: str | None = None
    release: ReleaseTarget | msgspec.UnsetType = msgspec.UNSET  # unset: the job's settings or the agents' own setting chose
    left: Sentence | msgspec.UnsetType = msgspec.UNSET  # why a tournament's winner does not serve now (contracts.tournaments)


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
    utilisation: float | msgspec.UnsetType = msgspec.UNSET  # share of that time in which its subtasks worked; unset: unknown
    waiting_records: float | msgspec.UnsetType = msgspec.UNSET  # for it: in its queue, and at the sources before it; unset: none


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


class Overload(Part, frozen=True, kw_only=True):
    """The overload that a decision answers at once (``policies.emergency``)."""

    task: Text  # the busiest that work waits for
    load_records_per_minute: float  # that come to the job now, at least
    grown_records: float  # by which what waits for the task grew in the last minute


class LoadOutlook(Part, frozen=True, kw_only=True, omit_defaults=True):
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
    compared: ChangeScore | msgspec.UnsetType = msgspec.UNSET  # unset: the policy does not score
    outlook: LoadOutlook | msgspec.UnsetType = msgspec.UNSET  # unset: the policy does not look ahead
    emergency: Overload | msgspec.UnsetType = msgspec.UNSET  # unset: there is none
    drift: FeatureDrift | msgspec.UnsetType = msgspec.UNSET  # of the policy asked; unset: it cannot say
    # On a real engine: too little was known to ask a policy, or it was not its turn, so a task that stays may need less.
    undecided: bool | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Check that the id is that of this job, span and policy: nobody can answer under another decision's id.

        Raises:
            ValueError: it is not.
        """
        policy = self.policy.asked or self.policy.name
        check_policy_name(policy)
        if self.decision_id != decision_id(self.job, self.span_end_ms, policy):
            raise ValueError("decision_id: it does not follow from job, span_end_ms and policy")
