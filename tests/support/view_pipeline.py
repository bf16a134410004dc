"""A pipeline of its own whose view is looked at: records of every topic, the projector, the state service, the command line.

A test file takes the fixtures it needs by name: ``store = view_pipeline.store``.
"""

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import msgspec
import pytest

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Outcome, Progress, RescheduleCommand, TaskChange
from surescale.contracts.decisions import Amendment, Decision, PolicyUsed, TaskDecision
from surescale.contracts.ids import decision_id
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, DeadLetter, EngineEvent, Host
from surescale.contracts.rescaler_state import JobSummary, RescalerRecord, WaitingAct
from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import WindowCounts, encode_window
from surescale.contracts.wire import encode
from surescale.runtime.kafka import create_topics, producer
from surescale.runtime.ports import free_port
from surescale.services.cli import main
from surescale.services.state import keys
from surescale.services.state.connection import connect
from surescale.services.state.text_reader import as_text
from surescale.services.state.write.projector import Projector
from surescale.services.state.write.view_store import ViewStore
from tests.conftest import KafkaForTests
from tests.support.builders import JOB, row, topology
from tests.support.command_line import started
from tests.support.waiting import PATIENT_S

LOG = logging.getLogger("test")
SPANS = 6


@pytest.fixture
def settings(kafka: KafkaForTests, redis_url: str) -> PipelineSettings:
    """A pipeline of its own with all its topics."""
    made = PipelineSettings(
        bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), redis_url=redis_url, health_port=free_port()
    )
    create_topics(made)
    return made


@pytest.fixture
def store(settings: PipelineSettings) -> Iterator[ViewStore]:
    """The view of that pipeline."""
    client = connect(settings.redis_url)
    yield ViewStore(client, settings.topic_prefix)
    client.close()


@pytest.fixture
def projector(settings: PipelineSettings, store: ViewStore) -> Iterator[Projector]:
    """A projector of that view in this process."""
    made = Projector(settings, store, LOG)
    yield made
    made.close()


@pytest.fixture
def processes() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Return a list for the processes of a test; those in it are ended."""
    running: list[subprocess.Popen[bytes]] = []
    yield running
    for process in running:
        process.terminate()
        assert process.wait(PATIENT_S) == 0


@pytest.fixture
def service(settings: PipelineSettings, tmp_path: Path, processes: list["subprocess.Popen[bytes]"]) -> Callable[..., str]:
    """Start the state service as a process and return the address of its API."""

    def start(**environment: str) -> str:
        port = str(free_port())
        own = {"SURESCALE_HTTP_PORT": port} | environment
        processes.append(started(settings, tmp_path / "state.log", "run", "state-service", **own))
        return f"http://127.0.0.1:{port}"

    return start


@pytest.fixture
def surescale(
    settings: PipelineSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command line with that pipeline's settings; return exit code, output and errors."""

    def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patch:
            for name, value in (to_environment(settings) | environment).items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["surescale", *arguments])
            with pytest.raises(SystemExit) as ended:
                main()
        told = capsys.readouterr()
        return int(ended.value.code or 0), told.out, told.err

    return run


def dumped(store: ViewStore) -> dict[str, object]:
    """Return a whole view as plain data, so that two views can be compared; not when it was last up to date."""
    text = as_text(store.client)
    readers: dict[str, Callable[[str], object]] = {
        "hash": text.hgetall,
        "set": text.smembers,
        "zset": lambda key: store.client.zrange(key, 0, -1, withscores=True),
    }
    return {key: readers[text.type(key)](key) for key in sorted(store.own_keys()) if key != store.key(keys.KEPT)}


def send(settings: PipelineSettings, *records: tuple[str, str, msgspec.Struct | bytes | None]) -> None:
    """Write (topic, key, message) and wait until all are acknowledged."""
    client = producer(settings)
    for topic, key, message in records:
        value = encode(message) if isinstance(message, msgspec.Struct) else message
        client.produce(f"{settings.topic_prefix}{topic}", value, key=key.encode())
    assert client.flush(20) == 0


def decision(span: int, *, job: str = JOB) -> Decision:
    """Return the decision of a span: the even ones act."""
    end_ms = span * 10 * MINUTE_MS
    return Decision(
        decision_id=decision_id(job, end_ms, "sure"),
        job=job,
        span_end_ms=end_ms,
        window_id=f"{job}@{end_ms}",
        policy=PolicyUsed(name="target-utilisation", asked="sure", fallback_reason="no package"),
        seed=0,
        settings_version=1,
        topology_version=1,
        action="hold" if span % 2 else "act",
        reason="Busy.",
        completeness=1.0,
        minutes_known=60,
        tasks=(
            TaskDecision(
                task="map", current=2, ratio=1.9, proposed=4, desired=3, amendments=(Amendment(rule="step", before=4, after=3),)
            ),
        ),
        closed_append_ms=1_000,
    )


def outcome(span: int, sequence: int, status: str, **changes: Any) -> Outcome:
    """Return one outcome of a span's decision."""
    of = decision(span)
    at_ms = of.span_end_ms + sequence
    base = {"cluster": "sim", "job": JOB, "decision_id": of.decision_id, "span_end_ms": of.span_end_ms, "reason": "desired"}
    return Outcome(**(base | {"status": status, "at_ms": at_ms, "sequence": sequence} | changes))


def a_pipeline() -> list[tuple[str, str, msgspec.Struct | bytes | None]]:
    """Return records of every topic, with duplicates, junk and tombstones among them."""
    history, records = WindowHistory(JOB, 60), []
    for minute in range(1, SPANS * 10 + 1):
        rows = {"source": row(records_in=600), "map": row(records_in=600, parallelism=2), "sink": row(records_in=600)}
        window = history.close(minute * MINUTE_MS, rows, topology(), counts=WindowCounts(samples=4, late=1))
        records.append((topics.SNAPSHOTS, JOB, encode_window(window)))
    records += records[-3:]
    for span in range(1, SPANS + 1):
        records.append((topics.DECISIONS, "sim", decision(span)))
        acts = span % 2 == 0
        records.append((topics.RESCHEDULE_EVENTS, "sim", outcome(span, 0, "pending" if acts else "held", reason="cooldown")))
        if acts:
            command_id = f"{JOB}#{span}.0"
            command = RescheduleCommand(
                command_id=command_id, cluster="sim", job=JOB, desired_generation=span, step=0, base_placement_generation=0,
                decision_id=decision(span).decision_id, gate_reason="desired", gate_cause="stabilized", issued_at_ms=span,
                changes=(TaskChange(task="map", before=2, after=3),),
            )  # fmt: skip
            records.append((topics.RESCHEDULE_COMMANDS, "sim", command))
            records.append((topics.RESCHEDULE_EVENTS, "sim", outcome(span, 1, "commanded", command_id=command_id)))
            base = {"cluster": "sim", "job": JOB, "command_id": command_id, "desired_generation": span, "at_ms": span}
            records += [(topics.RESCHEDULE_EVENTS, "sim", Progress(status=status, **base)) for status in ("accepted", "applied")]
    waiting = WaitingAct(decision_id=decision(2).decision_id, reason="cooldown", until_ms=90_000)
    memory = RescalerRecord(
        cluster="sim", kind="job", id=JOB, at_ms=1, body=msgspec.Raw(b"{}"), summary=JobSummary(phase="Cooldown", pending=waiting)
    )
    body = msgspec.Raw(b'{"placement_generation":3}')
    placement = RescalerRecord(cluster="sim", kind="cluster", id="placement", at_ms=1, body=body)
    cluster = ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=(Host(host="h", units=(1, 2), price_per_s=0.25),))
    letter = DeadLetter(topic="t", partition=0, offset=1, reason="not_json", field="", message="no", refused_by="agent")
    records += [
        (topics.DECISIONS, "sim", decision(2)),
        (topics.JOB_TOPOLOGY, JOB, topology(1)),
        (topics.JOB_TOPOLOGY, JOB, topology(2)),
        (topics.JOB_TOPOLOGY, "sim/gone", None),
        (topics.JOB_SETTINGS, JOB, JobSettings(job=JOB, version=1, mode="advise")),
        (topics.CLUSTER_TOPOLOGY, "sim", cluster),
        (topics.ENGINE_EVENTS, "sim", EngineEvent(cluster="sim", sequence=1, at_ms=1, kind="job_started", job=JOB)),
        (topics.RESCALER_STATE, f"sim/job/{JOB}", memory),
        (topics.RESCALER_STATE, "sim/cluster/placement", placement),
        (topics.RESCALER_STATE, "sim/request/x", None),
        (topics.DEAD_LETTERS, JOB, letter),
        (topics.DEAD_LETTERS, JOB, letter),
        (topics.DECISIONS, "sim", b"junk"),
    ]
    return records


def get(url: str) -> tuple[int, Any]:
    """Return status and document of a GET, (0, None) while nobody answers."""
    try:
        with urlopen(url, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())
    except (URLError, OSError):
        return 0, None
