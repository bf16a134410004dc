"""A plan for a small chain, and what it is made of: constants, a past, an outlook, a measurement."""

import msgspec
import numpy as np

from surescale.contracts.messages import TaskSpec
from surescale.policies.flows import Counted, Flows
from surescale.policies.graph import JobGraph, job_graph
from surescale.policies.guardrails import Limits
from surescale.policies.measure import Measured
from surescale.policies.sure.outlook import Expected
from surescale.policies.sure.past import PAST_HOURS, WEEK_HOURS, Past
from surescale.policies.sure.plan import Planned, plan
from surescale.policies.sure.planning_input import Planning, PlanningInput

PLANNING = Planning(
    latency_weight=0.5,
    effect_minutes=1,
    restart_minutes=1,
    scenarios=(-1.2, 0.0, 1.2),
    later_restart=0.02,
    gain_min=0.01,
    again=2.0,
    again_later=8.0,
    surge_weight=2.0,
    surge_minutes=7.0,
    young_minutes=30,
)
CALM = msgspec.structs.replace(PLANNING, calm_restarts=3.0, hindsight_days=1.0)
CHAIN = job_graph(
    [
        TaskSpec(task="s", scalable=False, max_parallelism=1),
        TaskSpec(task="a", upstream=("s",), max_parallelism=10),
        TaskSpec(task="b", upstream=("a",), max_parallelism=10),
    ]
)


def past(**parts: np.ndarray) -> Past:
    """Return a past with only the given parts known."""
    unknown = np.full((1, PAST_HOURS), np.nan)
    nothing = {"change": np.array([np.inf]), "width": np.array([np.nan]), "falling": np.ones(1), "usual": np.array([True])}
    nothing["level"] = np.ones((1, PAST_HOURS))
    nothing |= dict.fromkeys(("week", "week_peaks"), np.full((1, WEEK_HOURS), np.nan))
    return Past(**{"loads": unknown, "peaks": unknown, "expected": unknown, **nothing, **parts})


def expecting(*means: float, spread: float = 0.05) -> Expected:
    """Return an outlook of stages of twenty minutes without bursts."""
    stages = np.array([means])
    unknown = np.full((1, 24), np.nan)
    return Expected(stages[:, 0], stages, np.full(stages.shape, spread), np.ones((1, 60)), unknown, unknown[:, 0], 20, past())


def measured(queued: tuple[float, ...] = (0.0, 0.0, 0.0), known: int = 60) -> Measured:
    """Return a job whose tasks work .02 and .01 minutes on a record, with this many minutes known."""
    load = np.full((1, 60), 100.0)
    load[:, : 60 - known] = np.nan
    return measuring(load, np.array([[0.0, 0.02, 0.01]]), np.ones((1, 3)), np.array([queued]), CHAIN)


def measuring(load: np.ndarray, service: np.ndarray, visits: np.ndarray, queued: np.ndarray, graph: JobGraph) -> Measured:
    """Return a measurement of a job in whose records nothing else is of note."""
    counted = Counted(np.ones_like(visits), np.ones_like(visits), np.ones_like(visits))
    flows = Flows.of(np.ones_like(visits), counted, np.ones_like(visits), graph)
    reported = np.ones((*load.shape, visits.shape[-1]), dtype=np.bool_)
    return Measured(
        reported, load, service, visits, queued, np.zeros_like(queued), flows, np.zeros_like(visits), np.zeros_like(visits)
    )


def planned(
    sizes: tuple[int, ...],
    expected: Expected,
    seen: Measured | None = None,
    restarts: int = 0,
    total: int = 99,
    planning: Planning = PLANNING,
) -> Planned:
    """Plan for the chain at present sizes."""
    limits = Limits(least=np.ones(3, dtype=np.int64), most=CHAIN.parallelism_max, total=total)
    given = PlanningInput(expected, seen or measured(), np.array([[1, *sizes]]), CHAIN, limits, np.array([restarts]))
    return plan(planning, given)
