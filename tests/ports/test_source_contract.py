"""What the monitor may rely on, whatever its source: one suite, run for each of them."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import pytest

from contracts.messages import MinuteMarker
from contracts.topology import check_topology
from contracts.wire import encode
from monitor.sources.base import Source, UnknownJob
from monitor.sources.engine import EngineSource
from monitor.sources.trace import TraceSource
from services.stack.ports import free_port
from tests.support.engine_stub import CLUSTER, EVENT, HISTORY, MINUTE, EngineStub, job_chain, sample_of
from tests.support.waiting import wait_until


class SourceContract:
    """The suite. A subclass gives a source with at least one job of at least three finished minutes."""

    @pytest.fixture
    def source(self) -> Iterator[Source]:
        """The source under test."""
        raise NotImplementedError

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
        """After all of them there are none."""
        events = source.events(0)
        assert source.events(1) == events[1:]
        assert source.events(len(events)) == []

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
    options = ["--kafka", "none", "--pace", "free", "--job", "j_2521346", "--minutes", "6", "--speed", "20000"]
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


def _is_started(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"{url}/clock/start", method="POST"), timeout=5) as answer:
            return bool(json.load(answer))
    except OSError:
        return False
