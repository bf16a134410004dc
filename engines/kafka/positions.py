"""What offsets say of the topics that a job reads, and of how far their reader has come. Pure.

An offset is a position and no count of records: a log may lose its beginning, be made anew or come into view with a long past,
and a reader may be put elsewhere. So each partition is followed by itself, from look to look, in its present incarnation: the
topic that has this id; where the broker tells none, a log whose end never fell. Growth exists only between two looks at it.
"""

import bisect
import math
import statistics
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from surescale.contracts.clock import MINUTE_MS

POINTS_MAX = 32  # of the ends of one job's topics: a few minutes
STILL_MS = 3 * MINUTE_MS
"""What has not moved for so long stands still."""
QUIET_MS = 10 * MINUTE_MS
"""Records that a reader who gets on elsewhere has not touched for so long, and to which none was added, do not wait for it."""
MARKERS = 10
"""Fewer records than this behind an end that stands still, and a reader that does too, are taken for markers of transactions."""
SKIP_FACTOR, SKIP_FACTOR_OF_NEW = 10.0, 3.0
"""A reader that is so many times as fast as it ever was has skipped records; the second is for members that are all new."""
SKIP_LEAST = 100
BUSY_SLACK = 3.0
"""Records that would have taken so many times the busy time that was spent were not worked on."""
LOOKS_KEPT = 60
INTERVALS_KEPT = 20
HABIT_LEAST = 2
"""So many times a reader must have been seen to stand before it moved: then it is known how seldom it commits."""
SELDOM_MS = 2 * MINUTE_MS
"""One that has stood for so long while that is unknown may commit seldom, and work on in between."""
SKIPPED = "skipped, and counted neither as work nor as input of the next group"
_WORDS_MAX, _REASONS_SHOWN = 512, 3

Partition = tuple[str, int]
"""Topic and number."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What one partition holds: the offsets from ``start`` to before ``end``. ``topic_id``: empty if the broker tells none."""

    start: int
    end: int
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a broker told of some topics.

    Attributes:
        extents: of the partitions that it told.
        unknown: of the others, why not.
        missing: topics that it does not have.
    """

    extents: Mapping[Partition, Extent]
    unknown: Mapping[Partition, str] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()


def waiting(extent: Extent, at: int | None) -> int | str:
    """Return how many records wait behind a reader's position (None: it has committed none), or in words why nobody knows.

    >>> waiting(Extent(40, 100), 90), waiting(Extent(40, 100), 7), waiting(Extent(100, 100), None)
    (10, 60, 0)
    """
    if extent.start >= extent.end:  # its start may have moved on since its end was told
        return 0
    if at is None:
        return "nothing was ever committed there, so its reader may begin at either end; let it commit"
    if at > extent.end:
        return f"offset {at} was committed, past the end {extent.end}: the topic was made anew; reset the offsets of the group"
    return extent.end - max(at, extent.start)


def in_words(unknown: Mapping[Partition, str]) -> str:
    """Return in one line, of at most 512 characters, of which partitions it is unknown what waits, and why."""
    if not unknown:
        return ""
    of: dict[str, list[Partition]] = {}
    for each in sorted(unknown):
        of.setdefault(unknown[each], []).append(each)
    shown = []
    for why, partitions in list(of.items())[:_REASONS_SHOWN]:
        shown.append(f"{_few(partitions)}: {why}")
    where = "1 partition" if len(unknown) == 1 else f"{len(unknown)} partitions"
    words = f"what waits in {where} is unknown and not counted: {'; '.join(shown)}"
    return words if len(words) <= _WORDS_MAX else f"{words[: _WORDS_MAX - 3]}..."


def named(partition: Partition) -> str:
    """Return a partition as people write it.

    >>> named(("orders", 3))
    'orders[3]'
    """
    return f"{partition[0]}[{partition[1]}]"


def _few(partitions: Sequence[Partition]) -> str:
    more = f" and {len(partitions) - 1} more" if len(partitions) > 1 else ""
    return f"{named(partitions[0])}{more}"


@dataclass(frozen=True, slots=True)
class Habits:
    """How long a reader stood before each of so many moves: the least, and the most that is usual. One outage is not."""

    count: int
    least_ms: int
    usual_ms: float

    @classmethod
    def of(cls, intervals: Collection[int]) -> Self:
        """Return those of some moves. They may be of all partitions, so look at them once for all."""
        if not intervals:
            return cls(0, 0, 0.0)
        return cls(len(intervals), min(intervals), min(max(intervals), 2 * statistics.median(intervals)))


@dataclass(slots=True)
class Log:
    """One partition in its present incarnation, as last seen.

    Attributes:
        extent: what it holds.
        end_moved_ms: when its end was last seen to move; the first look counts.
        is_new: it did not exist before it was first seen.
        committed: where its reader was when last told, as told.
        outlived: what was committed in the incarnation before; told again, it says nothing of this one.
        counted_to: up to where the reader's work has been counted.
        stands_since_ms: since when records wait and the reader has not moved; None: nothing waits.
        intervals: how long the reader stood before each of its last moves, in milliseconds.
        left: records that waited after its last move; None: unknown.
        work: of the whole reader up to its last move: how long it was busy, in milliseconds, and how many records came to it.
    """

    extent: Extent
    end_moved_ms: int
    is_new: bool = False
    committed: int | None = None
    outlived: int | None = None
    counted_to: int | None = None
    stands_since_ms: int | None = None
    intervals: deque[int] = field(default_factory=lambda: deque(maxlen=INTERVALS_KEPT))
    left: int | None = None
    work: tuple[float, int] = (0.0, 0)
    _has_moved: bool = False

    def waits_for_commit(self, now_ms: int, of_others: Habits, *, shows_work: bool) -> bool:
        """Return whether a reader stands for no longer than it used to before its moves, and may have worked since the last.

        By a minute more: looks tell to a minute.

        Args:
            now_ms: the time of this look.
            of_others: how long it stood before its moves in all partitions. They count while it has moved too seldom in this one.
            shows_work: its busy time is known. Without it only one that commits seldom is taken to work on, if by the moves of
                others then for more than two minutes: so much is also what one look that was left out makes of a minute.
        """
        is_own = len(self.intervals) >= HABIT_LEAST
        habits = Habits.of(self.intervals) if is_own else of_others
        if self.stands_since_ms is None or self.left is None or habits.count < HABIT_LEAST:
            return False
        is_seldom = habits.least_ms >= SELDOM_MS if is_own else habits.least_ms > SELDOM_MS
        return (shows_work or is_seldom) and now_ms - self.stands_since_ms <= habits.usual_ms + MINUTE_MS

    def may_commit_seldom(self, now_ms: int, of_others: Habits) -> bool:
        """Return whether the reader has stood for as long as one may that commits seldom, while its habits are unknown.

        ``of_others``: as for ``waits_for_commit``. Once it has moved, their habits are its own.
        """
        if len(self.intervals) >= HABIT_LEAST or (self._has_moved and of_others.count >= HABIT_LEAST):
            return False
        if self.stands_since_ms is None or min(self.intervals, default=SELDOM_MS) < SELDOM_MS:
            return False
        stood_ms = now_ms - self.stands_since_ms
        return SELDOM_MS <= stood_ms < QUIET_MS and now_ms - self.end_moved_ms < SELDOM_MS

    def stand(self, lag: int | None, has_moved: bool, looked_ms: int, now_ms: int) -> None:
        """Note whether the reader moved since the look before, at ``looked_ms``."""
        if has_moved:
            began_ms = looked_ms if self.stands_since_ms is None else self.stands_since_ms
            if self._has_moved:  # when it stood still for the first time nobody saw how that began
                self.intervals.append(now_ms - began_ms)
            self._has_moved, self.left = True, lag
        if not lag:
            self.stands_since_ms = None
        elif has_moved or self.stands_since_ms is None:
            self.stands_since_ms = now_ms


@dataclass(slots=True)
class Positions:
    """Follows one reader, such as a group, in the topics that it reads. Each look is a ``look`` and then a ``read``.

    Attributes:
        logs: of each partition that was told at the last look or before.
        arrived: records that came into each partition since the look before; a partition that is missing is unknown.
        counted: all arrivals since the first look, on top of a number that is lower the later that was: whoever compares two
            counts sees a fall when the monitor has started over. None while a part is unknown.
        moved: records that the reader got through since the look before, by partition. One that was not told then is missing: it
            took longer.
        passed_ms: the time that ``arrived`` and ``moved`` cover; 0 at the first look.
        lag: records waiting by partition, None where that is not known.
        unknown: why not.
        lag_ms: age of the oldest record that is known to wait, by the time at which the end of its partition passed it; None if
            that was before the first look, or if nothing is known.
        notes: what is to be told of the last look, one line each.
    """

    logs: dict[Partition, Log] = field(default_factory=dict)
    arrived: dict[Partition, int] = field(default_factory=dict)
    counted: int | None = None
    moved: dict[Partition, int] = field(default_factory=dict)
    passed_ms: int = 0
    lag: dict[Partition, int | None] = field(default_factory=dict)
    unknown: dict[Partition, str] = field(default_factory=dict)
    lag_ms: int | None = None
    notes: list[str] = field(default_factory=list)
    ends: "EndLog" = field(default_factory=lambda: EndLog())
    _total: int | None = None
    _untold: set[Partition] = field(default_factory=set)  # that were never told, though they exist
    _back: frozenset[Partition] = frozenset()  # that are told again, and were not at the look before
    _read_ms: int | None = None
    _work: tuple[float, int] = (0.0, 0)  # of the reader since the first look, as of ``Log.work``
    _untold_ms: int = -1  # when its busy time was last unknown
    _pace: "Pace" = field(default_factory=lambda: Pace())

    # The logs

    def look(self, answer: Answer, topics: Collection[str], now_ms: int) -> None:
        """Take into account what the broker tells of the topics that count now; the others are forgotten."""
        watched = {topic for topic, _ in self.logs} | {topic for topic, _ in self._untold}
        extents = dict(
            sorted(((each, extent) for each, extent in answer.extents.items() if each[0] in topics), key=lambda item: item[0])
        )
        self.unknown = dict(sorted((each, why) for each, why in answer.unknown.items() if each[0] in topics))
        for each in sorted(self.logs):
            if each[0] in answer.missing and each[0] in topics:
                self.unknown[each] = "the topic is gone; if it stays away, take it out of what is read"
        kept = extents.keys() | self.unknown.keys()
        self.logs = {each: log for each, log in self.logs.items() if each in kept}
        happened: dict[str, list[Partition]] = {}
        self._back = frozenset(self.logs.keys() & extents.keys() - self.arrived.keys())
        self.arrived = {each: self._grown(each, extent, each[0] in watched, now_ms, happened) for each, extent in extents.items()}
        self.notes = [f"{_few(partitions)}: {what}" for what, partitions in happened.items()]
        self._untold = (self._untold | self.unknown.keys()) & kept - self.logs.keys()
        if self._total is None:
            self._total = first_count(now_ms)
        self._total += sum(self.arrived.values())
        self.counted = None if self.unknown else self._total
        self.ends.add(now_ms, {each: extent.end for each, extent in extents.items()})

    def _grown(self, each: Partition, extent: Extent, is_watched: bool, now_ms: int, happened: dict[str, list[Partition]]) -> int:
        """Return how many records came into a partition since it was last seen, keep what it holds, and note what happened."""
        log = self.logs.get(each)
        if log is None:
            # One more of a topic that was watched has been added, and all that it holds came since; otherwise it had a past.
            is_new = is_watched and each not in self._untold
            self.logs[each] = Log(extent, now_ms, is_new=is_new)
            return extent.end - extent.start if is_new else 0
        before, log.extent = log.extent, extent
        if before.topic_id and extent.topic_id:
            if before.topic_id != extent.topic_id:
                happened.setdefault("made anew: counted from the start", []).append(each)
                self.logs[each] = Log(extent, now_ms, is_new=True, outlived=log.committed)
                return extent.end - extent.start
            if extent.end < before.end:
                happened.setdefault("cut short: counted from the new end", []).append(each)
        elif extent.end < before.end:
            # Made anew, or cut short: what it held at the look before may have been counted.
            happened.setdefault("made anew or cut short: counted from the new end", []).append(each)
            self.logs[each] = Log(extent, now_ms, outlived=log.committed)
            return 0
        if extent.end != before.end:
            log.end_moved_ms = now_ms
        return max(0, extent.end - before.end)

    # The reader

    def read(
        self, committed: Mapping[Partition, int], now_ms: int, *, are_new: bool = False, busy_ms: float | None = None
    ) -> None:
        """Take into account how far the reader has committed.

        Args:
            committed: the offset of the next record by partition.
            now_ms: the time of this look.
            are_new: whether none of its members was there at the look before, when there were others.
            busy_ms: that its members spent on records since the look before; None: unknown.
        """
        looked_ms = now_ms if self._read_ms is None else self._read_ms
        self.passed_ms = now_ms - looked_ms
        self.moved, self.lag, back, passed = {}, dict.fromkeys(self.unknown), [], []
        for each in sorted(self.arrived):
            log, at = self.logs[each], committed.get(each)
            has_moved = at is not None and log.committed is not None and at != log.committed
            if at is not None and log.committed is not None and at < log.committed and at <= log.extent.end:
                back.append((each, log.committed - at))
            moved, skipped = _move(log, at)
            if moved is not None and each not in self._back:
                self.moved[each] = moved
            if skipped:
                passed.append((each, skipped))
            lag = waiting(log.extent, at)
            if isinstance(lag, str):
                self.unknown[each] = lag
            log.stand(None if isinstance(lag, str) else lag, has_moved, looked_ms, now_ms)
            self.lag[each] = None if isinstance(lag, str) else 0 if _are_markers(log, lag, now_ms) else lag
            log.committed = log.committed if at is None else at
        self._leave_out_old(committed, now_ms)
        skips = self._pace.skips(self.moved, self.arrived, self.passed_ms, are_new=are_new, busy_ms=busy_ms)
        self._leave_out_worked_on(now_ms, busy_ms)
        passed += [(each, self.moved.pop(each)) for each in skips]
        if back:
            self.notes.append(in_one_line(back, "set back", "read again, and nothing was got through"))
        if passed:
            self.notes.append(in_one_line(passed, "put forward", SKIPPED))
        self.lag_ms = self._age_ms(committed, now_ms)
        self._read_ms = now_ms

    def _leave_out_old(self, committed: Mapping[Partition, int], now_ms: int) -> None:
        """Count nothing as waiting in partitions without a commit that are at rest while the reader is at work in all others.

        It has begun at their end, or it would have committed something there by now: a client may not for months.
        """
        read = [each for each in self.arrived if each in committed and each not in self.unknown]
        stood_ms = [now_ms - (self.logs[each].stands_since_ms or now_ms) for each in read if self.lag[each]]
        if not read or max(stood_ms, default=0) >= QUIET_MS:
            return
        for each in self.arrived:
            if each not in committed and each in self.unknown and now_ms - self.logs[each].end_moved_ms >= QUIET_MS:
                self.lag[each] = 0
                del self.unknown[each]

    def _leave_out_worked_on(self, now_ms: int, busy_ms: float | None) -> None:
        """Count as waiting, between a reader's commits, what the last ones left, or what it had no time for since then.

        ``busy_ms``: of this look; without it, anything that came since may have been worked on.
        """
        spent_ms, came = self._work
        self._work = spent_ms, came = (spent_ms + (busy_ms or 0.0), came + sum(self.arrived.values()))
        for each in self.moved:
            if self.moved[each] or self.logs[each].work[0] > spent_ms:
                self.logs[each].work = self._work
        if busy_ms is None:
            self._untold_ms = now_ms
        habits = Habits.of([interval for each in self.moved for interval in self.logs[each].intervals])
        may_be_done = (each for each, lag in self.lag.items() if lag and self.logs[each].may_commit_seldom(now_ms, habits))
        for each in list(may_be_done) if busy_ms else ():
            self.lag[each] = None
            self.unknown[each] = "nothing was committed there for minutes, and its reader is at work"
        open_ones = {
            each: lag
            for each, lag in self.lag.items()
            if lag and self.logs[each].waits_for_commit(now_ms, habits, shows_work=bool(busy_ms))
        }
        total = sum(open_ones.values())
        if not total:
            return
        began_ms, had_come = min(self.logs[each].work for each in open_ones)
        is_told = all((self.logs[each].stands_since_ms or 0) >= self._untold_ms for each in open_ones)
        least_ms = self._pace.service_ms if is_told else None
        left = 0.0
        if least_ms is not None:
            # Since the oldest of these commits; what others committed later may have been done before it.
            before = sum(self.logs[each].left or 0 for each in open_ones)
            left = min(1.0, max(0.0, before + came - had_come - (spent_ms - began_ms) / least_ms) / total)
        for each, lag in open_ones.items():
            self.lag[each] = min(lag, max(self.logs[each].left or 0, math.floor(left * lag)))

    @property
    def known(self) -> int | None:
        """Return how many records are known to wait, the least where a part is unknown; None if nothing is known."""
        found = [lag for lag in self.lag.values() if lag is not None]
        return sum(found) if found or not self.lag else None

    @property
    def partly_unknown(self) -> str:
        """Return in one line what of the backlog is unknown; empty if it is known, or if none of it is."""
        return "" if self.known is None else in_words(self.unknown)

    def behind(self, committed: Mapping[Partition, int]) -> tuple[int, str]:
        """Return how many records lie behind the last commits, and in words why it is not known that no more do; empty: it is.

        By offsets alone: nothing is taken for a marker or left out. In a partition without a commit all count, and even an empty
        one leaves open where its reader would go on.
        """
        count, words = 0, "" if self.lag else "nothing is known to be read"
        for each in [each for each in self.lag if each not in self.arrived][:1]:
            words = f"{named(each)}: {self.unknown.get(each, 'unknown')}"
        for each in self.arrived:
            extent, at = self.logs[each].extent, committed.get(each)
            if at is None or at > extent.end:
                count += max(0, extent.end - extent.start)
                lacks = "nothing was committed there" if at is None else f"offset {at} was committed, past its end"
                words = words or f"{named(each)}: {lacks}"
            else:
                count += extent.end - max(at, min(extent.start, extent.end))
        return count, words

    @property
    def came_ms(self) -> int:
        """Return when a record was last seen to have come; the first look counts."""
        return max((log.end_moved_ms for log in self.logs.values()), default=0)

    def _age_ms(self, committed: Mapping[Partition, int], now_ms: int) -> int | None:
        if self.known is None or (self.unknown and not self.known):
            return None
        ages = [
            self.ends.age_ms(each, max(committed[each], self.logs[each].extent.start), now_ms)
            for each, lag in self.lag.items()
            if lag
        ]
        found = [age for age in ages if age is not None]
        return max(found, default=0) if len(found) == len(ages) else None


@dataclass(slots=True)
class Pace:
    """How fast one reader was over the last hour of looks, to tell work from positions that jumped."""

    # A minute, of the partition that had most: one partition is read by one member.
    _worked: deque[float] = field(default_factory=lambda: deque(maxlen=LOOKS_KEPT))
    _came: deque[float] = field(default_factory=lambda: deque(maxlen=LOOKS_KEPT))
    _service_ms: deque[float] = field(default_factory=lambda: deque(maxlen=LOOKS_KEPT))
    _unpaid_ms: float | None = 0.0  # busy time since the reader last moved; None: a part of it is unknown
    _suspected: dict[Partition, float] = field(default_factory=dict)

    def skips(
        self,
        moved: Mapping[Partition, float],
        arrived: Mapping[Partition, float],
        passed_ms: int,
        *,
        are_new: bool = False,
        busy_ms: float | None = None,
    ) -> list[Partition]:
        """Return the partitions whose position moved further than the members' time explains, and learn from all others.

        What has come since the look before is explained whatever its number: only a backlog can be skipped.

        Args:
            moved: of the reader since the look before, by partition.
            arrived: that came meanwhile.
            passed_ms: since the look before.
            are_new: whether all its members are new.
            busy_ms: that they spent meanwhile; None: unknown.
        """
        if passed_ms <= 0:
            return []
        busy_ms = self._unpaid_ms = None if busy_ms is None or self._unpaid_ms is None else self._unpaid_ms + busy_ms
        minutes, is_told = passed_ms / MINUTE_MS, busy_ms is not None and bool(self._service_ms)
        # Without a counter of busy time, what came in a burst may be worked off as fast.
        usual = max(max(self._worked, default=0.0), 0.0 if is_told else max(self._came, default=0.0)) * minutes
        most = max(SKIP_LEAST, usual * (SKIP_FACTOR_OF_NEW if are_new else SKIP_FACTOR))
        # Whoever goes on at that speed for another look is really that fast.
        too_fast = [
            each
            for each, by in moved.items()
            if by - arrived.get(each, 0) > most and by / minutes > BUSY_SLACK * self._suspected.get(each, 0.0)
        ]
        if not (self._worked or are_new) or self._has_time_for(too_fast, moved, busy_ms):
            too_fast = []
        self._suspected = {each: moved[each] / minutes for each in too_fast}
        self._came.append(max(arrived.values(), default=0) / minutes)
        worked = {each: by for each, by in moved.items() if each not in self._suspected}
        if total := sum(worked.values()):
            self._worked.append(max(worked.values()) / minutes)
            if busy_ms:
                self._service_ms.append(busy_ms / total)
        if any(moved.values()):  # a reader that commits seldom has worked since the commit before
            self._unpaid_ms = 0.0
        return too_fast

    @property
    def service_ms(self) -> float | None:
        """Return the least busy time for a record; None: unknown."""
        return min(self._service_ms, default=None)

    def _has_time_for(self, some: Collection[Partition], moved: Mapping[Partition, float], busy_ms: float | None) -> bool:
        """Return whether the busy time that the other partitions leave explains the work on some; False where it is unknown."""
        if busy_ms is None or not self._service_ms:
            return False
        least_ms, mine = min(self._service_ms), sum(moved[each] for each in some)
        left_ms = busy_ms - least_ms * (sum(moved.values()) - mine)
        return mine * least_ms <= BUSY_SLACK * max(left_ms, 0.0)


def first_count(now_ms: int) -> int:
    """Return what a count of arrivals begins at: less than all counts that began earlier. Until the year 2109."""
    return max(0, (1 << 42) - now_ms)


def in_one_line(moves: Collection[tuple[Partition, float]], what: str, so: str) -> str:
    """Return in words how far the positions in some partitions were moved, and what follows.

    >>> in_one_line([(("orders", 3), 40)], "set back", "read again")
    'orders[3] was set back by 40 records: read again'
    >>> in_one_line([(("orders", 3), 1), (("orders", 5), 0)], "put forward", "skipped")
    'orders[3] and 1 more were put forward by 1 record: skipped'
    """
    worst = max(moves, key=lambda move: (move[1], move[0]))
    others = [each for each, _ in moves if each != worst[0]]
    records = round(sum(by for _, by in moves))
    were, them = "were" if others else "was", "record" if records == 1 else "records"
    return f"{_few([worst[0], *others])} {were} {what} by {records} {them}: {so}"


def _move(log: Log, at: int | None) -> tuple[int | None, int]:
    """Return the records that a reader got through up to a position, None if nobody knows, and those that it skipped."""
    extent, before = log.extent, log.counted_to
    if at is None or at > extent.end:
        if before is None:
            # What is in a partition when it is first seen without a commit may never be read. All that comes after it will be.
            log.counted_to = extent.start if log.is_new else extent.end
        return None, 0
    log.counted_to = max(at, extent.start)
    if before is None:
        return (log.counted_to - extent.start if log.is_new and at != log.outlived else None), 0
    if at < extent.start:
        reached = max(at, before)
        return max(0, at - before), max(0, extent.start - reached)
    return max(0, at - before), 0


def _are_markers(log: Log, lag: int, now_ms: int) -> bool:
    since_ms = log.stands_since_ms
    return lag < MARKERS and since_ms is not None and now_ms - max(since_ms, log.end_moved_ms) >= STILL_MS


@dataclass(frozen=True, slots=True)
class _Point:
    at_ms: int
    ends: dict[Partition, int]


class EndLog:
    """The ends of one job's topics over the last minutes, to be read at the time at which a figure was true.

    An engine's figures may be seconds old; held against fresh ends they would show records waiting that had only just come.
    """

    def __init__(self) -> None:
        self._points: deque[_Point] = deque(maxlen=POINTS_MAX)
        self._last: dict[Partition, int] = {}

    def add(self, at_ms: int, ends: Mapping[Partition, int]) -> None:
        """Note the ends at a time. After a clock that was set back, and of a partition whose end fell, only what comes counts."""
        while self._points and self._points[-1].at_ms >= at_ms:
            self._points.pop()
        fell = [each for each, end in ends.items() if end < self._last.get(each, end)]
        for point in self._points if fell else ():
            for each in fell:
                point.ends.pop(each, None)
        self._last = {**self._last, **ends} if self._last.keys() - ends.keys() else dict(ends)
        self._points.append(_Point(at_ms, dict(ends)))

    def age_ms(self, partition: Partition, offset: int, now_ms: int) -> int | None:
        """Return how long ago a partition's end passed an offset; None if that was before the first known ends."""
        points = [(point.at_ms, point.ends[partition]) for point in self._points if partition in point.ends]
        after = bisect.bisect_right(points, offset, key=lambda point: point[1])
        if after == 0:
            return None
        if after == len(points):
            return 0  # not passed yet
        (early_ms, low), (late_ms, high) = points[after - 1], points[after]
        return max(0, now_ms - round(early_ms + (late_ms - early_ms) * (offset - low) / (high - low)))

    def at(self, when_ms: int) -> dict[Partition, int]:
        """Return the end of each partition at a time: between two known ones in proportion, else the nearest known one."""
        points = list(self._points)
        after = bisect.bisect_left(points, when_ms, key=lambda point: point.at_ms)
        if not points:
            return {}
        if after in (0, len(points)):
            return dict(points[min(after, len(points) - 1)].ends)
        early, late = points[after - 1], points[after]
        share = (when_ms - early.at_ms) / (late.at_ms - early.at_ms)
        return {each: end - round((end - early.ends.get(each, end)) * (1 - share)) for each, end in late.ends.items()}
