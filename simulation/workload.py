"""Workloads: requests per minute, from a CSV file. Reads files when asked to; knows no jobs and no clock.

A minute of 0 requests is data. Ten and more of them in a row are taken for a hole in the record, a *gap*: forecasts and scores
leave it out (``Workload.masked``), and reports name it (``Workload.gaps``).
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from contracts.clock import MINUTE_MS
from contracts.errors import SurescaleError, reason_of
from contracts.messages import HourlyLoad
from contracts.windows import HOUR_MS, HOURS, PEAK_MINUTES

Int64 = npt.NDArray[np.int64]

Bool = npt.NDArray[np.bool_]

GAP_MINUTES = 10  # zeros in a row that make a gap
PATH_TOLD = 200  # characters in a message
REQUESTS_MAX = 10**9  # a minute; sums of eight days stay exact in float64

_COLUMNS = ["minute", "requests"]
_MEANT = {"minute": "count the minutes from 0 on", "requests": "give what was counted in that minute"}
_NAMED = {
    "clarknet": ("clarknet_minute.csv", 809_568_000_000),  # Monday 1995-08-28 00:00
    "nasa": ("nasa_jul95_minute.csv", 804_556_800_000),  # Saturday 1995-07-01 00:00
    "twitter": (
        "twitter_2021_minute.csv",
        809_568_000_000,
    ),  # 22 days of August 2021, not known which: as without dates
}
# ClarkNet, minute 16,260: Friday 1995-09-08 07:00, the whole hour of a weekday after which load rises most within four
# hours (half-hour means 85 -> 240 requests a minute). It lies in the second week, so that a week of history comes before.
_START_MINUTES = {"clarknet": 16_260}


class WorkloadError(SurescaleError):
    """A workload cannot be read; the message names file, row and column."""


@dataclass(frozen=True)
class Gap:
    """Minutes ``first`` to ``last``, both included, without a single request."""

    first: int
    last: int


@dataclass(frozen=True)
class Workload:
    """Requests per minute.

    Attributes:
        name: a known name, or the file's.
        requests: int64 [minutes].
        trace_start_ms: event time at which minute 0 begins; a multiple of an hour.
        default_start_minute: where a run starts unless told otherwise.
    """

    name: str
    requests: Int64
    trace_start_ms: int
    default_start_minute: int = 0

    def __post_init__(self) -> None:
        """Check what the arithmetic of hours and minutes relies on."""
        assert self.trace_start_ms % HOUR_MS == 0, self.trace_start_ms

    @property
    def minutes(self) -> int:
        """Return the length of the trace."""
        return len(self.requests)

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """Return the runs of ten and more minutes without requests, in order."""
        silent = np.concatenate([[False], self.requests == 0, [False]])
        edges = np.flatnonzero(silent[1:] != silent[:-1]).reshape(-1, 2)
        return tuple(Gap(int(first), int(end) - 1) for first, end in edges if end - first >= GAP_MINUTES)

    @cached_property
    def masked(self) -> Bool:
        """Return bool [minutes]: those in a gap."""
        masked = np.zeros(self.minutes, dtype=np.bool_)
        for gap in self.gaps:
            masked[gap.first : gap.last + 1] = True
        return masked

    def percentile(self, percent: float, minutes: tuple[int, int] | None = None) -> float:
        """Return the requests per minute that so many percent of all minutes, or of A to B - 1, do not pass (interpolated)."""
        return float(np.percentile(self.requests[slice(*minutes) if minutes else slice(None)], percent))

    def minute_start_ms(self, minute: int) -> int:
        """Return the event time at which a minute begins."""
        return self.trace_start_ms + minute * MINUTE_MS

    def history(self, before_minute: int) -> tuple[HourlyLoad, ...]:
        """Return the hourly load of the eight days before a minute, oldest first; the last hour may be unfinished."""
        hours = []
        for first in range(0, before_minute, 60):
            last = min(first + 60, before_minute)
            records = int(self.requests[first:last].sum())
            fives = np.convolve(self.requests[max(0, first - PEAK_MINUTES + 1) : last], np.ones(PEAK_MINUTES, np.int64), "valid")
            hours.append(
                HourlyLoad(
                    hour_start_ms=self.minute_start_ms(first),
                    records=records,
                    minutes=last - first,
                    peak_records=int(fives.max()) if last >= PEAK_MINUTES else None,
                )
            )
        return tuple(hours[-HOURS:])


def load_workload(name_or_path: str) -> Workload:
    """Return a workload by name (``clarknet``, ``nasa``, ``twitter``) or from a CSV file with the columns minute and requests.

    Raises:
        WorkloadError: no such name or file, or the file does not parse.
    """
    if name_or_path in _NAMED:
        file, trace_start_ms = _NAMED[name_or_path]
        with (files("simulation") / "data" / file).open(encoding="utf-8") as lines:
            requests = _parse(lines, file)
        return Workload(name_or_path, requests, trace_start_ms, _START_MINUTES.get(name_or_path, 0))
    path = Path(name_or_path)
    try:
        if not path.is_file():
            raise WorkloadError(f"workload {name_or_path!r} is neither a file nor one of {', '.join(sorted(_NAMED))}")
        with path.open(encoding="utf-8-sig", newline="") as lines:
            requests = _parse(lines, path.name)
    except UnicodeDecodeError:
        raise WorkloadError(f"{path.name}: not a UTF-8 text file; save it as one") from None
    except OSError as problem:
        told = str(path)[:PATH_TOLD]
        raise WorkloadError(f"workload {told!r}: cannot be read ({reason_of(problem)}); name another file") from None
    except csv.Error as problem:
        raise WorkloadError(f"{path.name}: not a CSV file ({problem}); give one with the columns minute,requests") from None
    # A trace without dates starts on a Monday at midnight, as ClarkNet does.
    return Workload(path.stem, requests, _NAMED["clarknet"][1])


def _parse(lines: Iterable[str], file: str) -> Int64:
    reader = csv.reader(lines)
    header = [column.strip() for column in next(reader, [])]
    if header != _COLUMNS:
        raise WorkloadError(f"{file}: the first row must name the columns minute,requests; it reads {','.join(header)!r}")
    requests = np.fromiter(_rows(reader, file), dtype=np.int64)
    if not len(requests):
        raise WorkloadError(f"{file}: the file has no rows; give one row a minute")
    if not requests.any():
        raise WorkloadError(f"{file}: column requests is 0 throughout; there is no load to serve, give a trace that has some")
    return requests


def _rows(reader: Iterator[list[str]], file: str) -> Iterator[int]:
    expected = 0
    for number, cells in enumerate(reader, start=2):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(_COLUMNS):
            column = _COLUMNS[-1] if len(cells) < len(_COLUMNS) else str(len(_COLUMNS) + 1)
            read = ",".join(cells)[:40]
            raise WorkloadError(
                f"{file}: row {number}, column {column}: the row reads {read!r}; give two cells, minute and requests"
            )
        minute, requests = (_count(cell, column, number, file) for cell, column in zip(cells, _COLUMNS, strict=True))
        if minute != expected:
            raise WorkloadError(
                f"{file}: row {number}, column minute: {minute} where {expected} is expected; "
                "give every minute once, counted from 0, with 0 requests where there were none"
            )
        expected += 1
        yield requests


def _count(cell: str, column: str, row: int, file: str) -> int:
    text, at = cell.strip(), f"{file}: row {row}, column {column}"
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        problem = "is empty" if not text else f"{text[:40]!r} is not a whole number"
        raise WorkloadError(f"{at}: {problem}; give a whole number from 0 on")
    if text.startswith("-") or len(digits.lstrip("0")) > len(str(REQUESTS_MAX)) or int(digits) > REQUESTS_MAX:
        raise WorkloadError(f"{at}: {text[:40]} is not between 0 and {REQUESTS_MAX}; {_MEANT[column]}")
    return int(digits)
