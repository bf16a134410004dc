"""Fits where features lie in training, for the card: loops of the plan of ``sure`` on the training's jobs and load; no torch."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from benchmarks.plan_loops import Ground, given_in, planned_in, starting_parallelism
from surescale.policies.drift import Ranges, outside
from surescale.policies.features import SURE_WIDTH, Encoded, encode
from surescale.policies.graph import Int64, JobGraph
from surescale.policies.measure import measure
from surescale.policies.policy import SPAN_MINUTES
from surescale.policies.registry import FORECAST_PACKAGE, SHIPPED
from surescale.policies.sure.base import Base
from surescale.policies.sure.package import read_package
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload

ROWS, SPANS = 64, 9
"""Loops of each job and load, and their spans. They begin at random minutes of the week, as those of the training do."""
TAIL = 0.005
USUAL = 0.99
VALUES_OF_A_PLACE = 2_000
"""Task-minutes kept of each job and load, so that all count alike whatever their size."""

Place = tuple[SizedJob, Workload]


def base_of_sure() -> Base:
    """Return the forecast and the plan that ship."""
    return read_package(SHIPPED / FORECAST_PACKAGE).card.base


def fit_ranges(base: Base, places: Sequence[Place]) -> Ranges:
    """Return the range of each of SURE's slots, places weighted equally, and how many features usually lie outside."""
    generator = np.random.default_rng(0)
    kept = []
    for place in places:
        # Each span adds ten minutes to a window; only those are new.
        seen = np.concatenate([_rows(encoded, graph) for encoded, graph in _windows(base, place)])
        kept.append(seen[generator.choice(len(seen), VALUES_OF_A_PLACE)])
    low, high = np.quantile(np.concatenate(kept).astype(np.float64), (TAIL, 1.0 - TAIL), axis=0)
    ranges = Ranges(low=_rounded(low), high=_rounded(high), usual=0.0, windows=1)
    shares = []
    for place in places:
        for encoded, graph in _windows(base, place):
            counts, looked_at = outside(encoded.x, encoded.mask, graph, ranges)
            shares.append(counts.sum(axis=-1) / np.maximum(looked_at * SURE_WIDTH, 1))
    every = np.concatenate(shares)
    return msgspec.structs.replace(ranges, usual=round(float(np.quantile(every, USUAL)), 6), windows=len(every))


def _windows(base: Base, place: Place) -> Iterator[tuple[Encoded, JobGraph]]:
    """Yield the windows of loops of the plan alone, all rows at a time; the same place gives the same ones."""
    job, week = place
    generator = np.random.default_rng([*job.name.encode(), len(week.requests), int(week.requests.sum())])
    first: Int64 = generator.integers(120, len(week.requests) - SPANS * SPAN_MINUTES, size=ROWS)
    ground = Ground.of(base, job, week)
    rows = ground.rows(first, starting_parallelism(job, week, first, generator))
    for _ in range(SPANS):
        seen = rows.observe()
        measured = measure(seen.figures, rows.graph)
        yield encode(seen.figures, rows.graph, seen.ends_ms, seen.hourly_load, measured, width=SURE_WIDTH), rows.graph
        rows.step(planned_in(ground.planning, given_in(base, seen, rows, measured))[1])


def _rows(encoded: Encoded, graph: JobGraph) -> np.ndarray:
    new = slice(-10, None)
    values = encoded.x[:, new][..., graph.scalable, :]
    return np.asarray(values[encoded.mask[:, new][..., graph.scalable]])


def _rounded(values: np.ndarray) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)
