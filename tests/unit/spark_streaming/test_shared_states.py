"""States of several partitions, without Spark: jobs move when partitions are added, and each goes on where it was."""

from pathlib import Path

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException

from surescale.contracts.errors import SettingsError
from surescale.contracts.partitioner import partition_of
from surescale.contracts.windows import encode_window
from surescale.spark_streaming.columns import Coordinates
from surescale.spark_streaming.manifest import FOLDER, Manifest, SavedState
from surescale.spark_streaming.merging import Failed, Merged, summary_of
from surescale.spark_streaming.minutes import Minutes
from surescale.spark_streaming.places import StoreAway, place_of
from surescale.spark_streaming.state import StateRefused
from surescale.spark_streaming.state_files import StateFiles
from tests.support.record_columns import records_of
from tests.unit.spark_streaming.pipeline import MINUTE, RULES, graph, marker, no_clock, sample

JOBS = tuple(f"sim/j{number}" for number in range(9))
BEFORE, AFTER = 2, 3


class Topic:
    """Partitions of a topic, and the tasks that merge them as the driver tells them to."""

    def __init__(self, folder: Path) -> None:
        self.files = StateFiles(place_of(str(folder)) / FOLDER)
        (folder / FOLDER).mkdir(parents=True)
        self.manifest = Manifest(rules=RULES, partitions=BEFORE)
        self.offsets: dict[int, int] = {}
        self.windows: dict[str, bytes] = {}

    def batch(self, minute: int, placed: int, *, together: bool = False) -> None:
        """Send a minute of every job to its place among ``placed`` partitions, and merge it."""
        sent: dict[int, list[tuple[Coordinates, object]]] = {}
        for number, job in enumerate(JOBS):
            at = partition_of(job, placed)
            for append_ms, message in messages(minute, number):
                self.offsets[at] = offset = self.offsets.get(at, -1) + 1
                sent.setdefault(at, []).append((Coordinates(at, offset, append_ms), message))
        everything = tuple(range(self.manifest.partitions))
        for partitions in [everything] if together else [(each,) for each in sent]:
            records = records_of([each for at in partitions for each in sent.get(at, [])])  # type: ignore[arg-type]
            memory = self.files.load(self.manifest, partitions)
            fed = memory.minutes.feed(records, no_clock(records))
            assert not fed.refused
            for window in fed.windows:
                assert window.id not in self.windows, "a window of a job comes from one partition"
                self.windows[window.id] = encode_window(window)
            state = self.files.save(memory, minute, partitions[0], is_shared=len(partitions) > 1)
            states = self.manifest.states | dict.fromkeys(partitions, state)
            self.manifest = msgspec.structs.replace(self.manifest, batch=minute, states=states)


def messages(minute: int, number: int) -> list[tuple[int, object]]:
    """Return what a job sends in a minute, and when the broker takes it."""
    job, at_ms = JOBS[number], minute * MINUTE + 2 * number
    return [(at_ms, sample(minute * MINUTE, minute * (number + 1), job=job)), (at_ms + 1, marker(minute, graph(job=job)))]


def in_one_go(minutes: int) -> dict[str, bytes]:
    """Return all windows of so many minutes, merged at once from one partition."""
    sent = [each for minute in range(1, minutes + 1) for number in range(len(JOBS)) for each in messages(minute, number)]
    placed = [(Coordinates(0, offset, append_ms), message) for offset, (append_ms, message) in enumerate(sent)]
    records = records_of(placed)  # type: ignore[arg-type]
    return {window.id: encode_window(window) for window in Minutes(RULES).feed(records, no_clock(records)).windows}


def test_jobs_that_move_to_other_partitions_go_on_where_they_were(tmp_path: Path) -> None:
    """Some producers know of the new partitions later than others; then each partition is merged alone again."""
    assert {partition_of(job, BEFORE) == partition_of(job, AFTER) for job in JOBS} == {True, False}
    topic = Topic(tmp_path)
    topic.batch(1, BEFORE)
    topic.batch(2, BEFORE)
    topic.manifest = msgspec.structs.replace(topic.manifest, partitions=AFTER, partitions_before=BEFORE)
    topic.batch(3, BEFORE, together=True)
    topic.batch(4, AFTER, together=True)
    assert len({state.head for state in topic.manifest.states.values()}) == 1
    topic.batch(5, AFTER)
    assert len({state.head for state in topic.manifest.states.values()}) == AFTER
    topic.batch(6, AFTER)
    assert topic.windows == in_one_go(6)


def test_a_shared_state_gives_each_partition_the_jobs_at_home_there(tmp_path: Path) -> None:
    """None twice, and none lost."""
    topic = Topic(tmp_path)
    topic.manifest = msgspec.structs.replace(topic.manifest, partitions=AFTER, partitions_before=BEFORE)
    topic.batch(1, AFTER, together=True)
    found = {each: set(topic.files.load(topic.manifest, {each}).minutes.jobs) for each in range(AFTER)}
    assert found == {each: {job for job in JOBS if partition_of(job, AFTER) == each} for each in range(AFTER)}
    assert set(topic.files.load(topic.manifest, range(AFTER)).minutes.jobs) == set(JOBS)


def test_a_job_that_another_rule_placed_stays_where_it_was_seen() -> None:
    """A producer with a partitioner of its own sends where it likes, before and after."""
    manifest = Manifest(rules=RULES, partitions=AFTER, partitions_before=BEFORE)
    job = JOBS[0]
    ours = partition_of(job, BEFORE)
    assert manifest.home(job, ours) == partition_of(job, AFTER)
    assert manifest.home(job, 1 - ours) == 1 - ours


def test_partitions_that_share_a_state_are_known_by_it() -> None:
    """So a task that holds it in memory knows if all of it is its own."""
    shared, own = SavedState("a", is_shared=True), SavedState("b")
    manifest = Manifest(rules=RULES, partitions=3, states={0: shared, 1: shared, 2: own})
    assert (manifest.sharing(shared), manifest.sharing(own)) == ({0, 1}, {2})


@pytest.mark.parametrize(
    "error",
    [
        StateRefused("state-1: it is corrupt"),
        SettingsError("SURESCALE_SPARK_CHECKPOINT: not set"),
        StoreAway("s3://bucket: the store does not answer"),
        TimeoutError("2 records were not acknowledged"),
        OSError("no room"),
    ],
)
def test_the_driver_raises_what_a_task_could_not_do(error: Exception) -> None:
    """By kind and words, so that it ends the process or starts the query again as it would in the driver."""
    with pytest.raises(type(error), match=str(error)):
        summary_of(msgspec.msgpack.encode(Failed.of(error)))
    assert Failed.of(error).kind == type(error).__name__


def test_what_kafka_refused_a_task_keeps_its_code() -> None:
    """Whether the query starts again depends on it."""
    refused = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "not allowed"))
    with pytest.raises(KafkaException) as raised:
        summary_of(msgspec.msgpack.encode(Failed.of(refused)))
    assert raised.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_what_a_task_did_comes_back_whole() -> None:
    """In one row of Spark's."""
    done = Merged(
        partitions=(1,), state=SavedState("state", ("rows",)), offsets={1: 5}, records=5, samples=4, windows=1, late=0,
        refused={"not_json": 1}, closed_append_ms=(9,), stage_ms={"read": 1.0}, worked_ms=(1.0, 2.0),
    )  # fmt: skip
    assert summary_of(msgspec.msgpack.encode(done)) == done
