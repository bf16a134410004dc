"""The minutes above a bound on latency that a job may have in a day: how many are used up, and what follows for its size.

A plan or a rule knows no day: each restart may be worth its minutes, and all of them together break the bound. So once a restart
would exceed what is left of the day's minutes, or it and the one that undoes it what the last half of a day left, no task
shrinks. That can wait, and costs rent only; growth does not wait.
"""

import numpy as np
import numpy.typing as npt

from surescale.contracts.decisions import ChangeScore, LatencyBudget
from surescale.contracts.job_limits import RESTART_ASSUMED_S, is_simulated
from surescale.contracts.job_settings import LatencyBound
from surescale.contracts.objectives import DAY_MINUTES, minutes_in_words, used_in_words
from surescale.contracts.plurals import counted
from surescale.contracts.waits import LATELY_HOURS, minutes_above, minutes_known, whole_seconds
from surescale.policies.answer import Float64
from surescale.policies.dealt import carried
from surescale.policies.graph import Bool, Int64, JobGraph
from surescale.policies.guardrails import FLOOR_MINUTES
from surescale.policies.latency_bound import Bound, path_minutes, restart_late_minutes
from surescale.policies.measure import Measured, mean_of_last, or_zero
from surescale.policies.question import Question
from surescale.policies.witness import Doubt

RESTART_SIMULATED_S = 60.0
LEAST_BUSY = 0.01
BURST = 1.2  # times the present load may come while a queue drains


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


def spent(question: Question, budget: LatencyBudget | None, desired: Int64) -> tuple[Doubt, ...]:
    """Return why no task may shrink to ``desired`` [N] for now; empty: the day's budget has room, or there is none.

    Not only for this restart: what shrinks grows again, mostly within half a day, and that restart has to fit beside what the
    last half of a day used.
    """
    bound = bound_of(question)
    if bound is None or budget is None:
        return ()
    window = question.window
    assumed_s = RESTART_SIMULATED_S if is_simulated(window.topology.engine) else RESTART_ASSUMED_S
    restart_s = assumed_s if question.restart_seconds is None else question.restart_seconds
    spare = float(_spare(question.measured.alone(), question.graph, desired[None])[0])
    costs = restart_late_minutes(restart_s / 60.0, bound.minutes, spare)
    waits = window.waits if window.waits_lately is None else window.waits_lately
    left = budget.allowed_minutes - budget.used_minutes
    back = budget.allowed_minutes - minutes_above(waits, 60.0 * bound.minutes) - costs
    if not _exceeds(costs, min(left, back)):
        return ()
    today = f"{minutes_in_words(left)} more may be today" if left > 0 else "today's are used up"
    about = f"a restart puts about {minutes_in_words(costs)} minutes above {budget.seconds:g} s"
    undone = "" if _exceeds(costs, left) else " and so does growing again"
    return (Doubt(question.graph.scalable, f"{about}{undone}, and {today}"),)


def spent_rows(
    wanted: LatencyBound,
    measured: Measured,
    graph: JobGraph,
    waits_s: npt.NDArray[np.float64],
    restart_s: float | None,
    desired: Int64,
) -> Bool:
    """Return [B] in which rows no task may shrink, as ``spent`` says it of a question on the simulated engine.

    Args:
        wanted: the bound of all of them.
        measured: their last windows, with a batch axis.
        graph: of all of them.
        waits_s: [B, W] of the last day's minutes; NaN: unknown.
        restart_s: how long a rescale stops them; None: nobody says.
        desired: [B, N].
    """
    bounds = np.array([Bound.of(wanted, path).minutes for path in path_minutes(measured, graph).tolist()])
    late = whole_seconds(waits_s) > 60.0 * bounds[:, None]  # not where unknown
    used, lately = late.sum(axis=1), late[:, -LATELY_HOURS * 60 :].sum(axis=1)
    minutes = (RESTART_SIMULATED_S if restart_s is None else restart_s) / 60.0
    spare = _spare(measured, graph, desired).tolist()
    costs = [restart_late_minutes(minutes, *each) for each in zip(bounds.tolist(), spare, strict=True)]
    allowed = _allowed_minutes(wanted)
    left = np.minimum(allowed - used, allowed - lately - np.array(costs)).tolist()
    return np.array([_exceeds(*each) for each in zip(costs, left, strict=True)])


def _spare(measured: Measured, graph: JobGraph, desired: Int64) -> Float64:
    """Return [B] what jobs can do beyond their load at sizes [B, N], as a share of the load; unknown tasks count as idle."""
    demand = or_zero(measured.demand(mean_of_last(measured.load, FLOOR_MINUTES)))
    busy = np.where(graph.scalable, demand / np.maximum(carried(desired, graph.dealt), 1.0), 0.0).max(axis=-1)
    spare: Float64 = 1.0 / np.maximum(BURST * busy, LEAST_BUSY) - 1.0
    return spare


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
