"""What the rescaler makes of decisions in a closed loop: the user's limits that need a memory, and one rescale at a time. Pure.

A lower need waits until it has lasted, what was in vain is not repeated, and an act waits while a rescale is under way and for
the rest after it. There are always units enough, and nobody pauses anything, so the gate waits for nothing else.
"""

from collections.abc import Mapping

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision, TaskDecision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.policies.stateful_limits import Change, LimitsMemory, after_begin, after_end, apply_limits, with_needs

COOLDOWN_MS = 30_000
"""Rest of a job after a rescale: the gate's default, and the Flink adaptive scheduler's."""


def busy_minutes(restart_ms: int, effect_minutes: int) -> int:
    """Return the whole minutes from a decision until its job may be rescaled again."""
    return effect_minutes - (-(restart_ms + COOLDOWN_MS) // MINUTE_MS)


class Rescaler:
    """The rescaler of one job, whose rescales keep it ``busy`` for so many minutes; they always succeed."""

    def __init__(self, settings: JobSettings, busy: int) -> None:
        """Remember nothing yet."""
        self._settings, self._busy_ms = settings, busy * MINUTE_MS
        self._memory, self._decided_ms, self._free_ms = LimitsMemory(), 0, 0
        self._waiting: tuple[Mapping[str, int], Mapping[str, TaskDecision]] | None = None

    @property
    def waits(self) -> bool:
        """Return whether an act waits until the job may be rescaled again."""
        return self._waiting is not None

    def wanted(self, decision: Decision | None, topology: JobTopology, now_ms: int) -> Mapping[str, int]:
        """Return the sizes that tasks get now, empty where nothing is changed.

        ``decision``: the one of this minute; None: there is none, and an earlier one may still wait.
        """
        if decision is not None:
            self._take_on(decision, topology)
        if self._waiting is None or now_ms < self._free_ms:
            return {}
        (sizes, tasks), self._waiting = self._waiting, None
        changed = {
            spec.task: Change(spec.parallelism, sizes[spec.task], of.records_per_minute if of.overloaded else None)
            for spec in topology.tasks
            if (of := tasks.get(spec.task)) is not None and sizes[spec.task] != spec.parallelism
        }
        if changed:
            self._free_ms = now_ms + self._busy_ms
            self._memory = after_end(after_begin(self._memory, changed, now_ms), ok=True, at_ms=self._free_ms)
        return {task: sizes[task] for task in changed}

    def _take_on(self, decision: Decision, topology: JobTopology) -> None:
        engine, settings = topology.engine, self._settings
        self._memory = with_needs(self._memory, decision, settings, engine, before_ms=self._decided_ms)
        self._decided_ms, self._waiting = decision.span_end_ms, None
        if decision.action == "act":
            left = apply_limits(self._memory, decision, topology, settings, engine=engine, hosts=())
            if left.refusal is None:
                self._waiting = left.wanted, {task.task: task for task in decision.tasks}
