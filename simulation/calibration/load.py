"""The load that a recorded job had, as a workload for the simulator. Pure."""

import numpy as np
import numpy.typing as npt

from policies.measure import measure
from simulation.calibration.recorded import Recorded
from simulation.load.workload import REQUESTS_MAX

Float64 = npt.NDArray[np.float64]

GAP_MINUTES = 10  # in a row that nobody counted stay unknown


def recorded_load(recorded: Recorded) -> Float64:
    """Return the records that came to the job in each minute [T], whole numbers; NaN in a gap.

    A few unknown minutes in a row lie on a straight line between their neighbours. ``GAP_MINUTES`` and more are a gap, and so are
    those at either end.
    """
    load = measure(recorded.figures, recorded.graph).load
    known = np.flatnonzero(~np.isnan(load))
    filled = np.full(len(load), np.nan)
    if len(known):
        filled = np.interp(np.arange(len(load)), known, load[known], left=np.nan, right=np.nan)
        for before, after in zip(known[:-1].tolist(), known[1:].tolist(), strict=True):
            if after - before > GAP_MINUTES:
                filled[before + 1 : after] = np.nan
    whole: Float64 = np.minimum(np.rint(filled), REQUESTS_MAX)
    return whole


def as_csv(load: Float64) -> str:
    """Return the file that ``--workload`` reads."""
    cells = ["" if np.isnan(requests) else f"{requests:.0f}" for requests in load.tolist()]
    return "minute,requests\n" + "".join(f"{minute},{requests}\n" for minute, requests in enumerate(cells))
