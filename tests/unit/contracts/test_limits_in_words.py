"""Excluded periods and limits of tasks as people write them."""

from datetime import date

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_limits import WEEKDAYS
from surescale.contracts.job_settings import ExcludedPeriod, TaskLimits
from surescale.contracts.limits_in_words import period_in_words, read_period, read_task, task_in_words

TIMES = st.builds(lambda hour, minute: f"{hour:02}:{minute:02}", st.integers(0, 23), st.integers(0, 59))
DATES = st.none() | st.dates().map(lambda day: f"{day:%Y}".zfill(4) + f"{day:-%m-%d}")


@given(
    st.builds(
        ExcludedPeriod,
        days=st.lists(st.sampled_from(WEEKDAYS), unique=True).map(tuple),
        starts=TIMES,
        ends=TIMES | st.just("24:00"),
        zone=st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns"]),
        first_day=DATES,
        last_day=DATES,
        emergencies=st.booleans(),
    )
)
def test_a_period_in_words_is_read_as_the_same_period(period: ExcludedPeriod) -> None:
    """What `surescale job settings` prints can be given to `surescale job set`; one that never comes is refused."""
    assume(period.starts != period.ends)
    ends = [date.fromisoformat(day) for day in (period.first_day, period.last_day) if day]
    days = range(ends[0].toordinal(), min(ends[1].toordinal(), ends[0].toordinal() + 6) + 1) if len(ends) == 2 else range(1, 8)
    if any(WEEKDAYS[date.fromordinal(day).weekday()] in (period.days or WEEKDAYS) for day in days):
        assert read_period(period_in_words(period)) == period
    else:
        with pytest.raises(SettingsError, match="never comes"):
            read_period(period_in_words(period))


@pytest.mark.parametrize(
    ("text", "period"),
    [
        (
            "mon-fri 09:00-17:30 Europe/Berlin",
            ExcludedPeriod(days=WEEKDAYS[:5], starts="09:00", ends="17:30", zone="Europe/Berlin"),
        ),
        ("2026-12-24..2026-12-26", ExcludedPeriod(first_day="2026-12-24", last_day="2026-12-26")),
        ("22:00-06:00 sat,sun strict", ExcludedPeriod(days=("sat", "sun"), starts="22:00", ends="06:00", emergencies=False)),
        ("2026-12-24..", ExcludedPeriod(first_day="2026-12-24")),
        ("2026-12-24 09:00-10:00", ExcludedPeriod(starts="09:00", ends="10:00", first_day="2026-12-24", last_day="2026-12-24")),
    ],
)
def test_periods_are_written_like_this(text: str, period: ExcludedPeriod) -> None:
    """Parts in any order; what is missing means always."""
    assert read_period(text) == period


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("UTC", "names no days and no times"),
        ("strict", "names no days and no times"),
        ("mon 9:00-17:00", "'9:00-17:00' in .* is not a day, time or time zone"),
        ("mon 09:00-25:00", "'09:00-25:00' in .* is not a day, time or time zone"),
        ("mon Europe/Nowhere", "'Europe/Nowhere' in .* is not a day, time or time zone"),
        ("mon ../../etc/passwd", "is not a day, time or time zone"),
        ("mon 09:00-10:00 11:00-12:00", "says '11:00-12:00' twice"),
        ("mon 09:00-09:00", "ends when it begins; leave the times out for whole days"),
        ("24:00-24:00", "ends when it begins; leave the times out for whole days"),
        ("montag 09:00-10:00", "'montag'"),
        ("2026-12-26..2026-12-24", "never comes: it ends before it begins"),
        ("2026-02-30..", "never comes: no calendar has the day 2026-02-30"),
        ("2026-02-30 09:00-10:00", "never comes: no calendar has the day 2026-02-30"),
        ("2026-12-242026-12-25", "is not a day, time or time zone"),
        ("mon 2026-12-25", "never comes: no mon is among its days"),
        ("mon,sun 2026-12-25..2026-12-26", "never comes: no mon or sun is among its days"),
    ],
)
def test_a_period_that_cannot_be_read_is_named_with_how_to_write_it(text: str, says: str) -> None:
    """One line: the option, the part, an example."""
    with pytest.raises(SettingsError, match=f"^--exclude: .*{says}.*; write DAYS HH:MM-HH:MM ZONE, like"):
        read_period(text)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("parse=2..8", TaskLimits(parallelism_min=2, parallelism_max=8)),
        ("parse=..8", TaskLimits(parallelism_max=8)),
        ("parse=2..", TaskLimits(parallelism_min=2)),
        ("Source: a = b=pinned", TaskLimits(pinned=True)),
        ("parse=free", None),
    ],
)
def test_limits_of_a_task_are_written_like_this(text: str, limits: TaskLimits | None) -> None:
    """The name is everything before the last equals sign: names of operators have some."""
    name, found = read_task(text)
    assert (name, found) == (text.rpartition("=")[0], limits)
    assert limits is None or read_task(task_in_words(name, limits)) == (name, limits)


@pytest.mark.parametrize("text", ["parse", "=2..8", "parse=", "parse=..", "parse=2-8", "parse=0..8", "parse=2..9999999", "a=two"])
def test_limits_that_cannot_be_read_are_named_with_how_to_write_them(text: str) -> None:
    """One line: the option, the value, what to write."""
    with pytest.raises(SettingsError, match=r"^--task: .*; write NAME=MIN\.\.MAX"):
        read_task(text)
