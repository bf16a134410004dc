"""``surescale bench coverage``: how often the load stays within the band that the outlook of ``sure`` gives, per load.

Nominally 80 % of a stage's means lie within 1.28 deviations. Beside the shipped band stands one that is corrected by split
conformal prediction per stage (Papadopoulos et al., ECML 2002; over a moving window): by the quantile of the errors that these
very forecasts made over the last three days, as far as their outcome was known. ``--judge WORLD`` lets ``sure`` plan with both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.machine import conditions
from benchmarks.markdown import table
from benchmarks.report import show
from benchmarks.world_cells import DAY, WEEK, Cell, trial_of
from benchmarks.worlds import DRAWS, JOBS, LOADS
from policies.sure.outlook import Expected, Outlook

if TYPE_CHECKING:
    from simulation.load.workload import Workload

Float64 = npt.NDArray[np.float64]

SHARE, DEVIATIONS = 0.8, 1.2816
EVERY_MINUTES = 10
KEPT = 3 * DAY // EVERY_MINUTES
ERRORS_LEAST = 72
FACTORS = (0.5, 2.5)
"""The least and the largest correction."""


@click.command("coverage")
@click.option("--load", "loads", multiple=True, default=LOADS, show_default=True, help="A load, repeatable.")
@click.option("--judge", "worlds", multiple=True, help="Let sure plan with both bands in this world; repeatable.")
@click.option("--job", default=JOBS[0], show_default=True, help="Job to judge on.")
@click.option("--days", type=click.IntRange(1, 7), default=4, show_default=True, help="How many days judge.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, loads: tuple[str, ...], worlds: tuple[str, ...], job: str, days: int, as_json: bool) -> None:
    """Measure how often the load stays within the outlook's band."""
    from simulation.load.workload import load_workload

    if worlds:
        for cell in (Cell(world, load, job, DRAWS[0]) for world in worlds for load in loads):
            click.echo(f"{cell.world}, {cell.load}: {judged(cell, days)}")
        return
    found = {name: covered(load_workload(name)) for name in loads}
    if as_json:
        show("coverage", {"conditions": conditions(None), "share": SHARE, "loads": found}, as_json=True)
        return
    head = ["load", "decisions", "within, as shipped", "above", "within, corrected", "above", "mean correction"]
    rows = [
        [
            name,
            f"{each['decisions']:,}",
            *(f"{each[key]:.1%}" for key in ("within", "above", "within_corrected", "above_corrected")),
            f"{each['correction']:.2f}",
        ]
        for name, each in found.items()
    ]
    click.echo(table(head, rows))


def covered(workload: Workload) -> dict[str, Any]:
    """Return the shares of stages within and above the band, over the decisions after a load's first third (a week at least)."""
    errors, known, minutes = _errors(workload)
    judged = known & (minutes >= max(WEEK, workload.minutes // 3))
    factors = corrections(np.abs(errors), known)[judged]
    off = errors[judged]
    return {
        "decisions": int(judged.sum()),
        "within": float((np.abs(off) <= DEVIATIONS).mean()),
        "above": float((off > DEVIATIONS).mean()),
        "within_corrected": float((np.abs(off) <= DEVIATIONS * factors).mean()),
        "above_corrected": float((off > DEVIATIONS * factors).mean()),
        "correction": float(factors.mean()),
    }


def corrections(errors: Float64, known: npt.NDArray[np.bool_]) -> Float64:
    """Return by how much to widen each band [D, K], from errors [D, K] in deviations of the decisions before.

    An error counts once its stage has ended: stage k of a decision every ten minutes ends 2 (k + 1) decisions later.
    """
    found = np.ones_like(errors)
    stages = errors.shape[1]
    for at in range(len(errors)):
        for stage in range(stages):
            end = at - 2 * (stage + 1) + 1
            kept = slice(max(0, end - KEPT), max(0, end))
            seen = errors[kept, stage][known[kept]]
            if len(seen) >= ERRORS_LEAST:
                found[at, stage] = np.quantile(seen, min(1.0, SHARE * (1.0 + 1.0 / len(seen)))) / DEVIATIONS
    return np.clip(found, *FACTORS)


def judged(cell: Cell, days: int) -> str:
    """Return the rewards of ``sure`` with the shipped and with the corrected band in one cell, for people."""
    from policies.registry import load_policy
    from policies.sure.policy import SurePolicy
    from simulation.evaluation.closed_loop import follow
    from simulation.evaluation.clustered import Pair, difference

    trial = trial_of(cell, days)
    shipped = load_policy("sure")
    assert isinstance(shipped, SurePolicy)
    base = shipped.card.base
    outlook = CorrectedOutlook(
        stage_minutes=base.outlook.stage_minutes,
        with_history=base.outlook.with_history,
        trend_only=base.outlook.trend_only,
        spread=base.outlook.spread,
        trend_spread=base.outlook.trend_spread,
        factors=_factors(trial.workload),
    )
    card = msgspec.structs.replace(shipped.card, base=msgspec.structs.replace(base, outlook=outlook))
    corrected = replace(shipped, package=replace(shipped.package, card=card))
    before, after = (follow(policy, trial, lambda share: None).hours for policy in (shipped, corrected))
    apart = difference([Pair(cell.load, cell.job, after, before)])
    return (
        f"shipped {before.reward:.4f}, corrected {after.reward:.4f}: {apart.mean:+.4f} ± {apart.standard_error:.4f}; "
        f"rescales a day {before.rescales_per_day:.1f}, {after.rescales_per_day:.1f}"
    )


class CorrectedOutlook(Outlook, frozen=True, kw_only=True):
    """The outlook with its spread times factors, by the time of the decision and stage."""

    factors: dict[int, tuple[float, ...]]

    def expect(
        self,
        load: Float64,
        hourly_load: npt.NDArray[np.floating],
        ends_ms: npt.NDArray[np.int64],
        hourly_peak: npt.NDArray[np.floating] | None = None,
    ) -> Expected:
        """Return the outlook, its spread corrected."""
        found = super().expect(load, hourly_load, ends_ms, hourly_peak)
        even = (1.0,) * self.stages
        factors = np.array([self.factors.get(int(end), even) for end in np.ravel(ends_ms)])
        return replace(found, spread=found.spread * factors)


def _factors(workload: Workload) -> dict[int, tuple[float, ...]]:
    from contracts.clock import MINUTE_MS

    errors, known, minutes = _errors(workload)
    factors = corrections(np.abs(errors), known)
    ends = workload.trace_start_ms + minutes * MINUTE_MS
    return {int(end): tuple(row) for end, row in zip(ends, factors.tolist(), strict=True)}


def _errors(workload: Workload) -> tuple[Float64, npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Return the errors [D, K] of log means in deviations, which decisions [D] are whole, and their minutes [D]."""
    from contracts.clock import MINUTE_MS
    from policies.registry import load_policy
    from policies.sure.policy import SurePolicy
    from simulation.loops.hourly import HourlyLoads

    policy = load_policy("sure")
    assert isinstance(policy, SurePolicy)
    outlook = policy.card.base.outlook
    requests = workload.requests.astype(np.float64)
    ahead = outlook.stages * outlook.stage_minutes
    assert outlook.stage_minutes == 2 * EVERY_MINUTES
    at = np.arange(DAY, workload.minutes - ahead, EVERY_MINUTES)
    loads = np.where(workload.masked, np.nan, requests)[at[:, None] - 60 + np.arange(60)]
    hours = HourlyLoads.of(requests, workload.masked).before(at)
    expected = outlook.expect(loads, hours, workload.trace_start_ms + at * MINUTE_MS)
    total = np.concatenate([[0.0], np.cumsum(requests)])
    marks = total[at[:, None] + np.arange(outlook.stages + 1) * outlook.stage_minutes]
    came = np.diff(marks, axis=1) / outlook.stage_minutes
    errors = np.log(np.maximum(came, 0.5) / np.maximum(expected.means, 0.5)) / expected.spread
    known = workload.is_whole(at, 60, ahead) & np.isfinite(expected.means).all(axis=1)
    return errors, np.asarray(known), at


if __name__ == "__main__":
    command()
