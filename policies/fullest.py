"""Says which tasks no size helps: keys or partitions are uneven, and one subtask never rests; or all of them are too few."""

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import is_simulated
from surescale.contracts.plurals import counted
from surescale.contracts.saturation import QUIET_MOST
from surescale.contracts.windows import FIGURE
from surescale.policies.dealt import carried, most_carried
from surescale.policies.graph import Bool
from surescale.policies.measure import SKEW_LEAST, mean_of_last
from surescale.policies.question import Question

FULL_MINUTES = 5  # in which a subtask never rested
FULL_LEAST = 0.98  # share of its time that a subtask is busy that never rests


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
