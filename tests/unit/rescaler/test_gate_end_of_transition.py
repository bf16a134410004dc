"""What follows when a rescale that the gate let through has ended, and what it may become."""

from surescale.rescaler.gate import Gate, Mode, Target
from tests.support.gate_world import LONG_AGO, SETTINGS, entered, executing, waiting


class TestEndOfTransition:
    """What `rescaled` leads to."""

    def test_success_starts_a_fresh_executing_gate(self) -> None:
        """The plan becomes current and the cooldown counts from the end of the rescale."""
        gate = waiting(slots=3)
        gate.advance(50)
        assert entered(gate.on_rescaled(True, 70)) == [(70, "Cooldown")]
        assert (gate.mode, gate.current, gate.wake_at_ms()) == (Mode.EXECUTING, {"f": 3}, 170)

    def test_failure_retries_after_the_cooldown(self) -> None:
        """The cooldown is the back-off, and the implicit change makes the gate try again."""
        gate = executing(slots=3)
        gate.advance(500)
        assert entered(gate.on_rescaled(False, 600)) == [(600, "Cooldown")]
        assert entered(gate.advance(LONG_AGO)) == [(700, "Stabilizing"), (900, "Stabilized"), (1100, "Transitioning")]
        assert gate.current == {"f": 2}

    def test_failure_while_waiting_idles_without_a_hot_loop(self) -> None:
        """A failed start waits for a change or for a whole new wait-timeout."""
        gate = waiting(slots=4)
        assert entered(gate.on_rescaled(False, 1000)) == [(1000, "Idling")]
        assert gate.wake_at_ms() == 301_000

    def test_a_forced_start_without_a_plan_cannot_succeed(self) -> None:
        """Without a plan there is nothing to become current: the gate idles, whatever is reported."""
        gate = waiting()
        gate.advance(300_000)
        assert entered(gate.on_rescaled(True, 300_001)) == [(300_001, "Idling")]
        assert gate.mode is Mode.WAITING

    def test_outside_transitioning_it_is_ignored(self) -> None:
        """A report that nobody waits for changes nothing."""
        gate = executing()
        gate.advance(100)
        before = gate.state
        assert gate.on_rescaled(True, 100) == ()
        assert gate.state == before

    def test_changes_while_transitioning_are_observed(self) -> None:
        """A change during the rescale is found by the fresh gate."""
        gate = executing(slots=4)
        gate.on_trigger(150)
        gate.on_change(slots=9, targets={"f": Target(5, 6)}, now_ms=160)
        gate.on_rescaled(True, 200)
        assert entered(gate.advance(300)) == [(300, "Stabilizing")]
        assert gate.plan == {"f": 6}


class TestPlan:
    """What the slots allow."""

    def test_fragments_share_units(self) -> None:
        """A job needs the maximum over its fragments, not the sum."""
        targets = {"a": Target(2, 4), "b": Target(1, 2)}
        gate = Gate.start(SETTINGS, mode=Mode.WAITING, targets=targets, slots=3, now_ms=0)[0]
        assert gate.plan == {"a": 3, "b": 2}

    def test_no_plan_below_the_largest_lower_bound(self) -> None:
        """One fragment that cannot start is enough for no plan at all."""
        targets = {"a": Target(2, 4), "b": Target(1, 2)}
        assert Gate.start(SETTINGS, mode=Mode.WAITING, targets=targets, slots=1, now_ms=0)[0].plan is None
