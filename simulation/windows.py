"""Windows from the simulator's own rows, without samples and without work in minutes that nobody decides in. Pure.

Gives the same windows as ``contracts.windows.WindowHistory``, which the road uses on rows added up from samples.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from contracts.clock import MINUTE_MS
from contracts.messages import HourlyLoad
from contracts.windows import FIGURE, FIGURES, HOUR_MS, HOURS, Float32, Window
from simulation.sampling import SimulatedMinute

_RECORDS_IN = FIGURE["records_in"]
_SOURCE = 0  # index of the virtual source, the one task without upstream


@dataclass(slots=True)
class WindowBuffer:
    """The last ``window_minutes`` minutes of one job, and its hourly load."""

    window_minutes: int
    _minutes: deque[SimulatedMinute] = field(default_factory=deque)
    _hours: dict[int, tuple[float, int]] = field(default_factory=dict)  # start -> records, known minutes

    @classmethod
    def after(cls, history: tuple[HourlyLoad, ...], window_minutes: int) -> "WindowBuffer":
        """Return a buffer that knows the load before the run."""
        hours = {hour.hour_start_ms: (float(hour.records), hour.minutes) for hour in history}
        return cls(window_minutes, deque(maxlen=window_minutes), hours)

    def add(self, minute: SimulatedMinute) -> None:
        """Take the next finished minute."""
        self._minutes.append(minute)
        if minute.topology.state == "waiting":
            return
        hour = (minute.minute_end_ms - 1) // HOUR_MS * HOUR_MS
        records, minutes = self._hours.get(hour, (0.0, 0))
        self._hours[hour] = (records + float(minute.rows[_SOURCE, _RECORDS_IN]), minutes + 1)

    def window(self) -> Window:
        """Return the window that ends with the last minute added; a minute without any subtask is masked."""
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
            hourly_load=self._hourly_load(last.minute_end_ms),
        )

    def _hourly_load(self, minute_end_ms: int) -> Float32:
        last = (minute_end_ms - 1) // HOUR_MS * HOUR_MS
        first = last - (HOURS - 1) * HOUR_MS
        loads = np.full(HOURS, np.nan, dtype=np.float32)
        for hour, (records, minutes) in self._hours.items():
            if first <= hour <= last:
                loads[(hour - first) // HOUR_MS] = records / minutes
        return loads
