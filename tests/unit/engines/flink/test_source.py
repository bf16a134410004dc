"""A Flink cluster as the monitor sees it, from recorded answers."""

import json
import threading
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from surescale.contracts.messages import EngineEvent
from surescale.contracts.topology import check_topology
from surescale.engines.flink import directory
from surescale.engines.flink.job import FlinkJob
from surescale.engines.flink.source import FlinkSource
from surescale.engines.ports.minutes import JobSnapshot
from surescale.engines.ports.source import SourceUnavailable, UnknownJob
from surescale.monitor.settings import MonitorSettings
from tests.support import flink_source
from tests.support.fake_flink import FakeFlink, QuickClock, fake_flink
from tests.support.flink_source import ORDERS, SOURCE, job_of, look_at, sources
from tests.support.recorded_flink import recorded
from tests.support.stub_server import StubRequest, StubResponse
from tests.support.waiting import wait_until

flink, source = flink_source.flink, flink_source.source


def look_again(source: FlinkSource) -> list[EngineEvent]:
    """Look once more and return everything that has happened."""
    look_at(source)
    return source.events("")


def test_jobs_of_one_name_are_told_apart_and_say_so(source: FlinkSource) -> None:
    """A slash in a name is no slash in an id."""
    jobs = source.jobs()
    assert ORDERS in jobs
    twins = [job for job in jobs if job.startswith("flink/team a_legacy job~")]
    assert len(twins) == 2
    topology = look_at(source, twins[0]).topology
    assert topology.engine_name == "team a/legacy job"
    assert "2 jobs are named" in topology.labels["surescale.ambiguous"]


def test_only_jobs_that_are_named_or_labelled_are_watched(flink: FakeFlink) -> None:
    """By the name in Flink or by ours; or by a label of the job's own."""
    assert [source.jobs() for source in sources(flink, jobs="Orders*")] == [[ORDERS]]
    (legacy,) = (source.jobs() for source in sources(flink, jobs="team a/*"))
    assert [job.partition("~")[0] for job in legacy] == ["flink/team a_legacy job"] * 2
    labels = flink.body(f"GET /jobs/{job_of(flink)}/config")["execution-config"]["user-config"]
    labels["surescale.watch"] = "true"
    assert [source.jobs() for source in sources(flink, jobs_label="surescale.watch=true")] == [[ORDERS]]


def test_a_look_shows_graph_and_counters(flink: FakeFlink, source: FlinkSource) -> None:
    """Each vertex with its subtasks, under Flink's ids."""
    topology, samples = (look := look_at(source)).topology, look.samples
    check_topology(topology)
    assert (topology.engine, topology.epoch, topology.state) == ("flink", job_of(flink), "running")
    assert topology.checkpointing is not None
    assert topology.requirement_id
    assert {sample.task for sample in samples} == {spec.task for spec in topology.tasks}
    assert {sample.attempt for sample in samples} == {topology.attempt}
    shown = flink.body(f"GET /jobs/{job_of(flink)}/vertices/{SOURCE}")["subtasks"][0]["metrics"]
    (entry,) = (sample for sample in samples if sample.task == SOURCE)
    assert (entry.records_out, entry.idle_ms) == (shown["write-records"], shown["accumulated-idle-time"])
    assert (entry.queued_records, entry.arrived_records) == (None, None), "this source does not read Kafka"


def test_a_look_takes_one_request_a_vertex_and_a_handful_more(flink: FakeFlink, source: FlinkSource) -> None:
    """The first one also asks for names that stay."""
    look_at(source)
    flink.asked.clear()
    look = source.follow(ORDERS).look()
    assert len(flink.asked) <= len(look.topology.tasks) + 6


def test_a_topology_has_a_new_version_only_when_it_changes(flink: FakeFlink, source: FlinkSource) -> None:
    """Though each look gives it a new date."""
    first, second = look_at(source).topology, look_at(source).topology
    assert first.version == second.version
    assert first.at_ms < second.at_ms
    requirements = flink.body(f"GET /jobs/{job_of(flink)}/resource-requirements")
    requirements[SOURCE]["parallelism"]["upperBound"] = 3
    third = look_at(source).topology
    assert third.version > second.version
    assert third.requirement_id != second.requirement_id
    (event,) = (event for event in source.events("") if event.kind == "requirement_changed")
    assert event.detail == "Source: numbers 1 -> 3"


def test_a_job_that_waits_for_slots_is_shown_and_reports_nothing() -> None:
    """Flink shows parallelism 1 everywhere, which is not what is asked for."""
    with fake_flink("2.3.0", "waiting") as flink:
        for source in sources(flink):
            look = look_at(source, "flink/late")
            assert (look.topology.state, look.samples) == ("created", ())
            assert max(spec.required or 0 for spec in look.topology.tasks) == 3


def test_a_job_that_has_lost_its_slots_keeps_its_graph(flink: FakeFlink, source: FlinkSource) -> None:
    """Flink tells no edges while it waits for slots, and a task without inputs would be taken for a source."""
    before = look_at(source).topology
    detail = flink.body(f"GET /jobs/{job_of(flink)}")
    detail["state"], detail["plan"] = "CREATED", {}
    for vertex in detail["vertices"]:
        vertex |= {"status": "CREATED", "parallelism": 1}
    after = look_at(source).topology
    assert after.state == "created"
    assert [(spec.task, spec.inputs, spec.tied, spec.parallelism) for spec in after.tasks] == [
        (spec.task, spec.inputs, spec.tied, spec.parallelism) for spec in before.tasks
    ]


def test_a_job_that_another_jobmanager_takes_over_is_waited_for(flink: FakeFlink, source: FlinkSource) -> None:
    """It stays listed under its name, has no minute meanwhile, and then goes on as a job that has restarted."""
    flink.answers = json.loads(json.dumps(flink.answers))
    path = f"/jobs/{job_of(flink)}"
    flink.body(f"GET {path}/config")["execution-config"]["user-config"]["surescale.job"] = "shop"
    before = look_at(source, "flink/shop").topology
    entry = next(each for each in flink.body("GET /jobs/overview")["jobs"] if path.endswith(each["jid"]))
    known, entry["state"] = flink.answers[f"GET {path}/resource-requirements"], "INITIALIZING"
    said = "org.apache.flink.runtime.dispatcher.UnavailableDispatcherOperationException: Unable to get JobMasterGateway."
    flink.answers[f"GET {path}/resource-requirements"] = {"status": 500, "body": {"errors": ["Internal server error.", said]}}
    assert "flink/shop" in source.jobs()
    assert source.end_of(before) is None
    with pytest.raises(SourceUnavailable, match="Unable to get JobMasterGateway"):
        look_at(source, "flink/shop")
    entry["state"], flink.answers[f"GET {path}/resource-requirements"] = "RUNNING", known
    flink.body(f"GET {path}")["timestamps"]["CREATED"] += 60_000
    flink.body(f"GET {path}")["now"] += 120_000
    after = look_at(source, "flink/shop").topology
    assert (after.epoch, after.attempt) == (before.epoch, before.attempt + 60_000)
    assert [event.kind for event in source.events("") if event.job == "flink/shop"][-1] == "job_restarted"


def test_a_job_that_cannot_be_asked_to_rescale_is_only_watched() -> None:
    """Under the default scheduler, which answers some requests with an error of its own."""
    with fake_flink("2.3.0", "default-scheduler") as flink:
        running = FakeFlink("2.3.0", "running")
        own, other = job_of(flink, "orders"), job_of(running)
        figures = {request.replace(other, own): given for request, given in running.answers.items() if "/vertices/" in request}
        flink.answers = running.answers | flink.answers | figures
        scheduler = next(each for each in flink.body("GET /jobmanager/config") if each["key"] == "jobmanager.scheduler")
        scheduler["value"] = "default"
        for source in sources(flink):
            (job, *_) = source.jobs()
            look = look_at(source, job)
            assert not any(spec.scalable for spec in look.topology.tasks)
            assert source.cluster_topology().engine.acts == "none"


def test_a_restart_during_a_look_spoils_it(flink: FakeFlink, source: FlinkSource) -> None:
    """Counters of one graph must not count as another's."""
    path, times = f"/jobs/{job_of(flink)}", [0]

    def restarts(asked: StubRequest) -> StubResponse | None:
        if asked.path != path:
            return None
        times[0] += 1
        detail = json.loads(json.dumps(flink.body(f"GET {path}")))
        detail["timestamps"]["CREATED"] += times[0]
        return StubResponse(200, json.dumps(detail).encode())

    flink.instead = restarts
    with pytest.raises(SourceUnavailable, match="restarted during the look"):
        look_at(source)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (StubResponse(503, b""), "503"),
        (StubResponse(200, b"<html>login</html>"), "not an answer of Flink; set SURESCALE_ENGINE_URL"),
        (StubResponse(401, b"{}"), "SURESCALE_ENGINE_TOKEN_FILE"),
        (StubResponse(200, b'{"jobs": [{"jid": 3}]}'), "not an answer of Flink; set SURESCALE_ENGINE_URL"),
    ],
)
def test_what_is_no_answer_is_one_line(flink: FakeFlink, source: FlinkSource, given: StubResponse, says: str) -> None:
    """It names the address; the monitor goes on asking."""
    flink.instead = lambda _: given
    with pytest.raises(SourceUnavailable, match=says) as problem:
        source.jobs()
    assert "\n" not in str(problem.value)


def test_a_cluster_that_answers_by_half_is_away(flink: FakeFlink, source: FlinkSource) -> None:
    """A minute is whole, or it is none."""
    source.jobs()
    flink.instead = lambda asked: StubResponse(500, b"{}") if "/vertices/" in asked.path else None
    with pytest.raises(SourceUnavailable):
        source.follow(ORDERS).look()
    flink.instead = lambda _: None
    assert source.follow(ORDERS).look().samples


def test_a_job_that_has_gone_is_unknown_and_its_end_an_event(flink: FakeFlink, source: FlinkSource) -> None:
    """Said once, by the list of jobs: Flink keeps the answer on a single job for a while."""
    look_at(source)
    overview, flink_job = flink.body("GET /jobs/overview"), job_of(flink)
    next(job for job in overview["jobs"] if job["jid"] == flink_job).update({"state": "FAILED", "end-time": 77})
    for _ in range(2):
        with pytest.raises(UnknownJob, match="no live job"):
            look_at(source)
    assert [(event.at_ms, event.job) for event in source.events("") if event.kind == "job_failed"] == [(77, ORDERS)]


@pytest.mark.parametrize(("in_flink", "shown"), [("FAILED", "failed"), ("CANCELED", "finished"), ("", "finished")])
def test_a_job_that_has_gone_is_shown_as_ended(flink: FakeFlink, source: FlinkSource, in_flink: str, shown: str) -> None:
    """With its last graph, as a newer version; also if Flink has forgotten it."""
    last, overview = look_at(source).topology, flink.body("GET /jobs/overview")
    assert source.end_of(last) is None, "it runs"
    entry = next(job for job in overview["jobs"] if job["jid"] == job_of(flink))
    if in_flink:
        entry["state"] = in_flink
    else:
        overview["jobs"].remove(entry)
    assert source.end_of(last) is None, "nobody has asked Flink since"
    source.jobs()
    ended = source.end_of(last)
    assert ended is not None
    assert (ended.state, ended.tasks, ended.epoch) == (shown, last.tasks, last.epoch)
    assert ended.version > last.version
    check_topology(ended)
    others = [{"job": "other/orders"}, {"engine": "simulated"}]
    assert [source.end_of(msgspec.structs.replace(last, **other)) for other in others] == [None, None]


def submit_another(flink: FakeFlink) -> None:
    """Let a second job of the same name run."""
    overview, jid = flink.body("GET /jobs/overview"), "e" * 32
    overview["jobs"].append(next(job for job in overview["jobs"] if job["jid"] == job_of(flink)) | {"jid": jid})
    flink.answers[f"GET /jobs/{jid}/config"] = flink.answers[f"GET /jobs/{job_of(flink)}/config"]


def test_a_job_that_has_only_another_name_has_not_ended(
    flink: FakeFlink, source: FlinkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one of its name came, and stayed: both are listed under longer names."""
    monkeypatch.setattr(directory, "NEWCOMER_S", 0.0)
    last = look_at(source).topology
    submit_another(flink)
    assert ORDERS not in source.jobs()
    assert source.end_of(last) is None


def test_a_job_that_has_its_name_alone_again_has_no_other(
    flink: FakeFlink, source: FlinkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the longer one it has ended, and an event says how it is called; nobody waits for figures of it."""
    monkeypatch.setattr(directory, "NEWCOMER_S", 0.0)
    submit_another(flink)
    own = f"{ORDERS}~{job_of(flink)[:8]}"
    last = look_at(source, own).topology
    assert source.end_of(last) is None
    flink.body("GET /jobs/overview")["jobs"].pop()
    assert ORDERS in source.jobs()
    ended = source.end_of(last)
    assert ended is not None
    assert (ended.job, ended.state) == (own, "finished")
    (event,) = [each for each in source.events("") if each.kind == "job_stopped"]
    assert (event.job, event.detail) == (own, f"known as {ORDERS} again: it is the only job of that name")


def test_an_upgrade_is_a_new_epoch_of_the_same_job(flink: FakeFlink, source: FlinkSource) -> None:
    """Its counters count from 0 under a higher number."""
    before, old = look_at(source).topology, job_of(flink)
    new = "f" * 32
    for request in [each for each in flink.answers if old in each]:
        flink.answers[request.replace(old, new)] = json.loads(json.dumps(flink.answers[request]).replace(old, new))
    flink.body(f"GET /jobs/{new}")["timestamps"]["CREATED"] += 60_000
    next(job for job in flink.body("GET /jobs/overview")["jobs"] if job["jid"] == old)["jid"] = new
    after = look_at(source).topology
    assert (after.job, after.epoch) == (before.job, new)
    assert after.attempt == before.attempt + 60_000
    assert [event.detail for event in source.events("") if event.kind == "job_started"] == [old, new]


@pytest.mark.parametrize("version", ["1.20.5", "2.2.1", "2.3.0"])
def test_a_rescale_is_an_event_and_measured(version: str) -> None:
    """With its cause where Flink remembers it; a monitor that starts later finds the same there."""
    with fake_flink(version, "running") as flink:
        for source in sources(flink):
            assert look_at(source).topology.restart_ms is None
            flink.answers |= recorded(version, "rescaled")
            after = look_at(source).topology
            (event,) = (event for event in source.events("") if event.kind == "rescaled")
            assert event.detail.startswith("parse 1 -> 3, from checkpoint ")
            assert after.restart_ms is not None
            assert after.began_ms is not None
            assert after.began_ms > after.attempt  # the graph was made before it ran
            assert 0 < after.restart_ms < 10_000
            assert len([event for event in look_again(source) if event.kind == "rescaled"]) == 1
        remembers = version.startswith("2.3")
        assert (": its requirement was changed, down for 0." in event.detail) is remembers
        for source in sources(flink):
            later = look_at(source).topology
            assert [each for each in source.events("") if each.kind == "rescaled"] == ([event] if remembers else [])
            assert later.restart_ms == (after.restart_ms if remembers else None)


def test_the_checkpoint_of_a_rescale_is_told_once_flink_tells_it() -> None:
    """Its answer on checkpoints may be older than that on the job: until it is new, or ten seconds on, there is no event."""
    with fake_flink("2.3.0", "running") as flink:
        for source in sources(flink):
            look_at(source)
            asked = f"GET /jobs/{job_of(flink)}/checkpoints"
            flink.answers |= recorded("2.3.0", "rescaled")
            latest = flink.body(asked)["latest"]
            told = latest.pop("restored")
            look_at(source)
            assert [event for event in source.events("") if event.kind == "rescaled"] == []
            latest["restored"] = told
            look_at(source)
            (event,) = (event for event in source.events("") if event.kind == "rescaled")
            assert event.detail.startswith(f"parse 1 -> 3, from checkpoint {told['id']}: ")


def test_a_rescale_of_which_flink_tells_no_checkpoint_began_without_one() -> None:
    """It is an event when ten seconds have passed."""
    with fake_flink("2.3.0", "running") as flink:
        for source in sources(flink):
            look_at(source)
            flink.answers |= recorded("2.3.0", "rescaled")
            flink.body(f"GET /jobs/{job_of(flink)}/checkpoints")["latest"].pop("restored")
            flink.body(f"GET /jobs/{job_of(flink)}")["now"] += 10_000
            look_at(source)
            (event,) = (event for event in source.events("") if event.kind == "rescaled")
            assert event.detail.startswith("parse 1 -> 3, without a checkpoint: ")


def answer_metrics(flink: FakeFlink) -> None:
    """Let Flink answer for any choice of the metrics of a recording."""
    known = {each["id"]: each for asked, given in flink.answers.items() if "?get=" in asked for each in given["body"]}

    def chosen(asked: StubRequest) -> StubResponse | None:
        names = parse_qs(urlsplit(asked.path).query).get("get")
        if names is None:
            return None
        every = names[0].split(",")
        return StubResponse(200, json.dumps([known[name] for name in every] if set(every) <= set(known) else []).encode())

    flink.instead = chosen


def entered(source: FlinkSource) -> list[int]:
    """Return what entered through each subtask of the job of one vertex."""
    return [each.records_in for each in look_at(source, "flink/chained").samples]


@pytest.mark.parametrize("version", ["1.20.5", "2.2.1", "2.3.0"])
def test_a_job_of_one_vertex_lets_in_what_its_source_emits(version: str) -> None:
    """Such a vertex reads and writes nothing, as Flink counts, and the source does not count what it reads."""
    with fake_flink(version, "chained") as flink:
        answer_metrics(flink)
        for source in sources(flink):
            first = entered(source)
            assert len(first) == 2
            assert sum(first) > 10_000
            assert max(first) - min(first) <= 1
            asked = len(flink.asked)
            assert entered(source) == first
            once_more = [each.path for each in flink.asked[asked:] if "metrics?" in each.path and "Source__" in each.path]
            assert len(once_more) == 1


def test_while_operators_do_not_tell_nothing_is_known_of_their_vertex() -> None:
    """A counter that fell to 0 would look like a restart. Nor is anything known while a subtask is missing."""
    with fake_flink("2.3.0", "chained") as flink:
        answer_metrics(flink)
        for source in sources(flink):
            tells, first = flink.instead, entered(source)
            flink.instead = lambda asked: StubResponse(200, b"[]") if "/subtasks/metrics" in asked.path else None
            assert entered(source) == []
            flink.instead = tells
            vertex = next(given["body"] for asked, given in flink.answers.items() if asked.endswith(SOURCE))
            vertex["subtasks"][0]["status"] = "INITIALIZING"
            assert entered(source) == []
            vertex["subtasks"][0]["status"] = "RUNNING"
            assert entered(source) == first


def test_a_source_whose_vertex_counts_is_not_asked_twice(flink: FakeFlink, source: FlinkSource) -> None:
    """What it wrote into the next vertex is what it let in."""
    samples = look_at(source).samples
    assert [each.records_in for each in samples if each.task == SOURCE] == [
        each.records_out for each in samples if each.task == SOURCE
    ]
    assert not [each.path for each in flink.asked if "numRecords" in each.path]


def test_hosts_have_slots_and_come_and_go(flink: FakeFlink, source: FlinkSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flink has no units."""
    monkeypatch.setattr("surescale.engines.flink.source.HOSTS_KNOWN_FOR_S", -1.0)
    first = source.cluster_topology()
    (host,) = first.hosts
    assert (host.host, host.slots, host.units) == ("taskmanager-1", 4, ())
    assert (first.engine.engine, first.engine.version, first.engine.acts) == ("flink", "2.3.0", "counts")
    assert source.cluster_topology() == first
    managers = flink.body("GET /taskmanagers")["taskmanagers"]
    managers.append(managers[0] | {"id": "taskmanager-2"})
    assert len(source.cluster_topology().hosts) == 2
    del managers[0]
    assert source.cluster_topology().version > first.version
    happened = [(event.kind, event.host) for event in source.events("")]
    assert happened == [("host_joined", "taskmanager-2"), ("host_lost", "taskmanager-1")]


def test_a_job_whose_looks_broke_off_is_looked_at_again(source: FlinkSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody foresaw ends the watcher of its minute, and not the job's figures for good."""
    look, broken = FlinkJob.look, [ValueError("nobody foresaw this")]

    def breaks_once(job: FlinkJob) -> JobSnapshot:
        if broken:
            raise broken.pop()
        return look(job)

    monkeypatch.setattr(FlinkJob, "look", breaks_once)
    source.jobs()
    with pytest.raises(ValueError, match="nobody foresaw"):
        wait_until(lambda: source.minutes(ORDERS, 0), what="the error")
    wait_until(lambda: source.minutes(ORDERS, 0), what="a minute")


def test_events_have_ids_of_their_own(flink: FakeFlink) -> None:
    """A monitor that restarts gives the same event the same id and number, however late it finds it."""
    ids = []
    for _ in range(2):
        for source in sources(flink):
            look_at(source)
            ids.append([(event.event_id, event.sequence) for event in source.events("")])
    assert ids[0] == ids[1]
    assert len(ids[0]) >= 2


def test_looks_end_with_the_source(flink: FakeFlink) -> None:
    """No thread is left behind."""
    made: Callable[[], FlinkSource] = lambda: FlinkSource(  # noqa: E731
        MonitorSettings(engine="flink", engine_url=flink.url, cluster="flink"), QuickClock
    )
    source = made()
    source.jobs()
    source.minutes(ORDERS, 0)
    thread = next(each for each in threading.enumerate() if each.name == f"the looks at {ORDERS}")
    source.close()
    thread.join(10)
    assert not thread.is_alive()
