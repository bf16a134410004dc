"""The rescaler's memory on Kafka: its records, and the parts of them that everybody may read.

The body of a job's or a request's record is private to the rescaler, and its layout may change at any time. Other parts read the
job's summary. The bodies of a cluster's two records are public: `ClusterMemory` and `BalanceMemory`.
"""

import re
from typing import Literal

import msgspec

from surescale.contracts.commands import SlotStandbys
from surescale.contracts.errors import RecordRejected
from surescale.contracts.ids import split_job
from surescale.contracts.messages import Count, Identity, Message, Parallelism, Part, Text, TimeMs
from surescale.contracts.wire import decode, learned

KEY_SHOWN_MAX = 100
"""Bytes of a key, or letters of a word, that is no key: so much of it is shown."""

Step = Literal["prepare", "barrier", "undo_prepare"]
"""Learners restore the state that will move; the job changes to its new units; learners are dropped and nothing changes."""


class Condition(Part, frozen=True, kw_only=True):
    """One statement about a job, in the style of Kubernetes conditions."""

    type: Text  # Available, Owned, Balanced, Progressing, Draining, Degraded or Paused; in answers of the API also Measured
    status: bool | None  # whether it holds; null: nobody knows, which only answers of the API have
    reason: Text  # one word for programs
    message: str  # a sentence for people
    last_transition_ms: TimeMs  # when the status last changed; of Measured, the end of the minute that it speaks of
    observed_generation: Count  # the generation that the condition describes


class WaitingAct(Part, frozen=True, kw_only=True):
    """An act that the rescaler has accepted and not yet carried out."""

    decision_id: Identity
    reason: str = ""  # the reason of its last pending outcome; empty before the first
    until_ms: TimeMs | None = None  # when the next outcome is due


class CommandUnderway(Part, frozen=True, kw_only=True):
    """A command whose end is not known yet."""

    decision_id: Identity
    command_id: Identity
    step: Step | None = None  # of a rescale; null for a change of standbys
    given_up: str = ""  # why learners were last given up during this rescale


class OpenAdvice(Part, frozen=True, kw_only=True):
    """The job's newest decision, given as advice: somebody may approve it."""

    decision_id: Identity
    targets: dict[Text, Parallelism]  # by task that it changes


class JobControl(Part, frozen=True, kw_only=True):
    """How the rescaler's control of one job stands."""

    phase: Text | None = None  # of the job's gate; null while it has none
    mode: Text | None = None  # of the job's gate
    pending: WaitingAct | None = None
    underway: CommandUnderway | None = None
    wake_at_ms: TimeMs | None = None  # when the rescaler next has something to do for the job
    desired_generation: Count = 0  # of the last command
    applied_generation: Count = 0  # of the last command that was carried out
    observed_generation: Count | None = None  # the last generation that is over, carried out or not
    failures: Count = 0  # rescales that failed in a row
    conditions: tuple[Condition, ...] = ()
    standbys: tuple[SlotStandbys, ...] = ()  # as last commanded

    @property
    def wakes_up_ms(self) -> int | None:
        """When the act that waits is due, else when the rescaler next has something to do for the job; None: never."""
        pending_ms = self.pending.until_ms if self.pending else None
        return self.wake_at_ms if pending_ms is None else pending_ms


class JobSummary(JobControl, frozen=True, kw_only=True):
    """How the rescaler's control of one job stands, and what is large of it."""

    mappings: dict[str, tuple[Count, ...]] = msgspec.field(default_factory=dict)  # unit per vnode of rescaled stateful tasks
    advice: OpenAdvice | None = None  # null: there is none to approve


PLACEMENT = "placement"
"""Id of the cluster's record whose body is a `ClusterMemory`."""

BALANCE = "balance"
"""Id of the cluster's record whose body is a `BalanceMemory`."""


class ClusterMemory(Part, frozen=True, kw_only=True):
    """What is known about the cluster as a whole."""

    placement_generation: Count  # commits of the cluster's placement so far


BalanceStatus = Literal["moving", "settled"]
"""Whether another look at the hosts is due."""


class BalanceMemory(Part, frozen=True, kw_only=True):
    """What the rescaler knows about the hosts, and how far its jobs have followed them.

    ``generation`` counts changes of the set of hosts. While ``status`` is moving, another look is due at ``until_ms``.
    """

    generation: int
    hosts: tuple[tuple[str, str], ...]  # name and state of each, sorted
    hosts_version: int  # version of the cluster's topology that was looked at
    status: BalanceStatus
    reason: str  # one word for programs
    at_ms: int  # of the last look
    sequence: int = -1  # of the last look within the generation
    settled_sequence: int = -1  # of the last look that settled; -1: none yet
    until_ms: int | None = None
    is_balanced: bool = False  # units have followed this generation: later looks are for copies only
    new: tuple[str, ...] = ()  # hosts that joined with this generation
    avoided: tuple[str, ...] = ()  # hosts where learners took too long
    detail: str = ""  # a sentence for people
    under_replicated: dict[str, int] = msgspec.field(default_factory=dict)  # per job, units that lack copies: too few hosts
    seen: tuple[str, ...] = ()  # jobs that the last look included
    left_out: tuple[str, ...] = ()  # running jobs that it left alone because they were not in mode act


Kind = Literal["job", "cluster", "request"]
"""What a piece of memory is about: one job, the cluster as a whole, or what became of one decision."""


class RescalerRecord(Message, frozen=True, kw_only=True, tag="rescaler-state/1"):
    """One entry of the rescaler's memory under key ``cluster/kind/id``; the body is a JSON document."""

    cluster: Text
    kind: Kind
    id: Identity
    at_ms: TimeMs
    body: msgspec.Raw  # of a job's record of another version, as `memory_of` returns it: empty
    summary: JobSummary | None = None  # of a record of kind job


_TAG = "rescaler-state/1"
_ANY_TAG = re.compile(r"rescaler-state/[0-9]{1,9}")
_REQUEST = re.compile(r"(.+)@[0-9]{1,16}/[^/]+")


class _AnyVersion(Part, frozen=True, kw_only=True):
    """The envelope of a record, of whatever version."""

    type: str
    cluster: Text
    kind: Kind
    id: Identity
    at_ms: TimeMs
    body: msgspec.Raw
    summary: JobSummary | None = None


class MemoryKey(Part, frozen=True, kw_only=True):
    """What a record of the memory is about, by its key alone."""

    cluster: Text
    kind: Kind
    id: Identity

    @property
    def job(self) -> str:
        """The job that the record is about; empty: the cluster as a whole, or nothing that can be told."""
        found = _REQUEST.fullmatch(self.id) if self.kind == "request" else None
        return found[1] if found else self.id if self.kind == "job" else ""

    def __str__(self) -> str:
        """Return the key as it stands on Kafka."""
        return f"{self.cluster}/{self.kind}/{self.id}"


def memory_key(raw: bytes | None) -> MemoryKey:
    """Return what a record of ``rescaler-state`` is about.

    Raises:
        RecordRejected: a rescaler's memory has no such key. Its keys are ``cluster/job/<job of the cluster>``,
            ``cluster/request/<id of a decision on such a job>``, ``cluster/cluster/placement`` and ``cluster/cluster/balance``.
    """
    try:
        cluster, kind, of = (raw or b"").decode().split("/", 2)
        key = msgspec.convert({"cluster": cluster, "kind": kind, "id": of}, learned(MemoryKey))
        if of in (PLACEMENT, BALANCE) if kind == "cluster" else split_job(key.job)[0] == cluster:
            return key
    except (ValueError, msgspec.ValidationError, RecordRejected):
        pass
    raise RecordRejected("invalid_field", "key", f"{(raw or b'')[:KEY_SHOWN_MAX]!r} is no key of a rescaler's memory")


def memory_of(key: bytes | None, raw: bytes | None) -> RescalerRecord:
    """Return a record of the memory that agrees with its key.

    A job's record of another version, as an upgrade or a roll-back leaves it, comes without its private body.

    Raises:
        RecordRejected: it is none of the memory, cannot be read, or is about something else than its key says.
    """
    place, found = memory_key(key), decode(raw, _AnyVersion)
    if not _ANY_TAG.fullmatch(found.type):
        raise RecordRejected("unknown_type", "type", f"{found.type[:KEY_SHOWN_MAX]!r} is no rescaler-state")
    if (found.cluster, found.kind, found.id) != (place.cluster, place.kind, place.id):
        raise RecordRejected("invalid_field", "id", "the record is about something else than its key says")
    is_foreign = found.kind == "job" and found.type != _TAG
    return RescalerRecord(
        cluster=found.cluster,
        kind=found.kind,
        id=found.id,
        at_ms=found.at_ms,
        body=msgspec.Raw(b"") if is_foreign else found.body,
        summary=found.summary,
    )
