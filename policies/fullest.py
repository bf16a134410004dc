"""Says which tasks no size suits: one subtask never rests, what is dealt out is too little, or the next size too far away."""

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import is_simulated
from surescale.contracts.plurals import counted, records
from surescale.contracts.saturation import QUIET_MOST
from surescale.contracts.windows import FIGURE
from surescale.policies.dealt import SLACK, carried, fewest, most_carried, smaller
from surescale.policies.graph import Bool
from surescale.policies.measure import SKEW_LEAST, mean_of_last
from surescale.policies.question import Question
from surescale.policies.sizing import CALIBRATED, exact_subtasks

FULL_MINUTES = 5  # in which a subtask never rested
FULL_LEAST = 0.98  # share of its time that a subtask is busy that never rests
COARSE_MOST = 0.75  # of what tasks should be busy: less is told of


def full_of(question: Question) -> Bool:
    """Return bool [N], tasks whose busiest subtask never rests while they carry more than comes; False where unknown."""
    graph, figures = question.graph, question.figures
    if is_simulated(question.window.topology.engine):
        return np.zeros_like(graph.scalable)
    most = FULL_LEAST * MINUTE_MS
    if not (figures[..., FIGURE["busy_ms_max"]] >= most).any():  # nor is a mean
        return np.zeros_like(graph.scalable)
    busy, busiest = (
        mean_of_last(figures[..., FIGURE[name]].T.astype(np.float64), FULL_MINUTES) / MINUTE_MS
        for name in ("busy_ms", "busy_ms_max")
    )
    full: Bool = (
        graph.scalable & (busiest >= FULL_LEAST) & (SKEW_LEAST * busy < FULL_LEAST * carried(question.current, graph.deal))
    )
    return full


def short_of(question: Question) -> Bool:
    """Return bool [N], tasks that need more than any size carries of their partitions or key groups; False where unknown.

    Without a busy counter what a record costs is known from when a backlog lasted, and too high if only a hot partition's did. So
    where nothing waits such a task is not short of anything.
    """
    graph, measured = question.graph, question.measured
    if is_simulated(question.window.topology.engine):
        return np.zeros_like(graph.scalable)
    load, most = mean_of_last(measured.load, FULL_MINUTES), carried(question.current, graph.deal)
    uncounted = np.isnan(question.figures[..., FIGURE["busy_ms"]]).all(axis=0)
    keeps_up = uncounted & (measured.waiting_records <= QUIET_MOST * load * measured.visits)  # False where unknown
    short: Bool = graph.scalable & (most >= most_carried(graph.deal)) & (measured.demand(load) > most) & ~keeps_up
    return short


def short_in_words(question: Question) -> str:
    """Return it and what to do, for the first of these tasks; empty if there is none."""
    short = np.flatnonzero(short_of(question)).tolist()
    if not short:
        return ""
    spec, things = question.window.topology.tasks[short[0]], int(question.graph.dealt[short[0]])
    what = "partition" if spec.useful_max == things else "key group"
    if spec.carries:
        share = 1.0 / float(most_carried(question.graph.deal)[short[0]])
        return (
            f"{spec.label or spec.task}: at any size one subtask has {share:.0%} of the records, more than it gets through, so "
            f"more subtasks do not help: make records cheaper, or spread its keys over more {what}s."
        )
    return (
        f"{spec.label or spec.task} needs more than its {counted(things, what)} can give to subtasks, so more subtasks do not "
        f"help: make records cheaper, or give it more {what}s."
    )


def behind_of(question: Question) -> Bool:
    """Return bool [N], tasks for which much waits, and that should have more subtasks to work it off; False where unknown."""
    graph, measured, limits = question.graph, question.measured, question.limits
    if is_simulated(question.window.topology.engine):
        return np.zeros_like(graph.scalable)
    target = CALIBRATED.utilisation if limits.utilisation is None else limits.utilisation
    have, load = carried(question.current, graph.deal), mean_of_last(measured.load, FULL_MINUTES)
    exact = exact_subtasks(measured, load, graph, CALIBRATED, target)
    waits = measured.backlog_minutes(question.current) >= CALIBRATED.backlog_minutes
    behind: Bool = graph.scalable & waits & (exact > have)
    return behind


def behind_in_words(question: Question, stays: Bool) -> str:
    """Return it and what to do, for the first that no size helps and that keeps its own (``stays``, bool [N]); empty if none."""
    deal = question.graph.deal
    is_widest = carried(question.current, deal) >= most_carried(deal)
    behind = np.flatnonzero(behind_of(question) & is_widest & stays).tolist()
    if not behind:
        return ""
    task = behind[0]
    spec, things = question.window.topology.tasks[task], int(question.graph.dealt[task])
    waiting = float(question.measured.waiting_records[task])
    what = "partition" if spec.useful_max == things else "key group"
    return (
        f"{spec.label or spec.task}: with {counted(things, what)} no size carries more than {spec.parallelism}, so what waits "
        f"({records(waiting)}) is worked off slowly: make records cheaper, or give it more {what}s."
    )


def full_in_words(question: Question, stays: Bool) -> str:
    """Return it and what to do, for the first of the tasks that get no more subtasks (``stays``, bool [N]); empty if none."""
    full = np.flatnonzero(full_of(question) & stays).tolist()
    if not full:
        return ""
    spec = question.window.topology.tasks[full[0]]
    return (
        f"{spec.label or spec.task}: its busiest subtask never rests, the others do. Find its hottest partitions or keys by "
        "their lag: give them fewer records, or try another size, which may part them; a single one too hot is helped by no size."
    )


def coarse_of(question: Question) -> Bool:
    """Return bool [N], tasks much less busy than they should be that the next smaller size of use would make too busy."""
    graph, current = question.graph, question.current
    if is_simulated(question.window.topology.engine) or not graph.deal.any():
        return np.zeros_like(graph.scalable)
    target = CALIBRATED.utilisation if question.limits.utilisation is None else question.limits.utilisation
    work = question.measured.demand(mean_of_last(question.measured.load, FULL_MINUTES))
    below = smaller(current, graph.deal)
    coarse: Bool = graph.scalable & (work < COARSE_MOST * target * current) & (below < current - 1)  # False where unknown
    coarse &= (SLACK * work > target * carried(below, graph.deal)) & (fewest(current, graph.deal) == current)
    coarse &= question.measured.backlog_minutes(current) < CALIBRATED.backlog_minutes  # else it stays for what waits
    return coarse


def coarse_in_words(question: Question, stays: Bool) -> str:
    """Return why the first of these tasks keeps its size (``stays``, bool [N]); empty if none does."""
    coarse = np.flatnonzero(coarse_of(question) & stays).tolist()
    if not coarse:
        return ""
    task, things = coarse[0], int(question.graph.dealt[coarse[0]])
    spec, below = question.window.topology.tasks[task], smaller(question.current, question.graph.deal)
    work = question.measured.demand(mean_of_last(question.measured.load, FULL_MINUTES))
    first, last, busy = int(below[task]) + 1, spec.parallelism - 1, work[task] / carried(below, question.graph.deal)[task]
    what, between = "partition" if spec.useful_max == things else "key group", f"{first} to {last}" if first < last else f"{last}"
    return (
        f"{spec.label or spec.task}: {counted(things, what)} are dealt out whole, so {between} subtasks carry no more than "
        f"{first - 1}, which would be {busy:.0%} busy."
    )
