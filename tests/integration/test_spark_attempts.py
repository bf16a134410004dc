"""Tasks of the Spark job that are killed, copied, or given other partitions in the middle of their work, on real Spark.

Every test compares all windows, byte for byte, with those computed from the topic in one go.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.contracts.partitioner import partition_of
from surescale.services.local_stack.servers import LocalBroker
from surescale.spark_streaming.manifest import FOLDER
from tests.conftest import KafkaForTests
from tests.support.held_tasks import Holds
from tests.support.spark_pipeline import SparkPipeline
from tests.support.standalone_cluster import standalone_cluster
from tests.support.waiting import PATIENT_S, wait_until
from tests.unit.spark_streaming.pipeline import graph, marker, sample, spec

pytestmark = pytest.mark.integration

JOBS = tuple(f"sim/job-{number}" for number in range(8))
FIRST_MINUTE = 13_500_000
START_TIMEOUT_S = 240.0
ENDS_WITHIN_S = 30.0  # what compose and Kubernetes give it
HELD_TASKS = [sys.executable, "-m", "tests.support.held_tasks"]


@pytest.fixture
def pipeline(kafka: KafkaForTests, tmp_path: Path) -> Iterator[SparkPipeline]:
    """A pipeline of the test's own."""
    made = SparkPipeline(kafka, tmp_path)
    yield made
    made.close()


@pytest.fixture
def holds(tmp_path: Path) -> Holds:
    """What the tasks wait for."""
    return Holds(tmp_path / "holds")


def send(pipeline: SparkPipeline, first: int, last: int) -> None:
    """Send some minutes of all jobs."""
    for minute in range(first, last + 1):
        end_ms = (FIRST_MINUTE + minute) * 60_000
        for number, job in enumerate(JOBS):
            pipeline.send(
                sample(end_ms, 90 * minute + number, job=job, task="map"),
                marker(FIRST_MINUTE + minute, graph(spec("map"), job=job)),
            )


def await_minutes(pipeline: SparkPipeline, last: int) -> None:
    """Wait for the windows of all minutes up to one."""
    wait_until(lambda: pipeline.has_windows(last * len(JOBS)), START_TIMEOUT_S, f"the windows up to minute {last}")


def assert_exact(pipeline: SparkPipeline) -> None:
    """Every window has come, always with the bytes computed in one go."""
    assert {identity: set(values) for identity, values in pipeline.windows().items()} == {
        identity: {value} for identity, value in pipeline.expected().items()
    }


def states(pipeline: SparkPipeline) -> set[str]:
    """Return the names of the files with states."""
    return {path.name for path in (pipeline.checkpoint / FOLDER).glob("state-*")}


def merged_apart(pipeline: SparkPipeline) -> set[str]:
    """Return the states that count, one a partition unless partitions share it."""
    for _ in range(100):
        with contextlib.suppress(FileNotFoundError):
            manifest = pipeline.manifest()
            return {state.head for state in manifest.states.values()} if manifest else set()
    raise AssertionError("each manifest was gone before it could be read")


def stop(pipeline: SparkPipeline) -> None:
    """End the job in order."""
    pipeline.process.terminate()
    assert pipeline.process.wait(PATIENT_S) == 0, pipeline.log()


@pytest.mark.nightly("a Spark cluster for two minutes; states have names of their own, which test_shared_states keeps up quickly")
def test_two_attempts_of_a_task_at_once(pipeline: SparkPipeline, holds: Holds, tmp_path: Path) -> None:
    """The first attempt stands before it saves, the copy wins, and then the loser saves too: nobody sees its state.

    The batches after it, and another process, go on from the winner's.
    """
    options = {
        "spark.speculation": "true",
        "spark.speculation.interval": "200ms",
        "spark.speculation.quantile": "0.1",
        "spark.python.task.killTimeout": "1h",  # else Spark kills the loser before it is let go
    }
    settings = tmp_path / "conf/spark-defaults.conf"
    settings.parent.mkdir()
    settings.write_text("".join(f"{name} {value}\n" for name, value in options.items()))
    with standalone_cluster(tmp_path, holds.variables(), workers=2) as cluster:
        started_on = {
            "SURESCALE_SPARK_MASTER": cluster.url,
            "SPARK_CONF_DIR": str(settings.parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        left = _two_attempts(pipeline, holds, started_on)
    pipeline.start()
    send(pipeline, 9, 9)
    await_minutes(pipeline, 9)
    assert_exact(pipeline)
    assert left not in states(pipeline), "a start removes what the loser left"
    stop(pipeline)


def _two_attempts(pipeline: SparkPipeline, holds: Holds, started_on: dict[str, str]) -> str:
    """Return the name of the state that the loser has saved."""
    pipeline.start(*HELD_TASKS, **holds.variables(), **started_on)
    send(pipeline, 1, 2)
    await_minutes(pipeline, 2)
    holds.next_task()
    send(pipeline, 3, 3)
    loser = holds.held()
    await_minutes(pipeline, 3)
    send(pipeline, 4, 5)  # on the winner's state, while the loser still lives
    await_minutes(pipeline, 5)
    os.kill(loser, 0)
    left = holds.let_go(loser)
    assert left in states(pipeline)
    send(pipeline, 6, 8)
    await_minutes(pipeline, 8)
    assert_exact(pipeline)
    assert max(len(values) for values in pipeline.windows().values()) == 2, "both attempts have produced"
    stop(pipeline)
    return left


def test_a_python_worker_that_is_killed_in_mid_batch(pipeline: SparkPipeline, holds: Holds) -> None:
    """By the system for its memory, say: the job goes on by itself, and reads the batch again."""
    pipeline.start(*HELD_TASKS, **holds.variables())
    send(pipeline, 1, 2)
    await_minutes(pipeline, 2)
    holds.next_task()
    send(pipeline, 3, 3)
    os.kill(holds.held(), signal.SIGKILL)
    send(pipeline, 4, 5)
    await_minutes(pipeline, 5)
    assert_exact(pipeline)
    assert max(len(values) for values in pipeline.windows().values()) == 2, "the killed task had produced"
    assert "the query starts again: a Python worker was killed" in pipeline.log()
    stop(pipeline)


def test_partitions_are_added_while_the_job_runs(pipeline: SparkPipeline, holds: Holds) -> None:
    """States move with their jobs: while one producer knows of the new partitions and another does not, and afterwards."""
    pipeline.start(*HELD_TASKS, **holds.variables(jobs_move_for_ms=15_000))
    send(pipeline, 1, 2)
    await_minutes(pipeline, 2)
    before, after = pipeline.add_partitions(3)
    assert {partition_of(job, before) == partition_of(job, after) for job in JOBS} == {True, False}
    send(pipeline, 3, 4)  # this producer does not know of it yet
    await_minutes(pipeline, 4)
    pipeline.renew_producer()
    send(pipeline, 5, 6)
    await_minutes(pipeline, 6)
    minute = 6
    while len(merged_apart(pipeline)) < after:  # a task merges all of them, until the jobs have moved
        minute += 1
        send(pipeline, minute, minute)
        await_minutes(pipeline, minute)
    assert pipeline.windows() == {identity: [value] for identity, value in pipeline.expected().items()}
    stop(pipeline)


def test_sigterm_while_kafka_is_away(tmp_path: Path, holds: Holds) -> None:
    """Between two batches and in the middle of one, the job ends in time and in one line. Nothing is lost after either."""
    broker = LocalBroker(tmp_path / "kafka")
    broker.start()
    broker.wait_ready()
    pipeline = SparkPipeline(KafkaForTests(broker.bootstrap), tmp_path)

    def end_without_kafka() -> None:
        broker.kill()
        said = len(pipeline.log())
        pipeline.process.terminate()
        wait_until(lambda: pipeline.process.poll() is not None, ENDS_WITHIN_S, "the end of the job")
        assert pipeline.process.returncode == 0, pipeline.log()
        lines = pipeline.log()[said:].splitlines()  # on a busy machine it may say before that Kafka is away
        assert " spark INFO stopped: {" in lines[-1]
        assert [line for line in lines if line.startswith(("Traceback", " ", "\t"))] == [], "a stack"
        broker.start()
        broker.wait_ready()

    try:
        pipeline.start()
        send(pipeline, 1, 2)
        await_minutes(pipeline, 2)
        wait_until(lambda: not pipeline.unsaved(), what="the end of the batch")
        end_without_kafka()
        pipeline.start(*HELD_TASKS, **holds.variables())
        send(pipeline, 3, 3)
        await_minutes(pipeline, 3)
        holds.next_task()
        send(pipeline, 4, 4)
        holds.held()
        end_without_kafka()
        pipeline.start()
        send(pipeline, 5, 5)
        await_minutes(pipeline, 5)
        assert_exact(pipeline)
        stop(pipeline)
    finally:
        pipeline.close()
        broker.stop()
