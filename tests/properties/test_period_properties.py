"""Periods at any time: when clocks change, over midnight, one on top of another, and before they begin."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from surescale.contracts.job_limits import WEEKDAYS, at_time, covers, in_periods, minimum_within
from surescale.contracts.job_settings import ExcludedPeriod, JobSettings, Objective, PeriodBounds

MINUTE_MS = 60_000
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns")
CLOCK_CHANGES = (
    datetime(2026, 3, 29, 1, tzinfo=UTC),  # Berlin: 02:00 -> 03:00
    datetime(2026, 10, 25, 1, tzinfo=UTC),  # Berlin: 03:00 -> 02:00
    datetime(2026, 3, 8, 7, tzinfo=UTC),  # New York
    datetime(2026, 11, 1, 6, tzinfo=UTC),
    datetime(2026, 4, 4, 15, tzinfo=UTC),  # Lord Howe: half an hour
    datetime(2026, 12, 31, 23, tzinfo=UTC),
)
MOMENTS = st.builds(
    lambda change, minutes: int((change + timedelta(minutes=minutes)).timestamp() * 1000),
    st.sampled_from(CLOCK_CHANGES),
    st.integers(-2_000, 2_000),
)
TIMES = st.builds(lambda hour, quarter: f"{hour:02}:{15 * quarter:02}", st.integers(0, 23), st.integers(0, 3))
DAYS = st.lists(st.sampled_from(WEEKDAYS), unique=True).map(tuple)
PERIODS = st.builds(ExcludedPeriod, days=DAYS, starts=TIMES, ends=TIMES | st.just("24:00"), zone=st.sampled_from(ZONES))
OBJECTIVES: tuple[Objective | None, ...] = (None, "latency", "balanced", "cost")


@st.composite
def bounds(draw: st.DrawFn) -> PeriodBounds:
    """Draw what holds within some period."""
    least = draw(st.integers(1, 30))
    most = draw(st.none() | st.integers(least, 60))
    return PeriodBounds(period=draw(PERIODS), least=least, most=most, objective=draw(st.sampled_from(OBJECTIVES)))


MANY = st.lists(bounds(), max_size=4).map(tuple)


def local(at_ms: int, zone: str) -> datetime:
    """Return what the wall clock of a zone shows."""
    return datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone))


@given(PERIODS, MOMENTS)
def test_a_period_follows_the_wall_clock(period: ExcludedPeriod, at_ms: int) -> None:
    """Whatever the clocks did that day: what the wall clock shows lies between its ends, on one of its days."""
    wall = local(at_ms, period.zone).replace(tzinfo=None)
    midnight = datetime.combine(wall.date(), datetime.min.time())

    def on(day: date) -> bool:
        return not period.days or WEEKDAYS[day.weekday()] in period.days

    def moment(day: datetime, text: str) -> datetime:
        return day + timedelta(hours=int(text[:2]), minutes=int(text[3:]))

    found = False
    for day in (midnight - timedelta(days=1), midnight):
        ends = moment(day, period.ends) + timedelta(days=period.ends <= period.starts)
        found |= on(day) and moment(day, period.starts) <= wall < ends
    assert covers(period, at_ms) == found


@given(DAYS, TIMES, TIMES, st.sampled_from(ZONES), MOMENTS)
def test_a_period_over_midnight_is_its_evening_and_the_next_morning(
    days: tuple[str, ...], starts: str, ends: str, zone: str, at_ms: int
) -> None:
    """The morning belongs to the day before, also in the night in which clocks change."""
    starts, ends = max(starts, ends), min(starts, ends)
    next_days = tuple(WEEKDAYS[(WEEKDAYS.index(day) + 1) % 7] for day in days)  # type: ignore[arg-type]

    def made(on: tuple[str, ...], first: str, last: str) -> ExcludedPeriod:
        return ExcludedPeriod(days=on, starts=first, ends=last, zone=zone)  # type: ignore[arg-type]

    parts = [made(days, starts, "24:00"), *([made(next_days, "00:00", ends)] if ends != "00:00" else [])]
    assert covers(made(days, starts, ends), at_ms) == any(covers(part, at_ms) for part in parts)


@given(bounds(), MOMENTS, st.integers(0, 40), st.integers(0, 40))
@example(  # it begins at 03:00, since there is no 02:30 that day
    PeriodBounds(period=ExcludedPeriod(starts="02:30", ends="04:00", zone="Europe/Berlin"), least=9),
    int(datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp() * 1000),
    13,
    13,
)
def test_a_minimum_is_in_force_when_its_period_begins(made: PeriodBounds, at_ms: int, ahead: int, before: int) -> None:
    """From so many minutes before on, also over a change of the clocks; and never earlier than that."""
    settings = JobSettings(job="a/b", minimum_within=(made,))
    least = made.least if made.least > 1 else 0
    if covers(made.period, at_ms) and before <= ahead:
        assert minimum_within(settings, at_ms - before * MINUTE_MS, ahead * MINUTE_MS) == least
    if not any(covers(made.period, at_ms + minute * MINUTE_MS) for minute in range(ahead + 1)):
        assert minimum_within(settings, at_ms, ahead * MINUTE_MS) == 0


@given(MANY, MOMENTS, st.none() | st.integers(1, 60))
def test_of_overlapping_periods_the_strictest_counts(many: tuple[PeriodBounds, ...], at_ms: int, most: int | None) -> None:
    """In whatever order they were given; a period takes nothing of the job's own away."""
    settings = JobSettings(job="a/b", minimum_within=many, parallelism_max=most)
    turned = msgspec.structs.replace(settings, minimum_within=many[::-1])
    now = [each for each in many if covers(each.period, at_ms)]
    least = max((each.least for each in now if each.least > 1), default=0)
    assert minimum_within(settings, at_ms) == minimum_within(turned, at_ms) == least
    maxima = [each.most for each in now if each.most is not None] + ([most] if most is not None else [])
    made = at_time(settings, "flink", at_ms)
    assert made.parallelism_max == at_time(turned, "flink", at_ms).parallelism_max == min(maxima, default=None)
    wanted = [each.objective for each in now if each.objective is not None]
    assert made.objective == min(wanted, key=OBJECTIVES.index, default=None)
    assert at_time(made, "flink", at_ms) == made
    if not now:
        assert made == settings
        assert in_periods(settings, at_ms) == (None, None, None)
