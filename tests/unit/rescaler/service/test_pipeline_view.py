"""Whether the rescaler knows everything that had happened when a clock in lockstep stopped."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClockPrerequisites, ClockSegment, Message
from surescale.contracts.record_keys import record_key
from surescale.contracts.topics import CLUSTER_TOPOLOGY, JOB_SETTINGS
from surescale.contracts.wire import encode
from surescale.rescaler.service.pipeline_view import PipelineView, knows_all
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.status import Status
from surescale.runtime.kafka import LogReader
from tests.support.controller_world import CLUSTER, JOB, MINUTE_MS, cluster, job

TOLD = ClockPrerequisites(hosts=1, events=5, jobs={JOB: 1})
STANDS = ClockSegment(pipeline="main", sequence=2, e0_ms=MINUTE_MS, w0_ms=0, speed=60.0, until_ms=MINUTE_MS, told=TOLD)


def test_a_clock_that_stands_with_all_news_known_may_be_acted_upon() -> None:
    """Hosts, jobs and events are as new as it says, or newer."""
    assert knows_all(STANDS, cluster(), {JOB: job()}, 5)
    assert knows_all(STANDS, cluster(), {JOB: job(generation=3)}, 9)


@pytest.mark.parametrize(
    ("changed", "newest_event"),
    [({"hosts": 2}, 5), ({"events": 6}, 5), ({"jobs": {JOB: 2}}, 5), ({"jobs": {JOB: 1, "sim/new": 1}}, 5)],
    ids=["hosts", "events", "a job", "a new job"],
)
def test_missing_news_is_waited_for(changed: dict[str, object], newest_event: int) -> None:
    """A host that died in this very minute is known before any timer of the minute fires."""
    clock = msgspec.structs.replace(STANDS, told=msgspec.structs.replace(TOLD, **changed))
    assert not knows_all(clock, cluster(), {JOB: job()}, newest_event)


def test_nothing_is_done_while_the_clock_moves() -> None:
    """What happens until it stands is not known yet."""
    assert not knows_all(msgspec.structs.replace(STANDS, until_ms=2 * MINUTE_MS), cluster(), {JOB: job()}, 5)


def test_before_any_topology_only_a_clock_without_news_may_be_acted_upon() -> None:
    """At the very beginning of a pipeline."""
    assert not knows_all(STANDS, None, {}, 5)
    assert knows_all(msgspec.structs.replace(STANDS, told=ClockPrerequisites(hosts=0, events=0)), None, {}, 0)


def test_a_clock_that_runs_free_is_never_waited_for() -> None:
    """It does not say what has happened."""
    clock = msgspec.structs.replace(STANDS, until_ms=2 * MINUTE_MS, told=None)
    assert knows_all(clock, None, {}, 0)


class Records:
    """A reader that has a record of one topic for each look; ``poll`` takes the next."""

    def __init__(self, topic: str, *messages: Message) -> None:
        self._topic, self._left = topic, [(str(record_key(each)).encode(), encode(each)) for each in messages]

    def poll(self, _: float) -> list[Any]:
        """Return the next record."""
        topic, (key, value) = self._topic, self._left.pop(0)
        where = {"topic": lambda: topic, "partition": lambda: 0, "offset": lambda: 0}
        return [SimpleNamespace(**where, key=lambda: key, value=lambda: value)]


def seeing(topic: str, *messages: Message) -> PipelineView:
    """A view that reads these records, one with each look."""
    reader = cast(LogReader, Records(topic, *messages))
    return PipelineView(RescalerSettings(), lambda: reader, Status(CLUSTER), logging.getLogger("test"))


def test_of_two_settings_the_higher_version_is_in_force_and_of_equal_ones_the_later() -> None:
    """As for the agents: whoever writes late on top of an older version changes nothing."""
    written = [JobSettings(job=JOB, version=n, mode=mode) for n, mode in ((2, "observe"), (1, "act"), (3, "act"), (3, "advise"))]
    seen = seeing(JOB_SETTINGS, *written)
    for expected in (written[0], written[0], written[2], written[3]):
        assert seen.look() == ([], True)
        assert seen.view().settings[JOB] == expected


def test_hosts_that_contradict_themselves_leave_those_before_in_force() -> None:
    """A host that is listed twice would end the rescaler when it next looks at the hosts."""
    twice = msgspec.structs.replace(cluster(), version=2, hosts=cluster().hosts + cluster().hosts[:1])
    seen = seeing(CLUSTER_TOPOLOGY, cluster(), twice)
    for _ in range(2):
        seen.look()
        assert seen.view().cluster == cluster()
