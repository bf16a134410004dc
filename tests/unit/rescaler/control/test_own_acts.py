"""What the rescaler does without a decision: jobs without units are started, hosts that go are left."""

import msgspec
import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.rescaler.control.world import View
from tests.support.controller_world import (
    JOB,
    MINUTE_MS,
    START_MS,
    cluster,
    controller,
    decision,
    ended,
    job,
    only,
    said,
    view,
    without_units,
)

T0 = START_MS


# Jobs without units


def waiting_world(hosts: int) -> View:
    """A job that has lost every unit, on a cluster of hosts with one unit each."""
    lost: JobTopology = msgspec.structs.replace(without_units(job(units=(8, 9))), at_ms=T0)
    return View(cluster(hosts, 1), {JOB: lost}, {})


def test_a_job_without_units_is_started_as_wide_as_it_was() -> None:
    """Without any decision: the gate's waiting mode lets it go as soon as there is enough."""
    effects = controller().on_tick(waiting_world(3), T0 + MINUTE_MS)
    outcome = only(effects)
    assert (outcome.status, outcome.reason, outcome.span_end_ms) == ("commanded", "desired", T0)
    assert outcome.decision_id == f"{JOB}@{T0 + MINUTE_MS}/recovery"
    assert [(change.task, change.after) for change in effects.commands[0].changes] == [("map", 2), ("join", 2)]
    assert effects.commands[0].action == "commit"


def test_it_starts_with_what_is_sufficient_after_a_short_wait() -> None:
    """One unit of two: after the stabilization of the waiting mode the job starts on it."""
    control, seen = controller(), waiting_world(1)
    waiting = only(control.on_tick(seen, T0 + MINUTE_MS))
    assert (waiting.status, waiting.reason, waiting.until_ms) == ("pending", "stabilizing", T0 + MINUTE_MS + 10_000)
    effects = control.on_tick(seen, T0 + MINUTE_MS + 10_000)
    assert said(effects) == [("commanded", "sufficient")]
    assert [change.after for change in effects.commands[0].changes] == [1, 1]


def test_the_wait_for_units_is_bounded_and_begins_again() -> None:
    """After the wait-timeout the act is refused; then a new wait begins, with its own end."""
    control, seen = controller(), waiting_world(0)
    waiting = only(control.on_tick(seen, T0 + MINUTE_MS))
    assert (waiting.reason, waiting.until_ms) == ("not_enough_parallel_units", T0 + MINUTE_MS + 300_000)
    refused = only(control.on_tick(seen, T0 + MINUTE_MS + 300_000))
    assert (refused.status, refused.reason) == ("refused", "not_enough_parallel_units")
    again = only(control.on_tick(seen, T0 + MINUTE_MS + 300_001))
    assert again.decision_id != waiting.decision_id
    assert said(control.on_tick(waiting_world(2), T0 + 7 * MINUTE_MS)) == [("commanded", "desired")]


def test_a_start_that_failed_is_tried_again_after_a_back_off() -> None:
    """Never in a hot loop."""
    control, seen = controller(), waiting_world(3)
    (command,) = control.on_tick(seen, T0).commands
    control.on_progress(ended(command, T0 + MINUTE_MS, "failed", "UNIT_LOST"), seen, T0 + MINUTE_MS)
    assert control.on_tick(seen, T0 + MINUTE_MS).commands == ()
    assert control.wake_at_ms() == T0 + 2 * MINUTE_MS
    assert control.on_tick(seen, T0 + 2 * MINUTE_MS).commands[0].desired_generation == 2


def test_a_hold_does_not_stop_a_recovery() -> None:
    """A policy that wants no change does not want a job dead."""
    control, seen = controller(), waiting_world(0)
    control.on_tick(seen, T0 + MINUTE_MS)
    assert said(control.on_decision(decision(T0 + 2 * MINUTE_MS), seen, T0 + 2 * MINUTE_MS)) == [("held", "hold")]
    assert control.memory[JOB].pending is not None


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_a_job_that_is_only_watched_is_not_started(mode: str) -> None:
    """Its user has not allowed it."""
    seen = waiting_world(3)
    watched = View(seen.cluster, seen.jobs, view(mode=mode).settings)
    effects = controller().on_tick(watched, T0 + MINUTE_MS)
    assert not effects.outcomes
    assert not effects.commands


# Hosts that will be removed


def test_a_host_that_goes_is_left_without_any_decision() -> None:
    """At the parallelism that the job has, with learners first; the act is the rescaler's own."""
    control, seen = controller(), View(cluster(3, 2, h0="removed_soon"), {JOB: job(units=(0, 1))}, {})
    effects = control.on_tick(seen, T0)
    outcome, (command,) = only(effects), effects.commands
    assert (outcome.status, outcome.reason, outcome.decision_id) == ("commanded", "desired", f"{JOB}@{T0}/drain")
    assert (command.action, command.gate_cause) == ("prepare", "trigger")
    assert [(change.before, change.after, change.removed_units) for change in command.changes] == [(2, 2, (0, 1))] * 2
    (commit,) = control.on_progress(ended(command, T0 + MINUTE_MS), seen, T0 + MINUTE_MS).commands
    control.on_progress(ended(commit, T0 + 3 * MINUTE_MS), seen, T0 + 3 * MINUTE_MS)
    assert control.memory[JOB].gate is not None
    assert control.memory[JOB].gate.phase == "Cooldown"


def test_while_there_is_no_other_host_a_job_stays() -> None:
    """It is moved as soon as one joins."""
    control = controller()
    stuck = View(cluster(1, 2, h0="removed_soon"), {JOB: job(units=(0, 1))}, {})
    assert control.on_tick(stuck, T0).commands == ()
    assert said(control.on_tick(View(cluster(2, 2, h0="removed_soon"), stuck.jobs, {}), T0 + 1)) == [("commanded", "desired")]


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_a_job_that_is_only_watched_is_not_drained(mode: str) -> None:
    """Its user has not allowed it."""
    seen = View(cluster(3, 2, h0="removed_soon"), {JOB: job(units=(0, 1))}, view(mode=mode).settings)
    assert controller().on_tick(seen, T0).commands == ()


def test_a_job_is_drained_after_its_rest() -> None:
    """A host that goes during the cooldown is left at its end."""
    control, seen = controller(), view()
    (command,) = control.on_decision(decision(T0, {"map": 4}), seen, T0).commands
    done_ms = T0 + 2 * MINUTE_MS
    control.on_progress(ended(command, done_ms), seen, done_ms)
    leaving = View(cluster(3, 4, h0="removed_soon"), seen.jobs, seen.settings)
    assert control.on_tick(leaving, done_ms).commands == ()
    assert control.wake_at_ms() == done_ms + 30_000
    assert control.on_tick(leaving, done_ms + 30_000).commands != ()


# Acts told apart


def test_an_act_of_a_policy_named_like_a_recovery_gives_way_to_a_hold() -> None:
    """What an act is does not follow from the end of a name that a user chooses. (The bare name is refused as a policy's.)"""
    policy = "x/recovery"
    control, seen = controller(), view(job(units=(0, 1)), hosts=cluster(1))
    assert said(control.on_decision(decision(T0, {"map": 8}, floor=8, policy=policy), seen, T0))[-1][0] == "pending"
    effects = control.on_decision(decision(T0 + MINUTE_MS, None, policy=policy), seen, T0 + MINUTE_MS)
    assert said(effects) == [("superseded", "newer_decision"), ("held", "hold")]


def test_learners_of_a_policy_named_like_a_balance_are_given_up_as_any_policys() -> None:
    """The change follows cold, and its hosts stay open to the next look."""
    control, seen = controller(), view(job(units=(0, 1)))
    (prepare,) = control.on_decision(decision(T0, {"map": 8, "join": 8}, policy="x/balance"), seen, T0).commands
    assert prepare.action == "prepare"
    control.on_progress(ended(prepare, T0, "accepted"), seen, T0)
    failed = ended(prepare, T0 + MINUTE_MS, "failed", "WARM_UP_TIMEOUT", units=(8,))
    (then,) = control.on_progress(failed, seen, T0 + MINUTE_MS).commands
    assert then.action in ("prepare", "commit")


@pytest.mark.parametrize("mode", ["advise", "observe"])
def test_a_recovery_that_waits_is_dropped_when_the_mode_allows_no_own_acts(mode: str) -> None:
    """Otherwise it would be written down as advice that no policy gave."""
    control, seen = controller(), waiting_world(0)
    control.on_tick(seen, T0 + MINUTE_MS)
    allowed = {JOB: JobSettings(job=JOB, mode=mode)}  # type: ignore[arg-type]
    units_again = View(cluster(3, 1), seen.jobs, allowed)
    effects = control.on_tick(units_again, T0 + 2 * MINUTE_MS)
    assert (said(effects), effects.commands) == ([("refused", mode)], ())
    assert control.on_tick(units_again, T0 + 3 * MINUTE_MS).outcomes == ()
