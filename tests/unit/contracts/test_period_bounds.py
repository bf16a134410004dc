"""Bounds within periods: what holds at a time, what is prepared before, which of several counts, and how it is written."""

from datetime import UTC, datetime

import msgspec
import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_limits import (
    at_time,
    bounds_of,
    in_periods,
    minimum_within,
    owners_maximum,
    restart_ahead_ms,
    span_ahead_ms,
)
from surescale.contracts.job_settings import ExcludedPeriod, JobSettings, LatencyBound, PeriodBounds, TaskLimits
from surescale.contracts.limits_in_words import in_periods_in_words, in_words, read_within
from surescale.contracts.messages import TaskSpec
from surescale.contracts.wire import decode, encode

MINUTE_MS = 60_000
ALWAYS = ExcludedPeriod()
RUSH = read_within("thu 07:30-09:00: min 20")
WANTED = JobSettings(job="a/b", minimum_within=(RUSH,))


def at(text: str) -> int:
    """Return milliseconds of a time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def within(*texts: str, **given: object) -> JobSettings:
    """Return the settings of a job with these periods."""
    return msgspec.convert({"job": "a/b", "minimum_within": tuple(map(read_within, texts)), **given}, JobSettings)


@pytest.mark.parametrize(
    ("restart_seconds", "measured_ms", "minutes"),
    [(60.0, None, 2), (None, 60_000, 2), (61.0, 600_000, 3), (0.0, None, 1), (None, None, 4)],
)
def test_a_period_is_prepared_by_what_a_restart_takes(
    restart_seconds: float | None, measured_ms: int | None, minutes: int
) -> None:
    """By its owner, else as measured, else three minutes; and a minute for the decision."""
    settings = msgspec.structs.replace(WANTED, restart_seconds=restart_seconds)
    assert restart_ahead_ms(settings, measured_ms) == minutes * MINUTE_MS
    assert span_ahead_ms(settings, measured_ms) == (10 + minutes) * MINUTE_MS


def test_a_minimum_counts_from_before_its_period_and_until_its_end() -> None:
    """The last decision at a span's end that can be carried out in time is made for it."""
    times = [
        (hour * 60 + minute) * MINUTE_MS for hour, minute in ((7, 10), (7, 18), (7, 20), (7, 30), (8, 59), (9, 0))
    ]  # a Thursday
    ahead_ms = span_ahead_ms(msgspec.structs.replace(WANTED, restart_seconds=60.0), None)
    assert [minimum_within(WANTED, each) for each in times] == [0, 0, 0, 20, 20, 0]
    assert [minimum_within(WANTED, each, ahead_ms) for each in times] == [0, 20, 20, 20, 20, 0]


def test_the_strictest_of_several_periods_counts() -> None:
    """The highest minimum, the lowest maximum, the objective that bears the least latency."""
    settings = within(
        "mon: min 3 max 40 objective cost",
        "mon-fri: min 5 max 30 objective balanced",
        "08:00-09:00: max 50 objective latency=30",
        "08:30-09:00: objective latency=30@0.001",
    )
    monday, later, tuesday = (in_periods(settings, at(f"2026-07-{time}")) for time in ("06T08:00", "06T08:30", "07T10:00"))
    assert monday.least is not None
    assert monday.most is not None
    assert (monday.least.least, monday.most.most) == (5, 30)
    assert monday.objective is not None
    assert monday.objective.objective == LatencyBound(seconds=30.0)
    assert later.objective is not None
    assert later.objective.objective == LatencyBound(seconds=30.0, share=0.001)
    assert tuesday.objective is not None
    assert tuesday.objective.objective == "balanced"


@pytest.mark.parametrize("engine", ["simulated", "flink"])
def test_a_maximum_within_a_period_is_every_tasks_and_lifts_none(engine: str) -> None:
    """The narrower of it and of the task's own, the job's, or the engine's."""
    map_, join, sink = (TaskSpec(task=name, parallelism=2, max_parallelism=128) for name in ("map", "join", "sink"))
    own = {"map": {"parallelism_max": 30}, "sink": {"parallelism_min": 2}}
    night = within("22:00-06:00: max 8 objective cost", tasks=own, parallelism_max=5)
    now, day = at_time(night, engine, at("2026-07-06T23:00")), at_time(night, engine, at("2026-07-06T12:00"))
    assert [owners_maximum(now, spec, engine) for spec in (map_, join, sink)] == [8, 5, 5]
    assert [owners_maximum(day, spec, engine) for spec in (map_, join, sink)] == [30, 5, 5]
    assert (now.objective, day.objective) == ("cost", None)
    unset = at_time(within("22:00-06:00: max 40"), engine, at("2026-07-06T23:00"))
    assert owners_maximum(unset, join, engine) == (10 if engine == "simulated" else 40)


def test_where_minimum_and_maximum_of_two_periods_collide_the_maximum_wins() -> None:
    """As everywhere among bounds."""
    settings = within("mon: min 20", "08:00-09:00: max 10")
    now_ms = at("2026-07-06T08:00")
    least, most, _ = bounds_of(
        at_time(settings, "flink", now_ms), TaskSpec(task="a", max_parallelism=128), "flink", minimum_within(settings, now_ms)
    )
    assert (least, most) == (20, 10)  # of which the maximum is applied last


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("mon 07:30-09:00: min 20", PeriodBounds(period=ExcludedPeriod(days=("mon",), starts="07:30", ends="09:00"), least=20)),
        ("00:00-24:00: max 8, min 2", PeriodBounds(period=ALWAYS, least=2, most=8)),
        ("00:00-24:00 UTC:objective latency=30@1%", PeriodBounds(period=ALWAYS, objective=LatencyBound(seconds=30.0))),
        ("00:00-24:00: min 1", PeriodBounds(period=ALWAYS)),
    ],
)
def test_bounds_within_a_period_are_written_like_this(text: str, read: PeriodBounds) -> None:
    """In any order; what they are written as again is read as the same."""
    assert read_within(text) == read
    assert [read_within(each) for each in in_words([read])] == [read]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mon 07:30-09:00", "names no min, max or objective"),
        ("mon 07:30-09:00: 20", "names no min, max or objective"),
        ("mon: min twenty", "'min twenty' in .* is no bound"),
        ("mon: min 20 max", "'max' in .* is no bound"),
        ("mon: min 20 min 30", "says min twice"),
        ("mon: min 20 max 10", "min 20 is above max 10; give at most that or a higher max"),
        ("mon: min 0", "must be a whole number, at least 1"),
        ("mon: objective fast", "'fast' is not an objective"),
        ("mon strict: min 2", "is strict, which only --exclude can be"),
        ("mon Europe/Berlln: min 2", "'Europe/Berlln' in .* is not a day, time or time zone"),
        ("mon 2026-12-25..2026-12-26: min 2", "never comes: no mon is among its days"),
    ],
)
def test_bounds_that_cannot_be_read_are_named_with_how_to_write_them(text: str, says: str) -> None:
    """One line: the option, the part, an example."""
    with pytest.raises(SettingsError, match=f"^--within: .*{says}.*; write PERIOD: BOUNDS, like [^\n]*$"):
        read_within(text)


def test_a_record_that_contradicts_itself_is_refused() -> None:
    """However it is written: by a file, a what-if or another program."""
    with pytest.raises(ValueError, match="min 20 is above max 10"):
        PeriodBounds(period=ALWAYS, least=20, most=10)
    written = encode(within("mon: min 2 max 4"))
    assert decode(written, JobSettings) == within("mon: min 2 max 4")


def test_what_periods_decide_is_told_with_its_end() -> None:
    """Before, within, and of whole days."""
    settings = within("mon 07:30-09:00 Europe/Berlin: min 20 max 40", "sat,sun: objective cost")
    told = [
        in_periods_in_words(in_periods(settings, at(time), 15 * MINUTE_MS), at(time))
        for time in ("2026-07-06T05:20", "2026-07-06T05:30", "2026-07-06T07:00", "2026-07-04T12:00")
    ]
    assert told == [
        "min 20 from 07:30 Europe/Berlin",
        "min 20 until 09:00 Europe/Berlin, max 40 until 09:00 Europe/Berlin",
        "",
        "objective cost within sat,sun UTC",
    ]


def test_limits_of_single_tasks_are_left_as_they_are_but_for_the_maximum() -> None:
    """A pin and a minimum of its own stay; what has no maximum of its own keeps following the job's."""
    own = {"map": TaskLimits(parallelism_min=2, pinned=True), "join": TaskLimits(parallelism_max=9)}
    made = at_time(JobSettings(job="a/b", tasks=own, minimum_within=(read_within("00:00-24:00: max 4"),)), "flink", 0)
    assert (made.parallelism_max, made.tasks) == (4, own | {"join": TaskLimits(parallelism_max=4)})
