"""A workload by the hour, for forecasts that look back: mean load and peaks of the eight days before any minute. Pure."""

from dataclasses import dataclass

import numpy as np

from surescale.contracts.block_load import BLOCK_MINUTES, BLOCKS, HOUR_BLOCKS, Codes, coded, unknown_blocks
from surescale.contracts.windows import HOURS, PEAK_MINUTES
from surescale.simulation.loops.terms import Bool, Float64, Int64


@dataclass(frozen=True, slots=True)
class HourlyFigures:
    """A figure of every hour of a workload, as if the minutes that do not count were not there.

    Attributes:
        days: float64 [hours + 193, 192], the eight days before every hour of the trace; NaN where it is unknown, as it is outside
            the trace.
        so_far: float64 [minutes + 2 or more], the figure of each minute's hour up to that minute.
    """

    days: Float64
    so_far: Float64

    @classmethod
    def loads(cls, requests: Int64 | Float64, masked: Bool | None = None) -> "HourlyFigures":
        """Return the mean records per minute of a workload; ``masked`` minutes do not count."""
        counted = np.ones(len(requests), dtype=np.bool_) if masked is None else ~masked
        records = np.concatenate([[0.0], np.cumsum(requests * counted, dtype=np.float64)])
        minutes = np.concatenate([[0.0], np.cumsum(counted, dtype=np.float64)])
        ends = np.append(np.arange(0, len(requests), 60), len(requests))
        now = np.arange(len(requests) + 61)  # continued for one hour after the trace
        first, end = np.minimum((now - 1) // 60 * 60, len(requests)), np.minimum(now, len(requests))
        so_far = _mean(records[end] - records[first], minutes[end] - minutes[first])
        return cls(_days(_mean(np.diff(records[ends]), np.diff(minutes[ends]))), so_far)

    @classmethod
    def peaks(cls, requests: Int64 | Float64, masked: Bool | None = None) -> "HourlyFigures":
        """Return the largest five-minute means of a workload that end in each hour; ``masked`` minutes do not count."""
        load = np.asarray(requests, dtype=np.float64) if masked is None else np.where(masked, np.nan, requests)
        unknown = np.full(PEAK_MINUTES - 1, np.nan)
        fives = np.lib.stride_tricks.sliding_window_view(np.concatenate([unknown, load]), PEAK_MINUTES).mean(axis=1)
        padded = np.concatenate([fives, np.full(-len(fives) % 60, np.nan)]).reshape(-1, 60)
        highest = np.fmax.accumulate(padded, axis=1)
        return cls(_days(highest[:, -1]), np.concatenate([[np.nan], highest.ravel()[: len(fives)], [np.nan]]))

    def before(self, minute: Int64) -> Float64:
        """Return float64 [B, 192], the hours up to ``minute`` [B], the last one so far; NaN outside the trace."""
        hours = self.days[np.minimum((minute - 1) // 60 + 1, len(self.days) - 1)]
        hours[:, -1] = self.so_far[np.minimum(minute, len(self.so_far) - 1)]
        return hours


@dataclass(frozen=True, slots=True)
class BlockCodes:
    """The mean load of every five minutes of a workload, as ``contracts.block_load`` codes it.

    Attributes:
        days: uint16 [blocks + 2305, 2304], the eight days before every block of the trace; unknown outside it and where a minute
            does not count.
    """

    days: Codes

    @classmethod
    def of(cls, requests: Int64 | Float64, masked: Bool | None = None) -> "BlockCodes":
        """Return the blocks of a workload; ``masked`` minutes do not count."""
        load = np.asarray(requests, dtype=np.float64) if masked is None else np.where(masked, np.nan, requests)
        whole = coded(load[: len(load) // BLOCK_MINUTES * BLOCK_MINUTES].reshape(-1, BLOCK_MINUTES).mean(axis=1))
        unknown = unknown_blocks()
        return cls(np.lib.stride_tricks.sliding_window_view(np.concatenate([unknown, whole, unknown]), BLOCKS))

    def before(self, minute: Int64) -> Codes:
        """Return uint16 [B, 2304], the blocks of the hours up to ``minute`` [B]; later ones and those outside the trace: 0."""
        hours = (minute - 1) // 60 + 1
        blocks = self.days[np.minimum(hours * HOUR_BLOCKS, len(self.days) - 1)]
        passed = BLOCKS - -(-(60 * hours - minute) // BLOCK_MINUTES)
        found: Codes = np.where(np.arange(BLOCKS) < passed[:, None], blocks, 0).astype(np.uint16)
        return found


def _days(whole: Float64) -> Float64:
    """Return [hours + 193, 192], the eight days before every hour of figures [hours]."""
    unknown = np.full(HOURS, np.nan)
    return np.lib.stride_tricks.sliding_window_view(np.concatenate([unknown, whole, unknown]), HOURS)


def _mean(records: Float64, minutes: Float64) -> Float64:
    return np.where(minutes > 0, records / np.maximum(minutes, 1.0), np.nan)
