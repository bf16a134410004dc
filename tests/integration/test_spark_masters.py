"""One recorded input under two Spark masters: executors share nothing, and the windows' bytes do not depend on them.

The third, ``local[1]``, is compared with the same computation in ``test_spark_job.py``.
"""

import contextlib
import random
from collections.abc import Iterator

import psutil
import pytest

from tests.conftest import KafkaForTests
from tests.support.spark_pipeline import SparkPipeline
from tests.support.waiting import PATIENT_S, wait_until
from tests.unit.spark_streaming.pipeline import Message, graph, marker, sample, spec

pytestmark = pytest.mark.integration

JOBS = tuple(f"sim/job-{number}" for number in range(8))
TASKS = ("map", "join", "sink")
MINUTES = 9
FIRST_MINUTE = 13_500_000
MASTERS = ("local-cluster[2,1,1024]", "local[2]")
START_TIMEOUT_S = 240.0


def recorded() -> list[Message | tuple[str, bytes]]:
    """Return what eight jobs send: figures of all sizes, restarts, late and repeated rows, silent tasks, junk among it."""
    chance = random.Random(7)
    graphs = {job: graph(spec("map", parallelism=2), spec("join", "map"), spec("sink", "join"), job=job) for job in JOBS}
    messages: list[Message | tuple[str, bytes]] = []
    for minute in range(1, MINUTES + 1):
        end_ms = (FIRST_MINUTE + minute) * 60_000
        rows = [
            sample(
                at_ms,
                chance.randrange(10**9) * minute,
                busy_ms=minute * chance.randrange(60_000),
                job=job,
                task=task,
                subtask=subtask,
                attempt=minute // 4,
            )
            for job in JOBS
            for at_ms in (end_ms - 30_000, end_ms - chance.choice((0, 0, 0, 70_000)))
            for task in TASKS
            for subtask in range(2 if task == "map" else 1)
            if chance.random() > 0.1
        ]
        chance.shuffle(rows)
        messages += [*rows, *rows[:5], ("sim/job-0", b"{"), *(marker(FIRST_MINUTE + minute, graphs[job]) for job in JOBS)]
    return messages


def executors_at_work(pipeline: SparkPipeline) -> int:
    """Return how many executor processes have started Python workers of their own."""
    at_work = 0
    for process in pipeline.processes():
        with contextlib.suppress(psutil.Error):  # one that has just ended
            if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
                at_work += any("python" in child.name() for child in process.children())
    return at_work


@pytest.fixture
def pipeline(kafka: KafkaForTests, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkPipeline]:
    """The topics that all of them read and write."""
    made = SparkPipeline(kafka, tmp_path_factory.mktemp("spark"))
    yield made
    made.close()


@pytest.mark.nightly("a second Spark cluster for minutes; test_spark_executors runs on executors too")
def test_windows_have_the_same_bytes_on_two_executors_as_in_one_process(pipeline: SparkPipeline) -> None:
    """Each from a checkpoint of its own: every window comes twice, and both are those computed in one go, without Spark."""
    pipeline.send(*recorded())
    expected = pipeline.expected()
    for done, master in enumerate(MASTERS):
        pipeline.start(
            SURESCALE_SPARK_MASTER=master, SURESCALE_SPARK_CHECKPOINT=str(pipeline.checkpoint.with_name(f"run-{done}"))
        )
        wait_until(lambda wanted=done + 1: delivered(pipeline) >= wanted, START_TIMEOUT_S, f"the windows of {master}")
        if "cluster" in master:
            assert executors_at_work(pipeline) == 2
        pipeline.process.terminate()
        assert pipeline.process.wait(PATIENT_S) == 0, pipeline.log()
    assert pipeline.windows() == {identity: [value] * len(MASTERS) for identity, value in expected.items()}
    assert len(expected) == MINUTES * len(JOBS)


def delivered(pipeline: SparkPipeline) -> int:
    """Return how often every window has arrived, at least."""
    if not pipeline.has_windows(MINUTES * len(JOBS)):
        return 0
    return min(len(values) for values in pipeline.windows().values())
