"""What rules read off a window, and the frame in which each of them answers. Knows no rule.

A rule is arithmetic on a ``Reading``: load, service times, waiting work and how busy tasks were. Leading batch axes are
allowed everywhere, so that calibration can run one rule over many closed loops at once.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from contracts.windows import FIGURE, Float32, Window
from policies.graph import Bool, Int64, JobGraph, job_graph
from policies.measure import Measured, mean_of_last, measure
from policies.proposal import Answer, Float64, NotReady, RawAnswer, ratios_of
from policies.sizing import wish

MINUTES_KNOWN_MIN = 5

Estimate = Literal["mean-60", "mean-15", "mean-10", "p90", "peak", "quick-up"]
ESTIMATES: tuple[Estimate, ...] = ("mean-60", "mean-15", "mean-10", "p90", "peak", "quick-up")
_MEAN_MINUTES = {"mean-60": 60, "mean-15": 15, "mean-10": 10}
QUICK_UP_MINUTES = (10, 30)  # the larger mean of the two counts: quick upward, slow downward


@dataclass(frozen=True, slots=True)
class Reading:
    """A job at the end of a span; leading batch axes stand for ``..``.

    Attributes:
        graph: the job's tables.
        measured: load [.., L], service times, visits and backlog [.., N].
        current: int64 [.., N], present parallelism.
        figures: float32 [.., L, N, F], as ``contracts.windows.FIGURES``.
        hourly_load: float64 [.., 192], as ``Window.hourly_load``.
        ends_ms: int64 [..], end of the last minute.
    """

    graph: JobGraph
    measured: Measured
    current: Int64
    figures: Float32
    hourly_load: Float64
    ends_ms: Int64

    def rate(self, estimate: Estimate) -> Float64:
        """Return records per minute [..] that entered the job, NaN where unknown."""
        load = self.measured.load
        if estimate in _MEAN_MINUTES:
            return mean_of_last(load, _MEAN_MINUTES[estimate])
        if estimate == "quick-up":
            quick, slow = (mean_of_last(load, minutes) for minutes in QUICK_UP_MINUTES)
            return np.maximum(quick, slow)
        return _order_statistic(load, 0.9 if estimate == "p90" else 1.0)

    def demand(self, rate: Float64) -> Float64:
        """Return busy subtasks [.., N] that a rate [..] needs (DS2); NaN for virtual tasks and where nothing is known."""
        return np.where(self.graph.scalable, self.measured.demand(rate), np.nan)

    def utilisation(self, minutes: int) -> Float64:
        """Return busy over busy, idle and backpressured time [.., N] in the last minutes; a restart is none of them.

        NaN where a task never ran.
        """
        last = self.figures[..., -minutes:, :, :]
        busy, idle, pressed = (
            np.nansum(last[..., FIGURE[name]], axis=-2, dtype=np.float64) for name in ("busy_ms", "idle_ms", "backpressured_ms")
        )
        offered = busy + idle + pressed
        with np.errstate(divide="ignore", invalid="ignore"):
            share: Float64 = np.where(offered > 0, busy / offered, np.nan)
        return share

    def rows(self, chosen: slice) -> "Reading":
        """Return some rows of a reading whose batch axis is the first one."""
        measured = self.measured
        return Reading(
            graph=self.graph,
            measured=Measured(
                reported=measured.reported[chosen],
                load=measured.load[chosen],
                service_minutes=measured.service_minutes[chosen],
                visits=measured.visits[chosen],
                backlog_records=measured.backlog_records[chosen],
            ),
            current=self.current[chosen],
            figures=self.figures[chosen],
            hourly_load=self.hourly_load[chosen],
            ends_ms=self.ends_ms[chosen],
        )

    def whole(self, exact: Float64) -> Int64:
        """Round subtasks [.., N] up to at least one; the present parallelism where they are NaN."""
        return wish(exact, self.current).wanted


class Rule(Protocol):
    """The arithmetic of a rule; ``answer_of`` makes a policy's answer of it."""

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism int64 [.., N], before guardrails; the present one where nothing shall change."""
        ...

    def sentence(self, reading: Reading) -> str:
        """Return one sentence for people about a change wanted for a reading without batch axes."""
        ...


def read_window(window: Window) -> Reading:
    """Return the reading of one window."""
    current = np.array([spec.parallelism for spec in window.topology.tasks], dtype=np.int64)
    end = np.array(window.window_end_ms, dtype=np.int64)
    return read_figures(window.figures, job_graph(window.topology.tasks), current, window.hourly_load, end)


def read_figures(
    figures: Float32, graph: JobGraph, current: Int64, hourly_load: npt.NDArray[np.floating], ends_ms: Int64
) -> Reading:
    """Return the reading of figures [.., L, N, F]."""
    return Reading(
        graph=graph,
        measured=measure(figures, graph),
        current=current,
        figures=figures,
        hourly_load=hourly_load.astype(np.float64),
        ends_ms=ends_ms,
    )


def answer_of(rule: Rule, window: Window) -> Answer:
    """Return a rule's answer to a window: not ready, nothing known, no change, or ratios towards what it wants."""
    if window.minutes_known < MINUTES_KNOWN_MIN:
        return NotReady(missing_minutes=MINUTES_KNOWN_MIN - window.minutes_known)
    reading = read_window(window)
    ones = np.ones(len(reading.current))
    if np.isnan(reading.measured.load).all():
        return RawAnswer(ones, "No source has reported, so nothing is known of the load.")
    wanted = rule.wanted(reading)
    if np.array_equal(wanted, reading.current):
        return RawAnswer(ones, "Nothing differs enough from what the job has to be worth a restart.")
    return RawAnswer(ratios_of(wanted, reading.current), rule.sentence(reading))


def changed_where(opened: Bool, wanted: Int64, current: Int64) -> Int64:
    """Return wanted parallelism [.., N] where a job-level gate [..] is open, the present one elsewhere."""
    chosen: Int64 = np.where(opened[..., None], wanted, current)
    return chosen


def _order_statistic(load: Float64, share: float) -> Float64:
    """Return the value [..] that this share of the known minutes of load [.., L] does not pass (the nearest rank)."""
    ordered = np.sort(load, axis=-1)  # NaN last
    known = (~np.isnan(load)).sum(axis=-1)
    at = np.clip(np.ceil(share * known).astype(np.int64) - 1, 0, None)
    value: Float64 = np.take_along_axis(ordered, at[..., None], axis=-1)[..., 0]
    return value
