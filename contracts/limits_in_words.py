"""Periods, bounds within them, and limits of single tasks as people write and read them. Pure.

Every text read back gives the same value.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from itertools import zip_longest

import msgspec

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_limits import WEEKDAYS, InPeriods, covers, is_zone
from surescale.contracts.job_settings import ExcludedPeriod, JobSettings, PeriodBounds, TaskLimits, effective
from surescale.contracts.objectives import in_words as objective_in_words
from surescale.contracts.objectives import read_objective
from surescale.contracts.plain_words import in_plain_words
from surescale.contracts.wire import learned

NONE = "none"
PINNED, FREE = "pinned", "free"
STRICT = "strict"
HOW_PERIOD = "write DAYS HH:MM-HH:MM ZONE, like 'mon-fri 09:00-17:30 Europe/Berlin' or '2026-12-24..2026-12-26 UTC strict'"
HOW_WITHIN = "write PERIOD: BOUNDS, like 'mon-fri 07:30-09:00 Europe/Berlin: min 20 max 40 objective latency' or one of these"
HOW_TASK = "write NAME=MIN..MAX, NAME=MIN.., NAME=..MAX, NAME=pinned or NAME=free"
_TIME = r"((?:[01][0-9]|2[0-3]):[0-5][0-9]|24:00)"
_TIMES = re.compile(f"{_TIME}-{_TIME}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATES = re.compile(r"(\d{4}-\d\d-\d\d)?\.\.(\d{4}-\d\d-\d\d)?")
_DAYS = re.compile(r"(mon|tue|wed|thu|fri|sat|sun)(?:-(mon|tue|wed|thu|fri|sat|sun))?")
_BOUNDS = re.compile(r"([0-9]{0,9})\.\.([0-9]{0,9})")
_WITHIN = re.compile(r"(.*?):\s*((?:min|max|objective)\b.*)")
_SIZES = {"min": "least", "max": "most"}


def read_period(text: str) -> ExcludedPeriod:
    """Return an excluded period.

    Its parts come in any order and may be missing, but for at least one: weekdays (``mon-fri``, ``sat,sun``), local times, days
    (``FROM..TO``, or one), a time zone, and ``strict`` where even an overloaded task must wait.

    Raises:
        SettingsError: names the part and how to write it.

    >>> read_period("fri-mon 22:00-06:00 Europe/Berlin").days
    ('fri', 'sat', 'sun', 'mon')
    """
    try:
        return _period(text)
    except SettingsError as error:
        raise SettingsError(f"--exclude: {error}; {HOW_PERIOD}") from None


def _period(text: str) -> ExcludedPeriod:
    said: set[str] = set()
    found: dict[str, object] = {}
    for part in text.split():
        name, values = _part(part, text)
        if name in said:
            raise SettingsError(f"{text!r} says {part!r} twice")
        said.add(name)
        found |= values
    if not said - {"zone", STRICT}:
        raise SettingsError(f"{text!r} names no days and no times")
    try:
        period = msgspec.convert(found, learned(ExcludedPeriod))
    except msgspec.ValidationError as error:
        raise SettingsError(f"{text!r}: {in_plain_words(str(error).partition(' - at ')[0])}") from None
    if period.starts == period.ends:
        raise SettingsError(f"{text!r} ends when it begins; leave the times out for whole days")
    if why := _why_never(period):
        raise SettingsError(f"{text!r} never comes: {why}")
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
    if _DATE.fullmatch(part):
        return "dates", {"first_day": part, "last_day": part}
    if all(_DAYS.fullmatch(days) for days in part.split(",")):
        days = (day for days in part.split(",") for day in _weekdays(days))
        return "weekdays", {"days": tuple(dict.fromkeys(days))}
    if is_zone(part):
        return "zone", {"zone": part}
    raise SettingsError(f"{part!r} in {text!r} is not a day, time or time zone")


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


def read_within(text: str) -> PeriodBounds:
    """Return the bounds within a period: of ``min N``, ``max N`` and ``objective WORD`` those that are named, in any order.

    Raises:
        SettingsError: names the part and how to write it.

    >>> read_within("mon-fri 07:30-09:00 Europe/Berlin: min 20, objective latency").least
    20
    """
    try:
        return _within(text)
    except msgspec.ValidationError as error:
        why = in_plain_words(str(error).partition(" - at ")[0])
        raise SettingsError(f"--within: {text!r}: {why}; {HOW_WITHIN}") from None
    except SettingsError as error:
        raise SettingsError(f"--within: {error}; {HOW_WITHIN}") from None


def _within(text: str) -> PeriodBounds:
    if (parts := _WITHIN.fullmatch(text.strip())) is None:
        raise SettingsError(f"{text!r} names no min, max or objective")
    period, words = parts[1], parts[2].replace(",", " ").split()
    if STRICT in period.split():
        raise SettingsError(f"{text!r} is {STRICT}, which only --exclude can be")
    found: dict[str, object] = {"period": _period(period)}
    for name, value in zip_longest(words[::2], words[1::2]):
        field = _SIZES.get(name, name)
        if field in found:
            raise SettingsError(f"{text!r} says {name} twice")
        if name in _SIZES and value and value.isdecimal() and len(value) < 10:
            found[field] = int(value)
        elif name == "objective" and value:
            found[field] = _objective(value)
        else:
            raise SettingsError(f"{' '.join(filter(None, (name, value)))!r} in {text!r} is no bound")
    return msgspec.convert(found, learned(PeriodBounds))


def _objective(word: str) -> object:
    try:
        return read_objective(word)
    except SettingsError as error:
        raise SettingsError(str(error).removeprefix("--objective: ")) from None


def bounds_in_words(bounds: PeriodBounds) -> str:
    """Return what holds within a period as it can be written.

    >>> bounds_in_words(PeriodBounds(period=ExcludedPeriod(), least=20, most=40))
    'min 20 max 40'
    """
    parts = (
        f"min {bounds.least}" if bounds.has_minimum else "",
        "" if bounds.most is None else f"max {bounds.most}",
        "" if bounds.objective is None else f"objective {objective_in_words(bounds.objective)}",
    )
    return " ".join(filter(None, parts))


def in_periods_in_words(found: InPeriods, at_ms: int) -> str:
    """Return what periods decide at a time, and until when: ``min 20 until 09:00 Europe/Berlin``; empty: nothing."""
    said = (
        (found.least, found.least and f"min {found.least.least}"),
        (found.most, found.most and f"max {found.most.most}"),
        (found.objective, found.objective and f"objective {objective_in_words(found.objective.objective)}"),
    )
    return ", ".join(f"{words} {_when(bounds.period, at_ms)}" for bounds, words in said if bounds is not None)


def _when(period: ExcludedPeriod, at_ms: int) -> str:
    if (period.starts, period.ends) == ("00:00", "24:00"):
        return f"within {period_in_words(period)}"
    return f"until {period.ends} {period.zone}" if covers(period, at_ms) else f"from {period.starts} {period.zone}"


READ_EACH: Mapping[str, Callable[[str], object]] = {"excluded": read_period, "minimum_within": read_within}
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
    if least is not None and most is not None and least > most:
        raise SettingsError(f"--task: {limits!r} of task {name}: {least} is more than {most}; {HOW_TASK}")
    try:
        return name, msgspec.convert({"parallelism_min": least, "parallelism_max": most}, learned(TaskLimits))
    except msgspec.ValidationError as error:
        why = in_plain_words(str(error).partition(" - at ")[0])
        raise SettingsError(f"--task: {limits!r} of task {name}: {why}; {HOW_TASK}") from None


def task_in_words(name: str, limits: TaskLimits) -> str:
    """Return the limits of a task as they can be written."""
    if limits.pinned:
        return f"{name}={PINNED}"
    return f"{name}={limits.parallelism_min or ''}..{limits.parallelism_max or ''}"


def in_words(values: Mapping[str, TaskLimits] | Sequence[ExcludedPeriod | PeriodBounds | str]) -> list[str]:
    """Return each task's limits, or each period, as it can be written; texts stay as they are."""
    if isinstance(values, Mapping):
        return [task_in_words(name, limits) for name, limits in values.items()]
    return [_each_in_words(value) for value in values]


def _each_in_words(value: ExcludedPeriod | PeriodBounds | str) -> str:
    if isinstance(value, PeriodBounds):
        return f"{period_in_words(value.period)}: {bounds_in_words(value)}"
    return value if isinstance(value, str) else period_in_words(value)


def check_bounds(settings: JobSettings) -> None:
    """Check what settings say of bounds, whatever the job.

    Raises:
        SettingsError: they contradict each other; the message names the option.
    """
    least, most = effective(settings, "parallelism_min"), settings.parallelism_max
    if most is not None and least > most:
        raise SettingsError(f"--min: {least} is more than --max {most}; give a --min of at most {most} or a higher --max")
    for each in settings.minimum_within or ():
        when = period_in_words(each.period)
        if most is not None and each.least > most:
            raise SettingsError(
                f"--within: {when}: min {each.least} is more than --max {most}; give at most that or a higher --max"
            )
        if each.most is not None and least > each.most:
            raise SettingsError(
                f"--within: {when}: max {each.most} is less than --min {least}; give at least that or a lower --min"
            )
