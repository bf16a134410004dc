"""How many records came to a job, from the figures of its sources."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import JobTopology
from surescale.contracts.windows import FIGURE, Float32, of_all_subtasks

WHOLE_LEAST = 0.9
"""Share of a minute that a source must have run; of a shorter one nobody knows what came while it was down."""
BUSY_LEAST = 0.05
"""Share of its time from which a source that counts no record is at work, and so does not count what it does."""

JUMPED_LEAST = 10.0
"""Times what was read and waits longer that must seem to have come for the rest to count as skipped, and so many records more."""
JUMPED_RECORDS = 100.0


@dataclass(frozen=True, slots=True)
class SourceMinute:
    """One minute of those sources of a job that reported.

    Attributes:
        figures: float32 [S, F].
        queued_before: [S], the queue of each one minute before; NaN: unknown.
        is_partly_unknown: bool [S], whether its broker tells only a part of what it reads.
    """

    figures: Float32
    queued_before: npt.NDArray[np.floating]
    is_partly_unknown: npt.NDArray[np.bool_]


def source_load(rows: Mapping[str, Float32], topology: JobTopology, before: Mapping[str, Float32] | None = None) -> float:
    """Return the records that came to the job in one minute, NaN when no source reported or one does not know.

    ``before``: the rows of the minute before, if it was reported.
    """
    return source_loads([source_minute(rows, topology, before)])[0]


def source_minute(
    rows: Mapping[str, Float32], topology: JobTopology, before: Mapping[str, Float32] | None = None
) -> SourceMinute:
    """Return what ``source_loads`` takes of a job's minute; ``before``: the rows of the minute before, if it was reported."""
    specs = [spec for spec in topology.tasks if not spec.upstream and spec.task in rows]
    sources = [spec.task for spec in specs]
    queued = [before[task][FIGURE["queued_records_last"]] if before and task in before else np.nan for task in sources]
    is_part = np.array([bool(spec.backlog_partly_unknown) for spec in specs], dtype=np.bool_)
    figures = np.array([rows[task] for task in sources], dtype=np.float32).reshape(-1, len(FIGURE))
    return SourceMinute(figures, np.array(queued, dtype=np.float64), is_part)


def source_loads(jobs: Sequence[SourceMinute]) -> list[float]:
    """Return what ``source_load`` does of each job, in one go: NumPy's calls cost more than the work on one job.

    ``demanded`` says how a source's records are counted. Where its broker tells a part of what it reads, that is no load.
    """
    figures = of_all_subtasks(np.concatenate([each.figures for each in jobs]))
    queued = np.concatenate([each.queued_before for each in jobs])
    is_part = np.concatenate([each.is_partly_unknown for each in jobs]) & np.isnan(figures[..., FIGURE["arrived"]])
    came = np.where(is_part, np.nan, demanded(figures, queued))
    edges = pairwise(accumulate((len(each.figures) for each in jobs), initial=0))
    return [float(came[begin:end].sum()) if end > begin else math.nan for begin, end in edges]


def read_or_emitted(read: npt.NDArray[np.float64], emitted: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the records that entered through sources: what they read, or what they emit where they do not count that."""
    entered: npt.NDArray[np.float64] = np.where(read > 0, read, np.fmax(read, emitted))
    return entered


_DEMANDED = tuple(FIGURE[name] for name in ("records_in", "records_out", "queued_records_last", "arrived"))
_TIMES = tuple(FIGURE[name] for name in ("busy_ms", "idle_ms", "backpressured_ms", "parallelism"))


def demanded(figures: Float32, queued_before: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return the records [..] that came to sources in a minute, from their figures [.., F] and the queue one minute before [..].

    Back pressure holds a source back, so what it lets in is not what came. ``arrived`` counts that where engine or broker know
    it. Else it is what entered plus the growth of the queue, if the queue is known. What entered is what the source reads, or
    what it emits if it does not count that (Flink's legacy sources). NaN where neither is known, where a source that is at work
    or held back counts nothing, and for a minute that is not whole where only what entered is known: one in which an attempt
    began, or of which the source ran for less than ``WHOLE_LEAST``.

    What came was read or waits. Where many times as much seems to have come, the source's position was put forward, and records
    that nobody reads are no load.
    """
    read, emitted, queued, arrived = (figures[..., at].astype(np.float64) for at in _DEMANDED)
    entered = read_or_emitted(read, emitted)
    is_guess = is_guessed(queued, queued_before)
    untold = np.isnan(arrived) & (is_guess | (entered == 0.0))
    if untold.any():
        busy, idle, held, subtasks = (figures[..., at].astype(np.float64) for at in _TIMES)
        offered = subtasks * MINUTE_MS
        began = figures[..., FIGURE["restarts"]] > 0
        is_short = is_guess & (began | (busy + idle + held < WHOLE_LEAST * offered))  # False where unknown
        at_work = busy + np.nan_to_num(held) > BUSY_LEAST * offered
        entered[untold & (is_short | ((entered == 0.0) & at_work))] = np.nan
    grown = np.nan_to_num(queued - queued_before)
    through = np.maximum(entered + grown, 0.0)
    has_jumped = (arrived > JUMPED_LEAST * through + JUMPED_RECORDS) & (read > 0) & ~is_guess
    if has_jumped.any():
        has_jumped &= ~(figures[..., FIGURE["restarts"]] > 0)
    found: npt.NDArray[np.float64] = np.where(np.isnan(arrived) | has_jumped, through, arrived)
    return found


def is_guessed(queued: npt.NDArray[np.floating], queued_before: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    """Return [..] where only what a source let in is known: its queue does not tell the difference, nor is it empty."""
    guessed: npt.NDArray[np.bool_] = np.isnan(queued - queued_before) & ~(queued <= 0)
    return guessed
