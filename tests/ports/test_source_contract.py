"""What the monitor may rely on, whatever its source: one suite, run for each of them."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import pytest

from contracts.messages import MinuteMarker
from contracts.topology import check_topology
from contracts.wire import encode
from monitor.settings import MonitorSettings
from monitor.sources.base import Source, UnknownJob
from monitor.sources.consumer_group.source import ConsumerGroupSource
from monitor.sources.engine import EngineSource
from monitor.sources.flink.source import FlinkSource
from monitor.sources.prometheus.source import PrometheusSource
from monitor.sources.trace import TraceSource
from runtime.ports import free_port
from tests.conftest import KafkaForTests
from tests.support.engine_stub import CLUSTER, EVENT, HISTORY, MINUTE, EngineStub, job_chain, sample_of
from tests.support.live_groups import LiveChain
from tests.support.played_flink import QuickClock, played
from tests.support.played_prometheus import played_prometheus
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.live_flink import LiveFlink


Looked = TypeVar("Looked", FlinkSource, ConsumerGroupSource, PrometheusSource)


class SourceContract:
    """The suite. A subclass gives a source with at least one job of at least three finished minutes."""

    @pytest.fixture
    def source(self) -> Iterator[Source]:
        """The source under test."""
        raise NotImplementedError("a subclass gives its source: override this fixture")

    def test_jobs_are_listed_by_sorted_ids(self, source: Source) -> None:
        """Ids have the form cluster/name."""
        jobs = source.jobs()
        assert jobs == sorted(jobs)
        assert jobs
        assert all(job.count("/") == 1 for job in jobs)

    def test_minutes_come_one_after_the_other(self, source: Source) -> None:
        """Oldest first, none left out, none twice."""
        ends = [minute.minute_end_ms for minute in source.minutes(source.jobs()[0], 0)]
        assert len(ends) >= 3
        assert ends == list(range(ends[0], ends[-1] + 1, MINUTE))
        assert ends[0] % MINUTE == 0

    def test_only_later_minutes_are_given(self, source: Source) -> None:
        """The end of a minute given before leads to the next one."""
        job = source.jobs()[0]
        first, second, *_ = source.minutes(job, 0)
        assert source.minutes(job, first.minute_end_ms)[0] == second
        assert source.minutes(job, 2**52) == []

    def test_samples_lie_within_their_minute(self, source: Source) -> None:
        """After its beginning, at latest at its end; of the job asked for and of tasks in the topology."""
        job = source.jobs()[0]
        for minute in source.minutes(job, 0):
            tasks = {spec.task for spec in minute.topology.tasks}
            assert minute.samples
            for sample in minute.samples:
                assert minute.minute_end_ms - MINUTE < sample.sampled_at_ms <= minute.minute_end_ms
                assert sample.job == job
                assert sample.task in tasks

    def test_topologies_are_sound(self, source: Source) -> None:
        """Each minute carries its job's graph."""
        job = source.jobs()[0]
        for minute in source.minutes(job, 0):
            check_topology(minute.topology)
            assert minute.topology.job == job

    def test_the_load_before_is_ordered_by_hour(self, source: Source) -> None:
        """Oldest first, each hour once."""
        hours = [hour.hour_start_ms for hour in source.load_history(source.jobs()[0])]
        assert hours == sorted(set(hours))

    def test_events_go_on_where_the_reader_was(self, source: Source) -> None:
        """After all of them there are none. Whoever asks after an event that is not known gets all of them."""
        events = source.events("")
        assert events
        assert len({event.identity for event in events}) == len(events)
        assert source.events(events[0].identity) == events[1:]
        assert source.events(events[-1].identity) == []
        assert source.events("another engine's") == events

    def test_an_unknown_job_is_named(self, source: Source) -> None:
        """It is an error of its own, because asking again does not help."""
        with pytest.raises(UnknownJob, match="nobody"):
            source.minutes("sim/nobody", 0)


class TestTraceSource(SourceContract):
    """A recording."""

    @pytest.fixture
    def source(self) -> Source:
        """Three minutes of two jobs, interleaved."""
        lines = [encode(CLUSTER), encode(EVENT), b""]
        for minute in (1, 2, 3):
            for job in ("sim/views", "sim/clicks"):
                marker = MinuteMarker(job=job, minute_end_ms=minute * MINUTE, topology=job_chain(job), load_history=HISTORY)
                lines += [encode(sample_of(job, minute)), encode(marker)]
        return TraceSource(lines, "recording")


class TestEngineSource(SourceContract):
    """The client, on a small engine with minutes written by hand."""

    @pytest.fixture
    def source(self) -> Iterator[Source]:
        """Three minutes of two jobs."""
        with EngineStub() as engine:
            for job in ("sim/views", "sim/clicks"):
                engine.add_minutes(job, range(1, 4))
            yield EngineSource(engine.url)


@pytest.fixture(scope="module")
def simulated_engine() -> Iterator[Source]:
    """The client of an engine that has run a few minutes."""
    port = free_port()
    options = ["--bootstrap", "none", "--pace", "free", "--job", "j_2521346", "--minutes", "6", "--speed", "20000"]
    command = [sys.executable, "-m", "services.cli", "engine", "--port", str(port), *options]
    with subprocess.Popen(command) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: _is_started(url), what="the engine")
            source = EngineSource(url)
            wait_until(lambda: len(source.minutes("sim/j_2521346", 0)) == 6, what="six minutes")
            yield source
        finally:
            process.terminate()
            process.wait(10)


@pytest.mark.integration
class TestSimulatedEngine(SourceContract):
    """The client, on the real ``surescale engine``."""

    @pytest.fixture
    def source(self, simulated_engine: Source) -> Source:
        """Six minutes of one job."""
        return simulated_engine


@pytest.fixture(scope="module", params=["1.20.5", "2.2.1", "2.3.0"])
def played_source(request: pytest.FixtureRequest) -> Iterator[Source]:
    """The source of a recorded cluster with three jobs."""
    with played(request.param, "running") as flink:
        source = FlinkSource(MonitorSettings(engine="flink", engine_url=flink.url, cluster="flink"), QuickClock)
        yield after_three_minutes(source)


class TestPlayedFlink(SourceContract):
    """Flink, as recorded, looked at under a clock that runs faster."""

    @pytest.fixture
    def source(self, played_source: Source) -> Source:
        """Three minutes of the first job."""
        return played_source


PROMETHEUS_FILE = """
[shop]
subtask = ["pod"]
fresh_s = 3600
[shop.tasks.parse]
[shop.figures]
records_in = "done_total"
"""


@pytest.fixture(scope="module")
def played_series(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """The source of a played Prometheus with one job."""
    file = tmp_path_factory.mktemp("prometheus") / "jobs.toml"
    file.write_text(PROMETHEUS_FILE)
    with played_prometheus() as prometheus:
        prometheus.series["done_total"] = [({"task": "parse", "pod": pod}, 5.0) for pod in "ab"]
        settings = MonitorSettings(
            engine="kafka", source="prometheus", cluster="real", prometheus_url=prometheus.url, prometheus_file=str(file)
        )
        yield after_three_minutes(PrometheusSource(settings, QuickClock))


class TestPlayedPrometheus(SourceContract):
    """Prometheus, as played, looked at under a clock that runs faster. tests/integration has a real one."""

    @pytest.fixture
    def source(self, played_series: Source) -> Source:
        """Three minutes of one job."""
        return played_series


@pytest.fixture(scope="module")
def live_source(flink: "LiveFlink") -> Iterator[Source]:
    """The source of a real cluster with one job."""
    with flink.job(parse_rounds=1000, parse_wait_micros=200) as job:
        job.send(100)
        settings = MonitorSettings(
            engine="flink", engine_url=flink.rest_url, cluster="flink", source_bootstrap=flink.bootstrap, jobs=job.name
        )
        source = FlinkSource(settings, QuickClock)
        yield after_three_minutes(source)


@pytest.mark.integration
@pytest.mark.flink
class TestLiveFlink(SourceContract):
    """A real Flink, looked at under a clock that runs faster."""

    @pytest.fixture
    def source(self, live_source: Source) -> Source:
        """Three minutes of one job."""
        return live_source


@pytest.fixture(scope="module")
def live_groups(kafka: KafkaForTests, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """The source of a real chain of two groups."""
    with LiveChain(kafka.bootstrap, kafka.topic_prefix(), tmp_path_factory.mktemp("groups"), parse=1, count=1) as chain:
        chain.joined(parse=1, count=1)
        yield after_three_minutes(ConsumerGroupSource(chain.settings(), QuickClock))


@pytest.mark.integration
class TestConsumerGroups(SourceContract):
    """Real consumer groups, looked at under a clock that runs faster."""

    @pytest.fixture
    def source(self, live_groups: Source) -> Source:
        """Three minutes of one job."""
        return live_groups


def after_three_minutes(source: Looked) -> Looked:
    """Return a source once it has three minutes with samples of its first job, and takes no more."""
    job = source.jobs()[0]
    wait_until(lambda: source.follow(job).look().samples, what="the first figures")
    wait_until(lambda: len(source.minutes(job, 0)) >= 3, what="three minutes")
    source.close()
    return source


def _is_started(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/clock/start", method="POST"), timeout=5) as answer:
            return bool(json.load(answer))
    except OSError:
        return False
