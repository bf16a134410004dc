"""The report of a what-if: a stable document for other programs, and what table and page are made of. Pure."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np

from surescale.simulation.calibration.fit import Fitted
from surescale.simulation.what_if.compare import FIGURES, Check, Estimate, VariantComparison, VariantOutcome
from surescale.simulation.what_if.play import Played, not_played
from surescale.simulation.what_if.scenario import Scenario, WhatIfError

FORMAT = 1
DIGITS = 6
POINTS_MOST = 720  # of a curve on the page
UNITS = {
    "late": "minutes a day",
    "rescales": "a day",
    "backlog": "record-seconds waited in an hour",
    "latency": "seconds, mean over records",
    "utilisation": "share of subtask time",
}


class BaselineDifference(msgspec.Struct, frozen=True):
    """A variant minus the baseline. ``model_error`` null: not known, or none applies."""

    mean: float
    low: float
    high: float
    model_error: float | None
    is_shown: bool


class HoldoutCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What the first three quarters predicted of the last minutes, beside what was recorded; null where unknown."""

    minutes: int
    busy: float | None
    busy_recorded: float | None
    waiting: float | None
    waiting_range: tuple[float, float] | None
    waiting_recorded: float | None
    busy_error: float | None
    latency_error_s: float | None


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch in which a variant keeps other sizes than the baseline, in the first draw. Sizes are of all tasks together."""

    first: str
    last: str
    baseline: int
    variant: int
    tasks: dict[str, tuple[int, int]]
    reason: str


class VariantResult(msgspec.Struct, frozen=True, kw_only=True):
    """One variant. ``minus_baseline``: null for the baseline; ``refused``: the world cannot tell it from the baseline."""

    label: str
    policy: str
    sha256: str
    price: float | None
    figures: dict[str, Estimate]
    minus_baseline: dict[str, BaselineDifference] | None
    differing_decisions: float
    same: bool
    refused: bool
    stand_ins: int
    stand_in_reason: str | None
    partings: list[Divergence]
    subtasks: list[float]
    waiting: list[float]
    waiting_most: list[float]


class WhatIfReport(msgspec.Struct, frozen=True, kw_only=True):
    """A what-if. Curves (``load``, ``subtasks``, ``waiting``) have a value every ``curve_minutes``; ``subtasks``: first draw."""

    format: int = FORMAT
    job: str
    recorded_first: str
    recorded_last: str
    recorded_minutes: int
    first: str
    hours: int
    draws: int
    asked_draws: int
    units: dict[str, str]
    late_seconds: float
    held_back: HoldoutCheck
    variants: list[VariantResult]
    not_played: list[str]
    notes: list[str]
    curve_minutes: int
    load: list[float]
    recorded_subtasks: list[float]


def report_of(
    scenario: Scenario, fitted: Fitted, check: Check, comparison: VariantComparison, *, asked_draws: int, late_seconds: float
) -> WhatIfReport:
    """Return the report; ``late_seconds``: above which latency a minute is late.

    Raises:
        WhatIfError: the fitted world is too far off to tell any variant from the baseline.
    """
    baseline, *others = comparison.outcomes
    if others and all(each.is_refused for each in others):
        raise WhatIfError(_refusal(check, comparison))
    minutes = scenario.hours * 60
    step = max(1, -(-minutes // POINTS_MOST))
    names = [spec.label or spec.task for spec in scenario.job.recorded_specs[1:-1]]
    begin = scenario.first_minute - scenario.lead_minutes
    recorded = np.array([float(scenario.recorded_sizes(begin + at)[1:-1].sum()) for at in range(0, minutes, step)])
    return WhatIfReport(
        job=scenario.recorded.job,
        recorded_first=_instant(scenario.recorded.first_ms - 60_000),
        recorded_last=_instant(scenario.recorded.last_ms),
        recorded_minutes=scenario.recorded.known_minutes,
        first=_instant(scenario.first_ms),
        hours=scenario.hours,
        draws=len(baseline.draws),
        asked_draws=asked_draws,
        units={"cost": "dollars a day" if comparison.is_priced else "subtask-hours a day", **UNITS},
        late_seconds=late_seconds,
        held_back=_held_back(check),
        variants=[_tried(each, baseline, names, step) for each in comparison.outcomes],
        not_played=list(not_played(baseline.variant.settings)),
        notes=list(fitted.notes),
        curve_minutes=step,
        load=_curve(scenario.load.astype(np.float64), step),
        recorded_subtasks=[_round(value) for value in recorded.tolist()],
    )


def _refusal(check: Check, comparison: VariantComparison) -> str:
    """Return one line: how far the world is off, and that the differences are smaller."""
    words = []
    for each in comparison.outcomes[1:]:
        assert each.differences is not None
        cost, latency = each.differences["cost"], each.differences["latency"]
        told = f"cost {abs(cost.estimate.mean):.3g} (error {cost.model_error:.3g})"
        if not math.isnan(latency.model_error):
            told += f", latency {abs(latency.estimate.mean):.3g} s (error {latency.model_error:.3g} s)"
        words.append(f"{each.variant.label}: {told}")
    return (
        f"not compared: over the {check.minutes} minutes held back the fitted world was further off than all "
        f"differences looked at ({'; '.join(words)}); record for longer, or try something that differs more"
    )


def _held_back(check: Check) -> HoldoutCheck:
    low, high = check.waiting_range
    return HoldoutCheck(
        minutes=check.minutes,
        busy=_round_or_none(check.busy),
        busy_recorded=_round_or_none(check.busy_recorded),
        waiting=_round_or_none(check.waiting),
        waiting_range=None if math.isnan(low) else (_round(low), _round(high)),
        waiting_recorded=_round_or_none(check.waiting_recorded),
        busy_error=_round_or_none(check.busy_error),
        latency_error_s=_round_or_none(check.latency_error_s),
    )


def _tried(outcome: VariantOutcome, baseline: VariantOutcome, names: Sequence[str], step: int) -> VariantResult:
    minus = None
    if outcome.differences is not None:
        minus = {
            name: BaselineDifference(
                _round(each.estimate.mean),
                _round(each.estimate.low),
                _round(each.estimate.high),
                _round_or_none(each.model_error),
                each.is_shown,
            )
            for name, each in outcome.differences.items()
        }
    waiting = np.array([played.waiting for played in outcome.draws])
    stand_ins = sum(played.stand_ins for played in outcome.draws)
    reason = next((played.stand_in_reason for played in outcome.draws if played.stand_in_reason), None)
    return VariantResult(
        label=outcome.variant.label,
        policy=outcome.variant.policy.name,
        sha256=outcome.variant.policy.sha256,
        price=outcome.variant.price,
        figures={name: Estimate(*map(_round, msgspec.structs.astuple(outcome.figures[name]))) for name in FIGURES},
        minus_baseline=minus,
        differing_decisions=_round(outcome.differing),
        same=outcome.is_same,
        refused=outcome.is_refused,
        stand_ins=stand_ins,
        stand_in_reason=reason,
        partings=[] if minus is None else partings(outcome.draws[0], baseline.draws[0], names),
        subtasks=_curve(outcome.draws[0].subtasks, step),
        waiting=_curve(np.nan_to_num(waiting).mean(axis=0), step),
        waiting_most=_curve(np.nan_to_num(waiting).max(axis=0), step),
    )


def partings(own: Played, baseline: Played, names: Sequence[str]) -> list[Divergence]:
    """Return the stretches in which one run's sizes differ from another's, both held until the next decision."""
    found: list[Divergence] = []
    at_ms = np.union1d(own.at_ms, baseline.at_ms)
    mine = own.sizes[np.searchsorted(own.at_ms, at_ms, side="right") - 1]
    theirs = baseline.sizes[np.searchsorted(baseline.at_ms, at_ms, side="right") - 1]
    ends = [*at_ms[1:].tolist(), int(at_ms[-1] + (at_ms[-1] - at_ms[-2] if len(at_ms) > 1 else 0))]
    begun: int | None = None
    for at in range(len(at_ms)):
        if (mine[at] == theirs[at]).all():
            begun = None
            continue
        is_on = begun is not None and (mine[at] == mine[begun]).all() and (theirs[at] == theirs[begun]).all()
        if is_on:
            found[-1] = msgspec.structs.replace(found[-1], last=_instant(ends[at]))
            continue
        begun = at
        changed = np.flatnonzero(mine[at] != theirs[at])
        found.append(
            Divergence(
                first=_instant(int(at_ms[at])),
                last=_instant(ends[at]),
                baseline=int(theirs[at].sum()),
                variant=int(mine[at].sum()),
                tasks={names[task]: (int(theirs[at, task]), int(mine[at, task])) for task in changed.tolist()},
                reason=own.reasons[int(np.searchsorted(own.at_ms, at_ms[at], side="right")) - 1],
            )
        )
    return found


def _curve(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], step: int) -> list[float]:
    """Return the means of every ``step`` minutes."""
    starts = np.arange(0, len(values), step)
    means = np.add.reduceat(values, starts) / np.diff(np.append(starts, len(values)))
    return [_round(value) for value in means.tolist()]


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M")


def _round_or_none(value: float) -> float | None:
    return None if math.isnan(value) else _round(value)


def _round(value: float) -> float:
    return round(float(value), DIGITS)
