"""How the role takes the end of its query: what is waited for, and what ends the process."""

import logging
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from spark_streaming import job as role
from spark_streaming.job import Job
from spark_streaming.settings import SparkSettings
from spark_streaming.state import StateRefused

FETCH = "Job aborted: ... java.util.concurrent.TimeoutException: Cannot fetch record for offset 7 in 120000 ms"
AWAY = KafkaException(KafkaError(KafkaError._TRANSPORT, "the broker is away"))


class EndedQuery:
    """A query that has ended by an exception."""

    isActive = False  # noqa: N815  # Spark's name

    def __init__(self, text: str) -> None:
        self._text = text

    def exception(self) -> Exception:
        """Return why."""
        return RuntimeError(self._text)


def a_job() -> Job:
    """Return the role, not running."""
    return Job(SparkSettings(road_clock=True), stop=threading.Event(), log=logging.getLogger("test"))


def end(failure: Exception | None, text: str = "ended") -> Job:
    """Return the role after a query ended so."""
    ended = a_job()
    ended._raise_unless_away(EndedQuery(text), failure)  # type: ignore[arg-type]  # the one method that is used
    return ended


@pytest.mark.parametrize("failure", [AWAY, TimeoutError("the clock"), RuntimeError(FETCH), None])
def test_a_broker_that_goes_away_is_waited_for(failure: Exception | None) -> None:
    """Whoever noticed: a client of the driver, or an executor that could not fetch a batch's records."""
    assert end(failure, FETCH).report()["restarts"] == 1


@pytest.mark.parametrize("failure", [StateRefused("corrupt"), ValueError("a mistake of ours")])
def test_every_other_failure_ends_the_process(failure: Exception) -> None:
    """As itself, not in Spark's words."""
    with pytest.raises(type(failure)):
        end(failure)


def test_a_broker_that_goes_away_before_the_query_starts_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answered a moment ago and does not give the clock's topic."""

    def away(*_: object, **__: object) -> Any:
        raise AWAY

    monkeypatch.setattr(role, "wait_for_topics", lambda *_, **__: None)
    monkeypatch.setattr(role, "RoadClock", away)
    waiting = a_job()
    waiting._run_query(None, None)  # type: ignore[arg-type]  # nothing is started
    assert waiting.report()["restarts"] == 1
