"""The rescaler's pure core: decisions, progress and time in; outcomes, commands and changed memory out.

One controller per cluster, one `JobControl` per job. Same memory, same inputs: same bytes out. It can be stopped after any
input and goes on elsewhere from the records it gave out. What it does not do: read clocks or topics, or reach an engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from contracts.commands import Balance, Outcome, Progress, RescheduleCommand, SlotMove
from contracts.ids import Cluster
from contracts.messages import Decision, EngineEvent, RescalerRecord
from contracts.wire import decode
from rescaler.control.balance import JobSeen, LookReason, Moves, StandbyHosts, Wanted, look
from rescaler.control.conditions import conditions_of
from rescaler.control.job_control import JobControl
from rescaler.control.looking import Looks, running_jobs
from rescaler.control.memory import (
    BALANCE,
    PLACEMENT,
    BalanceMemory,
    ClusterMemory,
    Condition,
    JobMemory,
    RequestMemory,
    StateRecord,
    state_record,
)
from rescaler.control.plan import plan_moves
from rescaler.control.situation import ControlSettings, Ledger, Situation
from rescaler.control.unasked import is_balancing
from rescaler.control.view import View, calling_jobs, observed


@dataclass(frozen=True, slots=True)
class Effects:
    """What follows from one input; everything in it belongs into one transaction."""

    outcomes: tuple[Outcome, ...] = ()
    commands: tuple[RescheduleCommand, ...] = ()
    records: tuple[StateRecord, ...] = ()
    duplicates: int = 0
    balances: tuple[Balance, ...] = ()

    @property
    def is_empty(self) -> bool:
        """There is nothing to write."""
        return not (self.outcomes or self.commands or self.records or self.balances)

    def __add__(self, other: Effects) -> Effects:
        """Both, in order."""
        return Effects(
            self.outcomes + other.outcomes,
            self.commands + other.commands,
            self.records + other.records,
            self.duplicates + other.duplicates,
            self.balances + other.balances,
        )


CHECKPOINTS = ("checkpoint_completed", "checkpoint_failed")
"""Kinds of engine events that a gate hears of."""
HEARD = (*CHECKPOINTS, "standbys_ready")
"""Kinds of engine events that are heard of."""


class Controller:
    """Decides what becomes of each decision on one cluster."""

    def __init__(self, cluster: Cluster, settings: ControlSettings, records: Iterable[RescalerRecord] = ()) -> None:
        """Go on from the latest record under each key; without records, from nothing."""
        self._cluster = cluster
        self._settings = settings
        self._memory = ClusterMemory()
        self._looks = Looks(cluster)
        self._described: dict[str, tuple[object, ...]] = {}  # what each job's conditions were last worked out from
        self._told: dict[str, tuple[str, int]] = {}  # by job: the command that an actuator last told of, and when
        self._controls: dict[str, JobControl] = {}
        self._units: dict[str, tuple[object, object, frozenset[int]]] = {}
        for record in records:
            self._restore(record)

    def give_way(self, newest: Mapping[str, Decision], view: View, now_ms: int) -> Effects:
        """Let acts that should have gone long ago give way to newer decisions that wait to be answered.

        To be called before timers fire: after an outage they would carry out first what is wanted no more. ``newest``: of the
        decisions that wait, the latest of each job.
        """
        effects = Effects()
        for job, newer in sorted(newest.items()):
            control = self._controls.get(job)
            if control is not None and control.memory.pending is not None:
                ledger, before = Ledger(), control.memory
                control.give_way(newer, self._situation(job, view, now_ms), ledger)
                if control.memory is not before:
                    effects += self._effects(control, before, ledger, view, now_ms)
        return effects

    def on_decision(self, decision: Decision, view: View, now_ms: int, newest: Decision | None = None) -> Effects:
        """Answer a decision; one that was answered before is counted as a duplicate and changes nothing.

        ``newest``: the job's latest one that waits to be answered, if that is known. A stale act gives way to it.
        """
        control = self._control(decision.job)
        ledger, before = Ledger(), control.memory
        control.on_decision(decision, self._situation(decision.job, view, now_ms), ledger, newest)
        begun = Effects()
        if self._looks.memory is None and view.cluster is not None and decision.job in view.jobs:
            first = self._looks.begin(view, now_ms, soon=self._settings.balancing.standbys > 0)
            begun = self._looked(first, now_ms)
        return self._effects(control, before, ledger, view, now_ms) + begun

    def on_progress(self, progress: Progress, view: View, now_ms: int) -> Effects:
        """Hear from an actuator; what is not about a command on its way changes nothing."""
        control = self._controls.get(progress.job)
        if control is None:
            return Effects()
        ledger, before = Ledger(), control.memory
        if before.outstanding is not None and before.outstanding.command_id == progress.command_id:
            self._told[progress.job] = progress.command_id, progress.at_ms
        control.on_progress(progress, self._situation(progress.job, view, now_ms), ledger)
        return self._effects(control, before, ledger, view, now_ms)

    def on_engine_event(self, event: EngineEvent, view: View, now_ms: int) -> Effects:
        """Hear of a checkpoint, or of standbys. Whatever else happens in the engine is seen in the topologies."""
        control = self._controls.get(event.job or "")
        if control is None or event.kind not in HEARD:
            return Effects()
        ledger, before = Ledger(), control.memory
        if event.kind in CHECKPOINTS:
            control.on_checkpoint(event, self._situation(control.memory.job, view, now_ms), ledger)
        else:
            control.on_standbys_ready(event.at_ms)
        return self._effects(control, before, ledger, view, now_ms)

    def on_tick(self, view: View, now_ms: int) -> Effects:
        """Let time pass and look at what waits or is on its way; call it at `wake_at_ms` and when the view changed."""
        effects = Effects()
        calling = calling_jobs(view)
        for job in sorted(calling | set(self._controls)):
            control = self._control(job)
            if control.wake_at_ms() is not None or job in calling:
                ledger, before = Ledger(), control.memory
                control.on_tick(self._situation(job, view, now_ms), ledger)
                effects += self._effects(control, before, ledger, view, now_ms)
        effects += self._look(view, now_ms)
        for job, control in sorted(self._controls.items()):
            seen, known = self._described_from(control, view), self._described.get(job, ())
            if not known or any(new is not old for new, old in zip(seen, known, strict=True)):  # something may be otherwise now
                effects += self._effects(control, control.memory, Ledger(), view, now_ms)
                self._described[job] = self._described_from(control, view)
        return effects

    def wake_at_ms(self) -> int | None:
        """The earliest time that something was promised for; None when nothing waits or is on its way."""
        times = [control.wake_at_ms() for control in self._controls.values()] + [self._looks.wake_at_ms()]
        return min((time for time in times if time is not None), default=None)

    def awaits_end(self, now_ms: int) -> bool:
        """Say whether a rescale must have ended by now whose end has not been heard of."""
        ends = (control.memory.expected_end_ms for control in self._controls.values())
        return any(end_ms is not None and end_ms <= now_ms for end_ms in ends)

    def awaits_news(self, now_ms: int) -> bool:
        """Say whether learners may be ready, or given up, by now of which nothing has been heard since."""
        commands = (control.memory.outstanding for control in self._controls.values())
        asked = [command for command in commands if command and command.action == "prepare" and command.issued_at_ms < now_ms]
        return any(self._told_of(command) < now_ms for command in asked)

    @property
    def memory(self) -> dict[str, JobMemory]:
        """What is remembered of each job."""
        return {job: control.memory for job, control in sorted(self._controls.items())}

    def records(self, now_ms: int) -> tuple[StateRecord, ...]:
        """The whole memory, sorted by key."""
        records = [self._placement_record(now_ms)]
        if self._looks.memory is not None:
            records.append(self._balance_record(self._looks.memory, now_ms))
        for job, control in self._controls.items():
            records.append(state_record(self._cluster, "job", job, control.memory, now_ms))
            records += [self._request_record(of, request, now_ms) for of, request in control.requests.items()]
        return tuple(sorted(records, key=lambda record: record.key))

    def _told_of(self, command: RescheduleCommand) -> int:
        """When an actuator last told of a command; 0: never."""
        of, at_ms = self._told.get(command.job, ("", 0))
        return at_ms if of == command.command_id else 0

    # Memory

    def _control(self, job: str) -> JobControl:
        if job not in self._controls:
            self._controls[job] = JobControl(self._cluster, self._settings, JobMemory(job=job), {})
        return self._controls[job]

    def _restore(self, record: RescalerRecord) -> None:
        body = bytes(record.body)
        if record.kind == "cluster" and record.id == BALANCE:
            self._looks.memory = decode(body, BalanceMemory)
        elif record.kind == "cluster":
            self._memory = decode(body, ClusterMemory)
        elif record.kind == "job":
            self._control(record.id).memory = decode(body, JobMemory)
        else:
            request = decode(body, RequestMemory)
            self._control(request.job).requests[record.id] = request

    def _effects(self, control: JobControl, before: JobMemory, ledger: Ledger, view: View, now_ms: int) -> Effects:
        control.describe(self._conditions(control.memory, view, now_ms))
        records = [self._request_record(of, request, now_ms) for of, request in sorted(ledger.requests.items())]
        if control.memory is not before:
            control.memory = msgspec.structs.replace(control.memory, wake_at_ms=control.wake_at_ms())
            records.append(state_record(self._cluster, "job", control.memory.job, control.memory, now_ms))
        if ledger.commits:
            generation = self._memory.placement_generation + ledger.commits
            self._memory = msgspec.structs.replace(self._memory, placement_generation=generation)
            records.append(self._placement_record(now_ms))
        effects = Effects(tuple(ledger.outcomes), tuple(ledger.commands), tuple(records), ledger.duplicates)
        return effects + self._looks_after(ledger, now_ms)

    def _looks_after(self, ledger: Ledger, now_ms: int) -> Effects:
        """What follows for the looks at the hosts: those to avoid, and copies that a rescale will leave incomplete."""
        balance = self._looks.memory
        if balance is None:
            return Effects()
        self._looks.avoid(ledger.avoided_hosts)
        rescales = any(command.action in ("prepare", "commit") and not command.advice for command in ledger.commands)
        if rescales and self._settings.balancing.standbys and balance.status == "settled":
            return self._looked(self._looks.go_on(LookReason.STANDBYS, now_ms), now_ms)
        return (
            Effects(records=(self._balance_record(self._looks.memory or balance, now_ms),)) if ledger.avoided_hosts else Effects()
        )

    def _described_from(self, control: JobControl, view: View) -> tuple[object, ...]:
        return view.jobs.get(control.memory.job), control.memory, view.cluster, self._looks.memory

    def _conditions(self, memory: JobMemory, view: View, now_ms: int) -> tuple[Condition, ...]:
        topology = view.jobs.get(memory.job)
        seen = observed(topology, memory) if topology else None
        standbys = self._settings.balancing.standbys
        return conditions_of(memory, seen, view.hosts, self._looks.memory, standbys=standbys, now_ms=now_ms)

    # Hosts that come and go

    def _look(self, view: View, now_ms: int) -> Effects:
        """Take one small step towards where units and copies should lie, if it is time to."""
        copies = self._settings.balancing.standbys > 0
        if not self._looks.is_due(view, now_ms, copies=copies):
            return Effects()
        if not self._looks.sees_jobs(view, now_ms, copies=copies):
            return self._looked(self._looks.go_on(LookReason.HOSTS_CHANGED, now_ms), now_ms)
        balance, settings = self._looks.memory, self._settings
        assert balance is not None, "a look without memory is never due"
        effects, jobs = Effects(), list[JobSeen]()
        for job in sorted(running_jobs(view, acting=True)):
            before = self._control(job).memory
            jobs.append(self._seen(job, view, now_ms))
            effects += self._effects(self._control(job), before, Ledger(), view, now_ms)
        wanted = look(
            jobs,
            view.hosts,
            settings.balancing,
            settings.placing,
            moves=not balance.is_balanced,
            new=balance.new,
            avoided=balance.avoided,
        )
        for job, moves in sorted(wanted.moves.items()):
            effects += self._move(job, moves, view, now_ms)
        for job, standbys in sorted(wanted.standbys.items()):
            if job not in wanted.moves:
                effects += self._stand_by(job, standbys, view, now_ms)
        self._looks.count_in(view, wanted.under_replicated)
        return effects + self._looked(self._concluded(wanted, view, now_ms), now_ms)

    def _concluded(self, wanted: Wanted, view: View, now_ms: int) -> Balance:
        moves = _slot_moves(wanted, view)
        balancing = any(is_balancing(control.memory) for control in self._controls.values())
        if moves or balancing:
            spread = self._settings.placing.algorithm == "spread"
            return self._looks.go_on(LookReason.OUT_OF_BAND if spread else LookReason.CHEAPER_HOSTS, now_ms, moves)
        outstanding = [control.memory.outstanding for control in self._controls.values()]
        if wanted.standbys or any(command is not None and command.action == "standby" for command in outstanding):
            return self._looks.go_on(LookReason.STANDBYS, now_ms)
        if self._settings.balancing.standbys:  # jobs that are about to have other units will want other copies
            wanted.blocked |= {command.job for command in outstanding if command is not None and command.action != "abort"}
        if wanted.blocked:
            return self._looks.go_on(LookReason.JOB_BUSY, now_ms, detail=f"wait for {', '.join(sorted(wanted.blocked))}")
        return self._looks.settle(LookReason.OUT_OF_REACH if wanted.out_of_reach else LookReason.BALANCED, now_ms)

    def _seen(self, job: str, view: View, now_ms: int) -> JobSeen:
        """A job as a look sees it; the end of its gate's rest is noted."""
        control, situation = self._control(job), self._situation(job, view, now_ms)
        is_free, memory = control.is_free(situation), control.memory
        return JobSeen(
            topology=observed(view.jobs[job], memory),
            outstanding=memory.outstanding,
            is_pending=memory.pending is not None,
            is_free=is_free,
            standbys={each.unit: each.hosts for each in memory.standbys},
            taken=situation.taken,
        )

    def _move(self, job: str, moves: Moves, view: View, now_ms: int) -> Effects:
        control, situation, ledger = self._control(job), self._situation(job, view, now_ms), Ledger()
        before, host_of = control.memory, {unit: host.host for host in view.hosts for unit in host.units}
        plan = plan_moves(
            observed(view.jobs[job], before),
            moves,
            view.hosts,
            taken=situation.taken(),
            mappings=before.mappings,
            algorithm=self._settings.placing.algorithm,
        )
        to = ", ".join(sorted({host_of[unit] for unit in moves.values()}))
        control.move(plan, f"hosts changed: {len(moves)} units go to {to}", situation, ledger)
        return self._effects(control, before, ledger, view, now_ms)

    def _stand_by(self, job: str, wanted: StandbyHosts, view: View, now_ms: int) -> Effects:
        control, ledger = self._control(job), Ledger()
        before, copies = control.memory, sum(map(len, wanted.values()))
        control.stand_by(wanted, f"{copies} copies of units' state", self._situation(job, view, now_ms), ledger)
        return self._effects(control, before, ledger, view, now_ms)

    def _looked(self, balance: Balance | None, at_ms: int) -> Effects:
        assert self._looks.memory is not None
        record = self._balance_record(self._looks.memory, at_ms)
        return Effects(records=(record,), balances=(balance,) if balance else ())

    def _balance_record(self, balance: BalanceMemory, now_ms: int) -> StateRecord:
        return state_record(self._cluster, "cluster", BALANCE, balance, now_ms)

    def _request_record(self, of: str, request: RequestMemory | None, now_ms: int) -> StateRecord:
        return state_record(self._cluster, "request", of, request, now_ms)

    def _placement_record(self, now_ms: int) -> StateRecord:
        return state_record(self._cluster, "cluster", PLACEMENT, self._memory, now_ms)

    # What a job is told of the world

    def _situation(self, job: str, view: View, now_ms: int) -> Situation:
        return Situation(
            now_ms=now_ms,
            topology=view.jobs.get(job),
            settings=view.settings_of(job),
            hosts=view.hosts,
            placement_generation=self._memory.placement_generation,
            taken=lambda: self._units_of_others(job, view),
        )

    def _units_of_others(self, job: str, view: View) -> frozenset[int]:
        others = (set(view.jobs) | set(self._controls)) - {job}
        return frozenset().union(*(self._units_of(other, view) for other in others))

    def _units_of(self, job: str, view: View) -> frozenset[int]:
        control, topology = self._controls.get(job), view.jobs.get(job)
        memory = control.memory if control else None
        known = self._units.get(job)
        if known is None or known[0] is not topology or known[1] is not memory:
            held = (control or JobControl(self._cluster, self._settings, JobMemory(job=job), {})).units(topology)
            known = self._units[job] = (topology, memory, held)
        return known[2]


def _slot_moves(wanted: Wanted, view: View) -> list[SlotMove]:
    host_of = {unit: host.host for host in view.hosts for unit in host.units}
    return [
        SlotMove(job=job, unit=unit, host=host_of.get(unit, ""), to_unit=to, to_host=host_of[to])
        for job, moves in sorted(wanted.moves.items())
        for unit, to in sorted(moves.items())
    ]
