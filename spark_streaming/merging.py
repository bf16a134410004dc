"""The work of a task: it parses a partition's records, merges them, produces windows and dead letters, and saves the state.

It runs in a Python worker of an executor. What a task says to the driver is one small row. An attempt that is repeated, or runs
beside another, does the same work on the same records and state: its windows have equal bytes, and its files names of their own.
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import msgspec
from confluent_kafka import KafkaError, KafkaException

from surescale.contracts.errors import RecordRejected, SettingsError, SurescaleError
from surescale.contracts.windows import Window
from surescale.runtime.kafka import producer
from surescale.runtime.tracing.setup import tracer_of
from surescale.runtime.tracing.spans import Tracer
from surescale.spark_streaming.manifest import FOLDER, Manifest, SavedState
from surescale.spark_streaming.pipeline_clock import PipelineClock
from surescale.spark_streaming.places import StoreAway, place_of
from surescale.spark_streaming.publisher import Publisher
from surescale.spark_streaming.settings import SparkSettings
from surescale.spark_streaming.stages import parsed, reached
from surescale.spark_streaming.state import StateRefused
from surescale.spark_streaming.state_files import Memory, StateFiles

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

SUMMARY_SCHEMA = "summary binary"
STAGES = ("read", "load", "merge", "publish", "save")


@dataclass(frozen=True, slots=True)
class Work:
    """What the tasks of a batch are told.

    Attributes:
        settings: of the job; the checkpoint's place holds wherever the task runs.
        query: tells queries apart; a new one makes new clients of Kafka, which read its secrets again.
        manifest: of the batch before.
        partitions: that a task merges together; None: those that it reads.
        began_ns: wall time at which the batch began.
    """

    settings: SparkSettings
    query: str
    manifest: Manifest
    partitions: tuple[int, ...] | None
    began_ns: int


class Merged(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a task has done.

    Attributes:
        state: where the state of ``partitions`` is now.
        offsets: of the next record of each partition that it read.
        refused: dead letters by reason.
        closed_append_ms: of each window, when the broker took the record that closed it.
        stage_ms: time spent by stage.
        worked_ms: wall time at which the task began and ended.
    """

    partitions: tuple[int, ...]
    state: SavedState
    offsets: dict[int, int]
    records: int
    samples: int
    windows: int
    late: int
    refused: dict[str, int]
    closed_append_ms: tuple[int, ...]
    stage_ms: dict[str, float]
    worked_ms: tuple[float, float]


_KINDS: tuple[type[Exception], ...] = (StateRefused, SettingsError, StoreAway, TimeoutError, OSError)


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Why a task could not do its work. Spark would pass on only the text of an exception, among its own."""

    kind: str
    text: str
    code: int = 0

    KINDS: ClassVar[dict[str, type[Exception]]] = {each.__name__: each for each in _KINDS}

    @classmethod
    def of(cls, error: Exception) -> "Failed":
        """Return what the driver is told of an error."""
        if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
            return cls("KafkaException", error.args[0].str(), error.args[0].code())
        return cls(next((name for name, kind in cls.KINDS.items() if isinstance(error, kind)), "OSError"), str(error))

    def error(self) -> Exception:
        """Return the error, for the driver to raise."""
        if self.kind == "KafkaException":
            return KafkaException(KafkaError(self.code, self.text))
        return self.KINDS[self.kind](self.text)


def merge(batches: Iterable["pa.RecordBatch"], work: Work) -> Iterator["pa.RecordBatch"]:
    """Do a task's work: Arrow batches of ``stages.source_columns`` in, one row of ``SUMMARY_SCHEMA`` out, none of no records."""
    import pyarrow as pa

    try:
        done: Merged | Failed | None = _merged(batches, work)
    except (KafkaException, OSError, SurescaleError) as error:
        done = Failed.of(error)
    if done is not None:
        yield pa.record_batch([pa.array([msgspec.msgpack.encode(done)], pa.binary())], names=["summary"])


def summary_of(row: bytes) -> Merged:
    """Return what a task has done.

    Raises:
        Exception: why it could not.
    """
    done = msgspec.msgpack.decode(row, type=Merged | Failed)
    if isinstance(done, Failed):
        raise done.error()
    return done


def _merged(batches: Iterable["pa.RecordBatch"], work: Work) -> Merged | None:
    times = _Times()
    with times.of("read"):
        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return None
        records, unparsed = parsed(given)
        offsets = reached(records, unparsed)
    partitions = tuple(offsets) if work.partitions is None else work.partitions
    worker = _worker(work.query, work.settings)
    with times.of("load"):
        memory = worker.take(work.manifest, partitions)
    publisher = Publisher(work.settings, worker.client, worker.tracer)
    markers = ((records.markers[row], header) for row, header in records.traces.items())
    traces = {(marker.job, marker.minute_end_ms): header for marker, header in markers}
    too_large: list[RecordRejected] = []

    def publish(windows: Sequence[Window]) -> None:
        with times.of("publish"):
            too_large.extend(publisher.windows(windows, traces, work.began_ns))

    with times.of("merge"):
        fed = memory.minutes.feed(records, worker.clock.at(records.append_ms), publish)
    with times.of("publish"):
        publisher.dead_letters((*unparsed, *fed.refused))
        publisher.flush_or_raise()
    with times.of("save"):
        state = worker.files.save(memory, work.manifest.batch + 1, partitions[0], is_shared=len(partitions) > 1)
    worker.held[state.head] = memory
    reasons = [*(each.reason for each in (*unparsed, *fed.refused)), *(each.reason for each in too_large)]
    return Merged(
        partitions=partitions,
        state=state,
        offsets=offsets,
        records=sum(each.num_rows for each in given),
        samples=fed.samples,
        late=fed.late,
        windows=len(fed.windows) - len(too_large),
        refused=Counter(reasons),
        closed_append_ms=tuple(each.closed_append_ms or 0 for each in fed.windows),
        stage_ms=times.spent_ms,
        worked_ms=(times.began_ms, time.time() * 1000),
    )


class _Worker:
    """What a Python worker keeps from task to task: clients of Kafka, and states that it need not load again.

    A held state has the name of its file, which no other attempt uses, so it is the one that counts or it is not used.
    """

    def __init__(self, query: str, settings: SparkSettings) -> None:
        import logging
        import threading

        self.query = query
        self.client = producer(settings)
        self.clock = PipelineClock(settings, stop=threading.Event(), log=logging.getLogger("surescale.spark"))
        self.tracer = _tracer()
        self.files = StateFiles(place_of(settings.spark_checkpoint) / FOLDER)
        self.held: dict[str, Memory] = {}

    def take(self, manifest: Manifest, partitions: Sequence[int]) -> Memory:
        """Return the memory of some partitions, for the caller to change."""
        self.held = {name: memory for name, memory in self.held.items() if name in manifest.files()}
        self.files.forget_others(manifest)
        states = {manifest.states[each] for each in partitions if each in manifest.states}
        if len(states) == 1:
            (state,) = states
            if manifest.sharing(state) == set(partitions) and (memory := self.held.pop(state.head, None)) is not None:
                return memory
        return self.files.load(manifest, partitions)


class _Times:
    """The time spent by stage; the clock of a stage around another stands still meanwhile."""

    def __init__(self) -> None:
        self.spent_ms = dict.fromkeys(STAGES, 0.0)
        self.began_ms = time.time() * 1000

    @contextlib.contextmanager
    def of(self, stage: str) -> Iterator[None]:
        """Add the time spent to a stage."""
        began_s, before_ms = time.monotonic(), sum(self.spent_ms.values())
        yield
        inside_ms = sum(self.spent_ms.values()) - before_ms
        self.spent_ms[stage] += (time.monotonic() - began_s) * 1000 - inside_ms


_present: list[_Worker] = []


def _worker(query: str, settings: SparkSettings) -> _Worker:
    """Return what this Python worker keeps; a new query's is new."""
    if not _present or _present[0].query != query:
        for old in _present:
            old.clock.close()
        _present[:] = [_Worker(query, settings)]
    return _present[0]


@cache
def _tracer() -> Tracer:
    os.environ.setdefault("OTEL_BSP_SCHEDULE_DELAY", "500")  # ms; Spark ends a worker without asking it
    return tracer_of("spark")
