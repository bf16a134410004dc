"""The gap between an answer and the optimum: exact for small instances, else above a lower bound of the rent.

The reference is the best fresh placement at the same share of the hosts: for an incremental answer the gap includes the
price of leaving subtasks where they run.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from math import isfinite

from . import exact
from .bounds import rent_bound
from .model import TOLERANCE, PlaceRequest
from .problem import Problem, problem_of
from .solve import PlaceResponse


def gap_document(response: PlaceResponse) -> dict[str, object] | None:
    """Return the gap as a JSON-able object; None for an infeasible answer.

    `rent`: bound, whether it is the optimum, and rent / bound - 1. `total` (rent plus communication): the optimum, how
    it was found, and the gap; null where the instance is too large. A gap above a bound of (almost) 0 is null.
    """
    if not response.feasible:
        return None
    problem = problem_of(at_delta(response.request, delta_reached(response)))
    bound = rent_bound(problem)
    optimum, method = total_optimum(problem)
    rent, total = response.cost.resource_per_s, response.cost.total_per_s
    return {
        "threshold": problem.delta,
        "rent": bound and {"bound_per_s": bound.per_s, "exact": bound.exact, "gap": relative(rent, bound.per_s)},
        "total": None if optimum is None else {"optimum_per_s": optimum, "method": method, "gap": relative(total, optimum)},
    }


def relative(value: float, reference: float) -> float | None:
    """Return `value` / `reference` - 1; None if only the reference is (almost) 0, and 0 if both are."""
    if reference == 0:
        return 0.0 if value == 0 else None
    gap = value / reference - 1
    return gap if isfinite(gap) else None


def at_delta(request: PlaceRequest, delta: float) -> PlaceRequest:
    """Return the same instance with hosts that any algorithm may fill up to `delta`."""
    return replace(request, params=replace(request.params, threshold=delta, threshold_scope="all"))


def delta_reached(response: PlaceResponse) -> float:
    """Return the share the answer had to keep to; 1 if subtasks that stayed exceed it."""
    delta = response.request.delta
    for host, use in zip(response.request.hosts, response.hosts, strict=True):
        if use.subtasks and (use.cpu > delta * host.cpu + TOLERANCE or use.memory > delta * host.memory + TOLERANCE):
            return 1.0
    return delta


def total_optimum(problem: Problem) -> tuple[float | None, str]:
    """Return the least rent plus communication [$/s] of a fresh placement, and how it was found; None: too large."""
    if exact.countable(problem):
        best = exact.brute_force(problem)
        return (None if best is None else best.total_per_s), "enumeration"
    if exact.programmable(problem) and find_spec("scipy") is not None:
        assignment = exact.mixed_integer_optimum(problem)
        return (None if assignment is None else exact.total_per_s(problem, assignment)), "mixed integer program"
    return None, "too large"
