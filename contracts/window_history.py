"""The history that windows are made from: one job's last minutes, its hourly load, and each hour's peak. No Kafka, no clock."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from surescale.contracts.block_load import BLOCK_MS, BlockLoads
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import is_simulated
from surescale.contracts.messages import HourlyLoad, JobTopology, Saturation
from surescale.contracts.saturation import SEEN_MINUTES, remembered
from surescale.contracts.source_load import SourceMinute, source_load, source_loads, source_minute
from surescale.contracts.waits import HourlyWaits, WaitedMinute, waits_together
from surescale.contracts.windows import (
    FIGURES,
    HOUR_MS,
    HOURS,
    NO_COUNTS,
    PEAK_MINUTES,
    Float32,
    Window,
    WindowCounts,
    of_all_subtasks,
    unknown_hours,
)


@dataclass(frozen=True, slots=True, eq=False)
class MinuteRows(Mapping[str, Float32]):
    """The rows of one minute: task -> float32 [F]. A task that did not report is absent.

    Attributes:
        tasks: their names.
        figures: float32 [len(tasks), F]; never changed.
    """

    tasks: tuple[str, ...]
    figures: Float32
    _index: dict[str, int] = field(default_factory=dict, repr=False, compare=False)  # of the tasks, once somebody asks for one

    @classmethod
    def of(cls, rows: Mapping[str, Float32]) -> "MinuteRows":
        """Return rows by task as one block."""
        if isinstance(rows, MinuteRows):
            return rows
        return cls(tuple(rows), np.array(list(rows.values()), dtype=np.float32).reshape(-1, len(FIGURES)))

    def __getitem__(self, task: str) -> Float32:
        """Return one task's row."""
        row: Float32 = self.figures[self._indexed()[task]]
        return row

    def __contains__(self, task: object) -> bool:
        """Say whether a task reported."""
        return task in self._indexed()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the tasks."""
        return iter(self.tasks)

    def __len__(self) -> int:
        """Return how many tasks reported."""
        return len(self.tasks)

    def _indexed(self) -> dict[str, int]:
        if not self._index:
            self._index.update((name, at) for at, name in enumerate(self.tasks))
        return self._index

    def put_into(self, out: Float32, tasks: tuple[str, ...]) -> None:
        """Write the rows of ``tasks`` into float32 [len(tasks), F]; rows of tasks that did not report stay as they are."""
        if tasks == self.tasks:  # almost always
            out[:] = self.figures
            return
        for at, task in enumerate(tasks):
            if task in self:
                out[at] = self[task]


@dataclass(frozen=True, slots=True)
class _Stacked:
    """The figures of the previous window; the next one differs only in its newest minutes."""

    end_ms: int
    tasks: tuple[str, ...]
    figures: Float32


@dataclass(slots=True)
class WindowHistory:
    """The memory of one job between minutes: rows of the last L minutes per task, the hourly load and its peaks.

    ``rows`` maps a minute's end to the rows of that minute.
    ``hours`` maps an hour's start to (records, known minutes), ``peaks`` to the most records in five consecutive minutes ending
    in it; five minutes with an unknown one among them do not count. ``saturations`` is what is remembered of tasks that never
    rested; nothing on the simulated engine, whose counters cover all of the work. ``waits`` is how long records waited lately,
    ``blocks`` the load of every five minutes.
    """

    job: str
    window_minutes: int
    rows: dict[int, MinuteRows] = field(default_factory=dict)
    hours: dict[int, tuple[float, int]] = field(default_factory=dict)
    peaks: dict[int, float] = field(default_factory=dict)
    saturations: tuple[Saturation, ...] = ()
    waits: HourlyWaits = field(default_factory=HourlyWaits)
    blocks: BlockLoads = field(default_factory=BlockLoads)
    _last: _Stacked | None = field(default=None, repr=False, compare=False)
    _sources: tuple[str, ...] = field(default=(), repr=False, compare=False)
    _loads: dict[int, float] = field(default_factory=dict, repr=False, compare=False)  # of these, in the last minutes by end
    _by_hour: tuple[int, Float32, Float32] | None = field(default=None, repr=False, compare=False)  # of the last window

    def add_load_history(self, history: tuple[HourlyLoad, ...], before_ms: int) -> None:
        """Add hours the engine knew before the pipeline started watching; hours the pipeline saw itself are kept.

        Hours that start at ``before_ms`` or later are ignored.
        """
        self._by_hour = None
        for hour in history:
            if hour.hour_start_ms >= before_ms:  # never dropped again, because it never falls behind
                continue
            self.hours.setdefault(hour.hour_start_ms, (float(hour.records), hour.minutes))
            if hour.peak_records is not None:
                self.peaks.setdefault(hour.hour_start_ms, float(hour.peak_records))

    def close(
        self,
        minute_end_ms: int,
        rows: Mapping[str, Float32],
        topology: JobTopology,
        *,
        counts: WindowCounts = NO_COUNTS,
        closed_append_ms: int | None = None,
    ) -> Window:
        """Add one finished minute and return the window that ends with it.

        Minutes may be skipped (they stay masked) but never go backwards.
        """
        return close_together([Finished(self, minute_end_ms, rows, topology, counts, closed_append_ms, None)])[0]

    def _add(self, minute_end_ms: int, rows: Mapping[str, Float32], topology: JobTopology) -> SourceMinute:
        """Add the rows of a minute; return what its load is computed from."""
        assert minute_end_ms % MINUTE_MS == 0, minute_end_ms
        assert not self.rows or minute_end_ms > max(self.rows), "a closed minute cannot be closed again"
        self.rows[minute_end_ms] = MinuteRows.of(rows)
        sources = tuple([spec.task for spec in topology.tasks if not spec.upstream])
        if sources != self._sources:  # the minutes before count those of today, as after a restart
            self._sources, self._loads = sources, {}
        first = minute_end_ms - max(self.window_minutes, PEAK_MINUTES) * MINUTE_MS
        for old in [end for end in self._loads if end <= first]:
            del self._loads[old]
        return source_minute(self.rows[minute_end_ms], topology, self.rows.get(minute_end_ms - MINUTE_MS))

    def _stacked(self, minute_end_ms: int, load: float, topology: JobTopology) -> Float32:
        """Add the minute's load; return the figures of the window that ends with it."""
        self._loads[minute_end_ms] = load
        self._add_hour(minute_end_ms, load, topology)
        first = minute_end_ms - self.window_minutes * MINUTE_MS
        for old in [end for end in self.rows if end <= first]:
            del self.rows[old]
        return self._stack(minute_end_ms, topology)

    def _waited(self, minute_end_ms: int, figures: Float32, topology: JobTopology) -> WaitedMinute:
        load = lambda minutes: self._load(minute_end_ms - minutes * MINUTE_MS, topology)  # noqa: E731
        return WaitedMinute(figures[-1], topology, lambda: figures, load)

    def _window(self, minute: "Finished", figures: Float32, waits_s: Sequence[int]) -> Window:
        """Add the minute's waits and return its window."""
        end_ms, topology = minute.minute_end_ms, minute.topology
        self.waits.add(end_ms, waits_s)
        if not is_simulated(topology.engine):
            lately = of_all_subtasks(figures[-SEEN_MINUTES:])
            self.saturations = remembered(self.saturations, lately, topology, end_ms)
        mean, peak = self._hourly(end_ms)
        return Window(
            job=self.job,
            window_end_ms=end_ms,
            figures=figures,
            topology=topology,
            hourly_load=mean,
            counts=minute.counts,
            closed_append_ms=minute.closed_append_ms,
            reached_wall_ms=minute.reached_wall_ms,
            hourly_peak=peak,
            saturations=self.saturations,
            waits=self.waits.until(end_ms),
            load_codes=self.blocks.until(end_ms),
        )

    def _hourly(self, minute_end_ms: int) -> tuple[Float32, Float32]:
        """Return ``Window.hourly_load`` and ``hourly_peak``; within an hour only their last entries change."""
        hour = hour_of(minute_end_ms)
        if self._by_hour is None or self._by_hour[0] != hour:
            self._by_hour = hour, hourly_mean(self.hours, minute_end_ms), hourly_peak(self.peaks, minute_end_ms)
        _, mean, peak = self._by_hour
        records, minutes = self.hours.get(hour, (math.nan, 1))
        mean[-1], peak[-1] = records / minutes, self.peaks.get(hour, math.nan) / PEAK_MINUTES
        return mean.copy(), peak.copy()

    def _stack(self, minute_end_ms: int, topology: JobTopology) -> Float32:
        tasks = tuple(spec.task for spec in topology.tasks)
        figures = np.full((self.window_minutes, len(tasks), len(FIGURES)), np.nan, dtype=np.float32)
        new = self.rows
        if self._last is not None and self._last.tasks == tasks:
            by = (minute_end_ms - self._last.end_ms) // MINUTE_MS
            figures[: max(self.window_minutes - by, 0)] = self._last.figures[by:]
            new = {minute_end_ms: self.rows[minute_end_ms]}
        for end, rows in new.items():
            rows.put_into(figures[self.window_minutes - 1 - (minute_end_ms - end) // MINUTE_MS], tasks)
        self._last = _Stacked(minute_end_ms, tasks, figures)
        return figures.copy()  # our copy is safe from changes to the window

    def _add_hour(self, minute_end_ms: int, load: float, topology: JobTopology) -> None:
        if minute_end_ms % BLOCK_MS == 0:
            of_block = range(minute_end_ms - BLOCK_MS, minute_end_ms, MINUTE_MS)
            self.blocks.close(minute_end_ms, [self._load(start + MINUTE_MS, topology) for start in of_block])
        if math.isnan(load):
            return
        hour = hour_of(minute_end_ms)
        records, minutes = self.hours.get(hour, (0.0, 0))
        self.hours[hour] = (records + load, minutes + 1)
        oldest = hour - (HOURS - 1) * HOUR_MS
        for old in [start for start in self.hours if start < oldest]:
            del self.hours[old]
            self.peaks.pop(old, None)
        ends = [minute_end_ms - back * MINUTE_MS for back in range(PEAK_MINUTES)]
        add_peak(self.peaks, hour, tuple(self._load(end, topology) for end in ends))

    def _load(self, minute_end_ms: int, topology: JobTopology) -> float:
        if minute_end_ms not in self._loads:
            self._loads[minute_end_ms] = self._load_at(minute_end_ms, topology)
        return self._loads[minute_end_ms]

    def _load_at(self, minute_end_ms: int, topology: JobTopology) -> float:
        return source_load(self.rows.get(minute_end_ms, {}), topology, self.rows.get(minute_end_ms - MINUTE_MS))


@dataclass(frozen=True, slots=True)
class Finished:
    """A minute to add to the history of its job; the fields are those of its window."""

    history: WindowHistory
    minute_end_ms: int
    rows: Mapping[str, Float32]
    topology: JobTopology
    counts: WindowCounts
    closed_append_ms: int | None
    reached_wall_ms: int | None


def close_together(minutes: Sequence[Finished]) -> list[Window]:
    """Add minutes of different jobs to their histories and return their windows, as ``WindowHistory.close`` does one by one.

    NumPy's calls cost more than the work on one job.
    """
    if not minutes:
        return []
    loads = source_loads([each.history._add(each.minute_end_ms, each.rows, each.topology) for each in minutes])
    figures = [each.history._stacked(each.minute_end_ms, load, each.topology) for each, load in zip(minutes, loads, strict=True)]
    asked = [each.history._waited(each.minute_end_ms, own, each.topology) for each, own in zip(minutes, figures, strict=True)]
    return [
        each.history._window(each, own, waits_s)
        for each, own, waits_s in zip(minutes, figures, waits_together(asked), strict=True)
    ]


def hour_of(minute_end_ms: int) -> int:
    """Return the start of the hour a minute belongs to."""
    return (minute_end_ms - 1) // HOUR_MS * HOUR_MS


def add_peak(peaks: dict[int, float], hour: int, recent: Sequence[float]) -> None:
    """Record the last five minutes; the newest lies in ``hour``. NaN: unknown."""
    records = sum(recent)
    if len(recent) == PEAK_MINUTES and not math.isnan(records):
        peaks[hour] = max(records, peaks.get(hour, 0.0))


def hourly_mean(hours: Mapping[int, tuple[float, int]], minute_end_ms: int) -> Float32:
    """Return ``Window.hourly_load`` from (records, known minutes) by hour start."""
    return _by_hour({hour: records / minutes for hour, (records, minutes) in hours.items()}, minute_end_ms)


def hourly_peak(peaks: Mapping[int, float], minute_end_ms: int) -> Float32:
    """Return ``Window.hourly_peak`` from the most records in five minutes by hour start."""
    return _by_hour({hour: records / PEAK_MINUTES for hour, records in peaks.items()}, minute_end_ms)


def _by_hour(values: Mapping[int, float], minute_end_ms: int) -> Float32:
    last = hour_of(minute_end_ms)
    first = last - (HOURS - 1) * HOUR_MS
    found = unknown_hours()
    for hour, value in values.items():
        if first <= hour <= last:
            found[(hour - first) // HOUR_MS] = value
    return found
