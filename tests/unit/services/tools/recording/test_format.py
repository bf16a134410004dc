"""The file of a recording: what goes in comes out, and nothing else is taken for one."""

import struct
from pathlib import Path

import msgspec
import pytest

from surescale.services.tools.recording.format import (
    Header,
    RawRecord,
    RecordedJob,
    RecordedTopic,
    Recording,
    RecordingRejected,
    RecordingWriter,
)
from tests.support.builders import JOB, topology

RECORDS = [
    RawRecord("job-settings", 1, 4, 1_000, b"sim/clicks", b"{}"),
    RawRecord("task-metrics", 0, 0, 2_000, None, None),
    RawRecord("task-metrics", 0, 7, 2_001, b"", b"\x00\xff" * 40_000, (("minute", b"60000"), ("empty", None))),
]


def header(**changes: object) -> Header:
    """Return the header of a small recording, changed as asked."""
    base: dict[str, object] = {
        "created_ms": 5,
        "surescale": "0.1.0",
        "topic_prefix": "",
        "asked_topics": (),
        "asked_jobs": (JOB,),
        "from_ms": None,
        "until_ms": None,
        "topics": (RecordedTopic(name="job-settings", partitions=4), RecordedTopic(name="task-metrics", partitions=4)),
        "jobs": (RecordedJob(job=JOB, topology=topology()),),
    }
    return Header(**(base | changes))  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A whole recording of ``RECORDS``."""
    made = tmp_path / "hour.ssrec"
    with RecordingWriter(made, header()) as writer:
        for record in RECORDS:
            writer.add(record)
    return made


def is_refused(path: Path, raw: bytes) -> bool:
    """Say whether these bytes are refused as a recording, with a message that names the file."""
    path.write_bytes(raw)
    try:
        Recording(path).check()
    except RecordingRejected as error:
        return str(path) in str(error) and "\n" not in str(error)
    return False


def test_what_was_written_is_read(path: Path) -> None:
    """Header and records come back equal, empty and absent keys and values told apart."""
    recording = Recording(path)
    assert recording.header == header()
    assert list(recording.records()) == RECORDS
    assert recording.count == 3


def test_it_can_be_read_twice(path: Path) -> None:
    """Each call reads from the beginning."""
    recording = Recording(path)
    assert list(recording.records()) == list(recording.records())


def test_the_same_records_give_the_same_bytes(path: Path, tmp_path: Path) -> None:
    """Two recordings of the same are the same file."""
    with RecordingWriter(tmp_path / "again", header()) as writer:
        for record in RECORDS:
            writer.add(record)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_recording_without_records_is_whole(tmp_path: Path) -> None:
    """None at all is a number of records too."""
    with RecordingWriter(tmp_path / "empty", header()):
        pass
    assert list(Recording(tmp_path / "empty").records()) == []


def test_a_file_cut_off_anywhere_is_refused(path: Path) -> None:
    """Every length but the full one is noticed, most of them when the file is opened."""
    whole = path.read_bytes()
    assert all(is_refused(path, whole[:length]) for length in range(len(whole)))


def test_a_flipped_bit_anywhere_is_refused(path: Path) -> None:
    """Prefix, header, records, trailer: no byte may change."""
    whole = path.read_bytes()
    flipped = (whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :] for at in range(len(whole)))
    assert all(is_refused(path, raw) for raw in flipped)


def test_bytes_behind_the_end_are_refused(path: Path) -> None:
    """A file that goes on behind its trailer is none of ours."""
    assert is_refused(path, path.read_bytes() + b"\n")


def test_another_version_is_named(path: Path) -> None:
    """The message tells the version found and the version read."""
    raw = bytearray(path.read_bytes())
    raw[5] = 9
    path.write_bytes(raw)
    with pytest.raises(RecordingRejected, match="a recording of version 9; this surescale reads version 1"):
        Recording(path)


def test_any_other_file_is_no_recording(path: Path) -> None:
    """A text, an empty file: one line says so."""
    for raw in (b"", b"minute,requests\n", b"SSW\x01"):
        path.write_bytes(raw)
        with pytest.raises(RecordingRejected, match="not a recording"):
            Recording(path)


def test_a_foreign_topic_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    """A topic that is not in the table is named."""
    with RecordingWriter(tmp_path / "r", header(topics=(RecordedTopic(name="payments", partitions=1),))):
        pass
    with pytest.raises(RecordingRejected, match="holds the topic 'payments'"):
        Recording(tmp_path / "r")


def test_a_record_of_a_topic_that_the_header_does_not_list_is_refused(tmp_path: Path) -> None:
    """Records and header must agree."""
    with RecordingWriter(tmp_path / "r", header()) as writer:
        writer.add(msgspec.structs.replace(RECORDS[0], topic="payments"))
    with pytest.raises(RecordingRejected, match="a record of the topic 'payments'"):
        Recording(tmp_path / "r").check()


def test_a_length_out_of_all_reason_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A damaged length does not make the reader ask for gigabytes."""
    writer = RecordingWriter(tmp_path / "r", header())
    with writer:
        writer._put_frame(writer._compressor.compress(struct.pack(">I", 2**32 - 1)))
    with pytest.raises(RecordingRejected, match="a record of 4294967295 bytes"):
        Recording(tmp_path / "r").check()


def test_a_recording_that_fails_leaves_nothing_behind(path: Path) -> None:
    """The former file stays as it was, and no temporary one is left."""
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="broker away"), RecordingWriter(path, header()):
        raise RuntimeError("broker away")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_recording_that_cannot_be_begun_leaves_nothing_behind(tmp_path: Path) -> None:
    """A header that cannot be written, as on a full disk, takes the temporary file along."""

    class Unwritable(RecordingWriter):
        def _put(self, raw: bytes) -> None:
            raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"), Unwritable(tmp_path / "r", header()):
        pass
    with pytest.raises(UnicodeEncodeError), RecordingWriter(tmp_path / "r", header(asked_jobs=("sim/\udcff",))):
        pass
    assert list(tmp_path.iterdir()) == []
