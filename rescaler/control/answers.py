"""What decisions of one job were answered: writes outcomes with rising sequence and remembers each decision's latest.

What it does not do: decide what the answer is.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from contracts.commands import Outcome
from contracts.ids import Cluster
from rescaler.control.memory import JobMemory, RequestMemory
from rescaler.control.reasons import REASONS_BY_STATUS, REFUSAL_CODES, Reason
from rescaler.control.situation import Ledger


class Answers:
    """The outcomes of one job's decisions; ``requests`` holds the latest of each, by decision id."""

    def __init__(self, cluster: Cluster, job: str, requests: Mapping[str, RequestMemory]) -> None:
        self.requests = dict(requests)
        self._cluster, self._job = cluster, job

    def give(
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
        checkpoint: int = 0,
    ) -> None:
        """Write the next outcome of a decision."""
        assert reason in REASONS_BY_STATUS[status], (status, reason)
        before = self.requests.get(decision_id)
        sequence = 0 if before is None else before.sequence + 1
        request = RequestMemory(job=self._job, status=status, sequence=sequence, at_ms=at_ms)
        self.requests[decision_id] = ledger.requests[decision_id] = request
        ledger.outcomes.append(
            Outcome(
                cluster=self._cluster,
                job=self._job,
                decision_id=decision_id,
                span_end_ms=span_end_ms,
                status=status,  # type: ignore[arg-type]  # checked against the closed set above
                reason=reason.value,
                at_ms=at_ms,
                sequence=sequence,
                until_ms=until_ms,
                command_id=command,
                detail=detail,
                code=REFUSAL_CODES.get(reason, reason.value.upper()) if status == "refused" else "",
                checkpoint=checkpoint,
            )
        )

    def promise(self, memory: JobMemory, reason: Reason, until_ms: int | None, now_ms: int, ledger: Ledger) -> JobMemory:
        """Say why the pending act waits and until when; nothing, when that has been said and the time has not come."""
        pending, checkpoint = memory.pending, memory.checkpoint
        if pending is None:
            return memory
        assert until_ms is not None, "whatever waits has an end"
        if (pending.reason, pending.until_ms, pending.checkpoint) == (reason, until_ms, checkpoint):
            return memory
        at_ms = now_ms if pending.until_ms is None else min(now_ms, pending.until_ms)
        of, span_end_ms = pending.decision_id, pending.span_end_ms
        self.give(of, span_end_ms, at_ms, ledger, "pending", reason, until_ms=until_ms, checkpoint=checkpoint)
        said = msgspec.structs.replace(pending, reason=reason.value, until_ms=until_ms, checkpoint=checkpoint)
        return msgspec.structs.replace(memory, pending=said)

    def forget_before(self, oldest_ms: int, ledger: Ledger) -> None:
        """Forget decisions whose last outcome is older than this."""
        for decision_id, request in sorted(self.requests.items()):
            if request.at_ms < oldest_ms and request.status != "pending":
                del self.requests[decision_id]
                ledger.requests[decision_id] = None
