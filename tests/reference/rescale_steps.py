"""The RFC's state machine of one reschedule, to the letter: prepare, barrier, commit, finish, and recovery from any crash.

    submit ─▶ PREPARE ─▶ BARRIER ─▶ COMMIT ─▶ FINISH ─▶ (no intent, report ok)
                 │           └────────┤
                 ▼                    ▼
           UNDO_PREPARE         UNDO_BARRIER ─────────▶ (no intent, report not ok)

A `Ledger` is everything the store holds. Every function returns the next ledger, to be stored in one atomic write before
anything else happens. The write that moves from COMMIT to FINISH carries units, mappings, the new generation and the result
together: it is the only commit point. Before it everything is undone, after it everything is finished.

Nothing in the product runs this. `rescaler.control.job.rescale` runs the same steps as commands and records, one rescale per
job; ``test_control_follows_the_rfc`` compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from surescale.rescaler.refusals import Refused
from surescale.rescaler.reschedule import Cluster, Plan, applied, check_generation


class Step(StrEnum):
    """What to do, or do again: a step that is already done is a no-op."""

    PREPARE = "prepare"
    """Create unconnected actors on the added units and let them warm their state; the stream runs on."""
    BARRIER = "barrier"
    """Pause the sources, send the barrier with mappings and connections, wait for every actor."""
    COMMIT = "commit"
    """Write the ledger that `after` returns, and nothing else."""
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
    """The answer to a committed (or empty) request; a repeated request gets it again."""

    request_id: str
    generation: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class Ledger:
    """Everything that the store holds about one cluster's reschedules."""

    cluster: Cluster
    intent: Intent | None = None
    results: dict[str, Result] = field(default_factory=dict)
    """By request id; the owner may drop old ones."""


@dataclass(frozen=True, slots=True)
class Advance:
    """The ledger to write, and what to tell the gate once the reschedule has ended."""

    ledger: Ledger
    rescaled: bool | None = None
    """None: still in progress; True: in force and tidied up; False: undone."""


_AFTER_DONE = {Step.PREPARE: Step.BARRIER, Step.BARRIER: Step.COMMIT, Step.COMMIT: Step.FINISH}
_AFTER_FAILURE = {Step.PREPARE: Step.UNDO_PREPARE, Step.BARRIER: Step.UNDO_BARRIER, Step.COMMIT: Step.UNDO_BARRIER}


def submit(ledger: Ledger, request_id: str, plan: Plan) -> Ledger:
    """Return the ledger with the intent written; a request that is known already changes nothing.

    A plan without changes gets its result at once.

    Raises:
        Refused: STALE_GENERATION for a plan of another generation, RESCHEDULE_IN_PROGRESS while another one runs.
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
    """Return the ledger after the present step has ended with this outcome. Without an intent nothing happens.

    FINISH and the undo steps are retried until they are done. If the fate of the commit's write is unknown, read the store and
    call `recovered` on what it holds.
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
    """Return the ledger to continue from after a crash: undone before the commit, finished after it."""
    intent = ledger.intent
    if intent is None:
        return ledger
    if intent.request_id in ledger.results:
        return _at_step(ledger, intent, Step.FINISH)
    return _at_step(ledger, intent, _AFTER_FAILURE.get(intent.step, intent.step))


def is_fenced_off(ledger: Ledger, carried_generation: int) -> bool:
    """Say whether an actor or barrier with this generation is older than the placement in force."""
    return carried_generation < ledger.cluster.generation


def _committed(ledger: Ledger, intent: Intent) -> Ledger:
    cluster = applied(ledger.cluster, intent.plan)
    result = Result(intent.request_id, cluster.generation, intent.plan)
    return _with_result(replace(ledger, cluster=cluster, intent=replace(intent, step=Step.FINISH)), result)


def _with_result(ledger: Ledger, result: Result) -> Ledger:
    return replace(ledger, results={**ledger.results, result.request_id: result})


def _at_step(ledger: Ledger, intent: Intent, step: Step) -> Ledger:
    return replace(ledger, intent=replace(intent, step=step))
