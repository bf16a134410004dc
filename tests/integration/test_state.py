"""The view of the road on a real Kafka and a real Redis: projected, flushed, rebuilt, read by HTTP and by commands."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import urlopen

import msgspec
import pytest

from contracts import topics
from contracts.clock import MINUTE_MS
from contracts.ids import decision_id
from contracts.messages import (
    Amendment,
    ClusterTopology,
    DeadLetter,
    Decision,
    EngineEvent,
    Host,
    JobSettings,
    Outcome,
    PolicyUsed,
    Progress,
    RescalerRecord,
    RescheduleCommand,
    TaskChange,
    TaskDecision,
)
from contracts.settings import RoadSettings, to_environment
from contracts.windows import WindowCounts, WindowHistory, encode_window
from contracts.wire import encode
from runtime.kafka import create_topics, producer
from services.cli import main
from services.stack.ports import free_port
from services.stack.redis_server import LocalRedis
from services.state import metrics
from services.state.projector import Projector
from services.state.view_store import ViewStore, connect
from services.state.views import Views
from tests.conftest import KafkaForTests
from tests.support.builders import JOB, row, topology
from tests.support.metrics import Scraped, scraped
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration

SURESCALE = [sys.executable, "-c", "from services.cli import main; main()"]
LOG = logging.getLogger("test")
SPANS = 6


@pytest.fixture
def settings(kafka: KafkaForTests, redis_url: str) -> RoadSettings:
    """A road of its own with all its topics."""
    made = RoadSettings(
        bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), redis_url=redis_url, health_port=free_port()
    )
    create_topics(made)
    return made


@pytest.fixture
def store(settings: RoadSettings) -> Iterator[ViewStore]:
    """The view of that road."""
    client = connect(settings.redis_url)
    yield ViewStore(client, settings.topic_prefix)
    client.close()


@pytest.fixture
def projector(settings: RoadSettings, store: ViewStore) -> Iterator[Projector]:
    """A projector of that view in this process."""
    made = Projector(settings, store, LOG)
    yield made
    made.close()


@pytest.fixture
def service(settings: RoadSettings, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start the state service as a process and return the address of its API; what runs is killed at the end."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(**environment: str) -> str:
        port = str(free_port())
        env = os.environ | to_environment(settings) | {"SURESCALE_HTTP_PORT": port} | environment
        with (tmp_path / "state.log").open("ab") as log:
            processes.append(subprocess.Popen([*SURESCALE, "state-service"], env=env, stdout=log, stderr=log))
        return f"http://127.0.0.1:{port}"

    yield start
    for process in processes:
        process.terminate()
        assert process.wait(10) == 0


def send(settings: RoadSettings, *records: tuple[str, str, msgspec.Struct | bytes | None]) -> None:
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
        decision_id=decision_id(job, end_ms, "hold"),
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


def a_road() -> list[tuple[str, str, msgspec.Struct | bytes | None]]:
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
    memory = msgspec.Raw(b'{"gate":{"phase":"Cooldown"},"pending":{"reason":"cooldown","until_ms":90000}}')
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
        (topics.RESCALER_STATE, f"sim/job/{JOB}", RescalerRecord(cluster="sim", kind="job", id=JOB, at_ms=1, body=memory)),
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


@pytest.fixture
def surescale(
    settings: RoadSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command line with that road's settings; return exit code, output and errors."""

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


def test_a_rebuilt_view_equals_the_one_that_grew(settings: RoadSettings, store: ViewStore, projector: Projector) -> None:
    """Whether records are taken in as they come, or all at once after a flush, the view is the same."""
    records = a_road()
    for start in range(0, len(records), 25):
        send(settings, *records[start : start + 25])
        projector.catch_up(30)
    grown = store.dump()
    assert store.flush() == len(grown)
    projector.catch_up(30)
    assert store.dump() == grown
    assert projector.rebuilds == 2


def test_counts_are_of_distinct_records(settings: RoadSettings, store: ViewStore, projector: Projector) -> None:
    """Duplicates are counted as such, and an act only by its last outcome."""
    send(settings, *a_road())
    projector.catch_up(30)
    assert Views(store).counts() == {
        "commands": 3,
        "dead_letters": {"not_json": 1},
        "decisions": {"act": 3, "hold": 3},
        "duplicates": {"dead-letters": 1, "decisions": 1, "windows": 3},
        "events": {"job_started": 1},
        "late": 60,
        "metrics": 240,
        "outcomes": {"commanded": 3, "held": 3},
        "progress": {"accepted": 3, "applied": 3},
        "unreadable": {"decisions": 1},
        "windows": 60,
    }


def test_a_new_projector_goes_on_where_the_last_one_was(settings: RoadSettings, store: ViewStore, projector: Projector) -> None:
    """After a restart only new records are read, because the view knows the offsets it stands for."""
    send(settings, *a_road())
    projector.catch_up(30)
    send(settings, (topics.DECISIONS, "sim", decision(SPANS + 1)))
    second = Projector(settings, store, LOG)
    assert second.catch_up(30) == 1
    assert (second.rebuilds, second.records) == (0, 1)
    second.close()


def test_two_projectors_of_one_view_count_nothing_twice(settings: RoadSettings, store: ViewStore, projector: Projector) -> None:
    """Writers that overtake each other go on from where the view is."""
    other = Projector(settings, store, LOG)
    for writer in (projector, other):
        writer.catch_up(30)
    for start in range(0, 60, 10):
        send(settings, *a_road()[start : start + 10])
        projector.step(0.2)
        other.step(0.2)
    for writer in (projector, other):
        writer.catch_up(30)
    other.close()
    assert Views(store).counts() == {"windows": 60, "metrics": 240, "late": 60}


def test_a_view_of_another_kafka_is_begun_anew(settings: RoadSettings, store: ViewStore, projector: Projector) -> None:
    """Offsets beyond the end of the log are of a broker that is gone: its view is replaced."""
    send(settings, *a_road()[:5])
    projector.catch_up(30)
    at = store.positions()
    assert at is not None
    store.write([], {place: offset + 1_000 for place, offset in at.items()}, at)
    projector.catch_up(30)
    assert store.positions() == at
    assert Views(store).counts()["windows"] == 5


def test_only_the_newest_of_a_timeline_are_kept_and_dropped_ones_stay_counted(
    settings: RoadSettings, store: ViewStore, projector: Projector
) -> None:
    """Old windows leave the view; one of them delivered again is a duplicate still."""
    history, rows = WindowHistory(JOB, 1), {"source": row(records_in=1)}
    windows = [encode_window(history.close(minute * MINUTE_MS, rows, topology())) for minute in range(1, 251)]
    send(settings, *[(topics.SNAPSHOTS, JOB, raw) for raw in [*windows, windows[0]]])
    projector.catch_up(30)
    counts = Views(store).counts()
    assert (counts["windows"], counts["duplicates"]) == (250, {"windows": 1})
    assert len(store.client.hkeys(store.key(f"windows.bodies:{JOB}"))) == 240


def test_a_flush_takes_the_keys_of_its_own_prefix_only(settings: RoadSettings, store: ViewStore) -> None:
    """Other roads' views and other programs' keys in the same Redis stay."""
    prefix = settings.topic_prefix
    others = [f"surescale:{prefix}x-jobs", f"other:{prefix}jobs", f"surescale:{prefix}x"]
    store.client.mset(dict.fromkeys(others, "1"))
    store.client.sadd(store.key("jobs"), JOB)
    assert store.flush() == 1
    assert store.client.exists(*others) == 3
    store.client.delete(*others)


def test_a_view_flushed_under_a_running_service_comes_back(
    settings: RoadSettings, store: ViewStore, service: Callable[..., str]
) -> None:
    """FLUSHALL-like loss is noticed by itself, and the view is again what it was."""
    send(settings, *a_road())
    url = service()
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "a ready state service")
    before = store.dump()
    store.flush()
    wait_until(lambda: get(f"{url}/health")[1].get("rebuilds") == 2, 30, "a rebuild")
    wait_until(lambda: get(f"{url}/health")[0] == 200, 30, "a ready state service")
    assert store.dump() == before


def test_http_answers_show_the_road(settings: RoadSettings, service: Callable[..., str]) -> None:
    """Job, decisions, command, cluster, dead letters and counts are found under their paths."""
    send(settings, *a_road())
    url = service()
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "a ready state service")
    assert get(url + "/")[0] == 200
    assert [job["job"] for job in get(url + "/jobs")[1]] == [JOB]
    job = get(f"{url}/jobs/{JOB}")[1]
    assert (job["topology"]["version"], job["settings"]["mode"], job["gate"]["phase"]) == (2, "advise", "Cooldown")
    assert (job["window"]["window_end_ms"], job["command"]["command_id"]) == (SPANS * 10 * MINUTE_MS, f"{JOB}#6.0")
    newest = get(f"{url}/jobs/{JOB}/decisions?limit=2")[1]
    assert [each["span_end_ms"] for each in newest] == [3_600_000, 3_000_000]
    assert newest[0]["outcome"]["status"] == "commanded"
    assert [step["status"] for step in newest[0]["command"]["progress"]] == ["accepted", "applied"]
    assert get(f"{url}/decisions/{quote(decision(2).decision_id)}")[1]["tasks"][0]["amendments"]
    assert get(f"{url}/commands/{quote(f'{JOB}#2.0')}")[1]["changes"][0]["after"] == 3
    cluster = get(f"{url}/clusters/sim")[1]
    assert (cluster["jobs"], cluster["placement"]["placement_generation"]) == ([JOB], 3)
    assert (cluster["rent"]["hosts"], job["rent"]["hosts"], job["rent"]["per_day"]) == (["h"], ["h"], 21_600)
    assert get(f"{url}/dead-letters")[1][0]["reason"] == "not_json"
    assert get(f"{url}/counts")[1]["windows"] == 60


def test_cluster_info_is_answered_from_the_live_road(
    settings: RoadSettings,
    service: Callable[..., str],
    surescale: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HTTP and command give workers, units and fragments; the planner takes the document as it is."""
    send(settings, *a_road())
    url = service()
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "a ready state service")
    status, info = get(f"{url}/clusters/sim/info")
    assert (status, info["generation"], info["vnodes"]) == (200, 3, 256)
    assert info["workers"] == [{"id": 1, "host": "h", "parallel_units": [1, 2], "state": "running"}]
    units = {fragment["task"]: fragment["parallel_units"] for fragment in info["fragments"]}
    assert units == {"source": [1], "map": [1, 2], "sink": [1]}
    assert json.loads(surescale("cluster", "info", "--json")[1]) == info
    code, told, _ = surescale("cluster", "info", "sim")
    assert (code, "map" in told, "2 of 2 units in use" in told) == (0, True, True)
    widest = next(str(fragment["id"]) for fragment in info["fragments"] if fragment["task"] == "map")
    request = {"cluster": info, "expected_generation": 3, "desired": {widest: {"parallelism": 1}}}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(request).encode())))
    code, planned, _ = surescale("reschedule")
    assert (code, json.loads(planned)["moved"]) == (0, {widest: 128})


def test_cluster_info_refuses_what_it_does_not_know(
    settings: RoadSettings, projector: Projector, surescale: Callable[..., tuple[int, str, str]]
) -> None:
    """No cluster, an unknown one, and one whose hosts have not been told are one line each."""
    assert "no cluster" in surescale("cluster", "info")[2]
    send(settings, *a_road()[:2])
    projector.catch_up(30)
    assert "known: sim" in surescale("cluster", "info", "simm")[2]
    code, _, errors = surescale("cluster", "info")
    assert (code, errors.strip()) == (1, "surescale: no topology of cluster 'sim' is known")


def test_http_refusals_are_json_with_a_clear_message(settings: RoadSettings, service: Callable[..., str]) -> None:
    """What is not known is 404 with near names, what cannot be asked is 400 with the field."""
    send(settings, *a_road()[:2])
    url = service()
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "a ready state service")
    status, answer = get(f"{url}/jobs/sim/clickz")
    assert (status, answer["near"]) == (404, [JOB])
    assert get(f"{url}/jobs/{JOB}/decisions?limit=many")[0] == 400
    assert "limit" in get(f"{url}/jobs/{JOB}/decisions?limit=0")[1]["error"]
    for path in ("/decisions/none", "/commands/none", "/clusters/none", "/clusters/none/info", "/nothing"):
        status, answer = get(url + path)
        assert (status, bool(answer["error"])) == (404, True)


def test_redis_away_is_said_and_waited_for(settings: RoadSettings, service: Callable[..., str], tmp_path: Path) -> None:
    """Without Redis the API answers 503 in words; when it returns, empty, the view comes back."""
    send(settings, *a_road()[:2])
    server = LocalRedis(tmp_path / "redis")
    url = service(SURESCALE_REDIS_URL=server.url)
    wait_until(lambda: get(url + "/jobs")[0] == 503, 30, "an answer without Redis")
    assert get(f"{url}/health")[0] == 503
    try:
        for _ in range(2):
            server.start()
            server.wait_ready()
            wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "a ready state service")
            assert get(url + "/counts")[1] == {"windows": 2, "metrics": 8, "late": 2}
            server.kill()
            wait_until(lambda: get(url + "/health")[0] == get(url + "/jobs")[0] == 503, 30, "both to say that Redis is away")
    finally:
        server.stop()
    assert "waiting for Redis" in (tmp_path / "state.log").read_text()


def test_state_and_decisions_print_tables_and_json(
    settings: RoadSettings, projector: Projector, surescale: Callable[..., tuple[int, str, str]]
) -> None:
    """The commands show the view to people, and the same to programs."""
    send(settings, *a_road())
    projector.catch_up(30)
    assert JOB in surescale("state")[1]
    assert "Cooldown (cooldown) until 1970-01-01 00:01:30" in surescale("state", JOB)[1]
    assert json.loads(surescale("state", JOB, "--json")[1])["gate"]["phase"] == "Cooldown"
    code, told, _ = surescale("decisions", JOB, "--limit", "3")
    assert code == 0
    assert "map: 2 -> 3 (step 4 -> 3)" in told
    assert "commanded: desired" in told
    listed = json.loads(surescale("decisions", JOB, "--json")[1])
    assert [each["span_end_ms"] for each in listed] == [span * 10 * MINUTE_MS for span in range(SPANS, 0, -1)]


def test_rebuild_by_command_gives_the_same_view(
    settings: RoadSettings, store: ViewStore, projector: Projector, surescale: Callable[..., tuple[int, str, str]]
) -> None:
    """``surescale state --rebuild`` flushes the view and builds it from Kafka, with no service running."""
    send(settings, *a_road())
    projector.catch_up(30)
    before = store.dump()
    store.client.sadd(store.key("jobs"), "sim/never-was")
    code, _, errors = surescale("state", "--rebuild", "--json")
    assert code == 0, errors
    assert "rebuilt from Kafka" in errors
    assert store.dump() == before


def test_commands_refuse_in_one_line(
    settings: RoadSettings, projector: Projector, surescale: Callable[..., tuple[int, str, str]]
) -> None:
    """An unknown job names a near one; Redis or Kafka away is one line; the exit code is 1."""
    send(settings, *a_road()[:2])
    projector.catch_up(30)
    nowhere = f"127.0.0.1:{free_port()}"
    for told, word in (
        (surescale("decisions", "sim/clickz"), f"known: {JOB}"),
        (surescale("state", JOB, SURESCALE_REDIS_URL=f"redis://{nowhere}/0"), "does not answer"),
        (surescale("state", "--redis", "nonsense"), "redis_url"),
        (surescale("state", "--rebuild", SURESCALE_BOOTSTRAP=nowhere), "Kafka at"),
    ):
        code, _, errors = told
        assert code == 1
        assert word in errors
        assert len(errors.strip().splitlines()) == 1, errors


def test_the_metrics_tell_what_was_taken_in_and_answered(settings: RoadSettings, service: Callable[..., str]) -> None:
    """Records by topic, unreadable ones, no lag once caught up, requests by route and code."""
    records = a_road()
    send(settings, *records)
    url = service()
    decisions = sum(topic == topics.DECISIONS for topic, _, _ in records)

    def caught_up() -> Scraped | None:
        found = get(f"{url}/health")[1]
        return scraped(settings.health_port) if found and found["ready"] else None

    wait_until(caught_up, 60, "the projector")
    assert get(f"{url}/jobs/sim/unheard-of")[0] == 404
    page = scraped(settings.health_port)
    assert page.of(metrics.RECORDS_READ, topic=topics.DECISIONS) == decisions
    assert page.of(metrics.UNREADABLE, topic=topics.DECISIONS) == 1
    assert (page[metrics.LAG], page[metrics.REBUILDS]) == (0, 1)
    assert page[metrics.STEP_DURATION] >= 1
    assert page.of(metrics.HTTP_REQUESTS, route="/jobs/{cluster}/{name}", code="404") == 1
