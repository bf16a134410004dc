"""The rescaler when Kafka is away: at its start, and in the middle of its work."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from surescale.contracts.settings import to_environment
from surescale.contracts.topics import TOPICS, TopicNames
from surescale.rescaler.service.settings import RescalerSettings
from surescale.runtime.kafka import admin_client, create_topics
from surescale.services.local_stack.servers import LocalBroker
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, decision
from tests.support.fake_engine import FakeEngine
from tests.support.rescaler_pipeline import health, is_active, opened, served, started
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration
T0 = START_MS


def test_kafka_is_waited_for_and_work_goes_on_when_it_returns(tmp_path: Path) -> None:
    """The process outlives a broker that is not there yet and one that is killed; nothing is missing or doubled."""
    broker, engine = LocalBroker(tmp_path), FakeEngine(now_ms=T0, jobs={JOB})
    with served(engine) as url:
        settings = RescalerSettings(bootstrap=broker.bootstrap, engine_url=url, pipeline_clock=True)
        process, port = started(settings)
        try:
            wait_until(lambda: health(port).get("state") == "starting", 30, "the process to wait for Kafka")
            broker.start()
            broker.wait_ready()
            with opened(settings, engine) as pipeline:
                wait_until(lambda: is_active(port), 60, "the rescaler")
                first, second = decision(T0, {"map": 4}), decision(T0 + 2 * MINUTE_MS, {"map": 5})
                pipeline.decide(first)
                wait_until(lambda: pipeline.statuses() == ["accepted"], 30, "the acceptance")
                broker.kill()
                broker.start()
                broker.wait_ready()
                pipeline.reconnect()
                pipeline.clock(T0 + 2 * MINUTE_MS)
                pipeline.decide(second)
                wait_until(lambda: "applied" in pipeline.statuses(), 60, "the end of the rescale")
                wait_until(lambda: pipeline.said(second)[-1:] == [("pending", "cooldown")], 60, "the promise")
                pipeline.clock(T0 + 3 * MINUTE_MS)
                wait_until(lambda: pipeline.said(second)[-1] == ("commanded", "desired"), 60, "the second command")
                assert pipeline.said(first) == [("commanded", "desired")]
                assert process.poll() is None
        finally:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()
            broker.stop()


def said(process: subprocess.Popen[str]) -> str:
    """Return its log; reading it would move where it writes."""
    assert process.stderr is not None
    return os.pread(process.stderr.fileno(), 2**20, 0).decode()


def test_a_kafka_that_comes_back_empty_is_said_and_served_once_its_topics_are_there(tmp_path: Path) -> None:
    """No rescaler stands by without a word for as long as its client keeps what it knew of the topics."""
    broker, engine = LocalBroker(tmp_path), FakeEngine(now_ms=T0, jobs={JOB})
    with served(engine) as url:
        settings = RescalerSettings(bootstrap=broker.bootstrap, engine_url=url, pipeline_clock=True)
        try:
            broker.start()
            broker.wait_ready()
            with opened(settings, engine):
                process, port = started(settings)
                try:
                    wait_until(lambda: is_active(port), 60, "the rescaler")
                    broker.kill()
                    shutil.rmtree(tmp_path / "data")
                    broker.start()
                    broker.wait_ready()
                    wait_until(lambda: "topics missing" in said(process), 90, "its line")
                    create_topics(settings)
                    wait_until(lambda: is_active(port), 60, "the rescaler again")
                    wait_until(
                        lambda: "rescaler-state, job-settings made again: cluster sim is paused" in said(process), 30, "a line"
                    )
                finally:
                    process.kill()
                    process.wait()
                    process.stderr.close()
        finally:
            broker.stop()


def test_topics_that_are_made_again_under_a_rescaler_hold_its_cluster_until_somebody_resumes_it(tmp_path: Path) -> None:
    """Quicker than it looks for them: it carries out nothing by what it remembered, says so, and a restart does not forget it."""
    broker, engine = LocalBroker(tmp_path), FakeEngine(now_ms=T0, jobs={JOB})
    with served(engine) as url:
        settings = RescalerSettings(bootstrap=broker.bootstrap, engine_url=url, pipeline_clock=True)
        try:
            broker.start()
            broker.wait_ready()
            with opened(settings, engine) as pipeline:
                process, port = pipeline.process()
                wait_until(lambda: is_active(port), 60, "the rescaler")
                pipeline.decide(decision(T0, {"map": 4}))
                wait_until(lambda: pipeline.statuses() == ["accepted"], 30, "the acceptance")
                made_again(settings)
                wait_until(lambda: "cluster sim is paused" in said(process), 90, "its line")
                process.kill()
                process.wait()
            with opened(settings, engine) as pipeline:
                process, port = pipeline.process()
                wait_until(lambda: is_active(port), 60, "the next rescaler")
                held = decision(T0 + 2 * MINUTE_MS, {"map": 5})
                pipeline.clock(T0 + 2 * MINUTE_MS)
                pipeline.decide(held)
                wait_until(lambda: pipeline.said(held)[-1:] == [("refused", "paused")], 60, "the refusal")
                assert pipeline.commands == []
                environment = os.environ | to_environment(settings)
                resumed = [sys.executable, "-m", "surescale.services.cli", "cluster", "resume", "sim"]
                subprocess.run(resumed, env=environment, check=True, timeout=PATIENT_S)
                wanted = decision(T0 + 4 * MINUTE_MS, {"map": 5})
                pipeline.clock(T0 + 4 * MINUTE_MS)
                pipeline.decide(wanted)
                wait_until(lambda: ("commanded", "desired") in pipeline.said(wanted), 60, "the command")
        finally:
            broker.stop()


def made_again(settings: RescalerSettings) -> None:
    """Delete every topic and create it again."""
    admin, full = admin_client(settings), TopicNames(settings.topic_prefix)
    for future in admin.delete_topics([full(name) for name in TOPICS], operation_timeout=30).values():
        future.result(60)
    made: set[str] = set()

    def all_made() -> bool:
        made.update(create_topics(settings))
        return len(made) == len(TOPICS)

    wait_until(all_made, 60, "the topics to be gone and made again")
