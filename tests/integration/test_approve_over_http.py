"""Advice that somebody approves over HTTP is carried out by a real rescaler, once, however often it is asked for."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from surescale.contracts.settings import PipelineSettings
from surescale.rescaler.service.settings import RescalerSettings
from surescale.services.tools.explain.command import command as explain
from tests.support import view_pipeline
from tests.support.command_line import job_command
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, decision
from tests.support.fake_engine import FakeEngine
from tests.support.operations import post, run, started
from tests.support.rescaler_pipeline import Pipeline, is_active, opened, served
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
settings, processes, service = view_pipeline.settings, view_pipeline.processes, view_pipeline.service
T0 = START_MS


@pytest.fixture
def pipeline(settings: PipelineSettings) -> Iterator[Pipeline]:
    """An engine that answers, and a rescaler that is active, in the pipeline of the state service."""
    engine = FakeEngine(now_ms=T0, jobs={JOB})
    with served(engine) as url:
        own = RescalerSettings(
            bootstrap=settings.bootstrap, topic_prefix=settings.topic_prefix, engine_url=url, pipeline_clock=True
        )
        with opened(own, engine) as made:
            _, port = made.process()
            wait_until(lambda: is_active(port), 90, "the rescaler")
            yield made


def test_an_advice_approved_over_http_is_carried_out_once(
    pipeline: Pipeline, service: Callable[..., str], tmp_path: Path
) -> None:
    """One command and one rescale: not a second one from the same request, another one at the same time, or a late one.

    Nor from a rescaler that starts again and reads the approval once more. `explain` names who approved.
    """
    url = started(service, tmp_path)
    run(pipeline, job_command, "set", JOB, "--mode", "advise")
    act = decision(T0, {"map": 4})
    pipeline.decide(act)
    wait_until(lambda: pipeline.said(act) == [("commanded", "advise")], 60, "the advice")
    assert pipeline.engine.asked == []  # advice moves nothing
    pipeline.clock(T0 + 2 * MINUTE_MS)

    def approve(key: str) -> tuple[int, bool]:
        status, told = post(url, f"/jobs/{JOB}/approve", key, decision_id=act.decision_id)
        return status, bool(told.get("written"))

    with ThreadPoolExecutor(4) as pool:  # of one person who clicks twice, and of another one
        answers = list(pool.map(approve, ("one", "one", "two", "one")))
    assert [written for _, written in answers].count(True) >= 1
    wait_until(lambda: pipeline.statuses() == ["accepted"], 60, "the engine's answer")
    pipeline.clock(T0 + 4 * MINUTE_MS)
    wait_until(lambda: pipeline.statuses() == ["accepted", "applied"], 60, "the end of the rescale")
    assert approve("one")[1] is False
    assert approve("three") == (409, False)
    advice, command = pipeline.read().commands
    assert (advice.advice, command.advice, command.changes) == (True, False, advice.changes)
    assert f"{act.decision_id}, approved by ana" in " ".join(run(pipeline, explain, command.decision_id).split())
    before = pipeline.started[-1]
    before.kill()
    before.wait()
    _, port = pipeline.process()
    wait_until(lambda: is_active(port), 90, "the successor")
    hold = decision(T0 + 4 * MINUTE_MS)
    pipeline.decide(hold)
    wait_until(lambda: pipeline.said(hold) == [("held", "hold")], 60, "the successor's answer")
    assert [each.command_id for each in pipeline.read().commands] == [advice.command_id, command.command_id]
    assert (pipeline.statuses(), set(pipeline.engine.asked)) == (["accepted", "applied"], {command.command_id})
