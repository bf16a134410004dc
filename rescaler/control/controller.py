"""The rescaler's pure core: decisions, progress and time in; outcomes, commands and changed memory out.

One controller per cluster. Each input for a job gets one `JobContext`, and what follows from it comes back as `Effects`. The same
memory and the same inputs give the same bytes. It can be stopped after any input and continued elsewhere from its records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from shlex import quote
from typing import TypeVar

from surescale.contracts.capabilities import UNKNOWN
from surescale.contracts.commands import Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.errors import RecordRejected
from surescale.contracts.ids import Cluster
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import TIME_MS_MAX, EngineEvent, JobTopology
from surescale.contracts.pauses import NO_PAUSES, Pauses
from surescale.contracts.rescaler_state import BALANCE, PLACEMENT, BalanceMemory, ClusterMemory, MemoryKey, RescalerRecord
from surescale.contracts.steps import Timed, untimed
from surescale.contracts.topics import RESCALER_STATE
from surescale.contracts.topology import has_ended
from surescale.contracts.wire import decode, encode
from surescale.rescaler.control.conditions import conditions_of
from surescale.rescaler.control.effects import Effects, StateRecord, state_record
from surescale.rescaler.control.hosts import LookReason, Looks, MovableJob
from surescale.rescaler.control.job import job as job_control
from surescale.rescaler.control.job import own_acts, rest, safe_size
from surescale.rescaler.control.job.context import JobContext
from surescale.rescaler.control.job.job import RELEVANT_EVENTS
from surescale.rescaler.control.job.job_gate import settings_after, settings_for
from surescale.rescaler.control.job.memory import CommandStatus, JobMemory, job_record, restored, status_of, wake_at_ms
from surescale.rescaler.control.outcomes import LastOutcome
from surescale.rescaler.control.settings import ControlSettings
from surescale.rescaler.control.world import View, World, calling_jobs, running_jobs
from surescale.rescaler.gate_settings import GateSettings

_log = logging.getLogger("surescale.memory")
WORDS_MAX = 200
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record of the memory that cannot be read: what it is about, why, and the way out."""

    key: MemoryKey
    why: str
    at_ms: int


def check_memory(record: RescalerRecord) -> None:
    """Check that a record can be restored.

    Raises:
        RecordRejected: its body is not what its kind needs.
    """
    found = _remembered(record)
    if isinstance(found, JobMemory):
        try:
            _check_readable(job_record(Cluster(record.cluster), found, record.at_ms))
            wake_at_ms(found, GateSettings())
        except ValueError as error:
            raise RecordRejected("invalid_field", "body", f"no rescaler writes this: {error}") from None


def _check_readable(written: StateRecord) -> None:
    """Check that whoever reads a record of the memory can.

    Raises:
        RecordRejected: nobody could.
    """
    if written.record is not None:
        decode(encode(written.record), RescalerRecord)


_WHY_MAX = 400
"""Letters of an error: it may name an id that is as long as a record."""


def held_in_words(what: str, key: MemoryKey, error: object) -> str:
    """Return that a record of the memory cannot be used, whom that holds, and the way out."""
    job, request, hosts = f"{key.job} is held", "its decision counts as answered", "nothing moves because of hosts"
    held = {"job": job, "request": request, "cluster": hosts}
    way_out = f"stop the rescaler and run `surescale topics skip {RESCALER_STATE} {quote(str(key))} --why TEXT`"
    return f"{what}, key {key}, cannot be read ({str(error)[:_WHY_MAX]}), so {held[key.kind]}; to go on without it, {way_out}"


def _remembered(record: RescalerRecord) -> JobMemory | ClusterMemory | BalanceMemory | LastOutcome:
    body = bytes(record.body)
    if record.kind == "job":
        return restored(record)
    if record.kind == "cluster":
        return decode(body, BalanceMemory) if record.id == BALANCE else decode(body, ClusterMemory)
    answer = decode(body, LastOutcome)
    if answer.job != record.id.rpartition("@")[0]:
        raise RecordRejected("invalid_field", "body.job", f"{answer.job!r} is another job")
    return answer


def _unless_held(act: Callable[[JobContext, T], object], change: T, context: JobContext) -> None:
    if not context.memory.unreadable:
        act(context, change)


def _in_words(fault: Exception) -> str:
    return f"{type(fault).__name__}: {fault}"[:WORDS_MAX]


@dataclass(slots=True)
class _KeptJob:
    """What is kept of one job between inputs. Only memory and answers are in its records."""

    memory: JobMemory
    answers: dict[str, LastOutcome] = field(default_factory=dict)
    reported: tuple[str, int] = ("", 0)
    """The command that an actuator last reported on, and when."""
    seen: tuple[JobTopology | None, JobSettings | None, Pauses] = (None, None, NO_PAUSES)
    """The topology, the settings and what was paused at the last tick."""
    pauses: Pauses = NO_PAUSES
    """What was paused at the last input; the same object while nothing changes."""
    safe_at_ms: int | None = None
    """When it is to get its safe size, by what was known at the last input."""
    rest_at_ms: int | None = None
    """When it is looked at again though nothing is heard of it, because it is at rest."""
    described: tuple[object, ...] = ()
    """What its conditions were last computed from."""
    was_read: bool = False
    """Its memory was read back, so it may be like none that we write."""


class Controller:
    """Decides what becomes of each decision on one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ControlSettings,
        records: Iterable[RescalerRecord | Unreadable] = (),
        *,
        timed: Timed = untimed,
    ) -> None:
        """Continue from the latest record under each key, if there is any. ``timed``: called for each plan.

        What cannot be read is confined: its job is held, its decision counts as answered, and without the cluster's memory
        nothing moves because of hosts.
        """
        self._cluster = cluster
        self._rules = settings
        self._timed = timed
        self._placement = ClusterMemory(placement_generation=0)
        self._looks: Looks | None = None
        self._looks_were_read = False
        self._jobs: dict[str, _KeptJob] = {}
        self._unreadable: dict[str, str] = {}  # why a record of the cluster cannot be read, by its id
        self._held = ""
        self._engine = UNKNOWN
        self._units: dict[str, tuple[JobTopology | None, JobMemory | None, frozenset[int]]] = {}  # computed once per change
        for record in records:
            self._restore(record)

    # Inputs

    def give_way(self, newest: Mapping[str, Decision], view: View, now_ms: int) -> Effects:
        """Let acts that are long overdue give way to newer decisions that wait to be answered.

        Call it before timers fire: after an outage they would first carry out what nobody wants any more. ``newest``: the latest
        waiting decision of each job.
        """
        effects = Effects()
        for job, newer in sorted(newest.items()):
            waits = job in self._jobs and self._jobs[job].memory.pending is not None
            if waits or (job in self._jobs and view.settings_of(job).safe_size is not None):
                effects += self._handled(job, view, now_ms, partial(job_control.give_way, newer=newer))
        return effects

    def on_decision(
        self,
        decision: Decision,
        view: View,
        now_ms: int,
        newest: Decision | None = None,
        overtaken_by_ms: int | None = None,
    ) -> Effects:
        """Answer a decision; one that was answered before counts as a duplicate and changes nothing.

        ``newest``: the job's latest decision that waits to be answered, if known. A stale act gives way to it.
        ``overtaken_by_ms``: the end of a newer window that was there when the decision was made, if there was one.
        """
        began = Effects()

        def answer(context: JobContext) -> None:
            nonlocal began
            job_control.on_decision(context, decision, newest, overtaken_by_ms)
            if decision.job in view.jobs:
                began += self._begin_looks(view, now_ms)

        return self._handled(decision.job, view, now_ms, answer) + began

    def on_progress(self, progress: Progress, view: View, now_ms: int) -> Effects:
        """Take an actuator's report into account, if it is about a command under way."""
        if progress.job not in self._jobs:
            return Effects()
        job = self._jobs[progress.job]
        command = job.memory.outstanding
        if command is not None and command.command_id == progress.command_id:
            job.reported = progress.command_id, progress.at_ms
        return self._handled(progress.job, view, now_ms, partial(job_control.on_progress, progress=progress))

    def on_engine_event(self, event: EngineEvent, view: View, now_ms: int) -> Effects:
        """Take a checkpoint, or completed standbys, into account. All other events show in the topologies."""
        if event.job is None or event.job not in self._jobs or event.kind not in RELEVANT_EVENTS:
            return Effects()
        return self._handled(event.job, view, now_ms, partial(job_control.on_engine_event, event=event))

    def on_tick(self, view: View, now_ms: int) -> Effects:
        """Let time pass and look at the world again; call it at `wake_at_ms` and whenever the view has changed."""
        effects, calling = Effects(), calling_jobs(view)
        for job in sorted(calling | set(self._jobs)):
            if job in calling or self._is_awake(self._jobs[job], now_ms) or self._is_news(job, view, now_ms):
                effects += self._handled(job, view, now_ms, job_control.on_tick)
        effects += self._look_if_sound(view, now_ms)
        for job, kept in sorted(self._jobs.items()):
            sources = self._sources(kept, view, now_ms)
            if not kept.described or any(new is not old for new, old in zip(sources, kept.described, strict=True)):
                effects += self._handled(job, view, now_ms)
                kept.described = self._sources(kept, view, now_ms)
        return effects

    def hold(self, why: str, view: View, now_ms: int) -> Effects:
        """Say of each job why nothing is done about it, until this is called with an empty text; ask nothing else meanwhile."""
        self._held, effects = why, Effects()
        running = {job for job, topology in view.jobs.items() if not has_ended(topology)}
        for job in sorted(running | set(self._jobs)):
            effects += self._handled(job, view, now_ms)
        return effects

    def _is_awake(self, job: _KeptJob, now_ms: int) -> bool:
        """Say whether something of a job is under way or waits, or it is time for its safe size or for a look at its rest."""
        times = (job.safe_at_ms, job.rest_at_ms)
        return self._due_ms(job.memory) is not None or any(time is not None and time <= now_ms for time in times)

    def _is_news(self, job: str, view: View, now_ms: int) -> bool:
        """Say whether an approval waits, settings are new, or a job on a real engine has changed since the last tick.

        Somebody else may have changed it.
        """
        kept, topology, settings = self._jobs[job], view.jobs.get(job), view.settings.get(job)
        approval = settings.approval if settings is not None else None
        if approval is not None and approval != kept.memory.approval:
            return True
        by_counts = view.engine is not None and view.engine.acts == "counts"
        now = (topology, settings, self._pauses(kept, view, now_ms)) if by_counts else (None, settings, NO_PAUSES)
        if all(new is old for new, old in zip(now, kept.seen, strict=True)):
            return False
        kept.seen = now
        return True

    # What is awaited

    def wake_at_ms(self) -> int | None:
        """Return when something is next due; None: nothing is pending or under way."""
        times = [self._wake_at_ms(job) for job in self._jobs.values()] + [job.rest_at_ms for job in self._jobs.values()]
        times.append(self._looks.wake_at_ms() if self._looks and not self._unreadable else None)
        return min((time for time in times if time is not None), default=None)

    def _wake_at_ms(self, job: _KeptJob) -> int | None:
        times = [time for time in (self._due_ms(job.memory), job.safe_at_ms) if time is not None]
        return min(*times, TIME_MS_MAX) if times else None

    def _due_ms(self, memory: JobMemory) -> int | None:
        return wake_at_ms(memory, settings_after(settings_for(self._rules.gate, self._engine), memory.failures))

    def awaits_end(self, now_ms: int) -> bool:
        """Say whether a rescale must have ended by now whose end has not been reported."""
        rescalings = [rescaling for job in self._jobs.values() if (rescaling := job.memory.rescaling)]
        return any(each.expected_end_ms is not None and each.expected_end_ms <= now_ms for each in rescalings)

    def awaits_decisions(self, waiting: Iterable[Decision], view: View) -> bool:
        """Say whether some jobs have decided on a span and others, which run, have neither decided on it nor been answered."""
        spans = {decision.job: decision.span_end_ms for decision in waiting}
        if not spans:
            return False
        newest = max(spans.values())
        known = {job: kept.memory.last_span_end_ms for job, kept in self._jobs.items()}
        running = (job for job, topology in view.jobs.items() if topology.state == "running")
        return any(max(spans.get(job, -1), known.get(job, -1)) < newest for job in running)

    def awaits_news(self, now_ms: int) -> bool:
        """Say whether learners may be ready, or given up, by now without a report of it."""
        return any(self._awaits_learners(job, now_ms) for job in self._jobs.values())

    def _awaits_learners(self, job: _KeptJob, now_ms: int) -> bool:
        command, (reported, at_ms) = job.memory.outstanding, job.reported
        if command is None or command.action != "prepare" or command.issued_at_ms >= now_ms:
            return False
        return command.command_id != reported or at_ms < now_ms

    @property
    def memory(self) -> dict[str, JobMemory]:
        """What is remembered about each job."""
        return {name: job.memory for name, job in sorted(self._jobs.items())}

    def status_of(self, command: RescheduleCommand) -> CommandStatus:
        """Say what a command is that somebody wrote to the topic. Safe to call from another thread."""
        job = self._jobs.get(command.job)
        if job is not None and job.memory.unreadable:
            return CommandStatus.OVER  # it may be ours, but nobody knows
        return status_of(command, job.memory) if job is not None else CommandStatus.UNKNOWN

    # One input for one job

    def _handled(
        self, job: str, view: View, now_ms: int, handle: Callable[[JobContext], object] = lambda context: None
    ) -> Effects:
        """Handle one input of one job, and return what follows.

        Memory that was read back may have the form of ours and yet be like none that we write. What comes of that holds its job.
        """
        context = self._context(job, view, now_ms)
        try:
            handle(context)
            return self._end(context)
        except Exception as fault:
            kept = self._jobs[job]
            if not kept.was_read or kept.memory.unreadable:
                raise
            key = MemoryKey(cluster=self._cluster, kind="job", id=job)
            _log.exception("what is remembered of %s cannot be used", job)
            for decision_id in context.effects.answers:
                kept.answers.pop(decision_id, None)
            kept.memory = JobMemory(job=job)
            self._confine(Unreadable(key, held_in_words(RESCALER_STATE, key, _in_words(fault)), now_ms))
        return self._handled(job, view, now_ms, handle)

    def _context(self, job: str, view: View, now_ms: int) -> JobContext:
        """Return the context of an input: with a copy of the job's memory, and with the world as the job sees it."""
        kept = self._kept(job)
        self._engine = view.engine or self._engine
        world = World(
            cluster=self._cluster,
            now_ms=now_ms,
            learned_ms=now_ms,
            topology=view.jobs.get(job),
            allowed=view.settings_of(job),
            mode=view.mode_of(job),
            engine=self._engine,
            hosts=view.hosts,
            placement_generation=self._placement.placement_generation,
            units_of_others=lambda: self._units_of_others(job, view),
            pauses=self._pauses(kept, view, now_ms),
        )
        return JobContext(copy(kept.memory), world, self._rules, kept.answers, timed=self._timed)

    def _end(self, context: JobContext) -> Effects:
        """End the handling of an input: keep what the job now remembers, and return what follows."""
        memory, done, at_ms = context.memory, context.effects, context.world.learned_ms
        kept = self._jobs[memory.job]
        balance, standbys = self._hosts_memory, self._rules.balancing.standbys
        world = context.world
        memory.conditions = conditions_of(
            memory,
            context.topology,
            world.hosts,
            balance,
            engine=world.engine,
            mode=world.mode,
            standbys=standbys,
            pauses=world.pauses,
            held=self._held,
            now_ms=at_ms,
        )
        records = [
            state_record(self._cluster, "request", decision_id, answer, at_ms)
            for decision_id, answer in sorted(done.answers.items())
        ]
        kept.safe_at_ms, kept.rest_at_ms = safe_size.due_ms(context), rest.due_ms(context)
        if memory != kept.memory:
            kept.memory = memory
            memory.wake_at_ms = self._wake_at_ms(kept)
            records.append(job_record(self._cluster, memory, at_ms))
            if kept.was_read:
                _check_readable(records[-1])
        if done.commits and PLACEMENT not in self._unreadable:
            records.append(self._count_commits(done.commits, at_ms))
        effects = Effects(
            tuple(done.outcomes),
            tuple(done.commands),
            tuple(records),
            done.duplicates,
            drifts=tuple(done.drifts),
            progress=tuple(done.progress),
        )
        return effects + self._looks.after(done, at_ms) if self._looks and not self._unreadable else effects

    def _count_commits(self, commits: int, at_ms: int) -> StateRecord:
        self._placement = ClusterMemory(placement_generation=self._placement.placement_generation + commits)
        return state_record(self._cluster, "cluster", PLACEMENT, self._placement, at_ms)

    def _sources(self, job: _KeptJob, view: View, now_ms: int) -> tuple[object, ...]:
        """Return everything that the job's conditions are computed from."""
        pauses = self._pauses(job, view, now_ms)
        return view.jobs.get(job.memory.job), job.memory, view.cluster, self._hosts_memory, pauses

    @property
    def _hosts_memory(self) -> BalanceMemory | str | None:
        """What is known of the hosts; a text: why it, or what else is known of the cluster, cannot be read."""
        return next(iter(self._unreadable.values()), None) or (self._looks.memory if self._looks else None)

    @staticmethod
    def _pauses(job: _KeptJob, view: View, now_ms: int) -> Pauses:
        pauses = view.pauses_of(job.memory.job, now_ms)
        if pauses != job.pauses:
            job.pauses = pauses
        return job.pauses

    def _restore(self, record: RescalerRecord | Unreadable) -> None:
        if isinstance(record, Unreadable):
            self._confine(record)
            return
        found = _remembered(record)
        if isinstance(found, BalanceMemory):
            self._looks, self._looks_were_read = Looks(self._cluster, self._rules, found), True
        elif isinstance(found, ClusterMemory):
            self._placement = found
        elif isinstance(found, JobMemory):
            kept = self._kept(found.job)
            kept.memory, kept.was_read = found, True
        else:
            self._kept(found.job).answers[record.id] = found

    def _confine(self, lost: Unreadable) -> None:
        """Hold the job whose memory is lost; take a decision whose answer is lost for answered; hold moves for hosts."""
        key = lost.key
        if key.kind == "cluster":
            self._unreadable[key.id] = lost.why
        elif key.kind == "job":
            self._kept(key.id).memory.unreadable = lost.why
        else:
            self._kept(key.job).answers[key.id] = LastOutcome(job=key.job, status="refused", sequence=0, at_ms=lost.at_ms)

    def _kept(self, job: str) -> _KeptJob:
        return self._jobs.setdefault(job, _KeptJob(JobMemory(job=job)))

    # A look at the hosts

    def _begin_looks(self, view: View, now_ms: int) -> Effects:
        """Begin to look at the hosts with the first decision on a known job."""
        if self._looks is not None or self._unreadable or view.cluster is None or view.cluster.engine.places == "itself":
            return Effects()
        self._looks = Looks.begin(self._cluster, self._rules, view.cluster, now_ms)
        if self._rules.balancing.standbys:
            return self._looks.go_on(LookReason.STANDBYS, now_ms)
        return self._looks.written(now_ms)

    def _look_if_sound(self, view: View, now_ms: int) -> Effects:
        """Look at the hosts; what is remembered of them and cannot be used holds all moves for hosts."""
        try:
            return self._look(view, now_ms)
        except Exception as fault:
            if not self._looks_were_read or self._unreadable:
                raise
            _log.exception("what is remembered of the hosts cannot be used")
            key = MemoryKey(cluster=self._cluster, kind="cluster", id=BALANCE)
            self._confine(Unreadable(key, held_in_words(RESCALER_STATE, key, _in_words(fault)), now_ms))
            return Effects()

    def _look(self, view: View, now_ms: int) -> Effects:
        """Take one small step towards where units and copies should be, if it is time to."""
        looks, hosts = self._looks, view.cluster
        if looks is None or self._unreadable or hosts is None or hosts.engine.places == "itself":
            return Effects()
        looks.see(hosts)
        if not looks.is_due(view, now_ms):
            return Effects()
        looks.take_up(hosts, view, now_ms)
        if not looks.knows_all(hosts, view):
            return looks.go_on(LookReason.HOSTS_CHANGED, now_ms)
        effects, movable = Effects(), list[MovableJob]()
        for job in sorted(self._readable(running_jobs(view, now_ms, acting=True))):
            effects += self._handled(job, view, now_ms, partial(self._note_movable, movable, view.jobs[job]))
        found = looks.look(movable, view, now_ms)
        for job, moves in sorted(found.moves.items()):
            effects += self._handled(job, view, now_ms, partial(_unless_held, own_acts.move, moves))
        for job in sorted(found.standbys.keys() - found.moves.keys()):
            change = partial(_unless_held, own_acts.change_standbys, found.standbys[job])
            effects += self._handled(job, view, now_ms, change)
        return effects + looks.conclude(found, self.memory.values(), view, now_ms)

    @staticmethod
    def _note_movable(movable: list[MovableJob], topology: JobTopology, context: JobContext) -> None:
        if not context.memory.unreadable:
            movable.append(own_acts.as_movable(context, topology))
            own_acts.note_rest(context)

    def _readable(self, jobs: Iterable[str]) -> set[str]:
        return {job for job in jobs if job not in self._jobs or not self._jobs[job].memory.unreadable}

    # Units

    def _units_of_others(self, job: str, view: View) -> frozenset[int]:
        others = (set(view.jobs) | set(self._jobs)) - {job}
        return frozenset().union(*(self._units_of(other, view) for other in others))

    def _units_of(self, job: str, view: View) -> frozenset[int]:
        """Return the units that a job holds or is about to hold."""
        topology, memory = view.jobs.get(job), self._jobs[job].memory if job in self._jobs else None
        known = self._units.get(job)
        if known is None or known[0] is not topology or known[1] is not memory:
            known = self._units[job] = topology, memory, (memory or JobMemory(job=job)).units(topology)
        return known[2]
