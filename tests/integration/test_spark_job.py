"""The Spark job as a real process on a real broker: whole windows, dead letters, and nothing missing after a kill.

One JVM start costs ten seconds and more, so the tests of this file share one pipeline and run in the order they are written. It
is a chain: each test goes on from the checkpoint and the windows of those before it, counts them in, and cannot run alone. What
fails first is what to look at, and those after it may fail for that.
"""

import itertools
import signal
from collections.abc import Iterator

import pytest

from surescale.contracts.messages import MinuteMarker, TaskSample
from surescale.contracts.topics import SNAPSHOTS
from surescale.contracts.wire import encode
from surescale.runtime.tracing.context import TraceContext
from surescale.spark_streaming import metrics
from surescale.spark_streaming.manifest import FOLDER
from tests.conftest import KafkaForTests
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver
from tests.support.spark_pipeline import SparkPipeline
from tests.support.waiting import PATIENT_S, wait_until
from tests.unit.spark_streaming.pipeline import graph, marker, sample, spec

pytestmark = pytest.mark.integration

JOBS = ("sim/a", "sim/b", "sim/c")
FIRST_MINUTE = 13_500_000  # in September 1995
MINUTE = 60_000
START_TIMEOUT_S = 180.0


@pytest.fixture(scope="module")
def receiver() -> Iterator[OtlpReceiver]:
    """Where the first process sends its spans; the later ones, on the same checkpoint, trace nothing."""
    with otlp_receiver() as made:
        yield made


@pytest.fixture(scope="module")
def pipeline(kafka: KafkaForTests, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkPipeline]:
    """The pipeline that the tests share."""
    shared = SparkPipeline(kafka, tmp_path_factory.mktemp("spark"))
    yield shared
    shared.close()


def minute_of(job: str, minute: int) -> list[TaskSample | MinuteMarker]:
    """Return what a job sends in a minute: two samples of each of three subtasks, and the marker."""
    end_ms = (FIRST_MINUTE + minute) * MINUTE
    tasks = [("map", 0), ("map", 1), ("sink", 0)]
    count = 100 * minute + len(job)
    samples = [
        sample(at_ms, count + at_ms % 7, job=job, task=task, subtask=subtask, attempt=minute // 4)
        for at_ms in (end_ms - 30_000, end_ms)
        for task, subtask in tasks
    ]
    topology = graph(spec("map", parallelism=2), spec("sink", "map"), job=job)
    return [*samples, marker(FIRST_MINUTE + minute, topology)]


def send_minutes(pipeline: SparkPipeline, minutes: range) -> None:
    """Send minutes of all jobs, their records interleaved."""
    for minute in minutes:
        for records in zip(*(minute_of(job, minute) for job in JOBS), strict=True):
            pipeline.send(*records)


def test_windows_are_those_computed_from_the_topic(pipeline: SparkPipeline, receiver: OtlpReceiver) -> None:
    """Jobs interleaved, late and repeated rows among them: every window byte for byte as computed in one go, each once.

    What a monitor did not commit, since another one has taken over, counts for nothing.
    """
    pipeline.start(**receiver.environment())
    send_minutes(pipeline, range(1, 4))
    pipeline.send(*minute_of("sim/a", 2)[:3], *minute_of("sim/b", 4)[:2], *minute_of("sim/b", 4)[:2])
    pipeline.send_in_transaction(*(minute_of(job, 4)[-1] for job in JOBS), commit=False)
    send_minutes(pipeline, range(4, 6))
    pipeline.send_in_transaction(*(record for job in JOBS for record in minute_of(job, 6)), commit=True)
    wait_until(lambda: pipeline.has_windows(18), START_TIMEOUT_S, "the first windows")
    assert pipeline.windows() == {identity: [value] for identity, value in pipeline.expected().items()}


def test_the_health_tells_what_was_done(pipeline: SparkPipeline) -> None:
    """Ready, with counts of records, windows, late rows."""
    health = wait_until(pipeline.health, what="the health document")
    assert (health["role"], health["ready"], health["windows"], health["late"]) == ("spark", True, 18, 3)


def test_the_metrics_tell_it_too(pipeline: SparkPipeline) -> None:
    """Windows and records, the time of each batch, how old each window was, and that nothing waits."""
    page = wait_until(lambda: (seen := pipeline.metrics()).labels(metrics.LAG) and seen, 20, "Spark's report of a whole batch")
    assert (page.of(metrics.RECORDS_WRITTEN, topic=SNAPSHOTS), page[metrics.LATE], page[metrics.WINDOW_DELAY]) == (18, 3, 18)
    assert page[metrics.RECORDS_READ] >= page[metrics.SAMPLES] > 0
    assert page[metrics.BATCH_DURATION] == page[metrics.BATCH_RECORDS] > 0
    assert page[metrics.LAG] == 0


def test_malformed_records_become_dead_letters_and_stop_nothing(pipeline: SparkPipeline) -> None:
    """Broken JSON, a wrong figure, a clock an hour ahead: each is refused with its reason, and the next window still comes."""
    ahead = sample(2**41, job="sim/a")
    wrong = encode(sample(1, job="sim/a")).replace(b'"busy_ms":0', b'"busy_ms":-4')
    pipeline.send(("sim/a", b"{"), ("sim/a", wrong), ahead)
    send_minutes(pipeline, range(7, 8))
    # Two topics: what was written first need not be fetched first.
    wait_until(lambda: pipeline.has_windows(21) and len(pipeline.dead_letters()) >= 3, what="the windows behind the bad records")
    letters = {(letter.reason, letter.field) for letter in pipeline.dead_letters()}
    assert letters == {("not_json", ""), ("invalid_field", "busy_ms"), ("ahead_of_clock", "sampled_at_ms")}
    assert len({(letter.topic, letter.partition, letter.offset) for letter in pipeline.dead_letters()}) == 3
    assert {letter.refused_by for letter in pipeline.dead_letters()} == {"spark_streaming"}


def test_a_window_goes_on_in_the_trace_of_the_minute_that_closed_it(pipeline: SparkPipeline, receiver: OtlpReceiver) -> None:
    """Of a marker with a header; the windows of the other jobs begin traces of their own."""
    minute = TraceContext(0x1, 0x2)
    *samples, last = minute_of("sim/a", 8)
    pipeline.send(*samples, *minute_of("sim/b", 8), *minute_of("sim/c", 8))
    pipeline.send(last, headers=minute.headers())
    wait_until(lambda: pipeline.has_windows(24), what="the windows")
    traced = wait_until(lambda: [span for span in receiver.named("spark.window") if span.parent_id], 20, "the span")
    assert [(span.trace_id, span.parent_id, span.service) for span in traced] == [(f"{1:032x}", f"{2:016x}", "surescale-spark")]
    assert (traced[0].attributes["surescale.job"], traced[0].is_error) == ("sim/a", False)
    handed_on = pipeline.traces()[traced[0].attributes["surescale.window_id"]]
    assert handed_on == TraceContext(1, int(traced[0].span_id, 16))
    assert len({place.trace_id for place in pipeline.traces().values() if place is not None}) == 24


def test_a_kill_between_producing_and_saving_loses_nothing(pipeline: SparkPipeline) -> None:
    """What was produced and not saved is produced again: equal identities carry equal bytes, and no window is missing."""
    last = stop_between_producing_and_saving(pipeline, first_minute=9)
    pipeline.signal_all(signal.SIGKILL)
    pipeline.process.wait(PATIENT_S)
    assert pipeline.unsaved()
    send_minutes(pipeline, range(last + 1, last + 4))
    pipeline.start()
    wait_until(lambda: pipeline.has_windows(3 * (last + 3)), START_TIMEOUT_S, "the windows after the kill")
    delivered = pipeline.windows()
    assert {identity: set(values) for identity, values in delivered.items()} == {
        identity: {value} for identity, value in pipeline.expected().items()
    }
    assert max(len(values) for values in delivered.values()) == 2


def stop_between_producing_and_saving(pipeline: SparkPipeline, first_minute: int) -> int:
    """Freeze driver and JVM the moment a window appears; if its state was saved already, let them go on and try again."""
    for minute in range(first_minute, first_minute + 40):
        known = len(pipeline.windows())
        send_minutes(pipeline, range(minute, minute + 1))
        while len(pipeline.windows()) == known:
            pipeline.see(5.0)
        pipeline.signal_all(signal.SIGSTOP)
        if pipeline.unsaved():
            return minute
        pipeline.signal_all(signal.SIGCONT)
        wait_until(lambda wanted=3 * minute: pipeline.has_windows(wanted), what="the rest of the minute")  # type: ignore[misc]
    raise AssertionError("forty windows, and each time the state was saved before it could be frozen")


def test_sigterm_ends_the_job_in_order(pipeline: SparkPipeline) -> None:
    """Exit code 0 within seconds; no process and no temporary file is left."""
    started = pipeline.processes()
    pipeline.process.terminate()
    assert pipeline.process.wait(PATIENT_S) == 0, pipeline.log()
    wait_until(lambda: not any(process.is_running() for process in started), what="the end of JVM and workers")
    assert not (pipeline.checkpoint / "scratch").exists()


def all_windows(pipeline: SparkPipeline) -> int:
    """Return how many windows the processes so far have made, once no more come."""
    known = -1
    while known < len(pipeline.windows()):
        known = len(pipeline.windows())
        pipeline.see(1.0)
    return known


@pytest.mark.nightly("Kafka deletes what has expired every few minutes of the wall's time")
def test_records_that_expired_unread_stop_the_job_in_one_line(pipeline: SparkPipeline) -> None:
    """The setting that the line names lets it go on with the rest."""
    send_minutes(pipeline, range(60, 62))
    pipeline.expire_task_metrics()
    send_minutes(pipeline, range(62, 64))
    pipeline.start()
    assert pipeline.process.wait(PATIENT_S) == 1
    *_, last = pipeline.log().splitlines()
    assert last.startswith("surescale: task-metrics no longer has what the checkpoint comes to next (")
    assert "spark_streaming/restarts.py" not in pipeline.log()  # no trace of ours; Spark's own log stands before the line
    before = all_windows(pipeline)
    pipeline.start(SURESCALE_SPARK_FAIL_ON_DATA_LOSS="false")
    wait_until(lambda: pipeline.has_windows(before + 1), START_TIMEOUT_S, "windows of what is left")
    pipeline.process.terminate()
    assert pipeline.process.wait(PATIENT_S) == 0, pipeline.log()


def test_a_topic_that_was_made_again_stops_the_job_in_one_line(pipeline: SparkPipeline) -> None:
    """So does another Kafka under the same address. The setting helps here too."""
    pipeline.make_task_metrics_again()
    pipeline.start()
    assert pipeline.process.wait(PATIENT_S) == 1
    *_, last = pipeline.log().splitlines()
    assert "the topic was made again, or this is another Kafka" in last
    before = all_windows(pipeline)
    pipeline.start(SURESCALE_SPARK_FAIL_ON_DATA_LOSS="false")
    minutes = itertools.count(64)

    def has_come() -> bool:
        """What comes before the query's first look at the topic is skipped, so more is sent until it shows."""
        send_minutes(pipeline, range(minute := next(minutes), minute + 1))
        return pipeline.has_windows(before + 1)

    wait_until(has_come, START_TIMEOUT_S, "windows of the new topic")
    pipeline.process.terminate()
    assert pipeline.process.wait(PATIENT_S) == 0, pipeline.log()


def test_missing_state_stops_the_job_by_name(pipeline: SparkPipeline) -> None:
    """An old checkpoint without its manifest: one readable line, exit code 1, no fresh start."""
    for path in (pipeline.checkpoint / FOLDER).glob("manifest-*"):
        path.unlink()
    pipeline.start()
    assert pipeline.process.wait(PATIENT_S) == 1
    assert f"surescale: {pipeline.checkpoint}/{FOLDER}/manifest-*: the manifest is missing; restore it, or give" in pipeline.log()
