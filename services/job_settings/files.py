"""Job settings as files: read, matched with the jobs there are, compared with what is set, and written. Pure.

A file is TOML, a table for each job or pattern, with the names of the options (``SETTINGS``):

    [jobs."flink/orders"]
    mode = "act"
    max = 12
    exclude = ["mon-fri 09:00-17:30 Europe/Berlin"]

What a table does not name is left to the job's labels and its engine. Files own a job's settings whole.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from surescale.contracts.errors import UNREADABLE, SettingsError, reason_of
from surescale.contracts.foreign_files import in_time, is_plain, toml
from surescale.contracts.job_labels import STEP, STEPS, read_limit
from surescale.contracts.job_settings import SETTINGS, JobSettings
from surescale.contracts.limits_in_words import READ_EACH, check_bounds, in_words, read_task
from surescale.contracts.suggestions import meant, near
from surescale.runtime.printable import one_line
from surescale.services.job_settings.changes import Applied, applied_to, changed, differences, value_in_words
from surescale.services.job_settings.snapshot import KnownJobs, note

T = TypeVar("T")
R = TypeVar("R")

TABLE = "jobs"
BESIDE = ("settings", "up", "chains")
"""Other tables of a pipeline's file (`services.pipeline_file`), which are not read here."""
SUFFIX = ".toml"
UNSET: Mapping[str, object] = dict.fromkeys(SETTINGS)
_OPTIONS = {setting.option: (field,) for field, setting in SETTINGS.items()} | {STEP: STEPS}
_WILD = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Entry:
    """What one table of a file says: of which job or pattern, and each setting by field; ``where`` it stands."""

    where: str
    name: str
    wanted: Mapping[str, object]

    def jobs(self, known: Iterable[str]) -> list[str]:
        """Return the jobs that it is for: the one that it names, known or not, or all known ones that fit its pattern."""
        if _WILD.isdisjoint(self.name) or self.name in known:
            return [self.name]
        return [job for job in known if fnmatchcase(job, self.name)]


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of one job: its settings before and after, the entry, and what was changed by hand since files were applied.

    ``note`` says what of it has no effect, or none yet.
    """

    before: JobSettings
    after: JobSettings
    why: str
    by_hand: Mapping[str, tuple[object, object]]
    note: str | None

    @property
    def differences(self) -> dict[str, tuple[object, object]]:
        """Return the settings that differ, by field."""
        return {name: pair for name, pair in differences(self.before, self.after).items() if name in SETTINGS}

    @property
    def is_change(self) -> bool:
        """Return whether there is something to write."""
        return self.after.version != self.before.version


def read_entries(path: Path) -> list[Entry]:
    """Return the entries of a file, or of all files of a folder.

    Raises:
        SettingsError: a file cannot be read, or has something unknown; names each such file in a line, with the entry.
    """
    try:
        files = in_time(lambda: sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path], path)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {reason_of(error)}") from None
    if not files:
        raise SettingsError(f"{path}: holds no file that ends in {SUFFIX}")
    return [entry for entries in read_all(_entries, files) for entry in entries]


def read_all(read: Callable[[T], R], given: Iterable[T]) -> list[R]:
    """Return what each is read as.

    Raises:
        SettingsError: some cannot be read; says what is wrong with each of them, a line each.
    """
    found, wrong = list[R](), list[str]()
    for each in given:
        try:
            found.append(read(each))
        except SettingsError as error:
            wrong.append(str(error))
    if wrong:
        raise SettingsError("\n".join(wrong))
    return found


def _entries(file: Path) -> list[Entry]:
    try:
        document = toml(file)
    except OSError as error:
        raise SettingsError(f"{file}: cannot be read: {reason_of(error)}") from None
    except UNREADABLE as error:
        raise SettingsError(f"{file}: is not TOML: {error}") from None
    for name in document:
        if name not in (TABLE, *BESIDE):
            raise SettingsError(f'{file}: there is no {name!r}; write [{TABLE}."CLUSTER/NAME"]')
    tables = document.get(TABLE)
    if not isinstance(tables, dict) or not tables:
        raise SettingsError(f'{file}: names no job; write [{TABLE}."CLUSTER/NAME"]')
    return [entry_of(f'{file}: [{TABLE}."{name}"]', name, table) for name, table in tables.items()]


def entry_of(where: str, name: str, table: object) -> Entry:
    """Return what a table says of a job or pattern; ``where`` it stands, for messages.

    Raises:
        SettingsError: it has something unknown, or a value that cannot be read.
    """
    if not isinstance(table, dict):
        raise SettingsError(f"{where}: is not a table of settings; write `max = 12` and so on below it")
    if "/" not in name:
        raise SettingsError(f"{where}: is no name of a job; write CLUSTER/NAME, or a pattern like CLUSTER/*")
    wanted = dict(UNSET)
    for option, value in sorted(table.items(), key=lambda item: item[0] != STEP):  # a step of its own wins over both
        if option not in _OPTIONS:
            raise SettingsError(f"{where}: there is no setting {option!r}; {meant(option, _OPTIONS)}")
        for field in _OPTIONS[option]:
            wanted[field] = _value(where, option, field, value)
    try:
        check_bounds(msgspec.structs.replace(JobSettings(job="any/job"), **wanted))
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None
    return Entry(where, name, wanted)


def _value(where: str, option: str, field: str, value: Any) -> object:
    if SETTINGS[field].form and not isinstance(value, list):
        raise SettingsError(f'{where}: {option}: write a list, like {option} = ["{SETTINGS[field].form}"]')
    if not (all(isinstance(each, str) for each in value) if isinstance(value, list) else is_plain(value)):
        raise SettingsError(f"{where}: {option}: cannot be read: write a number or a text, or a list of texts")
    if isinstance(value, list) and not SETTINGS[field].form:
        raise SettingsError(f"{where}: {option}: takes one value, not a list")
    try:
        if field == "tasks":
            tasks = [read_task(each) for each in value]
            if len(dict(tasks)) < len(tasks):
                raise SettingsError("a task is named twice; name each once")
            return {name: limits for name, limits in tasks if limits is not None}
        if isinstance(value, list):
            return tuple(READ_EACH[field](each) for each in value)
        return read_limit(field, str(value).lower() if isinstance(value, bool) else str(value))
    except (SettingsError, msgspec.ValidationError, ValueError) as error:
        why = " ".join(str(error).split()).partition(" - at ")[0].removeprefix(f"--{option}: ")
        unit = f" ({SETTINGS[field].help.removesuffix('.')})" if isinstance(value, str) and why.startswith("must be a") else ""
        raise SettingsError(f"{where}: {option} = {one_line(json.dumps(value))}: {why}{unit}") from None


def plans(entries: Iterable[Entry], known: KnownJobs, name: str, by: str, *, prune: bool = False) -> list[Plan]:
    """Return what becomes of each job, in the order of the jobs.

    Args:
        entries: of all files.
        known: what is set now.
        name: what the files are known by, to tell their jobs from those of other files.
        by: who applies them.
        prune: jobs that these files once set and no longer name are left to their labels and engines.

    Raises:
        SettingsError: a pattern fits no job, a job has two entries or is other files', or settings contradict themselves or the
            job; names the entry.
    """
    chosen: dict[str, Entry] = {}
    for entry in entries:
        jobs = entry.jobs(known.topologies)
        if not jobs:
            like = ", ".join(near(entry.name, sorted(known.topologies))) or "none yet"
            raise SettingsError(f"{entry.where}: no job fits; correct or remove it (jobs known: {like})")
        for job in jobs:
            if job in chosen:
                raise SettingsError(
                    f"{entry.where}: {job} has an entry already, {chosen[job].where}; leave it out of one of them"
                )
            chosen[job] = entry
    made = [_plan(job, entry, known, name, by) for job, entry in sorted(chosen.items())]
    if prune:
        made += released(known.names - chosen.keys(), known, [name], by)
    return made


def released(jobs: Iterable[str], known: KnownJobs, names: Iterable[str], by: str) -> list[Plan]:
    """Return how the jobs among these that files of such names once set are left to their labels and engines."""
    owners = frozenset(names)
    owned = [(job, applied_to(known.records.get(job, ()), job)) for job in sorted(jobs)]
    return [
        _made(job, {**UNSET, "applied_from": ""}, known, f"{applied.name} no longer names it", by, applied)
        for job, applied in owned
        if applied and applied.name in owners
    ]


def _plan(job: str, entry: Entry, known: KnownJobs, name: str, by: str) -> Plan:
    applied = applied_to(known.records.get(job, ()), job)
    if applied and applied.name != name:
        raise SettingsError(
            f"{entry.where}: {job} is set by {applied.name}; take it out there and apply that with --prune, "
            f"or give --name {applied.name}"
        )
    try:
        return _made(job, {**entry.wanted, "applied_from": name}, known, entry.where, by, applied)
    except SettingsError as error:
        raise SettingsError(f"{entry.where}: {job}: {error}") from None


def _made(job: str, wanted: Mapping[str, object], known: KnownJobs, why: str, by: str, applied: Applied | None) -> Plan:
    snapshot = known.of(job, may_be_new=True)
    before = snapshot.settings
    tasks = {spec_name for spec in (snapshot.known.tasks if snapshot.known else ()) for spec_name in (spec.task, spec.label)}
    named: Any = wanted["tasks"] or {}
    for task in named if snapshot.known else ():
        if task not in tasks:
            some = ", ".join(sorted(each for each in tasks if each))
            raise SettingsError(f"task: there is no task {task!r}; known: {some}")
    after = changed(before, wanted, snapshot.known, by=by, at_ms=known.now_ms)
    by_hand = applied.by_hand(before) if applied else {}
    is_same = all(getattr(before, field) == getattr(after, field) for field in SETTINGS)
    is_ours = (applied.name if applied else "") == wanted["applied_from"]
    return Plan(before, before if is_same and is_ours and not by_hand else after, why, by_hand, note(before, after, snapshot))


def exported(settings: Iterable[JobSettings]) -> str:
    """Return the file that sets jobs as they are set now; one without settings of its own is left out."""
    return "\n".join(filter(None, map(_table, sorted(settings, key=lambda each: each.job))))


def _table(settings: JobSettings) -> str:
    given = {field: getattr(settings, field) for field in SETTINGS if getattr(settings, field) is not None}
    lines = [f"{SETTINGS[field].option} = {_toml(field, value)}" for field, value in given.items()]
    return "\n".join([f"[{TABLE}.{toml_text(settings.job)}]", *lines, ""]) if lines else ""


def _toml(field: str, value: Any) -> str:
    """Return a setting as TOML."""
    if SETTINGS[field].form:
        return f"[{', '.join(map(toml_text, in_words(value)))}]"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return json.dumps(value) if is_number else toml_text(value_in_words(field, value))


def toml_text(value: str) -> str:
    """Return a text of TOML: one of JSON, but for the one character that TOML allows only escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
