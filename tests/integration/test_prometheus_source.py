"""A real Prometheus as a source: counters that grow and start over, targets that go down, expressions, the ready mappings."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from faust.sensors.prometheus import FaustMetrics
from prometheus_client import CollectorRegistry, generate_latest

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import TaskSample
from surescale.engines.ports.minutes import JobSnapshot
from surescale.engines.ports.source import Source, SourceUnavailable
from surescale.engines.prometheus.job import PrometheusJob
from surescale.engines.prometheus.mappings import MAPPINGS, MappingName
from surescale.engines.prometheus.source import PrometheusSource
from surescale.monitor.settings import MonitorSettings
from tests.ports.source_contract import SourceContract, after_three_minutes
from tests.support.fake_flink import QuickClock
from tests.support.live_prometheus import SCRAPED_AS, LivePrometheus, binary
from tests.support.role_settings import role_settings
from tests.support.set_clock import SetClock
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
if not binary()[0]:
    pytest.skip(f"a real Prometheus: {binary()[1]}", allow_module_level=True)

JOB = "real/orders"
WORKERS = ("parse1", "parse2", "count1")
FILE = """
[orders]
subtask = ["instance"]
fresh_s = 3600
[orders.tasks.parse]
[orders.tasks.count]
upstream = ["parse"]
[orders.figures]
records_in = 'records_in_total{task=~"$tasks"}'
records_out = 'records_out_total{task=~"$tasks"}'
busy = 'busy_seconds_total{task=~"$tasks"}'
"""
SHOWN: dict[MappingName, str] = {
    "flink": "\n".join(
        f'flink_taskmanager_job_task_{metric}{{job_name="j",task_name="parse",subtask_index="{index}",host="h"}} VALUE'
        for index in (0, 1)
        for metric in (
            "numRecordsIn",
            "numRecordsOut",
            "numBytesIn",
            "numBytesOut",
            "accumulateBusyTimeMs",
            "accumulateIdleTimeMs",
            "accumulateBackPressuredTimeMs",
        )
    )
    + '\nflink_taskmanager_job_task_buffers_inPoolUsage{task_name="parse",subtask_index="0"} 0.5'
    + '\nflink_taskmanager_job_task_buffers_outPoolUsage{task_name="parse",subtask_index="0"} 0.25',
    "kafka-exporter": """
kafka_consumergroup_current_offset{consumergroup="parse",topic="orders",partition="0"} VALUE
kafka_consumergroup_lag{consumergroup="parse",topic="orders",partition="0"} 5
kafka_consumergroup_members{consumergroup="parse"} 2
kafka_topic_partition_current_offset{topic="orders",partition="0"} VALUE
kafka_topic_partition_current_offset{topic="parsed",partition="0"} VALUE
""",
    "kafka-lag-exporter": """
kafka_consumergroup_group_offset{cluster_name="c",group="parse",topic="orders",partition="0",consumer_id="x",client_id="x"} VALUE
kafka_consumergroup_group_lag{cluster_name="c",group="parse",topic="orders",partition="0",consumer_id="x",client_id="x"} 5
kafka_consumergroup_group_lag{cluster_name="c",group="parse",topic="orders",partition="1",consumer_id="y",client_id="y"} 0
kafka_consumergroup_group_max_lag_seconds{cluster_name="c",group="parse"} 2.5
kafka_partition_latest_offset{cluster_name="c",topic="orders",partition="0"} VALUE
kafka_partition_latest_offset{cluster_name="c",topic="parsed",partition="0"} VALUE
""",
    "kafka-streams": """
kafka_streams_stream_thread_metrics_process_total{thread_id="t-1"} VALUE
kafka_streams_stream_thread_metrics_process_total{thread_id="t-2"} VALUE
kafka_streams_stream_thread_metrics_blocked_time_ns_total{thread_id="t-1"} 1e9
kafka_streams_stream_thread_metrics_blocked_time_ns_total{thread_id="t-2"} 1e9
kafka_streams_stream_thread_metrics_thread_start_time{thread_id="t-1"} 1.7e12
kafka_streams_stream_thread_metrics_thread_start_time{thread_id="t-2"} 1.7e12
kafka_producer_producer_topic_metrics_record_send_total{client_id="p",topic="parsed"} VALUE
kafka_consumer_consumer_fetch_manager_metrics_records_lag{client_id="c",topic="orders",partition="0"} 5
""",
}


class Watched:
    """A job of a live Prometheus, under a clock that a test sets: the next end of a minute, and later ones."""

    def __init__(self, prometheus: LivePrometheus, folder: Path, text: str = FILE, urls: str = "") -> None:
        (folder / "jobs.toml").write_text(text)
        self.source = PrometheusSource(settings(prometheus, folder, urls), lambda _: self.clock)
        self.clock = SetClock((prometheus.now_ms() // MINUTE_MS + 1) * MINUTE_MS)
        self.job: PrometheusJob = self.source.follow(JOB)

    def look(self) -> JobSnapshot:
        """Look at the end of the present minute, and go on to the next one."""
        look = self.job.look()
        self.clock.ms += MINUTE_MS
        return look

    def samples_if_any(self) -> tuple[TaskSample, ...]:
        """Return the samples of a look; none, and the minute stays, while Prometheus has no series of the job."""
        try:
            return self.look().samples
        except SourceUnavailable:
            return ()

    def samples(self) -> dict[tuple[str, int], TaskSample]:
        """Return the samples of a look, by task and subtask."""
        return {(sample.task, sample.subtask): sample for sample in self.look().samples}


def settings(prometheus: LivePrometheus, folder: Path, urls: str = "") -> MonitorSettings:
    """Return the settings of a monitor that asks it, or all of these addresses."""
    file = str(folder / "jobs.toml")
    return role_settings(
        MonitorSettings,
        engine="kafka",
        source="prometheus",
        cluster="real",
        prometheus_url=urls or prometheus.url,
        prometheus_file=file,
    )


def worker(task: str, records: int, busy_s: float) -> str:
    """Return what a worker shows."""
    shown = {"records_in_total": records, "records_out_total": records * 2, "busy_seconds_total": busy_s}
    return "\n".join(f'{name}{{task="{task}"}} {value}' for name, value in shown.items())


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LivePrometheus, LivePrometheus]]:
    """Two servers that scrape three workers; the first one also scrapes a target for each mapping."""
    folders = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    first = LivePrometheus(folders[0], [*WORKERS, *MAPPINGS])
    with first, LivePrometheus(folders[1], WORKERS, replica_of=first) as second:
        yield first, second


@pytest.fixture(scope="module")
def prometheus(replicas: tuple[LivePrometheus, LivePrometheus]) -> LivePrometheus:
    """The first of the two."""
    return replicas[0]


def show(prometheus: LivePrometheus, parse1: int, parse2: int, count1: int, busy_s: float = 1.0) -> None:
    """Let the workers show these records, and wait until that is scraped."""
    for name, value in zip(WORKERS, (parse1, parse2, count1), strict=True):
        target = prometheus.targets[name]
        target.text, target.is_up = worker(name.rstrip("12"), value, busy_s), True
    await_scraped(prometheus, parse1, parse2, count1)


def await_scraped(prometheus: LivePrometheus, *records: int) -> None:
    """Wait until these records of the workers are scraped."""
    for name, value in zip(WORKERS, records, strict=True):
        prometheus.scraped(f'records_in_total{{instance="{prometheus.targets[name].instance}"}}', value)


def test_counters_are_followed_through_growth_and_a_new_beginning(prometheus: LivePrometheus, tmp_path: Path) -> None:
    """With the time of the scrape."""
    show(prometheus, 1_000, 2_000, 10)
    watched = Watched(prometheus, tmp_path)
    assert watched.look().samples == ()
    show(prometheus, 1_300, 2_050, 20, busy_s=31.5)
    found = watched.samples()
    assert sorted(found) == [("count", 0), ("parse", 0), ("parse", 1)]
    assert {found["parse", index].records_in for index in (0, 1)} == {300, 50}
    assert sum(found["parse", index].records_out for index in (0, 1)) == 700
    assert {sample.busy_ms for sample in found.values()} == {30_500}
    as_of_ms = found["count", 0].as_of_ms
    assert as_of_ms is not None
    assert 0 <= prometheus.now_ms() - as_of_ms < 60_000
    before = found["count", 0].attempt
    show(prometheus, 40, 2_150, 20, busy_s=32.5)
    found = watched.samples()
    assert {found["parse", index].records_in for index in (0, 1)} == {40, 100}
    assert found["count", 0].attempt > before


def test_a_target_that_is_down_is_unknown_and_not_gone(prometheus: LivePrometheus, tmp_path: Path) -> None:
    """Prometheus says that it cannot scrape it, however long."""
    show(prometheus, 100, 100, 100)
    watched = Watched(prometheus, tmp_path)
    watched.look()
    target = prometheus.targets["parse2"]
    target.is_up = False
    prometheus.scraped(f'up{{instance="{target.instance}"}}', 0)
    for _ in range(4):
        found = watched.samples()
        assert [sample.parallelism for each, sample in found.items() if each[0] == "parse"] == [2]
    target.is_up = True
    prometheus.scraped(f'up{{instance="{target.instance}"}}', 1)
    assert len(watched.samples()) == 3


BUSY = "'busy_seconds_total{task=~\"$tasks\"}'"


def test_a_replica_goes_on_where_another_one_ended(replicas: tuple[LivePrometheus, LivePrometheus], tmp_path: Path) -> None:
    """Nothing is counted twice, and nobody seems to have started over, though the two scrape at different moments."""
    staying, ending = replicas
    show(staying, 5_000, 6_000, 7_000)
    await_scraped(ending, 5_000, 6_000, 7_000)
    watched = Watched(ending, tmp_path, urls=f"{ending.url},{staying.url}")
    watched.look()
    show(staying, 5_100, 6_200, 7_300)
    await_scraped(ending, 5_100, 6_200, 7_300)
    before = watched.samples()
    ending.end()
    after = watched.samples()
    assert {sample.records_in for sample in before.values()} == {100, 200, 300}
    assert {(key, sample.records_in, sample.attempt) for key, sample in after.items()} == {
        (key, sample.records_in, sample.attempt) for key, sample in before.items()
    }


@pytest.mark.parametrize(
    ("busy", "said"),
    [
        ("'busy_seconds_total{'", "Prometheus says .*parse error.*; correct it: counters themselves"),
        ("'busy_seconds_total[1m]'", "Prometheus says .*; correct it: counters themselves"),
        ("'busy_seconds_total * on (job) up'", "Prometheus says .*many-to-many"),
        ("'scalar(up)'", "Prometheus says .*; correct it"),
        ("{ query = 'busy_seconds_total', subtask = ['job'] }", "two series for task parse subtask workers: .* select one"),
        ("{ query = 'busy_seconds_total', task = 'stage' }", "has no label 'stage' that names the task; set task to one"),
    ],
)
def test_an_expression_that_cannot_be_used_is_one_line(prometheus: LivePrometheus, tmp_path: Path, busy: str, said: str) -> None:
    """With the figure, the reason and what to do; the job is held."""
    show(prometheus, 100, 100, 100)
    assert BUSY in FILE
    watched = Watched(prometheus, tmp_path, FILE.replace(BUSY, busy))
    with pytest.raises(
        SourceUnavailable, match=rf"^real/orders: SURESCALE_PROMETHEUS_FILE: orders\.figures\.busy: .*{said}.*held$"
    ) as away:
        watched.look()
    assert "\n" not in str(away.value)


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_ready_mapping_gives_figures(prometheus: LivePrometheus, tmp_path: Path, name: MappingName) -> None:
    """Every expression of it can be evaluated; records are counted, and nothing that is shown stays unknown."""
    target = prometheus.targets[name]
    label = "series = '" + SCRAPED_AS + "'" if MAPPINGS[name].task == "job" else ""
    text = (
        f'[orders]\nmapping = "{name}"\nfresh_s = 3600\n[orders.tasks.parse]\n{label}\nreads = ["orders"]\nwrites = ["parsed"]\n'
    )
    watched = Watched(prometheus, tmp_path, text)
    for value in (100, 160):
        target.text = faust_text(value) if name == "faust" else SHOWN[name].replace("VALUE", str(value))
        target.text += f"\nshown_{name.replace('-', '_')} {value}"
        prometheus.scraped(f"shown_{name.replace('-', '_')}", value)
        samples = wait_until(watched.samples_if_any, what="the series to be there for queries, too")
    assert len(samples) == (1 if name == "faust" else 2)
    assert sum(sample.records_in for sample in samples) in (60, 120)
    assert sum(sample.records_out for sample in samples) in (60, 120)
    figures = MAPPINGS[name].figures
    assert all((sample.busy_ms is not None) == ("busy" in figures) for sample in samples)
    assert all((sample.queued_records is not None) == ("queued" in figures) for sample in samples)
    assert all((sample.arrived_records is not None) == ("arrived" in figures) for sample in samples)
    assert sum(sample.queued_records or 0 for sample in samples) == (5 if "queued" in figures else 0)


def faust_text(value: int) -> str:
    """Return what Faust's own metrics show."""
    registry = CollectorRegistry()
    metrics = FaustMetrics.create(registry, "app")
    metrics.messages_received.inc(value)
    metrics.events_runtime_latency.observe(value)
    metrics.topic_messages_sent.labels(topic="topic.parsed").inc(value)
    metrics.topic_partition_end_offset.labels(topic="orders", partition="0").set(value + 5)
    metrics.topic_partition_offset_commited.labels(topic="orders", partition="0").set(value)
    return generate_latest(registry).decode()


@pytest.fixture(scope="module")
def live_source(prometheus: LivePrometheus, tmp_path_factory: pytest.TempPathFactory) -> Source:
    """The source of a job with two tasks."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "jobs.toml").write_text(FILE)
    show(prometheus, 100, 100, 100)
    # Prometheus knows nothing of the minutes before it was started.
    begin_ms = (prometheus.now_ms() // MINUTE_MS + 1) * MINUTE_MS
    return after_three_minutes(PrometheusSource(settings(prometheus, folder), lambda closed: QuickClock(closed, begin_ms)))


class TestLivePrometheus(SourceContract):
    """What every source owes the monitor, under a clock that runs faster."""

    @pytest.fixture
    def source(self, live_source: Source) -> Source:
        """Three minutes of one job."""
        return live_source
