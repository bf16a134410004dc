"""Flink's counters of each subtask -> samples, with the time at which each was true.

Flink answers with figures that its last fetch brought, up to ten seconds old, and does not say so. But the busy, idle and
back-pressured time of a subtask add up to the time since it started. So what they grew by between two looks is the time that the
figures cover, and the moment of the start is at most the present time less that sum: the more often one looks, the closer.

Flink does not say how many records are on their way between two tasks, in buffers of network and memory. With small records
that is ten thousand or more, which its sources count as read. It is what the tasks before sent, less what a task took in.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from surescale.contracts.messages import ReceivedRecords, TaskSample, TaskSpec
from surescale.engines.flink.answers import IoMetrics, Metric, Subtask, VertexDetail, known

Key = tuple[str, int, int]
"""Vertex, subtask, and the subtask's own attempt."""


READ, EMITTED = "numRecordsIn", "numRecordsOut"
_COUNTED = re.compile(rf"(?P<operator>Source__.+)\.(?:{READ}|{EMITTED})")
WORKED_SHARE: Final = 0.01
"""Of its time, from which on a subtask has worked: one that only waits is busy for less."""
APART_MS_MAX: Final = 1_000
"""Counters of two tasks that are further apart come from two fetches: what was sent in between would seem to be on its way."""


@dataclass(slots=True)
class _Run:
    attempt: int  # the subtask's own
    started_ms: int
    busy_ms: int = 0


@dataclass(slots=True)
class Starts:
    """When the subtasks of a job's present execution graph started, as far as is known: never too early."""

    attempt: int = 0
    _runs: dict[tuple[str, int], _Run] = field(default_factory=dict)

    def busy_ms(self, key: Key, busy_ms: int | None) -> int | None:
        """Return the busy time, which never falls, of a subtask that ``as_of_ms`` was asked about.

        Flink computes it as what is left of the time since the start, and it sometimes falls by a tenth of a second. Whoever
        reads counters takes a fall for a fresh start.
        """
        if busy_ms is None:
            return None
        run = self._runs[key[:2]]
        run.busy_ms = max(busy_ms, run.busy_ms)
        return run.busy_ms

    def as_of_ms(self, attempt: int, key: Key, ran_ms: int | None, now_ms: int) -> int | None:
        """Return when a subtask's figures were true; None if it does not tell how long it has run."""
        if attempt != self.attempt:
            self.attempt, self._runs = attempt, {}
        run = self._runs.get(key[:2])
        if run is None or run.attempt != key[2]:
            run = self._runs[key[:2]] = _Run(key[2], now_ms)
        if ran_ms is None:
            return None
        run.started_ms = min(run.started_ms, now_ms - ran_ms)
        return run.started_ms + ran_ms


@dataclass(slots=True)
class Restored:
    """Records on their way to each task that the present execution graph was restored with, as far as has shown.

    Unaligned checkpoints hold them. Their senders did not send them in this graph, so a task takes in more than was sent: by as
    many, once it has caught up for the first time. Until then too few are known.
    """

    attempt: int = 0
    _known: dict[str, int] = field(default_factory=dict)

    def waiting(self, attempt: int, task: str, sent: int, taken: int) -> int:
        """Return how many records wait for a task at least."""
        if attempt != self.attempt:
            self.attempt, self._known = attempt, {}
        known = self._known[task] = max(self._known.get(task, 0), taken - sent)
        return sent + known - taken


def samples_of(job: str, attempt: int, spec: TaskSpec, vertex: VertexDetail, starts: Starts, now_ms: int) -> list[TaskSample]:
    """Return a sample of each subtask whose figures Flink has fetched.

    One that has read all its input, while others of its task go on, has nothing to do from then on. Its counters are true at any
    later time, so at that of the others.

    Args:
        job: its id.
        attempt: number of the execution graph.
        spec: the task.
        vertex: its subtasks.
        starts: of the job, brought up to date.
        now_ms: when Flink was asked.
    """
    found = [
        (_sample(job, attempt, spec, vertex, subtask, starts, now_ms), subtask.status == "FINISHED")
        for subtask in vertex.subtasks
        if subtask.status in ("RUNNING", "FINISHED") and subtask.metrics.is_complete
    ]
    times = [sample.as_of_ms for sample, is_over in found if not is_over and sample.as_of_ms is not None]
    at_ms = max(times, default=now_ms)
    return [_resting(sample, at_ms) if is_over else sample for sample, is_over in found]


def _resting(sample: TaskSample, at_ms: int) -> TaskSample:
    """Return the sample of a subtask that has finished as of a later time."""
    if sample.as_of_ms is None or sample.idle_ms is None:
        return sample
    rested_ms = max(0, at_ms - sample.as_of_ms)
    return msgspec.structs.replace(sample, as_of_ms=sample.as_of_ms + rested_ms, idle_ms=sample.idle_ms + rested_ms)


def _sample(
    job: str, attempt: int, spec: TaskSpec, vertex: VertexDetail, subtask: Subtask, starts: Starts, now_ms: int
) -> TaskSample:
    metrics, key = subtask.metrics, (vertex.id, subtask.subtask, subtask.attempt)
    as_of_ms = starts.as_of_ms(attempt, key, _ran_ms(metrics), now_ms)
    read, written = known(metrics.read_records) or 0, known(metrics.write_records) or 0
    # Some sources do not count what they read. What they let in is then what they wrote.
    records_in = written if not spec.upstream and not read else read
    return TaskSample(
        job=job,
        task=spec.task,
        subtask=subtask.subtask,
        attempt=attempt,
        sampled_at_ms=now_ms,
        records_in=records_in,
        records_out=written,
        bytes_in=known(metrics.read_bytes) or 0,
        bytes_out=known(metrics.write_bytes) or 0,
        busy_ms=starts.busy_ms(key, known(metrics.accumulated_busy_time)),
        idle_ms=known(metrics.accumulated_idle_time),
        backpressured_ms=known(metrics.accumulated_backpressured_time),
        queued_records=None,
        parallelism=max(1, vertex.parallelism),
        received=(ReceivedRecords(task=spec.upstream[0], records=records_in),) if len(spec.upstream) == 1 else (),
        as_of_ms=as_of_ms,
    )


def operators_named(names: Iterable[str]) -> dict[str, str]:
    """Return the metrics that tell how many records a vertex' source operators read or emitted: name -> operator.

    A vertex counts what it exchanges with others. Sources chained to all that follows exchange nothing, and not every source
    counts what it reads; but each of its operators counts (FLIP-33).
    """
    found = ((name, _COUNTED.fullmatch(name)) for name in names)
    return {name: match["operator"] for name, match in found if match}


def entered_through(metrics: Mapping[str, Metric]) -> int | None:
    """Return the records that entered through the source operators of a vertex, of all its subtasks since its attempt began.

    None where a counter cannot be used: the sum of the others would look like a restart, and the next one like a burst.
    """
    counts: dict[str, dict[str, int]] = {}
    for name, operator in operators_named(metrics).items():
        count = known(metrics[name].sum)
        if count is None:
            return None
        counts.setdefault(operator, {})[name.rpartition(".")[2]] = count
    return sum(count.get(READ) or count.get(EMITTED, 0) for count in counts.values())


def says_nothing(samples: Sequence[TaskSample]) -> bool:
    """Say whether subtasks have worked, as far as is known, and count neither what they read nor what they wrote."""
    if has_counted(samples):
        return False
    ran_ms = sum((each.busy_ms or 0) + (each.idle_ms or 0) + (each.backpressured_ms or 0) for each in samples)
    return any(each.busy_ms is None for each in samples) or sum(each.busy_ms or 0 for each in samples) > WORKED_SHARE * ran_ms


def has_counted(samples: Sequence[TaskSample]) -> bool:
    """Say whether subtasks have read or written anything that they count."""
    return any(each.records_in or each.records_out for each in samples)


def with_entered(samples: Sequence[TaskSample], entered: int) -> list[TaskSample]:
    """Return the samples of all subtasks of a source with the records that entered through them, in equal parts.

    How they are spread nobody asks Flink: that would be a request for each subtask.
    """
    count = len(samples)
    return [
        msgspec.structs.replace(each, records_in=(entered + count - 1 - at) // count)
        for at, each in enumerate(sorted(samples, key=lambda each: each.subtask))
    ]


def is_whole(samples: Sequence[TaskSample]) -> bool:
    """Say whether every subtask of a task has a sample."""
    return bool(samples) and len(samples) == samples[0].parallelism


def _ran_ms(metrics: IoMetrics) -> int | None:
    parts = [known(metrics.accumulated_busy_time), known(metrics.accumulated_idle_time)]
    parts.append(known(metrics.accumulated_backpressured_time))
    return None if None in parts else sum(each for each in parts if each is not None)


def with_queues(
    samples: Mapping[str, Sequence[TaskSample]], tasks: Sequence[TaskSpec], restored: Restored | None = None
) -> list[TaskSample]:
    """Return all samples, those of a task with the records that are on their way to it: all in its first sample.

    They are known where each task before it sends to nobody else, since Flink counts what a task sends over all its edges
    together; where it sends each record once; and where all subtasks were read at the same time.

    Args:
        samples: by task, each with those of its running subtasks; a source's keep what is known of them.
        tasks: of the job.
        restored: of the job, if its checkpoints are unaligned. Reading one task later than another may count a second's records
            too many there; without, such readings count as no record.
    """
    receivers: dict[str, int] = {}
    for spec in tasks:
        for task in spec.upstream:
            receivers[task] = receivers.get(task, 0) + 1
    found: list[TaskSample] = []
    for spec in tasks:
        own = samples.get(spec.task, ())
        senders = [each for task in spec.upstream for each in samples.get(task, ())]
        is_counted = (
            bool(spec.upstream)
            and all(receivers[task] == 1 and is_whole(samples.get(task, ())) for task in spec.upstream)
            and all(edge.ship != "broadcast" for edge in spec.inputs)
            and is_whole(own)
            and _are_of_one_time([*senders, *own])
        )
        if is_counted:
            sent, taken = sum(each.records_out for each in senders), sum(each.records_in for each in own)
            queued = max(0, sent - taken) if restored is None else restored.waiting(own[0].attempt, spec.task, sent, taken)
            own = [msgspec.structs.replace(each, queued_records=0 if at else queued) for at, each in enumerate(own)]
        found += own
    return found


def _are_of_one_time(samples: Sequence[TaskSample]) -> bool:
    times = [each.as_of_ms for each in samples if each.as_of_ms is not None]
    return len(times) == len(samples) and max(times) - min(times) <= APART_MS_MAX
