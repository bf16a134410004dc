"""How the role starts its queries."""

import logging
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest
from confluent_kafka import KafkaError, KafkaException

from surescale.spark_streaming.manifest import Manifests, SavedState
from surescale.spark_streaming.merging import Merged
from surescale.spark_streaming.minutes import MinuteRules
from surescale.spark_streaming.places import place_of
from surescale.spark_streaming.settings import SparkSettings
from surescale.spark_streaming.streaming_job import Counts, Job
from tests.support.object_store import impatient, object_store


def test_a_broker_that_goes_away_before_the_query_starts_is_waited_for(tmp_path: Any) -> None:
    """It answered a moment ago and does not serve the clock's topic: the role tries again instead of ending."""
    stop = threading.Event()
    tries: list[int] = []

    def away(*_: object, **__: object) -> NoReturn:
        tries.append(len(tries))
        if len(tries) == 2:
            stop.set()
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "the broker is away"))

    role = Job(SparkSettings(pipeline_clock=True), stop=stop, log=logging.getLogger("test"), open_clock=away)
    role.run_queries(None, Manifests(place_of(str(tmp_path)), MinuteRules()), tmp_path)  # type: ignore[arg-type]  # no query starts, so no session is used
    assert len(tries) == 2
    assert role.report()["restarts"] == 2


def test_a_store_that_goes_away_before_the_query_starts_is_waited_for(tmp_path: Path) -> None:
    """As a broker is; the state in it is not called corrupt."""
    stop, log = threading.Event(), logging.Logger("test")
    with object_store():
        manifests = Manifests(impatient(tmp_path.name), MinuteRules())
    lines: list[str] = []

    def note(record: logging.LogRecord) -> bool:
        stop.set()
        lines.append(record.getMessage())
        return False

    log.addFilter(note)
    role = Job(SparkSettings(), stop=stop, log=log)
    role.run_queries(None, manifests, tmp_path)  # type: ignore[arg-type]  # no query starts, so no session is used
    assert len(lines) == 1
    assert lines[0].startswith("the query lost the store and starts again: s3://")


def _task(began_ms: float, **stage_ms: float) -> Merged:
    """Return what a task says that began then."""
    return Merged(
        partitions=(0,), state=SavedState("state"), offsets={}, records=1, samples=1, windows=1, late=0, refused={},
        closed_append_ms=(), stage_ms=stage_ms, worked_ms=(began_ms, began_ms + sum(stage_ms.values())),
    )  # fmt: skip


def test_stages_have_the_wall_time_that_tasks_took_side_by_side() -> None:
    """Two at once and a third one later, of a batch that took a second: 300 ms and 100 ms of it."""
    counts = Counts()
    tasks = [_task(50.0, read=200.0, save=100.0), _task(150.0, read=200.0), _task(700.0, read=60.0, save=40.0)]
    counts.add(tasks, batch_s=1.0, manifest_s=0.01)
    took_ms = {stage: spent_ms for stage, spent_ms in counts.stage_ms.items() if spent_ms}
    assert took_ms == pytest.approx({"read": 400 * 460 / 600, "save": 400 * 140 / 600, "manifest": 10, "spark": 590})


def test_stages_never_take_more_than_the_batch() -> None:
    """Of executors whose clocks are a minute apart."""
    counts = Counts()
    counts.add([_task(0.0, read=700.0), _task(60_000.0, read=700.0)], batch_s=1.0, manifest_s=0.1)
    assert counts.stage_ms["read"] == pytest.approx(900.0)
    assert counts.stage_ms["spark"] == 0.0
