"""The load that a recorded job had, as a workload for the simulator. Pure."""

import numpy as np
import numpy.typing as npt

from policies.measure import measure
from simulation.calibration.recorded import Recorded
from simulation.load.workload import GAP_MINUTES, REQUESTS_MAX

Int64 = npt.NDArray[np.int64]


def recorded_load(recorded: Recorded) -> Int64:
    """Return the records that came to the job in each minute [T], whole numbers.

    A few unknown minutes in a row lie on a straight line between their neighbours. ``GAP_MINUTES`` and more are 0, which a
    workload takes for a gap and leaves out; so are those at either end.
    """
    load = measure(recorded.figures, recorded.graph).load
    known = np.flatnonzero(~np.isnan(load))
    filled = np.zeros(len(load))
    if len(known):
        filled = np.interp(np.arange(len(load)), known, load[known], left=0.0, right=0.0)
        for before, after in zip(known[:-1].tolist(), known[1:].tolist(), strict=True):
            if after - before > GAP_MINUTES:
                filled[before + 1 : after] = 0.0
    return np.minimum(np.rint(filled), REQUESTS_MAX).astype(np.int64)


def as_csv(load: Int64) -> str:
    """Return the file that ``--workload`` reads."""
    return "minute,requests\n" + "".join(f"{minute},{requests}\n" for minute, requests in enumerate(load.tolist()))
