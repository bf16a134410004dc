"""A gate's stored state, and what a gate does not accept."""

import msgspec
import pytest

from surescale.rescaler.gate import Gate, GateState, Mode, Target
from tests.support.gate_world import SETTINGS, entered, executing


class TestState:
    """Storing, restoring, and what a gate does not accept."""

    def test_survives_json(self) -> None:
        """A state read back from JSON equals the one written, and goes on the same way."""
        gate = executing(slots=3)
        gate.on_checkpoint(completed=False, now_ms=250)
        stored = msgspec.json.decode(msgspec.json.encode(gate.state), type=GateState)
        assert stored == gate.state
        assert Gate(SETTINGS, stored).advance(600) == gate.advance(600)

    def test_a_stored_transition_survives_json(self) -> None:
        """The transition being carried out is part of the state."""
        gate = executing(slots=4)
        gate.on_trigger(150)
        assert msgspec.json.decode(msgspec.json.encode(gate.state), type=GateState).transition == gate.transition

    def test_a_clock_that_steps_back_is_read_as_standing_still(self) -> None:
        """Time never goes back behind what a gate has seen."""
        gate = executing()
        gate.advance(150)
        assert entered(gate.on_change(slots=3, now_ms=20)) == [(150, "Stabilizing")]

    def test_other_fragments_are_refused(self) -> None:
        """A job whose fragments changed needs another gate."""
        gate = executing()
        with pytest.raises(ValueError, match="same fragments"):
            gate.on_change(targets={"g": Target(1, 1)}, now_ms=0)

    @pytest.mark.parametrize(("lower", "upper"), [(0, 1), (3, 2)])
    def test_impossible_targets_are_refused(self, lower: int, upper: int) -> None:
        """Bounds are 1 <= lower <= upper."""
        with pytest.raises(ValueError, match="1 <= lower <= upper"):
            Target(lower, upper)

    def test_negative_slots_are_refused(self) -> None:
        """There is no such number of slots."""
        with pytest.raises(ValueError, match="at least 0"):
            executing().on_change(slots=-1, now_ms=0)

    @pytest.mark.parametrize(("mode", "current"), [(Mode.EXECUTING, None), (Mode.WAITING, {"f": 1})])
    def test_current_belongs_to_executing(self, mode: Mode, current: dict[str, int] | None) -> None:
        """A running job has a parallelism, a waiting one has none."""
        with pytest.raises(ValueError, match="current"):
            Gate.start(SETTINGS, mode=mode, targets={"f": Target(1, 1)}, slots=1, current=current, now_ms=0)

    def test_a_gate_has_at_least_one_fragment(self) -> None:
        """Without fragments there is nothing to scale."""
        with pytest.raises(ValueError, match="at least one"):
            Gate.start(SETTINGS, mode=Mode.WAITING, targets={}, slots=1, now_ms=0)
