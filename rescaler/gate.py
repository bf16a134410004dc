"""The gate: decides when a job may rescale. A logic object without a clock, after Flink's FLIP-472.

There is one gate per job. Its caller says what changed and what time it is; the gate returns the phases it entered and says when
to call it again. Its whole state is a `GateState`, which can be stored as JSON and restored elsewhere.

    Cooldown ──▶ Idling ◀──▶ Stabilizing ──▶ Stabilized ──▶ Transitioning ──▶ (a fresh gate)
        └──────────────────────▲   └───────────────────────────▲

A policy chooses the parallelism; others choose units and carry the rescale out. All times are integer milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf

from surescale.rescaler.gate_model import Cause, Entries, GateReason, GateState, Mode, Phase, PhaseEntry, Target, Transition
from surescale.rescaler.gate_settings import GateSettings

__all__ = ["Cause", "Entries", "Gate", "GateReason", "GateState", "Mode", "Phase", "PhaseEntry", "Target", "Transition"]

_Timer = tuple[int, int, Callable[[int], None]]
"""When it is due, its order among timers due at the same time, and what it does."""


class Gate:
    """One job's gate. Every method takes the time, fires the timers that are due, and returns the phases entered, in order.

    Time never goes back: a time earlier than the latest one seen counts as the latest. A clock that steps back can only delay.
    """

    def __init__(self, settings: GateSettings, state: GateState) -> None:
        """Continue from ``state``; `start` makes a new gate."""
        self._settings = settings
        self._state = replace(state)
        self._entries: list[PhaseEntry] = []
        self._due_ms: float | None = None  # no timer fires before this; None: not computed yet

    @classmethod
    def start(
        cls,
        settings: GateSettings,
        *,
        mode: Mode,
        targets: Mapping[str, Target],
        slots: int,
        current: Mapping[str, int] | None = None,
        now_ms: int,
    ) -> tuple[Gate, Entries]:
        """Return a new gate in Cooldown, and the phases it entered at once.

        Raises:
            ValueError: ``current`` does not name the fragments of ``targets`` while executing, or is given while waiting.
        """
        if not targets:
            raise ValueError("targets must name at least one fragment")
        if mode is Mode.EXECUTING and set(current or ()) != set(targets):
            raise ValueError("current must name the same fragments as targets while executing")
        if mode is Mode.WAITING and current:
            raise ValueError("current must be left out while waiting")
        known = dict(current) if mode is Mode.EXECUTING and current else None
        state = GateState(mode, Phase.COOLDOWN, dict(targets), _checked_slots(slots), known, now_ms, now_ms, now_ms)
        gate = cls(settings, state)
        gate._begin(now_ms)
        gate._fire_due(now_ms)
        return gate, gate._drain()

    @property
    def state(self) -> GateState:
        """The whole state, to be stored; ``Gate(settings, state)`` continues from it."""
        return replace(self._state)

    @property
    def settings(self) -> GateSettings:
        """The parameters in force."""
        return self._settings

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self._state.phase

    @property
    def mode(self) -> Mode:
        """Waiting or executing."""
        return self._state.mode

    @property
    def current(self) -> dict[str, int] | None:
        """Current parallelism per fragment; None while waiting."""
        return self._state.current

    @property
    def transition(self) -> Transition | None:
        """The transition to carry out; only in Transitioning."""
        return self._state.transition

    @property
    def plan(self) -> dict[str, int] | None:
        """What each fragment would get now; None if there are too few slots for every lower bound."""
        targets, slots = self._state.targets, self._state.slots
        if slots < max(target.lower for target in targets.values()):
            return None
        return {fragment: min(targets[fragment].upper, slots) for fragment in sorted(targets)}

    @property
    def is_sufficient(self) -> bool:
        """Whether there is a plan that would change something."""
        plan = self.plan
        return plan is not None and (self.mode is Mode.WAITING or plan != self._state.current)

    @property
    def is_desired(self) -> bool:
        """Whether there are slots for every upper bound, and using them would change something."""
        return self._covers_upper and self.is_sufficient

    def wake_at_ms(self) -> int | None:
        """Return when to call `advance` next; None: only an event can move the gate."""
        return min((at_ms for at_ms, _, _ in self._timers()), default=None)

    def advance(self, now_ms: int) -> Entries:
        """Advance to ``now_ms``, inclusive."""
        return self._step(now_ms)

    def on_change(self, *, targets: Mapping[str, Target] | None = None, slots: int | None = None, now_ms: int) -> Entries:
        """Take new targets, a new number of slots, or both.

        Raises:
            ValueError: the targets name other fragments.
        """
        if targets is not None and targets.keys() != self._state.targets.keys():
            raise ValueError("targets must name the same fragments as before")
        now_ms = self._catch_up(now_ms)
        if targets is not None:
            self._state.targets = dict(targets)
        if slots is not None:
            self._state.slots = _checked_slots(slots)
        self._change(now_ms)
        return self._step(now_ms)

    def on_checkpoint(self, *, completed: bool, now_ms: int) -> Entries:
        """Take note that a checkpoint ended. Ignored while waiting; failures count only in Stabilizing and Stabilized."""
        now_ms = self._catch_up(now_ms)
        if self.mode is Mode.EXECUTING:
            if completed:
                self._trigger(now_ms, Cause.CHECKPOINT_COMPLETED)
            elif self.phase in (Phase.STABILIZING, Phase.STABILIZED):
                self._count_failure(now_ms)
        return self._step(now_ms)

    def on_trigger(self, now_ms: int) -> Entries:
        """Take an explicit trigger, in either mode."""
        now_ms = self._catch_up(now_ms)
        self._trigger(now_ms, Cause.TRIGGER)
        return self._step(now_ms)

    def on_rescaled(self, ok: bool, now_ms: int) -> Entries:
        """Take note that the transition ended; ignored outside Transitioning."""
        now_ms = self._catch_up(now_ms)
        transition = self._state.transition
        if transition is not None:
            self._state.transition, self._state.created_at_ms = None, now_ms
            if ok and transition.parallelism is not None:
                self._state.mode, self._state.current = Mode.EXECUTING, dict(transition.parallelism)
                self._begin(now_ms)
            elif self.mode is Mode.EXECUTING:
                self._begin(now_ms)
            else:
                self._enter(Phase.IDLING, now_ms)
        return self._step(now_ms)

    # Events inside a phase

    def _change(self, now_ms: int) -> None:
        if self.phase is Phase.COOLDOWN and self.is_sufficient:
            self._state.change_seen = True
        elif self.phase is Phase.IDLING and self.is_sufficient:
            self._stabilize(now_ms)
        elif self.phase is Phase.STABILIZING and self._state.evaluation_at_ms is None:
            self._state.evaluation_at_ms, self._due_ms = now_ms + self._max_delay_ms, None

    def _trigger(self, now_ms: int, cause: Cause) -> None:
        self._state.failed_checkpoints = 0
        if self.phase is Phase.STABILIZING and self.is_desired:
            self._go(now_ms, cause)
        elif self.phase is Phase.STABILIZED:
            self._go(now_ms, cause) if self.is_sufficient else self._enter(Phase.IDLING, now_ms)

    def _count_failure(self, now_ms: int) -> None:
        failures = self._state.failed_checkpoints + 1
        if failures >= self._settings.max_checkpoint_failures:
            self._trigger(now_ms, Cause.CHECKPOINT_FAILURES)
        else:
            self._state.failed_checkpoints = failures

    # Timers

    def _timers(self) -> list[_Timer]:
        """Return every timer of the current phase, computed from the state."""
        state = self._state
        timers: list[_Timer] = []
        if state.phase is Phase.COOLDOWN:
            timers.append((state.created_at_ms + self._cooldown_ms, 0, self._end_cooldown))
        elif state.phase is Phase.STABILIZING:
            if state.evaluation_at_ms is not None:
                timers.append((state.evaluation_at_ms, 1, self._evaluate))
            timers.append((state.anchor_ms + self._stabilization_ms, 2, self._end_stabilization))
        elif state.phase is Phase.STABILIZED:
            due_ms = max(state.entered_at_ms, state.anchor_ms + self._max_delay_ms)
            timers.append((due_ms, 3, self._end_max_delay))
        if self._waits_for_resources:
            timers.append((state.created_at_ms + self._settings.wait_timeout_ms, 4, self._end_wait))
        return timers

    def _end_cooldown(self, now_ms: int) -> None:
        self._stabilize(now_ms) if self._state.change_seen else self._enter(Phase.IDLING, now_ms)

    def _evaluate(self, now_ms: int) -> None:
        self._state.evaluation_at_ms = None
        if self.is_desired:
            self._go(now_ms, Cause.MAX_DELAY)

    def _end_stabilization(self, now_ms: int) -> None:
        if self.is_sufficient:
            self._enter(Phase.STABILIZED, now_ms)
        elif self.mode is Mode.EXECUTING:
            self._enter(Phase.IDLING, now_ms)
        else:
            self._go(now_ms, Cause.STABILIZATION_END)

    def _end_max_delay(self, now_ms: int) -> None:
        self._trigger(now_ms, Cause.MAX_DELAY)

    def _end_wait(self, now_ms: int) -> None:
        self._go(now_ms, Cause.WAIT_TIMEOUT)

    # Moving between phases

    def _begin(self, now_ms: int) -> None:
        """Enter Cooldown and check at once for something to do: a restart must not lose a change."""
        self._enter(Phase.COOLDOWN, now_ms)
        self._change(now_ms)

    def _stabilize(self, now_ms: int) -> None:
        self._enter(Phase.STABILIZING, now_ms)
        self._state.anchor_ms, self._state.evaluation_at_ms = now_ms, now_ms + self._max_delay_ms

    def _go(self, now_ms: int, cause: Cause) -> None:
        plan = self.plan
        covered = GateReason.DESIRED if self._covers_upper else GateReason.SUFFICIENT
        transition = Transition(now_ms, GateReason.FORCED if plan is None else covered, cause, plan)
        self._enter(Phase.TRANSITIONING, now_ms, transition)

    def _enter(self, phase: Phase, now_ms: int, transition: Transition | None = None) -> None:
        state = self._state
        state.phase, state.entered_at_ms, state.transition = phase, now_ms, transition
        state.change_seen, state.evaluation_at_ms, self._due_ms = False, None, None
        if phase is not Phase.STABILIZED:
            state.anchor_ms = state.failed_checkpoints = 0
        self._entries.append(PhaseEntry(now_ms, self.mode, phase, transition))

    # Derived values

    @property
    def _covers_upper(self) -> bool:
        return self._state.slots >= max(target.upper for target in self._state.targets.values())

    @property
    def _waits_for_resources(self) -> bool:
        waiting = self.mode is Mode.WAITING and self.phase is not Phase.TRANSITIONING
        return waiting and self._settings.wait_timeout_ms >= 0

    @property
    def _cooldown_ms(self) -> int:
        return self._settings.cooldown_ms if self.mode is Mode.EXECUTING else 0

    @property
    def _max_delay_ms(self) -> int:
        return self._settings.trigger_delay_ms if self.mode is Mode.EXECUTING else 0

    @property
    def _stabilization_ms(self) -> int:
        settings = self._settings
        executing = self.mode is Mode.EXECUTING
        return settings.executing_stabilization_ms if executing else settings.waiting_stabilization_ms

    # Time

    def _catch_up(self, now_ms: int) -> int:
        """Fire what is due before an event, and return the event's time, never earlier than the latest one seen."""
        now_ms = max(now_ms, self._state.now_ms)
        self._fire_due(now_ms)
        return now_ms

    def _step(self, now_ms: int) -> Entries:
        self._fire_due(max(now_ms, self._state.now_ms))
        return self._drain()

    def _fire_due(self, now_ms: int) -> None:
        while self._due_ms is None or self._due_ms <= now_ms:
            due_ms, _, fire = min(self._timers(), default=(inf, 0, self._evaluate))
            self._due_ms = due_ms
            if due_ms <= now_ms:
                # After a restore under shorter settings a timer can be in the past; time still never goes back.
                at_ms = self._state.now_ms = max(int(due_ms), self._state.now_ms)
                self._due_ms = None
                fire(at_ms)
        self._state.now_ms = now_ms

    def _drain(self) -> Entries:
        entries, self._entries = tuple(self._entries), []
        return entries


def _checked_slots(slots: int) -> int:
    if slots < 0:
        raise ValueError(f"slots must be at least 0, not {slots}")
    return slots
