"""Keeps the figures of one job from look to look: sums of what is now, totals of what grew. Pure.

A figure of a task or subtask is unknown while a series is missing that was there before. After ``GONE_LOOKS`` looks without it,
the series counts as gone: its partition, thread or worker is no more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from surescale.contracts.figures import known_count
from surescale.engines.kafka.positions import QUIET_MS, SKIPPED, Pace, Partition, first_count, in_one_line, in_words
from surescale.engines.prometheus.jobs import WatchedJob
from surescale.engines.prometheus.mappings import COUNTERS, TIMES, FigureName
from surescale.engines.prometheus.readings import Key, Reading, Subtask

WOBBLE_MS = 1_000.0
"""A time that falls by no more than this has not started over: Flink computes busy time as a remainder, and it wobbles."""
FORGOTTEN_MS = 3_600_000
"""A series that was away for longer counts from where it comes back."""
COUNTERS_MAX = 200_000
"""Where there are more, none is remembered that is gone: series with ever new labels would fill the memory."""


@dataclass(slots=True)
class Counter:
    """One series. ``value`` and ``at_ms`` are of its newest scrape that was counted."""

    value: float
    at_ms: int

    def grown(self, reading: Reading, *, is_time: bool, is_offset: bool, is_other: bool) -> tuple[float, bool]:
        """Return by how much it grew since it was last counted, and whether it started over.

        Args:
            reading: what Prometheus shows now; its value is known.
            is_time: it counts milliseconds.
            is_offset: it is a position, which somebody may set back; then nothing was done.
            is_other: another replica was asked before, which may have scraped later without saying so.
        """
        assert reading.value is not None, "an unknown value says nothing about growth"
        if reading.at_ms <= self.at_ms:
            return 0.0, False  # the same scrape, or an earlier one that another replica made
        before, self.at_ms = self.value, reading.at_ms
        if reading.value >= before:
            self.value = reading.value
            return reading.value - before, False
        if is_other or (is_time and before - reading.value <= WOBBLE_MS):
            return 0.0, False  # the higher value stays, so that nothing is counted twice
        self.value = reading.value
        return (0.0, False) if is_offset else (reading.value, True)


GONE_LOOKS = 3
_MAXIMA: tuple[FigureName, ...] = ("watermark_lag", "in_pool", "out_pool")
"""Figures for which a task has the largest of its subtasks' values, not the sum."""
Readings = Mapping[FigureName, Mapping[Key, Reading]]
_Of = tuple[FigureName, str, Subtask]
"""A figure of one subtask, or with an empty subtask of a whole task."""


@dataclass(slots=True)
class _Figure:
    is_known: bool = True
    value: float = 0.0
    at_ms: int | None = None
    parts: int = 0  # of it that are known
    unknown: list[Key] = field(default_factory=list)  # parts that are not, of what waits: the others are the least


@dataclass(slots=True)
class Ledger:
    """What is remembered of one job's figures.

    Attributes:
        started_over: whether a counter of the job's own processes started over at the last look.
        notes: what is to be told of the last look, one line each.
    """

    job: WatchedJob
    started_over: bool = False
    notes: list[str] = field(default_factory=list)
    _at_ms: int | None = None
    _paces: dict[str, Pace] = field(default_factory=dict)
    _came_ms: dict[tuple[str, Partition], int] = field(default_factory=dict)
    """When records were last seen to come into a partition that a task reads; the first look counts."""
    _fell: dict[tuple[FigureName, str], list[tuple[Partition, float]]] = field(default_factory=dict)
    _moved: dict[FigureName, dict[str, dict[Key, float]]] = field(default_factory=dict)
    """By how much positions grew at the last look, by figure, task and series."""
    _look: int = 0
    _unknown: dict[str, str] = field(default_factory=dict)
    _unknown_of: int = 0
    """The look that ``_unknown`` is of."""
    _seen: dict[tuple[FigureName, Key], int] = field(default_factory=dict)
    _counters: dict[tuple[FigureName, Key], Counter] = field(default_factory=dict)
    _totals: dict[_Of, float] = field(default_factory=dict)
    _grown: dict[_Of, float] = field(default_factory=dict)
    _now: dict[_Of, _Figure] = field(default_factory=dict)

    def note(self, readings: Readings, at_ms: int, *, is_other: bool) -> None:
        """Take a look into account.

        Args:
            readings: of each figure.
            at_ms: the time asked for.
            is_other: another replica was asked than at the look before.
        """
        self._look += 1
        self._now, self._grown, self.started_over, self._moved, self.notes, self._fell = {}, {}, False, {}, [], {}
        for name, found in readings.items():
            for key, reading in found.items():
                self._add(name, key, reading, is_other)
                self._seen[name, key] = self._look
        for (name, task), falls in sorted(self._fell.items()):
            words = in_one_line(falls, "set back", "counted from there, and nothing was got through")
            self.notes.append(f"{task}: {name}: {words}")
        self._take_off_skips(at_ms)
        self._forget(at_ms)
        for (name, key), look in self._seen.items():
            if look != self._look:
                self._lack(name, key)

    def begin_attempt(self) -> None:
        """Let the totals of an attempt begin with what grew since the look before; arrivals go on."""
        arrived = {of: total for of, total in self._totals.items() if of[0] == "arrived"}
        self._totals = {**self._grown, **arrived}

    def of(self, name: FigureName, task: str, subtask: Subtask, index: int, count: int) -> int | None:
        """Return a figure of a subtask, None if it is unknown. One that only the whole task has is divided evenly.

        Args:
            name: of the figure.
            task: its name.
            subtask: what the labels call it; empty where no label tells subtasks apart.
            index: number of the subtask.
            count: subtasks of the task.
        """
        own = self._now.get((name, task, subtask)) if subtask else None
        whole = self._now.get((name, task, ()))
        figure, of = (own, (name, task, subtask)) if own is not None else (whole, (name, task, ()))
        if figure is None or not figure.is_known or not figure.parts:
            return None
        value = known_count(self._totals.get(of, 0.0) if name in COUNTERS else figure.value)
        if value is None:
            return None
        if own is not None or name in _MAXIMA:
            return value
        each, rest = divmod(value, count)
        return each + (index < rest)

    def partly_unknown(self, task: str) -> str:
        """Return in one line which parts of what waits for a task are unknown; empty if all are known, or none."""
        if self._unknown_of != self._look:
            self._unknown, self._unknown_of = self._all_partly_unknown(), self._look
        return self._unknown.get(task, "")

    def _all_partly_unknown(self) -> dict[str, str]:
        """Return those lines by task; for all tasks at once, since a job may have a thousand."""
        why = "Prometheus shows no fresh number; nothing may have been committed there, or look at its exporter"
        waiting: dict[str, list[_Figure]] = {}
        for (name, task, _), figure in self._now.items():
            if name == "queued":
                waiting.setdefault(task, []).append(figure)
        lacking = {
            task: {_partition(key) for figure in figures for key in figure.unknown}
            for task, figures in waiting.items()
            if any(figure.parts for figure in figures)
        }
        read = {(key.task, _partition(key)) for name, key in self._counters if name == "records_in" and lacking.get(key.task)}
        # Where nothing was ever committed and nothing came for long, the reader has begun behind what is there.
        return {
            task: in_words({each: why for each in parts if (task, each) in read or not self._is_old((task, each))})
            for task, parts in lacking.items()
        }

    def _is_old(self, partition: tuple[str, Partition]) -> bool:
        """Say whether nothing came for long into what a task reads there."""
        came_ms = self._came_ms.get(partition)
        return came_ms is not None and (self._at_ms or 0) - came_ms >= QUIET_MS

    def share(self, name: FigureName, task: str, subtask: Subtask) -> float | None:
        """Return a figure that is a share of 1, None if it is unknown."""
        figure = self._now.get((name, task, subtask)) or self._now.get((name, task, ()))
        return figure.value if figure is not None and figure.is_known else None

    def as_of_ms(self, task: str, subtask: Subtask) -> int | None:
        """Return when the oldest counter of a subtask was scraped."""
        found = [
            figure.at_ms
            for of in ((name, task, each) for name in COUNTERS for each in {subtask, ()})
            if (figure := self._now.get(of)) is not None and figure.is_known and figure.at_ms is not None
        ]
        return min(found, default=None)

    def _add(self, name: FigureName, key: Key, reading: Reading, is_other: bool) -> None:
        figure = self._figure(name, key)
        if reading.value is None:
            self._lack(name, key)
            return
        figure.parts += 1
        figure.at_ms = reading.at_ms if figure.at_ms is None else min(figure.at_ms, reading.at_ms)
        if name in COUNTERS:
            of = self._of(name, key)
            grown = self._grown_by(name, key, reading, is_other)
            self._grown[of] = self._grown.get(of, 0.0) + grown
            begin = first_count(reading.at_ms) if name == "arrived" else 0.0
            self._totals[of] = self._totals.get(of, begin) + grown
            self._moved.setdefault(name, {}).setdefault(key.task, {})[key] = grown
            if name == "arrived" and (grown or (key.task, _partition(key)) not in self._came_ms):
                self._came_ms[key.task, _partition(key)] = reading.at_ms
        elif name in _MAXIMA:
            figure.value = max(figure.value, reading.value)
        else:
            figure.value += reading.value

    def _lack(self, name: FigureName, key: Key) -> None:
        """Note that a part of a figure is unknown, and with it the figure, unless what is known of it says something."""
        figure = self._figure(name, key)
        if name == "queued":
            figure.unknown.append(key)
        elif name != "records_in" or not self.job.figures[name].offset or (name, key) in self._counters:
            figure.is_known = False  # otherwise nothing was ever committed there, so nothing was got through

    def _grown_by(self, name: FigureName, key: Key, reading: Reading, is_other: bool) -> float:
        assert reading.value is not None
        counter, figure = self._counters.get((name, key)), self.job.figures[name]
        # A position that comes into view has a past, and one that was gone moved while nobody looked. An exporter tells no
        # start of a log, so a new partition cannot be told from one that was not shown: both count from here.
        if counter is None or (figure.offset and (name, key) not in self._seen):
            self._counters[name, key] = Counter(reading.value, reading.at_ms)
            return 0.0
        if figure.offset and not is_other and reading.at_ms > counter.at_ms and reading.value < counter.value:
            self._fell.setdefault((name, key.task), []).append((_partition(key), counter.value - reading.value))
        grown, started_over = counter.grown(reading, is_time=name in TIMES, is_offset=figure.offset, is_other=is_other)
        self.started_over |= started_over and figure.names == "task"
        return grown

    def _take_off_skips(self, at_ms: int) -> None:
        """Take records that were skipped off the totals: a position that somebody put forward is no work."""
        passed_ms, self._at_ms = 0 if self._at_ms is None else at_ms - self._at_ms, at_ms
        if not self.job.figures["records_in"].offset:
            return
        for task, moved in sorted(self._moved.get("records_in", {}).items()):
            came = self._moved.get("arrived", {}).get(task, {})
            series = {_partition(key): key for key in moved}
            by_partition = {_partition(key): grown for key, grown in moved.items()}
            arrived = {_partition(key): grown for key, grown in came.items()}
            pace = self._paces.setdefault(task, Pace())
            skipped = [(each, by_partition[each]) for each in pace.skips(by_partition, arrived, passed_ms)]
            for each, by in skipped:
                of = self._of("records_in", series[each])
                self._totals[of] -= by
                self._grown[of] -= by
            if skipped:
                self.notes.append(f"{task}: {in_one_line(skipped, 'put forward', SKIPPED)}")

    def _forget(self, at_ms: int) -> None:
        for each in [each for each, look in self._seen.items() if self._look - look >= GONE_LOOKS]:
            del self._seen[each]
        forgotten_ms = FORGOTTEN_MS if len(self._counters) <= COUNTERS_MAX else 0
        old = [
            each for each, counter in self._counters.items() if at_ms - counter.at_ms > forgotten_ms and each not in self._seen
        ]
        for name, key in old:
            del self._counters[name, key]
        if any(name == "arrived" for name, _ in old):
            left = {(key.task, _partition(key)) for name, key in self._counters if name == "arrived"}
            self._came_ms = {each: at for each, at in self._came_ms.items() if each in left}

    def _figure(self, name: FigureName, key: Key) -> _Figure:
        return self._now.setdefault(self._of(name, key), _Figure())

    def _of(self, name: FigureName, key: Key) -> _Of:
        # Where a figure says how many subtasks there are, nothing tells which series is whose.
        return (name, key.task, () if "parallelism" in self.job.figures else key.subtask)


def _partition(key: Key) -> Partition:
    """Return the partition that a series is about: its last label is the number, if it is one."""
    *before, last = key.part or ("",)
    is_number = last.isascii() and last.isdigit() and len(last) < 10
    return ("/".join((*key.subtask, *(before if is_number else key.part))), int(last) if is_number else 0)


@dataclass(slots=True)
class SubtaskRoster:
    """The subtasks of one task: those that show figures, and those that are missing and may come back."""

    members: tuple[Subtask, ...] = ()
    _missing_looks: int = 0
    _targets: dict[Subtask, tuple[str, str]] = field(default_factory=dict)

    def missing(self, present: Mapping[Subtask, tuple[str, str]]) -> set[tuple[str, str]]:
        """Return what was scraped for the subtasks that are missing now, so that somebody can ask whether it can be reached."""
        return {self._targets[each] for each in self.members if each not in present and each in self._targets}

    def note(self, present: Mapping[Subtask, tuple[str, str]], down: Iterable[tuple[str, str]]) -> bool:
        """Take a look into account and return whether the subtasks are others than before.

        Fewer than before are believed after ``GONE_LOOKS`` looks, and not while one of them cannot be reached.

        Args:
            present: the subtasks with series now, and what was scraped for each.
            down: what Prometheus cannot scrape now.
        """
        now = ordered(present)
        is_down = bool(self.missing(present) & set(down))
        self._missing_looks = self._missing_looks + 1 if len(now) < len(self.members) else 0
        self._targets.update(present)
        if len(now) < len(self.members) and (is_down or self._missing_looks < GONE_LOOKS):
            return False
        has_changed, self.members, self._missing_looks = set(now) != set(self.members), now, 0
        self._targets = dict(present)
        return has_changed


def ordered(subtasks: Iterable[Subtask]) -> tuple[Subtask, ...]:
    """Return subtasks in their natural order: 2 before 10."""
    return tuple(sorted(subtasks, key=lambda each: [_natural(value) for value in each]))


def _natural(text: str) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    digits = ""
    for letter in f"{text}\0":
        if letter.isascii() and letter.isdigit():
            digits += letter
            continue
        if digits:
            found.append((0, int(digits[:18]), digits))
            digits = ""
        found.append((1, 0, letter))
    return found
