"""The whole pipeline beside a real Flink: who is scaled and who is not, and what comes out of the jobs.

All jobs run at the same time under one pipeline, so the file takes three spans of a minute, not three for each test.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from surescale.services.local_stack.comparison.load import Load
from tests.conftest import KafkaForTests
from tests.support.flink_pipeline import FlinkPipeline, loaded, pipeline_beside
from tests.support.live_flink import LiveFlink, LiveJob, problems_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.flink, pytest.mark.nightly("takes several spans of the wall's time")]

WAIT_MICROS = 10_000  # a subtask of parse takes about 100 records a second
TOO_MUCH = 160.0
LITTLE = 25.0
SPANS_S = 300.0  # enough for several spans on a busy machine


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs under load, by what the pipeline may do with them."""

    acted: LiveJob
    advised: LiveJob
    observed: LiveJob
    unsafe: LiveJob
    large: LiveJob
    load: Load


@pytest.fixture(scope="module")
def pipeline(
    flink: LiveFlink, kafka: KafkaForTests, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FlinkPipeline]:
    """The roles beside the cluster. They start before there is any job, since a start takes all cores."""
    folder: Path = tmp_path_factory.mktemp("flink-pipeline")
    with pipeline_beside(flink, kafka, redis_url, folder) as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
def jobs(flink: LiveFlink, pipeline: FlinkPipeline) -> Iterator[Jobs]:
    """Five jobs: four that are too small for their load, and one that is too large for it."""
    with contextlib.ExitStack() as stack:

        def job(name: str, mode: str | None, load: float, **options: object) -> tuple[LiveJob, Load]:
            labels = {"surescale.mode": mode} if mode else {}
            usual = {"parse_rounds": 0, "parse_wait_micros": WAIT_MICROS, "labels": labels, "uid_prefix": f"{name}-"}
            made = stack.enter_context(flink.job(name=f"{name}-{os.getpid()}", **(usual | options)))
            pipeline.decide_early(made)
            return made, stack.enter_context(loaded(made, load))

        acted, load = job("acted", "act", TOO_MUCH)
        advised, _ = job("advised", "advise", TOO_MUCH)
        observed, _ = job("observed", None, TOO_MUCH)
        unsafe, _ = job("unsafe", "act", TOO_MUCH, checkpoint_s=None, exactly_once=False)
        large, _ = job("large", "act", LITTLE, parallelism=3)
        yield Jobs(acted, advised, observed, unsafe, large, load)


def test_a_rise_is_followed(pipeline: FlinkPipeline, jobs: Jobs) -> None:
    """The slow vertex of the job that asked for it gets more subtasks, and its command reports that it was applied."""
    wait_until(lambda: jobs.acted.parallelism().get("parse", 1) > 1, SPANS_S, "parse to get more subtasks")
    wait_until(lambda: any(each.status == "applied" for each in pipeline.progress(jobs.acted)), 60.0, "the command to be applied")
    commands = pipeline.commands(jobs.acted)
    parse = jobs.acted.vertices()["parse"]
    assert any(change.task == parse and change.after > change.before for change in commands[0].changes)
    assert not commands[0].advice
    assert commands[0].expected is not None


def test_advice_changes_nothing(pipeline: FlinkPipeline, jobs: Jobs) -> None:
    """The command says what would be done, and nobody does it."""
    wait_until(lambda: pipeline.commands(jobs.advised), SPANS_S, "advice")
    assert all(command.advice for command in pipeline.commands(jobs.advised))
    assert jobs.advised.requirements() == {"source": 1, "parse": 1, "count": 1, "sink": 1}
    assert set(jobs.advised.parallelism().values()) == {1}


def test_a_job_that_asked_for_nothing_is_only_observed(pipeline: FlinkPipeline, jobs: Jobs) -> None:
    """That is the default on a real engine: decisions are made and shown, and refused with that reason."""
    wait_until(lambda: any(each.reason == "observe" for each in pipeline.outcomes(jobs.observed)), SPANS_S, "a refusal")
    assert pipeline.commands(jobs.observed) == []
    assert jobs.observed.requirements() == {"source": 1, "parse": 1, "count": 1, "sink": 1}


def test_a_job_without_checkpoints_is_refused(pipeline: FlinkPipeline, jobs: Jobs) -> None:
    """A rescale would begin all over; the refusal says what to set."""
    refusals = wait_until(
        lambda: [each for each in pipeline.outcomes(jobs.unsafe) if each.reason == "no_checkpoints"], SPANS_S, "a refusal"
    )
    assert "execution.checkpointing.interval" in refusals[0].detail
    assert pipeline.commands(jobs.unsafe) == []
    assert jobs.unsafe.requirements() == {"source": 1, "parse": 1, "count": 1, "sink": 1}


def test_a_task_manager_that_dies_is_no_drift(pipeline: FlinkPipeline, jobs: Jobs, flink: LiveFlink) -> None:
    """The job comes back at what it was asked for, and the pipeline still takes it for its own."""
    required = jobs.acted.requirements()
    victim = flink.cluster.task_managers[0]
    victim.kill()
    victim.start()
    victim.wait_ready()
    wait_until(lambda: jobs.acted.parallelism() == required, 120.0, "the job to come back")
    seen = len(pipeline.decisions(jobs.acted))
    wait_until(lambda: len(pipeline.decisions(jobs.acted)) > seen, SPANS_S, "the next decision")
    assert "foreign_requirement" not in {each.reason for each in pipeline.outcomes(jobs.acted)}


def test_a_fall_is_followed(pipeline: FlinkPipeline, jobs: Jobs) -> None:
    """A job with more than it needs is made smaller, once five minutes of its load are known."""
    wait_until(lambda: jobs.large.parallelism().get("parse", 3) < 3, 900.0, "parse to get fewer subtasks")


def test_another_owner_is_not_fought(pipeline: FlinkPipeline, jobs: Jobs) -> None:
    """After somebody else's change the pipeline says so, and leaves the job alone."""
    commanded = len(pipeline.commands(jobs.acted))
    jobs.acted.require(parse=1)
    wait_until(lambda: jobs.acted.parallelism().get("parse") == 1, 120.0, "the foreign change")
    refusals = wait_until(
        lambda: [each for each in pipeline.outcomes(jobs.acted) if each.reason == "foreign_requirement"], SPANS_S, "a refusal"
    )
    assert "surescale job adopt" in refusals[0].detail
    assert jobs.acted.requirements()["parse"] == 1
    assert len(pipeline.commands(jobs.acted)) == commanded
    (drift,) = (each for each in pipeline.drifts(jobs.acted) if each.status == "changed")
    assert drift.theirs[jobs.acted.vertices()["parse"]] == 1
    assert drift.ours[jobs.acted.vertices()["parse"]] > 1


def test_another_owner_that_goes_on_is_not_fought_either(pipeline: FlinkPipeline, jobs: Jobs) -> None:
    """A second autoscaler: each of its changes stays, is recorded, and is answered by none of ours."""
    commanded, vertex = len(pipeline.commands(jobs.acted)), jobs.acted.vertices()["parse"]

    def theirs() -> list[int]:
        return [each.theirs[vertex] for each in pipeline.drifts(jobs.acted) if each.status == "changed"]

    earlier = theirs()
    ours = pipeline.drifts(jobs.acted)[-1].ours[vertex]
    first, second = [size for size in (2, 3, 4) if size != ours][:2]  # ours would count as put back
    changes = (first, second, 1)
    for done, parse in enumerate(changes, start=1):
        jobs.acted.require(parse=parse)
        wait_until(lambda wanted=parse: jobs.acted.parallelism().get("parse") == wanted, 120.0, f"parse to run at {parse}")
        seen = len(pipeline.decisions(jobs.acted))
        wait_until(lambda known=done: theirs() == earlier + list(changes[:known]), SPANS_S, f"a record of the change to {parse}")
        wait_until(lambda known=seen: len(pipeline.decisions(jobs.acted)) > known, SPANS_S, "the next decision")
        assert jobs.acted.requirements()["parse"] == parse
    assert len(pipeline.commands(jobs.acted)) == commanded


def test_nothing_was_lost_or_doubled_on_the_way(pipeline: FlinkPipeline, jobs: Jobs) -> None:
    """After rescales, a dead TaskManager and a foreign change: every record once, and every key counted on where it was."""
    jobs.load.stop()
    jobs.acted.require(parse=4)
    wait_until(lambda: len(jobs.acted.output()) >= jobs.load.sent, 240.0, "the whole output")
    assert problems_of(jobs.acted.output(), jobs.load.sent) == []
