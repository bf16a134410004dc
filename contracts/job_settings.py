"""The limits that the user sets for a job, as a record. ``contracts.job_limits`` says what they mean.

They follow the conventions of ``contracts.messages``.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from contracts.messages import Count, Identity, Message, Parallelism, Part, Text, TimeMs
from contracts.own_acts import check_policy_name

Mode = Literal["act", "advise", "observe"]
Objective = Literal["cost", "balanced", "latency"]
Factor = Annotated[float, Meta(gt=1.0, le=1_000_000.0)]
PolicyName = Annotated[str, Meta(max_length=256)]
Minutes = Annotated[float, Meta(ge=0.0, le=10_080.0)]
Share = Annotated[float, Meta(ge=0.05, le=1.0)]
ClockTime = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$")]
Day = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class TaskLimits(Part, frozen=True, kw_only=True, omit_defaults=True):
    """What the user allows for one task; where a bound is null, the job's holds."""

    parallelism_min: Parallelism | None = None
    parallelism_max: Parallelism | None = None
    pinned: bool = False  # stays as it is, whatever the load


LimitsByTask = Annotated[dict[Text, TaskLimits], Meta(max_length=10_000)]


class ExcludedPeriod(Part, frozen=True, kw_only=True, omit_defaults=True):
    """A time in which nothing is rescaled: on these weekdays, between two local times, from one day to another.

    A period that ends before it starts ends on the next day, and belongs to the day it starts on. Flink's autoscaler calls these
    ``job.autoscaler.excluded.periods``.
    """

    days: Annotated[tuple[Weekday, ...], Meta(max_length=7)] = ()  # empty: every day
    starts: ClockTime = "00:00"
    ends: ClockTime = "24:00"
    zone: Annotated[str, Meta(min_length=1, max_length=64)] = "UTC"  # name in the IANA time zone database
    first_day: Day | None = None
    last_day: Day | None = None
    emergencies: bool = True  # an overloaded task may grow even then


class LatencyBound(Part, frozen=True, kw_only=True):
    """The least subtasks with which at most ``share`` of a job's minutes have a latency above ``seconds``, source to sink."""

    seconds: Annotated[float, Meta(gt=0.0, le=86_400.0)]
    share: Annotated[float, Meta(ge=0.0001, le=0.5)] = 0.01


Direction = Literal["up", "down", "both"]


class Pause(Part, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody has stopped rescales in these directions, until a time or until further notice (``contracts.pauses``)."""

    direction: Direction = "both"
    until_ms: TimeMs | None = None  # null: until somebody resumes it
    why: Text
    by: Text
    at_ms: TimeMs


class Approval(Part, frozen=True, kw_only=True):
    """Somebody wants the advice of one decision carried out, exactly as it was given."""

    decision_id: Identity
    by: Text
    at_ms: TimeMs


class JobSettings(Message, frozen=True, kw_only=True, tag="job-settings/1"):
    """The limits the user sets for a job. ``version`` grows with every change.

    Of a record whose job is ``CLUSTER/*`` only ``pause`` counts: it holds for every job of the cluster.

    A limit that is null has the default of the job's engine (``contracts.job_limits``).
    """

    job: Text
    version: Count = 0
    mode: Mode | None = None  # null: the job's label decides, else its engine (contracts.modes)
    parallelism_min: Parallelism = 1  # per task
    parallelism_max: Parallelism | None = None  # per task; the engine's own maximum holds too
    total_limit: Parallelism | None = None  # sum over the job's scalable tasks
    step_ratio_max: Factor | None = None  # of records before there were two steps: the limit both ways
    step_up_max: Factor | None = None  # one decision makes a task at most this many times as wide
    step_down_max: Factor | None = None  # one decision leaves a task at least this part of its width
    tasks: LimitsByTask = msgspec.field(default_factory=dict)  # by name or label of a task
    backlog_hold_minutes: Minutes | None = None  # no task shrinks while one has more work than this waiting; 0: never held
    scale_down_after_minutes: Annotated[int, Meta(ge=0, le=10_080)] | None = None  # a lower need must have held this long
    excluded: Annotated[tuple[ExcludedPeriod, ...], Meta(max_length=100)] = ()
    rescales_a_day_max: Count | None = None  # begun for decisions within 24 hours; null: any number
    block_ineffective: bool | None = None  # a scale-up that brought no throughput is not repeated for an hour
    align: bool = True  # prefer a parallelism that divides key groups or partitions evenly, where that costs little
    cpu_limit: Annotated[float, Meta(gt=0.0)] | None = None  # cores for the job, where hosts say how many they have
    catch_up_minutes: Annotated[float, Meta(gt=0.0, le=10_080.0)] | None = None  # to drain a backlog; null: as the policy has it
    restart_seconds: Annotated[float, Meta(ge=0.0, le=86_400.0)] | None = None  # of a rescale; null: as the policy has it
    objective: Objective | None = None  # what sure weighs more, subtasks or latency; null: balanced, as the policy has it
    latency_bound: LatencyBound | msgspec.UnsetType = msgspec.UNSET  # the objective, in place of a weight; absent: none
    minutes_known_min: Annotated[int, Meta(ge=1, le=60)] = 5  # no policy is asked about a window with fewer reported minutes
    on_drift: Literal["adopt", "insist", "stop"] = "stop"  # when somebody else changed the parallelism
    priority: int = 0
    policy: PolicyName | None = None
    adopted_at_ms: TimeMs = 0  # what somebody else had asked for by then is taken over
    reapplied_at_ms: TimeMs = 0  # what was required before a new submission seen by then is asked for again
    memory_limit: Annotated[float, Meta(gt=0.0)] | msgspec.UnsetType = msgspec.UNSET  # GiB for the job; absent: any
    utilisation: Share | msgspec.UnsetType = msgspec.UNSET  # how busy subtasks should be; absent: as the policy has it
    emergency_growth: bool | msgspec.UnsetType = msgspec.UNSET  # plain overload is answered at once; absent: on a real engine
    # Percent of features outside of the training above which the rule takes over; absent: never.
    feature_drift_max: Annotated[float, Meta(ge=0.0, le=100.0)] | msgspec.UnsetType = msgspec.UNSET
    calibrated_spread: bool | msgspec.UnsetType = msgspec.UNSET  # sure plans for its last day's forecast errors; absent: no
    pause: Pause | msgspec.UnsetType = msgspec.UNSET  # absent: nothing is paused
    approval: Approval | msgspec.UnsetType = msgspec.UNSET  # the last one; it is answered once
    request: Text | msgspec.UnsetType = msgspec.UNSET  # the HTTP request that made this version; repeated, it makes none
    # Limits that somebody set to what they are by themselves: a label of the job does not change these.
    given: Annotated[tuple[Text, ...], Meta(max_length=100)] | msgspec.UnsetType = msgspec.UNSET
    set_by: str = "default"
    set_at_ms: TimeMs = 0

    def __post_init__(self) -> None:
        """Check what the types do not say.

        Raises:
            ValueError: the policy has a name that none can have.
        """
        if self.policy is not None:
            check_policy_name(self.policy)
