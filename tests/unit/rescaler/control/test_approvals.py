"""Advice that somebody approves: carried out exactly as advised, once, if it is still the newest and still possible."""

import msgspec
import pytest

from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.job_settings import Approval, Pause
from surescale.contracts.messages import JobTopology
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.world import View
from tests.support.controller_world import (
    JOB,
    MINUTE_MS,
    START_MS,
    carried_out,
    cluster,
    controller,
    decision,
    ended,
    job,
    only,
    resumed,
    said,
    view,
    without_units,
)

T0 = START_MS
LATER = T0 + 2 * MINUTE_MS  # the gate rests no more
ADVISED = decision(T0, {"map": 4})


def approved(seen: View, decision_id: str = ADVISED.decision_id, at_ms: int = LATER, **changes: object) -> View:
    """The view once ana has approved a decision; ``changes``: of the settings."""
    approval = Approval(decision_id=decision_id, by="ana", at_ms=at_ms)
    settings = msgspec.structs.replace(seen.settings[JOB], approval=approval, **changes)
    return View(seen.cluster, seen.jobs, {**seen.settings, JOB: settings})


def advised(**settings: object) -> tuple[Controller, View, RescheduleCommand, list[Effects]]:
    """A controller that has given advice, its view, the advised command and everything that followed."""
    control, seen = controller(), view(job(), mode="advise", **settings)
    effects = control.on_decision(ADVISED, seen, T0)
    (command,) = effects.commands
    assert command.advice
    return control, seen, command, [effects]


def test_exactly_the_advice_is_carried_out_and_says_who_approved_it() -> None:
    """The same changes as advised, as a command that actuators obey, under an id of its own."""
    control, seen, advice, _ = advised()
    effects = control.on_tick(approved(seen), LATER)
    (command,) = effects.commands
    assert (command.changes, command.advice) == (advice.changes, False)
    outcome = only(effects)
    assert (outcome.status, outcome.reason, outcome.command_id) == ("commanded", "desired", command.command_id)
    assert outcome.decision_id == command.decision_id == f"{JOB}@{LATER}/approved"
    assert outcome.detail == f"{ADVISED.decision_id}, approved by ana"
    control.on_progress(ended(command, LATER + 1_000), approved(seen), LATER + 1_000)
    assert control.memory[JOB].applied.generation == command.desired_generation


def test_it_is_carried_out_once() -> None:
    """Not again at the next look, by a successor, or when other settings are changed; another approval is refused."""
    control, seen, _, history = advised()
    history.append(control.on_tick(approved(seen), LATER))
    (command,) = history[-1].commands
    history.append(control.on_progress(ended(command, LATER + 1_000), approved(seen), LATER + 1_000))
    now = View(seen.cluster, {JOB: carried_out(job(), command)}, seen.settings)
    for heir in (control, resumed(history)):
        for at_ms, again in ((2_000, approved(now)), (3_000, approved(now, priority=3, version=9))):
            effects = heir.on_tick(again, LATER + at_ms)
            assert (effects.commands, effects.outcomes) == ((), ())
        refused = only(heir.on_tick(approved(now, at_ms=LATER + 4_000), LATER + 4_000))
        assert (refused.status, refused.reason) == ("refused", "no_such_advice")


def test_it_waits_for_the_gate() -> None:
    """The job rests after the advice as after any act: the approval is promised a time and carried out then."""
    control, seen, _, _ = advised()
    promised = only(control.on_tick(approved(seen, at_ms=T0 + 1_000), T0 + 1_000))
    assert (promised.status, promised.reason) == ("pending", "cooldown")
    assert promised.until_ms is not None
    assert said(control.on_tick(approved(seen, at_ms=T0 + 1_000), promised.until_ms)) == [("commanded", "desired")]


@pytest.mark.parametrize("wanted", [None, {"map": 5}])
def test_a_newer_decision_makes_advice_void(wanted: dict[str, int] | None) -> None:
    """An act or a hold: what was advised before is refused, and the refusal names the newest advice."""
    control, seen, _, _ = advised()
    newer = decision(T0 + MINUTE_MS, wanted)
    control.on_decision(newer, seen, T0 + MINUTE_MS)
    effects = control.on_tick(approved(seen), LATER)
    refused = effects.outcomes[-1]
    assert (refused.status, refused.reason, effects.commands) == ("refused", "no_such_advice", ())
    named = f"the newest advice is {newer.decision_id}" if wanted else "no advice is open"
    assert refused.detail == f"{ADVISED.decision_id}, approved by ana: {named}"


def test_a_newer_decision_also_ends_an_approval_that_waits() -> None:
    """The policy has thought again while the gate rested."""
    control, seen, _, _ = advised()
    control.on_tick(approved(seen, at_ms=T0 + 1_000), T0 + 1_000)
    after = control.on_decision(decision(T0 + 10_000), approved(seen, at_ms=T0 + 1_000), T0 + 10_000)
    assert said(after) == [("superseded", "newer_decision"), ("held", "hold")]
    assert not control.on_tick(approved(seen, at_ms=T0 + 1_000), LATER).commands


@pytest.mark.parametrize("target", ["sim/clicks@0/other", "", "sim/clicks"])
def test_what_was_never_advised_is_refused(target: str) -> None:
    """The author of such a record gets an answer and nothing else."""
    control, seen, _, _ = advised()
    refused = only(control.on_tick(approved(seen, target), LATER))
    assert (refused.status, refused.reason) == ("refused", "no_such_advice")
    done = only(control.on_tick(approved(seen), LATER))  # at the same time: the clock may stand
    assert (done.status, done.reason, done.sequence) == ("commanded", "desired", 0)
    assert done.decision_id != refused.decision_id


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mode": "observe"}, "observe"),
        ({"parallelism_max": 3}, "out_of_bounds"),
        ({"total_limit": 5}, "above_total_limit"),
        ({"rescales_a_day_max": 0}, "too_many_a_day"),
        ({"pause": Pause(direction="up", why="release day", by="bob", at_ms=0)}, "paused"),
    ],
)
def test_it_is_checked_anew(change: dict[str, object], reason: str) -> None:
    """What has been forbidden since the advice is not done, no matter who approves it."""
    control, seen, _, _ = advised()
    refused = only(control.on_tick(approved(seen, **change), LATER))
    assert (refused.status, refused.reason) == ("refused", reason)


def test_another_plan_than_the_advised_one_is_not_carried_out() -> None:
    """The hosts have changed, so other units would be taken; or the job has another size by now."""
    _, seen, _, _ = advised()
    other = View(cluster(5, 1), {JOB: job(units=(0, 1))}, seen.settings)
    wider = View(seen.cluster, {JOB: job(units=(0, 1, 4))}, seen.settings)
    for now, words in ((wider, "map runs with 3, the advice was made for 2"), (other, "it would change other units now")):
        control, *_ = advised()
        outcome = control.on_tick(approved(now), LATER).outcomes[0]
        assert (outcome.status, outcome.reason) == ("refused", "advice_outdated")
        assert words in outcome.detail


@pytest.mark.parametrize(
    ("jobs", "reason"),
    [
        ({}, "unknown_job"),
        ({JOB: job(state="finished")}, "job_not_running"),
        ({JOB: without_units(job())}, "job_not_running"),
    ],
)
def test_a_job_that_does_not_run_is_left_alone(jobs: dict[str, JobTopology], reason: str) -> None:
    """Its topology is gone, it has finished, or it has lost its units."""
    control, seen, _, _ = advised()
    refused = only(control.on_tick(approved(View(seen.cluster, jobs, seen.settings)), LATER))
    assert (refused.status, refused.reason) == ("refused", reason)


def test_it_counts_as_a_rescale_of_the_day() -> None:
    """As if the policy's act had been carried out at once."""
    control, seen, _, _ = advised()
    control.on_tick(approved(seen), LATER)
    assert control.memory[JOB].limits.rescaled_ms == (LATER,)


def test_a_part_of_the_advice_is_not_enough() -> None:
    """Units that were free are gone: it is promised, and refused when the wait is over, never carried out in part."""
    control, seen, _, _ = advised()
    narrow = View(cluster(1, 3), {JOB: job(units=(0, 1))}, seen.settings)
    assert said(control.on_tick(approved(narrow), LATER))[0][1] == "not_enough_parallel_units"
    effects = control.on_tick(approved(narrow), LATER + 30 * MINUTE_MS)
    assert (said(effects), effects.commands) == ([("refused", "not_enough_parallel_units")], ())


def test_advice_of_which_a_pause_stops_a_part_is_refused_whole() -> None:
    """Nobody has approved the other part alone."""
    control, seen = controller(), view(job(), mode="advise")
    both_ways = decision(T0, {"map": 3, "join": 1})
    control.on_decision(both_ways, seen, T0)
    pause = Pause(direction="down", why="audit", by="bob", at_ms=0)
    effects = control.on_tick(approved(seen, both_ways.decision_id, pause=pause), LATER)
    assert (said(effects), effects.commands) == ([("refused", "paused")], ())
    assert only(effects).detail.startswith(
        f"{both_ways.decision_id}, approved by ana; join: scaling down of sim/clicks is paused"
    )


def test_the_record_tells_which_advice_is_open() -> None:
    """The command line reads it there; it is gone with the next decision."""
    control, seen, advice, history = advised()
    (record,) = [each.record for each in history[0].records if each.key.endswith(f"/job/{JOB}")]
    assert record is not None
    assert record.summary is not None
    assert record.summary.advice is not None
    assert (record.summary.advice.decision_id, record.summary.advice.targets) == (ADVISED.decision_id, advice.targets)
    control.on_decision(decision(T0 + MINUTE_MS), seen, T0 + MINUTE_MS)
    assert control.memory[JOB].advised is None
