"""What a plan is made from: its calibrated constants, the sizes it may choose, and what is known of the jobs it sizes."""

import math
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from surescale.contracts.job_settings import LatencyBound, Objective
from surescale.policies.answer import Float64
from surescale.policies.graph import Int64, JobGraph
from surescale.policies.latency_bound import Bound, restart_late_minutes
from surescale.policies.limits import Limits
from surescale.policies.measure import Measured
from surescale.policies.policy import SEEN_MINUTES, SPAN_MINUTES
from surescale.policies.sure.outlook import Expected

LATER_POWER = 2.0  # of a restart's length, in the price of a later one
WEEK_RESTART_MINUTES = 5  # a shorter restart, or one of unknown length, is undone soon enough by what the last days show
RESTART_STAGE_MINUTES = 20.0  # over which the minutes that a later restart puts above a bound are spread
GAIN_POWER = 1.5  # of a restart's length, in what a change must gain
WEIGHTS: dict[Objective, float] = {"cost": 0.3, "latency": 0.7}
"""Weight of latency in the reward that a plan maximises, by the job's objective; any other: as shipped."""
PassingMinutes = Annotated[int, Meta(ge=0)]


class Planning(msgspec.Struct, frozen=True, kw_only=True):
    """Constants of the plan, calibrated on the training loads for all jobs together. Rewards are per stage."""

    latency_weight: Annotated[float, Meta(ge=0.0, le=1.0)]  # lambda of the reward
    effect_minutes: PassingMinutes  # from a decision to its restart
    restart_minutes: PassingMinutes
    scenarios: Annotated[tuple[float, ...], Meta(min_length=1)]  # of the load, in standard deviations of the outlook
    later_restart: float  # price of a restart after the first stage, in reward
    gain_min: float  # a change must beat holding by this much reward
    again: float  # each restart of the last hour adds this many ``gain_min``: a job that just changed changes less easily
    again_later: float = 0.0  # each restart of the last hour adds this many ``later_restart`` to the price of a later one
    surge_weight: float = 0.0  # of the latency that surges like those of the last day would cause
    surge_minutes: Annotated[float, Meta(ge=0.0)] = 5.0  # how long a surge lasts
    young_minutes: int  # no task shrinks while fewer minutes are known
    calm_restarts: float = 0.0  # a job whose hours hardly differ is treated as if it had restarted this often in the last hour
    patience: float = 1.25  # such a job shrinks only once the mean of the last 15 minutes is within this factor of the last 5
    hindsight_days: float = 0.0  # how many days a constant size counts for where following the load did not pay
    hindsight_gain: float = 0.003  # a size must have been the better constant by this much reward to be changed to
    hindsight_margin: Annotated[float, Meta(gt=0.0)] = 0.025  # the best constant must have won by this much reward to count
    forced_restart: float = 0.0  # price of a restart that the load floor forces, beyond that of a shipped one; 0: not counted
    restart_part: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.0  # of one minute more; of the job's restart, never of a package
    bound: Bound | None = None  # of the job's owner, never of a package: minutes above it count, in place of latency

    @property
    def looks_back_a_week(self) -> bool:
        """Return whether a restart is so long that sizes have to suit the week, and not only the last days."""
        return self.forced_restart > 0 and self.lost_minutes >= WEEK_RESTART_MINUTES

    @property
    def lost_minutes(self) -> float:
        """Return how long a restart takes."""
        return self.restart_minutes + self.restart_part

    @property
    def lead_minutes(self) -> int:
        """Return the minutes from a decision until what it changes is at work for the whole of one."""
        return self.effect_minutes + math.ceil(self.lost_minutes)


def with_restart(shipped: Planning, restart_seconds: float | None) -> Planning:
    """Return the constants of a plan for a job whose restart takes this long; None: as shipped.

    The plan simulates minutes, of which a restart may take a part. What waits after it grows with its length, and so does the
    time to work it off, so prices of later ones go with the square: a rebalance of a second costs next to nothing, but no less
    than a change must gain.
    What is paid beyond the shipped price counts for restarts that the load floor forces, too: they were part of what was
    calibrated. A change need not gain less where a restart is short: what the load may do is as uncertain.
    """
    if restart_seconds is None:
        return shipped
    minutes = restart_seconds / 60.0
    times = minutes / max(shipped.restart_minutes, 1)
    shipped = msgspec.structs.replace(shipped, restart_minutes=math.floor(minutes), restart_part=minutes - math.floor(minutes))
    if times < 1.0:
        later = max(shipped.later_restart * times**LATER_POWER, min(shipped.gain_min, shipped.later_restart))
        return msgspec.structs.replace(shipped, later_restart=later)
    return msgspec.structs.replace(
        shipped,
        later_restart=shipped.later_restart * times**LATER_POWER,
        gain_min=shipped.gain_min * times**GAIN_POWER,
        forced_restart=shipped.later_restart * (times**LATER_POWER - 1.0),
    )


def with_objective(shipped: Planning, objective: Objective | LatencyBound | None) -> Planning:
    """Return the constants of a plan that weighs latency as a job's owner wants; None and ``balanced``: as shipped."""
    weight = WEIGHTS.get(objective) if isinstance(objective, str) else None
    return shipped if weight is None else msgspec.structs.replace(shipped, latency_weight=weight)


def with_growth_at_once(shipped: Planning) -> Planning:
    """Return the constants of a plan for a job that grows as soon as it is plainly overloaded (``policies.emergency``).

    A surge that the present size cannot carry then lasts until there is a larger one. Spare subtasks for more than that are paid
    for all day and spare nothing. Growth waits until as many records do as come during a restart, and then for the restart.
    """
    until_grown = SEEN_MINUTES + 2.0 * shipped.lost_minutes
    return msgspec.structs.replace(shipped, surge_minutes=min(shipped.surge_minutes, until_grown))


def with_bound(shipped: Planning, wanted: LatencyBound, path_minutes: float) -> Planning:
    """Return the constants of a plan that keeps a bound on latency; the work on a record alone takes ``path_minutes``.

    What a later restart costs is then the minutes that it puts above the bound.
    """
    bound = Bound.of(wanted, path_minutes)
    late = restart_late_minutes(shipped.lost_minutes, bound.minutes)
    price = shipped.latency_weight * bound.price * min(1.0, late / RESTART_STAGE_MINUTES)
    forced = price if shipped.forced_restart > 0 else 0.0
    return msgspec.structs.replace(shipped, bound=bound, later_restart=max(shipped.gain_min, price), forced_restart=forced)


@dataclass(frozen=True, slots=True)
class PlanningInput:
    """B jobs of one graph at the moment of a plan.

    Attributes:
        expected: their load over the coming stages.
        measured: their last window, with a batch axis.
        current: int64 [B, N], present parallelism.
        graph: of all of them.
        limits: of all of them.
        restarts: int64 [B], restarts in the window.
        span_minutes: from one decision to the next.
        got_through: float64 [B, N], the most records that an even subtask of a task got through in a minute; None: not asked.
        is_restart_known: what a restart takes is known of these jobs, or assumed of a real engine; else it is as calibrated.
    """

    expected: Expected
    measured: Measured
    current: Int64
    graph: JobGraph
    limits: Limits
    restarts: Int64
    span_minutes: int = SPAN_MINUTES
    got_through: Float64 | None = None
    is_restart_known: bool = False
