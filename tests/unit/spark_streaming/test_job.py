"""How the role takes the end of its query: what is waited for, and what ends the process."""

import logging
import threading
from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException

from contracts.errors import SurescaleError
from spark_streaming import job as role
from spark_streaming.job import Job
from spark_streaming.settings import SparkSettings
from spark_streaming.state import StateRefused

FETCH = "Job aborted: ... java.util.concurrent.TimeoutException: Cannot fetch record for offset 7 in 120000 ms"
AWAY = KafkaException(KafkaError(KafkaError._TRANSPORT, "the broker is away"))


class EndedQuery:
    """A query that has ended by an exception."""

    isActive = False  # noqa: N815  # Spark's name

    status: ClassVar = {"message": "Terminated with exception"}

    def __init__(self, text: str, progress: object = None) -> None:
        self._text, self.lastProgress = text, progress

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


class NeverStopped(threading.Event):
    """Nobody ends the process, and no pause is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses_s: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        """Take note of the pause."""
        self.pauses_s.append(timeout or 0.0)
        return False


DENIED = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not authorised to write to snapshots"))


def fail(job: Job, times: int, progress: object = None) -> None:
    """Let queries end by one and the same refusal."""
    for _ in range(times):
        job._raise_unless_away(EndedQuery("ended", progress), DENIED)  # type: ignore[arg-type]  # as far as it is used


def test_a_refusal_that_never_heals_ends_the_process_with_its_cause() -> None:
    """A supervisor sees it, and alerts fire; before that the pauses grow, for what needs a minute or two to heal."""
    stop = NeverStopped()
    job = Job(SparkSettings(road_clock=True), stop=stop, log=logging.getLogger("test"))
    fail(job, role.RESTARTS_IN_VAIN_MAX)
    assert 60 <= sum(stop.pauses_s) <= 300
    with pytest.raises(SurescaleError, match=r"10 times.*not authorised to write to snapshots"):
        fail(job, 1)


@pytest.mark.parametrize("by", ["batch", "trigger"])
def test_what_gets_done_in_between_begins_the_count_anew(by: str) -> None:
    """A batch, or a look at the topic that found nothing new: trouble that passes is healed for ever."""
    job = Job(SparkSettings(road_clock=True), stop=NeverStopped(), log=logging.getLogger("test"))
    for _ in range(3):
        job._batches_before = job._counts.batches
        fail(job, role.RESTARTS_IN_VAIN_MAX - 1)
        job._counts.batches += by == "batch"
        fail(job, 1, progress={} if by == "trigger" else None)


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
