"""The rescaler's control takes a rescale through the steps of the RFC, and ends it in the same way."""

from collections.abc import Iterator
from itertools import chain, repeat

from hypothesis import event, given, settings
from hypothesis import strategies as st

from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.world import View
from surescale.rescaler.reschedule import Cluster, Distribution, Fragment, Worker, applied, plan_desired
from tests.reference.rescale_steps import Ledger, Outcome, Step, after, submit
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, cluster, controller, decision, ended, job, resumed

CLUSTER = Cluster(7, (Worker(1, "w1", (1, 2, 3)),), (Fragment(10, Distribution.HASH, (1, 2)),), vnodes=8)
PLAN = plan_desired(CLUSTER, {10: 3})
ACTION_OF = {Step.PREPARE: "prepare", Step.BARRIER: "commit", Step.UNDO_PREPARE: "abort"}
"""The command that stands for a step. A commit takes the engine from the barrier to the end, or back to before it."""


def run_reference(fates: Iterator[bool]) -> tuple[list[str], bool]:
    """Return the actions, and whether the plan is in force in the end; ``fates``: whether each action succeeds."""
    ledger, actions = submit(Ledger(CLUSTER), "r", PLAN), list[str]()
    while ledger.intent is not None:
        if ledger.intent.step not in ACTION_OF:  # within a commit
            ledger = after(ledger, Outcome.DONE).ledger
            continue
        actions.append(ACTION_OF[ledger.intent.step])
        is_done = ledger.intent.step is Step.UNDO_PREPARE or next(fates)
        ledger = after(ledger, Outcome.DONE if is_done else Outcome.FAILED).ledger
    assert ledger.cluster in (CLUSTER, applied(CLUSTER, PLAN))
    return actions, ledger.cluster != CLUSTER


def run_control(fates: Iterator[bool], crashes: Iterator[bool]) -> tuple[list[str], bool]:
    """Return the same of a job whose state moves between hosts; ``crashes``: whether an heir takes over after each report."""
    control: Controller = controller()
    seen, now_ms = View(cluster(3, 2), {JOB: job(units=(0, 1))}, {}), START_MS
    written: list[Effects] = [control.on_decision(decision(now_ms, {"map": 4, "join": 4}), seen, now_ms)]
    actions = list[str]()
    while (command := control.memory[JOB].outstanding) is not None:
        actions.append(command.action)
        now_ms += MINUTE_MS
        is_done = command.action == "abort" or next(fates)
        end = ended(command, now_ms) if is_done else ended(command, now_ms, "failed", "JOB_FAILED_OVER")
        for report in (ended(command, now_ms, "accepted"), end):
            written.append(control.on_progress(report, seen, now_ms))
            control = resumed(written) if next(crashes) else control
    return actions, control.memory[JOB].applied.generation == 1


@given(st.lists(st.booleans(), max_size=2), st.lists(st.booleans(), max_size=4))
@settings(deadline=None)
def test_control_takes_the_steps_of_the_rfc(fates: list[bool], crashes: list[bool]) -> None:
    """Prepare, then commit or abort; one commit point. A crash changes nothing: an heir continues where the records say."""
    expected = run_reference(chain(fates, repeat(True)))
    event(f"{expected[0]}, in force: {expected[1]}")
    assert run_control(chain(fates, repeat(True)), chain(crashes, repeat(False))) == expected


def test_every_way_through_the_rfc_is_taken() -> None:
    """Success, a preparation that fails, and a change that fails: the comparison covers all three."""
    ways = [run_reference(chain(fates, repeat(True))) for fates in ([], [False], [True, False])]
    assert ways == [(["prepare", "commit"], True), (["prepare", "abort"], False), (["prepare", "commit"], False)]
