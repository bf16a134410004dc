"""Every accepted sample lies in exactly one minute of a window, or in dead letters; every window says what the samples say.

Goes through `task-metrics` in the order of its partitions, with the rules of docs/snapshots.md, and compares each minute that
closes with the windows on `snapshots`. Shares no code with the product.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.support.faults.findings import Findings
from tests.support.faults.recording import Topics
from tests.support.faults.wire import MAGIC, MARKER, MINUTE_MS, SAMPLE, ReadWindow, document, minute_of, window

ONE_MINUTE = "each sample in one minute"
ALL_THERE = "a window each minute"
SAME = "one content per window"
FIGURES = "figures are the growth of counters"
Subtask = tuple[str, int]


@dataclass(slots=True)
class Minute:
    """An open minute: distinct samples by identity, and how often one came again."""

    samples: dict[tuple[str, int, int, int], dict[str, Any]] = field(default_factory=dict)
    duplicates: int = 0


@dataclass(frozen=True, slots=True)
class Expected:
    """What the window of a minute must say."""

    samples: int
    duplicates: int
    late_at_most: int
    """Late samples of the job up to here."""
    records_in: dict[str, float]
    """Of the tasks whose every subtask was seen at both ends of the minute in one attempt."""


@dataclass(slots=True)
class Job:
    """What is known of a job so far."""

    lateness_ms: int
    window_minutes: int
    closed_ms: int | None = None
    highest_ms: int = 0
    late: int = 0
    attempt: int = 0
    is_resubmitted: bool = False
    open: dict[int, Minute] = field(default_factory=lambda: defaultdict(Minute))
    last: dict[Subtask, dict[str, Any]] = field(default_factory=dict)

    def take_sample(self, sample: dict[str, Any]) -> Iterator[tuple[int, Expected]]:
        """Put a sample into its minute; yield the minutes it closes by being newer."""
        at_ms, attempt = sample["sampled_at_ms"], sample["attempt"]
        self.highest_ms = max(self.highest_ms, at_ms)
        closable_ms = (self.highest_ms - self.lateness_ms - 1) // MINUTE_MS * MINUTE_MS
        if self.closed_ms is None:
            self.closed_ms = closable_ms
        end_ms = minute_of(at_ms)
        if end_ms <= self.closed_ms:
            self.late += 1
        else:
            self.is_resubmitted |= attempt < self.attempt
            self.attempt = max(self.attempt, attempt)
            minute, identity = self.open[end_ms], (sample["task"], sample["subtask"], attempt, at_ms)
            minute.duplicates += identity in minute.samples
            minute.samples.setdefault(identity, sample)
        if closable_ms > self.closed_ms:
            yield from self.close(closable_ms)

    def close(self, end_ms: int) -> Iterator[tuple[int, Expected]]:
        """Close every minute up to this end; yield each with what its window must say."""
        if self.closed_ms is None:
            self.closed_ms = end_ms - MINUTE_MS
        if end_ms <= self.closed_ms:
            return
        first_ms = max(self.closed_ms, end_ms - self.window_minutes * MINUTE_MS) + MINUTE_MS
        ends = {each for each in self.open if each <= end_ms} | set(range(first_ms, end_ms + 1, MINUTE_MS))
        self.closed_ms = end_ms
        for each in sorted(ends):
            minute = self.open.pop(each, Minute())
            yield each, Expected(len(minute.samples), minute.duplicates, self.late, self._records_in(minute))

    def _records_in(self, minute: Minute) -> dict[str, float]:
        """Return the growth of each task whose every subtask has a sample a minute before its last one, in one attempt."""
        newest: dict[Subtask, dict[str, Any]] = {}
        for sample in minute.samples.values():
            subtask = (sample["task"], sample["subtask"])
            if subtask not in newest or newest[subtask]["sampled_at_ms"] < sample["sampled_at_ms"]:
                newest[subtask] = sample
        growth: dict[str, float] = defaultdict(float)
        width: dict[str, int] = defaultdict(int)
        unclear = {sample["task"] for sample in minute.samples.values() if sample.get("as_of_ms") is not None}
        for subtask, sample in newest.items():
            before = self.last.get(subtask)
            if (
                before is None
                or before["attempt"] != sample["attempt"]
                or sample["sampled_at_ms"] - before["sampled_at_ms"] != MINUTE_MS
            ):
                unclear.add(subtask[0])
            else:
                growth[subtask[0]] += sample["records_in"] - before["records_in"]
            width[subtask[0]] += 1
        self.last.update(newest)
        wide = {sample["task"]: sample["parallelism"] for sample in newest.values()}
        return {task: grown for task, grown in growth.items() if task not in unclear and width[task] == wide[task]}


def check_samples(topics: Topics, findings: Findings, *, lateness_ms: int = 5_000, window_minutes: int = 60) -> list[ReadWindow]:
    """Compare samples, windows and dead letters; return the distinct windows without their figures, in order of end."""
    refused = _refused(topics)
    expected = _expected(topics, refused, lateness_ms, window_minutes)
    windows = _windows(topics, findings, expected)
    for job, minutes in expected.items():
        found = {each.end_ms: each for each in windows if each.job == job}
        for end_ms, wanted in minutes.minutes.items():
            where, one = f"{job}@{end_ms}", found.get(end_ms)
            findings.expect(one is not None, ALL_THERE, where, "the minute closed and has no window")
            if one is None:
                continue
            said = (one.counts["samples"], one.counts["duplicates"])
            text = f"the topic has {wanted.samples} samples and {wanted.duplicates} repeated ones, the window says {said}"
            findings.expect(said == (wanted.samples, wanted.duplicates), ONE_MINUTE, where, text)
        for end_ms in sorted(set(found) - set(minutes.minutes)):
            findings.expect(False, ALL_THERE, f"{job}@{end_ms}", "a window of a minute that never closed")
        if not minutes.is_resubmitted:
            late = sum(each.counts["late"] for each in found.values())
            at_least = max((each.late_at_most for each in minutes.minutes.values()), default=0)
            text = f"{at_least} to {minutes.late} samples were late, the windows say {late}"
            findings.expect(at_least <= late <= minutes.late, ONE_MINUTE, job, text)
    return windows


@dataclass(slots=True)
class _Minutes:
    minutes: dict[int, Expected] = field(default_factory=dict)
    late: int = 0
    is_resubmitted: bool = False


def _refused(topics: Topics) -> set[tuple[int, int]]:
    letters = (document(record.value) for record in topics.records("dead-letters"))
    return {(each["partition"], each["offset"]) for each in letters if each is not None and each["topic"] == "task-metrics"}


def _expected(topics: Topics, refused: set[tuple[int, int]], lateness_ms: int, window_minutes: int) -> dict[str, _Minutes]:
    jobs: dict[str, Job] = {}
    found: dict[str, _Minutes] = defaultdict(_Minutes)
    for record in topics.records("task-metrics"):
        said = None if (record.partition, record.offset) in refused else document(record.value)
        if said is None or said.get("type") not in (SAMPLE, MARKER):
            continue
        job = jobs.setdefault(said["job"], Job(lateness_ms, window_minutes))
        closing = job.take_sample(said) if said["type"] == SAMPLE else job.close(said["minute_end_ms"])
        found[said["job"]].minutes.update(closing)
    for name, job in jobs.items():
        found[name].late, found[name].is_resubmitted = job.late, job.is_resubmitted
    return found


def _windows(topics: Topics, findings: Findings, expected: dict[str, _Minutes]) -> list[ReadWindow]:
    """Return the distinct windows; a repeated one must have the bytes of the first, and a minute one content in all windows."""
    bytes_of: dict[str, bytes] = {}
    rows: dict[tuple[str, int], tuple[tuple[str, ...], bytes]] = {}
    distinct = []
    for record in topics.records("snapshots"):
        if (record.value or b"")[:3] != MAGIC:
            continue  # garbage that a fault put there
        one = window(record.value or b"")
        digest = hashlib.sha256(record.value or b"").digest()
        if one.id in bytes_of:
            findings.expect(bytes_of[one.id] == digest, SAME, one.id, "it was sent again with other bytes")
            continue
        bytes_of[one.id] = digest
        for index in range(one.minutes):
            at = (one.job, one.end_ms - (one.minutes - 1 - index) * MINUTE_MS)
            content = (one.tasks, hashlib.sha256(one.figures[index].tobytes()).digest())
            kept = rows.setdefault(at, content)
            if at[1] in expected[one.job].minutes and kept[0] == one.tasks:
                findings.expect(kept == content, SAME, one.id, f"its minute {at[1]} differs from an earlier window's")
        for task, grown in expected[one.job].minutes.get(one.end_ms, Expected(0, 0, 0, {})).records_in.items():
            said = one.figures[-1, one.tasks.index(task), one.names.index("records_in")]
            text = f"records_in of {task} is {said}, the samples grew by {grown:g}"
            findings.expect(bool(np.isclose(said, grown, rtol=1e-5, atol=0.5)), FIGURES, one.id, text)
        distinct.append(replace(one, figures=one.figures[:0]))
    return sorted(distinct, key=lambda each: (each.job, each.end_ms))
