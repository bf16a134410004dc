"""Finds the pipeline's time at each record, to tell which records are ahead of the clock. Pure.

The segment in force is the last one the broker appended before the record. So a record replayed an hour later is judged as it
was the first time, even though the clock has moved on.
"""

from collections.abc import Sequence

import numpy as np

from surescale.contracts.clock import pipeline_time_ms
from surescale.contracts.messages import ClockSegment
from surescale.spark_streaming.columns import Int64

TimedSegment = tuple[int, ClockSegment]  # the broker's append time of the segment, and the segment


def references(segments: Sequence[TimedSegment], append_ms: Int64) -> Int64:
    """Return int64 [n], the pipeline's time at each append time; the append times themselves in a pipeline without a clock.

    A record older than the first known segment is judged by that segment.
    """
    if not segments:
        return append_ms
    appended = np.array([at_ms for at_ms, _ in segments], dtype=np.int64)
    in_force = np.maximum(np.searchsorted(appended, append_ms, side="right") - 1, 0)
    # Few distinct pairs: a batch's records were appended within milliseconds of each other.
    pairs, position = np.unique(np.stack([in_force, append_ms]), axis=1, return_inverse=True)
    times = np.array([pipeline_time_ms(segments[which][1], wall_ms) for which, wall_ms in pairs.T.tolist()], dtype=np.int64)
    found: Int64 = times[position]
    return found
