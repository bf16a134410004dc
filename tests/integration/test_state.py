"""The view of the pipeline on a real Kafka and a real Redis: projected, rebuilt, read by HTTP and by commands."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewPartitions
from msgspec.structs import replace

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import JobSettings, Pause
from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import encode_window
from surescale.contracts.wire import encode
from surescale.runtime.http import is_ok
from surescale.runtime.kafka import admin_client, producer
from surescale.runtime.ports import free_port
from surescale.services.state import keys, metrics
from surescale.services.state.read.queries import Queries
from surescale.services.state.text_reader import as_text
from surescale.services.state.write import topic_log
from surescale.services.state.write.projector import BEHIND_RECORDS_MAX, Projector
from surescale.services.state.write.view_store import ViewStore
from tests.support import view_pipeline
from tests.support.builders import JOB, row, topology
from tests.support.command_line import SURESCALE
from tests.support.faults.pipeline import CLOCK
from tests.support.metrics import Scraped, scraped
from tests.support.view_pipeline import SPANS, a_pipeline, decision, dumped, get, send
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration
settings, store, projector = view_pipeline.settings, view_pipeline.store, view_pipeline.projector
processes, service, surescale = view_pipeline.processes, view_pipeline.service, view_pipeline.surescale


def test_a_rebuilt_view_equals_the_one_that_grew(settings: PipelineSettings, store: ViewStore, projector: Projector) -> None:
    """The view is the same whether records are read as they arrive or all at once after a flush."""
    records = a_pipeline()
    for start in range(0, len(records), 25):
        send(settings, *records[start : start + 25])
        projector.catch_up(30)
    grown, every = dumped(store), len(set(store.own_keys()))
    assert store.flush() == every
    assert projector.catch_up(30) == len(records)
    assert dumped(store) == grown
    assert projector.rebuilds == 2


def test_the_settings_shown_are_those_in_force(settings: PipelineSettings, store: ViewStore, projector: Projector) -> None:
    """The highest version wins, among equal ones the later, whether they arrive one by one or together."""
    changes = [JobSettings(job=JOB, version=version, mode=mode) for version, mode in ((2, "observe"), (1, "act"))]
    later = [JobSettings(job=JOB, version=3, mode=mode) for mode in ("act", "advise")]

    def shown() -> tuple[int, str]:
        projector.catch_up(30)
        found = Queries(store.client, settings.topic_prefix).job(JOB).settings
        assert found is not None
        return found.record.version, found.record.mode

    for change in changes:
        send(settings, (topics.JOB_SETTINGS, JOB, change))
        assert shown() == (2, "observe")
    send(settings, *[(topics.JOB_SETTINGS, JOB, change) for change in (*later, *changes)])
    assert shown() == (3, "advise")
    store.flush()
    assert shown() == (3, "advise")


def test_pauses_are_shown_for_the_job_and_for_the_cluster(
    settings: PipelineSettings, store: ViewStore, projector: Projector
) -> None:
    """With who, until when and why; no job is made of a pause of all jobs, and what was resumed is gone."""
    send(settings, *a_pipeline())
    projector.catch_up(30)
    queries = Queries(store.client, settings.topic_prefix)
    jobs = queries.job_ids()
    pause = Pause(direction="up", until_ms=900_000, why="release day", by="ana", at_ms=5)
    for version, said in ((8, pause), (9, None)):
        changes = [JobSettings(job=of, version=version, pause=said) for of in (JOB, "sim/*")]
        send(settings, *[(topics.JOB_SETTINGS, change.job, change) for change in changes])
        projector.catch_up(30)
        shown, shared = queries.job(JOB).settings, queries.cluster("sim").pause
        assert shown is not None
        for document in (shown.record.pause, shared):
            if said is None:
                assert document is None
            else:
                assert msgspec.to_builtins(document) == msgspec.to_builtins(pause)
    assert queries.job_ids() == jobs


def test_partitions_that_are_added_are_noticed(
    settings: PipelineSettings, store: ViewStore, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the projector runs: their records are shown too."""
    monkeypatch.setattr(topic_log, "LOOK_FOR_PARTITIONS_EVERY_S", 0.0)
    projector.catch_up(30)
    topic = f"{settings.topic_prefix}{topics.DECISIONS}"
    admin, client = admin_client(settings), producer(settings)
    before = len(admin.list_topics(topic).topics[topic].partitions)
    admin.create_partitions([NewPartitions(topic, before + 1)])[topic].result(30)
    wait_until(lambda: len(client.list_topics(topic).topics[topic].partitions) > before, what="the new partition")
    client.produce(topic, encode(decision(1)), key=b"sim", partition=before)
    assert client.flush(20) == 0

    queries = Queries(store.client, settings.topic_prefix)

    def is_shown() -> bool:
        with contextlib.suppress(KafkaException):  # who leads it is not known at once
            projector.step(0.1)
        return (topics.DECISIONS, before) in (store.positions() or {}) and JOB in queries.job_ids()

    wait_until(is_shown, what="the decision in the new partition")


def test_counts_are_of_distinct_records(settings: PipelineSettings, store: ViewStore, projector: Projector) -> None:
    """Duplicates are counted separately, and an act only by its last outcome."""
    send(settings, *a_pipeline())
    projector.catch_up(30)
    assert Queries(store.client, settings.topic_prefix).counts() == {
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


def test_only_the_newest_of_a_timeline_are_kept_and_dropped_ones_stay_counted(
    settings: PipelineSettings, store: ViewStore, projector: Projector
) -> None:
    """Old windows leave the view; one that is delivered again still counts as a duplicate."""
    history, rows = WindowHistory(JOB, 1), {"source": row(records_in=1)}
    windows = [encode_window(history.close(minute * MINUTE_MS, rows, topology())) for minute in range(1, 251)]
    send(settings, *[(topics.SNAPSHOTS, JOB, raw) for raw in [*windows, windows[0]]])
    projector.catch_up(30)
    counts = Queries(store.client, settings.topic_prefix).counts()
    assert (counts["windows"], counts["duplicates"]) == (250, {"windows": 1})
    assert len(store.client.hkeys(store.key(f"windows.bodies:{JOB}"))) == 240


def test_a_flush_takes_the_keys_of_its_own_prefix_only(settings: PipelineSettings, store: ViewStore) -> None:
    """Other pipelines' views and other programs' keys in the same Redis stay."""
    prefix = settings.topic_prefix
    others = [f"surescale:{prefix}x-jobs", f"other:{prefix}jobs", f"surescale:{prefix}x"]
    store.client.mset(dict.fromkeys(others, "1"))
    store.client.sadd(store.key("jobs"), JOB)
    assert store.flush() == 1
    assert store.client.exists(*others) == 3
    store.client.delete(*others)


def test_http_answers_show_the_pipeline(settings: PipelineSettings, service: Callable[..., str]) -> None:
    """Job, decisions, command, cluster, dead letters and counts are found under their paths."""
    send(settings, *a_pipeline())
    url = service()
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "a ready state service")
    assert get(url + "/")[0] == 200
    assert [job["job"] for job in get(url + "/jobs")[1]] == [JOB]
    job = get(f"{url}/jobs/{JOB}")[1]
    shown = {part: job[part]["record"] for part in ("topology", "settings", "gate", "window", "command")}
    assert (shown["topology"]["version"], shown["settings"]["mode"], shown["gate"]["phase"]) == (2, "advise", "Cooldown")
    assert (shown["window"]["window_end_ms"], shown["command"]["command_id"]) == (SPANS * 10 * MINUTE_MS, f"{JOB}#6.0")
    newest = get(f"{url}/jobs/{JOB}/decisions?limit=2")[1]
    assert [each["record"]["span_end_ms"] for each in newest] == [3_600_000, 3_000_000]
    assert newest[0]["outcome"]["record"]["status"] == "commanded"
    assert [step["record"]["status"] for step in newest[0]["command"]["progress"]] == ["accepted", "applied"]
    assert get(f"{url}/decisions/{quote(decision(2).decision_id)}")[1]["record"]["tasks"][0]["amendments"]
    assert get(f"{url}/commands/{quote(f'{JOB}#2.0')}")[1]["record"]["changes"][0]["after"] == 3
    cluster = get(f"{url}/clusters/sim")[1]
    assert (cluster["jobs"], cluster["placement"]["record"]["placement_generation"]) == ([JOB], 3)
    assert (cluster["rent"]["hosts"], job["rent"]["hosts"], job["rent"]["per_day"]) == (["h"], ["h"], 21_600)
    assert get(f"{url}/dead-letters")[1][0]["record"]["reason"] == "not_json"
    assert get(f"{url}/counts")[1]["windows"] == 60


def test_cluster_info_is_answered_from_the_live_pipeline(
    settings: PipelineSettings,
    service: Callable[..., str],
    surescale: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HTTP and command give workers, units and fragments; the planner takes the document as it is."""
    send(settings, *a_pipeline())
    url = service()
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "a ready state service")
    status, info = get(f"{url}/clusters/sim/info")
    assert (status, info["generation"], info["vnodes"]) == (200, 3, 256)
    assert info["workers"] == [{"id": 1, "host": "h", "parallel_units": [1, 2], "state": "running"}]
    units = {fragment["task"]: fragment["parallel_units"] for fragment in info["fragments"]}
    assert units == {"source": [1], "map": [1, 2], "sink": [1]}
    assert json.loads(surescale("cluster", "show", "--json")[1]) == info
    code, told, _ = surescale("cluster", "show", "sim")
    assert (code, "map" in told, "2 of 2 units in use" in told) == (0, True, True)
    widest = next(str(fragment["id"]) for fragment in info["fragments"] if fragment["task"] == "map")
    request = {"cluster": info, "expected_generation": 3, "desired": {widest: {"parallelism": 1}}}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(request).encode())))
    code, planned, _ = surescale("dev", "reschedule")
    assert (code, json.loads(planned)["moved"]) == (0, {widest: 128})


def test_cluster_info_refuses_what_it_does_not_know(
    settings: PipelineSettings, projector: Projector, surescale: Callable[..., tuple[int, str, str]]
) -> None:
    """No cluster, an unknown one, and one whose hosts are unknown give one line each."""
    assert "no cluster" in surescale("cluster", "show")[2]
    send(settings, *a_pipeline()[:2])
    projector.catch_up(30)
    assert "known: sim" in surescale("cluster", "show", "simm")[2]
    code, _, errors = surescale("cluster", "show")
    assert (code, errors.strip()) == (1, "surescale: no topology of cluster 'sim' is known")


@pytest.mark.parametrize(("ahead_s", "words"), [(26 * 3_600, "26 h ahead of"), (-26 * 3_600, "26 h behind")])
def test_a_service_whose_clock_is_wrong_says_so_on_the_page_and_in_its_health(
    settings: PipelineSettings, service: Callable[..., str], tmp_path: Path, ahead_s: int, words: str
) -> None:
    """It only reads: Redis is its first witness, and the next record that comes to Kafka the better one."""
    (tmp_path / "clock").write_text(str(ahead_s))
    paths = f"{CLOCK}{os.pathsep}{os.environ['PYTHONPATH']}" if "PYTHONPATH" in os.environ else str(CLOCK)
    url = service(PYTHONPATH=paths, FAULTS_CLOCK=str(tmp_path / "clock"))
    health = f"http://127.0.0.1:{settings.health_port}/health"

    def said() -> tuple[str, str]:
        send(settings, (topics.JOB_SETTINGS, JOB, JobSettings(job=JOB, version=1)))
        stages = {each["role"]: each["problem"] or "" for each in get(f"{url}/pipeline")[1]["stages"]}
        return stages["state"], get(health)[1]["clock"]

    wait_until(lambda: is_ok(f"{url}/health"), PATIENT_S, "a ready state service")
    assert words in wait_until(lambda: said()[0], PATIENT_S, "a word about the clock")
    known = wait_until(lambda: all("Kafka's; set it right" in each for each in said()) and said(), PATIENT_S, "Kafka's clock")
    assert all(words in each for each in known)
    (tmp_path / "clock").write_text("0")
    wait_until(lambda: said() == ("", ""), PATIENT_S, "nothing to say of a clock that is right")


def test_http_refusals_are_json_with_a_clear_message(settings: PipelineSettings, service: Callable[..., str]) -> None:
    """Unknown names are 404 with similar names, invalid questions are 400 with the field."""
    send(settings, *a_pipeline()[:2])
    url = service()
    wait_until(lambda: get(f"{url}/health")[0] == 200, 60, "a ready state service")
    status, answer = get(f"{url}/jobs/sim/clickz")
    assert (status, answer["near"]) == (404, [JOB])
    assert get(f"{url}/jobs/{JOB}/decisions?limit=many")[0] == 400
    assert "limit" in get(f"{url}/jobs/{JOB}/decisions?limit=0")[1]["error"]
    for path in ("/decisions/none", "/commands/none", "/clusters/none", "/clusters/none/info", "/nothing"):
        status, answer = get(url + path)
        assert (status, bool(answer["error"])) == (404, True)


def test_state_and_decisions_print_tables_and_json(
    settings: PipelineSettings, projector: Projector, surescale: Callable[..., tuple[int, str, str]]
) -> None:
    """The commands show the view to people, and the same to programs."""
    send(settings, *a_pipeline())
    projector.catch_up(30)
    assert JOB in surescale("job", "list")[1]
    assert "cooling down after a rescale until 1970-01-01 00:01:30" in surescale("job", "show", JOB)[1]
    assert json.loads(surescale("job", "show", JOB, "--json")[1])["gate"]["record"]["phase"] == "Cooldown"
    code, told, _ = surescale("job", "decisions", JOB, "--limit", "3")
    assert code == 0
    assert "map: 2 -> 3 (step 4 -> 3)" in told
    assert "acted  #6.0 commit applied" in told
    listed = json.loads(surescale("job", "decisions", JOB, "--json")[1])
    assert [each["record"]["span_end_ms"] for each in listed] == [span * 10 * MINUTE_MS for span in range(SPANS, 0, -1)]


def test_a_job_from_which_nothing_comes_any_more_says_for_how_long(
    settings: PipelineSettings, projector: Projector, surescale: Callable[..., tuple[int, str, str]]
) -> None:
    """A job that left keeps its last topology, with the age of its figures."""
    other = replace(topology(), job="sim/other")
    newest = WindowHistory(other.job, 60).close(90 * MINUTE_MS, {"source": row(records_in=1)}, other)
    send(settings, *a_pipeline(), (topics.SNAPSHOTS, other.job, encode_window(newest)))
    projector.catch_up(30)
    shown = {job["job"]: job["age_minutes"] for job in json.loads(surescale("job", "list", "--json")[1])}
    assert shown[JOB] - shown["sim/other"] in (30, 31)  # the wall goes on meanwhile
    code, told, _ = surescale("job", "show", JOB)
    assert (code, "no figures for" in told) == (1, True)


def test_the_view_says_when_it_was_last_up_to_date(settings: PipelineSettings, store: ViewStore, projector: Projector) -> None:
    """One that is begun anew does not until it is."""
    send(settings, *a_pipeline()[:2])
    for _ in range(2):
        projector.catch_up(30)
        kept = as_text(store.client).get(store.key(keys.KEPT))
        assert kept is not None
        assert abs(time.time() * 1_000 - int(kept)) < 60_000
        assert store.begin({("decisions", 0): 0}, store.positions())
        assert as_text(store.client).get(store.key(keys.KEPT)) is None


def test_jobs_that_no_monitor_tells_of_any_more_are_ended_by_hand(
    settings: PipelineSettings, projector: Projector, surescale: Callable[..., tuple[int, str, str]]
) -> None:
    """All of those that are named, or none: one that is told of would come back, and a simulated engine tells the end itself."""
    now_ms = time.time_ns() // 1_000_000
    last = {name: now_ms - age * MINUTE_MS for name, age in (("old/a", 3 * 24 * 60), ("old/b", 60), ("new/a", 0))}
    jobs = [replace(topology(), job=job, engine="kafka", version=at_ms, at_ms=at_ms) for job, at_ms in last.items()]
    jobs.append(replace(jobs[-1], job="old/failed", state="failed"))  # a moment ago: it is told once
    send(settings, *[(topics.JOB_TOPOLOGY, each.job, each) for each in (*jobs, topology())])
    for refused, words in (
        (["old/a", "new/a"], "the monitor reported new/a a moment ago"),
        (["old/a", JOB], "simulated engine"),
        (["old/a", "old/c"], "there is no job 'old/c'"),
    ):
        code, _, errors = surescale("job", "forget", *refused)
        assert code == 1
        assert words in errors
    projector.catch_up(30)
    shown = {each["job"]: each["status"] for each in json.loads(surescale("job", "list", "--json")[1])}
    assert (shown["old/a"], shown["old/failed"]) == ("unknown", "down")
    code, told, _ = surescale("job", "forget", "old/a", "old/b", "old/failed")
    assert (code, told.count("ended")) == (0, 3)
    projector.catch_up(30)
    shown = {each["job"]: each["status"] for each in json.loads(surescale("job", "list", "--json")[1])}
    assert {shown[each] for each in ("old/a", "old/b", "old/failed")} == {"ended"}
    assert shown["new/a"] != "ended"
    assert "has ended already" in surescale("job", "forget", "old/a")[2]


def test_state_is_watched_until_it_is_interrupted(settings: PipelineSettings, projector: Projector) -> None:
    """The table is shown repeatedly; Ctrl-C ends it in order."""
    send(settings, *a_pipeline()[:2])
    projector.catch_up(30)
    command = [*SURESCALE, "job", "list", "--watch", "--every", "0.1"]
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs, such as this run, may ignore it
    environment = os.environ | to_environment(settings)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=heeds) as process:
        assert process.stdout is not None
        seen = 0
        while seen < 3:
            seen += JOB in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENT_S) == 0


def test_rebuild_by_command_gives_the_same_view(
    settings: PipelineSettings, store: ViewStore, projector: Projector, surescale: Callable[..., tuple[int, str, str]]
) -> None:
    """``surescale job list --rebuild`` flushes the view and builds it from Kafka, with no service running."""
    send(settings, *a_pipeline())
    projector.catch_up(30)
    before = dumped(store)
    store.client.sadd(store.key("jobs"), "sim/never-was")
    _, _, errors = surescale("job", "list", "--rebuild", "--json")
    assert "rebuilt from Kafka" in errors
    assert dumped(store) == before


def test_commands_refuse_in_one_line(
    settings: PipelineSettings, projector: Projector, surescale: Callable[..., tuple[int, str, str]]
) -> None:
    """An unknown job names a near one; Redis or Kafka away is one line; the exit code is 1."""
    send(settings, *a_pipeline()[:2])
    projector.catch_up(30)
    nowhere = f"127.0.0.1:{free_port()}"
    for told, word in (
        (surescale("job", "decisions", "sim/clickz"), f"known: {JOB}"),
        (surescale("job", "show", JOB, SURESCALE_REDIS_URL=f"redis://{nowhere}/0"), "does not answer"),
        (surescale("job", "list", "--redis", "nonsense"), "SURESCALE_REDIS_URL: 'nonsense'"),
        (surescale("job", "list", "--rebuild", SURESCALE_BOOTSTRAP=nowhere), "Kafka at"),
    ):
        code, _, errors = told
        assert code == 1
        assert word in errors
        assert len(errors.strip().splitlines()) == 1, errors


def test_the_metrics_tell_what_was_taken_in_and_answered(settings: PipelineSettings, service: Callable[..., str]) -> None:
    """Records by topic, unreadable ones, no lag once caught up, requests by route and code."""
    records = a_pipeline()
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


def test_a_view_that_keeps_up_with_a_steady_stream_stays_ready(settings: PipelineSettings, projector: Projector) -> None:
    """A batch that is on its way is not behind: Kubernetes would take the service out at every look."""
    assert not projector.is_current
    projector.catch_up(30)
    assert projector.is_current
    looks, caught_up = [], []
    for span in range(1, 31):
        send(settings, (topics.DECISIONS, "sim", decision(span)))
        projector.step(0.2)
        looks.append(projector.is_current)
        caught_up.append(projector.caught_up)
    assert all(looks)
    assert not all(caught_up)


def test_a_view_that_falls_behind_is_not_ready(settings: PipelineSettings, projector: Projector) -> None:
    """More than a few batches lie on Kafka: it is ready again once it has taken them in."""
    projector.catch_up(30)
    send(settings, *[(topics.DECISIONS, "sim", decision(span)) for span in range(1, 3 * BEHIND_RECORDS_MAX)])
    wait_until(lambda: projector.step(0.2) == 0 and not projector.is_current, 30, "a view that is behind")
    projector.catch_up(60)
    assert projector.is_current
