"""Keeps a job's gate in line with its job: which gate, with which parameters, and which targets. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.messages import JobTopology
from surescale.rescaler.control.job.memory import PendingAct, TaskTarget
from surescale.rescaler.control.world import mode_of, parallelism_of
from surescale.rescaler.gate import Gate, GateState, Mode, Target
from surescale.rescaler.gate_settings import GateSettings

BACKOFF_FIRST_MS = 10_000
BACKOFF_MS_MAX = 600_000


def settings_for(settings: GateSettings, engine: Capabilities) -> GateSettings:
    """Return the gate's parameters for an engine.

    An engine that gates itself waits for checkpoints and for steady resources by itself: two gates in a row would only add up.
    Ours keeps the cooldown, at least as long as the engine's, and the back-off.
    """
    if engine.cooldown_ms is None and engine.stabilization_ms is None:
        return settings
    cooldown_ms = max(settings.cooldown_ms, engine.cooldown_ms or 0)
    return replace(
        settings,
        cooldown_ms=cooldown_ms,
        executing_stabilization_ms=0,
        waiting_stabilization_ms=0,
        max_delay_ms=0,
        checkpoint_interval_ms=None,
    )


def settings_after(settings: GateSettings, failures: int) -> GateSettings:
    """Return the gate's parameters. After failures the cooldown becomes a back-off that doubles with each, up to ten minutes."""
    if not failures:
        return settings
    return replace(settings, cooldown_ms=max(settings.cooldown_ms, backoff_ms(settings, failures)))


def backoff_ms(settings: GateSettings, failures: int) -> int:
    """Return how long to rest after this many failures in a row."""
    doubled = max(settings.cooldown_ms, BACKOFF_FIRST_MS) << min(failures, 10)
    return min(doubled, BACKOFF_MS_MAX)


def targets_of(pending: PendingAct | None, current: Mapping[str, int], mode: Mode = Mode.EXECUTING) -> dict[str, Target]:
    """Return the gate's target for each task: the pending act, or else the present state.

    ``upper`` is what the act desires. ``lower`` is the least worth starting: as much as now and as the load needs, unless the act
    desires less. A waiting job runs nothing now, so one subtask is worth starting if the load needs no more.
    """
    wanted = pending.wanted if pending else {}
    targets = {}
    for task, count in current.items():
        want = wanted.get(task, TaskTarget(desired=count, floor=0))
        running = count if mode is Mode.EXECUTING else 1
        targets[task] = Target(min(want.desired, max(running, want.floor)), want.desired)
    return targets


def targets_now(pending: PendingAct | None, topology: JobTopology) -> dict[str, Target]:
    """Return the gate's targets for a job as it runs."""
    return targets_of(pending, parallelism_of(topology), mode_of(topology))


def updated_gate(
    state: GateState | None,
    settings: GateSettings,
    topology: JobTopology,
    targets: Mapping[str, Target],
    *,
    slots: int,
    now_ms: int,
) -> Gate:
    """Return the job's gate, brought up to date with targets, slots and time."""
    gate = matching_gate(state, settings, topology, targets, slots=slots, now_ms=now_ms)
    due_ms = gate.wake_at_ms()
    if gate.state.targets != targets or gate.state.slots != slots:
        gate.on_change(targets=targets, slots=slots, now_ms=now_ms)
    elif due_ms is not None and due_ms <= now_ms:
        gate.advance(now_ms)
    return gate


def matching_gate(
    state: GateState | None,
    settings: GateSettings,
    topology: JobTopology,
    targets: Mapping[str, Target],
    *,
    slots: int,
    now_ms: int,
) -> Gate:
    """Return the remembered gate, or a fresh one if the engine runs the job otherwise than the gate knows.

    The fresh gate of a running job aims at the present state; ``targets`` are for the gate of a job that waits for resources.
    """
    current, mode = parallelism_of(topology), mode_of(topology)
    if mode is Mode.WAITING:
        if state is not None and state.mode is mode and set(state.targets) == set(targets):
            return Gate(settings, state)
        return Gate.start(settings, mode=mode, targets=targets, slots=slots, now_ms=now_ms)[0]
    if state is not None and state.current == current:
        return Gate(settings, state)
    # The cooldown counts from when the job began to run this way. An engine that does not say was looked at no earlier.
    since_ms = min(topology.at_ms if topology.began_ms is None else topology.began_ms, now_ms)
    start_ms = since_ms if state is None else max(since_ms, state.now_ms)
    idle = targets_of(None, current)
    return Gate.start(settings, mode=mode, targets=idle, slots=slots, current=current, now_ms=start_ms)[0]
