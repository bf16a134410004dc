"""What a monitor keeps of its jobs does not grow with their minutes."""

import contextlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from benchmarks.pipeline.fleet import Fleet
from benchmarks.pipeline.monitor import Watched, measured
from surescale.contracts.topics import TopicNames
from surescale.monitor.service import JobWatcher

JOBS = 5
HOUR = 60


class _Record:
    def topic(self) -> str:
        return "any"

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def latency(self) -> None:
        return None


class _Client:
    """A producer whose records are acknowledged as soon as somebody takes the reports."""

    def __init__(self) -> None:
        self._sent = SimpleQueue[Callable[[None, _Record], None]]()

    def produce(self, *_: object, on_delivery: Callable[[None, _Record], None], **__: object) -> None:
        self._sent.put(on_delivery)

    def poll(self, timeout_s: float) -> None:
        with contextlib.suppress(Empty):
            self._sent.get(timeout=timeout_s)(None, _Record())


def objects_after(minutes: int, *, kept: int = 0) -> list[int]:
    """Return the objects of a process after each hour, one that nothing else runs in; each step of a watcher keeps some lists."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_objects_after, minutes, kept).result()


def _objects_after(minutes: int, kept: int) -> list[int]:
    keeps: list[list[int]] = []
    real = JobWatcher.step

    def step(watcher: JobWatcher) -> None:
        real(watcher)
        keeps.extend([watcher.after_ms] for _ in range(kept))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobWatcher, "step", step)
        return _watched(minutes)


def _watched(minutes: int) -> list[int]:
    client: Any = _Client()
    watched = Watched(Fleet(JOBS, 3, 2, seed=1), client, TopicNames(""), threads=4)
    found = [objects for _, objects, _ in measured(watched, minutes, HOUR)]
    watched.stop.set()
    assert watched.minutes_sent == JOBS * minutes
    return found


def test_nothing_that_a_monitor_keeps_grows_with_the_minutes() -> None:
    """After the first hour, in which every bounded history fills, the number of objects stays."""
    first, *later = objects_after(4 * HOUR)
    assert max(later) - first < JOBS


def test_a_watcher_that_kept_its_minutes_would_be_found() -> None:
    """Two lists of a job and minute are enough."""
    first, *later = objects_after(2 * HOUR, kept=2)
    assert max(later) - first >= JOBS * HOUR
