"""Excluded periods and limits of single tasks as people write and read them. Pure; every text read back gives the same value."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta

import msgspec

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_limits import WEEKDAYS, is_zone
from surescale.contracts.job_settings import ExcludedPeriod, PeriodMinimum, TaskLimits
from surescale.contracts.messages import Parallelism

NONE = "none"
PINNED, FREE = "pinned", "free"
STRICT = "strict"
HOW_PERIOD = "write DAYS HH:MM-HH:MM ZONE, like 'mon-fri 09:00-17:30 Europe/Berlin' or '2026-12-24..2026-12-26 UTC strict'"
HOW_TASK = "write NAME=MIN..MAX, NAME=MIN.., NAME=..MAX, NAME=pinned or NAME=free"
_TIMES = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)")
_DATES = re.compile(r"(\d{4}-\d\d-\d\d)?\.\.(\d{4}-\d\d-\d\d)?")
_DAYS = re.compile(r"(mon|tue|wed|thu|fri|sat|sun)(?:-(mon|tue|wed|thu|fri|sat|sun))?")
_BOUNDS = re.compile(r"(\d*)\.\.(\d*)")


def read_period(text: str) -> ExcludedPeriod:
    """Return an excluded period.

    Its parts come in any order and may be missing, but for at least one: weekdays (``mon-fri``, ``sat,sun``), local times, days
    (``FROM..TO``), a time zone, and ``strict`` where even an overloaded task must wait.

    Raises:
        SettingsError: names the part and how to write it.

    >>> read_period("fri-mon 22:00-06:00 Europe/Berlin").days
    ('fri', 'sat', 'sun', 'mon')
    """
    said: set[str] = set()
    found: dict[str, object] = {}
    for part in text.split():
        name, values = _part(part, text)
        if name in said:
            raise SettingsError(f"--exclude: {text!r} says {part!r} twice; {HOW_PERIOD}")
        said.add(name)
        found |= values
    if not said - {"zone", STRICT}:
        raise SettingsError(f"--exclude: {text!r} names no days and no times; {HOW_PERIOD}")
    try:
        period = msgspec.convert(found, ExcludedPeriod)
    except msgspec.ValidationError as error:
        raise SettingsError(f"--exclude: {text!r}: {error}; {HOW_PERIOD}") from None
    if why := _why_never(period):
        raise SettingsError(f"--exclude: {text!r} never comes: {why}; {HOW_PERIOD}")
    return period


def _why_never(period: ExcludedPeriod) -> str:
    """Return in words why a period never comes, or an empty text if it does, or did."""
    days: list[date | None] = []
    for text in (period.first_day, period.last_day):
        try:
            days.append(date.fromisoformat(text) if text else None)
        except ValueError:
            return f"no calendar has the day {text}"
    first, last = days
    if first is None or last is None:
        return ""
    if last < first:
        return "it ends before it begins"
    within = {WEEKDAYS[(first + timedelta(days=step)).weekday()] for step in range(min((last - first).days, 6) + 1)}
    return f"no {' or '.join(period.days)} is among its days" if period.days and within.isdisjoint(period.days) else ""


def _part(part: str, text: str) -> tuple[str, dict[str, object]]:
    if part == STRICT:
        return STRICT, {"emergencies": False}
    if times := _TIMES.fullmatch(part):
        return "times", {"starts": times[1], "ends": times[2]}
    if part != ".." and (dates := _DATES.fullmatch(part)):
        return "dates", {"first_day": dates[1], "last_day": dates[2]}
    if all(_DAYS.fullmatch(days) for days in part.split(",")):
        days = (day for days in part.split(",") for day in _weekdays(days))
        return "weekdays", {"days": tuple(dict.fromkeys(days))}
    if is_zone(part):
        return "zone", {"zone": part}
    raise SettingsError(f"--exclude: {part!r} in {text!r} is not a day, time or time zone; {HOW_PERIOD}")


def _weekdays(text: str) -> list[str]:
    """Return the days of ``mon`` or ``fri-mon``."""
    first, _, last = text.partition("-")
    start = WEEKDAYS.index(first)
    length = (WEEKDAYS.index(last or first) - start) % 7
    return [WEEKDAYS[(start + step) % 7] for step in range(length + 1)]


def period_in_words(period: ExcludedPeriod) -> str:
    """Return a period as it can be written.

    >>> period_in_words(ExcludedPeriod(days=("sat", "sun"), emergencies=False))
    'sat,sun UTC strict'
    """
    whole_day = (period.starts, period.ends) == ("00:00", "24:00")
    parts = [
        ",".join(period.days),
        f"{period.first_day or ''}..{period.last_day or ''}" if period.first_day or period.last_day else "",
        "" if whole_day and (period.days or period.first_day or period.last_day) else f"{period.starts}-{period.ends}",
        period.zone,
        "" if period.emergencies else STRICT,
    ]
    return " ".join(part for part in parts if part)


def read_minimum(text: str) -> PeriodMinimum:
    """Return a minimum within a period.

    Raises:
        SettingsError: names the part and how to write it.

    >>> read_minimum("mon-fri 07:30-09:00 Europe/Berlin: 20").least
    20
    """
    period, _, least = text.rpartition(":")
    how = "write PERIOD: N, like 'mon-fri 07:30-09:00 Europe/Berlin: 20'"
    if not least.strip().isdecimal() or STRICT in period.split():
        raise SettingsError(f"--minimum-within: {text!r} is not a minimum within a period; {how}")
    try:
        return PeriodMinimum(period=read_period(period), least=msgspec.convert(int(least), Parallelism))
    except (SettingsError, msgspec.ValidationError) as error:
        raise SettingsError(f"--minimum-within: {str(error).removeprefix('--exclude: ').partition('; ')[0]}; {how}") from None


READ_EACH: Mapping[str, Callable[[str], object]] = {"excluded": read_period, "minimum_within": read_minimum}
"""What reads one value of a field that has several."""


def read_task(text: str) -> tuple[str, TaskLimits | None]:
    """Return a task's name or label, and its limits; None: it is to have none of its own.

    Raises:
        SettingsError: says how to write it.

    >>> read_task("parse=2..8")
    ('parse', TaskLimits(parallelism_min=2, parallelism_max=8, pinned=False))
    """
    name, equals, limits = text.rpartition("=")
    if not equals or not name:
        raise SettingsError(f"--task: {text!r} is not a limit of a task; {HOW_TASK}")
    if limits in (PINNED, FREE):
        return name, TaskLimits(pinned=True) if limits == PINNED else None
    bounds = _BOUNDS.fullmatch(limits)
    if bounds is None or not (bounds[1] or bounds[2]):
        raise SettingsError(f"--task: {limits!r} of task {name} is not a limit; {HOW_TASK}")
    least, most = (int(bound) if bound else None for bound in bounds.groups())
    try:
        return name, msgspec.convert({"parallelism_min": least, "parallelism_max": most}, TaskLimits)
    except msgspec.ValidationError as error:
        raise SettingsError(f"--task: {limits!r} of task {name}: {error}; {HOW_TASK}") from None


def task_in_words(name: str, limits: TaskLimits) -> str:
    """Return the limits of a task as they can be written."""
    if limits.pinned:
        return f"{name}={PINNED}"
    return f"{name}={limits.parallelism_min or ''}..{limits.parallelism_max or ''}"


def in_words(values: Mapping[str, TaskLimits] | Sequence[ExcludedPeriod | PeriodMinimum | str]) -> list[str]:
    """Return each task's limits, or each period, as it can be written; texts stay as they are."""
    if isinstance(values, Mapping):
        return [task_in_words(name, limits) for name, limits in values.items()]
    return [_each_in_words(value) for value in values]


def _each_in_words(value: ExcludedPeriod | PeriodMinimum | str) -> str:
    if isinstance(value, PeriodMinimum):
        return f"{period_in_words(value.period)}: {value.least}"
    return value if isinstance(value, str) else period_in_words(value)
