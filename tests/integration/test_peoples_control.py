"""What people say on the command line, and what a rescaler as a process makes of it."""

from collections.abc import Iterator

import pytest

from surescale.contracts.errors import SettingsError
from surescale.rescaler.service.settings import RescalerSettings
from surescale.services.tools.explain.command import command as explain
from surescale.services.tools.job_settings.approve_command import command as approve
from surescale.services.tools.job_settings.pause_command import pause_cluster, pause_job, resume_job
from tests.conftest import KafkaForTests
from tests.support.command_line import job_command
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, decision
from tests.support.fake_engine import FakeEngine
from tests.support.operations import run
from tests.support.rescaler_pipeline import Pipeline, is_active, opened, served
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
T0 = START_MS


@pytest.fixture
def pipeline(kafka: KafkaForTests) -> Iterator[Pipeline]:
    """A pipeline of its own with an engine that answers, and a rescaler that is active."""
    engine = FakeEngine(now_ms=T0, jobs={JOB})
    with served(engine) as url:
        settings = RescalerSettings(
            bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), engine_url=url, pipeline_clock=True
        )
        with opened(settings, engine) as made:
            _, port = made.process()
            wait_until(lambda: is_active(port), 90, "the rescaler")
            yield made


def test_a_pause_of_the_cluster_holds_until_its_time_or_until_somebody_resumes(pipeline: Pipeline) -> None:
    """At once, with its reason; it ends by the pipeline's clock, and another one by a record."""
    run(pipeline, pause_cluster, "sim", "--direction", "up", "--for", "10m", "--why", "release day")
    first, second, third, fourth = (decision(T0 + at * MINUTE_MS, {"map": 3 + at % 2}) for at in (0, 10, 20, 21))
    pipeline.decide(first)
    wait_until(lambda: pipeline.said(first) == [("refused", "paused")], 60, "the refusal")
    assert pipeline.outcomes[-1].detail == "map: scaling up of sim is paused by ana until 1970-01-01 00:20:00: release day"
    pipeline.clock(T0 + 10 * MINUTE_MS)
    pipeline.decide(second)
    wait_until(lambda: pipeline.said(second) == [("commanded", "desired")], 60, "the command once the time has come")
    pipeline.clock(T0 + 20 * MINUTE_MS)
    wait_until(lambda: "applied" in pipeline.statuses(), 60, "the end of the rescale")
    run(pipeline, pause_job, JOB, "--why", "audit")
    pipeline.decide(third)
    wait_until(lambda: bool(pipeline.said(third)), 60, "the answer")
    assert pipeline.said(third)[0][0] == "refused"
    run(pipeline, resume_job, JOB)
    pipeline.decide(fourth)
    wait_until(lambda: ("commanded", "desired") in pipeline.said(fourth), 60, "the command once somebody has resumed it")


def test_an_approved_advice_is_carried_out_once(pipeline: Pipeline) -> None:
    """The engine does what was advised. A second rescale comes neither from the same approval nor from a late one."""
    run(pipeline, job_command, "set", JOB, "--mode", "advise")
    act = decision(T0, {"map": 4})
    pipeline.decide(act)
    wait_until(lambda: pipeline.said(act) == [("commanded", "advise")], 60, "the advice")
    with pytest.raises(SettingsError, match="is not open advice"):
        run(pipeline, approve, f"{JOB}@0/rule")
    pipeline.clock(T0 + 2 * MINUTE_MS)
    assert f"{JOB}: {act.decision_id} is approved by ana: map 4; settings version 2, at once" in run(pipeline, approve, JOB)
    wait_until(lambda: pipeline.statuses() == ["accepted"], 60, "the engine's answer")
    advice, command = pipeline.read().commands
    assert (advice.advice, command.advice, command.changes) == (True, False, advice.changes)
    told = run(pipeline, explain, command.decision_id)
    assert "Somebody has approved the advice" in told
    assert f"{act.decision_id}, approved by ana" in " ".join(told.split())
    pipeline.clock(T0 + 4 * MINUTE_MS)
    wait_until(lambda: pipeline.statuses() == ["accepted", "applied"], 60, "the end of the rescale")
    with pytest.raises(SettingsError, match="none is open at all"):
        run(pipeline, approve, act.decision_id)
    before = pipeline.started[-1]
    before.kill()
    before.wait()
    _, port = pipeline.process()
    wait_until(lambda: is_active(port), 90, "the successor")
    run(pipeline, job_command, "set", JOB, "--priority", "2")  # the record still carries the approval
    hold = decision(T0 + 4 * MINUTE_MS)
    pipeline.decide(hold)
    wait_until(lambda: pipeline.said(hold) == [("held", "hold")], 60, "the successor's answer")
    assert len(pipeline.read().commands) == 2
