"""The minutes above a bound on latency that a job may have in a day: how many are used up, and what follows for its size.

A plan or a rule knows no day: each restart may be worth its minutes, and all of them together break the bound. So once a restart
would exceed what is left of the day's minutes, no task shrinks. That can wait, and costs rent only; growth does not wait.
"""

import numpy as np
import numpy.typing as npt

from surescale.contracts.decisions import ChangeScore, LatencyBudget
from surescale.contracts.job_limits import RESTART_ASSUMED_S, is_simulated
from surescale.contracts.job_settings import LatencyBound
from surescale.contracts.objectives import DAY_MINUTES, minutes_in_words, used_in_words
from surescale.contracts.plurals import counted
from surescale.contracts.waits import minutes_above, minutes_known, whole_seconds
from surescale.policies.graph import Bool, JobGraph
from surescale.policies.latency_bound import Bound, path_minutes, restart_late_minutes
from surescale.policies.measure import Measured
from surescale.policies.question import Question
from surescale.policies.witness import Doubt

RESTART_SIMULATED_S = 60.0


def bound_of(question: Question) -> Bound | None:
    """Return the bound of a job for waits: without the work on a record; None: it has none."""
    wanted = question.latency_bound
    return None if wanted is None else Bound.of(wanted, float(path_minutes(question.measured.alone(), question.graph)[0]))


def budget_of(question: Question) -> LatencyBudget | None:
    """Return how much of the day's minutes above the job's bound is used up; None: it has no bound."""
    wanted, bound = question.latency_bound, bound_of(question)
    if wanted is None or bound is None:
        return None
    waits = question.window.waits
    return LatencyBudget(
        seconds=wanted.seconds,
        allowed_minutes=_allowed_minutes(wanted),
        used_minutes=min(minutes_above(waits, 60.0 * bound.minutes), DAY_MINUTES),
        known_minutes=min(minutes_known(waits), DAY_MINUTES),
    )


def spent(question: Question, budget: LatencyBudget | None) -> tuple[Doubt, ...]:
    """Return why no task may shrink for now; empty: the day's budget has room for a restart, or there is none."""
    bound = bound_of(question)
    if bound is None or budget is None:
        return ()
    assumed_s = RESTART_SIMULATED_S if is_simulated(question.window.topology.engine) else RESTART_ASSUMED_S
    restart_s = assumed_s if question.restart_seconds is None else question.restart_seconds
    costs, left = restart_late_minutes(restart_s / 60.0, bound.minutes), budget.allowed_minutes - budget.used_minutes
    if not _exceeds(costs, left):
        return ()
    today = f"{minutes_in_words(left)} more may be today" if left > 0 else "today's are used up"
    why = f"a restart puts about {minutes_in_words(costs)} minutes above {budget.seconds:g} s, and {today}"
    return (Doubt(question.graph.scalable, why),)


def spent_rows(
    wanted: LatencyBound, measured: Measured, graph: JobGraph, waits_s: npt.NDArray[np.float64], restart_s: float | None
) -> Bool:
    """Return [B] in which rows no task may shrink, as ``spent`` says it of a question on the simulated engine.

    Args:
        wanted: the bound of all of them.
        measured: their last windows, with a batch axis.
        graph: of all of them.
        waits_s: [B, W] of the last day's minutes; NaN: unknown.
        restart_s: how long a rescale stops them; None: nobody says.
    """
    bounds = [Bound.of(wanted, path).minutes for path in path_minutes(measured, graph).tolist()]
    used = (whole_seconds(waits_s) > 60.0 * np.array(bounds)[:, None]).sum(axis=1)  # not where unknown
    minutes = (RESTART_SIMULATED_S if restart_s is None else restart_s) / 60.0
    left = (_allowed_minutes(wanted) - used).tolist()
    return np.array([_exceeds(restart_late_minutes(minutes, each), rest) for each, rest in zip(bounds, left, strict=True)])


def _allowed_minutes(wanted: LatencyBound) -> float:
    return round(wanted.share * DAY_MINUTES, 2)


def _exceeds(restart_costs: float, left: float) -> bool:
    """Return whether a restart puts more minutes above the bound than are left of the day's; one within the bound never does."""
    return restart_costs > max(left, 0.0)


def in_words(budget: LatencyBudget | None, compared: ChangeScore | None) -> str:
    """Return how much of the budget is used, and what it takes once it is spent; empty: there is none."""
    if budget is None:
        return ""
    used = used_in_words(budget)
    used = used[0].upper() + used[1:]
    if budget.used_minutes < budget.allowed_minutes:
        return f"{used}."
    return f"{used}: the budget is spent. {_what_it_takes(budget, compared)}".rstrip()


def unkeepable_in_words(question: Question) -> str:
    """Return that no size can keep a job's bound, since the work on a record alone takes longer; empty if one may."""
    wanted = question.latency_bound
    if wanted is None:
        return ""
    alone_s = 60.0 * float(path_minutes(question.measured.alone(), question.graph)[0])
    if alone_s < wanted.seconds:
        return ""
    return (
        f"The work on one record alone takes {alone_s:.3g} s, so no size keeps its latency below {wanted.seconds:g} s: allow a "
        "longer latency, or make records cheaper."
    )


def _what_it_takes(budget: LatencyBudget, compared: ChangeScore | None) -> str:
    candidates = None if compared is None else compared.candidates
    if candidates is None:
        return ""
    allowed = budget.allowed_minutes / DAY_MINUTES * candidates.minutes
    rows = list(zip(candidates.subtasks, candidates.late_minutes, strict=True))
    enough = [size for size, late in rows if late <= allowed]
    within = f"in the next {candidates.minutes / 60.0:g} hours"
    if enough:
        return f"{counted(enough[0], 'subtask')} should keep the bound {within}."
    size, late = min(rows, key=lambda row: row[1])
    return (
        f"No size that was compared should keep the bound {within}: {counted(size, 'subtask')} would be above it for {late:.1f} "
        "minutes, the fewest. Allow more subtasks, a longer latency or a larger share."
    )
