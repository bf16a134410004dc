"""Carrying one plan out: prepare, barrier, commit, finish, and the way back from a crash at any point.

    submit ─▶ PREPARE ─▶ BARRIER ─▶ COMMIT ─▶ FINISH ─▶ (no intent, report ok)
                 │           └────────┤
                 ▼                    ▼
           UNDO_PREPARE         UNDO_BARRIER ─────────▶ (no intent, report not ok)

A `Ledger` is what the store holds; every function here answers with the next one, which is to be written in a single atomic
write before anything else is done. The write that leaves COMMIT for FINISH carries units, mappings, the new generation and
the result together: it is the only commit point. Before it everything is undone, after it everything is finished.
What it does not do: talk to actors or to a store. Of surescale's own code only `Step` is used: the live road runs the same steps
as commands and records (`rescaler.control.steps`), one intent a job. `submit`, `after`, `recovered` and `is_fenced_off` are for
owners of a cluster with one intent, after the RFC to the letter (docs/rescaling.md); that a crash anywhere loses nothing is
tested on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from rescaler.refusals import Refused
from rescaler.reschedule import Plan, applied, check_generation
from rescaler.reschedule_cluster import Cluster


class Step(StrEnum):
    """What is to be done, or done again: every step is a no-op where it is found done."""

    PREPARE = "prepare"
    """Create actors on the added units, not connected, and let them warm their state; the stream runs on."""
    BARRIER = "barrier"
    """Pause the sources, send the barrier with mappings and connections, wait for every actor."""
    COMMIT = "commit"
    """Write the ledger that `after` answers with; nothing else."""
    FINISH = "finish"
    """Resume, stop the actors on removed units, release their state."""
    UNDO_PREPARE = "undo_prepare"
    """Drop the created actors; the stream never paused."""
    UNDO_BARRIER = "undo_barrier"
    """Discard the barrier, resume on the old mapping from the last committed epoch, drop the created actors."""


class Outcome(StrEnum):
    """How a step ended."""

    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Intent:
    """The reschedule in progress; there is at most one per cluster."""

    request_id: str
    plan: Plan
    step: Step


@dataclass(frozen=True, slots=True)
class Result:
    """A committed (or empty) request's answer, given again to whoever repeats the request."""

    request_id: str
    generation: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everything the store holds about one cluster's reschedules."""

    cluster: Cluster
    intent: Intent | None = None
    results: dict[str, Result] = field(default_factory=dict)
    """By request id; the owner may drop old ones."""


@dataclass(frozen=True, slots=True)
class Advance:
    """The ledger to write, and what to tell the gate once the reschedule has ended."""

    ledger: Ledger
    rescaled: bool | None = None
    """None: still going on; True: in force and tidied up; False: undone."""


_AFTER_DONE = {Step.PREPARE: Step.BARRIER, Step.BARRIER: Step.COMMIT, Step.COMMIT: Step.FINISH}
_AFTER_FAILURE = {Step.PREPARE: Step.UNDO_PREPARE, Step.BARRIER: Step.UNDO_BARRIER, Step.COMMIT: Step.UNDO_BARRIER}


def submit(ledger: Ledger, request_id: str, plan: Plan) -> Ledger:
    """Step 1: the ledger with the intent written, or as it was where the request is known already.

    A request id with a result, or that is in progress, changes nothing; a plan without changes gets its result at once.
    Raises `Refused`: STALE_GENERATION for a plan of another generation, RESCHEDULE_IN_PROGRESS while another one runs.
    """
    if request_id in ledger.results:
        return ledger
    if ledger.intent is not None:
        if ledger.intent.request_id == request_id:
            return ledger
        raise Refused("RESCHEDULE_IN_PROGRESS", f"request {ledger.intent.request_id!r} has not ended; ask again after it")
    check_generation(ledger.cluster, plan.base_generation)
    if plan.is_noop:
        return _with_result(ledger, Result(request_id, plan.generation, plan))
    return replace(ledger, intent=Intent(request_id, plan, Step.PREPARE))


def after(ledger: Ledger, outcome: Outcome) -> Advance:
    """The ledger once the step of its intent has ended so. Without an intent nothing happens.

    FINISH and the undoing steps are tried until they are done. Where the fate of the commit's write is unknown, read
    the store and call `recovered` on what it holds.
    """
    intent = ledger.intent
    if intent is None:
        return Advance(ledger)
    if outcome is Outcome.FAILED:
        return Advance(_at_step(ledger, intent, _AFTER_FAILURE.get(intent.step, intent.step)))
    if intent.step is Step.COMMIT:
        return Advance(_committed(ledger, intent))
    if intent.step in _AFTER_DONE:
        return Advance(_at_step(ledger, intent, _AFTER_DONE[intent.step]))
    return Advance(replace(ledger, intent=None), rescaled=intent.step is Step.FINISH)


def recovered(ledger: Ledger) -> Ledger:
    """The ledger to go on from after a crash: what the store says decides. Undone before the commit, finished after it."""
    intent = ledger.intent
    if intent is None:
        return ledger
    if intent.request_id in ledger.results:
        return _at_step(ledger, intent, Step.FINISH)
    return _at_step(ledger, intent, _AFTER_FAILURE.get(intent.step, intent.step))


def is_fenced_off(ledger: Ledger, carried_generation: int) -> bool:
    """Whether an actor or barrier that carries this generation is older than the placement in force."""
    return carried_generation < ledger.cluster.generation


def _committed(ledger: Ledger, intent: Intent) -> Ledger:
    cluster = applied(ledger.cluster, intent.plan)
    result = Result(intent.request_id, cluster.generation, intent.plan)
    return _with_result(replace(ledger, cluster=cluster, intent=replace(intent, step=Step.FINISH)), result)


def _with_result(ledger: Ledger, result: Result) -> Ledger:
    return replace(ledger, results={**ledger.results, result.request_id: result})


def _at_step(ledger: Ledger, intent: Intent, step: Step) -> Ledger:
    return replace(ledger, intent=replace(intent, step=step))
