"""Counts what an agent has done since it started, for its health endpoint and its metrics."""

import time
from collections.abc import Iterator, Mapping

from surescale.contracts.decisions import Decision
from surescale.contracts.topics import DEAD_LETTERS, DECISIONS, SHADOW_DECISIONS, SNAPSHOTS
from surescale.runtime.metrics import Reading, RoleMetrics, Tally
from surescale.services.agent import metrics

LOST = "lost"
"""How a question to a shadow policy ended if Kafka did not take the record."""


class AgentCounts:
    """Counts, and the error that ends the process."""

    def __init__(self) -> None:
        self.partitions = 0
        self.failed: BaseException | None = None
        self.windows = 0
        self.in_hand = 0
        """Windows that are being answered."""
        self.shadows_waiting = 0
        """Windows that wait for shadow policies."""
        self._decided, self._fallbacks, self._refused, self._shadows = Tally(), Tally(), Tally(), Tally()
        self._left = Tally()
        self.rejected = Tally()
        """Records of settings and releases that do not parse, by topic."""
        self.metrics = RoleMetrics("agent", metrics.METRICS, self._readings)

    def decided(self, decision: Decision, took_s: float) -> None:
        """Take note of a decision that Kafka has acknowledged; ``took_s`` is the time it took to answer."""
        policy = decision.policy
        self._decided.add(decision.action, policy.name)
        if policy.fallback_reason is not None:
            self._fallbacks.add(policy.asked or policy.name)
        if policy.left is not None:
            self._left.add(policy.name)
        self.metrics.observe(metrics.DECISION_DURATION, took_s)
        if decision.closed_append_ms is not None:
            self.metrics.observe(metrics.DECISION_DELAY, time.time() - decision.closed_append_ms / 1000)

    def shadow_answered(self, policy: str, status: str, took_s: float | None) -> None:
        """Take note of how a question to a shadow policy ended; ``took_s``: of an answer."""
        self._shadows.add(policy, status)
        if took_s is not None:
            self.metrics.observe(metrics.SHADOW_DURATION, took_s, policy)

    def refused(self, reason: str) -> None:
        """Take note of a window that became a dead letter."""
        self._refused.add(reason)

    def report(self) -> Mapping[str, object]:
        """Return the health document: ready once partitions are assigned."""
        return {
            "role": "agent",
            "ready": self.partitions > 0,
            "partitions": self.partitions,
            "windows": self.windows,
            "decisions": {"act": 0, "hold": 0, **self._decided.sums()},
            "refused": self._refused.total(),
            "rejected": self.rejected.total(),
        }

    def _readings(self) -> Iterator[Reading]:
        yield Reading(metrics.PARTITIONS, self.partitions)
        yield Reading(metrics.RECORDS_READ, self.windows, (SNAPSHOTS,))
        yield Reading(metrics.RECORDS_WRITTEN, self._decided.total(), (DECISIONS,))
        yield Reading(metrics.RECORDS_WRITTEN, self._refused.total(), (DEAD_LETTERS,))
        written = sum(count for (_, status), count in self._shadows.items() if status != LOST)
        yield Reading(metrics.RECORDS_WRITTEN, written, (SHADOW_DECISIONS,))
        yield Reading(metrics.SHADOWS_WAITING, self.shadows_waiting)
        yield from self._shadows.readings(metrics.SHADOW_ANSWERS)
        yield from self._decided.readings(metrics.DECISIONS)
        yield from self._fallbacks.readings(metrics.FALLBACKS)
        yield from self._left.readings(metrics.LEFT)
        yield from self._refused.readings(metrics.DEAD_LETTERS)
        yield from self.rejected.readings(metrics.REJECTED)
