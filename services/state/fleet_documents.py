"""The documents of the HTTP API about everything together: clusters and their units, policies, the pipeline. Public."""

from typing import Literal

from msgspec import UNSET, UnsetType

from surescale.contracts.commands import Balance
from surescale.contracts.decisions import ServedDecision, ShadowDecision, ShadowStatus, TaskDifference, Verdict
from surescale.contracts.job_settings import Pause
from surescale.contracts.messages import ClockSegment, ClusterTopology, EngineEvent
from surescale.contracts.releases import Release
from surescale.contracts.rescaler_state import BalanceMemory, ClusterMemory
from surescale.services.state.record_documents import Appended, ViewDocument

LARGEST_SHOWN = 3


class ShadowComparison(ViewDocument, frozen=True, kw_only=True):
    """The decision and the shadow's answer to one window."""

    served: Verdict
    """What was decided."""
    shadow: Verdict
    """What the shadow policy would have decided."""
    took_ms: float
    """Milliseconds that the shadow's answer took."""
    tasks: int
    """Scalable tasks of the job."""
    differing: int
    """Those of them that the two give another parallelism."""
    largest: tuple[TaskDifference, ...]
    """The largest differences, largest first."""


class StoredAnswer(ViewDocument, frozen=True, kw_only=True):
    """What a shadow policy made of one window, as the view keeps it."""

    shadow_id: str
    """Identity of the answer."""
    job: str
    """Id of the job, ``cluster/name``."""
    span_end_ms: int
    """End of the span that the decision is about."""
    policy: str
    """The shadow policy."""
    sha256: str
    """Hash of its package; empty for a rule."""
    served: ServedDecision
    """The decision that was made, and by which policy."""
    status: ShadowStatus
    """``answered``; ``failed``; ``late``: it took too long; ``skipped``: too many windows were waiting."""
    reason: str
    """The policy's own reason, or why there is no answer."""
    comparison: ShadowComparison | None
    """The two answers; null if there is only one."""


class ShadowSummary(ViewDocument, frozen=True, kw_only=True):
    """The record of one shadow policy: all its answers that are kept, beside the decisions that were made.

    Differences are the shadow's figure less the one of the decision. Each answer starts from the sizes that the decisions had led
    to, so these are no figures of a cluster that the shadow rules.
    """

    cluster: str
    """The cluster."""
    policy: str
    """The shadow policy."""
    sha256: str
    """Hash of its package; empty for a rule."""
    beside: tuple[str, ...]
    """Policies that decided meanwhile, sorted."""
    jobs: tuple[str, ...]
    """Jobs that it looked at, sorted."""
    from_ms: int
    """End of the first span."""
    to_ms: int
    """End of the last span."""
    answered: int
    """Windows on which there are two answers."""
    failed: int
    """Windows to which it gave no answer."""
    late: int
    """Windows for which it took too long."""
    skipped: int
    """Windows for which it was not asked, since too many were waiting."""
    decisions_equal: float | None
    """Share of its answers that give every task the same parallelism; null: there is no answer."""
    tasks_equal: float | None
    """Share of all tasks of all answers to which both give the same parallelism."""
    acts: int
    """Its answers that would have changed a task."""
    served_acts: int
    """Decisions beside them that did want to."""
    subtasks_difference: float | None
    """Mean difference in a job's subtasks."""
    subtask_minutes_per_day: float | None
    """Difference of all its jobs in a day."""
    dollars_per_day: float | None
    """What that costs at the mean price of a unit in the cluster; null while no host has a price."""
    utilisation: float | None
    """Mean utilisation of the busiest task that its answers predict; 1 is full."""
    served_utilisation: float | None
    """The same of the decisions."""
    overloaded: float | None
    """Share of its answers that predict a task with more work than it can do."""
    served_overloaded: float | None
    """The same of the decisions."""
    took_ms: float | None
    """Mean time of an answer, milliseconds."""
    took_ms_max: float | None
    """The longest."""
    served_took_ms: float | None
    """Mean time of the decisions beside it, from the window's arrival."""
    newest_problem: str | UnsetType = UNSET
    """Why its newest window has no answer; absent if it has one."""


def answer_of(record: ShadowDecision) -> StoredAnswer:
    """Return a record as the view keeps it: of its differences only the largest."""
    found = record.comparison
    compared = None
    if found is not None:
        by_size = sorted(found.differences, key=lambda each: (-abs(each.shadow - each.served), each.task))
        compared = ShadowComparison(
            served=found.served,
            shadow=found.shadow,
            took_ms=found.took_ms,
            tasks=found.tasks,
            differing=len(found.differences),
            largest=tuple(by_size[:LARGEST_SHOWN]),
        )
    return StoredAnswer(
        shadow_id=record.shadow_id,
        job=record.job,
        span_end_ms=record.span_end_ms,
        policy=record.policy,
        sha256=record.sha256,
        served=record.served,
        status=record.status,
        reason=record.reason,
        comparison=compared,
    )


class ClusterRent(ViewDocument, frozen=True, kw_only=True):
    """What all hosts cost on which any job has a unit, each counted once; where the engine places, all its hosts."""

    hosts: tuple[str, ...]
    """Names of those hosts, sorted; empty where only the price of a worker is known."""
    per_s: float
    """Dollars per second."""
    per_day: float
    """Dollars per day."""
    free_slots: int | None = None
    """Slots that no job has; null where the rescaler places, or nobody knows. They cost as much as the others."""
    spare_hosts: tuple[str, ...] = ()
    """Hosts all of whose slots are free: only these could be given back."""


class ClusterOverview(ViewDocument, frozen=True, kw_only=True):
    """A cluster in one line. A figure that is not known is null."""

    cluster: str
    """Name of the cluster."""
    engine: str | None
    """Kind of its engine."""
    hosts: int | None
    """Number of its hosts."""
    units: int | None
    """Parallel units, or slots, of all of them."""
    jobs: int
    """Number of its jobs."""
    rent_per_day: float | None
    """Dollars a day of the hosts on which any job has a unit."""
    policy: str | None
    """Policy of its latest release; null: none, so the agents' default decides."""


class ClusterDocument(ViewDocument, frozen=True, kw_only=True):
    """What the view holds about one cluster. A part that no topic has written yet is null."""

    cluster: str
    """Name of the cluster."""
    topology: Appended[ClusterTopology] | None
    """Its hosts."""
    placement: Appended[ClusterMemory] | None
    """Its placement generation."""
    balance: Appended[BalanceMemory] | None
    """How far jobs have followed its hosts."""
    balances: tuple[Appended[Balance], ...]
    """The latest looks at its hosts, newest first."""
    policy_release: Appended[Release] | None
    """Its latest policy release."""
    pause: Pause | None
    """What somebody has paused last for all its jobs, also if its time has passed; null if it was resumed."""
    jobs: tuple[str, ...]
    """Ids of its jobs, sorted."""
    rent: ClusterRent | None
    """What its hosts in use cost now; null while its hosts, or their prices, are unknown."""
    events: tuple[Appended[EngineEvent], ...]
    """Its latest engine events, newest first."""
    unreadable: tuple[str, ...] | UnsetType = UNSET
    """Names of the parts and jobs that cannot be read, and are left out; absent if there are none."""


class WorkerDocument(ViewDocument, frozen=True, kw_only=True):
    """A host that offers parallel units."""

    id: int
    """Its lowest unit."""
    host: str
    """Name of the host."""
    parallel_units: tuple[int, ...]
    """Ids of its units, ascending."""
    state: Literal["running", "removed_soon"]
    """Whether new work may go there."""


class FragmentDocument(ViewDocument, frozen=True, kw_only=True):
    """A task and the units it occupies."""

    id: int
    """Made from the names of job and task, below 2^48."""
    job: str
    """Id of the job, ``cluster/name``."""
    task: str
    """Name of the task."""
    distribution: Literal["single", "hash"]
    """``single`` for a task that always has one subtask."""
    stateful: bool
    """Whether the task keeps state."""
    parallel_units: tuple[int, ...]
    """Ids of its units, ascending."""
    mapping: tuple[int, ...] | UnsetType = UNSET
    """Unit of each vnode, int [vnodes]; absent for ``single``, for tasks with another number of vnodes than the cluster's, and
    for the largest jobs of a cluster with more than four million vnodes."""


class ClusterInfo(ViewDocument, frozen=True, kw_only=True):
    """Workers and fragments, as RisingWave's GetClusterInfo: the ``cluster`` of a request to `surescale dev reschedule`."""

    cluster: str
    """Name of the cluster."""
    generation: int
    """Commits of the cluster's placement so far."""
    vnodes: int
    """Vnodes of a hash fragment."""
    workers: tuple[WorkerDocument, ...]
    """Hosts that offer units, by id."""
    fragments: tuple[FragmentDocument, ...]
    """Tasks that occupy units, by job."""
    jobs_without_units: tuple[str, ...]
    """Jobs that wait for units or have ended."""
    unknown_units: tuple[int, ...]
    """Units that a job names and no worker offers: for a moment after a host died."""
    unreadable_jobs: tuple[str, ...] | UnsetType = UNSET
    """Jobs that are left out because their topology or mapping cannot be read; absent if there are none."""


class PolicyInUse(ViewDocument, frozen=True, kw_only=True):
    """A policy, and where its answers come from: jobs are counted by their latest decision."""

    name: str
    """Name of the policy."""
    sha256: str
    """Hash of its package; empty for a rule."""
    jobs: tuple[str, ...]
    """Jobs it decided for, sorted."""
    stands_in: tuple[str, ...]
    """Those of them whose own policy failed, so that this one took its place."""
    fallback_reasons: tuple[str, ...]
    """Why, each reason once."""
    judged: str | None = None
    """How its package was judged, in a line; null of a rule, and where the state service does not have this version of it."""


class PoliciesDocument(ViewDocument, frozen=True, kw_only=True):
    """Which policy serves where."""

    in_use: tuple[PolicyInUse, ...]
    """By name."""
    releases: tuple[Appended[Release], ...]
    """The latest release to each cluster, share of jobs or job that has one, and each shadow policy."""
    shadows: tuple[ShadowSummary, ...]
    """How the shadow policies compare with the decisions that were made."""


class StageDocument(ViewDocument, frozen=True, kw_only=True):
    """One role, as what it last wrote tells."""

    role: str
    """The role that writes the records."""
    writes: str
    """What it writes."""
    records: int
    """Records of its topics that the view stands for, counted from the beginning of the log."""
    newest_ms: int | None
    """Event time of its newest record; null: none yet."""
    appended_ms: int | None
    """Broker's time of that record."""
    problem: str | None = None
    """What is due from it and does not come, for all jobs of a cluster, and what to do; null if nothing is."""
    notes: tuple[str, ...] = ()
    """More about it for people: which monitor watches a cluster; which single jobs lack what is due from it."""


class PipelineDocument(ViewDocument, frozen=True, kw_only=True):
    """The pipeline as the view sees it."""

    stages: tuple[StageDocument, ...]
    """The roles, in the order in which a record meets them; an engine only where it is simulated and tells the time."""
    freshness_ms: int | None
    """Median, over the jobs' latest decisions, of the time from the record that closed the minute to the decision."""
    dead_letters: dict[str, int]
    """Refused records, by reason."""
    unreadable_records: dict[str, int]
    """Records that the view could not read, by topic."""
    late_samples: int
    """Samples that came after their minute had closed."""
    clocks: dict[str, Appended[ClockSegment]]
    """Current segment of each pipeline's clock."""


Counts = dict[str, int | dict[str, int]]
"""Answer of ``/counts``: how many distinct records there were, by kind and, within it, by what tells them apart."""

Clocks = dict[str, Appended[ClockSegment]]
"""Answer of ``/clocks``: by pipeline, in order of name."""
