"""The rescaler when Kafka is away: at its start, and in the middle of its work."""

from pathlib import Path

import pytest

from rescaler.actuators.fake import FakeEngine
from rescaler.service.settings import RescalerSettings
from services.local_stack.broker import LocalBroker
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, decision
from tests.support.rescaler_pipeline import health, is_active, opened, served, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
T0 = START_MS


def test_kafka_is_waited_for_and_work_goes_on_when_it_returns(tmp_path: Path) -> None:
    """The process outlives a broker that is not there yet and one that is killed; nothing is missing or doubled."""
    broker, engine = LocalBroker(tmp_path), FakeEngine(now_ms=T0, jobs={JOB})
    with served(engine) as url:
        settings = RescalerSettings(bootstrap=broker.bootstrap, engine_url=url, road_clock=True)
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
