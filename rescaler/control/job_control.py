"""One job's way from a decision to a command and to its end: pending act, gate, plan, steps of the rescale.

A logic object: it is told what happened and what the world looks like, and writes what follows into a `Ledger`. Its whole
memory is plain data (`rescaler.control.memory`). What it does not do: choose parallelism, keep time, or touch the world.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import msgspec

from contracts.messages import Decision, EngineEvent, JobTopology, Progress, RescheduleCommand
from rescaler.control.checks import no_longer_possible, objection_to
from rescaler.control.draining import drain_act, drained, must_drain
from rescaler.control.issuing import Action, followed_by, issued
from rescaler.control.job_gate import backoff_ms, targets_of, told_gate
from rescaler.control.memory import PendingAct, Wanted
from rescaler.control.placing import usable_units
from rescaler.control.plan import JobPlan, plan_job
from rescaler.control.reasons import WAITING_REASON, Reason
from rescaler.control.remembering import Remembering
from rescaler.control.situation import Ledger, Situation
from rescaler.control.steps import STEP_OF, after_failed_preparation, begun
from rescaler.control.view import has_ended, mode_of, units_of
from rescaler.control.waiting import (
    PATIENCE_MS,
    given_up_at_ms,
    is_recovering,
    recovery_act,
    rescaled_at_ms,
)
from rescaler.gate import Gate, GateState, Mode, Phase
from rescaler.refusals import Refused
from rescaler.reschedule import RescheduleRefusal

AHEAD_MS_MAX = 120_000  # an actuator's time further ahead than this is not believed


class JobControl(Remembering):
    """The control of one job; at most one pending act and one rescale, with one outstanding command."""

    # What may happen

    def on_decision(self, decision: Decision, now: Situation, ledger: Ledger) -> None:
        """Take a decision on, hold it, or refuse it; a decision seen before changes nothing."""
        if decision.decision_id in self.requests:
            ledger.duplicates += 1
            return
        self._answers.forget_before(now.now_ms - self._settings.remember_ms, ledger)
        acts = decision.action == "act"
        if decision.span_end_ms < self.memory.last_span_end_ms:
            self._answer(decision, now, ledger, "refused" if acts else "held", Reason.OLDER_DECISION)
            return
        if now.topology is None:
            detail = f"job: no topology of {decision.job!r} is known"
            self._answer(decision, now, ledger, *(("refused", Reason.UNKNOWN_JOB, detail) if acts else ("held", Reason.HOLD)))
            return
        if acts or not is_recovering(self.memory):
            self._supersede(decision, now, ledger)
        self._remember(last_span_end_ms=decision.span_end_ms)
        if acts:
            self._take_on(decision, self._seen(now.topology), now, ledger)
        else:
            self._answer(decision, now, ledger, "held", Reason.HOLD)
        self._settle(now, ledger)

    def on_progress(self, progress: Progress, now: Situation, ledger: Ledger) -> None:
        """Hear from an actuator; only the outstanding command matters: when it is expected to end, and that it has."""
        outstanding, rescaling = self.memory.outstanding, self.memory.rescaling
        if outstanding is None or progress.command_id != outstanding.command_id:
            return
        if progress.status not in ("applied", "failed"):
            if rescaling is not None:
                self._remember(rescaling=msgspec.structs.replace(rescaling, accepted=True))
            if progress.duration_ms and outstanding.action == "commit":
                self._remember(expected_end_ms=progress.at_ms + progress.duration_ms)
                self._settle(now, ledger)
            return
        believed = progress.at_ms <= now.now_ms + AHEAD_MS_MAX
        # As of the command's end, whenever that was heard of; `on_tick` comes next and does what has become due since.
        then = replace(now, now_ms=progress.at_ms if believed else now.now_ms)
        if outstanding.action != "prepare":
            self._end(progress.status == "applied" and outstanding.action == "commit", then.now_ms, now, ledger)
        elif progress.status == "applied":
            self._step_on(outstanding, "commit", then, ledger)
        elif rescaling is None or not rescaling.accepted:
            self._end(False, then.now_ms, now, ledger)  # refused: there is nothing that would have to be dropped
        else:
            self._give_up_learners(outstanding, progress, then, ledger)
        self._settle(then, ledger)

    def on_checkpoint(self, event: EngineEvent, now: Situation, ledger: Ledger) -> None:
        """Hear that a checkpoint of the job completed or failed: a trigger for a gate that waits for one.

        One that was taken no later than the gate's present phase was entered is none: it had no part in it.
        """
        state = self.memory.gate
        if state is None or self.memory.outstanding is not None or event.sequence <= self.memory.checkpoint:
            return
        gate = Gate(self._gate_settings(), state)
        gate.advance(event.at_ms)
        if gate.phase not in (Phase.STABILIZING, Phase.STABILIZED) or event.at_ms <= gate.state.entered_at_ms:
            return
        gate.on_checkpoint(completed=event.kind == "checkpoint_completed", now_ms=event.at_ms)
        self._remember(gate=gate.state, checkpoint=event.sequence)
        self._settle(now, ledger)

    def on_tick(self, now: Situation, ledger: Ledger) -> None:
        """Let time pass and look at the world again."""
        outstanding = self.memory.outstanding
        given_up_ms = given_up_at_ms(self.memory)
        if outstanding is not None and given_up_ms is not None and now.now_ms >= given_up_ms:
            # Nobody has said how it ended; the engine's own topology may show it.
            shown = now.topology is not None and now.topology.generation >= outstanding.desired_generation
            self._end(shown, outstanding.deadline_ms or given_up_ms, now, ledger)
        self._recover(now)
        if self.memory.pending is not None or self.memory.gate is not None or outstanding is not self.memory.outstanding:
            self._settle(now, ledger)
        self._drain(now, ledger)

    # From a decision to a pending act

    def _take_on(self, decision: Decision, topology: JobTopology, now: Situation, ledger: Ledger) -> None:
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

    def _recover(self, now: Situation) -> None:
        """Want a job that waits without any unit started again, as wide as it was or as wide as it can be."""
        topology = self._seen(now.topology) if now.topology else None
        if self.memory.pending or self.memory.outstanding or now.now_ms < self.memory.not_before_ms:
            return
        self._remember(not_before_ms=0)
        if topology is None or mode_of(topology) is not Mode.WAITING or now.settings.mode != "act":
            return
        self._remember(pending=recovery_act(topology, now.now_ms))

    def _drain(self, now: Situation, ledger: Ledger) -> None:
        """Move a job off hosts that will be removed, at the parallelism that it has, once its gate is idle.

        The gate has nothing to say to it: no parallelism changes. It still rests afterwards.
        """
        topology = self._seen(now.topology) if now.topology else None
        idle = self.memory.gate is None or self.memory.gate.phase is Phase.IDLING
        if topology is None or self.memory.pending or self.memory.outstanding or not idle or not must_drain(topology, now):
            return
        gate = told_gate(self.memory.gate, self._gate_settings(), topology, None, slots=self._slots(now), now_ms=now.now_ms)
        draining = drained(gate.state, now.now_ms)
        if gate.phase is not Phase.IDLING or not self._can_plan(draining, now):
            self._remember(gate=gate.state)  # when its rest is over, or when there is another host
            return
        self._remember(pending=drain_act(topology, now.now_ms), gate=draining)
        assert self.memory.pending is not None
        self._go(Gate(self._gate_settings(), draining), self.memory.pending, topology, now, ledger)

    def _can_plan(self, state: GateState, now: Situation) -> bool:
        try:
            return bool(self._plan(state.transition.parallelism if state.transition else None, now).changes)
        except Refused:
            return False

    def _slots(self, now: Situation) -> int:
        return sum(len(units) for units in usable_units(now.hosts, now.taken()).values())

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
            if self.memory.pending is not None:
                self._promise(Reason.RESCALE_IN_PROGRESS, rescaled_at_ms(self.memory, now.now_ms), now, ledger)
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
            self._go(gate, self.memory.pending, topology, now, ledger)

    def _drop_impossible(self, topology: JobTopology | None, now: Situation, ledger: Ledger) -> None:
        pending = self.memory.pending
        objection = no_longer_possible(pending, topology, now.settings) if pending else None
        if pending and objection:
            self._finish(pending, now.now_ms, ledger, "refused", objection.reason, detail=objection.detail)

    def _told_gate(self, topology: JobTopology, now: Situation) -> Gate:
        memory, settings = self.memory, self._gate_settings()
        gate = told_gate(memory.gate, settings, topology, memory.pending, slots=self._slots(now), now_ms=now.now_ms)
        self._remember(gate=gate.state)
        return gate

    def _go(self, gate: Gate, pending: PendingAct, topology: JobTopology, now: Situation, ledger: Ledger) -> None:
        """Carry out what the gate has let through: the first command, and with it the intent."""
        transition = gate.transition
        assert transition is not None
        at_ms = max(transition.at_ms, pending.accepted_at_ms)
        try:
            plan = self._plan(transition.parallelism, now)
        except Refused as refusal:
            self._finish(pending, at_ms, ledger, "refused", _reason(refusal), detail=refusal.message)
            self._close(gate, ok=False, at_ms=at_ms)
            return
        advice = now.settings.mode == "advise"
        warms = plan.state_moves and self._settings.warm_up_ms_max > 0 and not advice and mode_of(topology) is Mode.EXECUTING
        action: Action = "prepare" if warms else "commit"
        command = issued(
            plan,
            transition,
            action=action,
            cluster=self._cluster,
            job=self.memory.job,
            generation=max(self.memory.desired_generation, topology.generation) + 1,
            placement_generation=now.placement_generation + ledger.commits,
            decision_id=pending.decision_id,
            at_ms=at_ms,
            deadline_ms=self._deadline_ms(action, at_ms),
            advice=advice,
        )
        reason = Reason.ADVISE if advice else Reason(transition.reason)
        ledger.commands.append(command)
        self._finish(pending, at_ms, ledger, "commanded", reason, command=command.command_id)
        self._remember(desired_generation=command.desired_generation)
        if advice:
            self._close(gate, ok=False, at_ms=at_ms)
            return
        self._remember(outstanding=command, rescaling=begun(command, transition), planned_mappings=plan.mappings)

    def _plan(self, wanted: Mapping[str, int] | None, now: Situation, avoided: Collection[int] = ()) -> JobPlan:
        if wanted is None:
            raise Refused(RescheduleRefusal.NOT_ENOUGH_PARALLEL_UNITS, "no units came while the job waited")
        if now.topology is None:
            raise Refused(RescheduleRefusal.CLUSTER_INCONSISTENT, "the job's topology is gone")
        topology = self._seen(now.topology)
        taken = now.taken() | (frozenset(avoided) - units_of(topology))
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
            backs_off = gate.phase is Phase.COOLDOWN and self.memory.failures
            self._promise(Reason.BACKOFF if backs_off else WAITING_REASON[gate.phase], gate.wake_at_ms(), now, ledger)
        else:
            self._wait_for_units(gate, pending, now, ledger)

    def _wait_for_units(self, gate: Gate, pending: PendingAct, now: Situation, ledger: Ledger) -> None:
        least = max(target.lower for target in gate.state.targets.values())
        if gate.mode is Mode.WAITING:
            # The gate itself bounds this wait, unless its parameters say: for ever. Then it is said again every so often.
            until_ms = gate.wake_at_ms() or now.now_ms + PATIENCE_MS
            self._promise(Reason.NOT_ENOUGH_PARALLEL_UNITS, until_ms, now, ledger)
            return
        give_up_ms = pending.accepted_at_ms + self._settings.gate.executing_stabilization_ms
        if now.now_ms < give_up_ms:
            self._promise(Reason.NOT_ENOUGH_PARALLEL_UNITS, give_up_ms, now, ledger)
            return
        detail = f"the widest task needs at least {least} parallel units, {gate.state.slots} are usable"
        at_ms = max(give_up_ms, gate.state.entered_at_ms)
        self._finish(pending, at_ms, ledger, "refused", Reason.NOT_ENOUGH_PARALLEL_UNITS, detail=detail)
        self._settle(now, ledger)

    # From one step of a rescale to the next, and to its end

    def _deadline_ms(self, action: Action, at_ms: int) -> int:
        return at_ms + (self._settings.warm_up_ms_max if action == "prepare" else self._settings.apply_ms_max)

    def _give_up_learners(self, command: RescheduleCommand, progress: Progress, then: Situation, ledger: Ledger) -> None:
        rescaling = self.memory.rescaling
        assert rescaling is not None, "an outstanding command has its intent"

        def plan_without(avoided: Collection[int]) -> JobPlan:
            return self._plan(rescaling.wanted, then, avoided)

        following = after_failed_preparation(rescaling, progress.code, progress.units, then.hosts, self._settings, plan_without)
        changed = msgspec.structs.replace(
            rescaling, given_up=progress.code, avoided_units=following.avoided_units or rescaling.avoided_units
        )
        self._remember(rescaling=changed)
        self._step_on(command, following.action, then, ledger, following.plan)

    def _step_on(
        self, before: RescheduleCommand, action: Action, then: Situation, ledger: Ledger, plan: JobPlan | None = None
    ) -> None:
        """Command the next step."""
        rescaling = self.memory.rescaling
        assert rescaling is not None, "an outstanding command has its intent"
        deadline_ms = self._deadline_ms(action, then.now_ms)
        command = followed_by(before, action, at_ms=then.now_ms, deadline_ms=deadline_ms, plan=plan)
        ledger.commands.append(command)
        changed = msgspec.structs.replace(
            rescaling,
            step=STEP_OF[action],
            accepted=False,
            preparations=rescaling.preparations + (action == "prepare"),
        )
        mappings = self.memory.planned_mappings if plan is None else plan.mappings
        self._remember(outstanding=command, rescaling=changed, planned_mappings=mappings, expected_end_ms=None)

    def _end(self, ok: bool, at_ms: int, now: Situation, ledger: Ledger) -> None:
        """Commit and finish the rescale, or find it undone; the intent is gone in either case."""
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
        self._remember(outstanding=None, rescaling=None, expected_end_ms=None, planned_mappings={}, failures=failures)
        if not ok and now.topology is not None and mode_of(now.topology) is Mode.WAITING:
            self._remember(not_before_ms=at_ms + backoff_ms(self._settings.gate, failures))
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


def _reason(refusal: Refused) -> Reason:
    if refusal.code == RescheduleRefusal.NOT_ENOUGH_PARALLEL_UNITS:
        return Reason.NOT_ENOUGH_PARALLEL_UNITS
    return Reason.INCONSISTENT_TOPOLOGY
