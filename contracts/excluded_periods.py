"""Whether a moment lies in a time that the job's owner excluded from rescaling. Needs no clock: the moment is the span's end."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Literal, get_args
from zoneinfo import ZoneInfo

from contracts.job_settings import ExcludedPeriod, Weekday

Freeze = Literal["none", "calm", "all"]
"""Nothing is excluded; only an overloaded task may change, by growing; nothing may change."""
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)


def freeze_at(periods: Iterable[ExcludedPeriod], at_ms: int) -> Freeze:
    """Return what is excluded at a time (milliseconds of the epoch): the strictest of the periods that cover it counts."""
    covering = [period for period in periods if covers(period, at_ms)]
    if not covering:
        return "none"
    return "calm" if all(period.emergencies for period in covering) else "all"


def covers(period: ExcludedPeriod, at_ms: int) -> bool:
    """Return whether a period covers a time. Its clock times are local: on days when clocks change they follow the wall clock.

    >>> covers(ExcludedPeriod(days=("thu",), starts="22:00", ends="02:00"), 3_600_000)  # Thursday 1970-01-01 01:00
    False
    >>> covers(ExcludedPeriod(days=("wed",), starts="22:00", ends="02:00"), 3_600_000)
    True
    """
    local = datetime.fromtimestamp(at_ms / 1000, zone_of(period.zone))
    time = f"{local:%H:%M}"
    if period.starts < period.ends:
        return period.starts <= time < period.ends and _is_on(period, local)
    return (time >= period.starts and _is_on(period, local)) or (time < period.ends and _is_on(period, local - timedelta(days=1)))


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Return a time zone by its IANA name; UTC for a name that this machine does not know (``surescale job`` refuses those)."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a name, or a folder of the database
        return UTC


def is_zone(name: str) -> bool:
    """Return whether this machine knows a time zone by that name."""
    return name == "UTC" or zone_of(name) is not UTC


def _is_on(period: ExcludedPeriod, local: datetime) -> bool:
    """Return whether a period runs on a local day."""
    day = f"{local:%Y-%m-%d}"
    if period.days and WEEKDAYS[local.weekday()] not in period.days:
        return False
    return (period.first_day is None or period.first_day <= day) and (period.last_day is None or day <= period.last_day)
