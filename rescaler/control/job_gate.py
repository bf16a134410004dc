"""How a job's gate is kept in line with its job: which gate, with which parameters, aiming at what.

Pure functions around `rescaler.gate`. What it does not do: carry anything out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from contracts.messages import JobTopology
from rescaler.control.memory import PendingAct, Wanted
from rescaler.control.view import mode_of, parallelism_of
from rescaler.gate import Gate, GateState, Mode, Target
from rescaler.gate_settings import GateSettings

BACKOFF_FIRST_MS = 10_000
BACKOFF_MS_MAX = 600_000


def settings_after(settings: GateSettings, failures: int) -> GateSettings:
    """The gate's parameters; after failures the cooldown is a back-off that doubles with each, up to ten minutes."""
    if not failures:
        return settings
    return replace(settings, cooldown_ms=max(settings.cooldown_ms, backoff_ms(settings, failures)))


def backoff_ms(settings: GateSettings, failures: int) -> int:
    """How long to rest after so many failures in a row."""
    doubled = max(settings.cooldown_ms, BACKOFF_FIRST_MS) << min(failures, 10)
    return min(doubled, BACKOFF_MS_MAX)


def targets_of(pending: PendingAct | None, current: Mapping[str, int], mode: Mode = Mode.EXECUTING) -> dict[str, Target]:
    """What the gate shall aim at: the pending act, or else what is.

    ``upper`` is what the act desires; ``lower`` is the least worth starting: no less than now or than the load needs, unless
    the act desires less. Of a job that waits nothing runs now: one subtask is worth starting if the load needs no more.
    """
    wanted = pending.wanted if pending else {}
    targets = {}
    for task, count in current.items():
        want = wanted.get(task, Wanted(desired=count, floor=0))
        running = count if mode is Mode.EXECUTING else 1
        targets[task] = Target(min(want.desired, max(running, want.floor)), want.desired)
    return targets


def told_gate(
    state: GateState | None,
    settings: GateSettings,
    topology: JobTopology,
    pending: PendingAct | None,
    *,
    slots: int,
    now_ms: int,
) -> Gate:
    """The job's gate, told of targets, slots and time; a fresh one where the engine's job is no longer the gate's."""
    targets = targets_of(pending, parallelism_of(topology), mode_of(topology))
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
    """The remembered gate, or a fresh one where the engine's job is no longer the one that the gate knows.

    A fresh gate of a running job aims at nothing new; ``targets`` are for one of a job that waits for resources.
    """
    current, mode = parallelism_of(topology), mode_of(topology)
    if mode is Mode.WAITING:
        if state is not None and state.mode is mode and set(state.targets) == set(targets):
            return Gate(settings, state)
        return Gate.start(settings, mode=mode, targets=targets, slots=slots, now_ms=now_ms)[0]
    if state is not None and state.current == current:
        return Gate(settings, state)
    # The cooldown counts from the time that the job runs as it runs.
    since_ms = min(topology.at_ms, now_ms)
    start_ms = since_ms if state is None else max(since_ms, state.now_ms)
    idle = targets_of(None, current)
    return Gate.start(settings, mode=mode, targets=idle, slots=slots, current=current, now_ms=start_ms)[0]
