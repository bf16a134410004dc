"""The closed set of words that stand in an outcome's ``reason``, grouped by the status they may stand with."""

from enum import StrEnum

from rescaler.gate import Phase


class Reason(StrEnum):
    """Why a decision was held, waits, was commanded, gave way, or was refused."""

    # held
    HOLD = "hold"
    """The policy wants no change."""
    # held or refused
    OLDER_DECISION = "older_decision"
    """A decision for a later span of the same job was handled before."""
    # pending
    COOLDOWN = "cooldown"
    """The job rests after its last rescale."""
    BACKOFF = "backoff"
    """The job rests longer: its last rescale failed."""
    STABILIZING = "stabilizing"
    """There are units for some of it; more may come."""
    STABILIZED = "stabilized"
    """Waiting for a checkpoint, or for the longest time that one may take."""
    RESCALE_IN_PROGRESS = "rescale_in_progress"
    """An earlier command of this job is being carried out."""
    # pending or refused
    NOT_ENOUGH_PARALLEL_UNITS = "not_enough_parallel_units"
    """Fewer usable units than the least that is worth starting."""
    # commanded
    DESIRED = "desired"
    """In full."""
    SUFFICIENT = "sufficient"
    """In part: as many units as there are."""
    ADVISE = "advise"
    """As advice, which actuators ignore. Refused: the rescaler's own acts are no advice."""
    # superseded
    NEWER_DECISION = "newer_decision"
    """A later decision of the same job, act or hold, came while this one waited."""
    # refused
    OBSERVE = "observe"
    """The job's mode allows no commands."""
    UNKNOWN_JOB = "unknown_job"
    """No topology of such a job is known."""
    JOB_NOT_RUNNING = "job_not_running"
    """The job has finished or failed."""
    UNKNOWN_TASK = "unknown_task"
    """The decision names a task that is not in the topology."""
    REPEATED_TASK = "repeated_task"
    """The decision names a task twice."""
    NOT_SCALABLE = "not_scalable"
    """The decision changes a task whose parallelism is fixed."""
    OUT_OF_BOUNDS = "out_of_bounds"
    """A wanted parallelism lies outside the bounds in force now."""
    ABOVE_TOTAL_LIMIT = "above_total_limit"
    """The wanted parallelism adds up to more than the job may have."""
    NO_CHANGE = "no_change"
    """The job already runs with the wanted parallelism."""
    TOPOLOGY_CHANGED = "topology_changed"
    """The job's tasks changed while the decision waited."""
    INCONSISTENT_TOPOLOGY = "inconsistent_topology"
    """The topology contradicts itself, so that no units can be chosen."""


REASONS_BY_STATUS: dict[str, frozenset[Reason]] = {
    "held": frozenset({Reason.HOLD, Reason.OLDER_DECISION}),
    "pending": frozenset(
        {
            Reason.COOLDOWN,
            Reason.BACKOFF,
            Reason.STABILIZING,
            Reason.STABILIZED,
            Reason.RESCALE_IN_PROGRESS,
            Reason.NOT_ENOUGH_PARALLEL_UNITS,
        }
    ),
    "commanded": frozenset({Reason.DESIRED, Reason.SUFFICIENT, Reason.ADVISE}),
    "superseded": frozenset({Reason.NEWER_DECISION}),
    "refused": frozenset(
        {
            Reason.OLDER_DECISION,
            Reason.NOT_ENOUGH_PARALLEL_UNITS,
            Reason.OBSERVE,
            Reason.ADVISE,
            Reason.UNKNOWN_JOB,
            Reason.JOB_NOT_RUNNING,
            Reason.UNKNOWN_TASK,
            Reason.REPEATED_TASK,
            Reason.NOT_SCALABLE,
            Reason.OUT_OF_BOUNDS,
            Reason.ABOVE_TOTAL_LIMIT,
            Reason.NO_CHANGE,
            Reason.TOPOLOGY_CHANGED,
            Reason.INCONSISTENT_TOPOLOGY,
        }
    ),
}
"""What may stand with which status."""

REFUSAL_CODES: dict[Reason, str] = {
    Reason.OLDER_DECISION: "STALE_GENERATION",
    Reason.UNKNOWN_TASK: "FRAGMENT_NOT_FOUND",
    Reason.TOPOLOGY_CHANGED: "FRAGMENT_NOT_FOUND",
    Reason.REPEATED_TASK: "INVALID_INPUT",
    Reason.NOT_SCALABLE: "SINGLETON_SCALE",
    Reason.OUT_OF_BOUNDS: "INVALID_PARALLELISM",
    Reason.ABOVE_TOTAL_LIMIT: "INVALID_PARALLELISM",
    Reason.INCONSISTENT_TOPOLOGY: "CLUSTER_INCONSISTENT",
}
"""Codes of refused decisions that ``surescale reschedule`` has too; every other one is the reason in capitals."""

WAITING_REASON: dict[Phase, Reason] = {
    Phase.COOLDOWN: Reason.COOLDOWN,
    Phase.STABILIZING: Reason.STABILIZING,
    Phase.STABILIZED: Reason.STABILIZED,
}
"""What a pending act waits for while the gate is in a phase."""
