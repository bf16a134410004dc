"""One job's way from a decision to a command and to its end: pending act, gate, plan, steps of the rescale.

A logic object: it is told what happened and what the world looks like, and writes what follows into a `Ledger`. Its whole
memory is plain data (`rescaler.control.memory`). What it does not do: choose parallelism, keep time, or touch the world.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from contracts.commands import Progress, RescheduleCommand
from contracts.messages import Decision, EngineEvent, JobTopology
from contracts.topology import has_ended
from rescaler.control.checks import no_longer_possible, objection_to
from rescaler.control.memory import PendingAct, Wanted
from rescaler.control.own_acts import OwnActs
from rescaler.control.reasons import WAITING_REASON, Reason
from rescaler.control.situation import Ledger, Situation
from rescaler.control.steps import LEARNER_LOST, NOT_WARMED
from rescaler.control.unasked import is_balancing, is_recovering
from rescaler.control.view import mode_of
from rescaler.control.waiting import OVERDUE_MS, PATIENCE_MS, given_up_at_ms, rescaled_at_ms
from rescaler.gate import Gate, Mode, Phase

AHEAD_MS_MAX = 120_000  # an actuator's or engine's time further ahead than this is not believed


class JobControl(OwnActs):
    """The control of one job; at most one pending act and one rescale, with one outstanding command."""

    # What may happen

    def give_way(self, newer: Decision, now: Situation, ledger: Ledger) -> None:
        """Let a pending act that should have gone long ago give way to a newer decision that waits to be answered.

        An act of the rescaler's own does not: it wants what is, and is never stale.
        """
        pending = self.memory.pending
        if pending is None or pending.own or pending.until_ms is None or now.now_ms - pending.until_ms <= OVERDUE_MS:
            return
        if newer.decision_id not in self.requests and newer.span_end_ms > self.memory.last_span_end_ms:
            self._supersede(newer, now, ledger)
            if self.memory.outstanding is None:
                self._remember(gate=None)  # it still aims at what is wanted no more, and has timers that are due

    def on_decision(self, decision: Decision, now: Situation, ledger: Ledger, newest: Decision | None = None) -> None:
        """Take a decision on, hold it, or refuse it; a decision seen before changes nothing.

        ``newest``: the job's latest one that waits to be answered. A stale act gives way to it at once.
        """
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
        is_stale = now.now_ms - decision.span_end_ms > OVERDUE_MS
        if acts and is_stale and newest is not None and newest.span_end_ms > decision.span_end_ms:
            self._answer(decision, now, ledger, "superseded", Reason.NEWER_DECISION, _wish(newest))
        elif acts:
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
        if outstanding.action == "standby":
            self._end_standby(progress.status == "applied", progress.at_ms)
            self._settle(now, ledger)
            return
        believed = progress.at_ms <= now.now_ms + AHEAD_MS_MAX
        # As of the command's end, whenever that was heard of; `on_tick` comes next and does what has become due since.
        then = replace(now, now_ms=progress.at_ms if believed else now.now_ms, heard_ms=now.now_ms)
        if outstanding.action != "prepare":
            self._end(progress.status == "applied" and outstanding.action == "commit", then.now_ms, now, ledger)
        elif progress.status == "applied" and (lost := _lost_units(outstanding, then)):
            gone = msgspec.structs.replace(progress, code=LEARNER_LOST, units=lost)
            self._give_up_learners(outstanding, gone, then, ledger)
        elif progress.status == "applied" and is_balancing(self.memory) and not progress.learners and not self._copies:
            self._give_up_learners(outstanding, msgspec.structs.replace(progress, code=NOT_WARMED), then, ledger)
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
        if event.at_ms > now.now_ms + AHEAD_MS_MAX:
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
            self._give_up_waiting(outstanding, outstanding.deadline_ms or given_up_ms, now, ledger)
        self._recover(now)
        if self.memory.pending is not None or self.memory.gate is not None or outstanding is not self.memory.outstanding:
            self._settle(now, ledger)
        self._drain(now, ledger)

    def _give_up_waiting(self, outstanding: RescheduleCommand, at_ms: int, now: Situation, ledger: Ledger) -> None:
        """Nobody has said how a command ended; the engine's own topology may show it."""
        if outstanding.action == "standby":
            self._end_standby(False)
        else:
            shown = now.topology is not None and now.topology.generation >= outstanding.desired_generation
            self._end(shown, at_ms, now, ledger)

    @property
    def _copies(self) -> int:
        return self._settings.balancing.standbys

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

    def _supersede(self, newer: Decision, now: Situation, ledger: Ledger) -> None:
        pending = self.memory.pending
        if pending is not None:
            self._finish(pending, now.now_ms, ledger, "superseded", Reason.NEWER_DECISION, detail=_wish(newer))

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
            is_promised = pending.reason == Reason.NOT_ENOUGH_PARALLEL_UNITS and (pending.until_ms or 0) > now.now_ms
            again_ms = pending.until_ms if is_promised else now.now_ms + PATIENCE_MS
            until_ms = gate.wake_at_ms() or again_ms
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


def _wish(newer: Decision) -> str:
    return f"{newer.decision_id} wants {newer.action}"


def _lost_units(prepared: RescheduleCommand, now: Situation) -> tuple[int, ...]:
    """Units that learners made ready and whose host has died at that very time."""
    alive = {unit for host in now.hosts for unit in host.units}
    return tuple(sorted({unit for change in prepared.changes for unit in change.units} - alive)) if alive else ()
