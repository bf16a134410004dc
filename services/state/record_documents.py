"""The documents of the HTTP API that show a record of Kafka. Public, as those in `documents` and `fleet_documents`.

The record is shown as it is (`contracts.messages`, `contracts.decisions`, `contracts.commands`), with its type; beside it stands
what the service knows besides.
"""

from typing import Generic, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from surescale.contracts.commands import Outcome, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.own_acts import OwnAct
from surescale.contracts.summaries import TaskMinutes, WindowSummary

T = TypeVar("T")


class ViewDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the documents of the API."""


class Appended(ViewDocument, Generic[T], frozen=True, kw_only=True):
    """A record of Kafka, and where and when it came there."""

    record: T
    """The record."""
    appended_ms: int
    """Broker's time of the record."""
    partition: int
    """Its partition of the topic."""
    offset: int
    """Its offset there."""


def record_in(found: Appended[T] | None) -> T | None:
    """Return the record alone, None if there is none."""
    return None if found is None else found.record


class WindowDocument(Appended[WindowSummary], frozen=True, kw_only=True):
    """The summary of a job's newest window."""

    freshness_ms: int | UnsetType = UNSET
    """From the append of the record that closed the window's last minute to the append of the window; absent if unknown."""


class TaskMinutesAt(msgspec.Struct, frozen=True, kw_only=True):
    """How a minute of a job went, task by task, as the view holds it; ``version`` is the minute's end."""

    version: int
    tasks: TaskMinutes


class CommandDocument(Appended[RescheduleCommand], frozen=True, kw_only=True):
    """A command and its progress."""

    progress: tuple[Appended[Progress], ...] = ()
    """The reports on it, in the order accepted, warming, applied, failed."""


class DecisionDocument(Appended[Decision], frozen=True, kw_only=True):
    """A decision, its last outcome, and the command it led to.

    Of what a task looked at it has the snapshots with the highest weight; in lists of decisions, none.
    """

    freshness_ms: int | UnsetType = UNSET
    """From ``closed_append_ms`` to ``appended_ms``; absent if unknown."""
    outcome: Appended[Outcome] | None = None
    """What the rescaler made of it; null before the first outcome."""
    command: CommandDocument | None = None
    """The command it led to, of several steps the last one; null if there is none."""
    unreadable: tuple[str, ...] | UnsetType = UNSET
    """Which of outcome, command and progress cannot be read, and are left out; absent if there are none."""


class OwnActDocument(ViewDocument, frozen=True, kw_only=True):
    """An act that no policy decided: the rescaler started it by itself."""

    decision_id: str
    """Identity of the act."""
    job: str
    """Id of the job, ``cluster/name``."""
    own_act: OwnAct
    """Which: recovery, drain, balance, standby, take-back, insist or reapply."""
    why: str
    """Why such an act happens, in a sentence."""
    outcome: Appended[Outcome]
    """What the rescaler last made of it."""
    command: CommandDocument | None = None
    """The last step that carries it out; null if there is none."""
    unreadable: tuple[str, ...] | UnsetType = UNSET
    """Which of command and progress cannot be read, and are left out; absent if there are none."""
