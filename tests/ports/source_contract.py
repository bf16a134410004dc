"""What the monitor may rely on, whatever its source: one suite, to be run for each of them."""

from collections.abc import Iterator
from typing import TypeVar

import pytest
from msgspec.structs import replace

from surescale.contracts.topology import check_topology
from surescale.engines.flink.source import FlinkSource
from surescale.engines.groups.source import ConsumerGroupSource
from surescale.engines.ports.source import Source, UnknownJob
from surescale.engines.prometheus.source import PrometheusSource
from tests.support.builders import topology
from tests.support.engine_stub import MINUTE
from tests.support.waiting import wait_until

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
        """The end of a minute given before leads to the next one; there is none that has not ended yet."""
        job = source.jobs()[0]
        first, second, *_ = minutes = source.minutes(job, 0)
        assert source.minutes(job, first.minute_end_ms)[0] == second
        ahead_ms = minutes[-1].minute_end_ms + MINUTE
        assert [minute for minute in source.minutes(job, ahead_ms) if minute.minute_end_ms <= ahead_ms] == []

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
        """After all of them there are none. Asked for those after an unknown event, it gives all of them."""
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


def after_three_minutes(source: Looked) -> Looked:
    """Return a source once it has three minutes with samples of its first job, and takes no more."""
    job = source.jobs()[0]
    wait_until(lambda: source.follow(job).look().samples, what="the first figures")
    wait_until(lambda: len(source.minutes(job, 0)) >= 3, what="three minutes")
    source.close()
    return source


def assert_ends(source: Source, job: str, engine: str, *, has_left: bool) -> None:
    """A job that left the source's file has ended, by its topology and by an event; any other is not this source's to end."""
    ended = source.end_of(replace(topology(), job=job, engine=engine, version=7))
    assert (ended is not None) is has_left
    if ended is not None:
        assert (ended.state, ended.version > 7, ended.at_ms > 0) == ("finished", True, True)
        assert [(event.kind, event.job) for event in source.events("")] == [("job_stopped", job)]
