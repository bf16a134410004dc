"""One job in the simulated engine: its units, its attempts, the rescale under way, and the minutes it has run. Pure state.

The engine calls it only at whole minutes: nothing that a job does takes effect within one.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec
import numpy as np

from contracts.clock import MINUTE_MS, minute_end_ms
from contracts.commands import RescheduleCommand
from contracts.messages import JobTopology, TaskSpec
from contracts.windows import FIGURE
from simulation.changes import Tasks, moved_to, replaced, tasks_after, units_of, wanted_standbys
from simulation.costs import RestartCost
from simulation.flow import RECORD_BYTES, FlowRows, Int64
from simulation.jobs import SizedJob
from simulation.ownership import Held, even, spread, to_restore
from simulation.refusals import EngineRefusal
from simulation.report import JobLedger
from simulation.rescales import Accepted, FailedOver, HostOf, Rescale
from simulation.sampling import SimulatedMinute, keep_minute, state_bytes
from simulation.standbys import Standbys
from simulation.warming import READY_KEPT_MS, Learner, Preparation, lag_by_host

MINUTES_KEPT = 2_880  # two days
_RECORDS = FIGURE["records_in"]


@dataclass(slots=True)
class RunningJob:
    """The state of one job. ``topology`` is what the engine announces; its ``version`` grows with every change of it."""

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
    _kept_records: dict[str, int] | None = None  # at the last checkpoint
    _records: dict[str, int] = field(default_factory=dict)  # that each stateful task has taken in since the run began
    _next: Accepted | None = None
    _newest: tuple[int, int] = (0, -1)  # generation, step
    _is_rescaled: bool = False

    @classmethod
    def start(
        cls, sized: SizedJob, job: str, units: list[int], at_ms: int, cost: RestartCost, sample_every_steps: int
    ) -> "RunningJob":
        """Return the job at its start parallelism on the first of these units, with empty queues and no down time."""
        tasks = tuple(msgspec.structs.replace(spec, units=tuple(units[: spec.parallelism])) for spec in sized.specs())
        flow = FlowRows(sized, _parallelism(tasks)[None], sample_every_steps=sample_every_steps)
        topology = JobTopology(job=job, version=1, at_ms=at_ms, tasks=tasks)
        held = {spec.task: even(spec.units, spec.vnodes) for spec in tasks if spec.stateful}
        started = cls(topology, sized, flow, cost, JobLedger(sized.path_minutes), held=held, _records=dict.fromkeys(held, 0))
        flow.hold(started._state_bytes())
        return started

    @property
    def units(self) -> frozenset[int]:
        """Return the units that the job holds, those of an accepted command and of learners included."""
        held = units_of(self.topology.tasks)
        if self._next:
            held |= units_of(self._next.tasks)
        return held | self.preparation.units if self.preparation else held

    @property
    def is_waiting(self) -> bool:
        """Say whether the job has no unit at all."""
        return self.topology.state == "waiting"

    def state_at(self, now_ms: int) -> str:
        """Return ``running``, ``restarting`` or ``waiting``."""
        if self.is_waiting:
            return "waiting"
        return "restarting" if now_ms < self.down_until_ms else "running"

    def rescale_at(self, now_ms: int) -> Rescale | None:
        """Return the newest accepted command with its state at a time that the job has reached."""
        rescale = self.rescale
        if rescale and rescale.state == "restarting" and now_ms >= rescale.done_at_ms:
            return replace(rescale, state="done")
        if rescale and self.preparation and self.preparation.command_id == rescale.command_id:
            return replace(rescale, lag_bytes=self.preparation.lag_bytes)
        return rescale

    def run_minute(self, requests: int, end_ms: int) -> None:
        """Let one minute pass."""
        flow = self.flow.advance(np.array([[requests]], dtype=np.float64))
        self.minutes.append(keep_minute(flow, self.sized.service_minutes, self.topology, end_ms))
        real = [0 if self.is_waiting else spec.parallelism for spec in self.topology.tasks if spec.scalable]
        self.ledger.note(flow, real, rescaled=self._is_rescaled)
        self._is_rescaled = False
        self._write_state()

    # Commands

    def accept(self, command: RescheduleCommand, now_ms: int, *, host_of: HostOf, free: Sequence[int]) -> Rescale:
        """Take a command on: a ``commit`` takes effect one whole minute after the minute of ``now_ms``, the others at once.

        ``host_of`` holds every unit, ``free`` those that nobody holds, ascending. A change without units leaves the choice to the
        engine: the job's own units first.

        Raises:
            EngineRefusal: with the code of the first objection; nothing has been changed.
        """
        self._refuse_out_of_turn(command, now_ms)
        if command.action == "standby":
            self.standbys.want(wanted_standbys(command, self.topology, host_of), self.held, self._sizes())
            self.rescale = Rescale(command.command_id, command.desired_generation, now_ms, now_ms, "done")
        elif command.action == "abort":
            self.rescale = Rescale(command.command_id, command.desired_generation, now_ms, now_ms, "done")
            self.preparation = None
        elif command.action == "prepare":
            self._prepare(command, now_ms, host_of, free)
        else:
            tasks = tasks_after(command, self.topology, host_of.keys(), sorted(self.units) + list(free))
            effective_at_ms = minute_end_ms(now_ms) + MINUTE_MS
            done_at_ms = effective_at_ms + self._down_ms(tasks, host_of)
            self.rescale = Rescale(command.command_id, command.desired_generation, effective_at_ms, done_at_ms)
            self._next = Accepted(self.rescale, tasks)
            if self.preparation and self.preparation.tasks != tasks:
                self.preparation = None
        assert self.rescale is not None
        self._newest = (command.desired_generation, command.step)
        self.answers[command.command_id] = (self.rescale.effective_at_ms, self.rescale.done_at_ms)
        return self.rescale

    def answered(self, command: RescheduleCommand, now_ms: int) -> Rescale | None:
        """Return the former answer to a command that was accepted before, with its state if it is the newest."""
        if command.command_id not in self.answers:
            return None
        newest = self.rescale_at(now_ms)
        if newest and newest.command_id == command.command_id:
            return newest
        return Rescale(command.command_id, command.desired_generation, *self.answers[command.command_id], "done")

    def warm(self, at_ms: int) -> None:
        """Look at the learners at the end of a minute: all ready, too late, or warming on."""
        preparation, rescale = self.preparation, self.rescale
        if preparation is None or rescale is None:
            return
        acceptable, deadline_ms = self.cost.acceptable_lag_bytes, preparation.deadline_ms
        if rescale.command_id == preparation.command_id and rescale.state == "warming":
            if preparation.is_ready(acceptable):
                self.rescale = replace(rescale, state="done", done_at_ms=at_ms)
            elif deadline_ms is not None and at_ms >= deadline_ms:
                self.give_up("WARM_UP_TIMEOUT", at_ms, preparation.unready_units(acceptable))
            else:
                minutes = preparation.ready_after_minutes(self.cost.restored_per_minute())
                self.rescale = replace(rescale, done_at_ms=at_ms + max(1, minutes) * MINUTE_MS)
        elif self._next is None and deadline_ms is not None and at_ms >= deadline_ms + READY_KEPT_MS:
            self.preparation = None

    def lose_learners(self, lost: frozenset[int], at_ms: int) -> None:
        """Give the preparation up if it needs a unit that is gone or goes."""
        if self.preparation and (gone := self.preparation.units & lost):
            self.give_up("LEARNER_LOST", at_ms, tuple(sorted(gone)))

    def take_effect(self, at_ms: int, host_of: HostOf) -> bool:
        """Begin the accepted command if it is due; return whether the job restarted."""
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
        self._restart(accepted.tasks, at_ms, done_at_ms, accepted.rescale.desired_generation)
        self.follow_hosts(host_of)
        self.checkpoint()  # the barrier of a rescale is one: nothing before it is ever done again
        return True

    def checkpoint(self) -> None:
        """Remember where the job stands, for the day on which it fails over."""
        self.flow.keep()
        self._kept_records = dict(self._records)

    def follow_hosts(self, host_of: HostOf) -> None:
        """Drop standbys on hosts that are gone or go, and those of units that the job no longer has."""
        self.standbys.follow(self.held, host_of, self._sizes())

    def fail_over(self, at_ms: int, host_of: HostOf, free: Sequence[int]) -> FailedOver:
        """Restart on the units left, replacing lost ones by free ones; with no unit at all the job waits for a command.

        A lost unit of which a ready standby is kept is replaced by a free one of the standby's host. If that goes for all of them
        the job stands still for the take-over only. Otherwise it goes back to its last checkpoint and restores the state that is
        at hand nowhere. Learners must have been given up before: the state that they were to take over lies elsewhere now.
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
        down_ms = max(down_ms, self.down_until_ms - at_ms)  # what is being restored elsewhere goes on being restored
        again = 0 if is_taken_over else self._go_back()
        self._restart(tasks, at_ms, at_ms + down_ms, self.topology.generation)
        self.follow_hosts(host_of)
        if self.rescale and self.rescale.state == "restarting" and self.rescale.done_at_ms > at_ms:
            self.rescale = replace(self.rescale, done_at_ms=max(at_ms + down_ms, self.rescale.done_at_ms))
        return FailedOver(is_taken_over, again)

    def _go_back(self) -> int:
        """Undo what the job has done since its last checkpoint; return the records that it will serve again."""
        again = self.flow.rewind()
        if self._kept_records is not None:
            self._records = dict(self._kept_records)
        return int(again[0])

    def _refuse_out_of_turn(self, command: RescheduleCommand, now_ms: int) -> None:
        if (command.desired_generation, command.step) <= self._newest:
            raise EngineRefusal(
                "STALE_GENERATION",
                f"job {self.topology.job} has accepted generation {self._newest[0]} already; "
                f"{command.command_id} carries generation {command.desired_generation}",
            )
        rescale = self.rescale_at(now_ms)
        if rescale and rescale.is_under_way:
            raise EngineRefusal("RESCALE_IN_PROGRESS", f"{rescale.command_id} is {rescale.state} until {rescale.done_at_ms}")
        if self.is_waiting and command.action == "prepare":
            raise EngineRefusal("JOB_WAITING", f"job {self.topology.job} has no units that could serve on")

    # Learners

    def _prepare(self, command: RescheduleCommand, now_ms: int, host_of: HostOf, free: Sequence[int]) -> None:
        tasks = tasks_after(command, self.topology, host_of.keys(), sorted(self.units) + list(free))
        begins_at_ms = minute_end_ms(now_ms)
        learners = self._learners(tasks, host_of) if self.cost.mode == "learners" else ()
        made = Preparation(command.command_id, tasks, learners, begins_at_ms, command.deadline_ms)
        self.preparation = made
        rescale = Rescale(command.command_id, command.desired_generation, now_ms, now_ms, "done", learners=len(learners))
        if not made.is_ready(self.cost.acceptable_lag_bytes):
            minutes = made.ready_after_minutes(self.cost.restored_per_minute())
            done_at_ms = begins_at_ms + max(1, minutes) * MINUTE_MS
            rescale = replace(
                rescale, state="warming", effective_at_ms=begins_at_ms, done_at_ms=done_at_ms, lag_bytes=made.lag_bytes
            )
        self.rescale = rescale

    def give_up(self, code: str, at_ms: int, units: tuple[int, ...] = ()) -> None:
        """Drop the preparation, if there is one; its command has failed unless it had ended before."""
        preparation, rescale = self.preparation, self.rescale
        self.preparation = None
        if preparation is None or rescale is None or rescale.command_id != preparation.command_id:
            return
        if rescale.state == "warming":
            lag = preparation.lag_bytes
            self.rescale = replace(rescale, state="failed", code=code, done_at_ms=at_ms, units=units, lag_bytes=lag)

    def _learners(self, tasks: Tasks, host_of: HostOf) -> tuple[Learner, ...]:
        """Return a learner for every unit that will own state of another host's, and of which its own keeps no ready copy."""
        copies = self.standbys.ready(self.cost.acceptable_lag_bytes)
        return tuple(
            Learner(spec.task, unit, host_of[unit], vnodes, vnodes * self._vnode_bytes(spec))
            for spec in tasks
            if spec.stateful
            for unit, vnodes in to_restore(self.held[spec.task], self._spread(spec), host_of, copies).items()
        )

    # State

    def _down_ms(self, tasks: Tasks, host_of: HostOf) -> int:
        """Return how long the job stands still for a change: a barrier where all that moves is warm, else a restart."""
        prepared = self.preparation is not None and self.preparation.tasks == tasks
        learners = self.preparation.learners if prepared and self.preparation else self._learners(tasks, host_of)
        if self.cost.mode == "learners" and not self.is_waiting and self._is_warm(learners):
            return self.cost.barrier_ms
        return self.cost.cold_ms(lag_by_host(learners) if self.cost.mode == "learners" else self._bytes_by_host(tasks, host_of))

    def _is_warm(self, learners: Sequence[Learner]) -> bool:
        return all(learner.lag_bytes <= self.cost.acceptable_lag_bytes for learner in learners)

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
        """Let the records of the minute that has just ended reach state and learners."""
        rows, written = self.minutes[-1].rows, dict[str, int]()
        for index, spec in enumerate(self.topology.tasks):
            if spec.stateful:
                records = int(rows[index, _RECORDS])
                self._records[spec.task] += records
                written[spec.task] = records * RECORD_BYTES // spec.vnodes
        self.flow.hold(self._state_bytes())
        self.standbys.written(written)
        if self.preparation:
            self.preparation.written(written)

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
        )


def _parallelism(tasks: Tasks) -> Int64:
    return np.array([spec.parallelism for spec in tasks], dtype=np.int64)
