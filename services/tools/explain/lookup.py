"""Finds in Kafka a decision, or an act of the rescaler's own, and what became of it: outcomes, command, progress, events.

Also where the gate of its job stands now, if it still deals with that decision.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from difflib import get_close_matches
from types import UnionType
from typing import Any, TypeVar

import msgspec
from confluent_kafka import Message

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Balance, EventRecord, Outcome, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.ids import cluster_of
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, EngineEvent, JobTopology
from surescale.contracts.own_acts import OwnAct, own_act_of
from surescale.contracts.rent import slot_price_per_s
from surescale.contracts.rescaler_state import JobSummary
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import (
    CLUSTER_TOPOLOGY,
    DECISIONS,
    ENGINE_EVENTS,
    JOB_SETTINGS,
    JOB_TOPOLOGY,
    RESCALER_STATE,
    RESCHEDULE_COMMANDS,
    RESCHEDULE_EVENTS,
)
from surescale.runtime.topic_records import append_ms, memories, parsed, read_topics, value_of
from surescale.services.recomputation.records import Found, Log, NotInKafka, Origin, parsed_each
from surescale.services.state.read.staleness import FRESH_MINUTES, next_decision, next_in_words

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


@dataclass(frozen=True, slots=True)
class FoundOwnAct:
    """One act that the rescaler started by itself, with the look at the hosts that led to it, if one did."""

    own_act: OwnAct
    first: Outcome
    append_ms: int
    look: Balance | None = None

    @property
    def origin(self) -> Origin:
        """Return where to look for what led to it and what became of it; a host may have gone a while before."""
        first, before_ms = self.first, self.first.at_ms - CAUSES_BEFORE_MS
        return Origin(first.decision_id, first.job, before_ms, self.append_ms - AROUND_MS, self.append_ms - CAUSES_BEFORE_MS)


class Aftermath(msgspec.Struct, frozen=True):
    """What became of a decision: outcomes by sequence, the commands of its steps, their progress and the engine's events."""

    outcomes: tuple[Outcome, ...] = ()
    commands: tuple[RescheduleCommand, ...] = ()
    progress: tuple[Progress, ...] = ()
    engine_events: tuple[EngineEvent, ...] = ()


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
    jobs: dict[str, set[int]] = {}

    def fits(record: Decision) -> bool:
        jobs.setdefault(record.job, set()).add(record.span_end_ms)
        return wanted in (record.decision_id, record.job)

    found = _newest(log, DECISIONS, Decision, fits)
    if not found:
        raise NotInKafka(_nothing_of(wanted, jobs))
    newest = found[-1][0].decision_id
    # It may have been delivered again; what became of it follows its first record.
    decision, record = next(pair for pair in found if pair[0].decision_id == newest)
    decided_ms = tuple(sorted(jobs[decision.job], reverse=True))
    return Found(decision, value_of(record) or b"", append_ms(record), decided_ms)


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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known of a job and its cluster now.

    Attributes:
        labels: the name that people know each task by; tasks without one are left out.
        slot_price_per_s: dollars a slot, where the engine places; None: unknown.
        topology: of the job; None: unknown.
        settings: of the job; None: nobody set any.
    """

    labels: dict[str, str]
    slot_price_per_s: float | None
    topology: JobTopology | None = None
    settings: JobSettings | None = None

    def next_in_words(self, found: Found, span_minutes: int) -> str:
        """Return when the job is decided on next and what that waits for; empty if a decision is not its newest."""
        made, topology = found.decision, self.topology
        if topology is None or found.decided_ms[:1] != (made.span_end_ms,):
            return ""
        known = made.span_end_ms, made.minutes_known
        due = next_decision(topology, self.settings, *known, found.decided_ms, span_minutes)
        if due is not None and topology.at_ms > due.at_ms + FRESH_MINUTES * MINUTE_MS:
            return f"was {due.words}, and has not come; `surescale job show {made.job}` says what is missing"
        return next_in_words(topology, None, due)


def find_surroundings(pipeline: PipelineSettings, job: str) -> Surroundings:
    """Return what is known of a job and its cluster now."""
    found = read_topics(pipeline, [JOB_TOPOLOGY, CLUSTER_TOPOLOGY, JOB_SETTINGS])
    topologies = [each for each in parsed(found[JOB_TOPOLOGY], JobTopology) if each.job == job]
    labels = {spec.task: spec.label for each in topologies for spec in each.tasks if spec.label}
    settings = [each for each in parsed(found[JOB_SETTINGS], JobSettings) if each.job == job]
    clusters = [each for each in parsed(found[CLUSTER_TOPOLOGY], ClusterTopology) if each.cluster == cluster_of(job)]
    is_priced = bool(clusters) and clusters[-1].engine.places == "itself"
    return Surroundings(
        labels,
        slot_price_per_s(clusters[-1]) if is_priced else None,
        topologies[-1] if topologies else None,
        settings[-1] if settings else None,
    )


def find_aftermath(log: Log, found: Found | FoundOwnAct) -> Aftermath:
    """Return what became of a decision or an act so far. Reads from its own record on, until everything has ended."""
    origin = found.origin
    outcomes = _outcomes(log, origin)
    commands = _commands(log, origin) if any(outcome.command_id for outcome in outcomes) else ()
    progress = _progress(log, origin, commands) if commands else ()
    last_ms = found.decision.span_end_ms if isinstance(found, Found) else found.first.at_ms
    until_ms = progress[-1].at_ms + 1 if progress else last_ms + EVENTS_AFTER_MS
    return Aftermath(outcomes, commands, progress, _events(log, origin, until_ms))


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


def _nothing_of(wanted: str, jobs: Collection[str] = ()) -> str:
    """Return what to say of a name that Kafka knows nothing of.

    >>> _nothing_of("sim/click", ["sim/clicks", "sim/orders"])
    "no decision on job 'sim/click' is in Kafka; did you mean sim/clicks?"
    >>> _nothing_of("clicks", ["sim/clicks"])
    "no decision on job 'clicks' is in Kafka; did you mean sim/clicks?"
    """
    named, at, rest = wanted.partition("@")
    like_a_command = re.search(r"#\d+(\.\d+)?\Z", named)
    close = [] if named in jobs or like_a_command else get_close_matches(named, sorted(jobs), n=1)
    if close:
        return f"no decision on job {named!r} is in Kafka; did you mean {close[0]}{at}{rest}?"
    if names_command(wanted):
        return f"no command {wanted!r} is in Kafka; `surescale job decisions JOB` lists those of a job"
    if "@" in wanted:
        return f"no decision {wanted!r} is in Kafka, or it is older than Kafka keeps; `surescale job decisions JOB` lists them"
    if re.search(r"#\d+\Z", wanted):  # a job's name may end so too, but this is the likelier slip
        return f"no decision on job {wanted!r} is in Kafka; a command is named with its step, such as '{wanted}.0'"
    if wanted.count("/") == 1:
        return f"no decision on job {wanted!r} is in Kafka; `surescale job list` lists the jobs"
    return (
        f"{wanted!r} names no job (cluster/name), no decision (job@span end/policy) and no command (job#generation.step); "
        "`surescale job list` lists the jobs"
    )


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


class GateNow(msgspec.Struct, frozen=True, kw_only=True):
    """The gate's phase, why and until when the decision waits, and the command that carries it out."""

    phase: str | None
    waits_because: str | None
    wakes_up_ms: int | None
    carries_out: str | None


def gate_now(settings: PipelineSettings, job: str, act_id: str) -> GateNow | None:
    """Return where the gate of a job stands, None if it now deals with another decision or act."""
    summary = None
    for record in memories(read_topics(settings, [RESCALER_STATE])[RESCALER_STATE]):
        if record.kind == "job" and record.id == job and record.summary is not None:
            summary = record.summary
    return None if summary is None else about(summary, act_id)


def about(summary: JobSummary, decision_id: str) -> GateNow | None:
    """Return what the rescaler's summary of a job says about one decision.

    >>> from surescale.contracts.rescaler_state import CommandUnderway
    >>> about(JobSummary(phase="Idling", underway=CommandUnderway(decision_id="d", command_id="c")), "d")
    GateNow(phase='Idling', waits_because=None, wakes_up_ms=None, carries_out='c')
    """
    waits = summary.pending if summary.pending and summary.pending.decision_id == decision_id else None
    carries_out = summary.underway if summary.underway and summary.underway.decision_id == decision_id else None
    if waits is None and carries_out is None:
        return None
    return GateNow(
        phase=summary.phase,
        waits_because=waits.reason if waits else None,
        wakes_up_ms=waits.until_ms if waits else None,
        carries_out=carries_out.command_id if carries_out else None,
    )
