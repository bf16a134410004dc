"""May it shrink? Names the tasks for which the newest figures do not prove that less is needed, and says why. Pure.

A busy counter is one witness, and it can be wrong: it may cover a part of the work, some subtasks may be silent, or the job may
have been down. So on a real engine a second one is heard: a task that never rests, gets through more than arrives, or has a
backlog that grows or that nobody knows, stays as wide as it is. So does every task whose newest minute is unknown or not whole.
Only growth may rest on figures like these.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import is_simulated
from surescale.contracts.saturation import NEVER_RESTS
from surescale.contracts.source_load import BUSY_LEAST, WHOLE_LEAST, read_or_emitted
from surescale.contracts.windows import FIGURE
from surescale.policies.answer import Float64
from surescale.policies.graph import Bool, JobGraph
from surescale.policies.measure import WARM_UP_MINUTES
from surescale.policies.question import Question

PRESENT_MINUTES: Final = 2
"""All subtasks must have reported in the last ones."""
LATELY_MINUTES: Final = 5
"""Over which arrivals are compared with what was got through, and a backlog with what it was: commits come in waves."""
MORE_LEAST: Final = 0.1
"""By so much more must have been got through than arrived, of what arrived."""
GROWN_LEAST: Final = 0.1
"""Minutes of its throughput by which a backlog must have grown, or two seconds of noise would count."""
CHANCE: Final = 3.0
"""Standard errors of a Poisson count; few records vary by chance."""

UNKNOWN: Final = "its newest minute is unknown"


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why some tasks may not shrink: ``tasks`` is bool [N]."""

    tasks: Bool
    why: str


def doubts_of(question: Question) -> tuple[Doubt, ...]:
    """Return why tasks may not shrink, the plainest reasons first; empty: all of them may.

    On the simulated engine, whose figures are exact, only what is unknown counts (``policies.guardrails.situation``).
    """
    if is_simulated(question.window.topology.engine):
        return ()
    seen, graph = _Newest.of(question), question.graph
    specs = question.window.topology.tasks
    everyone = np.ones(len(specs), dtype=np.bool_)
    partly_unknown = np.array([bool(spec.backlog_partly_unknown) for spec in specs])
    silent, queueless = ~seen.reported, np.isnan(seen.queued)
    source = graph.level == 0
    rested = (seen.busy <= BUSY_LEAST) | (np.isnan(seen.busy) & (seen.arrived == 0.0))
    worked = ~(rested & (seen.records == 0.0))  # True where unknown
    restless = ~(seen.busy + seen.held < NEVER_RESTS)  # True where unknown
    unknown_backlog = worked & (partly_unknown | (source & queueless & (restless | seen.knew_queue)))
    found = (
        (silent, UNKNOWN),
        (_behind(silent & source, graph), "a source before it is silent"),
        (everyone & np.isnan(seen.load), "the load of the newest minute is unknown"),
        (everyone & seen.restarted_lately, "the job restarted within the last minutes"),
        (_job_wide(seen.ran < WHOLE_LEAST, graph), "the job ran for a part of the newest minute only"),
        (seen.told_busy & np.isnan(seen.busy), "its busy time in the newest minute is unknown"),
        (_behind(seen.is_part, graph) if seen.is_part[source].any() else seen.is_part, "only a part of the subtasks report"),
        (seen.busy >= NEVER_RESTS, "it was busy all the time"),
        ((seen.load == 0.0) & (seen.records > 0.0) & (seen.busy > BUSY_LEAST), "it is at work though nothing comes to its job"),
        (_job_wide(seen.grows, graph), "its backlog grows"),
        (_job_wide(seen.drains, graph), "more was got through than arrived, so records wait"),
        (_job_wide(unknown_backlog, graph), "nobody knows how many records wait for it"),
    )
    return tuple(Doubt(tasks & graph.scalable, why) for tasks, why in found if (tasks & graph.scalable).any())


@dataclass(frozen=True, slots=True)
class _Newest:
    """What the newest minutes say; arrays are [N], shares are of the time of all subtasks, NaN where unknown."""

    reported: Bool
    load: float
    restarted_lately: bool
    ran: Float64
    busy: Float64
    held: Float64
    records: Float64
    arrived: Float64
    queued: Float64
    knew_queue: Bool  # the queue was known in some minute
    told_busy: Bool  # so was the busy time
    is_part: Bool  # some subtasks did not report
    grows: Bool
    drains: Bool

    @classmethod
    def of(cls, question: Question) -> "_Newest":
        figures, told = question.figures, question.window.figures[..., FIGURE["queued_records_last"]]
        lately = figures[-LATELY_MINUTES - 1 :].astype(np.float64)
        newest = lately[-1]
        offered = newest[:, FIGURE["parallelism"]] * MINUTE_MS
        with np.errstate(divide="ignore", invalid="ignore"):
            busy, idle, held = (newest[:, FIGURE[name]] / offered for name in ("busy_ms", "idle_ms", "backpressured_ms"))
            coverage = np.fmin.reduce(lately[-PRESENT_MINUTES:, :, FIGURE["coverage"]])
        done = read_or_emitted(lately[..., FIGURE["records_in"]], lately[..., FIGURE["records_out"]])
        queued = lately[..., FIGURE["queued_records_last"]]
        return cls(
            reported=~np.isnan(newest[:, FIGURE["coverage"]]) & ~np.isnan(done[-1]),
            load=float(question.measured.load[-1]),
            restarted_lately=bool(question.restarted[-WARM_UP_MINUTES:].any()),
            ran=busy + idle + held,
            busy=busy,
            held=np.nan_to_num(held),
            records=done[-1],
            arrived=newest[:, FIGURE["arrived"]],
            queued=told[-1].astype(np.float64),
            knew_queue=np.asarray((~np.isnan(told)).any(axis=0)),
            told_busy=np.asarray((~np.isnan(figures[..., FIGURE["busy_ms"]])).any(axis=0)),
            is_part=coverage < 1.0 - 1e-3,
            grows=_grows(queued, done),
            drains=_drains(lately[1:, :, FIGURE["arrived"]], done[1:]),
        )


def _grows(queued: Float64, done: Float64) -> Bool:
    """Return [N] whether more waits at the end of the minutes [m, N] than at their begin, by enough of what was got through."""
    before = np.full(queued.shape[1], np.nan)
    for minute in queued[-2::-1]:
        before = np.where(np.isnan(minute), before, minute)
    through = np.fmax.reduce(done[1:] if len(done) > 1 else done)
    through = np.nan_to_num(through)
    grown: Bool = queued[-1] - before > GROWN_LEAST * through + CHANCE * np.sqrt(through)  # False where unknown
    return grown


def _drains(arrived: Float64, done: Float64) -> Bool:
    """Return [N] whether more was got through than arrived in the minutes [m, N] in which both are known."""
    known = ~np.isnan(arrived) & ~np.isnan(done)
    came, went = (np.where(known, each, 0.0).sum(axis=0) for each in (arrived, done))
    more: Bool = went - came > MORE_LEAST * came + CHANCE * np.sqrt(went)
    return more


def _job_wide(tasks: Bool, graph: JobGraph) -> Bool:
    """Return the tasks [N] and, with a source among them, all after it: what is true of it hides what they need."""
    return tasks | _behind(tasks & (graph.level == 0), graph)


def _behind(tasks: Bool, graph: JobGraph) -> Bool:
    """Return the tasks [N] and all after them."""
    if not tasks.any():
        return tasks
    reached = tasks.copy()
    for members in graph.by_level[1:]:
        parents, known = graph.parents.index[members], graph.parents.known[members]
        reached[members] |= (reached[parents] & known).any(axis=-1)
    return reached


def words_for(doubts: tuple[Doubt, ...], held: list[int], names: list[str]) -> str:
    """Return why the tasks at ``held`` do not shrink, in one sentence; empty if none is held. ``names``: [N], for people."""
    if not held:
        return ""
    why = next((doubt.why for doubt in doubts if doubt.tasks[held[0]]), UNKNOWN)
    others = f", and so do {len(held) - 1} more" if len(held) > 1 else ""
    return f"{names[held[0]]} keeps its subtasks{others}: {why}."
