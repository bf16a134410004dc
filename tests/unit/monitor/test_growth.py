"""What a monitor keeps of its jobs does not grow with their minutes."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from benchmarks.pipeline.fleet import Fleet
from benchmarks.pipeline.monitor import Watched, measured
from surescale.contracts.topics import TopicNames
from surescale.monitor.service import JobWatcher

JOBS = 5
HOUR = 60


class _Record:
    def topic(self) -> str:
        return "any"


class _Client:
    """A producer whose records are acknowledged as soon as somebody waits for them."""

    def __init__(self) -> None:
        self._sent: list[Callable[[None, _Record], None]] = []

    def produce(self, *_: object, on_delivery: Callable[[None, _Record], None], **__: object) -> None:
        self._sent.append(on_delivery)

    def flush(self, _timeout_s: float) -> int:
        while self._sent:
            self._sent.pop()(None, _Record())
        return 0


def objects_after(minutes: int) -> list[int]:
    """Return the objects of this process after each hour."""
    client: Any = _Client()
    assert isinstance(client, _Client | Producer)
    watched = Watched(Fleet(JOBS, 3, 2, seed=1), client, TopicNames(""))
    found = [objects for _, objects, _ in measured(watched, minutes, HOUR)]
    assert watched.minutes_sent == JOBS * minutes
    return found


def test_nothing_that_a_monitor_keeps_grows_with_the_minutes() -> None:
    """After the first hour, in which every bounded history fills, the number of objects stays."""
    first, *later = objects_after(4 * HOUR)
    assert max(later) - first < JOBS


def test_a_watcher_that_kept_its_minutes_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One list of a job is enough."""
    kept: list[list[int]] = []
    real = JobWatcher.step

    def step(watcher: JobWatcher) -> None:
        real(watcher)
        kept.append([watcher.after_ms])

    monkeypatch.setattr(JobWatcher, "step", step)
    first, *later = objects_after(2 * HOUR)
    assert max(later) - first >= JOBS * HOUR
