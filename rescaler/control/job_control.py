"""One job's way from a decision to a command and to its end: pending act, gate, plan, outstanding command.

A logic object: it is told what happened and what the world looks like, and writes what follows into a `Ledger`. Its whole
memory is plain data (`rescaler.control.memory`). What it does not do: choose parallelism, keep time, or touch the world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from contracts.ids import Cluster
from contracts.messages import Decision, JobTopology, Outcome, Progress, RescheduleCommand
from rescaler.control.checks import objection_to
from rescaler.control.issuing import issued
from rescaler.control.job_gate import matching_gate, settings_after, targets_of
from rescaler.control.memory import JobMemory, PendingAct, RequestMemory, Wanted
from rescaler.control.placing import usable_units
from rescaler.control.plan import JobPlan, plan_job
from rescaler.control.reasons import REASONS_BY_STATUS, Reason
from rescaler.control.situation import ControlSettings, Ledger, Situation
from rescaler.control.view import has_ended, mode_of, observed, parallelism_of, units_of
from rescaler.gate import Gate, Mode, Phase, Transition
from rescaler.gate_settings import GateSettings
from rescaler.refusals import Refused
from rescaler.reschedule import RescheduleRefusal

AHEAD_MS_MAX = 120_000  # an actuator's time further ahead than this is not believed
PATIENCE_MS = 60_000  # how long after the end that was expected a report of it may come

_REASON_BY_PHASE = {
    Phase.COOLDOWN: Reason.COOLDOWN,
    Phase.STABILIZING: Reason.STABILIZING,
    Phase.STABILIZED: Reason.STABILIZED,
}


class JobControl:
    """The control of one job; at most one pending act and one outstanding command."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ControlSettings,
        memory: JobMemory,
        requests: Mapping[str, RequestMemory],
    ) -> None:
        self.memory = memory
        self.requests = dict(requests)
        self._cluster = cluster
        self._settings = settings

    def wake_at_ms(self) -> int | None:
        """When `on_tick` has something to do at the latest."""
        outstanding, pending = self.memory.outstanding, self.memory.pending
        times = [outstanding.deadline_ms if outstanding else None]
        if pending is not None and pending.until_ms is not None:
            times.append(pending.until_ms + (PATIENCE_MS if outstanding else 0))
        return min((time for time in times if time is not None), default=None)

    def units(self, topology: JobTopology | None) -> frozenset[int]:
        """Units that the job has or is about to have."""
        held = units_of(observed(topology, self.memory)) if topology else frozenset()
        outstanding = self.memory.outstanding
        coming = {unit for change in outstanding.changes for unit in change.units} if outstanding else set()
        return held | coming

    # What may happen

    def on_decision(self, decision: Decision, now: Situation, ledger: Ledger) -> None:
        """Take a decision on, hold it, or refuse it; a decision seen before changes nothing."""
        if decision.decision_id in self.requests:
            ledger.duplicates += 1
            return
        self._forget_old_requests(now, ledger)
        acts = decision.action == "act"
        if decision.span_end_ms < self.memory.last_span_end_ms:
            self._answer(decision, now, ledger, "refused" if acts else "held", Reason.OLDER_DECISION)
            return
        if now.topology is None:
            detail = f"job: no topology of {decision.job!r} is known"
            self._answer(decision, now, ledger, *(("refused", Reason.UNKNOWN_JOB, detail) if acts else ("held", Reason.HOLD)))
            return
        self._supersede(decision, now, ledger)
        self._remember(last_span_end_ms=decision.span_end_ms)
        if acts:
            self._take_on(decision, self._seen(now.topology), now, ledger)
        else:
            self._answer(decision, now, ledger, "held", Reason.HOLD)
        self._settle(now, ledger)

    def on_progress(self, progress: Progress, now: Situation, ledger: Ledger) -> None:
        """Hear from an actuator; only the outstanding command matters: when it is expected to end, and that it has."""
        outstanding = self.memory.outstanding
        if outstanding is None or progress.command_id != outstanding.command_id:
            return
        if progress.status not in ("applied", "failed"):
            if progress.duration_ms:
                self._remember(expected_end_ms=progress.at_ms + progress.duration_ms)
                self._settle(now, ledger)
            return
        believed = progress.at_ms <= now.now_ms + AHEAD_MS_MAX
        at_ms = progress.at_ms if believed else now.now_ms
        self._end(progress.status == "applied", at_ms, now, ledger)
        # As of the command's end, whenever that was heard of; `on_tick` comes next and does what has become due since.
        self._settle(replace(now, now_ms=at_ms), ledger)

    def on_tick(self, now: Situation, ledger: Ledger) -> None:
        """Let time pass and look at the world again."""
        outstanding = self.memory.outstanding
        if outstanding is not None and outstanding.deadline_ms is not None and now.now_ms >= outstanding.deadline_ms:
            # Nobody has said how it ended; the engine's own topology may show it.
            shown = now.topology is not None and now.topology.generation >= outstanding.desired_generation
            self._end(shown, outstanding.deadline_ms, now, ledger)
        if self.memory.pending is not None or outstanding is not self.memory.outstanding:
            self._settle(now, ledger)

    # From a decision to a pending act

    def _take_on(self, decision: Decision, topology: JobTopology, now: Situation, ledger: Ledger) -> None:
        if has_ended(topology):
            self._answer(decision, now, ledger, "refused", Reason.JOB_NOT_RUNNING, f"job: {topology.state}")
            return
        if now.settings.mode == "observe":
            self._answer(decision, now, ledger, "refused", Reason.OBSERVE)
            return
        objection = objection_to(decision, topology, now.settings)
        if objection is not None:
            self._answer(decision, now, ledger, "refused", objection.reason, objection.detail)
            return
        pending = PendingAct(
            decision_id=decision.decision_id,
            span_end_ms=decision.span_end_ms,
            accepted_at_ms=now.now_ms,
            wanted={task.task: Wanted(desired=task.desired, floor=task.floor) for task in decision.tasks},
        )
        self._remember(pending=pending)

    def _supersede(self, newer: Decision, now: Situation, ledger: Ledger) -> None:
        pending = self.memory.pending
        if pending is not None:
            detail = f"{newer.decision_id} wants {newer.action}"
            self._finish(pending, now.now_ms, ledger, "superseded", Reason.NEWER_DECISION, detail=detail)

    # From a pending act to a command

    def _settle(self, now: Situation, ledger: Ledger) -> None:
        """Bring pending act and gate in line with the world: go, wait, or give up."""
        topology = self._seen(now.topology) if now.topology else None
        self._drop_impossible(topology, now, ledger)
        if self.memory.outstanding is not None:
            self._wait_for_end(self.memory.outstanding, now, ledger)
            return
        if topology is None or has_ended(topology) or (self.memory.pending is None and mode_of(topology) is Mode.WAITING):
            self._remember(gate=None)
            return
        if self.memory.pending is None and self.memory.gate is None:
            return
        gate = self._told_gate(topology, now)
        if gate.transition is None:
            self._wait(gate, now, ledger)
        elif self.memory.pending is None:
            self._close(gate, ok=False, at_ms=now.now_ms)  # let through, but no longer wanted
        else:
            self._go(gate, gate.transition, self.memory.pending, topology, now, ledger)

    def _drop_impossible(self, topology: JobTopology | None, now: Situation, ledger: Ledger) -> None:
        pending = self.memory.pending
        if pending is None:
            return
        if topology is None:
            self._finish(pending, now.now_ms, ledger, "refused", Reason.UNKNOWN_JOB, detail="job: its topology is gone")
        elif has_ended(topology):
            self._finish(pending, now.now_ms, ledger, "refused", Reason.JOB_NOT_RUNNING, detail=f"job: {topology.state}")
        elif now.settings.mode == "observe":
            self._finish(pending, now.now_ms, ledger, "refused", Reason.OBSERVE)
        elif gone := sorted(set(pending.wanted) - {spec.task for spec in topology.tasks}):
            detail = f"tasks: {gone[0]!r} is gone"
            self._finish(pending, now.now_ms, ledger, "refused", Reason.TOPOLOGY_CHANGED, detail=detail)

    def _told_gate(self, topology: JobTopology, now: Situation) -> Gate:
        """The job's gate, told of targets, slots and time; a fresh one where the engine's job is no longer the gate's."""
        slots = sum(len(units) for units in usable_units(now.hosts, now.taken()).values())
        targets = targets_of(self.memory.pending, parallelism_of(topology))
        gate = matching_gate(self.memory.gate, self._gate_settings(), topology, targets, slots=slots, now_ms=now.now_ms)
        due_ms = gate.wake_at_ms()
        if gate.state.targets != targets or gate.state.slots != slots:
            gate.on_change(targets=targets, slots=slots, now_ms=now.now_ms)
        elif due_ms is not None and due_ms <= now.now_ms:
            gate.advance(now.now_ms)
        self._remember(gate=gate.state)
        return gate

    def _go(
        self,
        gate: Gate,
        transition: Transition,
        pending: PendingAct,
        topology: JobTopology,
        now: Situation,
        ledger: Ledger,
    ) -> None:
        at_ms = max(transition.at_ms, pending.accepted_at_ms)
        try:
            plan = self._plan(transition, topology, now)
        except Refused as refusal:
            self._finish(pending, at_ms, ledger, "refused", _reason(refusal), detail=refusal.message)
            self._close(gate, ok=False, at_ms=at_ms)
            return
        advice = now.settings.mode == "advise"
        command = issued(
            plan,
            transition,
            cluster=self._cluster,
            job=self.memory.job,
            generation=max(self.memory.desired_generation, topology.generation) + 1,
            placement_generation=now.placement_generation + ledger.commits,
            decision_id=pending.decision_id,
            at_ms=at_ms,
            deadline_ms=at_ms + self._settings.apply_ms_max,
            advice=advice,
        )
        reason = Reason.ADVISE if advice else Reason(transition.reason)
        ledger.commands.append(command)
        self._finish(pending, at_ms, ledger, "commanded", reason, command=command.command_id)
        self._remember(desired_generation=command.desired_generation)
        if advice:
            self._close(gate, ok=False, at_ms=at_ms)
        else:
            self._remember(outstanding=command, planned_mappings=plan.mappings)

    def _plan(self, transition: Transition, topology: JobTopology, now: Situation) -> JobPlan:
        if transition.parallelism is None:
            raise Refused(RescheduleRefusal.NOT_ENOUGH_PARALLEL_UNITS, "no units came while the job waited")
        wanted, taken = transition.parallelism, now.taken()
        mappings, placing = self.memory.mappings, self._settings.placing
        return plan_job(topology, wanted, now.hosts, taken=taken, mappings=mappings, placing=placing)

    def _wait(self, gate: Gate, now: Situation, ledger: Ledger) -> None:
        pending = self.memory.pending
        if pending is None:
            return
        current = gate.current or {}
        if gate.mode is Mode.EXECUTING and all(current[task] == want.desired for task, want in pending.wanted.items()):
            self._finish(pending, now.now_ms, ledger, "refused", Reason.NO_CHANGE, detail="the job already runs like that")
            self._settle(now, ledger)
        elif gate.phase is not Phase.IDLING:
            self._promise(self._waiting_reason(gate.phase), gate.wake_at_ms(), now, ledger)
        else:
            self._wait_for_units(gate, pending, now, ledger)

    def _wait_for_end(self, outstanding: RescheduleCommand, now: Situation, ledger: Ledger) -> None:
        """Let the pending act wait for the command before it.

        The wait is promised to end when the command is expected to, and the answer is then held back until that is heard of.
        """
        pending, expected_ms = self.memory.pending, self.memory.expected_end_ms
        if pending is None:
            return
        promised_ms = pending.until_ms if pending.reason == Reason.RESCALE_IN_PROGRESS else None
        until_ms = min(now.now_ms + PATIENCE_MS, outstanding.deadline_ms or now.now_ms + PATIENCE_MS)
        if expected_ms is not None and now.now_ms < expected_ms + PATIENCE_MS:
            until_ms = expected_ms
        elif promised_ms is not None and now.now_ms < promised_ms + PATIENCE_MS:
            until_ms = promised_ms
        self._promise(Reason.RESCALE_IN_PROGRESS, until_ms, now, ledger)

    def _wait_for_units(self, gate: Gate, pending: PendingAct, now: Situation, ledger: Ledger) -> None:
        executing = gate.mode is Mode.EXECUTING
        settings = self._settings.gate
        patience_ms = settings.executing_stabilization_ms if executing else settings.waiting_stabilization_ms
        give_up_ms = pending.accepted_at_ms + patience_ms
        if now.now_ms < give_up_ms:
            self._promise(Reason.NOT_ENOUGH_PARALLEL_UNITS, give_up_ms, now, ledger)
            return
        least = max(target.lower for target in gate.state.targets.values())
        detail = f"the widest task needs at least {least} parallel units, {gate.state.slots} are usable"
        at_ms = max(give_up_ms, gate.state.entered_at_ms)
        self._finish(pending, at_ms, ledger, "refused", Reason.NOT_ENOUGH_PARALLEL_UNITS, detail=detail)
        self._settle(now, ledger)

    def _waiting_reason(self, phase: Phase) -> Reason:
        cooling = phase is Phase.COOLDOWN
        return Reason.BACKOFF if cooling and self.memory.failures else _REASON_BY_PHASE[phase]

    # The end of a command

    def _end(self, ok: bool, at_ms: int, now: Situation, ledger: Ledger) -> None:
        command, state = self.memory.outstanding, self.memory.gate
        assert command is not None
        assert state is not None
        if ok:
            ledger.commits += 1
            not_shown = now.topology is None or now.topology.generation < self.memory.applied_generation
            earlier = self.memory.applied_units if not_shown else {}
            self._remember(
                applied_generation=command.desired_generation,
                applied_units=earlier | {change.task: change.units for change in command.changes},
                mappings=self.memory.mappings | self.memory.planned_mappings,
            )
        failures = 0 if ok else self.memory.failures + 1
        self._remember(outstanding=None, expected_end_ms=None, planned_mappings={}, failures=failures)
        self._close(Gate(self._gate_settings(), state), ok=ok, at_ms=at_ms)

    def _close(self, gate: Gate, *, ok: bool, at_ms: int) -> None:
        """End the gate's transition. An act is not tried again: the next decision sees the job as it is and asks anew."""
        transition = gate.transition
        assert transition is not None
        after = transition.parallelism if ok else gate.current
        if after is None:
            self._remember(gate=None)  # still waiting for resources: the next act starts a gate
            return
        gate.on_change(targets=targets_of(self.memory.pending, after), now_ms=gate.state.now_ms)
        gate.on_rescaled(ok, at_ms)
        self._remember(gate=gate.state)

    def _gate_settings(self) -> GateSettings:
        return settings_after(self._settings.gate, self.memory.failures)

    # Outcomes

    def _answer(self, decision: Decision, now: Situation, ledger: Ledger, status: str, reason: Reason, detail: str = "") -> None:
        """The first and last outcome of a decision that was never pending."""
        self._outcome(decision.decision_id, decision.span_end_ms, now.now_ms, ledger, status, reason, detail=detail)

    def _promise(self, reason: Reason, until_ms: int | None, now: Situation, ledger: Ledger) -> None:
        """Say why the act waits and until when; nothing, when that has been said and the time has not come."""
        pending = self.memory.pending
        if pending is None:
            return
        assert until_ms is not None, "whatever waits has an end"
        if (pending.reason, pending.until_ms) != (reason, until_ms):
            self._remember(pending=msgspec.structs.replace(pending, reason=reason.value, until_ms=until_ms))
            at_ms = now.now_ms if pending.until_ms is None else min(now.now_ms, pending.until_ms)
            self._outcome(pending.decision_id, pending.span_end_ms, at_ms, ledger, "pending", reason, until_ms=until_ms)

    def _finish(
        self,
        pending: PendingAct,
        at_ms: int,
        ledger: Ledger,
        status: str,
        reason: Reason,
        *,
        detail: str = "",
        command: str | None = None,
    ) -> None:
        """The last outcome of a pending act."""
        self._remember(pending=None)
        self._outcome(pending.decision_id, pending.span_end_ms, at_ms, ledger, status, reason, detail=detail, command=command)

    def _outcome(
        self,
        decision_id: str,
        span_end_ms: int,
        at_ms: int,
        ledger: Ledger,
        status: str,
        reason: Reason,
        *,
        until_ms: int | None = None,
        detail: str = "",
        command: str | None = None,
    ) -> None:
        assert reason in REASONS_BY_STATUS[status], (status, reason)
        before = self.requests.get(decision_id)
        sequence = 0 if before is None else before.sequence + 1
        request = RequestMemory(job=self.memory.job, status=status, sequence=sequence, at_ms=at_ms)
        self.requests[decision_id] = ledger.requests[decision_id] = request
        ledger.outcomes.append(
            Outcome(
                cluster=self._cluster,
                job=self.memory.job,
                decision_id=decision_id,
                span_end_ms=span_end_ms,
                status=status,  # type: ignore[arg-type]  # checked against the closed set above
                reason=reason.value,
                at_ms=at_ms,
                sequence=sequence,
                until_ms=until_ms,
                command_id=command,
                detail=detail,
            )
        )

    # Memory

    def _seen(self, topology: JobTopology) -> JobTopology:
        return observed(topology, self.memory)

    def _remember(self, **changes: object) -> None:
        changed = msgspec.structs.replace(self.memory, **changes)
        if changed != self.memory:
            self.memory = changed

    def _forget_old_requests(self, now: Situation, ledger: Ledger) -> None:
        oldest_ms = now.now_ms - self._settings.remember_ms
        for decision_id, request in sorted(self.requests.items()):
            if request.at_ms < oldest_ms and request.status != "pending":
                del self.requests[decision_id]
                ledger.requests[decision_id] = None


def _reason(refusal: Refused) -> Reason:
    if refusal.code == RescheduleRefusal.NOT_ENOUGH_PARALLEL_UNITS:
        return Reason.NOT_ENOUGH_PARALLEL_UNITS
    return Reason.INCONSISTENT_TOPOLOGY
