"""The gate's phase table: how each phase is left, and what comes first at one instant."""

import pytest

from surescale.rescaler.gate import Cause, Gate, GateReason, Mode, Phase, Target, Transition
from surescale.rescaler.gate_settings import GateSettings
from tests.support.gate_world import LONG_AGO, SETTINGS, entered, executing, waiting


class TestCooldown:
    """Leaving Cooldown."""

    def test_ends_in_idling_when_no_sufficient_change_was_seen(self) -> None:
        """Without a sufficient change the cooldown ends in Idling, exactly when it has elapsed."""
        gate = executing()
        assert entered(gate.advance(99)) == []
        assert entered(gate.advance(100)) == [(100, "Idling")]

    def test_a_change_during_cooldown_stabilizes_from_its_end(self) -> None:
        """The stabilization of a change seen in cooldown is anchored at the cooldown's end."""
        gate = executing()
        gate.on_change(slots=3, now_ms=10)
        assert entered(gate.advance(300)) == [(100, "Stabilizing"), (300, "Stabilized")]

    def test_a_revoked_change_still_leads_to_stabilizing(self) -> None:
        """A change revoked before the end of the cooldown is sorted out by the stabilization."""
        gate = executing()
        gate.on_change(slots=3, now_ms=10)
        gate.on_change(slots=2, now_ms=20)
        assert entered(gate.advance(300)) == [(100, "Stabilizing"), (300, "Idling")]

    def test_the_implicit_change_of_creation_is_seen(self) -> None:
        """A gate created with enough slots needs no event to begin stabilizing."""
        assert entered(executing(slots=3).advance(100)) == [(100, "Stabilizing")]

    def test_an_insufficient_change_is_not_remembered(self) -> None:
        """Only sufficient changes count in cooldown."""
        gate = executing(slots=0)
        gate.on_change(slots=2, now_ms=10)
        assert entered(gate.advance(LONG_AGO)) == [(100, "Idling")]

    @pytest.mark.parametrize("event", ["trigger", "checkpoint"])
    def test_triggers_do_nothing(self, event: str) -> None:
        """Triggers in Cooldown leave the phase as it is."""
        gate = executing(slots=4)
        moved = gate.on_trigger(50) if event == "trigger" else gate.on_checkpoint(completed=True, now_ms=50)
        assert (moved, gate.phase) == ((), Phase.COOLDOWN)


class TestIdling:
    """Leaving Idling."""

    def test_a_sufficient_change_starts_stabilizing(self) -> None:
        """A sufficient change in Idling anchors the stabilization at its own time."""
        gate = executing()
        assert entered(gate.on_change(slots=3, now_ms=150)) == [(100, "Idling"), (150, "Stabilizing")]
        assert gate.state.anchor_ms == 150

    def test_an_insufficient_change_is_ignored_but_kept(self) -> None:
        """The observed state is updated although the phase ignores the event."""
        gate = executing(slots=0)
        assert entered(gate.on_change(slots=1, now_ms=150)) == [(100, "Idling")]
        assert gate.state.slots == 1

    def test_a_plan_equal_to_current_is_no_change(self) -> None:
        """Targets that lead to the present parallelism start nothing."""
        gate = executing()
        gate.on_change(targets={"f": Target(1, 2)}, slots=9, now_ms=150)
        assert gate.phase is Phase.IDLING

    def test_scaling_in_takes_the_same_path(self) -> None:
        """A smaller target is a sufficient and desired change."""
        gate = executing(lower=2, upper=2)
        gate.on_change(targets={"f": Target(1, 1)}, now_ms=150)
        assert gate.phase is Phase.STABILIZING
        assert gate.is_desired

    @pytest.mark.parametrize("event", ["trigger", "checkpoint"])
    def test_triggers_do_nothing(self, event: str) -> None:
        """Triggers in Idling leave the phase as it is."""
        gate = executing()
        gate.advance(120)
        moved = gate.on_trigger(150) if event == "trigger" else gate.on_checkpoint(completed=True, now_ms=150)
        assert (moved, gate.phase) == ((), Phase.IDLING)


class TestStabilizing:
    """Leaving Stabilizing."""

    @pytest.mark.parametrize(("event", "cause"), [("trigger", Cause.TRIGGER), ("checkpoint", Cause.CHECKPOINT_COMPLETED)])
    def test_a_trigger_goes_when_desired(self, event: str, cause: Cause) -> None:
        """With enough for every upper bound a trigger does not wait for the end of the stabilization."""
        gate = executing(slots=4)
        gate.advance(100)
        _ = gate.on_trigger(150) if event == "trigger" else gate.on_checkpoint(completed=True, now_ms=150)
        assert gate.transition == Transition(150, GateReason.DESIRED, cause, {"f": 4})

    def test_a_trigger_does_nothing_when_only_sufficient(self) -> None:
        """Enough for the lower bound alone waits for the end of the stabilization."""
        gate = executing(slots=3)
        gate.advance(100)
        assert gate.on_trigger(150) == ()

    def test_the_evaluation_timer_goes_when_desired(self) -> None:
        """Without checkpoints the maximum delay after the anchor decides."""
        gate = executing(slots=4, settings=GateSettings(cooldown_ms=100, max_delay_ms=30))
        gate.advance(LONG_AGO)
        assert gate.transition == Transition(130, GateReason.DESIRED, Cause.MAX_DELAY, {"f": 4})

    def test_the_next_change_arms_the_evaluation_timer_again(self) -> None:
        """After it fired without effect the timer runs from the next change, and a later change does not move it."""
        gate = executing(slots=3, settings=GateSettings(cooldown_ms=100, max_delay_ms=30))
        gate.on_change(slots=3, now_ms=150)
        gate.on_change(slots=4, now_ms=170)
        gate.advance(LONG_AGO)
        assert gate.transition == Transition(180, GateReason.DESIRED, Cause.MAX_DELAY, {"f": 4})

    def test_an_armed_evaluation_timer_is_not_moved_by_a_change(self) -> None:
        """Changes before the first evaluation leave it at anchor + max-delay."""
        gate = executing(slots=3, settings=GateSettings(cooldown_ms=100, max_delay_ms=30))
        gate.on_change(slots=4, now_ms=120)
        gate.advance(LONG_AGO)
        assert gate.transition is not None
        assert gate.transition.at_ms == 130

    def test_its_end_with_sufficient_resources_is_stabilized(self) -> None:
        """Later changes do not move the anchor."""
        gate = executing(slots=3)
        gate.on_change(slots=3, now_ms=250)
        assert entered(gate.advance(300)) == [(300, "Stabilized")]

    def test_its_end_without_goes_back_to_idling(self) -> None:
        """While executing, resources that went away end in Idling, and the next change starts over."""
        gate = executing(slots=3)
        gate.on_change(slots=1, now_ms=250)
        assert entered(gate.advance(300)) == [(300, "Idling")]
        gate.on_change(slots=3, now_ms=310)
        assert entered(gate.advance(509)) == []
        assert entered(gate.advance(510)) == [(510, "Stabilized")]

    def test_its_end_without_forces_a_waiting_job(self) -> None:
        """While waiting, resources that went away force the job to go with what there is."""
        gate = waiting(slots=3)
        gate.on_change(slots=1, now_ms=20)
        gate.advance(LONG_AGO)
        assert gate.transition == Transition(50, GateReason.FORCED, Cause.STABILIZATION_END, None)


class TestStabilized:
    """Leaving Stabilized."""

    def test_a_trigger_goes_when_sufficient(self) -> None:
        """A completed checkpoint starts the rescale with the slots there are."""
        gate = executing(slots=3)
        gate.on_checkpoint(completed=True, now_ms=350)
        assert gate.transition == Transition(350, GateReason.SUFFICIENT, Cause.CHECKPOINT_COMPLETED, {"f": 3})

    def test_a_trigger_goes_back_when_not_sufficient(self) -> None:
        """A trigger decides about resources that went away."""
        gate = executing(slots=3)
        gate.on_change(slots=1, now_ms=350)
        assert gate.phase is Phase.STABILIZED
        assert entered(gate.on_trigger(360)) == [(360, "Idling")]

    def test_the_maximum_delay_counts_from_the_anchor(self) -> None:
        """Without a trigger the rescale starts at anchor + max-delay."""
        gate = executing(slots=3)
        gate.advance(LONG_AGO)
        assert gate.transition == Transition(500, GateReason.SUFFICIENT, Cause.MAX_DELAY, {"f": 3})

    def test_has_no_length_when_the_delay_is_short(self) -> None:
        """With max-delay <= stabilization the phase passes within the instant."""
        gate = executing(slots=3, settings=GateSettings(cooldown_ms=100, executing_stabilization_ms=200))
        gate.advance(250)
        assert entered(gate.advance(300)) == [(300, "Stabilized"), (300, "Transitioning")]

    def test_the_end_of_the_maximum_delay_goes_back_when_not_sufficient(self) -> None:
        """The maximum delay acts as a trigger, also when the resources went away."""
        gate = executing(slots=3)
        gate.on_change(slots=2, now_ms=400)
        assert entered(gate.advance(LONG_AGO)) == [(500, "Idling")]


class TestFailedCheckpoints:
    """Failed checkpoints count only from Stabilizing on."""

    def test_so_many_act_as_a_trigger(self) -> None:
        """At the limit the gate goes, with a cause of its own."""
        gate = executing(slots=4)
        for at_ms in (120, 130):
            gate.on_checkpoint(completed=False, now_ms=at_ms)
        assert gate.transition == Transition(130, GateReason.DESIRED, Cause.CHECKPOINT_FAILURES, {"f": 4})

    def test_failures_in_cooldown_do_not_count(self) -> None:
        """The counter starts at 0 when Stabilizing is entered."""
        gate = executing(slots=4)
        for at_ms in (10, 20, 130):
            gate.on_checkpoint(completed=False, now_ms=at_ms)
        assert gate.phase is Phase.STABILIZING

    @pytest.mark.parametrize("event", ["trigger", "checkpoint"])
    def test_a_completed_one_or_a_trigger_resets_the_counter(self, event: str) -> None:
        """Only failures in a row count."""
        gate = executing(slots=3)
        gate.on_checkpoint(completed=False, now_ms=120)
        _ = gate.on_trigger(130) if event == "trigger" else gate.on_checkpoint(completed=True, now_ms=130)
        assert gate.state.failed_checkpoints == 0

    def test_the_counter_starts_again_after_a_trigger_in_vain(self) -> None:
        """A limit reached without enough resources counts from the start again."""
        gate = executing(slots=3)
        for at_ms in (110, 120, 130):
            gate.on_checkpoint(completed=False, now_ms=at_ms)
        assert gate.state.failed_checkpoints == 1

    def test_the_counter_lives_on_in_stabilized(self) -> None:
        """A failure in Stabilizing and one in Stabilized make two."""
        gate = executing(slots=3)
        gate.on_checkpoint(completed=False, now_ms=250)
        gate.on_checkpoint(completed=False, now_ms=350)
        assert gate.transition == Transition(350, GateReason.SUFFICIENT, Cause.CHECKPOINT_FAILURES, {"f": 3})


class TestWaiting:
    """A job without running tasks."""

    def test_enough_for_all_goes_at_once(self) -> None:
        """Cooldown and maximum delay are 0 while waiting."""
        gate, entries = Gate.start(SETTINGS, mode=Mode.WAITING, targets={"f": Target(3, 4)}, slots=4, now_ms=7)
        assert entered(entries) == [(7, "Cooldown"), (7, "Stabilizing"), (7, "Transitioning")]
        assert gate.transition == Transition(7, GateReason.DESIRED, Cause.MAX_DELAY, {"f": 4})

    def test_enough_for_the_lower_bound_stabilizes(self) -> None:
        """Fewer slots than wanted wait for the shorter stabilization."""
        gate = waiting(slots=3)
        gate.advance(LONG_AGO)
        assert gate.transition == Transition(50, GateReason.SUFFICIENT, Cause.MAX_DELAY, {"f": 3})

    def test_the_wait_ends_forced_without_a_plan(self) -> None:
        """A job that never got its lower bound goes after the wait-timeout."""
        gate = waiting()
        gate.advance(LONG_AGO)
        assert gate.transition == Transition(300_000, GateReason.FORCED, Cause.WAIT_TIMEOUT, None)

    def test_the_wait_can_end_with_a_plan(self) -> None:
        """A plan at the end of the wait is used, whatever is left of the stabilization."""
        gate = waiting()
        gate.on_change(slots=3, now_ms=299_990)
        gate.advance(LONG_AGO)
        assert gate.transition == Transition(300_000, GateReason.SUFFICIENT, Cause.WAIT_TIMEOUT, {"f": 3})

    def test_a_negative_timeout_waits_for_ever(self) -> None:
        """The wait can be disabled."""
        gate = waiting(settings=GateSettings(wait_timeout_ms=-1))
        gate.advance(LONG_AGO)
        assert (gate.phase, gate.wake_at_ms()) == (Phase.IDLING, None)

    def test_checkpoints_are_ignored(self) -> None:
        """A checkpoint of a job without tasks means nothing, not even to the count of failures."""
        gate = waiting(slots=3)
        gate.advance(10)
        gate.on_checkpoint(completed=False, now_ms=20)
        assert (gate.phase, gate.state.failed_checkpoints) == (Phase.STABILIZING, 0)

    def test_a_change_to_enough_for_all_goes_at_once(self) -> None:
        """While waiting the evaluation timer of a change has no length."""
        gate = waiting(slots=3)
        gate.on_change(targets={"f": Target(3, 3)}, now_ms=30)
        assert gate.transition == Transition(30, GateReason.DESIRED, Cause.MAX_DELAY, {"f": 3})


class TestOrder:
    """Several things at one instant."""

    def test_timers_fire_before_an_event_of_the_same_time(self) -> None:
        """Slots that arrive with the end of the stabilization find Stabilized."""
        gate = executing(slots=3)
        assert entered(gate.on_change(slots=4, now_ms=300)) == [(100, "Stabilizing"), (300, "Stabilized")]

    def test_evaluation_comes_before_the_end_of_the_stabilization(self) -> None:
        """At one instant desired resources go straight from Stabilizing."""
        settings = GateSettings(cooldown_ms=0, executing_stabilization_ms=200, max_delay_ms=200)
        gate = executing(slots=4, settings=settings)
        assert entered(gate.advance(200)) == [(200, "Transitioning")]

    def test_stabilization_comes_before_the_end_of_the_wait(self) -> None:
        """The wait-timeout is the last timer of an instant."""
        gate = waiting(slots=3, settings=GateSettings(wait_timeout_ms=50, waiting_stabilization_ms=50))
        assert entered(gate.advance(50)) == [(50, "Stabilized"), (50, "Transitioning")]
        assert gate.transition is not None
        assert gate.transition.cause is Cause.MAX_DELAY

    def test_zero_length_phases_pass_within_the_instant(self) -> None:
        """With all durations 0 a gate goes when it is created."""
        settings = GateSettings(cooldown_ms=0, executing_stabilization_ms=0)
        entries = Gate.start(settings, mode=Mode.EXECUTING, targets={"f": Target(1, 3)}, slots=1, current={"f": 2}, now_ms=5)[1]
        assert [phase for _, phase in entered(entries)] == ["Cooldown", "Stabilizing", "Stabilized", "Transitioning"]
