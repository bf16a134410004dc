"""``sure`` when it serves: forecast the load, plan sizes and restarts. No network, one thread.

Anything wrong (stale figures, an expectation that is no number) is returned as a failure, and the rule takes over.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from surescale.contracts.block_load import decoded
from surescale.contracts.decisions import Candidates, ChangeScore, LoadOutlook
from surescale.contracts.job_limits import RESTART_ASSUMED_S, answers_emergencies, is_simulated
from surescale.contracts.messages import JobTopology
from surescale.contracts.plurals import counted
from surescale.contracts.source_load import read_or_emitted
from surescale.contracts.windows import FIGURE, Float32
from surescale.policies.answer import Answer, Float64, Int64, PolicyFailed, RawAnswer
from surescale.policies.dealt import carried
from surescale.policies.hidden import hidden_load
from surescale.policies.latency_bound import path_minutes
from surescale.policies.question import Question
from surescale.policies.self_check import check_answers
from surescale.policies.sure.outlook import Expected
from surescale.policies.sure.outlook_errors import calibrated
from surescale.policies.sure.package import Card, Package
from surescale.policies.sure.plan import Planned, late_after, late_minutes, plan
from surescale.policies.sure.planning_input import (
    Planning,
    PlanningInput,
    with_bound,
    with_growth_at_once,
    with_objective,
    with_restart,
)
from surescale.policies.sure.timetable import followed

CANDIDATES_MOST = 12  # sizes in the explanation of one decision, beside the present and the best
LATE_LEAST = 0.05  # minutes that more subtasks must spare to be told of
NOT_EXPECTED = "what the window's figures lead to expect is not a number"


@dataclass(frozen=True, slots=True, eq=False)
class SurePolicy:
    """Forecasts the load and plans sizes and restarts for it."""

    package: Package
    floor_applies: bool = field(default=True, init=False)

    @property
    def name(self) -> str:
        """Return the package's name."""
        return self.card.name

    @property
    def sha256(self) -> str:
        """Return the hash of the card."""
        return self.package.sha256

    @property
    def span_minutes(self) -> int:
        """Return the span that the plan was made for."""
        return self.card.span_minutes

    @property
    def card(self) -> Card:
        """Return the package's card."""
        return self.package.card

    def answer(self, question: Question) -> Answer:
        """Return the plan's sizes, or why there are none."""
        window, graph = question.window, question.graph
        figures = question.figures[-self.card.window_minutes :]
        measured = question.measured_over(figures)
        silent, stale = measured.silent_minutes, self.card.stale_minutes
        if silent > stale or bool(np.isnan(measured.load[-1 - stale :]).all()):
            return PolicyFailed(f"the figures are stale: nothing new for {counted(max(silent, stale), 'minute')}")
        end = np.array(window.window_end_ms, dtype=np.int64)
        hours, peaks = window.hourly_load[None], window.hourly_peak[None]
        expected = self.card.base.outlook.expect(measured.load[None], hours, end[None], peaks)
        if question.settings.calibrated_spread is True:
            expected = calibrated(self.card.base.outlook, expected, hours)
        expected = followed(expected, measured.load, decoded(window.load_codes), window.hourly_load, window.window_end_ms)
        if not (np.isfinite(expected.means).all() and np.isfinite(expected.spread).all()):
            return PolicyFailed(NOT_EXPECTED)
        if (least := hidden_load(question)) > 0.0:
            no_longer_calm = replace(expected.past, change=np.full_like(expected.past.change, np.inf))
            expected = replace(expected, means=np.maximum(expected.means, least), past=no_longer_calm)
        is_assumed = question.restart_seconds is None and not is_simulated(window.topology.engine)
        restart_seconds = RESTART_ASSUMED_S if is_assumed else question.restart_seconds
        given = PlanningInput(
            expected=expected,
            measured=measured.alone(),
            current=question.current[None],
            graph=graph,
            limits=question.limits,
            restarts=question.restarted[-len(figures) :].sum()[None],
            span_minutes=self.span_minutes,
            got_through=_got_through(question, figures)[None] if expected.shape is not None else None,
            is_restart_known=restart_seconds is not None,
        )
        planning = with_restart(self.card.base.planning, restart_seconds)
        if answers_emergencies(question.settings, window.topology.engine):
            planning = with_growth_at_once(planning)
        planning = with_objective(planning, question.settings.objective)
        if question.latency_bound is not None:
            planning = with_bound(planning, question.latency_bound, float(path_minutes(given.measured, graph)[0]))
        planned = plan(planning, given)
        if not np.isfinite(planned.holding + planned.changing).all():
            return PolicyFailed(NOT_EXPECTED)
        have = int(question.current[graph.scalable].sum())
        return RawAnswer(
            wanted=planned.wanted[0],
            reason=_sentence(expected, planned, planning, have, is_assumed=is_assumed),
            compared=_compared(question, expected, planned, planning) if not planned.idle[0] else None,
            outlook=_outlook(expected),
            leap=None if planned.leap is None else (planned.leap[0][0], planned.leap[1][0]),
        )


def _got_through(question: Question, figures: Float32) -> Float64:
    """Return [N] the most records that an even subtask of each task got through in a minute of the window; NaN: unknown."""
    into, out, subtasks = (figures[..., FIGURE[name]].astype(np.float64) for name in ("records_in", "records_out", "parallelism"))
    into[:, question.graph.by_level[0]] = read_or_emitted(into, out)[:, question.graph.by_level[0]]
    each = np.where(subtasks > 0, into / carried(np.maximum(subtasks, 1.0), question.graph.deal), np.nan)
    most: Float64 = np.fmax.reduce(np.where(each > 0, each, np.nan), axis=0)
    return most


def _sentence(expected: Expected, planned: Planned, planning: Planning, have: int, *, is_assumed: bool) -> str:
    """Return the comparison and its result, for people; ``_compared`` says what the scores are.

    ``is_assumed``: nobody knows how long a restart takes.
    """
    low, high, spread = float(expected.means.min()), float(expected.means.max()), float(expected.spread[0].mean())
    load = f"Expecting {low:,.0f} to {high:,.0f} records a minute over the next {_hours(expected):g} hours"
    load += f", give or take {spread:.0%}"
    if expected.shape is not None:
        load += ", as its timetable has it"
    if planned.heed[0] > 0:
        load += ", taking the last days into account"
    if planned.idle[0]:
        little = "no record comes" if high < 0.5 else "that is next to no work"
        return f"{load}: {little}, so the fewest subtasks that the limits allow are enough."
    present = f"the present {counted(have, 'subtask')}"
    holding, changing, best = float(planned.holding[0]), float(planned.changing[0]), int(planned.best[0])
    if planned.forced[0]:
        return (
            f"{load}: the guardrails do not let {present} stay, so a restart is paid for in any case. "
            f"The least that they allow should score {holding:.3f}, and {best} score {changing:.3f}."
        )
    if planned.wide[0]:
        return f"{load}: {present} are far too many, so they become {best} whatever a restart costs."
    if planned.rising[0]:
        return f"{load}: it takes several steps from {present}, so {'it becomes' if have == 1 else 'they become'} {best} in time."
    if planned.blind[0]:
        return f"{load}: no other size can be judged, so {present} {'stays' if have == 1 else 'stay'}."
    assumed = ", assumed until restarts are measured" if is_assumed else ""
    if changing <= holding:
        stays = f"should score better than {present} ({holding:.3f})"
        if planning.lost_minutes > 1:
            stays += f", charged with {_long(planning)} without service{assumed}"
        if planned.young[0]:
            known = f"before its load is known for {planning.young_minutes} minutes"
            return f"{load}: no task shrinks {known}, and no larger size {stays}."
        if planned.falling[0]:
            return f"{load}: no task shrinks while the load still falls, and no larger size {stays}."
        return f"{load}: no change {stays}."
    change = f"the change charged with {_long(planning)} without service{assumed}"
    gain = f"{changing - holding:+.4f} with {change}, {float(planned.gain_needed[0]):.4f} is needed"
    now = f"the present {have} {'scores' if have == 1 else 'score'} {holding:.3f}"
    scores = f"{counted(best, 'subtask')} should score {changing:.3f} and {now}: {gain}"
    return f"{load}: {scores}." if planned.acts[0] else f"{load}: {scores}. Too little to change."


def _long(planning: Planning) -> str:
    """Return how long a change takes, for people."""
    seconds = round(60.0 * planning.lost_minutes)
    if seconds == 0:
        return "less than 1 s"
    return f"{seconds} s" if seconds % 60 else f"{seconds // 60} min"


def _compared(question: Question, expected: Expected, planned: Planned, planning: Planning) -> ChangeScore:
    have = int(question.current[question.graph.scalable].sum())
    weight, late = planning.latency_weight, "minutes of latency"
    if planning.bound is not None:
        late = f"{planning.bound.price:.3g} x share of minutes waiting above {60.0 * planning.bound.minutes:.3g} s"
    return ChangeScore(
        subtasks=int(planned.best[0]),
        score=_rounded(planned.changing)[0],
        present_subtasks=have,
        present_score=_rounded(planned.holding)[0],
        gain_needed=_rounded(planned.gain_needed)[0],
        candidates=_candidates(question.window.topology, planned, planning, have),
        unit=f"{1.0 - weight:g} x utilisation - {weight:g} x {late}, mean of the next {_hours(expected):g} hours",
    )


def _candidates(topology: JobTopology, planned: Planned, planning: Planning, have: int) -> Candidates:
    """Return the curve of what was compared, without sizes that spare no minute, thinned."""
    least: dict[int, tuple[float, int]] = {}  # by subtasks: late minutes, and which choice has so few
    rows = zip(planned.choices.subtasks[0].tolist(), late_minutes(planning, planned)[0].tolist(), strict=True)
    for at, (subtasks, late) in enumerate(rows):
        least[subtasks] = min((late, at), least.get(subtasks, (late, at)))
    kept, shown = {have, int(planned.best[0])}, list[int]()
    for size in sorted(least):
        if size in kept or not shown or least[size][0] < least[shown[-1]][0] - LATE_LEAST:
            shown.append(size)
    every = -(-len(shown) // CANDIDATES_MOST)
    shown = [size for at, size in enumerate(reversed(shown)) if at % every == 0 or size in kept][::-1]
    sizes = planned.choices.sizes[0, [least[size][1] for size in shown]]
    return Candidates(
        subtasks=tuple(shown),
        late_minutes=tuple(round(least[size][0], 2) for size in shown),
        minutes=planned.expected.means.shape[1] * planned.expected.stage_minutes,
        late_seconds=float(f"{60.0 * late_after(planning).minutes:.3g}"),
        slots=() if is_simulated(topology.engine) else _slots(topology, sizes),
    )


def _slots(topology: JobTopology, sizes: Int64) -> tuple[int, ...]:
    """Return for each row of sizes [M, N] how many slots the job takes: ``contracts.topology.slots_needed`` of all at once."""
    groups = defaultdict[str, list[int]](list)
    for at, spec in enumerate(topology.tasks):
        if spec.state != "finished":
            groups[spec.sharing_group].append(at)
    needed = np.zeros(len(sizes), dtype=np.int64)
    for members in groups.values():
        needed += sizes[:, members].max(axis=1)
    return tuple(needed.tolist())


def _outlook(expected: Expected) -> LoadOutlook:
    return LoadOutlook(
        stage_minutes=expected.stage_minutes,
        means=tuple(float(f"{mean:.4g}") for mean in expected.means[0].tolist()),
        spread=tuple(float(f"{spread:.3g}") for spread in expected.spread[0].tolist()),
    )


def _hours(expected: Expected) -> float:
    return float(expected.means.shape[1] * expected.stage_minutes / 60.0)


def load_sure_policy(package: Package) -> SurePolicy:
    """Return the policy of a package, after trying it on a job at rest.

    Raises:
        PackageRejected: the plan fails.
    """
    opened = SurePolicy(package)
    check_answers(opened, package.card.window_minutes, ())
    return opened


def _rounded(values: Float64) -> list[Any]:
    """Return values as Python numbers with six digits, which is enough for people and halves the bytes."""
    rounded: list[Any] = np.round(values.astype(np.float64), 6).tolist()
    return rounded
