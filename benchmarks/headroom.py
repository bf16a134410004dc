"""``surescale dev bench headroom``: what is to be gained by knowing how each task's demand goes on, and by figures from upstream.

In the world ``waves`` parts of a job have rhythms of their own. Five forecasts of the records that come to each task in the next
twenty minutes are compared: *measured*, as ``sure`` has it, the outlook of the job's load times the visits of the last quarter of
an hour where they have moved; *hour*, the same with those of the last hour; *own*, linear in the task's own past; *upstream*,
linear in that and in the figures of the tasks before it; and the *oracle*, what comes. The linear ones are fitted to each task by
itself in the first part of the load, which is more than any trained model could know of a job. What follows judges: the error of
the forecasts, and the plan of ``sure`` that sizes each task by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from benchmarks.machine import conditions
from benchmarks.markdown import table
from benchmarks.plan_rows import Place
from benchmarks.report import say, show
from benchmarks.world_cells import DAY, LOAD_PARALLELISM, WEEK

if TYPE_CHECKING:
    from benchmarks.plan_loops import Ground

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

WORLD = "waves"
LOADS = ("clarknet", "nasa")
JOBS = ("clicks", "inventory", "search-index", "payments", "ad-billing")
DRAWS = (1, 2)
FORECASTS = ("hour", "measured", "own", "upstream", "oracle")
FITTED = ("own", "upstream")
MEASURED = {"hour": 60, "measured": 15}  # minutes that visits are measured over
AHEAD = 20  # minutes: the first stage of the plan
EVERY = 10
LOOP_HOURS = 12
BLOCKS = 6  # ten-minute means of the last hour
ANCESTORS = 10  # of a task, nearest first
RIDGES = (10.0, 100.0, 1_000.0, 10_000.0)
CHOOSING = 0.2  # of what is fitted to, the last part, which chooses among them
LEAST = 0.5  # records a minute


@click.command("headroom")
@click.option("--load", "loads", multiple=True, default=LOADS, show_default=True, help="A load, repeatable.")
@click.option("--job", "jobs", multiple=True, default=JOBS, show_default=True, help="A job, repeatable.")
@click.option(
    "--draw", "draws", type=int, multiple=True, default=DRAWS, show_default=True, help="A seed of the world, repeatable."
)
@click.option("--world", default=WORLD, show_default=True, help="A world with waves in it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, loads: tuple[str, ...], jobs: tuple[str, ...], draws: tuple[int, ...], world: str, as_json: bool) -> None:
    """Measure what forecasts of each task's demand are worth."""
    found: dict[str, list[Judged]] = {}
    for job in jobs:
        for load in loads:
            for draw in draws:
                found.setdefault(job, []).append(judged(_place(world, load, job, draw)))
                say(f"{job}, {load}, draw {draw}: {', '.join(f'{each:.4f}' for each in found[job][-1].rewards.mean(axis=1))}")
    rows = {**found, "all": [each for cells in found.values() for each in cells]}
    figures = {name: {forecast: _figures(cells, at) for at, forecast in enumerate(FORECASTS)} for name, cells in rows.items()}
    if as_json:
        show("headroom", {"conditions": conditions(None), "jobs": figures}, as_json=True)
        return
    head = ["job", "forecast", "error", "reward", "less own", "rent", "minutes above 60 s", "rescales a day"]
    click.echo(table(head, [[name, forecast, *_text(each)] for name, of in figures.items() for forecast, each in of.items()]))


@dataclass(frozen=True, slots=True)
class Judged:
    """One cell, by forecast: squared errors of log forecasts [F], and of loops [F, L] reward, rent, late minutes, rescales."""

    errors: Float64
    rewards: Float64
    rents: Float64
    late: Float64
    rescales: Float64


def judged(place: Place) -> Judged:
    """Return how each forecast does in a cell, after the minutes that the linear ones are fitted to."""
    ground = place.ground()
    forecasts = Forecasts.of(ground, place.first)
    at = np.arange(place.first, place.end - AHEAD, EVERY)
    at = at[ground.load.is_whole(at, 60, AHEAD)]
    came = forecasts.came(at)
    errors = [np.square(forecasts.of_kind(kind, at) - came)[:, 1:-1].mean() for kind in FORECASTS]
    return Judged(np.array(errors), *_lived(ground, place, forecasts))


def _lived(ground: Ground, place: Place, forecasts: Forecasts) -> tuple[Float64, Float64, Float64, Float64]:
    """Return the figures [F, L] of plans that live with each forecast, in loops of half a day."""
    from benchmarks.plan_loops import given_in, starting_parallelism
    from surescale.policies.guardrails import guard_rows, situation
    from surescale.policies.sure.plan import plan

    first = np.arange(place.first + 60, place.end - 60 * LOOP_HOURS, 60 * LOOP_HOURS)
    terms = ground.terms
    start = starting_parallelism(ground.job, ground.load, first, np.random.default_rng(place.draw))
    rows = ground.rows(first, start, len(FORECASTS))
    shape, count = (len(FORECASTS), len(first)), LOOP_HOURS * 60 // terms.span_minutes
    rewards, counted, rents, late, rescales = np.zeros((5, *shape))
    for _ in range(count):
        given = given_in(ground.base, rows.observe(), rows)
        visits = given.measured.visits.reshape(*shape, -1).copy()
        minutes = rows.minutes.reshape(shape)[0]
        load = np.maximum(given.expected.means[:, 0].reshape(shape), LEAST)
        whole = ground.load.is_whole(minutes % ground.load.minutes, 60, AHEAD)
        for row, kind in enumerate(FORECASTS):
            if kind != "measured":
                told = np.exp(forecasts.of_kind(kind, minutes)) / load[row][:, None]
                visits[row] = np.where(whole[:, None], told, visits[row])
        told_of = replace(given, measured=replace(given.measured, visits=visits.reshape(given.measured.visits.shape)))
        wanted = plan(ground.planning, told_of).wanted
        at = situation(given.measured, given.graph, given.current)
        span = rows.step(guard_rows(wanted, at, given.limits, floor_applies=True))
        assert span.late_minutes is not None
        rewards += (rows.reward(span) * span.counted_minutes).reshape(shape)
        counted += span.counted_minutes.reshape(shape)
        rents += span.allocated_minutes.reshape(shape) / LOOP_HOURS * 24 / 60
        late += span.late_minutes.reshape(shape)
        rescales += span.rescaled.reshape(shape) / LOOP_HOURS * 24
    minutes = np.maximum(counted, 1e-9)
    return rewards / minutes, rents, late / minutes, rescales


@dataclass(frozen=True, slots=True)
class Forecasts:
    """Forecasts for one job under one load.

    Attributes:
        flows: float64 [T + 1, N], records that have come to each task up to each minute, if it keeps up.
        load: float64 [T + 1], likewise to the job.
        models: by kind, per task.
        before: per task, the tasks before it, nearest first.
        ground: of the plan.
    """

    flows: Float64
    load: Float64
    models: Mapping[str, list[Linear]]
    before: tuple[tuple[int, ...], ...]
    ground: Ground

    @classmethod
    def of(cls, ground: Ground, end: int) -> Forecasts:
        """Return forecasts fitted to the minutes before ``end``."""
        from surescale.simulation.model.course import job_in

        requests = ground.load.requests.astype(np.float64)
        waves = job_in(ground.terms.world, ground.job, ground.load).waves
        if waves is None:
            raise click.UsageError("--world: there are no waves in it; name one with waves, such as waves+drift")
        flows, load = (np.concatenate([np.zeros((1, each.shape[1])), np.cumsum(each, axis=0)])
                       for each in (waves.reached * requests[:, None], requests[:, None]))  # fmt: skip
        bare = cls(flows, load[:, 0], {}, _before(ground.job.graph.upstream), ground)
        at = np.arange(DAY + 60, end - AHEAD, EVERY // 2)
        at = at[ground.load.is_whole(at, 60, AHEAD)]
        change = bare.came(at) - bare.hour(at)
        models = {
            kind: [Linear.of(bare.inputs(kind, task, at), change[:, task]) for task in range(ground.job.size)] for kind in FITTED
        }
        return replace(bare, models=models)

    def of_kind(self, kind: str, at: Int64) -> Float64:
        """Return the log of the records a minute [n, N] that each task is expected to get in the minutes from ``at`` [n] on."""
        if kind == "oracle":
            return self.came(at)
        if kind in MEASURED:
            flows, load = (np.maximum(_mean(totals, at, -MEASURED[kind], 0), LEAST) for totals in (self.flows, self.load))
            return np.log(flows / load[:, None]) + self._outlook(at)[:, None]
        changes = [model.change(self.inputs(kind, task, at)) for task, model in enumerate(self.models[kind])]
        return self.hour(at) + np.stack(changes, axis=1)

    def came(self, at: Int64) -> Float64:
        """Return the log of the records a minute [n, N] that come to each task in the minutes from ``at`` [n] on."""
        return np.log(np.maximum(_mean(self.flows, at, 0, AHEAD), LEAST))

    def hour(self, at: Int64) -> Float64:
        """Return the log of the records a minute [n, N] that came to each task in the hour before."""
        return np.log(np.maximum(_mean(self.flows, at, -60, 0), LEAST))

    def inputs(self, kind: str, task: int, at: Int64) -> Float64:
        """Return the inputs [n, I] of a task's forecast: its own past, and with ``upstream`` that of the tasks before it."""
        hour = self.hour(at)
        columns = [np.ones(len(at)), *self._course(task, at)]
        days = [day * DAY for day in range(1, 8)]
        known = np.stack([at - day >= 60 for day in days])
        growth, level = [], []
        for day in days:
            then = np.maximum(at - day, 60)
            growth.append(self.came(then)[:, task] - self.hour(then)[:, task])
            level.append(self.hour(then)[:, task] - hour[:, task])
        for past in (np.clip(growth, -1.5, 1.5), np.clip(level, -0.5, 0.5)):
            columns += [past[0], np.where(known, past, 0.0).sum(axis=0) / known.sum(axis=0)]
        if kind == "upstream":
            for other in self.before[task]:
                columns += [*self._course(other, at), hour[:, other] - hour[:, task]]
        return np.stack(columns, axis=1)

    def _course(self, task: int, at: Int64) -> list[Float64]:
        """Return a task's last five minutes, and its ten-minute means of the last hour, as logs relative to the hour."""
        hour = np.maximum(_mean(self.flows, at, -60, 0)[:, task], LEAST)
        stretches = [(-5, 0), *((-10 * back - 10, -10 * back) for back in range(BLOCKS))]
        return [np.log(np.maximum(_mean(self.flows, at, *each)[:, task], LEAST) / hour) for each in stretches]

    def _outlook(self, at: Int64) -> Float64:
        """Return the log of the load [n] that ``sure`` expects in the first stage."""
        from surescale.contracts.clock import MINUTE_MS
        from surescale.simulation.loops.hourly import HourlyFigures

        load = self.ground.load
        minutes = np.where(load.masked, np.nan, load.requests.astype(np.float64))[at[:, None] - 60 + np.arange(60)]
        hours = HourlyFigures.loads(load.requests, load.masked).before(at)
        means = self.ground.base.outlook.stages_of(minutes, hours, load.trace_start_ms + at * MINUTE_MS)[0]
        return np.log(np.maximum(means[:, 0], LEAST))


def _mean(totals: Float64, at: Int64, first: int, last: int) -> Float64:
    """Return the mean of minutes ``at + first`` to ``at + last`` - 1 from running totals."""
    found: Float64 = (totals[at + last] - totals[at + first]) / (last - first)
    return found


def _before(upstream: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Return per task the tasks before it, nearest first, the source among them."""
    found = []
    for task in range(len(upstream)):
        order = [task]
        for each in order:  # grows while it is read
            order += [parent for parent in upstream[each] if parent not in order]
        found.append(tuple(order[1 : 1 + ANCESTORS]))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Linear:
    """A ridge regression of the change of a task's flow, on inputs held within what all but few of the fitted ones were."""

    low: Float64
    high: Float64
    weights: Float64

    @classmethod
    def of(cls, inputs: Float64, wanted: Float64) -> Linear:
        """Return it fitted to inputs [n, I], the first one constant; the last part chooses how strongly it is held back."""
        early = int(len(inputs) * (1.0 - CHOOSING))
        choosing = [cls._fitted(inputs[:early], wanted[:early], ridge) for ridge in RIDGES]
        off = [np.square(each.change(inputs[early:]) - wanted[early:]).mean() for each in choosing]
        return cls._fitted(inputs, wanted, RIDGES[int(np.argmin(off))])

    @classmethod
    def _fitted(cls, inputs: Float64, wanted: Float64, ridge: float) -> Linear:
        low, high = np.quantile(inputs, (0.01, 0.99), axis=0)
        held = np.clip(inputs, low, high)
        middle, scale = held.mean(axis=0), np.maximum(held.std(axis=0), 1e-9)
        scaled = (held - middle)[:, 1:] / scale[1:]
        penalty = ridge * np.eye(scaled.shape[1])
        slopes = np.linalg.solve(scaled.T @ scaled + penalty, scaled.T @ (wanted - wanted.mean())) / scale[1:]
        return cls(low, high, np.concatenate([[wanted.mean() - middle[1:] @ slopes], slopes]))

    def change(self, inputs: Float64) -> Float64:
        """Return the expected change [n], in logs, for inputs [n, I]."""
        found: Float64 = np.clip(inputs, self.low, self.high) @ self.weights
        return found


def _place(world: str, load: str, job: str, draw: int) -> Place:
    from benchmarks.archive import load_workload

    end = max(WEEK, load_workload(load).minutes // 3 // 60 * 60)
    return Place(world, load, job, draw, "balanced", end, end + WEEK, LOAD_PARALLELISM)


def _figures(cells: list[Judged], at: int) -> dict[str, float]:
    apart = np.concatenate([each.rewards[at] - each.rewards[FORECASTS.index("own")] for each in cells])
    return {
        "error": float(np.sqrt(np.mean([each.errors[at] for each in cells]))),
        "reward": float(np.mean([each.rewards[at].mean() for each in cells])),
        "less_own": float(apart.mean()),
        "standard_error": float(apart.std(ddof=1) / np.sqrt(len(apart))),
        "rent": float(np.mean([each.rents[at].mean() for each in cells])),
        "late_share": float(np.mean([each.late[at].mean() for each in cells])),
        "rescales_per_day": float(np.mean([each.rescales[at].mean() for each in cells])),
    }


def _text(each: dict[str, Any]) -> list[str]:
    apart = f"{each['less_own']:+.4f} ± {each['standard_error']:.4f}" if each["less_own"] else ""
    late, often = f"{each['late_share']:.1%}", f"{each['rescales_per_day']:.0f}"
    return [f"{each['error']:.3f}", f"{each['reward']:.4f}", apart, f"{each['rent']:.0f}", late, often]


if __name__ == "__main__":
    command()
