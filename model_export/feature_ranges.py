"""Fits where features lie in training, for the card: loops of the plan alone, on the training's jobs and loads; no torch."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from surescale.model_export.plan_loops import Ground, given_in, planned_in, starting_parallelism
from surescale.policies.features import WIDTH, Encoded, encode
from surescale.policies.graph import Int64, JobGraph
from surescale.policies.measure import measure
from surescale.policies.package import CARD
from surescale.policies.policy import SPAN_MINUTES
from surescale.policies.sure.base import Base
from surescale.policies.sure.drift import Ranges, outside
from surescale.policies.sure.package import Card, read_package
from surescale.simulation.load.jobs import SizedJob, load_job
from surescale.simulation.load.workload import Workload, load_workload
from surescale.simulation.model.worlds import CALM, World, world_named

WEEK_MINUTES = 7 * 24 * 60
ROWS, SPANS = 8, 9
"""Loops of each job and load, and their spans. They begin at random minutes of the week, as those of the training do."""
TAIL = 0.005
USUAL = 0.99
VALUES_OF_A_PLACE = 2_000
"""Task-minutes kept of each job and load, so that all count alike whatever their size."""

Place = tuple[SizedJob, Workload, World]


def fit_ranges(base: Base, places: list[Place], tell: Callable[[int, int], object] = lambda done, of: None) -> Ranges:
    """Return the range of every slot, with all jobs and loads weighted equally, and how many features usually lie outside."""
    generator = np.random.default_rng(0)
    kept = []
    for at, place in enumerate(places):
        # Each span adds ten minutes to a window; only those are new.
        seen = np.concatenate([_rows(encoded, graph) for encoded, graph in _windows(base, place)])
        kept.append(seen[generator.choice(len(seen), VALUES_OF_A_PLACE)])
        tell(at + 1, 2 * len(places))
    low, high = np.quantile(np.concatenate(kept).astype(np.float64), (TAIL, 1.0 - TAIL), axis=0)
    ranges = Ranges(low=_rounded(low), high=_rounded(high), usual=0.0, windows=1)
    shares = []
    for at, place in enumerate(places):
        for encoded, graph in _windows(base, place):
            counts, looked_at = outside(encoded.x, encoded.mask, graph, ranges)
            shares.append(counts.sum(axis=-1) / np.maximum(looked_at * WIDTH, 1))
        tell(len(places) + at + 1, 2 * len(places))
    every = np.concatenate(shares)
    return msgspec.structs.replace(ranges, usual=round(float(np.quantile(every, USUAL)), 6), windows=len(every))


def complete_card(folder: Path, tell: Callable[[int, int], object] = lambda done, of: None) -> Card:
    """Fit the ranges of a package again, from its own card's jobs and loads, and write them there; return the card.

    The graphs stay as they are. The package's hash changes with its card.

    Raises:
        PackageRejected: there is no package that can be read.
    """
    card = read_package(folder).card
    completed = msgspec.structs.replace(card, ranges=fit_ranges(card.base, places_of(card.training), tell))
    write_card(completed, folder)
    return completed


def places_of(training: dict[str, Any]) -> list[Place]:
    """Return the jobs and loads that a card says a package was trained and validated on, each in one of its worlds in turn."""
    settings, generator = training["settings"], np.random.default_rng(0)
    wholes = [load_workload(name) for name in settings["workloads"]]
    weeks = [(whole, replace(whole, requests=whole.requests[:WEEK_MINUTES])) for whole in wholes]
    least, most = settings["load_parallelism"]
    jobs = [*settings["jobs"], *settings["validation_jobs"]]
    pairs = [(load_job(name, whole, generator.uniform(least, most)), week) for name in jobs for whole, week in weeks]
    worlds = settings.get("worlds") or [CALM.name]
    return [(job, week, world_named(worlds[at % len(worlds)], seed=at)) for at, (job, week) in enumerate(pairs)]


def _windows(base: Base, place: Place) -> Iterator[tuple[Encoded, JobGraph]]:
    """Yield the windows of loops of the plan alone, all rows at a time; the same place gives the same ones."""
    job, week, world = place
    generator = np.random.default_rng([*job.name.encode(), len(week.requests), int(week.requests.sum())])
    first: Int64 = generator.integers(120, len(week.requests) - SPANS * SPAN_MINUTES, size=ROWS)
    ground = Ground.of(base, job, week, world)
    rows = ground.rows(first, starting_parallelism(job, week, first, generator))
    for _ in range(SPANS):
        seen = rows.observe()
        measured = measure(seen.figures, rows.graph)
        yield encode(seen.figures, rows.graph, seen.ends_ms, seen.hourly_load, measured), rows.graph
        rows.step(planned_in(ground.planning, given_in(base, seen, rows, measured))[1])


def _rows(encoded: Encoded, graph: JobGraph) -> np.ndarray:
    new = slice(-10, None)
    values = encoded.x[:, new][..., graph.scalable, :]
    return np.asarray(values[encoded.mask[:, new][..., graph.scalable]])


def _rounded(values: np.ndarray) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)


def write_card(card: msgspec.Struct, folder: Path) -> None:
    """Write the card, one field a line; the same card gives the same bytes."""
    raw = msgspec.json.format(msgspec.json.encode(card, order="deterministic"), indent=1)
    (folder / CARD).write_bytes(raw + b"\n")
