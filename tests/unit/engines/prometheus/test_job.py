"""Looks at a job through a fake Prometheus: what is asked, what the samples say, and what is held back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.contracts.messages import TaskSample
from surescale.engines.ports.event_log import EventLog
from surescale.engines.ports.minutes import JobSnapshot
from surescale.engines.ports.source import SourceUnavailable
from surescale.engines.processes.worker_store import Requirement
from surescale.engines.prometheus.client import PrometheusClient
from surescale.engines.prometheus.job import PrometheusJob
from surescale.engines.prometheus.jobs import read_jobs
from tests.support.fake_prometheus import FakePrometheus, fake_prometheus
from tests.support.set_clock import SetClock
from tests.support.stub_server import StubResponse

MINUTE = 60_000
START_MS = 1_700_000_040_000
FILE = """
[orders]
subtask = ["pod"]
[orders.tasks.parse]
[orders.tasks.count]
upstream = ["parse"]
[orders.figures]
records_in = "in"
records_out = "out"
busy = "busy"
queued = { query = "lag", subtask = [], over = ["partition"] }
arrived = { query = "ends", subtask = [], over = ["partition"] }
"""


class Watched:
    """A job, its clock, and the replicas that are asked for it."""

    def __init__(self, folder: Path, *replicas: FakePrometheus, text: str = FILE, requirement: Requirement | None = None) -> None:
        path = folder / "jobs.toml"
        path.write_text(text)
        (watched,) = read_jobs(path).values()
        self.clock, self.events, self.replicas = SetClock(START_MS - 500), EventLog("real"), replicas
        for each in replicas:
            each.now_s = lambda: self.clock.ms / 1000
        clients = [PrometheusClient(each.url, timeout_s=5) for each in replicas]
        self.job = PrometheusJob(
            "real/orders", watched, clients, "kafka", lambda _: requirement, lambda *_: "", self.events, self.clock
        )

    def look(self) -> JobSnapshot:
        """Look at the end of the present minute, and go on to the next one."""
        found = self.job.look()
        self.clock.ms += MINUTE
        return found

    def after(self, **figures: dict[str, float]) -> dict[tuple[str, int], TaskSample]:
        """Return the samples of a look, by task and subtask, after setting figures: names of pods with values."""
        for each in self.replicas:
            show(each, **figures)
        return {(sample.task, sample.subtask): sample for sample in self.look().samples}


def show(prometheus: FakePrometheus, **figures: dict[str, float]) -> None:
    """Let series be shown. A pod's name begins with its task's; what has a colon is TASK:PARTITION."""
    for name, values in figures.items():
        prometheus.series[name] = [
            ({"task": each.partition(":")[0], "partition": each.partition(":")[2]}, value)
            if ":" in each
            else ({"task": each.rstrip("0123456789"), "pod": each, "instance": each, "job": "w"}, value)
            for each, value in values.items()
        ]


@pytest.fixture
def prometheus() -> Iterator[FakePrometheus]:
    """One replica, with figures of two tasks."""
    with fake_prometheus() as played:
        show(
            played,
            **{"in": {"parse1": 100, "parse2": 200, "count1": 50}, "out": {"parse1": 100, "parse2": 200, "count1": 1}},
            busy={"parse1": 10, "parse2": 20, "count1": 5},
            lag={"parse:0": 7, "parse:1": 4},
            ends={"parse:0": 1_000, "parse:1": 500},
        )
        yield played


def test_the_first_look_only_notes_where_the_counters_stand(tmp_path: Path, prometheus: FakePrometheus) -> None:
    """Their past says nothing of this minute."""
    look = Watched(tmp_path, prometheus).look()
    assert look.samples == ()
    assert [(spec.task, spec.parallelism, spec.upstream) for spec in look.topology.tasks] == [
        ("parse", 2, ()),
        ("count", 1, ("parse",)),
    ]


def test_a_look_asks_once_a_figure_at_the_end_of_the_minute(tmp_path: Path, prometheus: FakePrometheus) -> None:
    """Not once a task, and at the same time however late it is."""
    watched = Watched(tmp_path, prometheus)
    watched.clock.ms += 7_000
    watched.job.look()
    assert [at_s for query, at_s in prometheus.queries if query != "time()"] == [START_MS / 1000] * 5


def test_samples_say_what_grew_and_what_waits(tmp_path: Path, prometheus: FakePrometheus) -> None:
    """Busy seconds become milliseconds, a task's waiting records are divided, unknown figures are null."""
    watched = Watched(tmp_path, prometheus)
    watched.look()
    first = sum(each.arrived_records or 0 for each in watched.after().values())
    found = watched.after(
        **{"in": {"parse1": 160, "parse2": 290, "count1": 50}},
        busy={"parse1": 40, "parse2": 20.5, "count1": 5},
        ends={"parse:0": 1_100, "parse:1": 550},
    )
    one = found["parse", 0]
    assert (one.records_in, one.records_out, one.busy_ms, one.queued_records, one.parallelism) == (60, 0, 30_000, 6, 2)
    assert found["parse", 1].busy_ms == 500
    assert (one.idle_ms, one.backpressured_ms, one.watermark_lag_ms) == (None, None, None)
    assert sum(found["parse", index].arrived_records or 0 for index in (0, 1)) - first == 150
    assert found["count", 0].arrived_records is None
    assert found["count", 0].queued_records is None
    assert [(each.task, each.records) for each in found["count", 0].received] == [("parse", 0)]
    assert one.as_of_ms == START_MS + 2 * MINUTE - 5_000


def test_a_new_subtask_begins_a_new_attempt(tmp_path: Path, prometheus: FakePrometheus) -> None:
    """Of the whole job, with what grew since the look before."""
    watched = Watched(tmp_path, prometheus)
    watched.look()
    before = watched.after(**{"in": {"parse1": 160, "parse2": 290, "count1": 50}})
    after = watched.after(**{"in": {"parse1": 170, "parse2": 300, "count1": 60, "count2": 5}})
    assert after["count", 0].attempt > before["count", 0].attempt
    assert (after["parse", 0].records_in, after["count", 1].records_in, after["count", 1].parallelism) == (10, 0, 2)
    assert [event.kind for event in watched.events.after("")] == ["job_started", "rescaled"]
    assert watched.events.after("")[-1].detail == "count 1 -> 2"


def test_a_counter_that_begins_anew_is_a_restart(tmp_path: Path, prometheus: FakePrometheus) -> None:
    """The number of subtasks is as before."""
    watched = Watched(tmp_path, prometheus)
    watched.look()
    found = watched.after(**{"in": {"parse1": 12, "parse2": 290, "count1": 50}})
    assert (found["parse", 0].records_in, found["parse", 1].records_in) == (12, 90)
    assert [event.kind for event in watched.events.after("")] == ["job_started", "job_restarted"]


def test_a_missing_subtask_is_unknown_before_it_is_gone(tmp_path: Path, prometheus: FakePrometheus) -> None:
    """No task shrinks because an exporter was away for two minutes."""
    watched = Watched(tmp_path, prometheus)
    watched.look()
    for expected in (2, 2, 1):
        found = watched.after(**{"in": {"parse1": 160, "count1": 50}})
        assert ("parse", 1) not in found
        assert found["parse", 0].parallelism == expected


def test_a_subtask_whose_target_is_down_is_not_gone(tmp_path: Path, prometheus: FakePrometheus) -> None:
    """Prometheus is asked what it cannot scrape, only while somebody is missing."""
    watched = Watched(tmp_path, prometheus)
    watched.look()
    assert "up == 0" not in [query for query, _ in prometheus.queries]
    prometheus.series["up == 0"] = [({"job": "w", "instance": "parse2"}, 0.0)]
    for _ in range(5):
        found = watched.after(**{"in": {"parse1": 160, "count1": 50}})
        assert found["parse", 0].parallelism == 2


def test_the_next_replica_is_asked_when_one_does_not_answer(tmp_path: Path, prometheus: FakePrometheus) -> None:
    """It scraped a little earlier: what it shows was counted already, and is no new beginning."""
    with fake_prometheus() as second:
        watched = Watched(tmp_path, prometheus, second)
        watched.look()
        watched.after(**{"in": {"parse1": 160, "parse2": 290, "count1": 50}}, out={"parse1": 1, "parse2": 1, "count1": 1})
        second.series = {**prometheus.series}
        show(second, **{"in": {"parse1": 150, "parse2": 280, "count1": 50}})
        second.age_s = 70.0
        prometheus.instead = lambda _: StubResponse(503, b"{}")
        found = {(sample.task, sample.subtask): sample for sample in watched.look().samples}
        assert found["parse", 0].records_in == 60
        assert len({event.event_id for event in watched.events.after("")}) == 2  # the start, and the outputs that fell at first


AWAY = {
    "is away": "does not answer as Prometheus does",
    "clock behind": "is 3600 s behind this machine's; set both",
    "clock ahead": "is 3600 s ahead of this machine's; set both",
    "no series": r"no series of task count \(task='count'\); start it, or correct series, select or figures.records_in",
    "late": r"has no series of task parse .* now, but 60 minutes ago it had: look at its targets",
    "old": r"last scraped task parse \(task='parse'\) 300 s ago; let it scrape every minute or more often",
    "two series": r"orders\.figures\.busy: two series for task parse subtask parse1.*select one",
    "bad expression": r"orders\.figures\.queued: Prometheus says parse error",
}


@pytest.mark.parametrize("kind", AWAY)
def test_what_cannot_be_used_is_one_line_and_no_minute(tmp_path: Path, prometheus: FakePrometheus, kind: str) -> None:
    """With what to do; the job is held."""
    watched = Watched(tmp_path, prometheus)
    watched.look()
    written = {name: list(found) for name, found in prometheus.series.items()}
    match kind:
        case "is away":
            prometheus.instead = lambda _: StubResponse(200, b"<html>")
        case "clock behind":
            prometheus.ahead_s = -3_600.0
        case "clock ahead":
            prometheus.ahead_s = 3_600.0
        case "no series":
            prometheus.series["in"] = [each for each in written["in"] if each[0]["task"] != "count"]
        case "late":
            asked = watched.clock.ms / 1000 - 1_800
            prometheus.only_before_s = asked
        case "old":
            prometheus.age_s = 300.0
        case "two series":
            prometheus.series["busy"] = [*written["busy"], ({**written["busy"][0][0], "replica": "b"}, 9.0)]
        case "bad expression":
            error = b'{"status":"error","errorType":"bad_data","error":"parse error"}'
            prometheus.instead = lambda query: StubResponse(400, error) if query.startswith("(lag)") else None
    with pytest.raises(SourceUnavailable, match=AWAY[kind]) as away:
        watched.look()
    assert str(away.value).startswith("real/orders: ")
    assert str(away.value).endswith("; until then its figures are unknown and it is held")
    assert str(away.value).isprintable()
    prometheus.instead, prometheus.ahead_s, prometheus.age_s, prometheus.only_before_s = lambda _: None, 0.0, 5.0, None
    prometheus.series = written
    assert len(watched.look().samples) == 3


def test_a_figure_without_series_stays_unknown_and_is_told_once(
    tmp_path: Path, prometheus: FakePrometheus, caplog: pytest.LogCaptureFixture
) -> None:
    """And so is a task that the file does not know."""
    watched = Watched(tmp_path, prometheus)
    watched.look()
    prometheus.series["in"].append(({"task": "sink", "pod": "sink1"}, 1.0))
    for _ in range(2):
        assert watched.after(busy={})["parse", 0].busy_ms is None
    assert [record.message.partition(": ")[2] for record in caplog.records] == [
        "Prometheus has series of 'sink', which is not a task of the job; name it in SURESCALE_PROMETHEUS_FILE",
        "figures.busy gives no series: it stays unknown; correct its query, or leave it out",
    ]


def test_numbered_subtasks_with_a_gap_are_held(tmp_path: Path, prometheus: FakePrometheus) -> None:
    """Flink numbers its subtasks: one that is not scraped can be told from one that does not run."""
    text = '[orders]\nmapping = "flink"\n[orders.tasks.parse]\n'
    watched = Watched(tmp_path, prometheus, text=text)
    query = 'flink_taskmanager_job_task_numRecordsIn{task_name=~"parse"}'
    prometheus.series[query] = [({"task_name": "parse", "subtask_index": each}, 1.0) for each in ("0", "2")]
    with pytest.raises(SourceUnavailable, match="series of subtask 2 and none of subtask 1; let Prometheus scrape every process"):
        watched.look()


def test_a_source_that_counts_nothing_in_has_let_in_what_it_wrote(tmp_path: Path, prometheus: FakePrometheus) -> None:
    """Some sources of Flink are like that."""
    watched = Watched(tmp_path, prometheus, text='[orders]\nmapping = "flink"\n[orders.tasks.parse]\n')
    for value in (100.0, 130.0):
        for metric, counted in (("numRecordsIn", 0.0), ("numRecordsOut", value)):
            query = f'flink_taskmanager_job_task_{metric}{{task_name=~"parse"}}'
            prometheus.series[query] = [({"task_name": "parse", "subtask_index": "0"}, counted)]
        samples = watched.look().samples
    assert [(sample.records_in, sample.records_out) for sample in samples] == [(30, 30)]


def test_a_group_that_only_an_exporter_shows_is_divided_among_its_members(tmp_path: Path, prometheus: FakePrometheus) -> None:
    """And has none when the exporter says so: then it is suspended."""
    text = '[orders]\nmapping = "kafka-exporter"\n[orders.tasks.parse]\nreads = ["orders"]\n'
    watched = Watched(tmp_path, prometheus, text=text, requirement=Requirement("e", 3, {"parse": 4}))

    def group(done: float, members: float) -> JobSnapshot:
        offsets, lag = "kafka_consumergroup_current_offset", "kafka_consumergroup_lag"
        of_group = {"consumergroup": "parse", "topic": "orders"}
        for metric, value in ((offsets, done), (lag, 5.0)):
            prometheus.series[f'{metric}{{consumergroup=~"parse"}}'] = [
                ({**of_group, "partition": each}, value) for each in ("0", "1", "2")
            ]
        prometheus.series['kafka_consumergroup_members{consumergroup=~"parse"}'] = [({"consumergroup": "parse"}, members)]
        prometheus.series['kafka_topic_partition_current_offset{topic=~"orders"}'] = [
            ({"topic": "orders", "partition": each}, done + 5.0) for each in ("0", "1", "2")
        ]
        return watched.look()

    group(90.0, 2)
    before = sum(each.arrived_records or 0 for each in group(100.0, 2).samples)
    look = group(110.0, 2)
    assert [(each.records_in, each.queued_records, each.backpressured_ms) for each in look.samples] == [(30, 8, 0), (30, 7, 0)]
    assert sum(each.arrived_records or 0 for each in look.samples) - before == 30
    assert (look.topology.tasks[0].required, look.topology.requirement_id) == (4, "e/3")
    looks = [group(110.0, 0) for _ in range(3)]
    assert [each.topology.state for each in looks] == ["running", "running", "suspended"]
    assert (looks[-1].samples, looks[-1].topology.tasks[0].parallelism) == ((), 2)
    assert "start its workers" in looks[-1].topology.tasks[0].hindrance
