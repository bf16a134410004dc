"""Whether the rescaler has heard of everything that had happened when a clock in lockstep came to a stand."""

import msgspec
import pytest

from contracts.messages import ClockSegment, JobSettings, Told
from contracts.wire import encode
from rescaler.service.settings import RescalerSettings
from rescaler.service.views import RoadView, has_heard_all
from tests.support.controller_world import JOB, MINUTE_MS, cluster, job

TOLD = Told(hosts=1, events=5, jobs={JOB: 1})
STANDS = ClockSegment(road="main", sequence=2, e0_ms=MINUTE_MS, w0_ms=0, speed=60.0, until_ms=MINUTE_MS, told=TOLD)


def test_a_clock_that_stands_and_of_which_all_is_known_may_be_acted_upon() -> None:
    """Hosts, jobs and events are as new as it says, or newer."""
    assert has_heard_all(STANDS, cluster(), {JOB: job()}, 5)
    assert has_heard_all(STANDS, cluster(), {JOB: job(generation=3)}, 9)


@pytest.mark.parametrize(
    ("changed", "newest_event"),
    [({"hosts": 2}, 5), ({"events": 6}, 5), ({"jobs": {JOB: 2}}, 5), ({"jobs": {JOB: 1, "sim/new": 1}}, 5)],
    ids=["hosts", "events", "a job", "a new job"],
)
def test_what_has_not_been_heard_of_is_waited_for(changed: dict[str, object], newest_event: int) -> None:
    """A host that died at this very minute is known of before any timer of the minute fires."""
    clock = msgspec.structs.replace(STANDS, told=msgspec.structs.replace(TOLD, **changed))
    assert not has_heard_all(clock, cluster(), {JOB: job()}, newest_event)


def test_nothing_is_done_while_the_clock_moves() -> None:
    """What happens until it stands is not known yet."""
    assert not has_heard_all(msgspec.structs.replace(STANDS, until_ms=2 * MINUTE_MS), cluster(), {JOB: job()}, 5)


def test_before_any_topology_only_a_clock_that_knows_of_none_may_be_acted_upon() -> None:
    """At the very beginning of a road."""
    assert not has_heard_all(STANDS, None, {}, 5)
    assert has_heard_all(msgspec.structs.replace(STANDS, told=Told(hosts=0, events=0)), None, {}, 0)


def test_a_clock_that_runs_free_is_never_waited_for() -> None:
    """It says nothing of what has happened."""
    clock = msgspec.structs.replace(STANDS, until_ms=2 * MINUTE_MS, told=msgspec.UNSET)
    assert has_heard_all(clock, None, {}, 0)


def test_of_two_settings_the_higher_version_is_in_force_and_of_equal_ones_the_later() -> None:
    """As for the agents: whoever wrote late on top of an older version changes nothing."""
    seen = object.__new__(RoadView)
    seen._settings, seen._allowed = RescalerSettings(), {}
    for version, mode in ((2, "observe"), (1, "act"), (3, "act"), (3, "advise")):
        seen._take_settings(encode(JobSettings(job=JOB, version=version, mode=mode)))  # type: ignore[arg-type]
        in_force = seen._allowed[JOB]
        assert (in_force.version, in_force.mode) == ((2, "observe") if version < 3 else (3, mode))
