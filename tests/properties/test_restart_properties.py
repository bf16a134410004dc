"""How long rescales stopped a job is told from looks once a minute, whenever they come and however long they take."""

from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import RESTART_ASSUMED_S
from surescale.contracts.restarts import LONGEST_MS, MEASURED_MAX, SEEN_LEAST, UNSEEN_MS, Look, RestartMeter

SECOND_MS = 1_000


class Stop(NamedTuple):
    """A job stops and runs again, in milliseconds."""

    at_ms: int
    until_ms: int


def rescales(count: int, took_s: int, between_s: list[int]) -> list[Stop]:
    """Return stops of the same length, with these times in between."""
    found, now_ms = list[Stop](), 2 * MINUTE_MS
    for pause_s in between_s[:count]:
        now_ms += pause_s * SECOND_MS
        found.append(Stop(now_ms, now_ms + took_s * SECOND_MS))
        now_ms = found[-1].until_ms
    return found


def look_at(stops: list[Stop], end_ms: int, *, tells: bool, resizes: bool = True) -> Look | None:
    """Return what a look shows at the end of a minute; at the very end of a stop the job runs."""
    if any(stop.at_ms <= end_ms < stop.until_ms for stop in stops):
        return None
    attempt = sum(stop.until_ms <= end_ms for stop in stops)
    began_ms = max((stop.until_ms for stop in stops if stop.until_ms <= end_ms), default=0)
    return Look("", attempt, (1, 1 + attempt % 2 * resizes), float(end_ms - began_ms) if tells else None)


def measured(stops: list[Stop], *, tells: bool, hidden: frozenset[int] = frozenset(), resizes: bool = True) -> list[int | None]:
    """Return what the meter says at the end of each minute, until some time after the last stop; ``hidden`` had no look."""
    meter, found = RestartMeter(), []
    for minute in range(1, (stops[-1].until_ms if stops else 0) // MINUTE_MS + 6):
        if minute not in hidden:
            meter.note(minute * MINUTE_MS, look_at(stops, minute * MINUTE_MS, tells=tells, resizes=resizes))
        found.append(meter.restart_ms)
    return found


took = st.integers(0, 20 * 60)
between = st.lists(st.integers(180, 900), min_size=MEASURED_MAX, max_size=MEASURED_MAX)


@given(st.integers(0, MEASURED_MAX), took, between)
def test_rescales_are_measured_to_a_minute_and_unknown_before(count: int, took_s: int, between_s: list[int]) -> None:
    """Half a minute too little at most, less than a minute too much; nothing is said of a short one alone."""
    told = measured(rescales(count, took_s, between_s), tells=True)[-1]
    if count < SEEN_LEAST and (not count or took_s + 60 <= RESTART_ASSUMED_S):
        assert told is None
    elif count >= SEEN_LEAST or told is not None:
        assert told is not None
        assert -UNSEEN_MS <= told - took_s * SECOND_MS < MINUTE_MS


@given(st.integers(SEEN_LEAST, MEASURED_MAX), took, between)
def test_without_busy_time_the_looks_alone_tell(count: int, took_s: int, between_s: list[int]) -> None:
    """As of consumer groups whose members count nothing: a minute at whose end nobody was at rest is one without work."""
    told = measured(rescales(count, took_s, between_s), tells=False)[-1]
    assert told is not None
    assert abs(told - took_s * SECOND_MS) <= MINUTE_MS


@given(st.integers(1, MEASURED_MAX), took, between)
def test_a_restart_at_the_same_sizes_is_no_rescale(count: int, took_s: int, between_s: list[int]) -> None:
    """A failure takes time of its own."""
    assert set(measured(rescales(count, took_s, between_s), tells=True, resizes=False)) == {None}


@given(took, between, st.sets(st.integers(1, 60)))
def test_minutes_that_nobody_looked_at_make_nothing_up(took_s: int, between_s: list[int], hidden: set[int]) -> None:
    """Members whose counters go on over them were at work; of those that count nothing nobody knows."""
    stops = rescales(MEASURED_MAX, took_s, between_s)
    for tells in (True, False):
        for told in measured(stops, tells=tells, hidden=frozenset(hidden)):
            assert told is None or 0 <= told <= LONGEST_MS
    assert measured([], tells=False, hidden=frozenset(hidden))[-1] is None


@given(st.integers(SEEN_LEAST, MEASURED_MAX), took, between)
def test_minutes_that_come_twice_count_once(count: int, took_s: int, between_s: list[int]) -> None:
    """Records that were not delivered are sent again, with the minutes that they belong to."""
    stops, once, twice = rescales(count, took_s, between_s), RestartMeter(), RestartMeter()
    ends_ms = [minute * MINUTE_MS for minute in range(1, stops[-1].until_ms // MINUTE_MS + 6)]
    for end_ms in ends_ms:
        once.note(end_ms, look_at(stops, end_ms, tells=True))
    for before_ms, end_ms in pairwise([ends_ms[0], *ends_ms]):
        for each_ms in (before_ms, end_ms):
            twice.note(each_ms, look_at(stops, each_ms, tells=True))
    assert once.restart_ms == twice.restart_ms
