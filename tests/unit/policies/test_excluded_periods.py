"""Whether a moment lies in an excluded period: days, times, zones, midnight and changes of the clock."""

from datetime import UTC, datetime

import pytest

from surescale.contracts.job_limits import covers, freeze_at, is_zone
from surescale.contracts.job_settings import ExcludedPeriod

WORK = ExcludedPeriod(days=("mon", "tue", "wed", "thu", "fri"), starts="09:00", ends="17:00", zone="Europe/Berlin")
NIGHT = ExcludedPeriod(days=("sat",), starts="22:00", ends="06:00")
HOLIDAY = ExcludedPeriod(first_day="2026-12-24", last_day="2026-12-26", zone="America/New_York")


def at(text: str) -> int:
    """Return milliseconds of a time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("period", "time", "covered"),
    [
        (WORK, "2026-07-06T07:00", True),  # Monday, 09:00 in summer
        (WORK, "2026-07-06T06:59", False),
        (WORK, "2026-07-06T15:00", False),  # 17:00: the end is not part of it
        (WORK, "2026-01-05T07:30", False),  # Monday, 08:30 in winter
        (WORK, "2026-01-05T08:00", True),
        (WORK, "2026-07-04T10:00", False),  # Saturday
        (NIGHT, "2026-07-04T22:00", True),  # Saturday
        (NIGHT, "2026-07-05T05:59", True),  # Sunday, in the night that began on Saturday
        (NIGHT, "2026-07-05T22:30", False),  # Sunday evening
        (NIGHT, "2026-07-04T05:00", False),  # Saturday, in a night that began on Friday
        (HOLIDAY, "2026-12-24T04:59", False),  # 23:59 the day before, in New York
        (HOLIDAY, "2026-12-24T05:00", True),
        (HOLIDAY, "2026-12-27T04:59", True),
        (HOLIDAY, "2026-12-27T05:00", False),
        (ExcludedPeriod(first_day="2026-12-24"), "2031-01-01T00:00", True),
        (ExcludedPeriod(starts="08:00", ends="08:00"), "2026-07-04T03:00", True),  # from eight to eight is a whole day
    ],
)
def test_a_period_covers_its_local_times(period: ExcludedPeriod, time: str, covered: bool) -> None:
    """By the wall clock of its zone, in summer and in winter."""
    assert covers(period, at(time)) == covered


def test_the_strictest_of_several_periods_counts() -> None:
    """In one period an overloaded task may grow, in the other nothing may change: where both cover, nothing does."""
    always, strict = ExcludedPeriod(), ExcludedPeriod(days=("sat",), emergencies=False)
    assert freeze_at((always, strict), at("2026-07-04T12:00")) == "all"
    assert freeze_at((always, strict), at("2026-07-05T12:00")) == "calm"
    assert freeze_at((strict,), at("2026-07-05T12:00")) == "none"


@pytest.mark.parametrize("name", ["Europe/Nowhere", "../../etc/passwd", "America", "", "\x00", "/etc/localtime"])
def test_a_zone_that_is_none_is_told_and_breaks_nothing(name: str) -> None:
    """`surescale job` refuses it; in a forged record it counts as UTC."""
    assert not is_zone(name)
    assert covers(ExcludedPeriod(starts="11:00", ends="12:00", zone=name), at("2026-07-04T11:30"))


def test_zones_of_the_database_are_known() -> None:
    """And UTC by its own name."""
    assert is_zone("UTC")
    assert is_zone("Asia/Kathmandu")
