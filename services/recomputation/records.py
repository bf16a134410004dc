"""Finds in Kafka what a decision was made from: its own record, the window and the settings."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Any

from confluent_kafka import Message

from contracts.decisions import Decision
from contracts.errors import RecordRejected, SurescaleError
from contracts.job_settings import JobSettings
from contracts.topics import DECISIONS, JOB_SETTINGS, SNAPSHOTS
from contracts.windows import Window, decode_window
from runtime.topic_records import append_ms, parsed, value_of
from services.recomputation.log import Log


class NotInKafka(SurescaleError):
    """Kafka holds nothing of that name, or no longer."""


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
class Found:
    """One decision with its record on Kafka."""

    decision: Decision
    raw: bytes
    append_ms: int

    @property
    def origin(self) -> Origin:
        """Return where to look for what became of it."""
        decision = self.decision
        return Origin(decision.decision_id, decision.job, decision.span_end_ms, self.append_ms, self.append_ms)


def find_decision_since(log: Log, decision_id: str, from_append_ms: int) -> Found:
    """Return the decision of this id that was appended at this time (broker's) or later.

    Raises:
        NotInKafka: Kafka no longer holds it.
    """
    for record in log.since(DECISIONS, from_append_ms):
        for decision in parsed([record], Decision):
            if decision.decision_id == decision_id:
                return Found(decision, value_of(record) or b"", append_ms(record))
    raise NotInKafka(f"the decision {decision_id} is no longer in Kafka")


def find_window(log: Log, found: Found) -> Window | None:
    """Return the window the decision was made on, None if Kafka no longer holds it.

    It was appended after the record that closed its last minute and before the decision.
    """
    decision = found.decision
    for record in log.since(SNAPSHOTS, decision.closed_append_ms or 0):
        if record.key() == decision.job.encode():
            try:
                window = decode_window(value_of(record) or b"")
            except RecordRejected:
                continue
            if window.id == decision.window_id:
                return window
        if append_ms(record) > found.append_ms and record.key() == decision.job.encode():
            return None
    return None


def find_settings(log: Log, found: Found) -> JobSettings | None:
    """Return the settings of the version that the decision names: the defaults for version 0, None if they are gone."""
    history = [
        (settings, append_ms(record)) for record in log.since(JOB_SETTINGS, 0) for settings in parsed([record], JobSettings)
    ]
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


def parsed_each(records: Iterable[Message], kind: type[Any] | UnionType) -> Iterator[Any]:
    """Yield the records that parse, one by one."""
    for record in records:
        yield from parsed([record], kind)
