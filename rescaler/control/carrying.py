"""From an act that the gate has let through to its commands and to its end: plan, steps, intent.

What it does not do: say when (the gate and `rescaler.control.job_control` do), or look after hosts (`rescaler.control.own_acts`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from contracts.commands import Progress, RescheduleCommand
from contracts.messages import JobTopology
from contracts.topology import units_of
from rescaler.control.issuing import Action, followed_by, issued
from rescaler.control.job_gate import backoff_ms, targets_of, told_gate
from rescaler.control.memory import PendingAct
from rescaler.control.placing import usable_units
from rescaler.control.plan import JobPlan, plan_job
from rescaler.control.reasons import Reason
from rescaler.control.remembering import Remembering
from rescaler.control.situation import Ledger, Situation
from rescaler.control.steps import NOT_WARMED, STEP_OF, WARM_UP_TIMEOUT, after_failed_preparation, begun
from rescaler.control.unasked import is_balancing
from rescaler.control.view import is_behind, mode_of
from rescaler.control.waiting import PATIENCE_MS
from rescaler.gate import Gate, GateState, Mode, Transition
from rescaler.refusals import Refused
from rescaler.reschedule import RescheduleRefusal


class Carrying(Remembering):
    """One job's rescales: the first command, every further step, and the end."""

    def _told_gate(self, topology: JobTopology, now: Situation) -> Gate:
        memory, settings = self.memory, self._gate_settings()
        gate = told_gate(memory.gate, settings, topology, memory.pending, slots=self._slots(now), now_ms=now.now_ms)
        self._remember(gate=gate.state)
        return gate

    def _go(
        self,
        gate: Gate,
        pending: PendingAct,
        topology: JobTopology,
        now: Situation,
        ledger: Ledger,
        *,
        plan: JobPlan | None = None,
        detail: str = "",
    ) -> None:
        """Carry out what the gate has let through: the first command, and with it the intent; ``plan``: one made before."""
        transition = gate.transition
        assert transition is not None
        at_ms = max(transition.at_ms, pending.accepted_at_ms)
        try:
            plan = plan or self._plan(transition.parallelism, now)
        except Refused as refusal:
            self._finish(pending, at_ms, ledger, "refused", _reason(refusal), detail=refusal.message)
            self._close(gate, ok=False, at_ms=at_ms)
            return
        command = self._first_command(plan, transition, pending.decision_id, topology, now, ledger, at_ms)
        reason = Reason.ADVISE if command.advice else Reason(transition.reason)
        ledger.commands.append(command)
        self._finish(pending, at_ms, ledger, "commanded", reason, detail=detail, command=command.command_id)
        self._remember(desired_generation=command.desired_generation)
        if command.advice:
            self._close(gate, ok=False, at_ms=at_ms)
            return
        self._remember(outstanding=command, rescaling=begun(command, transition, pending.own), planned_mappings=plan.mappings)

    def _first_command(
        self,
        plan: JobPlan,
        transition: Transition,
        decision_id: str,
        topology: JobTopology,
        now: Situation,
        ledger: Ledger,
        at_ms: int,
    ) -> RescheduleCommand:
        """To prepare where state that runs moves between hosts, else to commit at once."""
        advice = now.settings.mode == "advise"
        warms = plan.state_moves and self._settings.warm_up_ms_max > 0 and not advice and mode_of(topology) is Mode.EXECUTING
        action: Action = "prepare" if warms else "commit"
        return issued(
            plan,
            transition,
            action=action,
            cluster=self._cluster,
            job=self.memory.job,
            generation=max(self.memory.desired_generation, topology.generation) + 1,
            placement_generation=now.placement_generation + ledger.commits,
            decision_id=decision_id,
            at_ms=at_ms,
            deadline_ms=self._deadline_ms(action, at_ms, now),
            advice=advice,
        )

    def _plan(self, wanted: Mapping[str, int] | None, now: Situation, avoided: Collection[int] = ()) -> JobPlan:
        if wanted is None:
            raise Refused(RescheduleRefusal.NOT_ENOUGH_PARALLEL_UNITS, "no units came while the job waited")
        if now.topology is None:
            raise Refused(RescheduleRefusal.CLUSTER_INCONSISTENT, "the job's topology is gone")
        topology = self._seen(now.topology)
        taken = now.taken() | (frozenset(avoided) - units_of(topology))
        mappings, placing = self.memory.mappings, self._settings.placing
        return plan_job(topology, wanted, now.hosts, taken=taken, mappings=mappings, placing=placing)

    def _can_plan(self, state: GateState, now: Situation) -> bool:
        try:
            return bool(self._plan(state.transition.parallelism if state.transition else None, now).changes)
        except Refused:
            return False

    def _slots(self, now: Situation) -> int:
        return sum(len(units) for units in usable_units(now.hosts, now.taken()).values())

    # From one step of a rescale to the next, and to its end

    def _deadline_ms(self, action: Action, at_ms: int, now: Situation) -> int:
        """Count from the time at which the command became due; of one that is written much later, not all that has passed."""
        heard_ms = now.now_ms if now.heard_ms is None else now.heard_ms
        allowed_ms = self._settings.warm_up_ms_max if action == "prepare" else self._settings.apply_ms_max
        return max(at_ms, heard_ms - min(PATIENCE_MS, allowed_ms // 2)) + allowed_ms

    def _give_up_learners(self, command: RescheduleCommand, progress: Progress, then: Situation, ledger: Ledger) -> None:
        rescaling = self.memory.rescaling
        assert rescaling is not None, "an outstanding command has its intent"
        if is_balancing(self.memory):
            # Nothing has to move: it is left where it is, and the next look at the hosts tries others.
            added = {unit for change in command.changes for unit in change.added_units}
            units = {WARM_UP_TIMEOUT: set(progress.units), NOT_WARMED: added}.get(progress.code, set())
            ledger.avoided_hosts |= {host.host for host in then.hosts if set(host.units) & units}
            self._remember(rescaling=msgspec.structs.replace(rescaling, given_up=progress.code, avoided_units=progress.units))
            self._step_on(command, "abort", then, ledger)
            return

        if then.topology is not None and {spec.task for spec in then.topology.tasks} != rescaling.wanted.keys():
            # The job's graph was changed meanwhile: no plan for these tasks fits it.
            self._remember(rescaling=msgspec.structs.replace(rescaling, given_up=progress.code))
            self._step_on(command, "abort", then, ledger)
            return

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
        deadline_ms = self._deadline_ms(action, then.now_ms, then)
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
            not_shown = now.topology is None or is_behind(now.topology, self.memory)
            earlier = self.memory.applied_units if not_shown else {}
            self._remember(
                applied_generation=command.desired_generation,
                applied_at_ms=at_ms,
                applied_units=earlier | {change.task: change.units for change in command.changes},
                mappings=self.memory.mappings | self.memory.planned_mappings,
            )
        # Units that stay where they are, since nothing had to move, are no failure of the job's.
        failures = 0 if ok else self.memory.failures + (not is_balancing(self.memory))
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
