"""An engine without time, as a value: it accepts commands as the simulated engine does, and carries them out whenever it likes.

Refusals, changed tasks and failover are the simulated engine's own functions. What that engine computes from load and state
sizes (how long learners take, when a restart is over) is left open here: any order is possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from surescale.contracts.capabilities import SIMULATED, Capabilities
from surescale.contracts.commands import Rescale, RescheduleCommand
from surescale.contracts.messages import ClusterTopology, JobTopology
from surescale.engines.ports.actuator import Accepted, EngineRefused, JobStatus
from surescale.simulation.engine.checked_changes import EngineRefusal, Tasks, moved_to, tasks_after, units_of
from surescale.simulation.engine.learners import READY_KEPT_MS


@dataclass(frozen=True, slots=True)
class Preparing:
    """Learners, warming or ready."""

    command_id: str
    generation: int
    tasks: Tasks
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class EngineJob:
    """One job of the engine."""

    topology: JobTopology
    newest: tuple[int, int] = (0, -1)
    """Generation and step of the last command accepted."""
    answered: frozenset[str] = frozenset()
    rescale: Rescale | None = None
    preparing: Preparing | None = None
    next: Tasks | None = None
    """The tasks of an accepted commit that has not taken effect."""

    @property
    def units(self) -> frozenset[int]:
        """Every unit that the job holds: of running subtasks, of a commit on its way, and of learners."""
        held = units_of(self.topology.tasks)
        held |= units_of(self.next) if self.next else frozenset()
        return held | units_of(self.preparing.tasks) if self.preparing else held


@dataclass(frozen=True, slots=True)
class Engine:
    """Hosts and jobs."""

    hosts: ClusterTopology
    jobs: tuple[EngineJob, ...]
    checks_turns: bool = True
    """Whether it refuses commands that are older than the last one; False is for a test that breaks it."""

    def job(self, name: str) -> EngineJob:
        """Return a job by its name."""
        return next(job for job in self.jobs if job.topology.job == name)

    def with_job(self, changed: EngineJob) -> Engine:
        """Return the engine with one job replaced."""
        name = changed.topology.job
        return replace(self, jobs=tuple(changed if job.topology.job == name else job for job in self.jobs))

    @property
    def existing(self) -> frozenset[int]:
        """Every unit of a live host."""
        return frozenset(unit for host in self.hosts.hosts for unit in host.units)

    def free_for(self, name: str) -> list[int]:
        """Return the units that a job has or may take, its own first."""
        others = frozenset[int]().union(*(job.units for job in self.jobs if job.topology.job != name))
        own = self.job(name).units
        return sorted(own & self.existing) + sorted(self.existing - others - own)

    # What happens by itself

    def steps(self, now_ms: int) -> Iterator[tuple[str, Engine]]:
        """Return what the engine may do next with the commands that it has accepted."""
        for job in self.jobs:
            name, last = job.topology.job, job.rescale
            if last is None:
                continue
            if job.preparing and last.state == "warming":
                yield f"warm {name}", self.with_job(replace(job, rescale=replace(_done(last), learners=1)))
            if job.next is not None:
                yield f"effect {name}", self._taken_effect(job, last, now_ms)
            if last.state == "restarting":
                yield f"restarted {name}", self.with_job(replace(job, rescale=_done(last)))

    def at(self, now_ms: int) -> Engine:
        """Return the engine after its own timers: learners that are too late, or ready and forgotten, are dropped."""
        after = self
        for job in self.jobs:
            made, last = job.preparing, job.rescale
            if made is None or last is None:
                continue
            if last.command_id == made.command_id and last.state == "warming" and now_ms >= made.deadline_ms:
                units = tuple(sorted(units_of(made.tasks) - units_of(job.topology.tasks)))
                after = after.with_job(_given_up(job, "WARM_UP_TIMEOUT", now_ms, units))
            elif job.next is None and now_ms >= made.deadline_ms + READY_KEPT_MS:
                after = after.with_job(replace(job, preparing=None))
        return after

    def timers(self) -> Iterator[int]:
        """Return when its own timers are due."""
        for job in self.jobs:
            if job.preparing:
                yield job.preparing.deadline_ms
                yield job.preparing.deadline_ms + READY_KEPT_MS

    def without_host(self, name: str, now_ms: int) -> Engine:
        """Return the engine after a host has died: its jobs fail over, and learners on it are given up."""
        lost = frozenset(unit for host in self.hosts.hosts if host.host == name for unit in host.units)
        kept = tuple(host for host in self.hosts.hosts if host.host != name)
        hosts = msgspec.structs.replace(self.hosts, version=self.hosts.version + 1, at_ms=now_ms, hosts=kept)
        after = replace(self, hosts=hosts)
        for job in self.jobs:
            if units_of(job.topology.tasks) & lost:
                job = _given_up(job, "JOB_FAILED_OVER", now_ms)
                width = max(spec.parallelism for spec in job.topology.tasks)
                pool = [unit for unit in after.free_for(job.topology.job) if unit not in lost]
                own = [unit for unit in pool if unit in units_of(job.topology.tasks)]
                pool = own + [unit for unit in pool if unit not in own][: max(0, width - len(own))]
                after = after.with_job(_announced(job, moved_to(pool, job.topology.tasks), job.topology.generation, now_ms))
        for job in after.jobs:
            if job.preparing and (gone := units_of(job.preparing.tasks) & lost):
                after = after.with_job(_given_up(job, "LEARNER_LOST", now_ms, tuple(sorted(gone))))
        return after

    def _taken_effect(self, job: EngineJob, last: Rescale, now_ms: int) -> Engine:
        assert job.next is not None
        ended = replace(job, next=None, preparing=None)
        if units_of(job.next) - self.existing:
            return self.with_job(replace(ended, rescale=replace(last, state="failed", code="UNIT_LOST")))
        restarting = replace(ended, rescale=replace(last, state="restarting", effective_at_ms=now_ms, done_at_ms=now_ms))
        return self.with_job(_announced(restarting, job.next, job.newest[0], now_ms))

    # Commands

    def accepting(self, command: RescheduleCommand, now_ms: int) -> Engine:
        """Return the engine after it has accepted a command; asked again, it stays as it is.

        Raises:
            EngineRefused: nothing has changed.
        """
        job = self.job(command.job)
        if command.command_id in job.answered:
            return self
        turn, last = (command.desired_generation, command.step), job.rescale
        if self.checks_turns and turn <= job.newest:
            raise EngineRefused("STALE_GENERATION", "")
        if last is not None and last.is_under_way:
            raise EngineRefused("RESCALE_IN_PROGRESS", "")
        rescale, preparing, coming = Rescale(command.command_id, "done", 0, 0), job.preparing, job.next
        if command.action == "abort":
            preparing = None
        else:
            try:
                tasks = tasks_after(command, job.topology, self.existing, self.free_for(command.job))
            except EngineRefusal as refusal:
                raise EngineRefused(refusal.code, refusal.message) from None
            if command.action == "prepare":
                preparing = Preparing(command.command_id, turn[0], tasks, command.deadline_ms or 0)
                rescale = replace(rescale, state="warming", effective_at_ms=now_ms, done_at_ms=now_ms)
            else:
                coming, rescale = tasks, replace(rescale, state="pending", effective_at_ms=now_ms, done_at_ms=now_ms)
                preparing = preparing if preparing and preparing.tasks == tasks else None
        after = replace(
            job,
            newest=turn,
            answered=job.answered | {command.command_id},
            rescale=rescale,
            preparing=preparing,
            next=coming,
        )
        return self.with_job(after)


@dataclass(slots=True)
class AskedEngine:
    """The port that an actuator asks, at one moment; ``engine`` is what it is afterwards."""

    engine: Engine
    now_ms: int

    def capabilities(self) -> Capabilities:
        """Return those of the simulated engine."""
        return SIMULATED

    def request(self, command: RescheduleCommand) -> Accepted:
        """Accept a command without saying when it will be done."""
        self.engine = self.engine.accepting(command, self.now_ms)
        return Accepted()

    def look(self, job: str) -> JobStatus:
        """Return how far the last command is."""
        seen = self.engine.job(job)
        last = seen.rescale
        if last is None:
            return JobStatus(generation=seen.topology.generation)
        told = replace(last, effective_at_ms=self.now_ms, done_at_ms=self.now_ms) if last.state == "done" else last
        return JobStatus(generation=seen.topology.generation, rescale=told)

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Refuse, as the simulated engine does."""
        raise EngineRefused("CANNOT_WITHDRAW", "")


def _done(last: Rescale) -> Rescale:
    """Return a rescale that has ended well; the caller says when that was: this engine has no memory for times."""
    return replace(last, state="done", effective_at_ms=0, done_at_ms=0)


def _given_up(job: EngineJob, code: str, at_ms: int, units: tuple[int, ...] = ()) -> EngineJob:
    made, last = job.preparing, job.rescale
    job = replace(job, preparing=None)
    if made is None or last is None or last.command_id != made.command_id or last.state != "warming":
        return job
    return replace(job, rescale=replace(last, state="failed", code=code, done_at_ms=at_ms, units=units))


def _announced(job: EngineJob, tasks: Tasks, generation: int, at_ms: int) -> EngineJob:
    before = job.topology
    topology = msgspec.structs.replace(
        before, version=before.version + 1, at_ms=at_ms, tasks=tasks, generation=generation, attempt=before.attempt + 1
    )
    return replace(job, topology=topology)
