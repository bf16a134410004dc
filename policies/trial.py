"""A way down for tasks of unknown cost: the next smaller size while nothing waits, and the former one if it falls behind.

Without a busy counter only a backlog tells what a record costs a task. One that keeps up at every load stays unknown, and would
stay as wide as at its highest peak. So it is tried: where nothing has waited for some minutes, one subtask goes; where work is
dealt out, all that there is no use for with one less (``policies.dealt``). If the task then falls behind, it gets its former size
back at once, between spans too. What it could do meanwhile is remembered (``contracts.saturation``), so that its size can be
calculated from then on, and is not tried again for a day or more.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from surescale.contracts.job_limits import answers_emergencies, is_simulated
from surescale.contracts.saturation import QUIET_MOST, SEEN_MINUTES, falls_behind, not_begun
from surescale.contracts.source_load import read_or_emitted
from surescale.contracts.windows import FIGURE
from surescale.policies.dealt import aligned, smaller
from surescale.policies.graph import Bool, Int64
from surescale.policies.question import Question

QUIET_MINUTES: Final = 5
"""So long must a task have kept up at its present size before it is tried with a smaller one."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Sizes int64 [N] that are tried, 0 for all other tasks: the next smaller, or the former one of those that fall behind."""

    fewer: Int64
    back: Int64


def trial_of(question: Question, *, is_asked: bool) -> Trial:
    """Return what is tried, fewer subtasks only where a policy ``is_asked`` that heeds guardrails.

    Nothing on the simulated engine, and where nobody wants emergencies answered: there is no way back.
    """
    topology, figures, current = question.window.topology, question.figures, question.current
    nothing = np.zeros_like(current)
    uncounted = question.graph.scalable & np.isnan(figures[..., FIGURE["busy_ms"]]).all(axis=0)
    if is_simulated(topology.engine) or not uncounted.any() or not answers_emergencies(question.settings, topology.engine):
        return Trial(nothing, nothing)
    lately = figures[-SEEN_MINUTES:]
    former = current.copy()
    for sizes in np.nan_to_num(lately[..., FIGURE["parallelism"]]).astype(np.int64):  # the newest that was larger
        former = np.where(sizes > current, sizes, former)
    back = np.where(uncounted & falls_behind(lately), former, 0)
    running = np.array([spec.state == "running" and not spec.hindrance for spec in topology.tasks])
    unknown = uncounted & running & np.isnan(question.measured.service_minutes) & (current > 1)
    return Trial(np.where(is_asked & unknown & _keeps_up(question) & (back == 0), _next(question), 0), back)


def _next(question: Question) -> Int64:
    """Return the sizes [N] to try next. Where alignment would keep the present one for its even deal, those after the next."""
    current, dealt, limits = question.current, question.graph.deal, question.limits
    fewer = smaller(current, dealt)
    if not limits.align:
        return fewer
    is_kept = aligned(fewer, current, dealt, np.ones_like(current), current) == current
    return np.where(is_kept, smaller(fewer, dealt), fewer)


def _keeps_up(question: Question) -> Bool:
    """Return [N] whether nothing has waited for tasks at their present size for ``QUIET_MINUTES``.

    Nor may any minute of the window with fewer subtasks have left more waiting.
    """
    names = ("records_in", "records_out", "queued_records_last", "parallelism", "restarts")
    into, out, waiting, subtasks, began = (question.figures[..., FIGURE[name]].astype(np.float64) for name in names)
    keeps = not_begun(waiting, subtasks) <= QUIET_MOST * read_or_emitted(into, out)  # False where unknown
    as_now = (keeps & (subtasks == question.current) & ~(began > 0))[-QUIET_MINUTES:]
    fell = ((subtasks < question.current) & ~keeps & ~np.isnan(waiting)).any(axis=0)
    found: Bool = as_now.all(axis=0) & ~fell & (len(as_now) == QUIET_MINUTES)
    return found
