"""The rescaler when Kafka is away: at its start, and in the middle of its work."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from surescale.rescaler.service.settings import RescalerSettings
from surescale.runtime.kafka import create_topics
from surescale.services.local_stack.servers import LocalBroker
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, decision
from tests.support.fake_engine import FakeEngine
from tests.support.rescaler_pipeline import health, is_active, opened, served, started
from tests.support.waiting import wait_until

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
                    wait_until(lambda: "has no record on" in said(process), 30, "a line")
                finally:
                    process.kill()
                    process.wait()
                    process.stderr.close()
        finally:
            broker.stop()
