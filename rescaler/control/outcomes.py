"""Outcomes of decisions: the closed set of reasons, the status each may have, and what is remembered of an outcome."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from surescale.rescaler.gate import Phase

OutcomeStatus = Literal["held", "pending", "commanded", "superseded", "refused"]


class OutcomeReason(StrEnum):
    """Why a decision was held, is waiting, was commanded, was superseded, or was refused."""

    # held
    HOLD = "hold"
    """The policy wants no change."""
    # held or refused
    OLDER_DECISION = "older_decision"
    """A decision for a later span of the same job was handled already."""
    # pending
    COOLDOWN = "cooldown"
    """The job rests after its last rescale."""
    BACKOFF = "backoff"
    """The job rests longer: its last rescale failed."""
    STABILIZING = "stabilizing"
    """Units suffice for part of it; more may come."""
    STABILIZED = "stabilized"
    """The job waits for a checkpoint, for as long as one may take."""
    RESCALE_IN_PROGRESS = "rescale_in_progress"
    """An earlier command of this job is being carried out."""
    # pending or refused
    CATCHING_UP = "catching_up"
    """It came long after the end of its span, so newer decisions may be on their way."""
    NOT_ENOUGH_PARALLEL_UNITS = "not_enough_parallel_units"
    """Fewer units are usable than the least worth starting."""
    # commanded
    DESIRED = "desired"
    """In full."""
    SUFFICIENT = "sufficient"
    """In part: with as many units as there are."""
    ADVISE = "advise"
    """As advice, which actuators ignore. If refused: an act of the rescaler's own, which is never given as advice."""
    # superseded
    NEWER_DECISION = "newer_decision"
    """A later decision on the same job, act or hold, came while this one waited, or a newer window was there when it was made."""
    # refused
    OBSERVE = "observe"
    """The job's mode allows no commands."""
    UNKNOWN_JOB = "unknown_job"
    """No topology of this job is known."""
    JOB_NOT_RUNNING = "job_not_running"
    """The job has finished or failed."""
    UNKNOWN_TASK = "unknown_task"
    """The decision names a task that the topology does not have."""
    REPEATED_TASK = "repeated_task"
    """The decision names a task twice."""
    NOT_SCALABLE = "not_scalable"
    """The decision changes a task whose parallelism is fixed."""
    OUT_OF_BOUNDS = "out_of_bounds"
    """A wanted parallelism is outside the bounds in force now."""
    ABOVE_TOTAL_LIMIT = "above_total_limit"
    """The job would have more subtasks than it may."""
    SCALE_DOWN_WAITS = "scale_down_waits"
    """The lower need has not lasted as long as the settings ask."""
    INEFFECTIVE = "ineffective"
    """The last growth of the tasks that want to grow brought no throughput."""
    TOO_MANY_A_DAY = "too_many_a_day"
    """The job was rescaled as often as it may be within 24 hours."""
    ABOVE_CPU_LIMIT = "above_cpu_limit"
    """The job would take more cores than it may."""
    ABOVE_MEMORY_LIMIT = "above_memory_limit"
    """The job would take more memory than it may."""
    PAUSED = "paused"
    """Somebody has paused rescales in this direction."""
    EXCLUDED_PERIOD = "excluded_period"
    """The act waited until a time that the job's owner excluded from rescaling."""
    MEMORY_UNREADABLE = "memory_unreadable"
    """What the rescaler remembers of the job cannot be read."""
    NO_SUCH_ADVICE = "no_such_advice"
    """What was approved is not, or no longer, the job's newest advice."""
    ADVICE_OUTDATED = "advice_outdated"
    """The job or its hosts have changed, so what was approved can no longer be carried out exactly as advised."""
    NO_CHANGE = "no_change"
    """The job already runs with the wanted parallelism."""
    TOPOLOGY_CHANGED = "topology_changed"
    """The job's tasks changed while the decision waited."""
    INCONSISTENT_TOPOLOGY = "inconsistent_topology"
    """The topology contradicts itself, so no units can be chosen."""
    # refused, on a real engine only
    FOREIGN_REQUIREMENT = "foreign_requirement"
    """Somebody else has changed the parallelism that we asked for."""
    CONTESTED = "contested"
    """Somebody else keeps putting back the parallelism that we ask for."""
    NEW_EPOCH = "new_epoch"
    """The job was submitted again, and there are too few figures of it yet."""
    NO_CHECKPOINTS = "no_checkpoints"
    """The job takes no checkpoints, so a rescale would lose its state."""
    UNKNOWN_LOAD = "unknown_load"
    """The act would make a task smaller, and the job's load is not known."""


REASONS_BY_STATUS: dict[OutcomeStatus, frozenset[OutcomeReason]] = {
    "held": frozenset({OutcomeReason.HOLD, OutcomeReason.OLDER_DECISION}),
    "pending": frozenset(
        {
            OutcomeReason.COOLDOWN,
            OutcomeReason.BACKOFF,
            OutcomeReason.STABILIZING,
            OutcomeReason.STABILIZED,
            OutcomeReason.RESCALE_IN_PROGRESS,
            OutcomeReason.CATCHING_UP,
            OutcomeReason.NOT_ENOUGH_PARALLEL_UNITS,
        }
    ),
    "commanded": frozenset({OutcomeReason.DESIRED, OutcomeReason.SUFFICIENT, OutcomeReason.ADVISE}),
    "superseded": frozenset({OutcomeReason.NEWER_DECISION}),
    "refused": frozenset(
        {
            OutcomeReason.OLDER_DECISION,
            OutcomeReason.NOT_ENOUGH_PARALLEL_UNITS,
            OutcomeReason.OBSERVE,
            OutcomeReason.ADVISE,
            OutcomeReason.UNKNOWN_JOB,
            OutcomeReason.JOB_NOT_RUNNING,
            OutcomeReason.UNKNOWN_TASK,
            OutcomeReason.REPEATED_TASK,
            OutcomeReason.NOT_SCALABLE,
            OutcomeReason.OUT_OF_BOUNDS,
            OutcomeReason.ABOVE_TOTAL_LIMIT,
            OutcomeReason.SCALE_DOWN_WAITS,
            OutcomeReason.INEFFECTIVE,
            OutcomeReason.TOO_MANY_A_DAY,
            OutcomeReason.ABOVE_CPU_LIMIT,
            OutcomeReason.ABOVE_MEMORY_LIMIT,
            OutcomeReason.PAUSED,
            OutcomeReason.EXCLUDED_PERIOD,
            OutcomeReason.MEMORY_UNREADABLE,
            OutcomeReason.NO_SUCH_ADVICE,
            OutcomeReason.ADVICE_OUTDATED,
            OutcomeReason.NO_CHANGE,
            OutcomeReason.TOPOLOGY_CHANGED,
            OutcomeReason.INCONSISTENT_TOPOLOGY,
            OutcomeReason.FOREIGN_REQUIREMENT,
            OutcomeReason.CONTESTED,
            OutcomeReason.NEW_EPOCH,
            OutcomeReason.NO_CHECKPOINTS,
            OutcomeReason.UNKNOWN_LOAD,
        }
    ),
}
"""The reasons that each status may have."""

REFUSAL_CODES: dict[OutcomeReason, str] = {
    OutcomeReason.OLDER_DECISION: "STALE_GENERATION",
    OutcomeReason.UNKNOWN_TASK: "FRAGMENT_NOT_FOUND",
    OutcomeReason.TOPOLOGY_CHANGED: "FRAGMENT_NOT_FOUND",
    OutcomeReason.REPEATED_TASK: "INVALID_INPUT",
    OutcomeReason.NOT_SCALABLE: "SINGLETON_SCALE",
    OutcomeReason.OUT_OF_BOUNDS: "INVALID_PARALLELISM",
    OutcomeReason.ABOVE_TOTAL_LIMIT: "INVALID_PARALLELISM",
    OutcomeReason.INCONSISTENT_TOPOLOGY: "CLUSTER_INCONSISTENT",
}
"""Codes of refusals that ``surescale dev reschedule`` shares; every other code is the reason in capitals."""

WAITING_REASON: dict[Phase, OutcomeReason] = {
    Phase.COOLDOWN: OutcomeReason.COOLDOWN,
    Phase.STABILIZING: OutcomeReason.STABILIZING,
    Phase.STABILIZED: OutcomeReason.STABILIZED,
}
"""Why a pending act waits, by the phase of its gate."""


class LastOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The latest outcome of one decision. A decision that has one already is a duplicate."""

    job: str
    status: OutcomeStatus
    sequence: int
    at_ms: int
