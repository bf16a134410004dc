"""The minutes of one job that a recording holds, put together from its windows, and the load they show. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import SurescaleError
from surescale.contracts.messages import JobTopology
from surescale.contracts.source_load import read_or_emitted
from surescale.contracts.windows import FIGURE, FIGURES, Float32, Window
from surescale.policies.graph import JobGraph, job_graph
from surescale.policies.measure import measure
from surescale.simulation.load.workload import REQUESTS_MAX

GAP_MINUTES = 10  # in a row that nobody counted stay unknown


Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

WARM_UP_MINUTES = 2  # from a restart on, as in ``policies.measure``: code and caches are cold
BUSY_LEAST = 0.05  # of the subtasks' time; less is rounding
MINUTES_MOST = 28 * 24 * 60


class CalibrationError(SurescaleError):
    """A recording cannot be fitted; the message says why and what to record."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """T minutes of one job in a row; minutes that nobody reported are NaN.

    Attributes:
        job: ``cluster/name``.
        topology: the newest one.
        graph: the same as tables.
        first_ms: the end of the first minute.
        figures: float32 [T, N, F] as ``contracts.windows.FIGURES``.
        first_window: of the whole recording; it tells the hours before.
    """

    job: str
    topology: JobTopology
    graph: JobGraph
    first_ms: int
    figures: Float32
    first_window: Window

    @property
    def minutes(self) -> int:
        """Return T."""
        return len(self.figures)

    @property
    def known_minutes(self) -> int:
        """Return how many minutes have figures."""
        return int((~np.isnan(self.figure("coverage"))).any(axis=1).sum())

    @property
    def last_ms(self) -> int:
        """Return the end of the last minute."""
        return self.first_ms + (self.minutes - 1) * MINUTE_MS

    def figure(self, name: str) -> Float64:
        """Return one figure, float64 [T, N]."""
        return self.figures[..., FIGURE[name]].astype(np.float64)

    def part(self, minutes: slice) -> "Recorded":
        """Return some minutes in a row."""
        start = minutes.start or 0
        first_ms = self.first_ms + start * MINUTE_MS
        return replace(self, first_ms=first_ms, figures=self.figures[minutes])

    def began(self) -> Bool:
        """Return bool [T], the minutes in which an attempt of the job began."""
        return np.asarray((np.nan_to_num(self.figure("restarts")) > 0).any(axis=1))

    def warm(self) -> Bool:
        """Return bool [T], the minutes that are not right after a restart."""
        began = self.began()
        cold = began.copy()
        for back in range(1, WARM_UP_MINUTES):
            cold[back:] |= began[:-back]
        return ~cold

    def processed(self) -> Float64:
        """Return the records [T, N] that each task took in; a source may count only what it emits."""
        taken, sources = self.figure("records_in"), self.graph.by_level[0]
        taken[:, sources] = read_or_emitted(taken[:, sources], self.figure("records_out")[:, sources])
        return taken

    def telling(self) -> Bool:
        """Return bool [T, N], task-minutes whose busy time says what a record costs."""
        busy = self.figure("busy_ms")
        with np.errstate(invalid="ignore"):
            enough = busy > BUSY_LEAST * MINUTE_MS * self.figure("parallelism")
            told: Bool = enough & (self.processed() > 0) & self.warm()[:, None]
        return told


def put_together(job: str, windows: Iterable[Window]) -> Recorded:
    """Return the minutes of a job's windows; those before its tasks last changed are left out.

    Raises:
        CalibrationError: there is no window, or the windows span more than four weeks.
        RecordRejected: a topology has a cycle.
    """
    rows: dict[int, Float32] = {}
    topology: JobTopology | None = None
    first_window: Window | None = None
    for window in windows:
        first_window = first_window or window
        if topology is None or _shape(window.topology) != _shape(topology):
            rows = {}
        topology = window.topology
        first_ms = window.window_end_ms - (window.window_minutes - 1) * MINUTE_MS
        is_known = window.reported.any(axis=1)
        for at in np.flatnonzero(is_known).tolist():
            rows[first_ms + at * MINUTE_MS] = window.figures[at]
    if first_window is None or topology is None or not rows:
        raise CalibrationError(f"{job}: the recording has no minute with figures; record topic snapshots for longer")
    first_ms, last_ms = min(rows), max(rows)
    minutes = (last_ms - first_ms) // MINUTE_MS + 1
    if minutes > MINUTES_MOST:
        raise CalibrationError(
            f"{job}: the windows span {minutes:,} minutes, {MINUTES_MOST:,} at most; cut it with record --from"
        )
    figures = np.full((minutes, len(topology.tasks), len(FIGURES)), np.nan, dtype=np.float32)
    for at_ms, row in rows.items():
        figures[(at_ms - first_ms) // MINUTE_MS] = row
    return Recorded(job, topology, job_graph(topology.tasks), first_ms, figures, first_window)


def _shape(topology: JobTopology) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((spec.task, spec.upstream) for spec in topology.tasks)


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
