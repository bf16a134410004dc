"""G1 to G10: what holds for every run of a gate, under random events."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from surescale.rescaler import gate_settings
from surescale.rescaler.cli import gate as gate_command
from surescale.rescaler.gate import Entries, Gate, GateReason, GateState, Mode, Phase, PhaseEntry, Target
from surescale.rescaler.gate_settings import GateSettings
from tests.support.reach import reached, reaches

SPAN_MS = st.integers(0, 40)
STEP_MS = st.integers(0, 25)
SLOTS = st.integers(0, 5)
FRAGMENTS = ("a", "b")
RUN_ON_MS = 10_000

E = Phase
#: Every edge of the phase table; (mode of the entered phase, from, to).
EDGES = {
    (Mode.EXECUTING, E.COOLDOWN, E.STABILIZING),
    (Mode.EXECUTING, E.COOLDOWN, E.IDLING),
    (Mode.EXECUTING, E.IDLING, E.STABILIZING),
    (Mode.EXECUTING, E.STABILIZING, E.TRANSITIONING),
    (Mode.EXECUTING, E.STABILIZING, E.STABILIZED),
    (Mode.EXECUTING, E.STABILIZING, E.IDLING),
    (Mode.EXECUTING, E.STABILIZED, E.TRANSITIONING),
    (Mode.EXECUTING, E.STABILIZED, E.IDLING),
    (Mode.EXECUTING, E.TRANSITIONING, E.COOLDOWN),
    (Mode.WAITING, E.COOLDOWN, E.STABILIZING),
    (Mode.WAITING, E.COOLDOWN, E.IDLING),
    (Mode.WAITING, E.COOLDOWN, E.TRANSITIONING),
    (Mode.WAITING, E.IDLING, E.STABILIZING),
    (Mode.WAITING, E.IDLING, E.TRANSITIONING),
    (Mode.WAITING, E.STABILIZING, E.TRANSITIONING),
    (Mode.WAITING, E.STABILIZING, E.STABILIZED),
    (Mode.WAITING, E.STABILIZED, E.TRANSITIONING),
    (Mode.WAITING, E.STABILIZED, E.IDLING),
    (Mode.WAITING, E.TRANSITIONING, E.IDLING),
}


@dataclass(frozen=True)
class Event:
    """One event, after a pause."""

    pause_ms: int
    kind: str
    targets: dict[str, Target] | None = None
    slots: int | None = None
    flag: bool = False


@dataclass(frozen=True)
class Run:
    """A gate's beginning and what happens to it."""

    settings: GateSettings
    mode: Mode
    targets: dict[str, Target]
    current: dict[str, int] | None
    slots: int
    events: tuple[Event, ...]

    def start(self) -> tuple[Gate, Entries]:
        """The gate at time 0."""
        return Gate.start(self.settings, mode=self.mode, targets=self.targets, slots=self.slots, current=self.current, now_ms=0)


def deliver(gate: Gate, event: Event, now_ms: int) -> Entries:
    """Tell the gate of one event."""
    if event.kind == "change":
        return gate.on_change(targets=event.targets, slots=event.slots, now_ms=now_ms)
    if event.kind == "checkpoint":
        return gate.on_checkpoint(completed=event.flag, now_ms=now_ms)
    return gate.on_trigger(now_ms) if event.kind == "trigger" else gate.on_rescaled(event.flag, now_ms)


def play(run: Run) -> tuple[list[PhaseEntry], list[GateState]]:
    """All entries, and the state before each event and at the end."""
    gate, first = run.start()
    entries, states, now_ms = list(first), [], 0
    for event in run.events:
        now_ms += event.pause_ms
        entries += gate.advance(now_ms)
        states.append(gate.state)
        entries += deliver(gate, event, now_ms)
    entries += gate.advance(now_ms + RUN_ON_MS)
    return entries, [*states, gate.state]


@st.composite
def targets(draw: st.DrawFn) -> dict[str, Target]:
    """Bounds of both fragments."""
    lowers = {name: draw(st.integers(1, 4)) for name in FRAGMENTS}
    return {name: Target(lower, lower + draw(st.integers(0, 2))) for name, lower in lowers.items()}


changes = st.builds(
    Event, STEP_MS, st.just("change"), targets=st.none() | targets(), slots=st.none() | SLOTS, flag=st.just(False)
)
nudges = st.builds(Event, STEP_MS, st.sampled_from(["checkpoint", "trigger", "rescaled"]), flag=st.booleans())
gate_settings_ = st.builds(
    GateSettings,
    wait_timeout_ms=st.integers(-1, 80),
    waiting_stabilization_ms=SPAN_MS,
    cooldown_ms=SPAN_MS,
    executing_stabilization_ms=SPAN_MS,
    max_delay_ms=st.none() | SPAN_MS,
    max_checkpoint_failures=st.integers(1, 3),
    checkpoint_interval_ms=st.none() | st.integers(1, 20),
)


@st.composite
def runs(draw: st.DrawFn, modes: tuple[Mode, ...] = tuple(Mode)) -> Run:
    """A gate and up to a dozen events."""
    mode = draw(st.sampled_from(modes))
    current = {name: draw(st.integers(1, 4)) for name in FRAGMENTS} if mode is Mode.EXECUTING else None
    events = tuple(draw(st.lists(changes | nudges, max_size=12)))
    return Run(draw(gate_settings_), mode, draw(targets()), current, draw(SLOTS), events)


@reaches("transition")
@given(runs())
def test_g1_no_transition_before_the_cooldown_has_passed(run: Run) -> None:
    """G1: an executing gate rests for its whole cooldown, counted from its creation."""
    created_ms = 0
    for entry in play(run)[0]:
        if entry.phase is Phase.COOLDOWN:
            created_ms = entry.at_ms
        if entry.phase is Phase.TRANSITIONING and entry.mode is Mode.EXECUTING:
            reached("transition")
            assert entry.at_ms >= created_ms + run.settings.cooldown_ms


@reaches("transition")
@given(runs((Mode.EXECUTING,)))
def test_g2_g3_executing_transitions_change_something_and_are_never_forced(run: Run) -> None:
    """G2 and G3: a running job is only interrupted for another parallelism that there are slots for."""
    gate, entries, now_ms = *run.start(), 0
    for event in (*run.events, Event(RUN_ON_MS, "trigger")):
        now_ms += event.pause_ms
        for entry in (*entries, *gate.advance(now_ms)):
            if entry.transition is not None:
                reached("transition")
                assert entry.transition.reason is not GateReason.FORCED
                assert entry.transition.parallelism not in (None, gate.current)
        entries = deliver(gate, event, now_ms)


@reaches("start")
@given(runs())
def test_g4_only_edges_of_the_table_occur(run: Run) -> None:
    """G4: no phase is entered from one that the table does not name."""
    entries = play(run)[0]
    for before, after in itertools.pairwise(entries):
        started = (before.mode, after.mode) == (Mode.WAITING, Mode.EXECUTING)
        if started:
            reached("start")
            assert (before.phase, after.phase) == (Phase.TRANSITIONING, Phase.COOLDOWN)
        else:
            assert (after.mode, before.phase, after.phase) in EDGES


def play_until_transition(gate: Gate, now_ms: int, events: list[Event]) -> int | None:
    """When the gate lets something through, under these events and then in silence."""
    entries: Entries = ()
    for event in events:
        now_ms += event.pause_ms
        entries += deliver(gate, event, now_ms)
    entries += gate.advance(now_ms + RUN_ON_MS)
    return next((entry.at_ms for entry in entries if entry.phase is Phase.TRANSITIONING), None)


harmless = st.lists(
    st.builds(Event, STEP_MS, st.just("checkpoint"), flag=st.booleans()) | st.builds(Event, STEP_MS, st.just("trigger")),
    max_size=5,
)


@reaches("wait")
@given(gate_settings_, targets(), st.integers(0, 40), harmless, st.data())
def test_g5_a_change_that_stays_sufficient_comes_through_in_time(
    params: GateSettings, wanted: dict[str, Target], pause_ms: int, events: list[Event], data: st.DataObject
) -> None:
    """G5: from Idling within max(stabilization, max-delay), whatever checkpoints and sufficient slots come meanwhile."""
    enough = max(target.lower for target in wanted.values())
    changed = st.builds(Event, STEP_MS, st.just("change"), slots=st.integers(enough, enough + 3))
    mixed = data.draw(st.permutations([*events, *data.draw(st.lists(changed, max_size=4))]))
    current = dict.fromkeys(FRAGMENTS, 99)
    gate, _ = Gate.start(params, mode=Mode.EXECUTING, targets=wanted, slots=0, current=current, now_ms=0)
    now_ms = params.cooldown_ms + pause_ms
    gate.advance(now_ms)
    assert gate.phase is Phase.IDLING
    gate.on_change(slots=enough, now_ms=now_ms)
    within_ms = max(params.executing_stabilization_ms, params.trigger_delay_ms)
    if gate.phase is not Phase.TRANSITIONING:
        reached("wait")
        at_ms = play_until_transition(gate, now_ms, mixed)
        assert at_ms is not None
        assert at_ms <= now_ms + within_ms


@reaches("wait")
@given(runs((Mode.EXECUTING,)), harmless)
def test_g6_a_desired_change_comes_through_within_the_maximum_delay(run: Run, events: list[Event]) -> None:
    """G6: in Stabilizing and Stabilized, once desired stays true."""
    gate, now_ms = run.start()[0], 0
    for event in run.events:
        now_ms += event.pause_ms
        deliver(gate, event, now_ms)
        if gate.phase in (Phase.STABILIZING, Phase.STABILIZED):
            trial = Gate(run.settings, gate.state)
            moved = trial.on_change(slots=9, now_ms=now_ms)
            if trial.is_desired and not moved:
                reached("wait")
                at_ms = play_until_transition(trial, now_ms, events)
                assert at_ms is not None
                assert at_ms <= now_ms + run.settings.trigger_delay_ms


@given(runs(), st.lists(st.integers(0, 300), max_size=20))
def test_g7_splitting_the_clock_changes_nothing(run: Run, extra_ms: list[int]) -> None:
    """G7: advancing in small steps enters the same phases at the same times."""
    gate, first = run.start()
    entries, now_ms = list(first), 0
    for event in run.events:
        until_ms = now_ms + event.pause_ms
        for at_ms in sorted(at for at in extra_ms if now_ms <= at <= until_ms):
            entries += gate.advance(at_ms)
        now_ms = until_ms
        entries += deliver(gate, event, now_ms)
    for at_ms in sorted(now_ms + at for at in extra_ms):
        entries += gate.advance(at_ms)
    entries += gate.advance(now_ms + RUN_ON_MS)
    assert entries == play(run)[0]


@reaches("wake-up")
@given(runs())
def test_g7_the_wake_up_time_is_when_something_happens_next(run: Run) -> None:
    """G7 from the other side: nothing fires before the time the gate asks to be woken, and something does then."""
    gate, now_ms = run.start()[0], 0
    for event in run.events:
        now_ms += event.pause_ms
        deliver(gate, event, now_ms)
        wake_ms = gate.wake_at_ms()
        if wake_ms is not None:
            reached("wake-up")
            assert wake_ms > now_ms
            idle, woken = Gate(run.settings, gate.state), Gate(run.settings, gate.state)
            assert idle.advance(wake_ms - 1) == ()
            woken.advance(wake_ms)
            assert replace(woken.state, now_ms=0) != replace(idle.state, now_ms=0)


@given(runs())
def test_g8_a_gate_lets_at_most_one_transition_through(run: Run) -> None:
    """G8: between two transitions lies the end of the first."""
    entries = play(run)[0]
    after_go = [entries[i + 1] for i in range(len(entries) - 1) if entries[i].phase is Phase.TRANSITIONING]
    assert all(entry.phase in (Phase.COOLDOWN, Phase.IDLING) for entry in after_go)


@reaches("transition")
@given(runs(), st.integers(0, 11), st.integers(0, 60))
def test_g9_a_repeated_change_never_delays_a_transition(run: Run, position: int, late_ms: int) -> None:
    """G9: saying the same again can only bring the next transition forward."""
    gate, now_ms = run.start()[0], 0
    for event in run.events[:position]:
        now_ms += event.pause_ms
        deliver(gate, event, now_ms)
    rest = [event for event in run.events[position:] if event.kind != "rescaled"]
    plain, repeated = Gate(run.settings, gate.state), Gate(run.settings, gate.state)
    again_ms = late_ms % (rest[0].pause_ms + 1) if rest else late_ms
    before = repeated.on_change(slots=gate.state.slots, targets=gate.state.targets, now_ms=now_ms + again_ms)
    at_ms = next((e.at_ms for e in before if e.transition), None) or play_until_transition(
        repeated, now_ms + again_ms, _sooner(rest, again_ms)
    )
    plain_ms = play_until_transition(plain, now_ms, rest)
    if plain_ms is not None:
        reached("transition")
        assert at_ms is not None
        assert at_ms <= plain_ms


def _sooner(events: list[Event], by_ms: int) -> list[Event]:
    return [replace(events[0], pause_ms=events[0].pause_ms - by_ms), *events[1:]] if events else []


@given(st.dictionaries(st.sampled_from(sorted(set(gate_settings.OLD_NAMES))), st.integers(1, 50)), SLOTS)
def test_g10_old_and_new_names_give_the_same_run(old: dict[str, int], slots: int) -> None:
    """G10: only the warnings differ."""
    successors = {
        gate_settings.OLD_NAMES[name] or "": value
        for name, value in old.items()
        if name not in ("scaling-interval.max", "min-parallelism-increase")
    }
    document = {
        "mode": "executing",
        "targets": {"f": {"lower": 2, "upper": 3}},
        "current": {"f": 1},
        "slots": slots,
        "events": [{"t": 20, "type": "checkpoint_failed"}, {"t": 25, "type": "slots", "slots": 3}],
        "end": 200_000,
    }
    before, after = gate_command.run(document | {"params": old}), gate_command.run(document | {"params": successors})
    assert {warning["name"] for warning in before.pop("warnings")} == set(old)
    assert after.pop("warnings") == []
    assert before == after


@given(runs())
def test_restoring_equals_never_having_stopped(run: Run) -> None:
    """A gate stored as JSON and restored after every event goes the same way."""
    gate, first = run.start()
    entries, now_ms = list(first), 0
    for event in run.events:
        now_ms += event.pause_ms
        stored = msgspec.json.encode(gate.state)
        gate = Gate(run.settings, msgspec.json.decode(stored, type=GateState))
        entries += deliver(gate, event, now_ms)
    entries += Gate(run.settings, gate.state).advance(now_ms + RUN_ON_MS)
    assert entries == play(run)[0]
