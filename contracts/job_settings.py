"""The limits that the user sets for a job, as a record, and all that is said of each of them in one place.

``JobSettings`` is the table of job settings: a field with its type and range, and a `Setting` with its option, its help, its
default and its reader. Options, labels, groups files, `job settings`, the history and what-if are made of ``SETTINGS``. What a
limit means for one task says ``contracts.job_limits``. Records follow the conventions of ``contracts.messages``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

from msgspec import Meta

from surescale.contracts.capabilities import SIMULATED
from surescale.contracts.messages import Count, Identity, Label, Message, Parallelism, Part, Text, TimeMs
from surescale.contracts.own_acts import check_policy_name

Mode = Literal["act", "advise", "observe"]
Objective = Literal["cost", "balanced", "latency"]
Factor = Annotated[float, Meta(gt=1.0, le=1_000_000.0)]
PolicyName = Annotated[str, Meta(max_length=256)]
FilesName = Annotated[str, Meta(max_length=256)]
Minutes = Annotated[float, Meta(ge=0.0, le=10_080.0)]
Quota = Annotated[float, Meta(gt=0.0, le=1_000_000.0)]
Share = Annotated[float, Meta(ge=0.05, le=1.0)]
ClockTime = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$(?!\n)|^24:00$(?!\n)")]
Day = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$(?!\n)")]
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class TaskLimits(Part, frozen=True, kw_only=True):
    """What the user allows for one task; where a bound is null, the job's holds."""

    parallelism_min: Parallelism | None = None
    parallelism_max: Parallelism | None = None
    pinned: bool = False  # stays as it is, whatever the load


LATE_SECONDS = 60.0
"""A minute is late in which records take longer than this, source to sink, where nobody set a bound, on every engine."""

LimitsByTask = Annotated[dict[Text, TaskLimits], Meta(max_length=10_000)]


class ExcludedPeriod(Part, frozen=True, kw_only=True):
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


class PeriodBounds(Part, frozen=True, kw_only=True):
    """What the owner wants within a period: of every task, and of the job. The strictest of all that hold at a time counts."""

    period: ExcludedPeriod
    least: Parallelism = 1  # 1: no minimum
    most: Parallelism | None = None  # null: no maximum
    objective: Objective | LatencyBound | None = None  # null: the job's own

    @property
    def has_minimum(self) -> bool:
        """Return whether it sets a minimum. That of 1 only a period has that sets nothing else."""
        return self.least > 1 or (self.most is None and self.objective is None)

    def __post_init__(self) -> None:
        """Check what the types do not say.

        Raises:
            ValueError: the minimum is above the maximum.
        """
        if self.most is not None and self.least > self.most:
            raise ValueError(f"min {self.least} is above max {self.most}; give at most that or a higher max")


Direction = Literal["up", "down", "both"]


class Pause(Part, frozen=True, kw_only=True):
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


@dataclass(frozen=True, slots=True)
class Setting:
    """What people are told of one field of ``JobSettings``.

    Attributes:
        option: its option without the dashes: of the command, of a label (without prefix), and of a groups file.
        help: one sentence for people, with the unit.
        read_by: ``policy``: the guardrails and policies, so a what-if plays it; ``limits``: the rescaler's stateful limits;
            ``control``: who decides, and what is carried out.
        default: what holds on a real engine where nobody set it; None: no limit, or as the policy has it.
        simulated: the same on the simulated engine, which keeps the published figures; None: no other.
        words: of a field that is true or false, as people write it.
        form: how one value of a field of several values is written, for help.
    """

    option: str
    help: str
    read_by: Literal["policy", "limits", "control"] = "policy"
    default: Any = None
    simulated: Any = None
    words: Mapping[str, bool] | None = None
    form: str = ""

    def default_on(self, engine: str) -> Any:
        """Return what holds on this kind of engine where nobody set it."""
        return self.simulated if engine == SIMULATED.engine and self.simulated is not None else self.default


class JobSettings(Message, frozen=True, kw_only=True, tag="job-settings/1"):
    """The limits the user sets for a job. ``version`` grows with every change.

    Of a record whose job is ``CLUSTER/*`` only ``pause`` counts: it holds for every job of the cluster.

    Where a limit is null nobody set it: the job's label decides, else its default (``effective``).
    """

    job: Text
    version: Count = 0
    mode: Annotated[
        Mode | None,
        Setting(
            "mode",
            "Observe only, advise, or act; default leaves it to the job's label, or else to its engine.",
            read_by="control",
        ),
    ] = None
    parallelism_min: Annotated[Parallelism | None, Setting("min", "Lowest parallelism of a task.", default=1)] = None
    parallelism_max: Annotated[Parallelism | None, Setting("max", "Highest parallelism of a task.", simulated=10)] = None
    total_limit: Annotated[
        Parallelism | None, Setting("total", "Limit on the sum over the job's scalable tasks.", simulated=200)
    ] = None
    tasks: Annotated[
        LimitsByTask | None,
        Setting(
            "task",
            "Limits of one task, by name or label: MIN..MAX, pinned, or free for none of its own; repeatable.",
            default={},
            form="NAME=LIMITS",
        ),
    ] = None
    # 2 is the range of SURE's actions (IJCAI 2022). On a real engine a load four times as high must not take a third rescale.
    step_up_max: Annotated[
        Factor | None, Setting("step-up", "Largest factor by which one decision widens a task.", default=4.0, simulated=2.0)
    ] = None
    step_down_max: Annotated[
        Factor | None, Setting("step-down", "Largest factor by which one decision narrows a task.", default=2.0)
    ] = None
    # The default of Flink's job.autoscaler.backlog-processing.lag-threshold.
    backlog_hold_minutes: Annotated[
        Minutes | None,
        Setting(
            "backlog-hold",
            "While a task has more minutes of work waiting, none shrinks; 0: never held.",
            default=5.0,
            simulated=0.0,
        ),
    ] = None
    # What Flink's job.autoscaler.memory.gc-pressure.threshold began with. Upstream has switched it off since; here a task without
    # the figure is never held.
    gc_pressure_max: Annotated[
        Share | None,
        Setting(
            "gc-pressure",
            "Share of its time that a TaskManager may collect garbage; above it, its tasks keep their sizes; 1: any.",
            default=0.3,
        ),
    ] = None
    # As Flink's job.autoscaler.memory.heap-usage.threshold: a heap is full before each collection, which is no sign by itself.
    heap_usage_max: Annotated[
        Share | None,
        Setting(
            "heap-usage",
            "Share of its heap that a TaskManager may use; above it, its tasks keep their sizes; 1: any.",
            default=1.0,
        ),
    ] = None
    # However short the span: upstream's job.autoscaler.scale-down.interval is an hour.
    scale_down_after_minutes: Annotated[
        Annotated[int, Meta(ge=0, le=10_080)] | None,
        Setting(
            "scale-down-after",
            "Minutes that a lower need must last before the job shrinks.",
            read_by="limits",
            default=30,
            simulated=0,
        ),
    ] = None
    excluded: Annotated[
        Annotated[tuple[ExcludedPeriod, ...], Meta(max_length=100)] | None,
        Setting(
            "exclude",
            "Time without rescales, like 'mon-fri 09:00-17:30 Europe/Berlin'; repeatable, replaces all; none: no such time.",
            default=(),
            form="PERIOD",
        ),
    ] = None
    # Records of 0.1.0 gave it this name, when a minimum was all that a period could have.
    minimum_within: Annotated[
        Annotated[tuple[PeriodBounds, ...], Meta(max_length=100)] | None,
        Setting(
            "within",
            "Bounds of a task and objective within a time, like 'mon-fri 07:30-09:00 Europe/Berlin: min 20', with max N and "
            "objective WORD as wanted; repeatable, replaces all; none: no such time.",
            default=(),
            form="PERIOD: BOUNDS",
        ),
    ] = None
    rescales_a_day_max: Annotated[
        Annotated[int, Meta(ge=0, le=10_000)] | None, Setting("rescales-a-day", "Most rescales in 24 hours.", read_by="limits")
    ] = None
    block_ineffective: Annotated[
        bool | None,
        Setting(
            "ineffective",
            "After growth that brought no throughput: block more of it for up to a day, or allow it.",
            read_by="limits",
            default=True,
            simulated=False,
            words={"block": True, "allow": False},
        ),
    ] = None
    emergency_growth: Annotated[
        bool | None,
        Setting(
            "emergency",
            "Whether a plainly overloaded job grows at once, or at the end of its span.",
            default=True,
            simulated=False,
            words={"grow": True, "wait": False},
        ),
    ] = None
    align: Annotated[
        bool | None,
        Setting(
            "align", "Prefer sizes that divide key groups or partitions evenly.", default=True, words={"yes": True, "no": False}
        ),
    ] = None
    cpu_limit: Annotated[Quota | None, Setting("cpu", "Most cores for the job.", read_by="limits")] = None
    memory_limit: Annotated[Quota | None, Setting("memory", "Most GiB for the job.", read_by="limits")] = None
    feature_drift_max: Annotated[
        Annotated[float, Meta(ge=0.0, le=100.0)] | None,
        Setting(
            "feature-drift", "Percent of a learned policy's features outside of its training above which the rule takes over."
        ),
    ] = None
    calibrated_spread: Annotated[
        bool | None,
        Setting(
            "spread",
            "Whether sure plans for the errors of its forecasts on this job's own last day, or for those of its training.",
            default=False,
            words={"calibrated": True, "shipped": False},
        ),
    ] = None
    catch_up_minutes: Annotated[
        Annotated[float, Meta(gt=0.0, le=10_080.0)] | None,
        Setting("catch-up", "Minutes in which a backlog should be worked off."),
    ] = None
    restart_seconds: Annotated[
        Annotated[float, Meta(ge=0.0, le=86_400.0)] | None,
        Setting("restart-seconds", "How long a rescale stops the job, for policies that weigh it; without it, as measured."),
    ] = None
    objective: Annotated[
        Objective | LatencyBound | None,
        Setting("objective", "Fewer subtasks or less latency, or a bound: latency=30@0.01 is 30 s in 99 % of the minutes."),
    ] = None
    utilisation: Annotated[
        Share | None, Setting("utilisation", "Share of their time that subtasks should be busy, for policies that aim at one.")
    ] = None
    minutes_known_min: Annotated[
        Annotated[int, Meta(ge=1, le=60)] | None,
        Setting("minutes-known", "Minutes of figures before the first decision (5 unless set).", default=5),
    ] = None
    safe_size: Annotated[
        Parallelism | None,
        Setting("safe-size", "Subtasks that every task gets at least when figures stay away; none shrinks.", read_by="control"),
    ] = None
    # A decision, which tells of figures, comes every ten minutes unless the pipeline is set otherwise.
    safe_after_minutes: Annotated[
        Annotated[int, Meta(ge=20, le=10_080)] | None,
        Setting("safe-after", "Minutes without figures after which a job gets its safe size.", read_by="control", default=30),
    ] = None
    idle_to_zero_minutes: Annotated[
        Annotated[int, Meta(ge=0, le=10_080)] | None,
        Setting(
            "idle-to-zero",
            "Minutes without a record, and with nothing left to do, after which consumer groups get no workers; 0: never.",
            read_by="control",
            default=0,
        ),
    ] = None
    activation_lag: Annotated[
        Count | None,
        Setting("activation-lag", "Records that may wait for a job at rest before it is started.", read_by="control", default=0),
    ] = None
    on_drift: Annotated[
        Literal["adopt", "insist", "stop"] | None,
        Setting(
            "on-drift",
            "After somebody else changed the parallelism: take it as it is, change it back, or stop acting.",
            read_by="control",
            default="stop",
        ),
    ] = None
    priority: Annotated[int | None, Setting("priority", "Priority; higher is more important.", read_by="control", default=0)] = (
        None
    )
    policy: Annotated[
        PolicyName | None,
        Setting("policy", "Policy for this job; default means the one released for its cluster.", read_by="control"),
    ] = None
    adopted_at_ms: TimeMs = 0  # what somebody else had asked for by then is taken over
    reapplied_at_ms: TimeMs = 0  # what was required before a new submission seen by then is asked for again
    pause: Pause | None = None  # null: nothing is paused
    approval: Approval | None = None  # the last one; it is answered once
    applied_from: FilesName | None = None  # the files that this version came from; null: no file; empty: files let the job go
    request: Text | None = None  # the HTTP request that made this version; repeated, it makes none
    set_by: Label = "default"
    set_at_ms: TimeMs = 0

    def __post_init__(self) -> None:
        """Check what the types do not say.

        Raises:
            ValueError: the policy has a name that none can have.
        """
        if self.policy is not None:
            check_policy_name(self.policy)


SETTINGS: Mapping[str, Setting] = {
    field: found
    for field, hint in get_type_hints(JobSettings, include_extras=True).items()
    for found in getattr(hint, "__metadata__", ())
    if isinstance(found, Setting)
}
"""What a user sets of a job, by field."""


def effective(settings: JobSettings, field: str, engine: str = "") -> Any:
    """Return what holds for a field: as set, else its default on this kind of engine. Labels are not looked at."""
    value = getattr(settings, field)
    return SETTINGS[field].default_on(engine) if value is None else value


def newer(known: JobSettings | None, arrived: JobSettings) -> JobSettings:
    """Return the settings in force once a record has arrived: the higher version, and of equal versions the later record."""
    return arrived if known is None or arrived.version >= known.version else known
