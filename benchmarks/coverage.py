"""``surescale dev bench coverage``: how often the load stays within the band that the outlook of ``sure`` gives, per load.

Nominally 80 % of a stage's means lie within 1.28 deviations. Beside the shipped band stand two that are corrected by split
conformal prediction over a moving window (Papadopoulos et al., ECML 2002). *Remembered*: per stage, by the quantile of the errors
that these very forecasts made over the last three days, as far as their outcome was known; no role remembers them. *Calibrated*:
by the errors of forecasts that are made again from the window's hourly loads (``policies.sure.outlook_errors``), which is what
``surescale job set --spread calibrated`` does. ``--judge WORLD`` lets the plan of ``sure`` live with the shipped and with the
calibrated band; ``--fit`` prints the constant that the latter rests on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.machine import conditions
from benchmarks.markdown import table
from benchmarks.plan_rows import Place
from benchmarks.report import show
from benchmarks.world_cells import DAY, LOAD_PARALLELISM, WEEK
from benchmarks.worlds import DRAWS, JOBS, LOADS
from surescale.policies.sure.outlook_errors import (
    DEVIATIONS,
    ERRORS_LEAST,
    FACTORS,
    LEADS,
    SHARE,
    calibrated,
    past_errors,
    spread_factors,
)

if TYPE_CHECKING:
    from surescale.policies.sure.outlook import Outlook
    from surescale.simulation.load.workload import Workload

Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

EVERY_MINUTES = 10
KEPT = 3 * DAY // EVERY_MINUTES
REMEMBERED_LEAST = 72
FITTED_ON = LOADS[:2]
LOOPS, LOOP_HOURS = 10, 24
KNOWN_DAYS = 2  # of the load, before a loop begins


@click.command("coverage")
@click.option("--load", "loads", multiple=True, default=LOADS, show_default=True, help="A load, repeatable.")
@click.option("--fit", is_flag=True, help="Fit the constant of the calibrated band to the first weeks of ClarkNet and NASA.")
@click.option("--judge", "worlds", multiple=True, help="Let the plan live with both bands in this world; repeatable.")
@click.option("--job", "jobs", multiple=True, default=JOBS[:1], show_default=True, help="A job to judge on, repeatable.")
@click.option("--draw", type=int, default=DRAWS[0], show_default=True, help="Seed of the world to judge in.")
@click.option(
    "--first-part", is_flag=True, help="Judge on the part of the load that is there to choose on, not on the week after."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    loads: tuple[str, ...],
    fit: bool,
    worlds: tuple[str, ...],
    jobs: tuple[str, ...],
    draw: int,
    first_part: bool,
    as_json: bool,
) -> None:
    """Measure how often the load stays within the outlook's band."""
    from benchmarks.archive import load_workload

    if fit:
        click.echo(", ".join(f"{each:.3f}" for each in fitted([load_workload(name) for name in FITTED_ON])))
        return
    if worlds:
        rows = []
        for world, load, job in ((world, load, job) for world in worlds for load in loads for job in jobs):
            rows.append([world, load, job, *judged(_place(world, load, job, draw, first_part=first_part))])
            click.echo("; ".join(rows[-1]), err=True)
        click.echo(table(["world", "load", "job", "shipped", "calibrated", "difference", "rescales a day"], rows))
        return
    found = {name: covered(load_workload(name)) for name in loads}
    if as_json:
        show("coverage", {"conditions": conditions(None), "share": SHARE, "loads": found}, as_json=True)
        return
    bands = ("shipped", "remembered", "calibrated")
    head = ["load", "decisions", *(text for band in bands for text in (f"within, {band}", "above")), "mean correction"]
    lines = [
        [
            name,
            f"{each['decisions']:,}",
            *(f"{each[band][key]:.1%}" for band in bands for key in ("within", "above")),
            f"{each['correction']:.2f}",
        ]
        for name, each in found.items()
    ]
    click.echo(table(head, lines))


@dataclass(frozen=True, slots=True)
class Looked:
    """Decisions of a load: errors [D, K] of log means in deviations, which are whole [D], minutes [D], hourly loads [D, 192]."""

    errors: Float64
    known: Bool
    minutes: npt.NDArray[np.int64]
    hours: Float64
    outlook: Outlook


def covered(workload: Workload) -> dict[str, Any]:
    """Return the shares of stages within and above each band, over the decisions after a load's first third (a week at least)."""
    seen = looked(workload)
    later = seen.known & (seen.minutes >= max(WEEK, workload.minutes // 3))
    off = seen.errors[later]
    factors = {
        "shipped": np.ones_like(off),
        "remembered": corrections(np.abs(seen.errors), seen.known)[later],
        "calibrated": spread_factors(seen.outlook, seen.hours[later]),
    }
    shares = {
        name: {
            "within": float((np.abs(off) <= DEVIATIONS * factor).mean()),
            "above": float((off > DEVIATIONS * factor).mean()),
        }
        for name, factor in factors.items()
    }
    return {"decisions": int(later.sum()), **shares, "correction": float(factors["calibrated"].mean())}


def corrections(errors: Float64, known: Bool) -> Float64:
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
            if len(seen) >= REMEMBERED_LEAST:
                found[at, stage] = np.quantile(seen, min(1.0, SHARE * (1.0 + 1.0 / len(seen)))) / DEVIATIONS
    return np.clip(found, *FACTORS)


def fitted(workloads: list[Workload]) -> list[float]:
    """Return ``policies.sure.outlook_errors.SCALE``: per lead, at which the band holds its share of the first weeks or thirds."""
    ratios: list[list[Float64]] = [[] for _ in range(LEADS)]
    for workload in workloads:
        seen = looked(workload)
        early = seen.known & (seen.minutes < max(WEEK, workload.minutes // 3))
        held = _held(past_errors(seen.outlook, seen.hours[early]))
        off = np.abs(seen.errors[early]).reshape(len(held), LEADS, -1)
        for lead in range(LEADS):
            usable = ~np.isnan(held[:, lead])
            ratios[lead].append((off[usable, lead] / held[usable, lead, None]).ravel())
    return [_weighed_quantile(each) for each in ratios]


def _held(errors: Float64) -> Float64:
    """Return [D, 2] the band, in deviations, that holds the share of errors [D, 24, 2]; NaN where too few are known."""
    count = (~np.isnan(errors)).sum(axis=1)
    with np.errstate(invalid="ignore"):
        ordered = np.sort(errors, axis=1)  # unknown ones come last
    rank = np.ceil(SHARE * (count + 1)).astype(np.int64).clip(1, np.maximum(count, 1)) - 1
    found = np.take_along_axis(ordered, rank[:, None], axis=1)[:, 0]
    return np.where(count >= ERRORS_LEAST, found, np.nan)


def _weighed_quantile(parts: list[Float64]) -> float:
    """Return the quantile at the share over several samples, each with the same weight."""
    values = np.concatenate(parts)
    weights = np.concatenate([np.full(len(each), 1.0 / len(each)) for each in parts])
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weights[order]), SHARE * weights.sum())])


def _place(world: str, load: str, job: str, draw: int, *, first_part: bool) -> Place:
    from benchmarks.archive import load_workload

    end = max(WEEK, load_workload(load).minutes // 3 // 60 * 60)
    first, last = (KNOWN_DAYS * DAY, end) if first_part else (end, end + WEEK)
    return Place(world, load, job, draw, "balanced", first, last, LOAD_PARALLELISM)


def judged(place: Place) -> tuple[str, str, str, str]:
    """Return the plan's reward with the shipped and with the calibrated band, their difference, and rescales a day, for people.

    Ten loops of a day each, spread evenly over the place's minutes; the error is the one over loops.
    """
    from benchmarks.plan_loops import given_in, planned_in, some_of, starting_parallelism

    ground = place.ground()
    last = place.end - 60 * LOOP_HOURS
    first = np.linspace(place.first + 60, last, LOOPS).astype(np.int64)
    start = starting_parallelism(ground.job, ground.load, first, np.random.default_rng(place.draw))
    rows = ground.rows(first, start, 2)
    rewards, rescales = np.zeros((2, LOOPS)), np.zeros((2, LOOPS))
    outlook, decisions = ground.base.outlook, LOOP_HOURS * 60 // ground.terms.span_minutes
    for _ in range(decisions):
        observed = rows.observe()
        shipped = given_in(ground.base, some_of(observed, slice(LOOPS)), rows)
        second = some_of(observed, slice(LOOPS, None))
        wider = given_in(ground.base, second, rows)
        wider = replace(wider, expected=calibrated(outlook, wider.expected, second.hourly_load))
        span = rows.step(np.concatenate([planned_in(ground.planning, each)[1] for each in (shipped, wider)]))
        rewards += rows.reward(span).reshape(2, LOOPS) / decisions
        rescales += span.rescaled.reshape(2, LOOPS) / LOOP_HOURS * 24
    apart = rewards[1] - rewards[0]
    error = apart.std(ddof=1) / np.sqrt(LOOPS)
    means, often = rewards.mean(axis=1), rescales.mean(axis=1)
    return f"{means[0]:.4f}", f"{means[1]:.4f}", f"{apart.mean():+.4f} ± {error:.4f}", f"{often[0]:.1f}, {often[1]:.1f}"


def looked(workload: Workload) -> Looked:
    """Return what the shipped outlook expected every ten minutes, and how far off it was."""
    from surescale.contracts.clock import MINUTE_MS
    from surescale.policies.registry import load_policy
    from surescale.policies.sure.policy import SurePolicy
    from surescale.simulation.loops.hourly import HourlyFigures

    policy = load_policy("sure")
    assert isinstance(policy, SurePolicy)
    outlook = policy.card.base.outlook
    requests = workload.requests.astype(np.float64)
    ahead = outlook.stages * outlook.stage_minutes
    assert outlook.stage_minutes == 2 * EVERY_MINUTES
    at = np.arange(DAY, workload.minutes - ahead, EVERY_MINUTES)
    loads = np.where(workload.masked, np.nan, requests)[at[:, None] - 60 + np.arange(60)]
    hours = HourlyFigures.loads(requests, workload.masked).before(at)
    expected = outlook.expect(loads, hours, workload.trace_start_ms + at * MINUTE_MS)
    total = np.concatenate([[0.0], np.cumsum(requests)])
    marks = total[at[:, None] + np.arange(outlook.stages + 1) * outlook.stage_minutes]
    came = np.diff(marks, axis=1) / outlook.stage_minutes
    errors = np.log(np.maximum(came, 0.5) / np.maximum(expected.means, 0.5)) / expected.spread
    known = workload.is_whole(at, 60, ahead) & np.isfinite(expected.means).all(axis=1)
    return Looked(errors, np.asarray(known), at, hours, outlook)


if __name__ == "__main__":
    command()
