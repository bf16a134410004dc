"""Topics that are deleted and made again while roles run: whoever remembers something of them begins anew."""

import logging
import threading
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK, JOB_SETTINGS, JOB_TOPOLOGY, SNAPSHOTS, TOPICS, TopicNames
from surescale.runtime.kafka import admin_client, create_topics, wait_for_topics
from surescale.runtime.ports import free_ports
from surescale.runtime.topic_ids import TopicIds, TopicsMadeAgain, ended_by_new_topics
from tests.conftest import KafkaForTests
from tests.support.command_line import started
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration
LOG = logging.getLogger("test")


@pytest.fixture
def pipeline(kafka: KafkaForTests) -> PipelineSettings:
    """Settings of a pipeline of its own, whose topics exist."""
    (port,) = free_ports(1)
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), health_port=port)
    create_topics(settings)
    wait_for_topics(settings, list(TOPICS), stop=threading.Event(), log=LOG)
    return settings


def delete(settings: PipelineSettings, topic: str) -> None:
    """Delete a topic."""
    admin = admin_client(settings)
    for future in admin.delete_topics([TopicNames(settings.topic_prefix)(topic)], operation_timeout=30).values():
        future.result(60)


def make_again(settings: PipelineSettings, topic: str) -> None:
    """Create it once Kafka has let go of its name."""
    wait_until(lambda: create_topics(settings, [TOPICS[topic]]) != [], 60, "the topic to be made again")
    wait_for_topics(settings, [topic], stop=threading.Event(), log=LOG)


def test_a_topic_that_was_made_again_is_named_until_somebody_accepts_it(pipeline: PipelineSettings) -> None:
    """While it is gone that is an error, and whatever else is there stays as it was."""
    ids = TopicIds(pipeline, (CLOCK, JOB_TOPOLOGY))
    assert (ids.look(), ids.look()) == ((), ())
    delete(pipeline, CLOCK)
    with pytest.raises(KafkaException):
        wait_until(lambda: ids.look() != (), 60, "the topic to be gone")
    make_again(pipeline, CLOCK)
    assert (ids.look(), ids.look()) == ((CLOCK,), (CLOCK,))
    ids.accept()
    assert ids.look() == ()


def test_work_ends_when_a_topic_is_made_again_and_not_before(pipeline: PipelineSettings) -> None:
    """Nor does a topic that the role has nothing to do with end it."""
    stop = threading.Event()

    def work() -> None:
        with ended_by_new_topics(pipeline, (CLOCK,), stop, LOG):
            for topic in (JOB_TOPOLOGY, CLOCK):
                assert not stop.is_set()
                delete(pipeline, topic)
                make_again(pipeline, topic)
            assert stop.wait(60)

    with pytest.raises(TopicsMadeAgain, match="clock made again"):
        work()


@pytest.mark.parametrize(("role", "topic"), [("agent", JOB_SETTINGS), ("agent", SNAPSHOTS), ("monitor", JOB_TOPOLOGY)])
def test_a_role_that_remembers_a_topic_ends_with_one_line(
    pipeline: PipelineSettings, role: str, topic: str, tmp_path: Path
) -> None:
    """Its supervisor starts it again, and then it knows what the new topic says."""
    log = tmp_path / "log"
    process = started(pipeline, log, "run", role)
    try:
        ready = "deciding with" if role == "agent" else "the engine"
        wait_until(lambda: ready in log.read_text(), 60, "the role to have begun")
        delete(pipeline, topic)
        make_again(pipeline, topic)
        assert process.wait(PATIENT_S) == 1
    finally:
        process.kill()
        process.wait()
    assert f"{topic} made again, and what this role remembers went with the old ones" in log.read_text().splitlines()[-1]
    assert "Traceback" not in log.read_text()
