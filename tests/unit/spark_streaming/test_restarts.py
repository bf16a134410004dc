"""What the end of a query means: some causes are waited out, every other one ends the process."""

import logging
import re

import pytest
from confluent_kafka import KafkaError, KafkaException

from surescale.contracts.errors import SurescaleError
from surescale.spark_streaming.places import StoreAway
from surescale.spark_streaming.restarts import FRUITLESS_MAX, CheckpointFull, RecordsLost, Restarts
from surescale.spark_streaming.state import StateRefused

FETCH = "Job aborted: ... java.util.concurrent.TimeoutException: Cannot fetch record for offset 7 in 120000 ms"
KILLED = "Job aborted: ... org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting ..."
UNREADABLE = """[STREAM_FAILED] Query ended
\tat org.apache.spark.Frame
Caused by: org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to access topics: [task-metrics]"""
AWAY = KafkaException(KafkaError(KafkaError._TRANSPORT, "the broker is away"))
DENIED = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not authorised to write to snapshots"))


def restarts(pauses_s: list[float] | None = None) -> Restarts:
    """Return a counter that notes its pauses instead of waiting."""
    return Restarts("/checkpoint", (pauses_s if pauses_s is not None else []).append, logging.getLogger("test"))


@pytest.mark.parametrize("error", [AWAY, TimeoutError("the clock"), RuntimeError(FETCH)])
def test_the_query_starts_again_after_the_broker_went_away(error: Exception) -> None:
    """No matter who noticed: a client of the driver, or an executor that could not fetch a batch's records."""
    counter = restarts()
    counter.after(error, made_progress=False)
    assert counter.count == 1


def test_the_query_starts_again_after_the_store_went_away(caplog: pytest.LogCaptureFixture) -> None:
    """The line names it; if it does not come back, the process ends with that as its cause."""
    counter = restarts()
    away = StoreAway("s3://bucket/checkpoint/lock: the store does not answer")
    for _ in range(FRUITLESS_MAX):
        counter.after(away, made_progress=False)
    assert set(caplog.messages) == {f"the query lost the store and starts again: {away}"}
    with pytest.raises(SurescaleError, match=r"10 times.*the store does not answer"):
        counter.after(away, made_progress=False)


def test_the_query_starts_again_after_a_worker_was_killed(caplog: pytest.LogCaptureFixture) -> None:
    """The line says so, and nothing of the broker; if no worker survives the batch, the process ends."""
    counter = restarts()
    for _ in range(FRUITLESS_MAX):
        counter.after(RuntimeError(KILLED), made_progress=False)
    assert all(line.startswith("the query starts again: a Python worker was killed") for line in caplog.messages)
    with pytest.raises(SurescaleError, match=r"10 times.*a Python worker was killed"):
        counter.after(RuntimeError(KILLED), made_progress=False)


def test_a_refusal_that_never_heals_ends_the_process_with_its_cause() -> None:
    """A supervisor sees it, and alerts fire; before that the pauses grow, for what needs a minute or two to heal."""
    pauses_s: list[float] = []
    counter = restarts(pauses_s)
    for _ in range(FRUITLESS_MAX):
        counter.after(AWAY, made_progress=False)
    assert 60 <= sum(pauses_s) <= 300
    with pytest.raises(SurescaleError, match=r"10 times.*the broker is away"):
        counter.after(AWAY, made_progress=False)


@pytest.mark.parametrize(
    ("error", "says"),
    [(DENIED, "not authorised to write to snapshots"), (RuntimeError(UNREADABLE), "task-metrics.*`surescale topics acls`")],
)
def test_a_missing_right_is_waited_for(error: Exception, says: str, caplog: pytest.LogCaptureFixture) -> None:
    """However long: the role is not ready meanwhile, and a new process would have the right no sooner. The line names it."""
    counter = restarts()
    for _ in range(2 * FRUITLESS_MAX):
        counter.after(error, made_progress=False)
    assert counter.count == 2 * FRUITLESS_MAX
    assert all(re.search(says, line) for line in caplog.messages)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(
            "[STREAM_FAILED] Query ended\n\tat org.apache.spark.Frame\nCaused by: java.io.IOException: No space left on device"
        ),
        OSError("/checkpoint/windows/state-7: the state cannot be written (No space left on device); make room"),
        RuntimeError("java.io.IOException: Disk quota exceeded\n== Physical Plan ==\n* Project (7)"),
    ],
    ids=["Spark's own files", "ours", "a quota"],
)
def test_a_full_disk_ends_the_process_with_one_line_that_names_the_folder(error: Exception) -> None:
    """Not with a piece of a query plan behind a hundred lines of Java."""
    with pytest.raises(CheckpointFull, match=r"^/checkpoint: .*SURESCALE_SPARK_CHECKPOINT names the folder\)$") as ended:
        restarts().after(error, made_progress=True)
    assert "\n" not in str(ended.value)


def test_progress_between_restarts_resets_the_count() -> None:
    """Trouble that passes never ends the process, however often it comes."""
    counter = restarts()
    for _ in range(3):
        for _ in range(FRUITLESS_MAX - 1):
            counter.after(AWAY, made_progress=False)
        counter.after(AWAY, made_progress=True)
    assert counter.count == 3 * FRUITLESS_MAX


def test_lost_records_end_the_process_with_the_way_out() -> None:
    """At once, though the text also holds what the broker said."""
    gone = """Some data may have been lost because they are not available in Kafka any more;
either the data was aged out.
Reason: Partition task-metrics-2 offset was changed from 21 to 0.
\tat org.apache.spark.Frame
Caused by: org.apache.kafka.common.errors.OffsetOutOfRangeException"""
    with pytest.raises(
        RecordsLost, match=r"\(Partition task-metrics-2 offset was changed from 21 to 0\).*DATA_LOSS=false.*folder"
    ):
        restarts().after(RuntimeError(gone), made_progress=True)


@pytest.mark.parametrize("error", [StateRefused("corrupt"), ValueError("a mistake of ours")])
def test_every_other_error_ends_the_process(error: Exception) -> None:
    """As itself, not in Spark's words."""
    with pytest.raises(type(error)):
        restarts().after(error, made_progress=True)
