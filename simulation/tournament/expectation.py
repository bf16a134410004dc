"""What a job must keep to for the winner of a tournament to serve it: the twin's figures, widened by its error. Pure."""

import math
from collections.abc import Sequence

import numpy as np

from contracts.clock import MINUTE_MS
from contracts.tournaments import Expectation
from policies.answer import Float64
from policies.departure import STRETCHES, busy_ms, per_record
from simulation.calibration.load import recorded_load
from simulation.tournament.score import TwinError
from simulation.what_if.play import Played
from simulation.what_if.scenario import Scenario

WORK_ERROR_LEAST = 0.15
"""A few days have not seen the cheapest and the dearest hour that the job will have."""
WAITING_ERROR_LEAST = 0.5
WAITING_LEAST = 0.25
"""Minutes of waiting that never count as a departure."""


def expectation(winner: Sequence[Played], ground: Scenario, error: TwinError) -> Expectation:
    """Return what the twin predicted of a job under the winner, over all draws, hours and stretches of ``policies.departure``.

    The work on a record does not depend on who sizes the job, so what was recorded counts as well.
    """
    load = ground.load.astype(np.float64)
    work, waiting = (
        [_of(busy_ms(ground.recorded.figures), recorded_load(ground.recorded))],
        [np.array([np.nan])],
    )
    for played in winner:
        work.append(_of(played.busy * MINUTE_MS, load))
        waiting.append(_of(played.waiting, load))
    least, most = _range(work)
    _, longest = _range(waiting)
    off = 1.0 + max(error.working, WORK_ERROR_LEAST)
    later = 1.0 + max(min(error.waiting, 1.0), WAITING_ERROR_LEAST)
    return Expectation(
        work_least=_rounded(least / off) if math.isfinite(least) else 0.0,
        work_most=_rounded(most * off) if math.isfinite(most) else 1e9,
        waiting_most=_rounded(max(WAITING_LEAST, longest * later)) if math.isfinite(longest) else WAITING_LEAST,
    )


def _of(values: Float64, load: Float64) -> Float64:
    """Return values per record over every stretch, of all lengths."""
    lengths = [minutes for minutes in STRETCHES if minutes <= len(load)]
    found: Float64 = np.concatenate([np.full(1, np.nan), *(per_record(values, load, minutes) for minutes in lengths)])
    return found


def _range(parts: Sequence[Float64]) -> tuple[float, float]:
    """Return the least and the largest known value; NaN twice if none is known."""
    values = np.concatenate(parts)
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if len(known) else (math.nan, math.nan)


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
