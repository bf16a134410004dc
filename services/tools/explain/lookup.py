"""Finds in Kafka what belongs to one decision: window, settings, outcomes, command, progress, events."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from types import UnionType
from typing import Any, TypeVar

from confluent_kafka import Message

from contracts.commands import Balance, EventRecord, Outcome, Progress, RescheduleCommand
from contracts.errors import RecordRejected, SurescaleError
from contracts.ids import cluster_of
from contracts.job_settings import JobSettings
from contracts.messages import Decision, EngineEvent, JobTopology
from contracts.own_acts import OwnAct, own_act_of
from contracts.settings import RoadSettings
from contracts.topics import (
    DECISIONS,
    ENGINE_EVENTS,
    JOB_SETTINGS,
    JOB_TOPOLOGY,
    RESCHEDULE_COMMANDS,
    RESCHEDULE_EVENTS,
    SNAPSHOTS,
)
from contracts.windows import Window, decode_window
from runtime.whole_topics import append_ms, parsed, read_whole
from services.tools.explain.log import Log

M = TypeVar("M")

PENDING = "pending"
ENDED = ("applied", "failed")
LAST_ACTIONS = ("commit", "abort", "standby")  # of a rescale; a ``prepare`` is followed by another one
EVENTS_MAX = 50
_COMMAND = re.compile(r"#\d+\.\d+\Z")
EVENTS_AFTER_MS = 600_000  # show events this long after a span's end if nothing was commanded
CAUSES_BEFORE_MS = 900_000  # and this long before an act of the rescaler's own: by then it has followed a host
AROUND_MS = 60_000  # broker's time: what one transaction writes has append times this close together
LED_BY_LOOKS = (OwnAct.BALANCE, OwnAct.STANDBY)


class NotInKafka(SurescaleError):
    """Kafka holds nothing of that name, or no longer."""


@dataclass(frozen=True, slots=True)
class Found:
    """One decision with its record on Kafka."""

    decision: Decision
    raw: bytes
    append_ms: int

    @property
    def origin(self) -> "Origin":
        """Return where to look for what became of it."""
        decision = self.decision
        return Origin(decision.decision_id, decision.job, decision.span_end_ms, self.append_ms, self.append_ms)


@dataclass(frozen=True, slots=True)
class FoundOwnAct:
    """One act that the rescaler started by itself, with the look at the hosts that led to it, if one did."""

    own_act: OwnAct
    first: Outcome
    append_ms: int
    look: Balance | None = None

    @property
    def origin(self) -> "Origin":
        """Return where to look for what led to it and what became of it; a host may have gone a while before."""
        first, before_ms = self.first, self.first.at_ms - CAUSES_BEFORE_MS
        return Origin(first.decision_id, first.job, before_ms, self.append_ms - AROUND_MS, self.append_ms - CAUSES_BEFORE_MS)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where everything around a decision or an act begins: its id and job; events count from an event time on.

    Its outcomes were appended at ``append_ms`` or later, its events at ``events_append_ms`` or later (broker's times).
    """

    act_id: str
    job: str
    events_from_ms: int
    append_ms: int
    events_append_ms: int


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What became of a decision: outcomes by sequence, the commands of its steps, their progress and the engine's events."""

    outcomes: tuple[Outcome, ...]
    commands: tuple[RescheduleCommand, ...]
    progress: tuple[Progress, ...]
    events: tuple[EngineEvent, ...]


def find(log: Log, wanted: str) -> Found | FoundOwnAct:
    """Return the decision or the rescaler's own act of this id, the one behind a command's id, or a job's newest decision.

    Raises:
        NotInKafka: Kafka does not hold it, or no longer does.
    """
    if names_command(wanted):
        command = _newest(log, RESCHEDULE_COMMANDS, RescheduleCommand, lambda record: record.command_id == wanted)
        if command:
            wanted = command[0][0].decision_id
    own_act = own_act_of(wanted)
    return find_decision(log, wanted) if own_act is None else _find_own_act(log, wanted, own_act)


def find_decision(log: Log, wanted: str) -> Found:
    """Return the decision of this id, or a job's newest.

    Raises:
        NotInKafka: Kafka does not hold it, or no longer does.
    """
    found = _newest(log, DECISIONS, Decision, lambda record: wanted in (record.decision_id, record.job))
    if not found:
        raise NotInKafka(_nothing_of(wanted))
    newest = found[-1][0].decision_id
    # It may have been delivered again; what became of it follows its first record.
    decision, record = next(pair for pair in found if pair[0].decision_id == newest)
    return Found(decision, _bytes(record), append_ms(record))


def names_command(wanted: str) -> bool:
    """Return whether a name is a command's (``job#generation.step``); a job's name may contain ``#`` too.

    >>> names_command("sim/clicks#4.1"), names_command("sim/Job #3")
    (True, False)
    """
    return _COMMAND.search(wanted) is not None


def _find_own_act(log: Log, act_id: str, own_act: OwnAct) -> FoundOwnAct:
    found = _newest(
        log, RESCHEDULE_EVENTS, EventRecord, lambda record: isinstance(record, Outcome) and record.decision_id == act_id
    )
    if not found:
        raise NotInKafka(_nothing_of(act_id))
    first, record = min(found, key=lambda pair: pair[0].sequence)
    act = FoundOwnAct(own_act, first, append_ms(record))
    return replace(act, look=_look_before(log, act)) if own_act in LED_BY_LOOKS else act


def _look_before(log: Log, act: FoundOwnAct) -> Balance | None:
    """Return the look at the hosts that started an act: it has the same time and was appended with it, before or after."""
    for record in parsed_each(log.since(RESCHEDULE_EVENTS, act.append_ms - AROUND_MS), EventRecord):
        if isinstance(record, Balance) and record.cluster == act.first.cluster and record.at_ms >= act.first.at_ms:
            return record if record.at_ms == act.first.at_ms else None
    return None


def find_labels(road: RoadSettings, job: str) -> dict[str, str]:
    """Return the name that people know each of a job's tasks by; tasks without one are left out."""
    topologies = parsed(read_whole(road, [JOB_TOPOLOGY])[JOB_TOPOLOGY], JobTopology)
    return {spec.task: spec.label for each in topologies if each.job == job for spec in each.tasks if spec.label}


def find_aftermath(log: Log, found: Found | FoundOwnAct) -> Aftermath:
    """Return what became of a decision or an act so far. Reads from its own record on, until everything has ended."""
    origin = found.origin
    outcomes = _outcomes(log, origin)
    commands = _commands(log, origin) if any(outcome.command_id for outcome in outcomes) else ()
    progress = _progress(log, origin, commands) if commands else ()
    last_ms = found.decision.span_end_ms if isinstance(found, Found) else found.first.at_ms
    until_ms = progress[-1].at_ms + 1 if progress else last_ms + EVENTS_AFTER_MS
    return Aftermath(outcomes, commands, progress, _events(log, origin, until_ms))


def find_window(log: Log, found: Found) -> Window | None:
    """Return the window the decision was made on, None if Kafka no longer holds it.

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
    """Return the settings of the version that the decision names: the defaults for version 0, None if they are gone."""
    records = read_whole(road, [JOB_SETTINGS])[JOB_SETTINGS]
    history = [(settings, append_ms(record)) for record in records for settings in parsed([record], JobSettings)]
    return settings_named(history, found.decision, found.append_ms)


def settings_named(history: Iterable[tuple[JobSettings, int]], decision: Decision, decided_ms: int) -> JobSettings | None:
    """Return the settings that a decision was made with, given all settings and their append times in the order of the topic.

    Two users who wrote at the same time may have used one version twice: the later record counts from its append on.
    """
    wanted = decision.job, decision.settings_version
    named = [(settings, at_ms) for settings, at_ms in history if (settings.job, settings.version) == wanted]
    if not named:
        return None if decision.settings_version else JobSettings(job=decision.job)
    known = [settings for settings, at_ms in named if at_ms <= decided_ms]
    return known[-1] if known else named[0][0]


def parsed_each(records: Iterable[Message], kind: type[M] | UnionType) -> Iterator[Any]:
    """Yield the records that parse, one by one."""
    for record in records:
        yield from parsed([record], kind)


def _newest(log: Log, topic: str, kind: type[M] | UnionType, fits: Callable[[Any], bool]) -> list[tuple[Any, Message]]:
    """Return the fitting records of the newest piece that has any and of the piece before, in the order of the topic.

    A record that was delivered twice may be in both; the two are rarely farther apart.
    """
    found: list[tuple[Any, Message]] = []
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
    if re.search(r"#\d+\Z", wanted):  # a job's name may end so too, but this is the likelier slip
        return f"no decision on job {wanted!r} is in Kafka; a command is named with its step, such as '{wanted}.0'"
    if wanted.count("/") == 1:
        return f"no decision on job {wanted!r} is in Kafka; `surescale state` lists the jobs"
    return f"{wanted!r} names no job (cluster/name), no decision (job@span end/policy) and no command (job#generation.step)"


def _outcomes(log: Log, origin: Origin) -> tuple[Outcome, ...]:
    outcomes: dict[int, Outcome] = {}
    for record in parsed_each(log.since(RESCHEDULE_EVENTS, origin.append_ms), EventRecord):
        if isinstance(record, Outcome) and record.decision_id == origin.act_id:
            outcomes.setdefault(record.sequence, record)
            if record.status != PENDING:
                break
    return tuple(outcomes[sequence] for sequence in sorted(outcomes))


def _commands(log: Log, origin: Origin) -> tuple[RescheduleCommand, ...]:
    """Return the steps that carried out the decision, first to last."""
    commands: dict[str, RescheduleCommand] = {}
    for record in parsed_each(log.since(RESCHEDULE_COMMANDS, origin.append_ms), RescheduleCommand):
        if record.decision_id == origin.act_id:
            commands.setdefault(record.command_id, record)
            if record.action in LAST_ACTIONS:
                break
    return tuple(commands.values())


def _progress(log: Log, origin: Origin, commands: tuple[RescheduleCommand, ...]) -> tuple[Progress, ...]:
    steps = [command.command_id for command in commands]
    progress: dict[tuple[str, str], Progress] = {}
    for record in parsed_each(log.since(RESCHEDULE_EVENTS, origin.append_ms), EventRecord):
        if isinstance(record, Progress) and record.command_id in steps:
            progress[record.command_id, record.status] = record  # of several ``warming`` reports the last counts
            if record.command_id == steps[-1] and record.status in ENDED:
                break
    return tuple(sorted(progress.values(), key=lambda step: (step.at_ms, steps.index(step.command_id), step.status in ENDED)))


def _events(log: Log, origin: Origin, until_ms: int) -> tuple[EngineEvent, ...]:
    cluster = cluster_of(origin.job)
    events: dict[str, EngineEvent] = {}
    for event in parsed_each(log.since(ENGINE_EVENTS, origin.events_append_ms), EngineEvent):
        if event.cluster == cluster and event.at_ms > until_ms:
            break
        if event.cluster == cluster and event.job in (None, origin.job) and event.at_ms >= origin.events_from_ms:
            events[event.identity] = event
    return tuple(sorted(events.values(), key=lambda event: (event.at_ms, event.sequence)))[:EVENTS_MAX]


def _bytes(record: Message) -> bytes:
    value = record.value()
    return value.encode() if isinstance(value, str) else value or b""
