"""Acts that wait for a checkpoint, and when the gate of a job wakes."""

from surescale.rescaler.gate_settings import GateSettings
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, checkpoint, controller, decision, ended, only, said, view

T0 = START_MS


def gated(**params: int) -> GateSettings:
    """A gate that waits for checkpoints, one a minute."""
    return GateSettings(checkpoint_interval_ms=MINUTE_MS, **params)


def test_an_act_waits_for_a_checkpoint_and_goes_with_it() -> None:
    """The promise names the end of the stabilization; the checkpoint comes first, and its time is the command's."""
    control, seen = controller(gate=gated(executing_stabilization_ms=200_000)), view()
    waiting = only(control.on_decision(decision(T0, {"map": 4}), seen, T0))
    assert (waiting.reason, waiting.until_ms) == ("stabilizing", T0 + 180_000)
    effects = control.on_engine_event(checkpoint(T0 + 30_000, 7), seen, T0 + 31_000)
    assert said(effects) == [("commanded", "desired")]
    assert (effects.commands[0].gate_cause, effects.commands[0].issued_at_ms) == ("checkpoint_completed", T0 + 30_000)


def test_an_act_that_waited_in_vain_says_what_it_waited_for() -> None:
    """None came within three intervals."""
    control, seen = controller(gate=gated()), view()
    control.on_decision(decision(T0, {"map": 4}), seen, T0)
    (command,) = control.on_tick(seen, T0 + 3 * MINUTE_MS).commands
    assert command.gate_cause == "max_delay"


def test_failed_checkpoints_count_as_one_that_completed() -> None:
    """The second of two; the first is answered, so that a pipeline in lockstep knows that it was heard."""
    control, seen = controller(gate=gated(executing_stabilization_ms=200_000)), view()
    control.on_decision(decision(T0, {"map": 4}), seen, T0)
    first = control.on_engine_event(checkpoint(T0 + 30_000, 7, completed=False), seen, T0 + 30_000)
    assert [(outcome.status, outcome.checkpoint) for outcome in first.outcomes] == [("pending", 7)]
    second = control.on_engine_event(checkpoint(T0 + 60_000, 8, completed=False), seen, T0 + 60_000)
    assert second.commands[0].gate_cause == "checkpoint_failures"


def test_a_checkpoint_is_heard_once_and_only_if_it_came_after_the_phase() -> None:
    """Read again from the beginning after a restart, or taken before the act: nothing."""
    control, seen = controller(gate=gated(executing_stabilization_ms=200_000)), view()
    control.on_decision(decision(T0, {"map": 4}), seen, T0)
    assert control.on_engine_event(checkpoint(T0, 6), seen, T0).is_empty
    control.on_engine_event(checkpoint(T0 + 30_000, 7, completed=False), seen, T0 + 30_000)
    assert control.on_engine_event(checkpoint(T0 + 30_000, 7, completed=False), seen, T0 + 40_000).is_empty


def test_without_an_interval_checkpoints_mean_nothing() -> None:
    """The gate acts at once; there is nothing that a checkpoint could let through."""
    control, seen = controller(), view()
    control.on_decision(decision(T0, {"map": 4}), seen, T0)
    assert control.on_engine_event(checkpoint(T0 + 30_000, 7), seen, T0 + 30_000).is_empty


def test_the_memory_says_when_the_gate_wakes() -> None:
    """Also when no act waits: a cooldown ends by itself and is shown as over."""
    control, seen = controller(), view()
    (command,) = control.on_decision(decision(T0, {"map": 4}), seen, T0).commands
    control.on_progress(ended(command, T0 + 2 * MINUTE_MS), seen, T0 + 2 * MINUTE_MS)
    memory = control.memory[JOB]
    assert memory.gate is not None
    assert (memory.gate.phase, memory.wake_at_ms) == ("Cooldown", T0 + 2 * MINUTE_MS + 30_000)
    control.on_tick(seen, T0 + 3 * MINUTE_MS)
    memory = control.memory[JOB]
    assert memory.gate is not None
    assert (memory.gate.phase, memory.wake_at_ms) == ("Idling", None)
