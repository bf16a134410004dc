"""Closes the minutes of jobs and advances their windows. Pure: numpy only, time and clock are arguments.

Records are handled one by one in Kafka's order (arrays only make that faster), and jobs are independent. So the result does not
depend on how records were batched or how jobs were interleaved. Minutes follow from one another, so methods that may
close some are ``Steps``: a job stops at each (it yields a ``ClosingMinute``) until its figures are there, and the figures of all
jobs that stop are computed in one go.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import JobTopology, MinuteMarker
from surescale.contracts.topology import check_topology
from surescale.contracts.window_history import Finished, WindowHistory, close_together
from surescale.contracts.windows import Window, WindowCounts
from surescale.contracts.wire import encode
from surescale.spark_streaming.columns import COLUMN, SAMPLE_COLUMNS, Coordinates, Int64, Records, sample_from_row
from surescale.spark_streaming.figures import NO_BASELINE, Baseline, Bools, ClosingMinute, MinuteFigures, minute_figures

ROWS_TOGETHER = 8_192
"""Minutes are closed once they have this many rows together: enough that calls cost little, few enough for the cache."""


def run_together(jobs: Iterable["JobSteps"]) -> Iterator[list["Window | Refused"]]:
    """Run all jobs to their ends; yield their windows and refusals in parts, each job's in order."""
    waiting = deque(jobs)
    while waiting:
        given: list[Window | Refused] = []
        closing: list[tuple[JobSteps, ClosingMinute]] = []
        rows = 0
        while waiting and rows < ROWS_TOGETHER:
            job = waiting.popleft()
            minute = _next_stop(job, None, given)
            if isinstance(minute, ClosingMinute):
                closing.append((job, minute))
                rows += len(minute)
        answers = minute_figures([minute for _, minute in closing])
        finished = [_next_stop(job, figures, given) for (job, _), figures in zip(closing, answers, strict=True)]
        given += close_together([each for each in finished if isinstance(each, Finished)])
        yield given
        waiting.extendleft(reversed([job for job, _ in closing]))


def _next_stop(job: "JobSteps", answer: MinuteFigures | None, given: list["Window | Refused"]) -> ClosingMinute | Finished | None:
    """Run a job to where it stops next, None at its end; what it refuses until then goes to ``given``."""
    try:
        step = job.send(answer)
        while isinstance(step, Refused):
            given.append(step)
            step = next(job)
    except StopIteration:
        return None
    return step


NEVER_MS = -1  # before the first record of a job; ends of minutes are multiples of 60,000

_TASK, _ATTEMPT, _AT, _PARTITION, _OFFSET = (COLUMN[name] for name in ("task", "attempt", "sampled_at_ms", "partition", "offset"))


@dataclass(frozen=True, slots=True)
class MinuteRules:
    """Rules for closing minutes and building windows; saved with the state, which refuses other rules."""

    window_minutes: int = 60
    allowed_lateness_ms: int = 5_000
    ahead_of_clock_ms_max: int = 120_000
    forget_job_after_ms: int = 86_400_000
    """Forget a job after this long without records, keeping only the end of its last closed minute."""


@dataclass(frozen=True, slots=True)
class Refused:
    """One unusable record: where it is and why it was refused (reasons: ``RecordRejected.REJECT_REASONS``)."""

    partition: int
    offset: int
    reason: str
    field: str
    message: str
    key: bytes | None
    payload: bytes

    @property
    def at(self) -> tuple[int, int]:
        """Return its position, for sorting."""
        return self.partition, self.offset


@dataclass(frozen=True, slots=True)
class Fed:
    """The result of one batch: windows by job and minute, refused records by partition and offset."""

    windows: tuple[Window, ...]
    refused: tuple[Refused, ...]
    samples: int
    late: int


JobSteps = Generator[Refused | ClosingMinute | Finished, MinuteFigures | None, None]


@dataclass(slots=True)
class OpenMinute:
    """Samples of a minute that is still open; the column ``task`` indexes ``tasks``."""

    tasks: dict[str, int] = field(default_factory=dict)
    chunks: list[Int64] = field(default_factory=list)

    def add(self, samples: Int64, tasks: tuple[str, ...]) -> None:
        """Add samples, with their tasks renumbered."""
        present = np.unique(samples[:, _TASK])
        numbers = np.array([self.tasks.setdefault(tasks[code], len(self.tasks)) for code in present], dtype=np.int64)
        own = samples.copy()
        own[:, _TASK] = numbers[np.searchsorted(present, samples[:, _TASK])]
        self.chunks.append(own)

    def samples(self) -> Int64:
        """Return all samples in order of arrival."""
        return np.concatenate(self.chunks) if self.chunks else np.zeros((0, len(SAMPLE_COLUMNS)), dtype=np.int64)


@dataclass(slots=True)
class JobMinutes:
    """The memory of one job.

    Attributes:
        closed_ms: end of the last closed minute; records of that minute or earlier are late. ``NEVER_MS`` before the first
            record.
        highest_ms: highest event time of a sample.
        late: late rows since the last window.
        topology: the last valid one.
        seen_ms: when the broker took the job's last record.
        partition: the partition of the job's records.
        left_ms: end of the last minute closed before the job was forgotten; records of that minute or earlier stay late forever.
    """

    job: str
    rules: MinuteRules
    history: WindowHistory
    closed_ms: int = NEVER_MS
    highest_ms: int = NEVER_MS
    late: int = 0
    topology: JobTopology | None = None
    baseline: Baseline = NO_BASELINE
    open: dict[int, OpenMinute] = field(default_factory=dict)
    seen_ms: int = NEVER_MS
    partition: int = 0
    left_ms: int = NEVER_MS

    def take_samples(self, samples: Int64, tasks: tuple[str, ...], append_ms: Int64) -> JobSteps:
        """Add samples in order; yield the windows and refusals of the minutes they close by being newer."""
        while len(samples):
            highest = np.maximum(np.maximum.accumulate(samples[:, _AT]), self.highest_ms)
            if self.closed_ms == NEVER_MS:
                begin_ms = self._closed_by(int(highest[0]))
                self.closed_ms = begin_ms if self.left_ms == NEVER_MS else max(begin_ms, self.left_ms)
            closing = np.flatnonzero(highest - self.rules.allowed_lateness_ms > self.closed_ms + MINUTE_MS)
            count = int(closing[0]) + 1 if len(closing) else len(samples)
            self._add(samples[:count], tasks)
            self.highest_ms = int(highest[count - 1])
            if len(closing):
                yield from self._close_through(self._closed_by(self.highest_ms), int(append_ms[count - 1]))
            samples, append_ms = samples[count:], append_ms[count:]

    def take_marker(self, marker: MinuteMarker, at: Coordinates) -> JobSteps:
        """Close the marker's minute; a marker of a closed minute changes nothing."""
        end_ms = marker.minute_end_ms
        if end_ms % MINUTE_MS:
            message = f"{end_ms} is not the end of a minute (a multiple of {MINUTE_MS})"
            yield _refused_marker(marker, at, RecordRejected("invalid_field", "minute_end_ms", message))
            return
        self.history.add_load_history(marker.load_history, before_ms=end_ms)
        if end_ms <= max(self.closed_ms, self.left_ms):
            return
        if self.closed_ms == NEVER_MS:
            self.closed_ms = end_ms - MINUTE_MS
        topology = self.topology
        if marker.topology != topology:  # almost always the topology already checked
            try:
                _check(marker)
                topology = marker.topology
            except RecordRejected as rejected:
                yield _refused_marker(marker, at, rejected)
        self.topology = self.topology or topology
        yield from self._close_through(end_ms - MINUTE_MS, at.append_ms)
        if topology is not None and self._knows_unreal_attempts(end_ms, topology.attempt):
            self._forget_attempts(end_ms, topology.attempt)
        self.topology = topology
        yield from self._close_through(end_ms, at.append_ms, marker.reached_wall_ms)

    def take(self, records: Records, rows: Int64, is_marker: Bools) -> JobSteps:
        """Take this job's rows of a batch, in order; ``is_marker`` is bool [n] over the whole batch."""
        self.seen_ms = int(records.append_ms[rows[-1]])
        self.partition = int(records.samples[rows[-1], _PARTITION])
        begin = 0
        for position in np.flatnonzero(is_marker[rows]).tolist():
            yield from self._take_between(records, rows[begin:position])
            yield from self.take_marker(records.markers[int(rows[position])], _coordinates(records, int(rows[position])))
            begin = position + 1
        yield from self._take_between(records, rows[begin:])

    def oldest_kept_ms(self) -> int:
        """Return the end of the newest minute whose rows no later window needs."""
        return max(self.closed_ms - self.rules.window_minutes * MINUTE_MS, self.left_ms)

    def _take_between(self, records: Records, rows: Int64) -> JobSteps:
        return self.take_samples(records.samples[rows], records.tasks, records.append_ms[rows])

    def _closed_by(self, highest_ms: int) -> int:
        """Return the end of the last minute an event time closes: one more than the allowed lateness behind it."""
        return (highest_ms - self.rules.allowed_lateness_ms - 1) // MINUTE_MS * MINUTE_MS

    def _add(self, samples: Int64, tasks: tuple[str, ...]) -> None:
        ends = -(-samples[:, _AT] // MINUTE_MS) * MINUTE_MS
        is_late = ends <= self.closed_ms
        self.late += int(is_late.sum())
        for end_ms in np.unique(ends[~is_late]):
            self.open.setdefault(int(end_ms), OpenMinute()).add(samples[ends == end_ms], tasks)

    def _knows_unreal_attempts(self, end_ms: int, attempt: int) -> bool:
        """Say whether later attempts than the engine's present one are known: they would outdate its samples for good.

        Either the job was resubmitted under its name and counts its attempts from the start again, or a sample was not the
        engine's: nothing more comes of its attempt, and the one that the engine says runs goes on sending.
        """
        if self.topology is not None and attempt < self.topology.attempt:
            return True
        if not (self.baseline.samples[:, _ATTEMPT] > attempt).any():
            return False
        came = self.open.get(end_ms, OpenMinute()).samples()[:, _ATTEMPT]
        return bool(len(came) and came.max() == attempt)

    def _forget_attempts(self, end_ms: int, attempt: int) -> None:
        """Start over with the attempts up to the present one.

        Samples of others in the minute that ends now are useless, and counted as late.
        """
        self.baseline = NO_BASELINE
        minute = self.open.get(end_ms, OpenMinute())
        before = len(minute.samples())
        minute.chunks = [chunk[chunk[:, _ATTEMPT] <= attempt] for chunk in minute.chunks]
        self.late += before - len(minute.samples())

    def _close_through(self, end_ms: int, append_ms: int, reached_wall_ms: int | None = None) -> JobSteps:
        """Close every minute up to ``end_ms``; in a gap longer than a window only the last minutes get windows."""
        gap_from_ms = max(self.closed_ms, end_ms - self.rules.window_minutes * MINUTE_MS) + MINUTE_MS
        ends = {open_ms for open_ms in self.open if open_ms <= end_ms} | set(range(gap_from_ms, end_ms + 1, MINUTE_MS))
        for closing_ms in sorted(ends):
            minute = self.open.pop(closing_ms, OpenMinute())
            self.closed_ms = closing_ms
            yield from self._close(closing_ms, minute, append_ms, reached_wall_ms)

    def _close(self, end_ms: int, minute: OpenMinute, append_ms: int, reached_wall_ms: int | None) -> JobSteps:
        samples, tasks = minute.samples(), tuple(minute.tasks)
        if self.topology is None:
            message = f"job {self.job} never sent a valid topology: its monitor must send one with each minute's marker"
            yield from self._refuse_rows(samples, tasks, "unknown_job", "job", message)
            return
        found = yield ClosingMinute(samples, tasks, self.topology, self.baseline)
        assert found is not None, "a closing minute is answered with its figures"
        self.baseline = found.baseline
        message = f"not in the topology (version {self.topology.version}) of job {self.job}"
        yield from self._refuse_rows(found.unknown, tasks, "unknown_task", "task", message)
        counts = WindowCounts(samples=found.samples, late=self.late + found.outdated, duplicates=found.duplicates)
        self.late = 0
        yield Finished(self.history, end_ms, found.rows, self.topology, counts, append_ms, reached_wall_ms)

    def _refuse_rows(self, rows: Int64, tasks: tuple[str, ...], reason: str, name: str, message: str) -> Iterator[Refused]:
        for row in rows:
            task = tasks[row[_TASK]]
            text = f"{task!r} is {message}" if reason == "unknown_task" else message
            payload = encode(sample_from_row(self.job, task, row))
            yield Refused(int(row[_PARTITION]), int(row[_OFFSET]), reason, name, text, self.job.encode(), payload)


class Minutes:
    """Open minutes, baselines and windows of every job; ``left`` holds the last closed minute of forgotten jobs."""

    def __init__(self, rules: MinuteRules) -> None:
        self.rules = rules
        self.jobs: dict[str, JobMinutes] = {}
        self.left: dict[str, int] = {}
        self._late_forgotten = 0

    def feed(self, records: Records, reference_ms: Int64, made: Callable[[Sequence[Window]], object] = lambda _: None) -> Fed:
        """Merge one batch.

        Args:
            records: in Kafka's order within each partition; all records of a job are in one partition.
            reference_ms: int64 [n], the pipeline's time when each record was appended.
            made: takes windows as soon as they are made, each job's in order, while others are still to come.
        """
        windows: list[Window] = []
        refused: list[Refused] = []
        late_before = self._late()
        is_ahead = records.event_ms() > reference_ms + self.rules.ahead_of_clock_ms_max
        refused += [self._ahead(records, row, int(reference_ms[row])) for row in np.flatnonzero(is_ahead).tolist()]
        is_marker = records.is_marker()
        jobs = (self._feed_job(name, records, rows, is_marker) for name, rows in _by_job(records, ~is_ahead))
        for part in run_together(jobs):
            ready = [each for each in part if isinstance(each, Window)]
            made(ready)
            windows += ready
            refused += [each for each in part if isinstance(each, Refused)]
        windows.sort(key=lambda window: (window.job, window.window_end_ms))
        late = self._late() + sum(window.counts.late for window in windows) - late_before
        self._forget_silent(records)
        samples = len(records.job) - len(records.markers)
        return Fed(tuple(windows), tuple(sorted(refused, key=lambda record: record.at)), samples, late)

    def _feed_job(self, name: str, records: Records, rows: Int64, is_marker: Bools) -> JobSteps:
        """Take a job's rows; after a long enough silence among them it counts as a new job, as if forgotten at that point."""
        append_ms = records.append_ms[rows]
        before_ms = self.jobs[name].seen_ms if name in self.jobs else int(append_ms[0])
        silent = np.flatnonzero(np.diff(append_ms, prepend=before_ms) > self.rules.forget_job_after_ms)
        for part, stretch in enumerate(np.split(rows, silent) if len(silent) else [rows]):
            if part and name in self.jobs:
                self._forget(name)
            if len(stretch):
                yield from self._job(name).take(records, stretch, is_marker)

    def _job(self, name: str) -> JobMinutes:
        if name not in self.jobs:
            history = WindowHistory(name, self.rules.window_minutes)
            self.jobs[name] = JobMinutes(name, self.rules, history, left_ms=self.left.pop(name, NEVER_MS))
        return self.jobs[name]

    def _forget_silent(self, records: Records) -> None:
        """Forget silent jobs early: their partition has moved on, so their next record would make them forgotten anyway."""
        reached_ms: dict[int, int] = {}
        for partition in np.unique(records.samples[:, _PARTITION]).tolist():
            reached_ms[partition] = int(records.append_ms[records.samples[:, _PARTITION] == partition].max())
        for name, job in list(self.jobs.items()):
            if reached_ms.get(job.partition, 0) - job.seen_ms > self.rules.forget_job_after_ms:
                self._forget(name)

    def _forget(self, name: str) -> None:
        job = self.jobs.pop(name)
        self.left[name] = max(job.closed_ms, job.left_ms)
        self._late_forgotten += job.late

    def _late(self) -> int:
        return self._late_forgotten + sum(job.late for job in self.jobs.values())

    def _ahead(self, records: Records, row: int, reference_ms: int) -> Refused:
        marker = records.markers.get(row)
        job = records.jobs[records.job[row]]
        sample = records.samples[row]
        name = "sampled_at_ms" if marker is None else "minute_end_ms"
        at_ms = int(sample[_AT]) if marker is None else marker.minute_end_ms
        message = (
            f"{at_ms} is {(at_ms - reference_ms) / 1000:.0f} s ahead of the pipeline's clock, "
            f"{self.rules.ahead_of_clock_ms_max / 1000:.0f} s allowed: check the clock of the machine that sent it"
        )
        original = sample_from_row(job, records.tasks[sample[_TASK]], sample) if marker is None else marker
        at = _coordinates(records, row)
        return Refused(at.partition, at.offset, "ahead_of_clock", name, message, job.encode(), encode(original))


def _by_job(records: Records, is_used: Bools) -> Iterator[tuple[str, Int64]]:
    """Yield each job's rows in order, jobs sorted by name."""
    rows = np.flatnonzero(is_used)
    rows = rows[np.argsort(records.job[rows], kind="stable")]
    codes = records.job[rows]
    parts = np.split(rows, np.flatnonzero(np.diff(codes)) + 1) if len(rows) else []
    yield from sorted(((records.jobs[records.job[part[0]]], part) for part in parts), key=lambda found: found[0])


def _coordinates(records: Records, row: int) -> Coordinates:
    sample = records.samples[row]
    return Coordinates(int(sample[_PARTITION]), int(sample[_OFFSET]), int(records.append_ms[row]))


def _check(marker: MinuteMarker) -> None:
    """Refuse a marker whose topology cannot be used."""
    if marker.topology.job != marker.job:
        raise RecordRejected("invalid_field", "topology.job", f"{marker.topology.job!r} in a marker of job {marker.job!r}")
    try:
        check_topology(marker.topology)
    except RecordRejected as rejected:
        raise RecordRejected(rejected.reason, f"topology.{rejected.field}", rejected.message) from None


def _refused_marker(marker: MinuteMarker, at: Coordinates, why: RecordRejected) -> Refused:
    return Refused(at.partition, at.offset, why.reason, why.field, why.message, marker.job.encode(), encode(marker))
