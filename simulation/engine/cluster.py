"""The simulated engine: a cluster of hosts that runs jobs under one workload, with restarts, failures and checkpoints.

It is state only: ``advance`` moves its clock, and nothing is read or written. Figures do not depend on how often ``advance`` is
called, because every change takes effect at a whole minute: a command one whole minute later, the death of a host at the end of
the current minute. The engine does not decide what happens to a job without units, nor where the tasks of a leaving host go.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from surescale.contracts.clock import MINUTE_MS, minute_end_ms
from surescale.contracts.commands import Rescale, RescheduleCommand
from surescale.contracts.ids import job_id
from surescale.contracts.messages import ClusterTopology, EngineEvent, EventKind, Host, HourlyLoad, TaskSample
from surescale.simulation.engine.checked_changes import EngineRefusal
from surescale.simulation.engine.hosts import HostPool, NewHost, default_hosts
from surescale.simulation.engine.job_report import JobReport
from surescale.simulation.engine.learners import restore
from surescale.simulation.engine.running_job import RunningJob
from surescale.simulation.engine.simulated_minute import SimulatedMinute, samples
from surescale.simulation.errors import RunError
from surescale.simulation.load.jobs import SizedJob, load_job
from surescale.simulation.load.workload import Workload, load_workload
from surescale.simulation.model.costs import RestartCost, chosen_cost
from surescale.simulation.model.course import job_in, load_in
from surescale.simulation.model.queueing import STEP_MS, STEPS
from surescale.simulation.model.worlds import CALM, World, cluster_world


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Which part of the workload to run, and how the engine behaves."""

    minutes: int = 240
    start_minute: int | None = None
    """Minute of the trace to start at; None: the workload's own default."""
    cluster: str = "sim"
    sample_interval_ms: int = STEP_MS
    """15000, 30000 or 60000; the last sample of a minute lies exactly at its end."""
    world: World = CALM
    cost: RestartCost = field(default_factory=RestartCost)
    checkpoint_interval_ms: int | None = None
    """Whole minutes; None: checkpoints only on request. Without checkpoints, failover is simulated as lossless."""
    kill_host_minutes: tuple[int, ...] = ()
    """At the end of these minutes of the run, the host with the most units in use dies."""
    join_host_minutes: tuple[int, ...] = ()
    """At the end of these minutes of the run, a host joins; the default host types take turns."""


def simulated_run(
    cluster: str,
    *,
    jobs: Sequence[str],
    workload: str,
    load_parallelism: float,
    world: str,
    world_seed: int,
    rescale: str,
    restart_ms: int | None,
    restore_mib_per_s: float,
    **stretch: Any,
) -> tuple[list[SizedJob], Workload, RunOptions]:
    """Return what the options of commands ask for; ``stretch`` has the other fields of `RunOptions`.

    Raises:
        SurescaleError: trace, job or world is unknown or unreadable.
    """
    played, load = cluster_world(world, world_seed), load_workload(workload)
    cost = chosen_cost(rescale, restart_ms, restore_mib_per_s, played)
    options = RunOptions(cluster=cluster, cost=cost, world=played, **stretch)
    return [load_job(job, load, load_parallelism) for job in jobs], load, options


class SimulatedCluster:
    """Hosts and jobs at one moment of event time.

    Attributes:
        start_ms: event time at which the run begins.
        end_ms: event time at which it ends.
        now_ms: current event time.
        events: everything that happened, in order of ``sequence`` (from 1).
    """

    def __init__(
        self,
        jobs: Sequence[SizedJob],
        workload: Workload,
        options: RunOptions | None = None,
        *,
        hosts: Sequence[NewHost] | None = None,
    ) -> None:
        """Start every job at its start parallelism, each on units of its own.

        Raises:
            RunError: the stretch lies outside the trace, two jobs share a name, or the hosts have too few units.
        """
        self.options = options or RunOptions()
        self.workload = load_in(self.options.world, workload)
        self._first_minute = _checked_start(self.options, workload)
        self.start_ms = workload.minute_start_ms(self._first_minute)
        self.end_ms = self.start_ms + self.options.minutes * MINUTE_MS
        self.now_ms = self.start_ms
        self.events: list[EngineEvent] = []
        self.hosts = HostPool(default_hosts(len(jobs)) if hosts is None else hosts)
        self._hosts_at_ms = self.start_ms
        self._dying: dict[str, int] = {}  # host -> when
        self._reached_ms = self.start_ms
        self._checkpoints = 0
        self._jobs = self._started(jobs)

    @property
    def jobs(self) -> dict[str, RunningJob]:
        """Return the jobs by full id (``cluster/name``), in order of id."""
        return self._jobs

    @property
    def is_finished(self) -> bool:
        """Return whether the run is over."""
        return self.now_ms >= self.end_ms

    @property
    def minutes_done(self) -> int:
        """Return how many whole minutes have passed."""
        return (self._reached_ms - self.start_ms) // MINUTE_MS

    def job(self, name: str) -> RunningJob:
        """Return a job by name or full id.

        Raises:
            EngineRefusal: ``UNKNOWN_JOB``.
        """
        found = self._jobs.get(name) or self._jobs.get(f"{self.options.cluster}/{name}")
        if found is None:
            raise EngineRefusal("UNKNOWN_JOB", f"there is no job {name!r}; the cluster runs {', '.join(self._jobs)}")
        return found

    def advance(self, to_ms: int) -> int:
        """Let time pass up to ``to_ms``, at most to the end of the run; return how many minutes ended."""
        target_ms = min(to_ms, self.end_ms)
        assert target_ms >= self.now_ms, "the pipeline's clock never goes back"
        done_before = self.minutes_done
        while self._reached_ms + MINUTE_MS <= target_ms:
            requests = int(self.workload.requests[self._first_minute + self.minutes_done])
            self._reached_ms += MINUTE_MS
            for job in self._jobs.values():
                job.run_minute(requests, self._reached_ms)
            self._warm(self._reached_ms)
            if self.minutes_done in self.options.kill_host_minutes and (busiest := self._busiest_host()):
                self._dying.setdefault(busiest, self._reached_ms)
            self._remove_dead_hosts(self._reached_ms)
            self._take_checkpoints(self._reached_ms)  # a host that dies at this moment spoils the checkpoints of its jobs
            self._take_effect(self._reached_ms)
            if self.minutes_done in self.options.join_host_minutes:
                self._add_host(self.hosts.next_default(), self._reached_ms)
        self.now_ms = target_ms
        return self.minutes_done - done_before

    def apply(self, command: RescheduleCommand, now_ms: int) -> Rescale:
        """Accept a command; repeating it changes nothing and gives the same answer.

        Raises:
            EngineRefusal: with a code of ``simulation.engine.checked_changes``; nothing has been changed.
        """
        job = self.job(command.job)
        known = job.answered(command, now_ms)
        return known or job.accept(command, now_ms, host_of=self.hosts.host_of(), free=self._free_units())

    def minutes_after(self, job: str, after_ms: int, limit: int) -> list[SimulatedMinute]:
        """Return the finished minutes of a job that end after ``after_ms``, oldest first (two days are kept)."""
        kept = self.job(job).minutes
        if not kept:
            return []
        skipped = max(0, (after_ms - kept[0].minute_end_ms) // MINUTE_MS + 1)
        return [kept[index] for index in range(skipped, min(len(kept), skipped + limit))]

    def samples(self, minute: SimulatedMinute) -> list[TaskSample]:
        """Return the samples of a minute in order of time, task, subtask."""
        every = self.options.sample_interval_ms // STEP_MS
        return list(samples(minute, every))

    def history(self) -> tuple[HourlyLoad, ...]:
        """Return the hourly load of the eight days before the run; the same for every job."""
        return self.workload.history(self._first_minute)

    def topology(self) -> ClusterTopology:
        """Return the hosts."""
        return self.hosts.topology(self.options.cluster, self._hosts_at_ms)

    def report(self, job: str) -> JobReport:
        """Return the figures of a job over the run so far."""
        return self.job(job).ledger.report()

    def events_after(self, event_id: str) -> list[EngineEvent]:
        """Return what happened after an event, in order; everything, if there is no such event."""
        found = next((at for at in range(len(self.events), 0, -1) if self.events[at - 1].event_id == event_id), 0)
        return self.events[found:]

    def checkpoint(self, job: str) -> EngineEvent:
        """Take a checkpoint now; it fails while the job does not run."""
        return self._checkpoint(self.job(job), self.now_ms)

    def host_joins(self, new: NewHost) -> Host:
        """Add a host now. A job that waits for units starts on it only by a command.

        Raises:
            EngineRefusal: ``HOST_EXISTS``, ``INVALID_HOST`` or ``TOO_MANY_HOSTS``.
        """
        return self._add_host(new, self.now_ms)

    def host_leaves(self, name: str) -> Host:
        """Announce that a host will be removed soon. Its learners are given up; its subtasks keep running.

        Raises:
            EngineRefusal: ``UNKNOWN_HOST``.
        """
        version = self.hosts.version
        host = self.hosts.mark_leaving(name)
        if self.hosts.version != version:
            self._hosts_at_ms = self.now_ms
            self._note("host_leaving", self.now_ms, host=name)
            self._lose_learners(frozenset(host.units), self.now_ms)
            self._follow_hosts()
        return host

    def host_dies(self, name: str) -> int:
        """Let a host die at the end of the current minute; return when that is.

        Raises:
            EngineRefusal: ``UNKNOWN_HOST``.
        """
        self.hosts.host(name)
        at_ms = self._dying.setdefault(name, minute_end_ms(self.now_ms))
        if at_ms == self._reached_ms:
            self._remove_dead_hosts(at_ms)
        return at_ms

    def _started(self, jobs: Sequence[SizedJob]) -> dict[str, RunningJob]:
        free = self.hosts.units_on_offer()
        running: dict[str, RunningJob] = {}
        every = self.options.sample_interval_ms // STEP_MS
        for each in jobs:
            sized = job_in(self.options.world, each, self.workload)
            job = job_id(self.options.cluster, sized.name)
            if job in running:
                raise RunError(f"job {sized.name} is listed twice")
            width = int(sized.start_parallelism.max())
            if len(free) < width:
                raise RunError(f"job {sized.name} needs {width} units to start, {len(free)} are free")
            world, first = self.options.world, self._first_minute
            running[job] = RunningJob.start(sized, job, free[:width], self.start_ms, self.options.cost, every, world, first)
            if self.options.checkpoint_interval_ms:
                running[job].checkpoint()
            free = free[width:]
            self._note("job_started", self.start_ms, job=job)
        return dict(sorted(running.items()))

    def _add_host(self, new: NewHost, at_ms: int) -> Host:
        host = self.hosts.join(new)
        self._hosts_at_ms = at_ms
        self._note("host_joined", at_ms, host=host.host)
        return host

    def _free_units(self) -> list[int]:
        held = {unit for job in self._jobs.values() for unit in job.units}
        return [unit for unit in self.hosts.units_on_offer() if unit not in held]

    def _take_effect(self, at_ms: int) -> None:
        """Let the commands due at the start of a minute take effect, in order of job id."""
        host_of = self.hosts.host_of()
        for job in self._jobs.values():
            if job.take_effect(at_ms, host_of):
                self._note("job_restarted", at_ms, job=job.topology.job, detail=f"generation {job.topology.generation}")

    def _remove_dead_hosts(self, at_ms: int) -> None:
        for name in sorted(host for host, when in self._dying.items() if when <= at_ms):
            self._remove_dead_host(name, at_ms)

    def _remove_dead_host(self, name: str, at_ms: int) -> None:
        del self._dying[name]
        lost = set(self.hosts.remove(name).units)
        self._hosts_at_ms = at_ms
        self._note("host_lost", at_ms, host=name)
        for job in self._jobs.values():
            if lost & {unit for spec in job.topology.tasks for unit in spec.units}:
                self._fail_over(job, at_ms, f"host {name} lost")
        self._lose_learners(frozenset(lost), at_ms)
        self._follow_hosts()

    def _follow_hosts(self) -> None:
        """Drop standbys on hosts that are gone or about to leave."""
        staying = self.hosts.staying()
        for job in self._jobs.values():
            job.follow_hosts(staying)

    def _busiest_host(self) -> str:
        """Return the host with the most units in use, the first by name among equals; "" while no job runs."""
        used = {unit for job in self._jobs.values() for spec in job.topology.tasks for unit in spec.units}
        counts = {host.host: len(used & set(host.units)) for host in self.topology().hosts}
        found = min(counts, key=lambda host: (-counts[host], host), default="")
        return found if counts.get(found) else ""

    def _lose_learners(self, lost: frozenset[int], at_ms: int) -> None:
        for job in self._jobs.values():
            job.lose_learners(lost, at_ms)

    def _warm(self, at_ms: int) -> None:
        """Let every host restore state for one minute, first come, first served, and check which learners are ready."""
        begun = [job.preparation for job in self._jobs.values() if job.preparation and job.preparation.begins_at_ms < at_ms]
        learners = [each.learners for each in sorted(begun, key=lambda each: each.begins_at_ms)]
        copies = [job.standbys.copies for job in self._jobs.values()]
        restore([*learners, *copies], self.options.cost.restored_per_minute())
        for job in self._jobs.values():
            job.warm(at_ms)
            if job.standbys.newly_ready(self.options.cost.acceptable_lag_bytes):
                count = sum(map(len, job.standbys.hosts.values()))
                self._note("standbys_ready", at_ms, job=job.topology.job, detail=f"{count} units are copied")

    def _take_checkpoints(self, at_ms: int) -> None:
        every_ms = self.options.checkpoint_interval_ms
        if every_ms and (at_ms - self.start_ms) % every_ms == 0:
            for job in self._jobs.values():
                self._checkpoint(job, at_ms)

    def _checkpoint(self, job: RunningJob, at_ms: int) -> EngineEvent:
        self._checkpoints += 1
        state = job.state_at(at_ms)
        if state == "running":
            job.checkpoint()
            return self._note("checkpoint_completed", at_ms, job=job.topology.job, detail=str(self._checkpoints))
        return self._note("checkpoint_failed", at_ms, job=job.topology.job, detail=f"the job is {state}")

    def _fail_over(self, job: RunningJob, at_ms: int, detail: str) -> None:
        job.give_up("JOB_FAILED_OVER", at_ms)
        what = job.fail_over(at_ms, self.hosts.host_of(), self._free_units())
        if job.is_waiting:
            self._note("job_stopped", at_ms, job=job.topology.job, detail=f"{detail}; no unit is left")
            return
        down_s, width = (job.down_until_ms - at_ms) // 1000, max(spec.parallelism for spec in job.topology.tasks)
        how = "taken over by standbys" if what.is_taken_over else "restored from a checkpoint"
        again = f", {what.records_again} records are done again" if what.records_again else ""
        detail = f"{detail}; {how} on {width} units within {down_s} s{again}"
        self._note("job_restarted", at_ms, job=job.topology.job, detail=detail)

    def _note(
        self, kind: EventKind, at_ms: int, *, job: str | None = None, host: str | None = None, detail: str = ""
    ) -> EngineEvent:
        sequence = len(self.events) + 1
        event = EngineEvent(
            cluster=self.options.cluster,
            sequence=sequence,
            event_id=f"{at_ms}.{sequence}",
            at_ms=at_ms,
            kind=kind,
            job=job,
            host=host,
            detail=detail,
        )
        self.events.append(event)
        return event


def _checked_start(options: RunOptions, workload: Workload) -> int:
    start = workload.default_start_minute if options.start_minute is None else options.start_minute
    if options.minutes < 1:
        raise RunError(f"minutes must be at least 1, not {options.minutes}")
    if options.start_minute is None and start + options.minutes > workload.minutes:
        start = max(0, workload.minutes - options.minutes)
    if start < 0 or start + options.minutes > workload.minutes:
        raise RunError(
            f"minutes {start} to {start + options.minutes} are not all in workload {workload.name}, "
            f"which has {workload.minutes} minutes; lower --minutes or --start-minute"
        )
    for option, asked in (("kill_host", options.kill_host_minutes), ("join_host", options.join_host_minutes)):
        late = [minute for minute in asked if not 1 <= minute <= options.minutes]
        if late:
            raise RunError(f"{option}: minute {late[0]} is not among the run's {options.minutes} minutes")
    if options.checkpoint_interval_ms is not None and (
        options.checkpoint_interval_ms < MINUTE_MS or options.checkpoint_interval_ms % MINUTE_MS
    ):
        raise RunError(f"checkpoint_interval_ms must be whole minutes, not {options.checkpoint_interval_ms}")
    if options.sample_interval_ms < STEP_MS or options.sample_interval_ms % STEP_MS or MINUTE_MS % options.sample_interval_ms:
        allowed = [STEP_MS * steps for steps in range(1, STEPS + 1) if STEPS % steps == 0]
        raise RunError(f"sample_interval_ms must be one of {allowed}, not {options.sample_interval_ms}")
    return start
