"""After an outage: acts that should have gone long ago give way to newer decisions that wait."""

import pytest

from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.job.memory import OVERDUE_MS
from surescale.rescaler.control.world import View
from surescale.rescaler.service.active import newest_by_job
from tests.support.controller_world import (
    JOB,
    MINUTE_MS,
    START_MS,
    cluster,
    controller,
    decision,
    ended,
    job,
    said,
    view,
    without_units,
)

T0 = START_MS
HOUR_MS = 60 * MINUTE_MS


def resting() -> tuple[Controller, View, int]:
    """A job that has just been rescaled, with an act that waits for the end of its cooldown; also when that is."""
    control, seen = controller(), view()
    (first,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    control.on_progress(ended(first, T0), seen, T0)
    (waiting,) = control.on_decision(decision(T0 + 1, {"map": 5}), seen, T0 + 1).outcomes
    assert (waiting.reason, waiting.until_ms) == ("cooldown", T0 + 30_000)
    return control, seen, T0 + 30_000


def rounds(control: Controller, seen: View, decisions: list[tuple[int, dict[str, int] | None]], now_ms: int) -> Effects:
    """One round of the service: what waited, timers, decisions."""
    came = [decision(at_ms, wanted) for at_ms, wanted in decisions]
    newest = newest_by_job(came)
    effects = control.give_way(newest, seen, now_ms) + control.on_tick(seen, now_ms)
    for each in came:
        effects += control.on_decision(each, seen, now_ms, newest[JOB])
    return effects


def test_a_stale_act_gives_way_to_a_newer_one() -> None:
    """It is not carried out first: the job would be rescaled to what it needed an hour ago, and the newer act would wait."""
    control, seen, due_ms = resting()
    now_ms = due_ms + HOUR_MS
    effects = rounds(control, seen, [(now_ms, {"map": 4})], now_ms)
    assert said(effects) == [("superseded", "newer_decision"), ("commanded", "desired")]
    assert effects.outcomes[0].detail == f"{JOB}@{now_ms}/rule wants act"
    assert [change.after for change in effects.commands[0].changes] == [4]


def test_a_stale_act_gives_way_to_a_hold() -> None:
    """Nothing is commanded: the job is to stay as it is."""
    control, seen, due_ms = resting()
    effects = rounds(control, seen, [(due_ms + HOUR_MS, None)], due_ms + HOUR_MS)
    assert (said(effects), effects.commands) == ([("superseded", "newer_decision"), ("held", "hold")], ())


def test_an_act_that_is_due_now_goes_before_a_decision_of_now() -> None:
    """Timers come first, as in a pipeline that runs."""
    control, seen, due_ms = resting()
    now_ms = due_ms + OVERDUE_MS
    effects = rounds(control, seen, [(now_ms, {"map": 4})], now_ms)
    assert said(effects)[0] == ("commanded", "desired")
    assert [change.after for change in effects.commands[0].changes] == [5]


def test_of_the_acts_of_an_outage_only_the_newest_goes() -> None:
    """Each of the others is answered once."""
    control, seen = controller(), view()
    acts: list[tuple[int, dict[str, int] | None]] = [(T0 + n * 10 * MINUTE_MS, {"map": 3 + n}) for n in range(4)]
    effects = rounds(control, seen, acts, T0 + 31 * MINUTE_MS)
    assert said(effects) == [("superseded", "newer_decision")] * 3 + [("commanded", "desired")]
    assert [change.after for change in effects.commands[0].changes] == [6]


def test_an_act_that_comes_late_waits_for_newer_decisions() -> None:
    """An agent hands the decisions of an outage over one by one; only the newest of them is carried out, once."""
    control, seen = controller(), view()
    now_ms, effects = T0 + 5 * MINUTE_MS, Effects()
    for minute, wanted in ((0, {"map": 5}), (1, {"map": 4}), (2, None), (3, {"map": 3})):
        now_ms += 1_000
        effects += control.on_decision(decision(T0 + minute * MINUTE_MS, wanted), seen, now_ms)
    assert effects.commands == ()
    assert said(effects) == [
        ("pending", "catching_up"), ("superseded", "newer_decision"), ("pending", "catching_up"),
        ("superseded", "newer_decision"), ("held", "hold"), ("pending", "catching_up"),
    ]  # fmt: skip
    due_ms = control.wake_at_ms()
    assert due_ms is not None
    (command,) = control.on_tick(seen, due_ms).commands
    assert [change.after for change in command.changes] == [3]


def test_a_pipeline_that_is_always_late_acts_too() -> None:
    """An act that takes the place of a late one waits no longer than that one would have."""
    control, seen = controller(), view()
    (first,) = control.on_decision(decision(T0, {"map": 3}), seen, T0 + 3 * MINUTE_MS).outcomes
    (_, second) = control.on_decision(decision(T0 + 1, {"map": 4}), seen, T0 + 3 * MINUTE_MS + 50_000).outcomes
    assert first.until_ms == second.until_ms == T0 + 4 * MINUTE_MS
    assert [change.after for change in control.on_tick(seen, T0 + 4 * MINUTE_MS).commands[0].changes] == [4]


def test_an_act_on_a_window_that_was_overtaken_is_not_carried_out() -> None:
    """Its record says so; a time that is no later says nothing. A hold stays a hold."""
    control, seen = controller(), view()
    late = decision(T0, {"map": 3})
    assert said(control.on_decision(late, seen, T0, None, T0 + MINUTE_MS)) == [("superseded", "newer_decision")]
    assert said(control.on_decision(decision(T0 + 1, None), seen, T0 + 1, None, T0 + MINUTE_MS)) == [("held", "hold")]
    assert said(control.on_decision(decision(T0 + 2, {"map": 3}), seen, T0 + 2, None, T0 + 2)) == [("commanded", "desired")]


def test_an_older_decision_overtakes_nothing() -> None:
    """Nor does one that was answered before."""
    control, seen, due_ms = resting()
    effects = rounds(control, seen, [(T0, {"map": 3}), (T0 - 1, {"map": 4})], due_ms + HOUR_MS)
    assert said(effects)[0] == ("commanded", "desired")
    assert [change.after for change in effects.commands[0].changes] == [5]


@pytest.mark.parametrize("wanted", [None, {"map": 4}])
def test_a_start_of_a_dead_job_never_gives_way(wanted: dict[str, int] | None) -> None:
    """It wants what is, and the sooner the better."""
    control, seen = controller(), View(cluster(1, 1), {JOB: without_units(job(units=(8, 9)))}, {})
    assert said(control.on_tick(seen, T0)) == [("pending", "stabilizing")]
    effects = rounds(control, seen, [(T0 + 5 * MINUTE_MS - 1, wanted)], T0 + 5 * MINUTE_MS - 1)
    assert said(effects)[0] == ("commanded", "sufficient")


def test_an_act_behind_a_rescale_of_which_nothing_was_heard_gives_way_too() -> None:
    """The rescale itself is left alone."""
    control, seen = controller(), view()
    (first,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    assert said(control.on_decision(decision(T0 + 1, {"map": 5}), seen, T0 + 1)) == [("pending", "rescale_in_progress")]
    effects = control.give_way({JOB: decision(T0 + HOUR_MS, {"map": 4})}, seen, T0 + HOUR_MS)
    assert said(effects) == [("superseded", "newer_decision")]
    assert control.memory[JOB].outstanding == first
