"""Carrying a plan out: every step, every failure, every crash."""

from __future__ import annotations

import msgspec
import pytest

from surescale.rescaler.refusals import Refused
from surescale.rescaler.reschedule import Cluster, Distribution, Fragment, Plan, Worker, applied, plan_desired
from tests.reference.rescale_steps import Ledger, Outcome, Step, after, is_fenced_off, recovered, submit

CLUSTER = Cluster(7, (Worker(1, "w1", (1, 2, 3)),), (Fragment(10, Distribution.HASH, (1, 2)),), vnodes=8)
PLAN = plan_desired(CLUSTER, {10: 3})
FORWARD = [Step.PREPARE, Step.BARRIER, Step.COMMIT, Step.FINISH]


def at_step(step: Step) -> Ledger:
    """The ledger when ``step`` is to be done next."""
    ledger = submit(Ledger(CLUSTER), "r1", PLAN)
    for _ in FORWARD[: FORWARD.index(step)]:
        ledger = after(ledger, Outcome.DONE).ledger
    assert ledger.intent is not None
    assert ledger.intent.step is step
    return ledger


def to_the_end(ledger: Ledger) -> tuple[Ledger, bool | None]:
    """Let every further step succeed."""
    rescaled = None
    while ledger.intent is not None:
        advance = after(ledger, Outcome.DONE)
        ledger, rescaled = advance.ledger, advance.rescaled
    return ledger, rescaled


def test_the_way_through() -> None:
    """Prepare, barrier, commit, finish; then the gate hears of success and nothing is left over."""
    ledger, rescaled = to_the_end(submit(Ledger(CLUSTER), "r1", PLAN))
    assert (ledger.cluster, rescaled) == (applied(CLUSTER, PLAN), True)


@pytest.mark.parametrize(
    ("step", "undo"),
    [(Step.PREPARE, Step.UNDO_PREPARE), (Step.BARRIER, Step.UNDO_BARRIER), (Step.COMMIT, Step.UNDO_BARRIER)],
)
def test_a_failure_before_the_commit_is_undone(step: Step, undo: Step) -> None:
    """The old placement stays in force, and the gate hears of the failure."""
    advance = after(at_step(step), Outcome.FAILED)
    assert advance.ledger.intent is not None
    assert advance.ledger.intent.step is undo
    assert to_the_end(advance.ledger) == (Ledger(CLUSTER), False)


@pytest.mark.parametrize("step", [Step.FINISH, Step.UNDO_PREPARE, Step.UNDO_BARRIER])
def test_tidying_up_is_retried_until_done(step: Step) -> None:
    """After the decision has fallen a failure changes nothing."""
    before = {Step.UNDO_PREPARE: Step.PREPARE, Step.UNDO_BARRIER: Step.BARRIER}.get(step)
    ledger = after(at_step(before), Outcome.FAILED).ledger if before else at_step(step)
    assert after(ledger, Outcome.FAILED).ledger == ledger


@pytest.mark.parametrize("step", FORWARD)
def test_a_crash_before_the_commit_leaves_the_old_state_and_after_it_the_new(step: Step) -> None:
    """What the store holds decides; there is no mix."""
    ledger, rescaled = to_the_end(recovered(at_step(step)))
    committed = step is Step.FINISH
    assert (ledger.cluster, rescaled) == ((applied(CLUSTER, PLAN), True) if committed else (CLUSTER, False))


@pytest.mark.parametrize("step", [Step.UNDO_PREPARE, Step.UNDO_BARRIER])
def test_a_crash_while_undoing_goes_on_undoing(step: Step) -> None:
    """An intent that is being undone is never picked up again."""
    ledger = after(at_step(Step.PREPARE if step is Step.UNDO_PREPARE else Step.BARRIER), Outcome.FAILED).ledger
    assert recovered(ledger) == ledger


def test_a_crash_without_an_intent_needs_nothing() -> None:
    """Recovery of an idle cluster is a no-op."""
    assert recovered(Ledger(CLUSTER)) == Ledger(CLUSTER)


def test_a_result_beside_an_older_intent_rolls_forward() -> None:
    """Where the intent is stored apart and lags behind the commit, the result decides."""
    committed, before = at_step(Step.FINISH), at_step(Step.COMMIT)
    mixed = Ledger(committed.cluster, before.intent, committed.results)
    assert recovered(mixed) == committed


def test_a_repeated_request_returns_its_result() -> None:
    """The same request id twice equals once, also when the plan has become stale."""
    done, _ = to_the_end(submit(Ledger(CLUSTER), "r1", PLAN))
    assert submit(done, "r1", PLAN) == done
    assert done.results["r1"].generation == 8


def test_a_repeated_request_in_progress_changes_nothing() -> None:
    """Asking again while it runs does not start it again."""
    ledger = at_step(Step.BARRIER)
    assert submit(ledger, "r1", PLAN) == ledger


def test_one_reschedule_at_a_time() -> None:
    """A second request waits for the first one."""
    with pytest.raises(Refused, match="RESCHEDULE_IN_PROGRESS"):
        submit(at_step(Step.PREPARE), "r2", PLAN)


def test_a_new_request_on_an_old_generation_is_stale() -> None:
    """A plan made before the last commit is refused."""
    done, _ = to_the_end(submit(Ledger(CLUSTER), "r1", PLAN))
    with pytest.raises(Refused, match="STALE_GENERATION"):
        submit(done, "r2", PLAN)


def test_a_request_without_changes_is_done_at_once() -> None:
    """A no-op gets a result and no intent."""
    ledger = submit(Ledger(CLUSTER), "r1", plan_desired(CLUSTER, {10: 2}))
    assert (ledger.intent, ledger.cluster, ledger.results["r1"].generation) == (None, CLUSTER, 7)


def test_an_undone_request_may_be_sent_again() -> None:
    """Only committed requests have a result."""
    undone, _ = to_the_end(after(at_step(Step.BARRIER), Outcome.FAILED).ledger)
    assert to_the_end(submit(undone, "r1", PLAN))[1] is True


def test_nothing_happens_without_an_intent() -> None:
    """A late report of a step is ignored."""
    assert after(Ledger(CLUSTER), Outcome.DONE).ledger == Ledger(CLUSTER)


@pytest.mark.parametrize(("generation", "fenced"), [(6, True), (7, False), (8, False)])
def test_older_generations_are_fenced_off(generation: int, fenced: bool) -> None:
    """Actors and barriers of an older placement are not heard."""
    assert is_fenced_off(Ledger(CLUSTER), generation) is fenced


def test_a_ledger_survives_json() -> None:
    """The store may keep a ledger as JSON."""
    ledger = at_step(Step.FINISH)
    assert msgspec.json.decode(msgspec.json.encode(ledger), type=Ledger) == ledger
    assert isinstance(PLAN, Plan)
