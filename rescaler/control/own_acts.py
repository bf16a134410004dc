"""Acts that no policy asks for: a job without units is started again, one on hosts that go is moved off, and hosts are balanced.

No gate counts them, since no parallelism changes; but they wait for an idle gate, and it rests afterwards.
What it does not do: look at more than its own job (`rescaler.control.balance` does).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from contracts.commands import RescheduleCommand, SlotStandbys
from contracts.ids import command_id, decision_id
from rescaler.control.carrying import Carrying
from rescaler.control.issuing import FIRST_STEP
from rescaler.control.job_gate import told_gate
from rescaler.control.plan import JobPlan
from rescaler.control.reasons import Reason
from rescaler.control.situation import Ledger, Situation
from rescaler.control.unasked import BALANCE, DRAIN, RECOVERY, STANDBY, moving, must_drain, own_act
from rescaler.control.view import mode_of
from rescaler.gate import Cause, Gate, Mode, Phase


class OwnActs(Carrying):
    """What one job's control wants by itself."""

    # Of hosts that died or go

    def _recover(self, now: Situation) -> None:
        """Want a job that waits without any unit started again, as wide as it was or as wide as it can be."""
        topology = self._seen(now.topology) if now.topology else None
        if self.memory.pending or self.memory.outstanding or now.now_ms < self.memory.not_before_ms:
            return
        self._remember(not_before_ms=0)
        if topology is None or mode_of(topology) is not Mode.WAITING or now.settings.mode != "act":
            return
        self._remember(pending=own_act(topology, now.now_ms, RECOVERY, span_end_ms=topology.at_ms))

    def _drain(self, now: Situation, ledger: Ledger) -> None:
        """Move a job off hosts that will be removed, at the parallelism that it has, once its gate is idle.

        The gate has nothing to say to it: no parallelism changes. It still rests afterwards.
        """
        topology = self._seen(now.topology) if now.topology else None
        idle = self.memory.gate is None or self.memory.gate.phase is Phase.IDLING
        if topology is None or self.memory.pending or self.memory.outstanding or not idle or not must_drain(topology, now):
            return
        gate = told_gate(self.memory.gate, self._gate_settings(), topology, None, slots=self._slots(now), now_ms=now.now_ms)
        draining = moving(gate.state, now.now_ms)
        if gate.phase is not Phase.IDLING or not self._can_plan(draining, now):
            self._remember(gate=gate.state)  # when its rest is over, or when there is another host
            return
        act = own_act(topology, now.now_ms, DRAIN, span_end_ms=now.now_ms)
        self._remember(pending=act, gate=draining)
        self._go(Gate(self._gate_settings(), draining), act, topology, now, ledger)

    # Of hosts that are to be balanced

    def is_free(self, now: Situation) -> bool:
        """Say whether the job could be moved now: it runs, may be moved, nothing of it is on its way and its gate is idle."""
        topology = self._seen(now.topology) if now.topology else None
        if topology is None or topology.state != "running" or now.settings.mode != "act":
            return False
        if self.memory.pending or self.memory.outstanding:
            return False
        gate = told_gate(self.memory.gate, self._gate_settings(), topology, None, slots=self._slots(now), now_ms=now.now_ms)
        if gate.phase is not Phase.IDLING:
            self._remember(gate=gate.state)  # so that the end of its rest is known
        return gate.phase is Phase.IDLING

    def move(self, plan: JobPlan, why: str, now: Situation, ledger: Ledger) -> None:
        """Begin to move parallel units of a free job, each with all that is on it; ``why`` is a sentence."""
        assert now.topology is not None, "only a job that runs is free"
        topology = self._seen(now.topology)
        gate = told_gate(self.memory.gate, self._gate_settings(), topology, None, slots=self._slots(now), now_ms=now.now_ms)
        balancing = moving(gate.state, now.now_ms)
        act = own_act(topology, now.now_ms, BALANCE, span_end_ms=now.now_ms)
        self._remember(pending=act, gate=balancing)
        self._go(Gate(self._gate_settings(), balancing), act, topology, now, ledger, plan=plan, detail=why)

    def stand_by(self, wanted: Mapping[int, tuple[str, ...]], why: str, now: Situation, ledger: Ledger) -> None:
        """Command on which hosts copies of the state of each unit shall be kept."""
        assert now.topology is not None, "only a job that runs is free"
        generation = max(self.memory.desired_generation, now.topology.generation) + 1
        act = decision_id(self.memory.job, now.now_ms, STANDBY)
        command = RescheduleCommand(
            command_id=command_id(self.memory.job, generation, FIRST_STEP),
            cluster=self._cluster,
            job=self.memory.job,
            desired_generation=generation,
            step=FIRST_STEP,
            action="standby",
            base_placement_generation=now.placement_generation + ledger.commits,
            decision_id=act,
            gate_reason="desired",
            gate_cause=Cause.TRIGGER.value,
            issued_at_ms=now.now_ms,
            changes=(),
            deadline_ms=now.now_ms + self._settings.apply_ms_max,
            standbys=tuple(SlotStandbys(unit=unit, hosts=hosts) for unit, hosts in sorted(wanted.items()) if hosts),
        )
        ledger.commands.append(command)
        self._answers.give(
            act, now.now_ms, now.now_ms, ledger, "commanded", Reason.DESIRED, detail=why, command=command.command_id
        )
        self._remember(desired_generation=generation, outstanding=command)

    def _end_standby(self, ok: bool, at_ms: int = 0) -> None:
        """The engine keeps what was commanded since a time, or refused it: then the next look at the hosts asks again."""
        command = self.memory.outstanding
        assert command is not None
        self._remember(outstanding=None)
        if ok and command.standbys is not msgspec.UNSET:
            ready_ms = self.memory.standbys_ready_at_ms
            is_ready = ready_ms > max(at_ms, command.issued_at_ms)  # the event may be heard before the report
            kept = {"standbys": command.standbys, "standbys_at_ms": command.issued_at_ms}
            self._remember(**kept, standbys_ready_at_ms=ready_ms if is_ready else 0)

    def on_standbys_ready(self, at_ms: int) -> None:
        """Hear that every copy last commanded is complete; an event from before that command says nothing about it."""
        memory, ready_ms = self.memory, self.memory.standbys_ready_at_ms
        if memory.outstanding is not None and memory.outstanding.action == "standby":
            is_news = at_ms > max(memory.outstanding.issued_at_ms, ready_ms)  # whether it is of that one its end will tell
        else:
            is_news = bool(memory.standbys) and at_ms > memory.standbys_at_ms and not ready_ms
        if is_news:
            self._remember(standbys_ready_at_ms=at_ms)
