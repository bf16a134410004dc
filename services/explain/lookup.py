"""Finds in Kafka what belongs to one decision: window, settings, outcomes, command, progress, events. Judges nothing."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeVar

from confluent_kafka import Message

from contracts.commands import EventRecord, Outcome, Progress, RescheduleCommand
from contracts.errors import RecordRejected, SurescaleError
from contracts.ids import cluster_of
from contracts.messages import Decision, EngineEvent, JobSettings
from contracts.settings import RoadSettings
from contracts.topics import DECISIONS, ENGINE_EVENTS, JOB_SETTINGS, RESCHEDULE_COMMANDS, RESCHEDULE_EVENTS, SNAPSHOTS
from contracts.windows import Window, decode_window
from services.explain.log import Log
from services.road_topics import append_ms, everything, parsed

M = TypeVar("M")

PENDING = "pending"
ENDED = ("applied", "failed")
LAST_ACTIONS = ("commit", "abort")  # of a rescale; a ``prepare`` is followed by another step
EVENTS_MAX = 50
_COMMAND = re.compile(r"#\d+\.\d+\Z")
EVENTS_AFTER_MS = 600_000  # how long after a span's end events are shown when nothing was commanded


class NotFound(SurescaleError):
    """Kafka holds, or still holds, nothing of that name."""


@dataclass(frozen=True, slots=True)
class Found:
    """One decision with its record as it stands on Kafka."""

    decision: Decision
    raw: bytes
    append_ms: int


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What became of a decision: outcomes by sequence, the commands of its steps, their progress and the engine's events."""

    outcomes: tuple[Outcome, ...]
    commands: tuple[RescheduleCommand, ...]
    progress: tuple[Progress, ...]
    events: tuple[EngineEvent, ...]


def find_decision(log: Log, wanted: str) -> Found:
    """Return the decision of this id, the one behind a command's id, or a job's newest.

    Raises:
        NotFound: Kafka does not hold it, or no longer.
    """
    if names_command(wanted):
        command = _newest(log, RESCHEDULE_COMMANDS, RescheduleCommand, lambda record: record.command_id == wanted)
        if command:
            return find_decision(log, command[0][0].decision_id)
    found = _newest(log, DECISIONS, Decision, lambda record: wanted in (record.decision_id, record.job))
    if not found:
        raise NotFound(_nothing_of(wanted))
    newest = found[-1][0].decision_id
    # Delivered again it is the same: what became of it follows its first record.
    decision, record = next(pair for pair in found if pair[0].decision_id == newest)
    return Found(decision, _bytes(record), append_ms(record))


def names_command(wanted: str) -> bool:
    """Say whether a name is that of a command (``job#generation.step``); a job's own may hold the same sign.

    >>> names_command("sim/clicks#4.1"), names_command("sim/Job #3")
    (True, False)
    """
    return _COMMAND.search(wanted) is not None


def find_aftermath(log: Log, found: Found) -> Aftermath:
    """Return what became of a decision so far; reads on from its own record until everything has ended."""
    outcomes = _outcomes(log, found)
    commands = _commands(log, found) if any(outcome.command_id for outcome in outcomes) else ()
    progress = _progress(log, found, commands) if commands else ()
    until_ms = progress[-1].at_ms + 1 if progress else found.decision.span_end_ms + EVENTS_AFTER_MS
    return Aftermath(outcomes, commands, progress, _events(log, found, until_ms))


def find_window(log: Log, found: Found) -> Window | None:
    """Return the window that was decided on, None when Kafka no longer holds it.

    It was appended after the record that closed its last minute and before the decision.
    """
    decision = found.decision
    for record in log.since(SNAPSHOTS, decision.closed_append_ms or 0):
        if record.key() == decision.job.encode():
            try:
                window = decode_window(_bytes(record))
            except RecordRejected:
                continue
            if window.id == decision.window_id:
                return window
        if append_ms(record) > found.append_ms and record.key() == decision.job.encode():
            return None
    return None


def find_settings(road: RoadSettings, found: Found) -> JobSettings | None:
    """Return the settings of the version that the decision names, the defaults for version 0, None when they are gone."""
    records = everything(road, [JOB_SETTINGS])[JOB_SETTINGS]
    said = [(settings, append_ms(record)) for record in records for settings in parsed([record], JobSettings)]
    return settings_named(said, found.decision, found.append_ms)


def settings_named(said: Iterable[tuple[JobSettings, int]], decision: Decision, decided_ms: int) -> JobSettings | None:
    """Return the settings that a decision was made with, of all with their append times in the order of the topic.

    Two who wrote at the same time may have said one version twice: the later record counts, from its append on.
    """
    wanted = decision.job, decision.settings_version
    named = [(settings, at_ms) for settings, at_ms in said if (settings.job, settings.version) == wanted]
    if not named:
        return None if decision.settings_version else JobSettings(job=decision.job)
    known = [settings for settings, at_ms in named if at_ms <= decided_ms]
    return known[-1] if known else named[0][0]


def parsed_each(records: Iterable[Message], kind: type[M] | UnionType) -> Iterator[Any]:
    """Yield the records that parse, one by one."""
    for record in records:
        yield from parsed([record], kind)


def _newest(log: Log, topic: str, kind: type[M], fits: Callable[[M], bool]) -> list[tuple[M, Message]]:
    """Return the fitting records of the newest piece that has any and of the one before, in the order of the topic.

    What was delivered again may have stood in the piece before; farther apart the two seldom lie.
    """
    found: list[tuple[M, Message]] = []
    for piece in log.newest_first(topic):
        fitting = [(message, record) for record in piece for message in parsed([record], kind) if fits(message)]
        if found:
            return fitting + found
        found = fitting
    return found


def _nothing_of(wanted: str) -> str:
    if names_command(wanted):
        return f"no command {wanted!r} is in Kafka; `surescale decisions JOB` lists those of a job"
    if "@" in wanted:
        return f"no decision {wanted!r} is in Kafka, or it is older than Kafka keeps; `surescale decisions JOB` lists them"
    if wanted.count("/") == 1:
        return f"no decision on job {wanted!r} is in Kafka; `surescale state` lists the jobs"
    return f"{wanted!r} names no job (cluster/name), no decision (job@span end/policy) and no command (job#generation.step)"


def _outcomes(log: Log, found: Found) -> tuple[Outcome, ...]:
    outcomes: dict[int, Outcome] = {}
    for record in parsed_each(log.since(RESCHEDULE_EVENTS, found.append_ms), EventRecord):
        if isinstance(record, Outcome) and record.decision_id == found.decision.decision_id:
            outcomes.setdefault(record.sequence, record)
            if record.status != PENDING:
                break
    return tuple(outcomes[sequence] for sequence in sorted(outcomes))


def _commands(log: Log, found: Found) -> tuple[RescheduleCommand, ...]:
    """Return the steps that carried the decision out, the first to the last."""
    commands: dict[str, RescheduleCommand] = {}
    for record in parsed_each(log.since(RESCHEDULE_COMMANDS, found.append_ms), RescheduleCommand):
        if record.decision_id == found.decision.decision_id:
            commands.setdefault(record.command_id, record)
            if record.action in LAST_ACTIONS:
                break
    return tuple(commands.values())


def _progress(log: Log, found: Found, commands: tuple[RescheduleCommand, ...]) -> tuple[Progress, ...]:
    steps = [command.command_id for command in commands]
    progress: dict[tuple[str, str], Progress] = {}
    for record in parsed_each(log.since(RESCHEDULE_EVENTS, found.append_ms), EventRecord):
        if isinstance(record, Progress) and record.command_id in steps:
            progress[record.command_id, record.status] = record  # of several warming ones the last counts
            if record.command_id == steps[-1] and record.status in ENDED:
                break
    return tuple(sorted(progress.values(), key=lambda step: (step.at_ms, steps.index(step.command_id), step.status in ENDED)))


def _events(log: Log, found: Found, until_ms: int) -> tuple[EngineEvent, ...]:
    decision = found.decision
    cluster, events = cluster_of(decision.job), {}
    for event in parsed_each(log.since(ENGINE_EVENTS, found.append_ms), EngineEvent):
        if event.cluster == cluster and event.at_ms > until_ms:
            break
        if event.cluster == cluster and event.job in (None, decision.job) and event.at_ms >= decision.span_end_ms:
            events[event.sequence] = event
    return tuple(events[sequence] for sequence in sorted(events))[:EVENTS_MAX]


def _bytes(record: Message) -> bytes:
    value = record.value()
    return value.encode() if isinstance(value, str) else value or b""
