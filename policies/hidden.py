"""Tasks that never rest, and the load that they hide: what they get through says only how much comes at least. Pure."""

from typing import Final

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.saturation import NEVER_RESTS
from surescale.contracts.windows import FIGURE
from surescale.policies.graph import Bool
from surescale.policies.measure import mean_of_last
from surescale.policies.question import Question

RESTLESS_MINUTES: Final = 3
"""In which a task must have worked all the time never to rest."""


def hidden_load(question: Question) -> float:
    """Return what a job gets through at present, records a minute, if nobody knows how much more comes to it; else 0.

    That is so where a task never rests and a source tells neither what arrives nor what waits: what it reads is a lower bound.
    """
    newest = question.figures[-1, question.graph.by_level[0]]
    untold = np.isnan(newest[:, [FIGURE["arrived"], FIGURE["queued_records_last"]]]).all(axis=-1)
    if not untold.any() or not never_resting(question).any():
        return 0.0
    return float(np.nan_to_num(mean_of_last(question.measured.load, RESTLESS_MINUTES)))


def never_resting(question: Question) -> Bool:
    """Return the tasks [N] that never rested in any of the last ``RESTLESS_MINUTES``."""
    lately = question.figures[-RESTLESS_MINUTES:].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        busy = lately[..., FIGURE["busy_ms"]] / (lately[..., FIGURE["parallelism"]] * MINUTE_MS)
    return question.graph.scalable & (busy >= NEVER_RESTS).all(axis=0)  # False where unknown
