"""The memory of one job's control and what it has answered: everything about a job that is kept, and how it is changed.

What it does not do: decide (`rescaler.control.job_control` does).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from contracts.ids import Cluster
from contracts.messages import Decision, JobTopology
from contracts.topology import units_of
from rescaler.control.answers import Answers
from rescaler.control.job_gate import settings_after
from rescaler.control.memory import Condition, JobMemory, PendingAct, RequestMemory
from rescaler.control.reasons import Reason
from rescaler.control.situation import ControlSettings, Ledger, Situation
from rescaler.control.view import observed
from rescaler.control.waiting import wake_at_ms
from rescaler.gate_settings import GateSettings


class Remembering:
    """One job's memory, replaced as a whole by every change, and the outcomes of its decisions."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ControlSettings,
        memory: JobMemory,
        requests: Mapping[str, RequestMemory],
    ) -> None:
        self.memory = memory
        self._answers = Answers(cluster, memory.job, requests)
        self._cluster = cluster
        self._settings = settings

    @property
    def requests(self) -> dict[str, RequestMemory]:
        """The latest outcome of each decision, by its id."""
        return self._answers.requests

    def wake_at_ms(self) -> int | None:
        """When `on_tick` has something to do at the latest."""
        return wake_at_ms(self.memory, self._gate_settings())

    def describe(self, conditions: tuple[Condition, ...]) -> None:
        """Remember how the job is."""
        self._remember(conditions=conditions)

    def units(self, topology: JobTopology | None) -> frozenset[int]:
        """Units that the job has or is about to have."""
        held = units_of(observed(topology, self.memory)) if topology else frozenset()
        outstanding = self.memory.outstanding
        changes = outstanding.changes if outstanding and outstanding.action != "abort" else ()
        coming = {unit for change in changes for unit in change.units}
        return held | coming

    # Outcomes

    def _answer(self, decision: Decision, now: Situation, ledger: Ledger, status: str, reason: Reason, detail: str = "") -> None:
        """The first and last outcome of a decision that was never pending."""
        self._answers.give(decision.decision_id, decision.span_end_ms, now.now_ms, ledger, status, reason, detail=detail)

    def _promise(self, reason: Reason, until_ms: int | None, now: Situation, ledger: Ledger) -> None:
        self.memory = self._answers.promise(self.memory, reason, until_ms, now.now_ms, ledger)

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
        self._answers.give(
            pending.decision_id, pending.span_end_ms, at_ms, ledger, status, reason, detail=detail, command=command
        )

    def _seen(self, topology: JobTopology) -> JobTopology:
        return observed(topology, self.memory)

    def _remember(self, **changes: object) -> None:
        changed = msgspec.structs.replace(self.memory, **changes)
        if changed != self.memory:
            self.memory = changed

    def _gate_settings(self) -> GateSettings:
        return settings_after(self._settings.gate, self.memory.failures)
