"""Workloads: requests per minute, shipped or from a CSV file. They depend on no job and no clock.

A minute with 0 requests is data, however many there are in a row: a night without records. A minute without a count is a hole in
the record, a *gap*: forecasts and scores skip it (``Workload.masked``), and reports name it (``Workload.gaps``). In a file its
cell is empty; ``data/gaps.csv`` lists those of the shipped traces.
"""

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.resources import files
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import PATH_SHOWN_MAX, SurescaleError, reason_of
from surescale.contracts.messages import HourlyLoad
from surescale.contracts.windows import HOUR_MS, HOURS, PEAK_MINUTES

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

DAYS = 14
DAY = 1440
SEED_MAX = 2**32 - 1


class LoadKindError(SurescaleError):
    """A load cannot be drawn; the message says what to give instead."""


# Drawn loads: each is the mean of every minute over two weeks that begin on a Monday at midnight; counts are Poisson. Sizes of
# jobs follow the load, so only its shape matters.


def _office_hours(minutes: Int64, random: np.random.Generator) -> Float64:
    """500 from 9 to 17 on weekdays, else 40."""
    hour, day = minutes // 60 % 24, minutes // DAY % 7
    return np.where((hour >= 9) & (hour < 17) & (day < 5), 500.0, 40.0)


def _quiet_nights(minutes: Int64, random: np.random.Generator) -> Float64:
    """One from 22 to 6; in between up to 560 and down again."""
    share = (minutes % DAY - 6 * 60) / (16 * 60.0)
    return np.where((share >= 0) & (share < 1), 60.0 + 500.0 * np.sin(np.pi * share.clip(0.0, 1.0)), 1.0)


def _four_hourly(minutes: Int64, random: np.random.Generator) -> Float64:
    """600 for 45 minutes every four hours, else 100."""
    return np.where(minutes % 240 < 45, 600.0, 100.0)


def _flash_crowd(minutes: Int64, random: np.random.Generator) -> Float64:
    """A gentle day around 120, and about once a day, at any minute, 3 to 8 times as much for 10 to 40 minutes."""
    load = 120.0 - 40.0 * np.cos(2.0 * np.pi * minutes / DAY)
    for _ in range(DAYS):
        first, length = int(random.integers(len(minutes))), int(random.integers(10, 41))
        load[first : first + length] *= random.uniform(3.0, 8.0)
    return load


def _steps(minutes: Int64, random: np.random.Generator) -> Float64:
    """Another level between 50 and 450 every 12 to 48 hours."""
    load, at = np.empty(len(minutes)), 0
    while at < len(minutes):
        length = int(random.integers(12, 49)) * 60
        load[at : at + length] = random.uniform(50.0, 450.0)
        at += length
    return load


def _ramp(minutes: Int64, random: np.random.Generator) -> Float64:
    """From 80 to 480 in two weeks, with a day's rhythm of a tenth."""
    day: Float64 = 1.0 - 0.1 * np.cos(2.0 * np.pi * minutes / DAY)
    load: Float64 = (80.0 + 400.0 * minutes / len(minutes)) * day
    return load


def _seven_hours(minutes: Int64, random: np.random.Generator) -> Float64:
    """Between 60 and 340 with a period that is no part of a day."""
    load: Float64 = 200.0 - 140.0 * np.cos(2.0 * np.pi * minutes / 420.0)
    return load


def _online_shop(minutes: Int64, random: np.random.Generator) -> Float64:
    """Events of an online shop: 2,000 a second at four in the morning, 12,000 in the evening, more at weekends.

    A newsletter each Thursday at ten, an offer at some hour of every other day, and noise of four per cent that lasts minutes.
    """
    at = np.array([0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 20.5, 22, 24])
    a_second = np.interp(minutes % DAY / 60.0, at, np.array([4.2, 2.5, 2.0, 2.6, 5.2, 8.0, 8.8, 8.2, 9.0, 10.8, 12.0, 9.0, 4.2]))
    load: Float64 = 60_000.0 * a_second * np.where(minutes // DAY % 7 >= 5, 1.15, 1.0)
    offers = [(day * DAY + int(random.integers(8 * 60, 21 * 60)), random.uniform(0.3, 0.8)) for day in range(0, DAYS, 2)]
    for first, more in [(day * DAY + 600, 0.5) for day in range(3, DAYS, 7)] + offers:
        since = minutes - first
        load *= 1.0 + np.where(since >= 0, more * np.exp(-np.clip(since, 0, DAY) / 20.0), 0.0)
    noise, level = np.empty(len(minutes)), 0.0
    for minute, fresh in enumerate(random.normal(0.0, 0.04 * np.sqrt(1.0 - 0.9**2), len(minutes))):
        noise[minute] = level = 0.9 * level + fresh
    load *= np.exp(noise)
    return load


KINDS: dict[str, Callable[[Int64, np.random.Generator], Float64]] = {
    "online-shop": _online_shop,
    "office-hours": _office_hours,
    "quiet-nights": _quiet_nights,
    "four-hourly": _four_hourly,
    "flash-crowd": _flash_crowd,
    "steps": _steps,
    "ramp": _ramp,
    "seven-hours": _seven_hours,
}


def is_kind(name: str) -> bool:
    """Return whether a name is that of a load to draw: ``steps``, or ``steps@3`` with a seed."""
    return name.partition("@")[0] in KINDS


def drawn(name: str) -> Int64:
    """Return the requests of each minute [20,160] of a load; without a seed, that of seed 0.

    Raises:
        LoadKindError: the seed is no whole number of 0 to ``SEED_MAX``.
    """
    kind, at, said = name.partition("@")
    if at and not (said.isascii() and said.isdigit() and len(said) <= 10 and int(said) <= SEED_MAX):
        raise LoadKindError(f"workload {name[:40]!r}: give a whole number after @ as the seed, as in {kind}@3")
    random = np.random.default_rng(int(said or 0))
    requests: Int64 = random.poisson(KINDS[kind](np.arange(DAYS * DAY), random)).astype(np.int64)
    return requests


UNDATED_MS = 978_307_200_000  # 2001-01-01, a Monday, 00:00 UTC: where a file without dates begins
UNDATED_HISTORY_MS = HOURS * HOUR_MS  # nothing is dated before the epoch, also not eight days back
REQUESTS_MAX = 10**9  # a minute; sums of eight days stay exact in float64

_COLUMNS = ["minute", "requests"]
_MEANT = {"minute": "count the minutes from 0", "requests": "give the count of that minute"}
_NAMED = {
    "clarknet": ("clarknet_minute.csv", 809_568_000_000),  # Monday 1995-08-28 00:00
    "nasa": ("nasa_jul95_minute.csv", 804_556_800_000),  # Saturday 1995-07-01 00:00
}
# ClarkNet, minute 16,260: Friday 1995-09-08 07:00, the full hour of a weekday with the steepest rise over the next four hours
# (half-hour means 85 -> 240 requests a minute). It is in the second week, so a week of history precedes it.
# The shop's is such a Friday too.
_START_MINUTES = {"clarknet": 16_260, "online-shop": 16_260}


class WorkloadError(SurescaleError):
    """A workload cannot be read; the message names file, row and column."""


@dataclass(frozen=True)
class Gap:
    """Minutes ``first`` to ``last``, inclusive, whose requests nobody counted."""

    first: int
    last: int


@dataclass(frozen=True)
class Workload:
    """Requests per minute.

    Attributes:
        name: a known name, or the file's.
        requests: int64 [minutes]; 0 in a gap.
        trace_start_ms: event time at which minute 0 begins; a multiple of an hour.
        default_start_minute: where a run starts by default.
        unknown: the gaps, in order; those beyond the last minute do not matter, so a trace can be cut short.
    """

    name: str
    requests: Int64
    trace_start_ms: int
    default_start_minute: int = 0
    unknown: tuple[Gap, ...] = ()

    def __post_init__(self) -> None:
        """Check that hours start at minute 0, as the arithmetic assumes."""
        assert self.trace_start_ms % HOUR_MS == 0, self.trace_start_ms

    @property
    def minutes(self) -> int:
        """Return the length of the trace."""
        return len(self.requests)

    @classmethod
    def counted(cls, name: str, requests: Float64, trace_start_ms: int) -> "Workload":
        """Return the workload of requests per minute [minutes] that are NaN where nobody counted."""
        return cls(name, np.nan_to_num(requests).astype(np.int64), trace_start_ms, unknown=_gaps(np.isnan(requests)))

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """Return the minutes that nobody counted, in order."""
        return tuple(Gap(gap.first, min(gap.last, self.minutes - 1)) for gap in self.unknown if gap.first < self.minutes)

    @cached_property
    def masked(self) -> Bool:
        """Return bool [minutes]: those in a gap."""
        masked = np.zeros(self.minutes, dtype=np.bool_)
        for gap in self.gaps:
            masked[gap.first : gap.last + 1] = True
        return masked

    def is_whole(self, at: Int64, before: int, ahead: int) -> Bool:
        """Return bool [n]: no gap touches the ``before`` minutes up to each of ``at`` [n] or the ``ahead`` minutes after it."""
        missing = np.concatenate([[0], np.cumsum(self.masked)])
        whole: Bool = missing[at + ahead] == missing[at - before]
        return whole

    def percentile(self, percent: float, minutes: tuple[int, int] | None = None) -> float:
        """Return a percentile of the requests per minute (interpolated), over all minutes or over minutes A to B - 1."""
        return float(np.percentile(self.requests[slice(*minutes) if minutes else slice(None)], percent))

    def minute_start_ms(self, minute: int) -> int:
        """Return the event time at which a minute starts."""
        return self.trace_start_ms + minute * MINUTE_MS

    def history(self, before_minute: int) -> tuple[HourlyLoad, ...]:
        """Return the hourly load of the eight days before a minute, oldest first; the last hour may be incomplete.

        Minutes in a gap are in none of it.
        """
        hours = []
        counts = np.where(self.masked, np.nan, self.requests)
        for first in range(0, before_minute, 60):
            last = min(first + 60, before_minute)
            known = ~self.masked[first:last]
            fives = np.convolve(counts[max(0, first - PEAK_MINUTES + 1) : last], np.ones(PEAK_MINUTES), "valid")
            whole = fives[~np.isnan(fives)] if last >= PEAK_MINUTES else fives[:0]
            if known.any():
                hours.append(
                    HourlyLoad(
                        hour_start_ms=self.minute_start_ms(first),
                        records=int(self.requests[first:last][known].sum()),
                        minutes=int(known.sum()),
                        peak_records=int(whole.max()) if len(whole) else None,
                    )
                )
        return tuple(hours[-HOURS:])


def workload_names() -> tuple[str, ...]:
    """Return the names of the shipped workloads, sorted, then those of the loads that are drawn (`KINDS`)."""
    return (*sorted(_NAMED), *KINDS)


def load_workload(name_or_path: str) -> Workload:
    """Return a workload by name (``clarknet``, ``steps``, ``steps@3``) or from a CSV file with the columns minute and requests.

    Minutes are counted from 0, or dated: 2026-11-20T08:00. A file without dates begins on Monday 2001-01-01 at midnight.

    Raises:
        WorkloadError: no such name or file, or the file does not parse.
        LoadKindError: the name's seed is none.
    """
    if name_or_path in _NAMED:
        return _shipped(name_or_path)
    if is_kind(name_or_path):
        kind = name_or_path.partition("@")[0]
        return Workload(name_or_path, drawn(name_or_path), UNDATED_MS, _START_MINUTES.get(kind, 0))
    path = Path(name_or_path)
    try:
        if not path.is_file():
            raise WorkloadError(f"workload {name_or_path!r} is neither a file nor one of {', '.join(workload_names())}")
        with path.open(encoding="utf-8-sig", newline="") as lines:
            requests, first_ms = _parse(lines, path.name)
    except UnicodeDecodeError:
        raise WorkloadError(f"{path.name}: not a UTF-8 text file; save it as one") from None
    except OSError as problem:
        told = str(path)[:PATH_SHOWN_MAX]
        raise WorkloadError(f"workload {told!r}: cannot be read ({reason_of(problem)}); name another file") from None
    except csv.Error as problem:
        raise WorkloadError(f"{path.name}: not a CSV file ({problem}); give one with the columns minute,requests") from None
    return Workload.counted(path.stem, requests, UNDATED_MS if first_ms is None else first_ms)


@cache
def _shipped(name: str) -> Workload:
    """Return a shipped workload; all who ask share it, so nobody may write to it."""
    file, trace_start_ms = _NAMED[name]
    with (files("surescale.simulation") / "data" / file).open(encoding="utf-8") as lines:
        counted, _ = _parse(lines, file)
    requests = counted.astype(np.int64)
    requests.flags.writeable = False
    return Workload(name, requests, trace_start_ms, _START_MINUTES.get(name, 0), _listed_gaps(file))


def _listed_gaps(file: str) -> tuple[Gap, ...]:
    """Return the minutes without counts of a shipped file; those that its author filled in count like any other."""
    with (files("surescale.simulation") / "data" / "gaps.csv").open(encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if f"{row['trace']}.csv" == file and row["kind"] == "no_records"]
    return tuple(Gap(int(row["first_minute"]), int(row["last_minute"])) for row in rows)


def _gaps(is_unknown: Bool) -> tuple[Gap, ...]:
    edges = np.flatnonzero(np.diff(is_unknown, prepend=False, append=False)).reshape(-1, 2)
    return tuple(Gap(int(first), int(end) - 1) for first, end in edges)


def _parse(lines: Iterable[str], file: str) -> tuple[Float64, int | None]:
    """Return the requests of each minute, NaN where the cell is empty, and when the first one starts.

    That is in milliseconds of the epoch; None: not told.
    """
    reader = csv.reader(lines)
    header = [column.strip() for column in next(reader, [])]
    if header != _COLUMNS:
        raise WorkloadError(f"{file}: the first row must name the columns minute,requests; it reads {','.join(header)!r}")
    rows = _rows(reader, file)
    first_ms, first = next(rows, (None, None))
    found = [] if first is None else [first]
    requests = np.fromiter(chain(found, (count for _, count in rows)), dtype=np.float64)
    if not len(requests):
        raise WorkloadError(f"{file}: the file has no rows; give one row per minute")
    if not np.nan_to_num(requests).any():
        raise WorkloadError(f"{file}: column requests is 0 in every row; give a trace with some load")
    return requests, first_ms


def _rows(reader: Iterator[list[str]], file: str) -> Iterator[tuple[int | None, float]]:
    """Yield each row's start, if rows are dated, and its requests; of either kind every minute is there once."""
    expected, first_ms = 0, None
    for number, cells in enumerate(reader, start=2):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(_COLUMNS):
            column = _COLUMNS[-1] if len(cells) < len(_COLUMNS) else str(len(_COLUMNS) + 1)
            read = ",".join(cells)[:40]
            raise WorkloadError(
                f"{file}: row {number}, column {column}: the row reads {read!r}; give two cells, minute and requests"
            )
        requests = _count(cells[1], _COLUMNS[1], number, file) if cells[1].strip() else np.nan
        if expected == 0 and "T" in cells[0].upper():
            first_ms = _instant_ms(cells[0], number, file)
            if first_ms % HOUR_MS:
                raise WorkloadError(f"{file}: row {number}, column minute: {cells[0].strip()} is not a full hour; begin with one")
        if first_ms is not None:
            minute = (_instant_ms(cells[0], number, file) - first_ms) // MINUTE_MS
        else:
            minute = _count(cells[0], _COLUMNS[0], number, file)
        if minute != expected:
            raise WorkloadError(
                f"{file}: row {number}, column minute: {minute} instead of {expected}; "
                "list every minute once, counted from 0, with 0 requests if there were none and an empty cell if nobody counted"
            )
        expected += 1
        yield first_ms, requests


def _instant_ms(cell: str, row: int, file: str) -> int:
    """Return a dated minute in milliseconds of the epoch; UTC unless it names a zone."""
    try:
        found = datetime.fromisoformat(cell.strip())
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
        at_ms = round(found.timestamp() * 1_000)
    except (ValueError, OverflowError):
        at_ms = -1
    if at_ms < UNDATED_HISTORY_MS or at_ms % MINUTE_MS:
        raise WorkloadError(
            f"{file}: row {row}, column minute: {cell.strip()[:40]!r} is not a minute; "
            "give 2026-11-20T08:00 (UTC), or count from 0"
        )
    return at_ms


def _count(cell: str, column: str, row: int, file: str) -> int:
    if len(cell) < len(str(REQUESTS_MAX)) and cell.isascii() and cell.isdigit():
        return int(cell)  # nearly every cell
    text, at = cell.strip(), f"{file}: row {row}, column {column}"
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        problem = "is empty" if not text else f"{text[:40]!r} is not a whole number"
        raise WorkloadError(f"{at}: {problem}; give a whole number, 0 or more")
    if text.startswith("-") or len(digits.lstrip("0")) > len(str(REQUESTS_MAX)) or int(digits) > REQUESTS_MAX:
        raise WorkloadError(f"{at}: {text[:40]} is not between 0 and {REQUESTS_MAX}; {_MEANT[column]}")
    return int(digits)
