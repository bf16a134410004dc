"""How many records came to a job, from the figures of its sources."""

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from contracts.messages import JobTopology
from contracts.windows import FIGURE, Float32


def source_load(rows: Mapping[str, Float32], topology: JobTopology, before: Mapping[str, Float32] | None = None) -> float:
    """Return the records that came to the job in one minute, NaN when no source reported or one does not know.

    ``before``: the rows of the minute before, if it was reported. ``demanded`` says how a source's records are counted.
    """
    sources = [spec.task for spec in topology.tasks if not spec.upstream and spec.task in rows]
    if not sources:
        return math.nan
    queued = [before[task][FIGURE["queued_records_last"]] if before and task in before else np.nan for task in sources]
    return float(demanded(np.array([rows[task] for task in sources]), np.array(queued)).sum())


def read_or_emitted(read: npt.NDArray[np.float64], emitted: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the records that entered through sources: what they read, or what they emit where they do not count that."""
    entered: npt.NDArray[np.float64] = np.where(read > 0, read, np.fmax(read, emitted))
    return entered


_DEMANDED = tuple(FIGURE[name] for name in ("records_in", "records_out", "queued_records_last", "arrived"))


def demanded(figures: Float32, queued_before: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return the records [..] that came to sources in a minute, from their figures [.., F] and the queue one minute before [..].

    Back pressure holds a source back, so what it lets in is not what came. ``arrived`` counts that where engine or broker know
    it. Else it is what entered plus the growth of the queue, if the queue is known. What entered is what the source reads, or
    what it emits if it does not count that (Flink's legacy sources). NaN where neither is known.
    """
    read, emitted, queued, arrived = (figures[..., at].astype(np.float64) for at in _DEMANDED)
    entered = read_or_emitted(read, emitted)
    grown = np.nan_to_num(queued - queued_before)
    found: npt.NDArray[np.float64] = np.where(np.isnan(arrived), np.maximum(entered + grown, 0.0), arrived)
    return found
