"""The documents of the HTTP API about jobs and the service itself. Public, as those in `services.state.fleet_documents`.

`surescale job list`, `job show`, `job decisions` and `cluster show` print them with ``--json``.

Fields are answered in the order in which they are declared. Units are in the names: ``_ms`` is milliseconds since the epoch, of
the pipeline's clock unless it says wall or broker; rents are dollars.
"""

from typing import Literal

from msgspec import UNSET, UnsetType

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.job_settings import JobSettings, Mode
from surescale.contracts.messages import JobTopology
from surescale.contracts.modes import Source
from surescale.contracts.rescaler_state import Condition, JobControl
from surescale.services.state.read.staleness import NextDecision, Stale
from surescale.services.state.read.status import Status
from surescale.services.state.record_documents import (
    Appended,
    CommandDocument,
    DecisionDocument,
    ViewDocument,
    WindowDocument,
)

# --- jobs ----------------------------------------------------------------------------------------------------------------------


class SummedCost(ViewDocument, frozen=True, kw_only=True):
    """What a job cost over some days, at the price that a slot had at the end of each: of its slots, minute by minute."""

    since: str
    """The first of the days, like 2026-11-28, in the pipeline's time, UTC."""
    minutes: int
    """Minutes of these days that are known."""
    dollars: float
    """For these minutes."""
    saved_configured: float | None
    """Dollars less than at the size that its author configured, over the minutes in which that size was known; null: in none."""


class JobRent(ViewDocument, frozen=True, kw_only=True):
    """What a job costs now. Where the rescaler places, every host on which it has a unit counts in full; else its slots count."""

    hosts: tuple[str, ...]
    """Names of those hosts, sorted; empty where the engine places."""
    per_s: float
    """Dollars per second."""
    per_day: float
    """Dollars per day."""
    algorithm: str | None
    """The placement algorithm that chose the hosts; null if no command of the rescaler did."""
    saved_round_robin_per_day: float | None
    """Dollars per day less than for as many units dealt out host by host; null if unknown."""
    saved_default_per_day: float | None
    """Dollars per day less than for as many units drawn at random, as Flink does; null if unknown."""
    slots: int | None = None
    """Slots that it needs, or workers of consumer groups; null where the rescaler places."""
    saved_configured_per_day: float | None = None
    """Dollars per day less than at the size that its author configured; negative: more; null where nobody knows that size."""
    days: tuple[SummedCost, ...] = ()
    """Each of the last 31 days of which minutes are known, the newest first; empty where the rescaler places."""
    month: SummedCost | None = None
    """Those of the last 30 days together; null: none is known."""
    frees_no_host: str = ""
    """Why slots that it does without save no money yet, and what to do, for people; empty: they do, or it does without none."""


class TaskMinuteDocument(ViewDocument, frozen=True, kw_only=True):
    """One minute of one task; null where the engine does not know or nobody reported."""

    task: str
    """Name of the task."""
    parallelism: float | None
    """Subtasks at the end of the minute."""
    utilisation: float | None
    """Share of the time in which its subtasks were busy, 0 to 1."""
    backpressured: float | None
    """Share of the time in which its subtasks were held back by tasks below, 0 to 1."""
    records: float | None
    """Records taken."""
    backlog: float | None
    """Records waiting at the end of the minute."""
    latency_ms: float | None
    """Mean time of a record at the task, waiting and in work."""


class TaskBoundsDocument(ViewDocument, frozen=True, kw_only=True):
    """The sizes that are in force for one scalable task: of settings, labels, periods, engine and topics the narrowest."""

    task: str
    """Name of the task."""
    least: int
    """Fewest subtasks."""
    most: int
    """Most subtasks."""
    most_in_words: str
    """The same with what says so: ``4, partitions``."""
    pinned: bool
    """Whether its size stays as it is."""


class JobDocument(ViewDocument, frozen=True, kw_only=True):
    """Everything the view holds about one job. A part that no topic has written yet is null."""

    job: str
    """Id of the job, ``cluster/name``."""
    topology: Appended[JobTopology] | None
    """Its newest topology."""
    settings: Appended[JobSettings] | None
    """Its settings."""
    mode: Mode
    """Mode in force: act, advise or observe."""
    mode_set_by: Source
    """What decided it: settings, label, default (of its engine), engine (takes no commands), or name (that two jobs share)."""
    window: WindowDocument | None
    """Its newest window."""
    age_minutes: int | None
    """How many minutes ago its newest window ended: of the pipeline's clock, or of the wall's where that runs slower."""
    decision: DecisionDocument | None
    """Its latest decision."""
    gate: Appended[JobControl] | None
    """How the rescaler's control of it stands."""
    command: CommandDocument | None
    """Its newest command."""
    rent: JobRent | None
    """What it costs now; null while its hosts are unknown, and where the engine places jobs itself."""
    status: Status
    """How it is, in one word."""
    minute_by_task: tuple[TaskMinuteDocument, ...]
    """How its newest minute went, task by task; empty before the first."""
    engine: Capabilities | None = None
    """What its engine can do; null while the monitor has not said."""
    bounds: tuple[TaskBoundsDocument, ...] = ()
    """The bounds in force at the end of its newest window, by scalable task."""
    total_most: int | None = None
    """Most subtasks of all scalable tasks together; null: no such limit."""
    conditions: tuple[Condition, ...] = ()
    """How it is: the conditions of the rescaler, and Measured, which says whether figures come."""
    stale: Stale | None = None
    """What is due and has not come; null if nothing is."""
    next_decision: NextDecision | None = None
    """The next regular decision; null before its first window, while something is overdue, and while it does not run."""
    next_in_words: str = ""
    """When the next decision is due and what it waits for, or why none is; empty while nobody knows the job."""
    pipeline: str | UnsetType = UNSET
    """Topic prefix of the pipeline that has it; absent where one pipeline is shown."""
    unreadable: tuple[str, ...] | UnsetType = UNSET
    """Names of the parts that cannot be read, and are left out; absent if there are none."""


class JobFigures(ViewDocument, frozen=True, kw_only=True):
    """The figures of one minute of a job; null where one is not known. `page/words.json` has what is said of each."""

    parallelism: int | None
    """Subtasks of all scalable tasks."""
    load_records_per_minute: float | None
    """Records that came to the job."""
    utilisation: float | None
    """Busy share of its busiest task, 0 to 1."""
    backlog_records: float | None
    """Records waiting at all its tasks at the end of the minute."""
    backlog_ms: float | None
    """Time in which as many records come as waited at the end of the minute, at its load."""
    latency_ms: float | None
    """Mean time of a record from the sources to the end of the slowest path."""
    rent_per_day: float | None
    """Dollars a day of the hosts on which the job has a unit."""


class JobOverview(JobFigures, frozen=True, kw_only=True):
    """A job in one line. A figure that is not known is null."""

    job: str
    """Id of the job, ``cluster/name``."""
    state: str | None
    """State in its newest topology."""
    generation: int | None
    """Generation that the engine has applied."""
    tasks: int
    """Number of tasks."""
    mode: Mode
    """Mode in force: act, advise or observe."""
    window_end_ms: int | None
    """End of its newest window."""
    completeness: float | None
    """Share of that window's task-minutes that were reported, 0 to 1."""
    age_minutes: int | None
    """How many minutes ago that window ended: of the pipeline's clock, or of the wall's where that runs slower."""
    action: str | None
    """Action of its latest decision."""
    outcome: str | None
    """Status of that decision's last outcome."""
    gate_phase: str | None
    """Phase of its gate."""
    wake_up_ms: int | None
    """When the rescaler next has something to do for it."""
    status: Status
    """How it is, in one word."""
    overloaded_tasks: int | None
    """Tasks that were always busy in that minute, or have two minutes of their work waiting."""
    configured_parallelism: int | None
    """Subtasks that its author asked for, of all scalable tasks; null if any task does not say."""
    scalable_tasks: int = 0
    """Number of tasks whose parallelism may change."""
    ran: float | None = None
    """Share of that minute in which its tasks ran, 0 to 1; 0 while it is down."""
    saved_per_day: float | None = None
    """Dollars a day that it costs less than at its author's size; negative: more; null: unknown, or the rescaler places."""
    is_at_limit: bool = False
    """Whether its latest decision left an overloaded task below what its load needs, because a limit allows no more."""
    decided_ms: int | None = None
    """End of the span of its latest decision."""
    came: str | None = None
    """What came of that decision: hold, acted, advised, observed, waits, refused with the reason, ..."""
    policy_in_use: str | None = None
    """What made that decision: a policy, or a rule ``for`` the policy that was asked and could not answer."""
    fallback_reason: str | None = None
    """Why a rule made that decision in place of the policy; null if it did not."""
    applied_generation: int | None = None
    """Generation of the last command that was carried out."""
    feature_drift: float | None = None
    """Share of the features behind its latest decision that lie outside of the policy's training, 0 to 1; null: unknown."""
    feature_drift_usual: float | None = None
    """The share that 99 of 100 windows of that training stay below."""
    restarts: int | None = None
    """Minutes, of the ten up to the newest window's end, in which it restarted at the size that it had."""
    seen_ms: int | None = None
    """When the monitor last told its topology."""
    began_ms: int | None = None
    """When its engine last began to run it; null where the engine does not say."""
    pipeline: str | UnsetType = UNSET
    """Topic prefix of the pipeline that has it; absent where one pipeline is shown."""
    stale: Stale | None = None
    """What is due and has not come; null if nothing is."""
    unreadable: tuple[str, ...] | UnsetType = UNSET
    """Names of the parts that cannot be read, and are left out; absent if there are none."""


class DecisionMark(ViewDocument, frozen=True, kw_only=True):
    """A decision, as a mark on a time axis."""

    decision_id: str
    """Identity of the decision."""
    at_ms: int
    """End of the span that the decision is about."""
    action: Literal["act", "hold"]
    """Whether any task is to change."""
    outcome: str | None
    """Status of its last outcome."""
    came: str
    """What came of it, in words: acted, advised, waits (and why), refused (and why), hold."""
    before: int
    """Subtasks of all scalable tasks when it was made."""
    after: int
    """Subtasks that it wants for them."""
    reason: str
    """Why, in a sentence."""


class ExpectedLoad(ViewDocument, frozen=True, kw_only=True):
    """The load that a decision expected of a stretch of time."""

    from_ms: int
    """Where it begins."""
    until_ms: int
    """Where it ends."""
    mean: float
    """Expected records a minute."""
    low: float | None
    """One standard deviation below; null where the policy does not say how sure it is."""
    high: float | None
    """One standard deviation above."""


class HistoryDocument(ViewDocument, frozen=True, kw_only=True):
    """A job's last minutes in columns of one length, oldest first; null where a figure is not known."""

    job: str
    """Id of the job, ``cluster/name``."""
    window_end_ms: tuple[int, ...]
    """Ends of the minutes. A minute without a window is left out."""
    figures: dict[str, tuple[float | None, ...]]
    """The columns, by field of the table of figures: those of `JobFigures`, with the rent of the placement that was in force."""
    decisions: tuple[DecisionMark, ...]
    """Decisions about these minutes, oldest first."""
    expected: tuple[ExpectedLoad, ...] = ()
    """The load that the newest of these decisions expected ahead; empty if its policy does not look ahead."""
    unreadable: tuple[str, ...] | UnsetType = UNSET
    """Names of the parts that cannot be read, and are left out; absent if there are none."""


class TaskHistoryDocument(ViewDocument, frozen=True, kw_only=True):
    """A task's last minutes in columns of one length, oldest first; null where a figure is not known."""

    job: str
    """Id of the job, ``cluster/name``."""
    task: str
    """Name of the task."""
    window_end_ms: tuple[int, ...]
    """Ends of the minutes. A minute without a window, or in which the job had no such task, is left out."""
    figures: dict[str, tuple[float | None, ...]]
    """The columns, by field of `TaskMinuteDocument`."""
    unreadable: tuple[str, ...] | UnsetType = UNSET
    """Names of the parts that cannot be read, and are left out; absent if there are none."""


# --- the service itself -----------------------------------------------------------------------------------------------------


class IndexDocument(ViewDocument, frozen=True, kw_only=True):
    """Answer of ``/``."""

    name: str
    """Always ``surescale``."""
    links: tuple[str, ...]
    """The paths of this API."""


class HealthDocument(ViewDocument, frozen=True, kw_only=True):
    """Answer of ``/health``."""

    role: str
    """Always ``state-service``."""
    ready: bool
    """Whether the view has shown everything on Kafka since it was connected, and lacks only what has just arrived."""
    records: int
    """Records taken into the view since the start."""
    rebuilds: int
    """Rebuilds of the view since the start."""


class ChangeDocument(ViewDocument, frozen=True, kw_only=True):
    """Data of an event of ``/events``: the view has changed, or cannot be read."""

    records: int
    """Offsets of all partitions that the view stands for, added up: the id of the event."""
    topics: tuple[str, ...]
    """Topics with records since the event before; all of them in the first event of a stream."""
    problem: str | None = None
    """Why the view cannot be read now; null if it can."""


Verb = Literal["paused", "resumed", "approved"]


class AccessDocument(ViewDocument, frozen=True, kw_only=True):
    """Answer of ``/access``: what the token that asked may do."""

    name: str
    """Name of the token; empty if it has none."""
    may_operate: bool
    """Whether it may pause, resume and approve."""
    operable: bool
    """Whether any token may: the service has a file of such tokens."""


class OperationDocument(ViewDocument, frozen=True, kw_only=True):
    """Answer to a pause, a resume or an approval."""

    target: str
    """The job, or the cluster."""
    done: Verb
    """What was asked for."""
    written: bool
    """Whether this request has written a record; false if there was nothing to change, or it came before."""
    repeated: bool
    """Whether the same request had come before."""
    version: int
    """Version of the settings that hold it."""
    by: str
    """Who set that version."""
    at_ms: int
    """When."""
    paused: str
    """What is paused now, for the job or its cluster, until when and why; empty: nothing."""


class SizeWithout(ViewDocument, frozen=True, kw_only=True):
    """One task whose size would have been another."""

    task: str
    """Name of the task."""
    decided: int
    """Subtasks that were decided."""
    without: int
    """Subtasks that would have been decided."""


class CounterfactualDocument(ViewDocument, frozen=True, kw_only=True):
    """What would have been decided if the figures of one task, or of one minute, had not been seen."""

    decision_id: str
    """The decision."""
    without: str
    """The task or the minute that was left out, as it was asked for."""
    action: Literal["act", "hold"]
    """Whether any task would have changed."""
    reason: str
    """Why, in a sentence."""
    sizes: tuple[SizeWithout, ...]
    """The tasks that would have had another size than the decision gave them."""
    stand_in_reason: str | None
    """Why a rule would have stood in for the policy; null if the policy would have answered."""
    is_same_with_all: bool
    """Whether deciding again with nothing left out gives the decision. If not, another version of surescale made it, and what
    differs above need not come from what was left out."""


class ErrorDocument(ViewDocument, frozen=True, kw_only=True):
    """Answer with a status from 400."""

    error: str
    """What is wrong, and why."""
    near: tuple[str, ...] | UnsetType = UNSET
    """For a name that is unknown: names like it, or the first few there are."""
    links: tuple[str, ...] | UnsetType = UNSET
    """For a path that is unknown: the paths of this API."""
