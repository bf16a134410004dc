"""The service time of a task while it never rests, for engines that do not know how busy it is. Works on any batch axes.

A task with more waiting than it gets through in a minute works all the time, except while back pressure holds it. So its time is
known without its busy time (the "observed true processing rate" of the Flink operator's autoscaler, for sources that catch up).
The same tells a busy counter that covers a part of the work: ``contracts.saturation``.
"""

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.saturation import HELD_MOST, evened, not_begun
from surescale.contracts.windows import FIGURE, Float32
from surescale.policies.answer import Float64


def observed_service(figures: Float32) -> Float64:
    """Return subtask-minutes per record [.., N] over minutes of figures [.., L, N, F] that began and ended with enough waiting.

    NaN for a task without such a minute, or whose time under back pressure is unknown in all of them.
    """
    names = ("records_in", "records_out", "queued_records_last", "parallelism", "busy_ms", "idle_ms", "backpressured_ms")
    into, out, waiting, subtasks, busy, idle, held = (figures[..., FIGURE[name]].astype(np.float64) for name in names)
    through, left, spent = (np.moveaxis(each, -2, 0) for each in (np.fmax(into, out), waiting, busy))
    began = np.moveaxis(figures[..., FIGURE["restarts"]] > 0, -2, 0)
    processed = np.moveaxis(evened(through, left, spent, began), 0, -2)
    waiting = not_begun(waiting, subtasks)
    enough = waiting >= processed
    enough[..., 1:, :] &= waiting[..., :-1, :] >= processed[..., 1:, :]
    enough[..., 0, :] = False
    worked = np.maximum(subtasks * MINUTE_MS - held - np.nan_to_num(idle), 0.0)
    used = enough & (processed > 0) & (worked > HELD_MOST * subtasks * MINUTE_MS)  # held back all the time is not infinitely fast
    spent, records = (np.where(used, values, 0.0).sum(axis=-2) for values in (worked, processed))
    with np.errstate(divide="ignore", invalid="ignore"):
        service: Float64 = np.where(records > 0, spent / records / MINUTE_MS, np.nan)
    return service
