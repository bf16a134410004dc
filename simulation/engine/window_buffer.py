"""Builds windows directly from the simulator's rows, without samples and only in minutes with a decision. Pure.

The windows are the same as those of ``contracts.window_history.WindowHistory``, which the pipeline builds from summed samples.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from contracts.clock import MINUTE_MS
from contracts.messages import HourlyLoad
from contracts.window_history import add_peak, hour_of, hourly_mean, hourly_peak
from contracts.windows import FIGURE, FIGURES, PEAK_MINUTES, Window
from simulation.engine.simulated_minute import SimulatedMinute

_ARRIVED, _RECORDS_IN = FIGURE["arrived"], FIGURE["records_in"]
_SOURCE = 0  # index of the virtual source, the one task without upstream


@dataclass(slots=True)
class WindowBuffer:
    """The last ``window_minutes`` minutes of one job, with its hourly load and hourly peaks."""

    window_minutes: int
    _minutes: deque[SimulatedMinute] = field(default_factory=deque)
    _hours: dict[int, tuple[float, int]] = field(default_factory=dict)  # start -> records, known minutes
    _peaks: dict[int, float] = field(default_factory=dict)  # start -> most records in five minutes

    @classmethod
    def after(cls, history: tuple[HourlyLoad, ...], window_minutes: int) -> "WindowBuffer":
        """Return a buffer that knows the load before the run."""
        hours = {hour.hour_start_ms: (float(hour.records), hour.minutes) for hour in history}
        peaks = {hour.hour_start_ms: float(hour.peak_records) for hour in history if hour.peak_records is not None}
        return cls(window_minutes, deque(maxlen=window_minutes), hours, peaks)

    def add(self, minute: SimulatedMinute) -> None:
        """Add the next finished minute."""
        self._minutes.append(minute)
        if minute.topology.state == "waiting":
            return
        hour = hour_of(minute.minute_end_ms)
        records, minutes = self._hours.get(hour, (0.0, 0))
        self._hours[hour] = (records + _load(minute), minutes + 1)
        newest = list(islice(reversed(self._minutes), PEAK_MINUTES))
        if not any(each.topology.state == "waiting" for each in newest):
            add_peak(self._peaks, hour, [_load(each) for each in newest])

    def window(self) -> Window:
        """Return the window that ends with the last minute added; minutes without subtasks are masked."""
        last = self._minutes[-1]
        tasks = len(last.topology.tasks)
        figures = np.full((self.window_minutes, tasks, len(FIGURES)), np.nan, dtype=np.float32)
        for minute in self._minutes:
            back = (last.minute_end_ms - minute.minute_end_ms) // MINUTE_MS
            if minute.topology.state != "waiting":
                figures[self.window_minutes - 1 - back] = minute.rows
        return Window(
            job=last.topology.job,
            window_end_ms=last.minute_end_ms,
            figures=figures,
            topology=last.topology,
            hourly_load=hourly_mean(self._hours, last.minute_end_ms),
            hourly_peak=hourly_peak(self._peaks, last.minute_end_ms),
        )


def _load(minute: SimulatedMinute) -> float:
    """Return the records that came in, as ``contracts.source_load.source_load`` counts them."""
    arrived, taken = minute.rows[_SOURCE, _ARRIVED], minute.rows[_SOURCE, _RECORDS_IN]
    return float(taken if np.isnan(arrived) else arrived)
