"""What a policy answers: ratios with an explanation, or one of two refusals that are data. Decides nothing itself."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from contracts.messages import LookedAt

Float64 = npt.NDArray[np.float64]

RATIO_MAX = 2.0  # SURE: a ratio lies in (0, 2]
RATIO_MIN = 1e-3  # stands for "as few as possible": rounding and bounds make one subtask of it


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """What a policy wants before rounding and guardrails.

    Attributes:
        ratios: float64 [N], wanted over current parallelism in (0, 2], in the order of the window's tasks; 1.0 = no change.
        reason: one sentence for people.
        looked_at: per task the sampled snapshots, [N] tuples; empty for a policy that does not sample.
    """

    ratios: Float64
    reason: str
    looked_at: tuple[tuple[LookedAt, ...], ...] = field(default=())


@dataclass(frozen=True, slots=True)
class NotReady:
    """Too little history to answer: no alarm, ask again later."""

    missing_minutes: int


@dataclass(frozen=True, slots=True)
class PolicyFailed:
    """The policy cannot be trusted with this window; the rule takes over and repeats the reason."""

    reason: str


Answer = RawAnswer | NotReady | PolicyFailed


def ratios_of(wanted: npt.NDArray[np.int64], current: npt.NDArray[np.int64]) -> Float64:
    """Turn wanted parallelism [N] into ratios in (0, 2] that round back to it where twice the present size allows.

    >>> ratios_of(np.array([3, 9]), np.array([2, 3])).tolist()
    [1.5, 2.0]
    """
    ratios: Float64 = np.clip(wanted / current, RATIO_MIN, RATIO_MAX)
    return ratios
