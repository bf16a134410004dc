"""The agent as a real process on a real broker: windows in, decisions out, nothing lost."""

import json
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from aiokafka.partitioner import DefaultPartitioner
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import OVERTAKEN_BY, Decision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import DeadLetter
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import DEAD_LETTERS, DECISIONS, JOB_PARTITIONS, JOB_SETTINGS, SNAPSHOTS
from surescale.contracts.wire import decode, encode
from surescale.runtime.kafka import admin_client, create_topics, producer
from surescale.runtime.ports import free_port
from surescale.services.agent import metrics
from surescale.services.local_stack.servers import LocalBroker
from tests.conftest import KafkaForTests
from tests.support.agent_pipeline import AgentPipeline, windows
from tests.support.builders import JOB
from tests.support.metrics import scraped
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def pipeline(kafka: KafkaForTests, tmp_path: Path) -> Iterator[AgentPipeline]:
    """A pipeline of its own with all topics and the rule as policy."""
    settings = PipelineSettings(
        bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), policy="target-utilisation", health_port=free_port()
    )
    create_topics(settings)
    made = AgentPipeline(settings, tmp_path)
    yield made
    made.stop()


def health(pipeline: AgentPipeline) -> dict[str, object]:
    """Return the agent's health document, {} while nobody answers."""
    try:
        with urlopen(f"http://127.0.0.1:{pipeline.settings.health_port}/health", timeout=2) as answer:
            return json.loads(answer.read())  # type: ignore[no-any-return]
    except (URLError, OSError):
        return {}


def test_each_span_end_gets_one_decision_act_or_hold(pipeline: AgentPipeline) -> None:
    """Of forty windows the four that end a span are decided on, in order, keyed by cluster."""
    pipeline.start()
    for raw in windows(601, 620) + windows(621, 640, load=4_000):
        pipeline.send(SNAPSHOTS, JOB, raw)
    decisions = pipeline.decisions(4)
    assert [decision.span_end_ms // MINUTE_MS for decision in decisions] == [610, 620, 630, 640]
    assert decisions[0].action == "act"
    assert decisions[-1].action == "hold"
    records = pipeline.records(DECISIONS, lambda records: len(records) >= 4)
    assert {record.key() for record in records} == {b"sim"}


@pytest.mark.parametrize("own_clock", [False, True])
def test_only_the_newest_of_the_windows_that_waited_is_decided_on_for_good(pipeline: AgentPipeline, own_clock: bool) -> None:
    """The records of the others name what overtook them. By a clock of the pipeline's own nothing is late: every span counts."""
    pipeline.use(replace(pipeline.settings, pipeline_clock=own_clock))
    for raw in windows(601, 633):
        pipeline.send(SNAPSHOTS, JOB, raw)
    pipeline.start()
    records = pipeline.records(DECISIONS, lambda records: len(records) >= 3)
    spans = [decode(record.value(), Decision).span_end_ms // MINUTE_MS for record in records]
    said = [[value for name, value in record.headers() or [] if name == OVERTAKEN_BY] for record in records]
    overtaken = [[], []] if own_clock else [[b"%d" % (620 * MINUTE_MS)], [b"%d" % (630 * MINUTE_MS)]]
    assert (spans, said) == ([610, 620, 630], [*overtaken, []])


def test_the_metrics_rise_with_what_was_done(pipeline: AgentPipeline) -> None:
    """Windows, decisions by action and policy, fallbacks, dead letters, and how long a decision took."""
    asked = replace(pipeline.settings, policy="no-such-policy")
    pipeline.use(asked)
    pipeline.start()
    for raw in [b"junk", *windows(601, 610)]:
        pipeline.send(SNAPSHOTS, JOB, raw)
    pipeline.decisions(1)
    page = wait_until(lambda: (seen := scraped(asked.health_port)).labels(metrics.DECISIONS) and seen, 20, "the count")
    assert page.labels(metrics.DECISIONS) == {("act", "target-utilisation")}
    assert (page[metrics.DECISIONS], page.of(metrics.FALLBACKS, asked="no-such-policy")) == (1, 1)
    assert page.of(metrics.RECORDS_READ, topic=SNAPSHOTS) == 11
    assert (page[metrics.DEAD_LETTERS], page[metrics.DECISION_DURATION]) == (1, 1)
    assert page[metrics.PARTITIONS] == JOB_PARTITIONS


def test_a_malformed_window_goes_to_dead_letters_and_stops_nothing(pipeline: AgentPipeline) -> None:
    """Junk and an empty record are refused with their coordinates, and the window behind them is decided on."""
    pipeline.start()
    for raw in [b"junk", None, *windows(610, 610)]:
        pipeline.send(SNAPSHOTS, JOB, raw)
    assert len(pipeline.decisions(1)) == 1
    letters = [decode(record.value(), DeadLetter) for record in pipeline.records(DEAD_LETTERS, lambda found: len(found) == 2)]
    assert [(letter.offset, letter.reason, letter.refused_by) for letter in letters] == [
        (0, "unknown_layout", "agent"),
        (1, "unknown_layout", "agent"),
    ]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_an_agent_that_ends_in_the_middle_loses_nothing(pipeline: AgentPipeline, end: signal.Signals) -> None:
    """After kill -9 and after SIGTERM a new agent goes on: no span is missing, and repeated decisions are byte-identical."""
    first = pipeline.start()
    for raw in windows(601, 640):
        pipeline.send(SNAPSHOTS, JOB, raw)
    pipeline.decisions(2)
    first.send_signal(end)
    assert first.wait(PATIENT_S) == (0 if end == signal.SIGTERM else -signal.SIGKILL)
    for raw in windows(641, 660):
        pipeline.send(SNAPSHOTS, JOB, raw)
    pipeline.start()
    decisions = pipeline.decisions(6)
    assert {decision.span_end_ms // MINUTE_MS for decision in decisions} == {610, 620, 630, 640, 650, 660}
    assert len({encode(decision) for decision in decisions}) == 6


def test_settings_sent_before_a_window_hold_for_it(pipeline: AgentPipeline) -> None:
    """A job's new policy is used for every window that is sent after it."""
    pipeline.start()
    pipeline.send(SNAPSHOTS, JOB, windows(610, 610)[0])
    assert pipeline.decisions(1)[0].policy.name == "target-utilisation"
    pipeline.send(JOB_SETTINGS, JOB, b"{not json")
    pipeline.send(JOB_SETTINGS, JOB, encode(JobSettings(job=JOB, version=5, policy="hold")))
    pipeline.send(SNAPSHOTS, JOB, windows(620, 620)[0])
    last = pipeline.decisions(2)[-1]
    assert (last.policy.name, last.settings_version) == ("hold", 5)


def test_health_is_ready_once_partitions_are_assigned_and_sigterm_ends_cleanly(pipeline: AgentPipeline) -> None:
    """The health endpoint turns ready and counts; SIGTERM ends the process with code 0 within seconds."""
    process = pipeline.start()
    wait_until(lambda: health(pipeline).get("ready"), 60, "a ready agent")
    pipeline.send(SNAPSHOTS, JOB, windows(610, 610)[0])
    wait_until(lambda: health(pipeline).get("decisions") == {"act": 1, "hold": 0}, 30, "one counted decision")
    process.terminate()
    assert process.wait(PATIENT_S) == 0


def test_kafka_away_at_start_is_waited_for_and_said(pipeline: AgentPipeline) -> None:
    """Without a broker the agent does not end: it says what it waits for, and SIGTERM still ends it with code 0."""
    process = pipeline.start(SURESCALE_BOOTSTRAP=f"127.0.0.1:{free_port()}")
    wait_until(lambda: "waiting for Kafka" in pipeline.log(), 30, "a line that says so")
    assert process.poll() is None
    process.terminate()
    assert process.wait(PATIENT_S) == 0


def test_a_broker_that_comes_back_is_used_again(pipeline: AgentPipeline, tmp_path: Path) -> None:
    """The agent starts before the broker, survives the broker being killed, and decides on later windows."""
    broker = LocalBroker(tmp_path / "kafka")
    pipeline.use(replace(pipeline.settings, bootstrap=broker.bootstrap))
    process = pipeline.start()
    try:
        for span in (610, 620):
            broker.start()
            broker.wait_ready()
            create_topics(pipeline.settings)
            pipeline.send(SNAPSHOTS, JOB, windows(span, span)[0])
            assert len(pipeline.decisions(span // 10 - 60)) >= span // 10 - 60
            broker.kill()
    finally:
        process.terminate()
        assert process.wait(PATIENT_S) == 0  # the broker is away now, and that holds up nothing
        broker.stop()


CODECS = ("gzip", "snappy", "lz4", "zstd")


def compressed(pipeline: AgentPipeline, *codecs: str) -> None:
    """Send one span's end under each codec, on a topic that keeps them, as a broker or an older topic may be set up."""
    topic = f"{pipeline.settings.topic_prefix}{SNAPSHOTS}"
    kept = ConfigEntry("compression.type", "producer", incremental_operation=AlterConfigOpType.SET)
    admin = admin_client(pipeline.settings)
    altered = admin.incremental_alter_configs([ConfigResource("topic", topic, incremental_configs=[kept])])
    for future in altered.values():
        future.result(20)
    for number, codec in enumerate(codecs):
        client = producer(pipeline.settings, **{"compression.type": codec})
        client.produce(topic, windows(600 + 10 * number, 600 + 10 * number)[0], key=JOB.encode())
        assert client.flush(20) == 0


def test_windows_are_read_under_every_codec_of_kafka(pipeline: AgentPipeline) -> None:
    """A broker whose topics are compressed stops no decision."""
    compressed(pipeline, *CODECS)
    pipeline.start()
    assert len({decision.span_end_ms for decision in pipeline.decisions(len(CODECS))}) == len(CODECS)


def test_an_agent_that_can_never_read_a_record_ends_and_says_so(pipeline: AgentPipeline) -> None:
    """Its client lacks the codec: a supervisor sees the process end instead of an agent that is ready and does nothing."""
    compressed(pipeline, "zstd")
    without = [sys.executable, "-c", "import sys; sys.modules['cramjam'] = None; from surescale.services.cli import main; main()"]
    process = pipeline.start(without)

    def ended() -> bool:
        # A topic's new setting reaches its log some time after the broker has agreed to it. Until then records are written
        # under the codec of before, which this agent reads.
        if process.poll() is None:
            zstd.produce(f"{pipeline.settings.topic_prefix}{SNAPSHOTS}", next(spans), key=JOB.encode())
            assert zstd.flush(20) == 0
        return process.poll() is not None

    zstd = producer(pipeline.settings, **{"compression.type": "zstd"})
    spans = (windows(minute, minute)[0] for minute in count(610, 10))
    wait_until(ended, 300, "the agent ends")
    assert process.returncode == 1
    # Faust sometimes hangs in its shutdown after such a crash; that ends the process too.
    assert re.search(r"ended by itself 6 times without handling a window|Faust did not stop within 60 s", pipeline.log())


def test_every_client_puts_a_key_into_the_same_partition(pipeline: AgentPipeline) -> None:
    """The partitioner of Faust's client and librdkafka's murmur2 agree on every key."""
    keys = [f"sim/job-{number}".encode() for number in range(40)]
    client, landed = producer(pipeline.settings), {}
    for key in keys:
        client.produce(
            f"{pipeline.settings.topic_prefix}{SNAPSHOTS}", b"", key=key,
            on_delivery=lambda _error, record: landed.update({record.key(): record.partition()}),
        )  # fmt: skip
    assert client.flush(20) == 0
    partitions, choose = list(range(JOB_PARTITIONS)), DefaultPartitioner()
    assert landed == {key: choose(key, partitions, partitions) for key in keys}
    assert len(set(landed.values())) == JOB_PARTITIONS
