"""Finds in Kafka what belongs to one decision: window, settings, outcomes, command, progress, events. Judges nothing."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeVar

from confluent_kafka import Message

from contracts.errors import RecordRejected, SurescaleError
from contracts.ids import cluster_of
from contracts.messages import Decision, EngineEvent, EventRecord, JobSettings, Outcome, Progress, RescheduleCommand
from contracts.settings import RoadSettings
from contracts.topics import DECISIONS, ENGINE_EVENTS, JOB_SETTINGS, RESCHEDULE_COMMANDS, RESCHEDULE_EVENTS, SNAPSHOTS
from contracts.windows import Window, decode_window
from services.explain.log import Log, append_ms, everything, parsed

M = TypeVar("M")

PENDING = "pending"
ENDED = ("applied", "failed")
EVENTS_MAX = 50
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
    """What became of a decision: outcomes by sequence, the command if there was one, its progress and the engine's events."""

    outcomes: tuple[Outcome, ...]
    command: RescheduleCommand | None
    progress: tuple[Progress, ...]
    events: tuple[EngineEvent, ...]


def find_decision(log: Log, wanted: str) -> Found:
    """Return the decision of this id, the one behind a command's id, or a job's newest.

    Raises:
        NotFound: Kafka does not hold it, or no longer.
    """
    if "#" in wanted:
        command = _newest(log, RESCHEDULE_COMMANDS, RescheduleCommand, lambda record: record.command_id == wanted)
        if not command:
            raise NotFound(f"no command {wanted!r} is in Kafka; `surescale decisions JOB` lists those of a job")
        return find_decision(log, command[0][0].decision_id)
    found = _newest(log, DECISIONS, Decision, lambda record: wanted in (record.decision_id, record.job))
    if not found:
        raise NotFound(
            f"no decision {wanted!r} is in Kafka, or it is older than Kafka keeps; `surescale decisions JOB` lists them"
        )
    newest = found[-1][0].decision_id
    # Delivered again it is the same: what became of it follows its first record.
    decision, record = next(pair for pair in found if pair[0].decision_id == newest)
    return Found(decision, _bytes(record), append_ms(record))


def find_aftermath(log: Log, found: Found) -> Aftermath:
    """Return what became of a decision so far; reads on from its own record until everything has ended."""
    of = found.decision.decision_id
    outcomes: dict[int, Outcome] = {}
    progress: dict[str, Progress] = {}
    for record in parsed_each(log.since(RESCHEDULE_EVENTS, found.append_ms), EventRecord):
        if isinstance(record, Outcome) and record.decision_id == of:
            outcomes.setdefault(record.sequence, record)
        elif isinstance(record, Progress) and record.command_id in {outcome.command_id for outcome in outcomes.values()}:
            progress.setdefault(record.status, record)
        if _ended(outcomes, progress):
            break
    told = tuple(outcomes[sequence] for sequence in sorted(outcomes))
    commands = parsed_each(log.since(RESCHEDULE_COMMANDS, found.append_ms), RescheduleCommand) if _commanded(told) else ()
    command = next((record for record in commands if record.decision_id == of), None)
    steps = tuple(sorted(progress.values(), key=lambda step: (step.at_ms, step.status in ENDED)))
    until_ms = steps[-1].at_ms + 1 if steps else found.decision.span_end_ms + EVENTS_AFTER_MS
    return Aftermath(told, command, steps, _events(log, found, until_ms))


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
    decision = found.decision
    same = None
    for settings in parsed(everything(road, [JOB_SETTINGS])[JOB_SETTINGS], JobSettings):
        if settings.job == decision.job and settings.version == decision.settings_version:
            same = settings  # of equal versions the later record counts
    if same is None and decision.settings_version == 0:
        return JobSettings(job=decision.job)
    return same


def parsed_each(records: Iterable[Message], kind: type[M] | UnionType) -> Iterator[Any]:
    """Yield the records that parse, one by one."""
    for record in records:
        yield from parsed([record], kind)


def _newest(log: Log, topic: str, kind: type[M], fits: Callable[[M], bool]) -> list[tuple[M, Message]]:
    """Return the fitting records of the newest piece that has any, in the order of the topic."""
    for piece in log.newest_first(topic):
        found = [(message, record) for record in piece for message in parsed([record], kind) if fits(message)]
        if found:
            return found
    return []


def _ended(outcomes: dict[int, Outcome], progress: dict[str, Progress]) -> bool:
    if not outcomes:
        return False
    last = outcomes[max(outcomes)]
    if last.status == "commanded" and last.reason != "advise":
        return any(status in progress for status in ENDED)
    return last.status != PENDING


def _commanded(outcomes: tuple[Outcome, ...]) -> bool:
    return any(outcome.command_id for outcome in outcomes)


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
