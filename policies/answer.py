"""Answers of a policy: wanted parallelism with an explanation, or one of two refusals. Plain values; nothing is decided here."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from surescale.contracts.decisions import ChangeScore, FeatureDrift, LoadOutlook, SampledMinute
from surescale.contracts.rounding import round_half_up

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

RATIO_MAX = 2.0  # SURE (IJCAI 2022): an action is a ratio in (0, 2]
RATIO_MIN = 1e-3  # means "as few as possible": rounding and bounds turn it into one subtask


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """The parallelism a policy wants, before guardrails.

    Attributes:
        wanted: int64 [N], subtasks of each task, in the order of the window's tasks; the present number = no change.
        reason: one sentence for people.
        looked_at: the sampled snapshots of each task, [N] tuples; empty for a policy that does not sample.
        ratios: float64 [N], what a policy answered whose actions are ratios, as in SURE; None: derived from ``wanted``.
        compared: how the best change compared with no change; None for a policy that does not score.
        outlook: the load that it expected; None for a policy that does not look ahead.
        drift: how far its features lie from its training; None for a policy that does not know.
        leap: int64 ([N], [N]), the least and the most that one decision may reach whatever the step limits, since a timetable
            tells what comes; None: none does.
    """

    wanted: Int64
    reason: str
    looked_at: tuple[tuple[SampledMinute, ...], ...] = field(default=())
    ratios: Float64 | None = None
    compared: ChangeScore | None = None
    outlook: LoadOutlook | None = None
    drift: FeatureDrift | None = None
    leap: tuple[Int64, Int64] | None = None


def answer_in_ratios(ratios: Float64, current: Int64, reason: str) -> RawAnswer:
    """Return ratios [N] in (0, 2] as an answer: each task's present parallelism times its ratio, halves up.

    >>> answer_in_ratios(np.array([1.5, 0.1]), np.array([3, 4]), "").wanted.tolist()
    [5, 0]
    """
    wanted = np.array([round_half_up(size * ratio) for size, ratio in zip(current, ratios, strict=True)], dtype=np.int64)
    return RawAnswer(wanted, reason, ratios=ratios)


@dataclass(frozen=True, slots=True)
class NotReady:
    """There is too little history to answer yet. Not a failure: ask again later."""

    missing_minutes: int


@dataclass(frozen=True, slots=True)
class PolicyFailed:
    """The policy cannot be trusted with this window. The rule takes over and repeats the reason, and the drift if it is known."""

    reason: str
    drift: FeatureDrift | None = None


Answer = RawAnswer | NotReady | PolicyFailed
