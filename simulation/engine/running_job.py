"""One job of the simulated engine: its units, attempts, current rescale, and the minutes it has run. Pure state.

The engine calls it only at whole minutes: nothing takes effect within a minute.
"""

import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec
import numpy as np

from surescale.contracts.clock import MINUTE_MS, minute_end_ms
from surescale.contracts.commands import GENERATION_LEAP_MAX, Rescale, RescheduleCommand
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.vnodes import uniform_counts
from surescale.contracts.windows import FIGURE
from surescale.simulation.engine.checked_changes import (
    Accepted,
    EngineRefusal,
    FailedOver,
    HostOf,
    Tasks,
    moved_to,
    replaced,
    tasks_after,
    units_of,
    wanted_standbys,
)
from surescale.simulation.engine.job_report import JobLedger
from surescale.simulation.engine.learners import (
    READY_KEPT_MS,
    Held,
    Learner,
    Preparation,
    Standbys,
    are_ready,
    lag_by_host,
    spread,
    to_restore,
    write,
)
from surescale.simulation.engine.simulated_minute import SimulatedMinute, keep_minute, state_bytes
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.model.attempts import RECORD_BYTES, FlowRows, Int64
from surescale.simulation.model.costs import RestartCost
from surescale.simulation.model.worlds import World

MINUTES_KEPT = 2_880  # two days
RESCALES_KEPT = 5
_RECORDS = FIGURE["records_in"]


@dataclass(slots=True)
class RunningJob:
    """The state of one job. ``topology`` is what the engine announces; its ``version`` grows with every change."""

    topology: JobTopology
    sized: SizedJob
    flow: FlowRows
    cost: RestartCost
    ledger: JobLedger
    rescale: Rescale | None = None
    preparation: Preparation | None = None
    answers: dict[str, tuple[int, int]] = field(default_factory=dict)  # command_id -> (effective_at_ms, done_at_ms)
    minutes: deque[SimulatedMinute] = field(default_factory=lambda: deque(maxlen=MINUTES_KEPT))
    held: dict[str, Held] = field(default_factory=dict)  # per stateful task
    down_until_ms: int = 0
    standbys: Standbys = field(default_factory=Standbys)
    still_ms: deque[int] = field(default_factory=lambda: deque(maxlen=RESCALES_KEPT))  # that the last rescales stopped it
    _kept_records: dict[str, int] | None = None  # at the last checkpoint
    _records: dict[str, int] = field(default_factory=dict)  # received by each stateful task since the run began
    _next: Accepted | None = None
    _newest: tuple[int, int] = (0, -1)  # generation, step
    _is_rescaled: bool = False

    @classmethod
    def start(
        cls,
        sized: SizedJob,
        job: str,
        units: list[int],
        at_ms: int,
        cost: RestartCost,
        sample_every_steps: int,
        world: World,
        first_minute: int,
    ) -> "RunningJob":
        """Return the job at its start parallelism on the first of these units, with empty queues and running.

        ``first_minute`` of the trace says where the world's course begins.
        """
        tasks = tuple(msgspec.structs.replace(spec, units=tuple(units[: spec.parallelism])) for spec in sized.specs())
        first = np.array([first_minute], dtype=np.int64)
        sizes = _parallelism(tasks)[None]
        flow = FlowRows(sized, sizes, sample_every_steps=sample_every_steps, world=world, first_minutes=first)
        topology = JobTopology(job=job, version=1, at_ms=at_ms, tasks=tasks)
        held = {spec.task: uniform_counts(spec.units, spec.vnodes) for spec in tasks if spec.stateful}
        started = cls(topology, sized, flow, cost, JobLedger(sized.path_minutes), held=held, _records=dict.fromkeys(held, 0))
        flow.hold(started._state_bytes())
        return started

    @property
    def units(self) -> frozenset[int]:
        """Return the units that the job holds, including those of an accepted command and of learners."""
        held = units_of(self.topology.tasks)
        if self._next:
            held |= units_of(self._next.tasks)
        return held | self.preparation.units if self.preparation else held

    @property
    def wanted_tasks(self) -> tuple[TaskSpec, ...]:
        """Return the tasks as the accepted command will leave them; without one, as they are."""
        return self._next.tasks if self._next else self.topology.tasks

    @property
    def is_waiting(self) -> bool:
        """Return whether the job has no units at all."""
        return self.topology.state == "waiting"

    def state_at(self, now_ms: int) -> Literal["running", "restarting", "waiting"]:
        """Return ``running``, ``restarting`` or ``waiting``."""
        if self.is_waiting:
            return "waiting"
        return "restarting" if now_ms < self.down_until_ms else "running"

    def rescale_at(self, now_ms: int) -> Rescale | None:
        """Return the latest accepted command with its state at ``now_ms``, which the job has reached."""
        rescale = self.rescale
        if rescale and rescale.state == "restarting" and now_ms >= rescale.done_at_ms:
            return replace(rescale, state="done")
        if rescale and self.preparation and self.preparation.command_id == rescale.command_id:
            return replace(rescale, lag_bytes=self.preparation.lag_bytes)
        return rescale

    def run_minute(self, requests: int, end_ms: int) -> None:
        """Let one minute pass."""
        flow = self.flow.advance(np.array([[requests]], dtype=np.float64))
        self.minutes.append(keep_minute(flow, self.topology, end_ms))
        real = [0 if self.is_waiting else spec.parallelism for spec in self.topology.tasks if spec.scalable]
        self.ledger.note(flow, real, rescaled=self._is_rescaled)
        self._is_rescaled = False
        self._write_state()

    # Commands

    def accept(self, command: RescheduleCommand, now_ms: int, *, host_of: HostOf, free: Sequence[int]) -> Rescale:
        """Accept a command: a ``commit`` takes effect one whole minute after the minute of ``now_ms``, other actions at once.

        Under back pressure a ``commit`` waits for a checkpoint if that takes longer.

        ``host_of`` has every unit, ``free`` the units that no job holds, ascending. If a change names no units, the engine
        chooses, the job's own units first.

        Raises:
            EngineRefusal: with the code of the first objection; nothing has been changed.
        """
        self._refuse_out_of_turn(command, now_ms)
        if command.action == "standby":
            self.standbys.want(wanted_standbys(command, self.topology, host_of), self.held, self._sizes())
            rescale = Rescale(command.command_id, "done", now_ms, now_ms)
        elif command.action == "abort":
            rescale = Rescale(command.command_id, "done", now_ms, now_ms)
            self.preparation = None
        elif command.action == "prepare":
            rescale = self._prepare(command, now_ms, host_of, free)
        else:
            rescale = self._commit(command, now_ms, host_of, free)
        self.rescale = rescale
        self._newest = (command.desired_generation, command.step)
        self.answers[command.command_id] = (rescale.effective_at_ms, rescale.done_at_ms)
        return rescale

    def answered(self, command: RescheduleCommand, now_ms: int) -> Rescale | None:
        """Return the earlier answer to a command that was accepted before, with its current state if it is the latest."""
        if command.command_id not in self.answers:
            return None
        newest = self.rescale_at(now_ms)
        if newest and newest.command_id == command.command_id:
            return newest
        return Rescale(command.command_id, "done", *self.answers[command.command_id])

    def warm(self, at_ms: int) -> None:
        """Check the learners at the end of a minute: all ready, too late, or still warming."""
        preparation, rescale = self.preparation, self.rescale
        if preparation is None or rescale is None:
            return
        acceptable, deadline_ms = self.cost.acceptable_lag_bytes, preparation.deadline_ms
        if rescale.command_id == preparation.command_id and rescale.state == "warming":
            if are_ready(preparation.learners, acceptable):
                self.rescale = replace(rescale, state="done", done_at_ms=at_ms)
            elif deadline_ms is not None and at_ms >= deadline_ms:
                self.give_up("WARM_UP_TIMEOUT", at_ms, preparation.unready_units(acceptable))
            else:
                minutes = preparation.ready_after_minutes(self.cost.restored_per_minute())
                self.rescale = replace(rescale, done_at_ms=at_ms + max(1, minutes) * MINUTE_MS)
        elif self._next is None and deadline_ms is not None and at_ms >= deadline_ms + READY_KEPT_MS:
            self.preparation = None

    def lose_learners(self, lost: frozenset[int], at_ms: int) -> None:
        """Give up the preparation if it needs a unit that is gone or about to go."""
        if self.preparation and (gone := self.preparation.units & lost):
            self.give_up("LEARNER_LOST", at_ms, tuple(sorted(gone)))

    def take_effect(self, at_ms: int, host_of: HostOf) -> bool:
        """Start the accepted command if it is due; return whether the job restarted."""
        if self._next is None or self._next.rescale.effective_at_ms > at_ms:
            return False
        accepted, self._next = self._next, None
        if units_of(accepted.tasks) - host_of.keys():
            self.rescale = replace(accepted.rescale, state="failed", code="UNIT_LOST")
            self.preparation = None
            return False
        done_at_ms = at_ms + self._down_ms(accepted.tasks, host_of)
        self.rescale = replace(accepted.rescale, state="restarting", done_at_ms=done_at_ms)
        self._is_rescaled = True
        self.preparation = None
        self.still_ms.append(done_at_ms - at_ms)
        self._restart(accepted.tasks, at_ms, done_at_ms, accepted.generation)
        self.follow_hosts(host_of)
        self.checkpoint()  # the barrier of a rescale is a checkpoint: nothing before it is ever repeated
        return True

    def checkpoint(self) -> None:
        """Remember where the job stands, in case it fails over."""
        self.flow.keep()
        self._kept_records = dict(self._records)

    def follow_hosts(self, host_of: HostOf) -> None:
        """Drop standbys on hosts that are gone or about to go, and those of units that the job no longer has."""
        self.standbys.follow(self.held, host_of, self._sizes())

    def fail_over(self, at_ms: int, host_of: HostOf, free: Sequence[int]) -> FailedOver:
        """Restart on the remaining units and replace lost ones by free ones; with no unit at all the job waits for a command.

        If a lost unit has a ready standby, a free unit of the standby's host replaces it. If that works for every lost unit, the
        job is down only for the take-over. Otherwise it goes back to its last checkpoint and restores the state that no host has.
        Learners must have been given up before: the state that they were restoring lies elsewhere now.
        """
        before, width = self.topology.tasks, max(spec.parallelism for spec in self.topology.tasks)
        lost = units_of(before) - host_of.keys()
        successors = self.standbys.successors(lost, free, host_of, self.cost.acceptable_lag_bytes)
        tasks = replaced(before, successors)
        survivors = sorted(units_of(tasks) & host_of.keys())
        pool = survivors + [unit for unit in free if unit not in survivors][: max(0, width - len(survivors))]
        if not pool:
            again = self._go_back()
            tasks = tuple(msgspec.structs.replace(spec, units=()) for spec in before)
            self._announce(tasks, at_ms, self.topology.generation, state="waiting")
            self.held = {task: {} for task in self.held}
            self.follow_hosts(host_of)
            self.flow.stop()
            return FailedOver(records_again=again)
        self.held = {
            task: {successors.get(unit, unit): count for unit, count in counts.items()} for task, counts in self.held.items()
        }
        is_taken_over = lost == successors.keys()
        tasks = moved_to(pool, tasks)
        down_ms = self.cost.takeover_ms if is_taken_over else self.cost.cold_ms(self._bytes_by_host(tasks, host_of))
        down_ms = max(down_ms, self.down_until_ms - at_ms)  # restores on other hosts continue
        again = 0 if is_taken_over else self._go_back()
        self._restart(tasks, at_ms, at_ms + down_ms, self.topology.generation)
        self.follow_hosts(host_of)
        if self.rescale and self.rescale.state == "restarting" and self.rescale.done_at_ms > at_ms:
            self.rescale = replace(self.rescale, done_at_ms=max(at_ms + down_ms, self.rescale.done_at_ms))
        return FailedOver(is_taken_over, again)

    def _go_back(self) -> int:
        """Undo everything since the last checkpoint; return how many records will be served again."""
        again = self.flow.rewind()
        if self._kept_records is not None:
            self._records = dict(self._kept_records)
        return int(again[0])

    def _refuse_out_of_turn(self, command: RescheduleCommand, now_ms: int) -> None:
        if (command.desired_generation, command.step) <= self._newest:
            raise EngineRefusal(
                "STALE_GENERATION",
                f"job {self.topology.job} has already accepted generation {self._newest[0]}; "
                f"{command.command_id} carries generation {command.desired_generation}",
            )
        if command.desired_generation - self._newest[0] > GENERATION_LEAP_MAX:
            raise EngineRefusal(
                "INVALID_COMMAND",
                f"{command.command_id} carries generation {command.desired_generation}; the last one was {self._newest[0]}",
            )
        rescale = self.rescale_at(now_ms)
        if rescale and rescale.is_under_way:
            raise EngineRefusal("RESCALE_IN_PROGRESS", f"{rescale.command_id} is {rescale.state} until {rescale.done_at_ms}")
        if self.is_waiting and command.action == "prepare":
            raise EngineRefusal("JOB_WAITING", f"job {self.topology.job} has no units to keep it running")

    # Learners

    def _commit(self, command: RescheduleCommand, now_ms: int, host_of: HostOf, free: Sequence[int]) -> Rescale:
        tasks = tasks_after(command, self.topology, host_of.keys(), sorted(self.units) + list(free))
        effective_at_ms = minute_end_ms(now_ms) + int(self.flow.effect_minutes()[0]) * MINUTE_MS
        done_at_ms = effective_at_ms + self._down_ms(tasks, host_of)
        rescale = Rescale(command.command_id, "pending", effective_at_ms, done_at_ms)
        self._next = Accepted(rescale, tasks, command.desired_generation)
        if self.preparation and self.preparation.tasks != tasks:
            self.preparation = None
        return rescale

    def _prepare(self, command: RescheduleCommand, now_ms: int, host_of: HostOf, free: Sequence[int]) -> Rescale:
        tasks = tasks_after(command, self.topology, host_of.keys(), sorted(self.units) + list(free))
        begins_at_ms = minute_end_ms(now_ms)
        learners = self._learners(tasks, host_of) if self.cost.mode == "learners" else ()
        made = Preparation(command.command_id, tasks, learners, begins_at_ms, command.deadline_ms)
        self.preparation = made
        rescale = Rescale(command.command_id, "done", now_ms, now_ms, learners=len(learners))
        if not are_ready(learners, self.cost.acceptable_lag_bytes):
            minutes = made.ready_after_minutes(self.cost.restored_per_minute())
            done_at_ms = begins_at_ms + max(1, minutes) * MINUTE_MS
            rescale = replace(
                rescale, state="warming", effective_at_ms=begins_at_ms, done_at_ms=done_at_ms, lag_bytes=made.lag_bytes
            )
        return rescale

    def give_up(self, code: str, at_ms: int, units: tuple[int, ...] = ()) -> None:
        """Drop the preparation, if there is one; its command fails unless it ended before."""
        preparation, rescale = self.preparation, self.rescale
        self.preparation = None
        if preparation is None or rescale is None or rescale.command_id != preparation.command_id:
            return
        if rescale.state == "warming":
            lag = preparation.lag_bytes
            self.rescale = replace(rescale, state="failed", code=code, done_at_ms=at_ms, units=units, lag_bytes=lag)

    def _learners(self, tasks: Tasks, host_of: HostOf) -> tuple[Learner, ...]:
        """Return a learner for every unit that will own state from another host, unless its own host has a ready copy."""
        copies = self.standbys.ready(self.cost.acceptable_lag_bytes)
        return tuple(
            Learner(spec.task, unit, host_of[unit], vnodes, vnodes * self._vnode_bytes(spec))
            for spec in tasks
            if spec.stateful
            for unit, vnodes in to_restore(self.held[spec.task], self._spread(spec), host_of, copies).items()
        )

    # State

    def _down_ms(self, tasks: Tasks, host_of: HostOf) -> int:
        """Return how long a change stops the job: a barrier if all moving state is warm, else a restart."""
        prepared = self.preparation is not None and self.preparation.tasks == tasks
        learners = self.preparation.learners if prepared and self.preparation else self._learners(tasks, host_of)
        is_warm = are_ready(learners, self.cost.acceptable_lag_bytes)
        if self.cost.mode == "learners" and not self.is_waiting and is_warm:
            return self.cost.barrier_ms
        return self.cost.cold_ms(lag_by_host(learners) if self.cost.mode == "learners" else self._bytes_by_host(tasks, host_of))

    def _bytes_by_host(self, tasks: Tasks, host_of: HostOf) -> dict[str, int]:
        return lag_by_host(self._learners(tasks, host_of))

    def _spread(self, spec: TaskSpec) -> Held:
        return spread(self.held[spec.task], spec.units, spec.vnodes)

    def _vnode_bytes(self, spec: TaskSpec) -> int:
        return self.cost.vnode_bytes(self._records[spec.task], spec.vnodes)

    def _sizes(self) -> dict[str, int]:
        return {spec.task: self._vnode_bytes(spec) for spec in self.topology.tasks if spec.stateful}

    def _state_bytes(self) -> Int64:
        return np.array(
            [state_bytes(spec, self._vnode_bytes(spec)) if spec.stateful else 0 for spec in self.topology.tasks], dtype=np.int64
        )

    def _write_state(self) -> None:
        """Add the records of the minute that just ended to state and learners."""
        rows, written = self.minutes[-1].rows, dict[str, int]()
        for index, spec in enumerate(self.topology.tasks):
            if spec.stateful:
                records = int(rows[index, _RECORDS])
                self._records[spec.task] += records
                written[spec.task] = records * RECORD_BYTES // spec.vnodes
        self.flow.hold(self._state_bytes())
        write([*self.standbys.copies, *(self.preparation.learners if self.preparation else ())], written)

    def _restart(self, tasks: Tasks, at_ms: int, done_at_ms: int, generation: int) -> None:
        self.held = {spec.task: self._spread(spec) for spec in tasks if spec.stateful}
        self._announce(tasks, at_ms, generation, attempt=self.topology.attempt + 1)
        self.down_until_ms = done_at_ms
        self.flow.restart(_parallelism(tasks)[None], done_at_ms - at_ms, np.ones(1, dtype=np.bool_))

    def _announce(
        self,
        tasks: Tasks,
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
            restart_ms=self._told_restart_ms(),
        )

    def _told_restart_ms(self) -> int | None:
        """Return the median of the last stops; None if it is the shipped minute or less, as in ``Terms.told_restart_ms``."""
        usual_ms = round(statistics.median(self.still_ms)) if self.still_ms else 0
        return usual_ms if usual_ms > MINUTE_MS else None


def _parallelism(tasks: Tasks) -> Int64:
    return np.array([spec.parallelism for spec in tasks], dtype=np.int64)
