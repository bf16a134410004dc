"""What the rescaler remembers, as plain data: enough to stop anywhere and go on elsewhere.

One record per job, one per cluster, one per decision answered. What it does not do: decide, or know Kafka.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from contracts.commands import RescheduleCommand, SlotStandbys
from contracts.ids import Cluster
from contracts.messages import RescalerRecord
from contracts.wire import encode
from rescaler.gate import GateState
from rescaler.reschedule_steps import Step

Kind = Literal["job", "cluster", "request"]

PLACEMENT = "placement"  # ids of the records of kind "cluster"
BALANCE = "balance"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision wants for one task: subtasks, and the least that serves the measured load."""

    desired: int
    floor: int


class PendingAct(msgspec.Struct, frozen=True, kw_only=True):
    """An act that has had no last outcome yet."""

    decision_id: str
    span_end_ms: int
    accepted_at_ms: int
    wanted: dict[str, Wanted]
    reason: str = ""  # of the last pending outcome; "" before the first
    until_ms: int | None = None  # when the next outcome was promised for
    checkpoint: int = 0  # the newest engine event on a checkpoint that the last outcome knew of
    own: str = ""  # which act of the rescaler's own it is (`rescaler.control.unasked`); "" of a decision's


class Rescaling(msgspec.Struct, frozen=True, kw_only=True):
    """The intent: a rescale that has been begun and has not ended. Written together with the command of its first step.

    ``step`` is prepare while learners warm up, barrier once the change itself was asked for, undo_prepare while learners are
    dropped. The record that ends it is the commit: units, mappings, generation and no intent, in one transaction.
    """

    generation: int
    decision_id: str
    step: Step
    began_at_ms: int
    wanted: dict[str, int]  # parallelism per task
    preparations: int = 0  # begun so far
    accepted: bool = False  # the engine has taken on the outstanding step
    avoided_units: tuple[int, ...] = ()  # lost, or on hosts where learners took too long
    given_up: str = ""  # code of the last preparation that failed
    own: str = ""  # as of the act that it carries out


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is so or not, after the Kubernetes habit."""

    type: str
    status: bool
    reason: str  # one word for machines
    message: str  # a sentence for people
    last_transition_ms: int  # since when the status has been what it is
    observed_generation: int  # that it speaks for


class JobMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known of one job that the engine does not tell."""

    job: str
    desired_generation: int = 0  # of the last command
    last_span_end_ms: int = -1  # of the last decision handled
    failures: int = 0  # rescales that failed since the last one that did not
    gate: GateState | None = None
    pending: PendingAct | None = None
    rescaling: Rescaling | None = None
    outstanding: RescheduleCommand | None = None  # commanded, end not yet known: the present step of the rescale
    expected_end_ms: int | None = None  # of the outstanding command, once the engine has said so
    applied_generation: int = 0  # of the last command known to be carried out
    applied_at_ms: int = 0  # when it was; 0: not known
    applied_units: dict[str, tuple[int, ...]] = {}  # per task; holds while the topology cannot show applied_generation
    mappings: dict[str, tuple[int, ...]] = {}  # unit per vnode, for stateful tasks that were rescaled
    planned_mappings: dict[str, tuple[int, ...]] = {}  # the same, once the rescale is carried out
    checkpoint: int = 0  # sequence of the newest engine event on a checkpoint that the gate was told of
    not_before_ms: int = 0  # a job that waits is not started earlier: its last start failed
    wake_at_ms: int | None = None  # when something is due next, as known when this was written
    standbys: tuple[SlotStandbys, ...] = ()  # hosts that keep copies of each unit's state, as last commanded
    standbys_at_ms: int = 0  # when that was commanded
    standbys_ready_at_ms: int = 0  # when the engine said that all of them are ready; 0: not yet
    conditions: tuple[Condition, ...] = ()


class ClusterMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the cluster as a whole."""

    placement_generation: int = 0  # commits so far


class BalanceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What the rescaler knows of the hosts and of how far its jobs follow them.

    ``generation`` counts changes of the set of hosts. While ``status`` is moving another look is promised for ``until_ms``.
    """

    generation: int
    hosts: tuple[tuple[str, str], ...]  # name and state of each, sorted
    hosts_version: int
    status: Literal["moving", "settled"]
    reason: str
    at_ms: int  # of the last look
    sequence: int = -1  # of the last look within the generation
    settled_sequence: int = -1  # of the last one that settled; -1: none yet
    until_ms: int | None = None
    is_balanced: bool = False  # units have followed this generation: later looks are for copies only
    new: tuple[str, ...] = ()  # hosts that joined with this generation
    avoided: tuple[str, ...] = ()  # hosts on which learners took too long
    detail: str = ""
    under_replicated: dict[str, int] = {}  # per job, units short of standbys for want of a host
    seen: tuple[str, ...] = ()  # jobs that the last look counted in
    left_out: tuple[str, ...] = ()  # running jobs that it did not balance, as they were not in mode act


class RequestMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The latest outcome of one decision: the same decision again is a duplicate."""

    job: str
    status: str
    sequence: int
    at_ms: int


Memory = JobMemory | ClusterMemory | BalanceMemory | RequestMemory


class StateRecord(msgspec.Struct, frozen=True):
    """One change of the memory: the record to keep under a key, or None to forget it."""

    key: str
    record: RescalerRecord | None


def state_key(cluster: str, kind: Kind, of: str) -> str:
    """Key of a record: ``cluster/kind/id``."""
    return f"{cluster}/{kind}/{of}"


def state_record(cluster: Cluster, kind: Kind, of: str, memory: Memory | None, at_ms: int) -> StateRecord:
    """Return what to write to keep (or, with None, to forget) a piece of memory."""
    key = state_key(cluster, kind, of)
    if memory is None:
        return StateRecord(key, None)
    body = msgspec.Raw(encode(memory))
    return StateRecord(key, RescalerRecord(cluster=cluster, kind=kind, id=of, at_ms=at_ms, body=body))
