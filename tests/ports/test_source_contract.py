"""What the monitor may rely on, whatever its source: one suite, run for each of them."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from benchmarks.archive import where
from surescale.contracts.messages import MinuteMarker
from surescale.contracts.wire import encode
from surescale.engines.flink.source import FlinkSource
from surescale.engines.groups.source import ConsumerGroupSource
from surescale.engines.ports.source import Source
from surescale.engines.prometheus.source import PrometheusSource
from surescale.engines.simulated.source import EngineSource
from surescale.monitor.settings import MonitorSettings
from surescale.monitor.trace import TraceSource
from surescale.runtime.ports import free_port
from tests.conftest import KafkaForTests
from tests.ports.source_contract import SourceContract, after_three_minutes
from tests.support.engine_stub import CLUSTER, EVENT, HISTORY, MINUTE, EngineStub, job_chain, sample_of
from tests.support.fake_flink import QuickClock, fake_flink
from tests.support.fake_prometheus import fake_prometheus
from tests.support.live_groups import LiveChain
from tests.support.role_settings import role_settings
from tests.support.waiting import PATIENT_S, wait_until

if TYPE_CHECKING:
    from tests.support.live_flink import LiveFlink


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
    options = ["--bootstrap", "none", "--pace", "free", "--job", where("j_2521346"), "--workload", "clarknet"]
    options += ["--minutes", "6", "--speed", "20000"]
    command = [sys.executable, "-m", "surescale.services.cli", "run", "engine", "--port", str(port), *options]
    with subprocess.Popen(command) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: _is_started(url), what="the engine")
            source = EngineSource(url)
            wait_until(lambda: len(source.minutes("sim/j_2521346", 0)) == 6, what="six minutes")
            yield source
        finally:
            process.terminate()
            process.wait(PATIENT_S)


@pytest.mark.integration
class TestSimulatedEngine(SourceContract):
    """The client, on the real ``surescale run engine``."""

    @pytest.fixture
    def source(self, simulated_engine: Source) -> Source:
        """Six minutes of one job."""
        return simulated_engine


@pytest.fixture(scope="module", params=["1.20.5", "2.2.1", "2.3.0"])
def fake_source(request: pytest.FixtureRequest) -> Iterator[Source]:
    """The source of a recorded cluster with three jobs."""
    with fake_flink(request.param, "running") as flink:
        source = FlinkSource(MonitorSettings(engine="flink", engine_url=flink.url, cluster="flink"), QuickClock)
        yield after_three_minutes(source)


class TestFakeFlink(SourceContract):
    """Flink, as recorded, looked at under a clock that runs faster."""

    @pytest.fixture
    def source(self, fake_source: Source) -> Source:
        """Three minutes of the first job."""
        return fake_source


PROMETHEUS_FILE = """
[shop]
subtask = ["pod"]
fresh_s = 3600
[shop.tasks.parse]
[shop.figures]
records_in = "done_total"
"""


@pytest.fixture(scope="module")
def fake_series(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """The source of a fake Prometheus with one job."""
    file = tmp_path_factory.mktemp("prometheus") / "jobs.toml"
    file.write_text(PROMETHEUS_FILE)
    with fake_prometheus() as prometheus:
        prometheus.series["done_total"] = [({"task": "parse", "pod": pod}, 5.0) for pod in "ab"]
        settings = role_settings(
            MonitorSettings,
            engine="kafka",
            source="prometheus",
            cluster="real",
            prometheus_url=prometheus.url,
            prometheus_file=str(file),
        )
        yield after_three_minutes(PrometheusSource(settings, QuickClock))


class TestFakePrometheus(SourceContract):
    """Prometheus, as played, looked at under a clock that runs faster. tests/integration has a real one."""

    @pytest.fixture
    def source(self, fake_series: Source) -> Source:
        """Three minutes of one job."""
        return fake_series


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


def _is_started(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/clock/start", method="POST"), timeout=5) as answer:
            return bool(json.load(answer))
    except OSError:
        return False
