"""The shipped policy, and windows of a small chain job in steady state and of a job with branches, to be bent by each test."""

from collections.abc import Callable

import numpy as np
import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.windows import FIGURE, FIGURES, Window, blank_figures
from surescale.policies.graph import job_graph
from surescale.policies.guardrails import Situation, situation
from surescale.policies.measure import measure
from surescale.policies.question import Question
from surescale.policies.registry import load_policy
from surescale.policies.rules.reading import Reading
from surescale.policies.sure.policy import SurePolicy

MINUTE_MS = 60_000
END_MS = 809_568_000_000 + 8 * 3_600_000  # Monday 1995-08-28 08:00

WindowMaker = Callable[..., Window]


@pytest.fixture
def settings() -> JobSettings:
    """Return the default settings of the job that ``make_window`` makes."""
    return JobSettings(job="sim/chain")


@pytest.fixture(scope="session")
def sure() -> SurePolicy:
    """Return the policy ``sure`` as it ships."""
    loaded = load_policy("sure")
    assert isinstance(loaded, SurePolicy), loaded
    return loaded


@pytest.fixture
def make_window() -> WindowMaker:
    """Return a maker of windows: source -> a -> b -> sink, every record through every task."""
    return chain_window


def chain_window(
    load: float = 100.0,
    service_minutes: tuple[float, ...] = (0.02, 0.01),
    parallelism: tuple[int, ...] = (4, 2),
    minutes: int = 60,
    known: int | None = None,
    queued: tuple[float, ...] = (0.0, 0.0),
    configured: tuple[int, ...] | None = None,
    hourly_load: np.ndarray | None = None,
) -> Window:
    """Return a window in which tasks a, b, .. each serve ``load`` records a minute; only the last ``known`` minutes reported."""
    names = [chr(ord("a") + i) for i in range(len(parallelism))]
    chain = ["source", *names, "sink"]
    specs = [TaskSpec(task="source", scalable=False, max_parallelism=1)]
    for i, name in enumerate(names):
        most = configured[i] if configured else None
        specs.append(TaskSpec(task=name, upstream=(chain[i],), parallelism=parallelism[i], configured_parallelism=most))
    specs.append(TaskSpec(task="sink", upstream=(chain[-2],), scalable=False, max_parallelism=1))
    figures = blank_figures(minutes, len(specs))
    service = np.array([0.0, *service_minutes, 0.0])
    sizes = np.array([1, *parallelism, 1])
    waiting = np.array([0.0, *queued, 0.0])
    figures[..., FIGURE["records_in"]] = figures[..., FIGURE["records_out"]] = load
    figures[..., FIGURE["busy_ms"]] = load * service * MINUTE_MS
    figures[..., FIGURE["idle_ms"]] = (sizes - load * service) * MINUTE_MS
    figures[..., FIGURE["queued_records_mean"]] = figures[..., FIGURE["queued_records_last"]] = waiting
    figures[..., FIGURE["queue_wait_record_ms"]] = waiting * MINUTE_MS
    figures[..., FIGURE["latency_record_ms"]] = (waiting + load * service) * MINUTE_MS
    figures[..., FIGURE["parallelism"]] = sizes
    figures[..., FIGURE["coverage"]] = 1.0
    if known is not None:
        figures[: minutes - known] = np.nan
    hours = np.full(192, np.nan, dtype=np.float32) if hourly_load is None else hourly_load.astype(np.float32)
    topology = JobTopology(job="sim/chain", version=3, at_ms=0, tasks=tuple(specs))
    return Window(job="sim/chain", window_end_ms=END_MS, figures=figures, topology=topology, hourly_load=hours)


def branching_window(seed: int = 0, extra: tuple[TaskSpec, ...] = (), order: tuple[int, ...] | None = None) -> Window:
    """Return a window of two branches that meet, each task with figures of its own; ``extra`` tasks never report."""
    edges = {"s": (), "l": ("s",), "m": ("l",), "r": ("s",), "j": ("m", "r"), "z": ("j",)}
    specs = [TaskSpec(task=t, upstream=up, parallelism=1 if t in "sz" else 3, scalable=t not in "sz") for t, up in edges.items()]
    generator = np.random.default_rng(seed)
    service = np.array([0, 0.01, 0.02, 0.015, 0.01, 0])
    load = generator.uniform(100, 200, size=(60, 1)) * np.ones(6)
    sizes = np.array([spec.parallelism for spec in specs])
    waiting = generator.uniform(0, 5, size=(60, 6))
    figures = blank_figures(60, 6)
    for column, values in {
        0: load, 1: load, 4: load * service * 60_000, 7: waiting, 8: waiting, 9: sizes + 0 * load, 14: 1 + 0 * load,
    }.items():  # fmt: skip
        figures[..., column] = values
    figures[..., 11:13] = np.nan
    figures = np.concatenate([figures, np.full((60, len(extra), len(FIGURES)), np.nan, dtype=np.float32)], axis=1)
    tasks = [*specs, *extra]
    places = list(order) if order else list(range(len(tasks)))
    topology = JobTopology(job="sim/y", version=1, at_ms=0, tasks=tuple(tasks[i] for i in places))
    return Window("sim/y", END_MS, figures[:, places], topology, generator.uniform(90, 220, 192).astype(np.float32))


def read(window: Window) -> Reading:
    """Return what rules read off a window."""
    return Reading.of(Question.of(window, JobSettings(job=window.job), 0))


def seen_in(window: Window) -> Situation:
    """Return what the guardrails know of a window."""
    graph = job_graph(window.topology.tasks)
    current = np.array([spec.parallelism for spec in window.topology.tasks])
    return situation(measure(window.figures, graph), graph, current)
