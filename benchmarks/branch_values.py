"""Exact values of other margins: from one state, the same coming minutes are played under each candidate.

The plan of ``sure`` runs in closed loops, without a network. Every 80 minutes each loop branches: every candidate keeps its
margin for an hour, then the plan goes on as it is for two more. All branches of a state meet the same load, service times and
restarts, so the difference of two rewards is the exact value of one margin over the other in that state, for that future.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from benchmarks.plan_rows import Float64, Int64, Place, correction_of

if TYPE_CHECKING:
    from surescale.model_export.plan_loops import Ground
    from surescale.policies.sure.plan import Planned
    from surescale.policies.sure.planning_input import Planning, PlanningInput
    from surescale.simulation.loops.rows import LoopRows

SPREADS = (0.5, 0.75, 1.5, 2.0, 3.0)
CAUTIONS = (0.85, 0.93, 1.07, 1.15, 1.3)
HURDLES = (0.5, 2.0, 4.0)
AXES = {
    "spread": slice(1, 1 + len(SPREADS)),
    "caution": slice(1 + len(SPREADS), 1 + len(SPREADS) + len(CAUTIONS)),
    "hurdle": slice(1 + len(SPREADS) + len(CAUTIONS), 1 + len(SPREADS) + len(CAUTIONS) + len(HURDLES)),
}
CANDIDATES = (
    "plan",
    *(f"spread {x:g}" for x in SPREADS),
    *(f"caution {x:g}" for x in CAUTIONS),
    *(f"hurdle {x:g}" for x in HURDLES),
)
FEATURES = (
    "spread soon", "spread late", "walk", "hot share", "bursts", "surges", "highest surge", "trend 5", "trend 15", "growth soon",
    "growth late", "busy", "busiest", "backlog", "restarts", "restart minutes", "latency weight", "change", "width", "falling",
    "level", "tasks", "demand of heaviest", "gain over needed", "best over present", "heed", "unsteady",
)  # fmt: skip
HOLD, FOLLOW, APART = 6, 18, 8  # decisions, ten minutes apart


@dataclass(frozen=True, slots=True)
class Branched:
    """S states: ``features`` [S, F], ``values`` [S, C] mean reward of three hours, ``minutes`` [S] of the load."""

    features: Float64
    values: Float64
    minutes: Int64


def branched(place: Place, loops: int, hours: int) -> Branched:
    """Return the states that loops of one place met in so many hours, and each candidate's value in them."""
    from surescale.model_export.plan_loops import given_in, planned_in, some_of, starting_parallelism

    ground = place.ground()
    generator = np.random.default_rng([place.draw, place.first, len(place.job)])
    last = place.end - 60 * hours - 10 * FOLLOW
    first = np.sort(generator.integers(max(place.first, 60), last, size=loops))
    start = starting_parallelism(ground.job, ground.load, first, generator)
    rows = ground.rows(first, start, len(CANDIDATES))
    features, values, minutes = [], [], []
    for at in range(6 * hours):
        given = given_in(ground.base, some_of(rows.observe(), slice(loops)), rows)
        planned, wanted = planned_in(ground.planning, given)
        if at % APART == APART - 1:
            features.append(_features(ground.planning, given, planned))
            values.append(_follow(rows.copy(), ground))
            minutes.append(rows.minutes[:loops].copy())
        rows.step(np.tile(wanted, (len(CANDIDATES), 1)))
    return Branched(np.concatenate(features), np.concatenate(values), np.concatenate(minutes))


def _follow(rows: LoopRows, ground: Ground) -> Float64:
    """Return the mean reward [B, C] of each candidate; row ``c * B + b`` is candidate c of loop b.

    Branches of a loop that were given the same sizes so far are in the same state, so one plan serves them all.
    """
    from surescale.model_export.plan_loops import given_in, planned_in, some_of

    count = len(CANDIDATES)
    loops = len(rows.minutes) // count
    total = np.zeros(len(rows.minutes))
    same = np.tile(np.arange(loops), count)
    for at in range(FOLLOW):
        if at < HOLD:
            wanted = _wanted_by_candidate(ground.planning, given_in(ground.base, rows.observe(), rows), loops)
        else:
            _, one, back = np.unique(same, return_index=True, return_inverse=True)
            wanted = planned_in(ground.planning, given_in(ground.base, some_of(rows.observe(), one), rows))[1][back]
        total += rows.reward(rows.step(wanted))
        same = np.unique(np.column_stack([same, wanted]), axis=0, return_inverse=True)[1].ravel()
    return np.ascontiguousarray(total.reshape(count, loops).T) / FOLLOW


def _wanted_by_candidate(planning: Planning, given: PlanningInput, loops: int) -> Int64:
    from surescale.model_export.plan_loops import planned_in

    count = len(CANDIDATES)
    factors = np.ones((count, 2))  # caution, hurdle
    factors[AXES["caution"], 0] = CAUTIONS
    factors[AXES["hurdle"], 1] = HURDLES
    by_row = np.repeat(factors, loops, axis=0)
    wanted = planned_in(planning, given, correction_of(by_row, given.current.shape[1]))[1]
    for index, spread in zip(range(*AXES["spread"].indices(count)), SPREADS, strict=True):
        mine = slice(index * loops, (index + 1) * loops)
        wider = msgspec.structs.replace(planning, scenarios=tuple(each * spread for each in planning.scenarios))
        wanted[mine] = planned_in(wider, _rows(given, mine))[1]
    return wanted


def _rows(given: PlanningInput, mine: slice) -> PlanningInput:
    from surescale.policies.sure.outlook import Expected
    from surescale.policies.sure.past import Past

    expected, past = given.expected, given.expected.past
    cut = Past(*(getattr(past, name)[mine] for name in Past.__slots__))
    named = {n: getattr(expected, n)[mine] for n in Expected.__slots__ if n not in ("stage_minutes", "past")}
    return replace(
        given,
        expected=Expected(**named, stage_minutes=expected.stage_minutes, past=cut),
        measured=given.measured.rows(mine),
        current=given.current[mine],
        restarts=given.restarts[mine],
    )


def _features(planning: Planning, given: PlanningInput, planned: Planned) -> Float64:
    """Return ``FEATURES`` [B, F]: what the plan knows in a state."""
    from surescale.policies.measure import mean_of_last
    from surescale.policies.sure.choices import Work

    expected, measured, current = given.expected, given.measured, given.current
    hour = np.maximum(expected.hour, 1e-9)
    work = Work.of(measured, given.graph)
    need = hour[:, None] * work.minutes
    busy = need / current * measured.busiest(current)
    load = measured.load
    five, fifteen = (mean_of_last(load, minutes) / hour for minutes in (5, 15))
    tens = np.stack([mean_of_last(load[:, : 60 - minutes], 10) for minutes in range(0, 60, 10)], axis=1)
    present = np.where(given.graph.scalable, current, 0).sum(axis=-1)
    known = ~np.isnan(expected.surges)
    surges = np.where(known, expected.surges, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    lost = np.nan_to_num  # what is unknown counts as usual
    named = {
        "spread soon": expected.spread[:, 0],
        "spread late": expected.spread[:, -1],
        "walk": np.where(work.sized, measured.spread, 0.0).max(axis=-1),
        "hot share": measured.hot_share.max(axis=-1),
        "bursts": expected.burst.std(axis=1),
        "surges": np.log(np.where(known.any(axis=1), surges, 1.0)),
        "highest surge": np.log(np.clip(lost(expected.highest_surge / hour, nan=1.0), 0.1, 10.0)),
        "trend 5": np.log(np.maximum(lost(five, nan=1.0), 0.1)),
        "trend 15": np.log(np.maximum(lost(fifteen, nan=1.0), 0.1)),
        "growth soon": np.log(expected.means[:, 0] / hour),
        "growth late": np.log(expected.means[:, -1] / hour),
        "busy": need.sum(axis=-1) / np.maximum(present, 1),
        "busiest": busy.max(axis=-1).clip(0.0, 3.0),
        "backlog": np.log1p(measured.backlog_minutes(current).max(axis=-1)),
        "restarts": given.restarts.astype(np.float64),
        "restart minutes": np.full(len(hour), np.log(float(planning.restart_minutes))),
        "latency weight": np.full(len(hour), planning.latency_weight),
        "change": np.minimum(expected.past.change, 1.0),
        "width": lost(expected.past.width, nan=1.0),
        "falling": np.log(np.clip(expected.past.falling, 0.2, 5.0)),
        "level": np.log(need.sum(axis=-1) + 1e-3),
        "tasks": np.log(np.full(len(hour), float(work.sized.sum(axis=-1).max()) + 1.0)),
        "demand of heaviest": np.log(need.max(axis=-1) + 1e-3),
        "gain over needed": ((planned.changing - planned.holding) / planned.gain_needed).clip(-5.0, 10.0),
        "best over present": np.log(np.maximum(planned.best, 1) / np.maximum(present, 1)),
        "heed": planned.heed,
        "unsteady": np.std(np.log(np.maximum(lost(tens, nan=1.0), 1e-6)), axis=1),
    }
    features: Float64 = lost(np.stack([named[name] for name in FEATURES], axis=1))
    return features
