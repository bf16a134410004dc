"""The file of a recording, and one record of a topic as it was read. Does not use Kafka; holds one record in memory at a time.

Bytes: ``SSREC``, version (1 byte), length of the header (4 bytes, big endian), header (JSON), one zstd frame, trailer. In the
frame each record is its length (4 bytes) and a MessagePack array. The trailer counts the records and the bytes of the frame and
holds the SHA-256 of everything before it. So an altered file is noticed when it is read, and a truncated one when it is opened.
"""

import hashlib
import io
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import msgspec
import zstandard

from surescale.contracts import topics
from surescale.contracts.errors import UNREADABLE, RecordRejected, SurescaleError
from surescale.contracts.figures import known_count
from surescale.contracts.ids import cluster_of
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.contracts.topics import RECORD_BYTES_MAX, TOPICS
from surescale.contracts.windows import decode_window

# These stay in force: they are recorded from the beginning, whatever time is asked for, and come first.
FACTS = (topics.JOB_SETTINGS, topics.POLICY_RELEASES, topics.JOB_TOPOLOGY, topics.CLUSTER_TOPOLOGY, topics.CLOCK)
OF_A_JOB = (topics.TASK_METRICS, topics.DECISIONS, topics.RESCHEDULE_COMMANDS, topics.RESCHEDULE_EVENTS, topics.SNAPSHOTS)
MINUTE_HEADER = "minute"  # of a window's record: its end


class RawRecord(msgspec.Struct, frozen=True, array_like=True):
    """One record with its place and the broker's time for it; ``topic`` is the table's name, without prefix."""

    topic: str
    partition: int
    offset: int
    append_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class _Fields(msgspec.Struct):
    """The fields in which records of any kind give their job, cluster and event time."""

    job: str | None = None
    cluster: str | None = None
    sampled_at_ms: int | None = None
    minute_end_ms: int | None = None
    span_end_ms: int | None = None
    issued_at_ms: int | None = None
    at_ms: int | None = None


_decoder = msgspec.json.Decoder(_Fields)


def job_of(record: RawRecord) -> str | None:
    """Return the job a record is about, None if it names none."""
    if topics.TOPICS[record.topic].key == "job" and record.key:
        return record.key.decode("utf-8", "replace")
    return _fields_of(record).job


def is_about(record: RawRecord, jobs: frozenset[str]) -> bool:
    """Return whether a record belongs to a recording of these jobs (none named: of all).

    A record about a whole cluster belongs to each of its jobs, the clock to all.
    """
    if not jobs or record.topic == topics.CLOCK:
        return True
    job = job_of(record)
    if job is not None:
        return job in jobs
    return _fields_of(record).cluster in {cluster_of(name) for name in jobs}


def event_ms(record: RawRecord) -> int | None:
    """Return the event time of a record, None if it has none."""
    if record.topic == topics.SNAPSHOTS:
        return _window_end_ms(record)
    fields = _fields_of(record)
    times = (fields.sampled_at_ms, fields.minute_end_ms, fields.span_end_ms, fields.issued_at_ms, fields.at_ms)
    return next((time for time in times if time is not None), None)


def is_between(record: RawRecord, from_ms: int | None, until_ms: int | None) -> bool:
    """Return whether a record's event time lies in (from, until], as samples lie in their minute. Facts always do."""
    if record.topic in FACTS or (from_ms is None and until_ms is None):
        return True
    at_ms = event_ms(record)
    return at_ms is None or ((from_ms is None or at_ms > from_ms) and (until_ms is None or at_ms <= until_ms))


def _window_end_ms(record: RawRecord) -> int | None:
    for name, value in record.headers:
        if name == MINUTE_HEADER and value and (end_ms := known_count(value.decode("ascii", "replace"))) is not None:
            return end_ms
    try:
        return decode_window(record.value).window_end_ms
    except RecordRejected:
        return None


def _fields_of(record: RawRecord) -> _Fields:
    try:
        return _decoder.decode(record.value or b"{}")
    except UNREADABLE:
        return _Fields()


VERSION = 1
LEVEL = 6  # of zstd; samples shrink to a twentieth

_MAGIC = b"SSREC"
_END = b"SSRECEND"
_PREFIX = struct.Struct(">5sBI")
_TRAILER = struct.Struct(">QQ32s8s")  # records, bytes of the frame, SHA-256, end
_LENGTH = struct.Struct(">I")
_LENGTH_MAX = 2 * RECORD_BYTES_MAX
_CHUNK = 1 << 16


class RecordingRejected(SurescaleError):
    """A file is not a recording, or not a usable one; the message names the file and what is wrong with it."""


class RecordedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic (the table's name) and how many partitions it had."""

    name: str
    partitions: int


class RecordedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job with its newest topology and settings at the time of recording; earlier ones are among the records."""

    job: str
    topology: JobTopology | None = None
    settings: JobSettings | None = None


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a recording says about itself. Topics are in the order of their records; each partition's records are together."""

    created_ms: int  # wall clock
    surescale: str
    topic_prefix: str
    asked_topics: tuple[str, ...]
    asked_jobs: tuple[str, ...]
    from_ms: int | None
    until_ms: int | None
    topics: tuple[RecordedTopic, ...]
    jobs: tuple[RecordedJob, ...]


class RecordingWriter:
    """Writes a recording under a temporary name and moves it into place if the ``with`` block succeeds; else nothing stays."""

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path.resolve()  # a link stays; the file behind it is replaced
        self._header = header
        self.records = 0

    def __enter__(self) -> Self:
        head = msgspec.json.encode(self._header, order="deterministic")
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}-")
        self._temporary = Path(name)
        self._file = os.fdopen(handle, "wb")
        self._hash = hashlib.sha256()
        self._compressor = zstandard.ZstdCompressor(level=LEVEL).compressobj()
        self._frame_bytes = 0
        try:
            self._put(_PREFIX.pack(_MAGIC, VERSION, len(head)) + head)
        except BaseException:
            self._temporary.unlink()
            self._file.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        try:
            with self._file:
                if kind is None:
                    self._finish()
            if kind is None:
                self._temporary.chmod(0o644)
                self._temporary.replace(self._path)
        finally:
            self._temporary.unlink(missing_ok=True)

    def add(self, record: RawRecord) -> None:
        """Append one record."""
        raw = msgspec.msgpack.encode(record)
        self._put_frame(self._compressor.compress(_LENGTH.pack(len(raw)) + raw))
        self.records += 1

    def _finish(self) -> None:
        self._put_frame(self._compressor.flush())
        self._file.write(_TRAILER.pack(self.records, self._frame_bytes, self._hash.digest(), _END))
        self._file.flush()
        os.fsync(self._file.fileno())

    def _put_frame(self, raw: bytes) -> None:
        self._frame_bytes += len(raw)
        self._put(raw)

    def _put(self, raw: bytes) -> None:
        self._hash.update(raw)
        self._file.write(raw)


class Recording:
    """A complete recording on disk; its records can be read any number of times.

    Attributes:
        header: what it says about itself.
        count: how many records it holds.
    """

    def __init__(self, path: Path) -> None:
        """Open a recording and check what can be checked without reading it through.

        Raises:
            RecordingRejected: it is not a recording, is truncated, has another version, or holds a foreign topic.
            OSError: it cannot be read.
        """
        self.path = path
        with path.open("rb") as file:
            size = file.seek(0, io.SEEK_END)
            file.seek(0)
            self._body_at = _PREFIX.size + self._read_prefix(file.read(_PREFIX.size))
            trailer = self._read_trailer(file, size)
            self.count, self._frame_bytes, self._digest, _ = trailer
            file.seek(_PREFIX.size)
            self.header = self._read_header(file.read(self._body_at - _PREFIX.size))

    def records(self) -> Iterator[RawRecord]:
        """Yield the records in order. Damage may show only at the end.

        Raises:
            RecordingRejected: the file is damaged.
        """
        known = frozenset(topic.name for topic in self.header.topics)
        with self.path.open("rb") as file:
            body = _Hashed(file, self._body_at, self._frame_bytes)
            found = 0
            for raw in self._frames(body):
                record = self._decoded(raw)
                if record.topic not in known:
                    raise RecordingRejected(
                        f"{self.path}: holds a record of the topic {record.topic!r}, which its header does not list"
                    )
                found += 1
                yield record
            if (found, body.digest()) != (self.count, self._digest):
                raise self._damaged("the checksum does not fit")

    def check(self) -> None:
        """Read it through.

        Raises:
            RecordingRejected: the file is damaged.
        """
        for _ in self.records():
            pass

    def _read_prefix(self, raw: bytes) -> int:
        if not raw.startswith(_MAGIC):
            raise RecordingRejected(f"{self.path}: not a recording of surescale; `surescale recording create` makes one")
        if len(raw) < _PREFIX.size:
            raise self._cut()
        _, version, head_bytes = _PREFIX.unpack(raw)
        if version != VERSION:
            raise RecordingRejected(f"{self.path}: a recording of version {version}; this surescale reads version {VERSION}")
        return int(head_bytes)

    def _read_trailer(self, file: IO[bytes], size: int) -> tuple[int, int, bytes, bytes]:
        if size < self._body_at + _TRAILER.size:
            raise self._cut()
        file.seek(size - _TRAILER.size)
        records, frame_bytes, digest, end = _TRAILER.unpack(file.read(_TRAILER.size))
        if end != _END or size != self._body_at + frame_bytes + _TRAILER.size:
            raise self._cut()
        return records, frame_bytes, digest, end

    def _read_header(self, raw: bytes) -> Header:
        try:
            header = msgspec.json.decode(raw, type=Header)
        except UNREADABLE as error:
            raise self._damaged(f"its header: {error}") from None
        foreign = sorted({topic.name for topic in header.topics} - set(TOPICS))
        if foreign:
            raise RecordingRejected(f"{self.path}: holds the topic {foreign[0]!r}, which is not one of surescale's")
        return header

    def _frames(self, body: "_Hashed") -> Iterator[bytes]:
        reader = zstandard.ZstdDecompressor().stream_reader(body, read_size=_CHUNK)  # type: ignore[arg-type]  # it only reads
        try:
            while head := _exactly(reader, _LENGTH.size):
                (length,) = _LENGTH.unpack(head)
                if length > _LENGTH_MAX:
                    raise self._damaged(f"a record of {length} bytes")
                yield _exactly(reader, length)
        except (zstandard.ZstdError, EOFError) as error:
            raise self._damaged(str(error)) from None
        body.drain()

    def _decoded(self, raw: bytes) -> RawRecord:
        try:
            return msgspec.msgpack.decode(raw, type=RawRecord)
        except UNREADABLE as error:
            raise self._damaged(str(error)) from None

    def _cut(self) -> RecordingRejected:
        return RecordingRejected(f"{self.path}: the recording is truncated or altered; copy it or record it again")

    def _damaged(self, why: str) -> RecordingRejected:
        return RecordingRejected(f"{self.path}: the recording is damaged ({why}); copy or record it again")


class _Hashed:
    """The zstd frame within the file, hashed as it is read, together with everything before it."""

    def __init__(self, file: IO[bytes], begin: int, length: int) -> None:
        self._file = file
        self._left = length
        self._hash = hashlib.sha256(file.read(begin))

    def read(self, size: int = -1) -> bytes:
        raw = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(raw)
        self._hash.update(raw)
        return raw

    def drain(self) -> None:
        while self.read(_CHUNK):
            pass

    def digest(self) -> bytes:
        return self._hash.digest()


def _exactly(reader: zstandard.ZstdDecompressionReader, length: int) -> bytes:
    """Read this many bytes, or none at the end of the frame."""
    parts = []
    left = length
    while left and (part := reader.read(left)):
        parts.append(part)
        left -= len(part)
    if left and left != length:
        raise EOFError("a record is cut off")
    return b"".join(parts)
