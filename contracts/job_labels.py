"""Limits as labels of the job itself: ``surescale.max: 12`` in the job is ``surescale job set JOB --max 12``. Pure.

What somebody set for the job wins over its labels, and these over the default of its engine. A label that cannot be read counts
as none, and ``unreadable`` says so in one line.
"""

import difflib
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec
import msgspec.inspect

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import SETTINGS, JobSettings
from surescale.contracts.limits_in_words import NONE, READ_EACH, check_bounds, read_task
from surescale.contracts.modes import AMBIGUOUS_LABEL, LABEL_PREFIX, MODE_LABEL
from surescale.contracts.objectives import read_objective
from surescale.contracts.plain_words import in_plain_words, words_of
from surescale.contracts.suggestions import meant
from surescale.contracts.wire import learned

FIELDS = {setting.option: field for field, setting in SETTINGS.items() if field != "mode"}
"""The field of each limit, by its name: that of the option without the dashes, and of the label without the prefix."""
STEP, STEPS = "step", ("step_up_max", "step_down_max")
"""The name that stands for both steps."""
NAMES = (*FIELDS, STEP)
Source = Literal["settings", "label", "default"]
SEPARATOR = ";"
"""Between several periods or tasks in one label."""
_OTHERS = {MODE_LABEL, AMBIGUOUS_LABEL, f"{LABEL_PREFIX}job"}


def written(mode: str | None, limits: Mapping[str, object], where: str) -> dict[str, str]:
    """Return the labels of a job whose mode and limits are in a file, by their names; ``where`` they are.

    Raises:
        SettingsError: a limit is unknown or cannot be read, or two contradict each other.
    """
    found: dict[str, object] = {}
    labels = {f"{LABEL_PREFIX}{name}": str(value) for name, value in limits.items()}
    for name, value in limits.items():
        if name not in NAMES:
            raise SettingsError(f"{where}: there is no limit {name!r}; {meant(name, NAMES)}")
        try:
            field = STEPS[0] if name == STEP else FIELDS[name]
            found[field] = read_limit(field, str(value).strip())
        except (SettingsError, ValueError) as error:
            raise SettingsError(f"{where}.{name}: {str(value)[:40]!r} cannot be read: {error}") from None
    try:
        check_bounds(msgspec.structs.replace(JobSettings(job="any/job"), **found))
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None
    return labels | ({MODE_LABEL: mode} if mode else {})


def is_set(settings: JobSettings, field: str) -> bool:
    """Return whether somebody set a field."""
    return getattr(settings, field) is not None


def source_of(settings: JobSettings, labels: Mapping[str, str], field: str) -> Source:
    """Return what decides a field: settings, a label, or the default of the job's engine."""
    if is_set(settings, field):
        return "settings"
    return "label" if is_set(in_force(settings, labels), field) else "default"


def in_force(settings: JobSettings, labels: Mapping[str, str]) -> JobSettings:
    """Return a job's settings with the limits of its labels where nobody set them."""
    read = _read(tuple(sorted(labels.items())))[0]
    wanted = {field: value for field, value in read.items() if not is_set(settings, field)}
    return msgspec.structs.replace(settings, **wanted) if wanted else settings


def unreadable(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line for each label that says nothing: what it is, and why."""
    return _read(tuple(sorted(labels.items())))[1]


@lru_cache(maxsize=4_096)
def _read(labels: tuple[tuple[str, str], ...]) -> tuple[dict[str, object], tuple[str, ...]]:
    found: dict[str, object] = {}
    problems: list[str] = []
    for label, text in labels:
        if not label.startswith(LABEL_PREFIX) or label in _OTHERS:
            continue
        name = label.removeprefix(LABEL_PREFIX)
        fields = STEPS if name == STEP else (FIELDS[name],) if name in FIELDS else ()
        if not fields:
            near = difflib.get_close_matches(name, FIELDS, n=1)
            problems += [f"label {label} is no limit; {LABEL_PREFIX}{near[0]} is one"] if near else []
            continue
        try:
            found |= dict.fromkeys(fields, read_limit(fields[0], text.strip()))  # sorted: a step of its own comes later
        except (SettingsError, msgspec.ValidationError, ValueError) as error:
            why = " ".join(str(error).split()).partition(" - at ")[0]
            problems.append(f"label {label} is ignored: {text.strip()[:40]!r} cannot be read: {why}")
    return found, tuple(problems)


def read_limit(field: str, text: str) -> object:
    """Return what a text sets a field to; several periods or tasks are separated by ``;``.

    Raises:
        SettingsError, ValueError: it cannot be read.
    """
    parts = [part.strip() for part in text.split(SEPARATOR) if part.strip()]
    if field in READ_EACH:
        return () if parts == [NONE] else tuple(READ_EACH[field](part) for part in parts)
    if field == "tasks":
        return {name: limits for name, limits in map(read_task, parts) if limits is not None}
    if field == "objective":
        return read_objective(text)
    given: object = text
    if words := SETTINGS[field].words:
        known = {**words, "true": True, "false": False} if "yes" in words else words
        if text.lower() not in known:
            raise ValueError(f"give {' or '.join(words)}")
        given = known[text.lower()]
    try:
        read: object = getattr(msgspec.convert({"job": "any/job", field: given}, learned(JobSettings), strict=False), field)
    except msgspec.ValidationError as error:
        raise ValueError(in_plain_words(str(error).partition(" - at ")[0], _words(field))) from None
    if read is None or (isinstance(read, float) and not math.isfinite(read)):
        raise ValueError("give a number")
    return read


def _words(field: str) -> list[str]:
    """Return the words that a field of the settings may have."""
    kind = msgspec.inspect.type_info(JobSettings)
    assert isinstance(kind, msgspec.inspect.StructType)
    return [word for each in kind.fields if each.name == field for word in words_of(each.type)]
