"""One job in the simulated engine: its units, its attempts, the rescale under way, and the minutes it has run. Pure state.

The engine calls it only at whole minutes: nothing that a job does takes effect within one.
"""

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec
import numpy as np

from contracts.clock import MINUTE_MS, minute_end_ms
from contracts.messages import JobTopology, RescheduleCommand, TaskChange, TaskSpec
from simulation.flow import FlowRows, Int64
from simulation.jobs import SizedJob
from simulation.queueing import STEP_MS
from simulation.refusals import EngineRefusal, RunError
from simulation.report import JobLedger
from simulation.sampling import SimulatedMinute, keep_minute, state_bytes

MINUTES_KEPT = 2_880  # two days


@dataclass(frozen=True, slots=True)
class RestartCost:
    """What a restart takes: ``restart_ms``, and the time to restore the state that moves, where a rate is given."""

    restart_ms: int = MINUTE_MS
    restore_bytes_per_s: float | None = None
    state_bytes_per_vnode: int = 262_144

    def __post_init__(self) -> None:
        """Check that restarts end where the simulator takes its steps.

        Raises:
            RunError: they do not.
        """
        if self.restart_ms % STEP_MS or self.restart_ms < 0:
            raise RunError(f"restart_ms must be a multiple of {STEP_MS}, not {self.restart_ms}")

    def down_ms(self, moved_bytes: int) -> int:
        """Return how long a job is down when so much state moves, up to the next step."""
        if not self.restore_bytes_per_s:
            return self.restart_ms
        restore_ms = 1000.0 * moved_bytes / self.restore_bytes_per_s
        return self.restart_ms + int(-(-restore_ms // STEP_MS)) * STEP_MS


@dataclass(frozen=True, slots=True)
class Rescale:
    """A command that the job accepted and what became of it."""

    command_id: str
    desired_generation: int
    effective_at_ms: int
    done_at_ms: int
    state: Literal["pending", "restarting", "done", "failed"] = "pending"
    code: str = ""  # why it failed


@dataclass(frozen=True, slots=True)
class _Accepted:
    rescale: Rescale
    tasks: tuple[TaskSpec, ...]


@dataclass(slots=True)
class RunningJob:
    """The state of one job. ``topology`` is what the engine announces; its ``version`` grows with every change of it."""

    topology: JobTopology
    sized: SizedJob
    flow: FlowRows
    cost: RestartCost
    ledger: JobLedger
    rescale: Rescale | None = None
    answers: dict[str, tuple[int, int]] = field(default_factory=dict)  # command_id -> (effective_at_ms, done_at_ms)
    minutes: deque[SimulatedMinute] = field(default_factory=lambda: deque(maxlen=MINUTES_KEPT))
    _next: _Accepted | None = None
    _newest: tuple[int, int] = (0, -1)  # generation, step
    _down_until_ms: int = 0
    _is_rescaled: bool = False

    @classmethod
    def start(
        cls, sized: SizedJob, job: str, units: list[int], at_ms: int, cost: RestartCost, sample_every_steps: int
    ) -> "RunningJob":
        """Return the job at its start parallelism on the first of these units, with empty queues and no down time."""
        tasks = tuple(msgspec.structs.replace(spec, units=tuple(units[: spec.parallelism])) for spec in sized.specs())
        state = np.array([state_bytes(spec, cost.state_bytes_per_vnode) for spec in tasks], dtype=np.int64)
        flow = FlowRows(sized, _parallelism(tasks)[None], state_bytes=state, sample_every_steps=sample_every_steps)
        topology = JobTopology(job=job, version=1, at_ms=at_ms, tasks=tasks)
        return cls(topology, sized, flow, cost, JobLedger(sized.path_minutes))

    @property
    def units(self) -> frozenset[int]:
        """Return the units that the job holds, those of an accepted command included."""
        held = {unit for spec in self.topology.tasks for unit in spec.units}
        if self._next:
            held |= {unit for spec in self._next.tasks for unit in spec.units}
        return frozenset(held)

    @property
    def is_waiting(self) -> bool:
        """Say whether the job has no unit at all."""
        return self.topology.state == "waiting"

    def state_at(self, now_ms: int) -> str:
        """Return ``running``, ``restarting`` or ``waiting``."""
        if self.is_waiting:
            return "waiting"
        return "restarting" if now_ms < self._down_until_ms else "running"

    def rescale_at(self, now_ms: int) -> Rescale | None:
        """Return the newest accepted command with its state at a time that the job has reached."""
        if self.rescale is None or self.rescale.state != "restarting" or now_ms < self.rescale.done_at_ms:
            return self.rescale
        return replace(self.rescale, state="done")

    def run_minute(self, requests: int, end_ms: int) -> None:
        """Let one minute pass."""
        flow = self.flow.advance(np.array([[requests]], dtype=np.float64))
        self.minutes.append(keep_minute(flow, self.sized.service_minutes, self.topology, end_ms))
        real = [0 if self.is_waiting else spec.parallelism for spec in self.topology.tasks if spec.scalable]
        self.ledger.note(flow, real, rescaled=self._is_rescaled)
        self._is_rescaled = False

    def accept(self, command: RescheduleCommand, now_ms: int, *, existing: frozenset[int], free: list[int]) -> Rescale:
        """Take a command on, to take effect one whole minute after the minute of ``now_ms``.

        ``existing`` are all units, ``free`` those that nobody holds, ascending. A change without units leaves the choice to the
        engine: the job's own units first.

        Raises:
            EngineRefusal: with the code of the first objection; nothing has been changed.
        """
        self._refuse_out_of_turn(command, now_ms)
        tasks = self._after(command, existing, free)
        effective_at_ms = minute_end_ms(now_ms) + MINUTE_MS
        done_at_ms = effective_at_ms + self.cost.down_ms(self._moved_bytes(tasks))
        self.rescale = Rescale(command.command_id, command.desired_generation, effective_at_ms, done_at_ms)
        self._next = _Accepted(self.rescale, tasks)
        self._newest = (command.desired_generation, command.step)
        self.answers[command.command_id] = (effective_at_ms, done_at_ms)
        return self.rescale

    def take_effect(self, at_ms: int, existing: frozenset[int]) -> bool:
        """Begin the accepted command if it is due; return whether the job restarted."""
        if self._next is None or self._next.rescale.effective_at_ms > at_ms:
            return False
        accepted, self._next = self._next, None
        lost = {unit for spec in accepted.tasks for unit in spec.units} - existing
        if lost or self.is_waiting:
            self.rescale = replace(accepted.rescale, state="failed", code="UNIT_LOST")
            return False
        self.rescale = replace(accepted.rescale, state="restarting")
        self._is_rescaled = True
        self._restart(accepted.tasks, at_ms, accepted.rescale.done_at_ms, accepted.rescale.desired_generation)
        return True

    def fail_over(self, at_ms: int, existing: frozenset[int], free: list[int]) -> None:
        """Restart on the units left, replacing lost ones by free ones; with no unit at all the job waits."""
        survivors = sorted({unit for spec in self.topology.tasks for unit in spec.units} & existing)
        width = max(spec.parallelism for spec in self.topology.tasks)
        pool = survivors + free[: max(0, width - len(survivors))]
        if not pool:
            tasks = tuple(msgspec.structs.replace(spec, units=()) for spec in self.topology.tasks)
            self._announce(tasks, at_ms, self.topology.generation, state="waiting")
            self.flow.stop()
            return
        tasks = tuple(_moved(spec, pool) for spec in self.topology.tasks)
        done_at_ms = at_ms + self.cost.down_ms(self._moved_bytes(tasks))
        self._restart(tasks, at_ms, done_at_ms, self.topology.generation)
        if self.rescale and self.rescale.state == "restarting" and self.rescale.done_at_ms > at_ms:
            self.rescale = replace(self.rescale, done_at_ms=max(done_at_ms, self.rescale.done_at_ms))

    def _refuse_out_of_turn(self, command: RescheduleCommand, now_ms: int) -> None:
        if (command.desired_generation, command.step) <= self._newest:
            raise EngineRefusal(
                "STALE_GENERATION",
                f"job {self.topology.job} has accepted generation {self._newest[0]} already; "
                f"{command.command_id} carries generation {command.desired_generation}",
            )
        rescale = self.rescale_at(now_ms)
        if rescale and rescale.state in ("pending", "restarting"):
            raise EngineRefusal("RESCALE_IN_PROGRESS", f"{rescale.command_id} is {rescale.state} until {rescale.done_at_ms}")
        if self.is_waiting:
            raise EngineRefusal("JOB_WAITING", f"job {self.topology.job} has no units")

    def _after(self, command: RescheduleCommand, existing: frozenset[int], free: list[int]) -> tuple[TaskSpec, ...]:
        """Return the tasks as they will be."""
        changes = {change.task: change for change in command.changes}
        if len(changes) != len(command.changes):
            raise EngineRefusal("INVALID_COMMAND", "changes: a task is listed twice")
        unknown = sorted(changes.keys() - {spec.task for spec in self.topology.tasks})
        if unknown:
            raise EngineRefusal("UNKNOWN_TASK", f"changes: {unknown[0]!r} is no task of job {self.topology.job}")
        own = sorted(self.units)
        available = own + free
        tasks = [
            _changed(spec, changes[spec.task], existing, available) if spec.task in changes else spec
            for spec in self.topology.tasks
        ]
        held = {unit for spec in tasks if spec.scalable for unit in spec.units}
        return tuple(spec if spec.scalable else _within(spec, held) for spec in tasks)

    def _restart(self, tasks: tuple[TaskSpec, ...], at_ms: int, done_at_ms: int, generation: int) -> None:
        self._announce(tasks, at_ms, generation, attempt=self.topology.attempt + 1)
        self._down_until_ms = done_at_ms
        self.flow.restart(_parallelism(tasks)[None], done_at_ms - at_ms, np.ones(1, dtype=np.bool_))

    def _announce(
        self,
        tasks: tuple[TaskSpec, ...],
        at_ms: int,
        generation: int,
        *,
        attempt: int | None = None,
        state: Literal["running", "waiting"] = "running",
    ) -> None:
        self.topology = JobTopology(
            job=self.topology.job,
            version=self.topology.version + 1,
            at_ms=at_ms,
            tasks=tasks,
            generation=generation,
            attempt=self.topology.attempt if attempt is None else attempt,
            state=state,
        )

    def _moved_bytes(self, tasks: tuple[TaskSpec, ...]) -> int:
        """Return the state that units must restore which did not hold it: the largest share any one task moves."""
        moved = 0
        for before, after in zip(self.topology.tasks, tasks, strict=True):
            if after.stateful and after.units:
                fresh = len(set(after.units) - set(before.units))
                share = after.vnodes * fresh // len(after.units)
                moved = max(moved, share * self.cost.state_bytes_per_vnode)
        return moved


def _changed(spec: TaskSpec, change: TaskChange, existing: frozenset[int], available: list[int]) -> TaskSpec:
    where = f"changes[{spec.task}]"
    if not spec.scalable:
        raise EngineRefusal("NOT_SCALABLE", f"{where}: its parallelism is fixed")
    if change.before != spec.parallelism:
        raise EngineRefusal("BASE_CHANGED", f"{where}: it has parallelism {spec.parallelism}, not {change.before}")
    if not 1 <= change.after <= spec.max_parallelism:
        raise EngineRefusal("PARALLELISM_OUT_OF_RANGE", f"{where}: {change.after} is not within 1 to {spec.max_parallelism}")
    units = change.units or _chosen(spec, change.after, available)
    if len(units) != change.after or len(set(units)) != len(units):
        raise EngineRefusal("INVALID_COMMAND", f"{where}: {len(set(units))} different units for parallelism {change.after}")
    unknown = sorted(set(units) - existing)
    if unknown:
        raise EngineRefusal("UNKNOWN_PARALLEL_UNIT", f"{where}: unit {unknown[0]} is of no host")
    occupied = sorted(set(units) - set(available) - set(spec.units))
    if occupied:
        raise EngineRefusal("UNIT_OCCUPIED", f"{where}: unit {occupied[0]} belongs to another job")
    return msgspec.structs.replace(spec, parallelism=change.after, units=tuple(units))


def _chosen(spec: TaskSpec, wanted: int, available: list[int]) -> tuple[int, ...]:
    kept = spec.units[:wanted]
    added = [unit for unit in available if unit not in kept][: wanted - len(kept)]
    if len(kept) + len(added) < wanted:
        raise EngineRefusal("NOT_ENOUGH_UNITS", f"changes[{spec.task}]: {len(available)} units are to be had, {wanted} wanted")
    return (*kept, *added)


def _moved(spec: TaskSpec, pool: list[int]) -> TaskSpec:
    """Put a task on units of the pool, keeping those it has."""
    kept = [unit for unit in spec.units if unit in pool]
    units = (kept + [unit for unit in pool if unit not in kept])[: spec.parallelism]
    return msgspec.structs.replace(spec, parallelism=len(units), units=tuple(units))


def _within(spec: TaskSpec, held: set[int]) -> TaskSpec:
    """Keep source and sink on a unit that the job still holds."""
    return spec if set(spec.units) <= held else msgspec.structs.replace(spec, units=(min(held),))


def _parallelism(tasks: tuple[TaskSpec, ...]) -> Int64:
    return np.array([spec.parallelism for spec in tasks], dtype=np.int64)
