"""Fits what lies under the network on the training part of a workload: the linear forecast, and the feature statistics."""

import numpy as np

from contracts.clock import MINUTE_MS
from model_export.rollout import starting_parallelism
from policies.features import WIDTH, encode
from policies.forecast import TRENDS, Forecast, forecast_inputs
from policies.graph import Int64
from policies.learned import Base, learned_wish
from policies.measure import measure
from policies.package import Statistics
from policies.proposal import Float64
from policies.sizing import Sizing
from simulation.jobs import SizedJob
from simulation.loop import LoopRows, Terms, guarded, hourly_load
from simulation.workload import Workload

HORIZON_MINUTES = 60
RIDGE = 1.0
STD_MIN = 0.05  # a slot that hardly moves in training must not explode when it does

# From 128 random draws over utilisation .68-.8, catch-up 10-40, need .1-.4, saving .09-.24 and backlog .5-1 on ClarkNet's
# first week, mean reward over four jobs: the best twenty lie within .003, and this is their middle.
SIZING = Sizing(utilisation=0.73, catch_up_minutes=30.0, need=0.25, saving=0.14, backlog_minutes=1.0)


def fit_base(workload: Workload) -> Base:
    """Fit the forecast on all of a workload by ridge regression, at every tenth minute."""
    requests = workload.requests.astype(np.float64)
    at = np.arange(120, len(requests) - HORIZON_MINUTES, 10)
    loads = requests[at[:, None] - 60 + np.arange(60)]
    cumulated = np.concatenate([[0.0], np.cumsum(requests)])
    ends_ms = workload.trace_start_ms + at * MINUTE_MS
    inputs, known = forecast_inputs(loads, hourly_load(cumulated, at), ends_ms)
    coming = (cumulated[at + HORIZON_MINUTES] - cumulated[at]) / HORIZON_MINUTES
    target = np.log(np.maximum(coming, 1e-3) / np.maximum(loads.mean(axis=1), 1e-3))
    forecast = Forecast(
        horizon_minutes=HORIZON_MINUTES,
        with_history=_ridge(inputs[known], target[known]),
        trend_only=_ridge(inputs[:, :TRENDS], target),
    )
    return Base(forecast=forecast, sizing=SIZING)


def _ridge(inputs: Float64, target: Float64) -> tuple[float, ...]:
    design = np.column_stack([inputs, np.ones(len(inputs))])
    penalty = RIDGE * np.eye(design.shape[1])
    penalty[-1, -1] = 0.0
    weights = np.linalg.solve(design.T @ design + penalty, design.T @ target)
    return tuple(round(float(weight), 6) for weight in weights)


def fit_statistics(base: Base, jobs: list[SizedJob], workload: Workload, first_minutes: Int64, spans: int) -> Statistics:
    """Return mean and standard deviation of every slot over loops of the forecast rule on all jobs, each job counting alike."""
    count = 0
    total, squares = np.zeros(WIDTH), np.zeros(WIDTH)
    for job in jobs:
        start = starting_parallelism(job, workload, first_minutes, np.random.default_rng(0))
        rows = LoopRows(job, workload, first_minutes, start, Terms())
        for _ in range(spans):
            seen = rows.observe()
            measured = measure(seen.figures, rows.graph)
            x = encode(seen.figures, rows.graph, seen.ends_ms, seen.hourly_load, measured).x[..., rows.graph.scalable, :]
            slots = x.reshape(-1, WIDTH).astype(np.float64)
            total, squares, count = total + slots.mean(axis=0), squares + np.square(slots).mean(axis=0), count + 1
            load = base.forecast.load(measured.load, seen.hourly_load, seen.ends_ms)
            nothing = np.zeros(seen.current.shape)
            wished = learned_wish(base, measured, load, seen.current, rows.graph, nothing, nothing[:, 0])
            wanted = np.where(wished.opened[:, None], wished.sizes.wanted, seen.current)
            rows.step(guarded(wanted, measured, seen.current, job, rows.graph))
    mean = total / count
    std = np.sqrt(np.maximum(squares / count - np.square(mean), 0.0))
    return Statistics(
        mean=tuple(round(float(value), 6) for value in mean),
        std=tuple(round(max(STD_MIN, float(value)), 6) for value in std),
    )
