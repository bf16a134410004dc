"""What each release has written is frozen in ``releases/VERSION``: today's readers read it, and today's writers write it on.

A file there may be added, for a new kind of message or a new version of one, and is never changed; ``SHA256SUMS`` says so.
``python -m tests.wire.test_releases`` adds what is missing to the newest release. Once a release is out, the next one begins with
an empty folder of its own (docs/upgrade.md).
"""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from surescale.contracts import topics
from surescale.contracts.ids import cluster_of
from surescale.contracts.messages import Message, MinuteMarker, TaskSample
from surescale.contracts.record_keys import record_key
from surescale.contracts.rescaler_state import MemoryKey, RescalerRecord
from surescale.contracts.summaries import SUMMARY_HEADER, SummaryHeader, decode_header, encode_header
from surescale.contracts.summing_up import header_of
from surescale.contracts.windows import decode_window, encode_window
from surescale.contracts.wire import decode, encode
from surescale.services.state.write.projections import Record, project
from surescale.services.tools.recording.format import Header, RawRecord, RecordedTopic, Recording, RecordingWriter
from tests.support.builders import JOB
from tests.unit.services.tools.recording.windows import FIRST_MINUTE, windows
from tests.wire.messages import MESSAGES, window_bytes, window_bytes_with_blocks, window_bytes_with_peaks, window_bytes_with_waits

RELEASES = sorted((Path(__file__).parent / "releases").iterdir())
NEWEST = RELEASES[-1]
SUMS = "SHA256SUMS"
RECORDING = "recording.ssrec"
WINDOWS = {
    "window.bin": window_bytes,
    "window-peaks.bin": window_bytes_with_peaks,
    "window-blocks.bin": window_bytes_with_blocks,
    "window-waits.bin": window_bytes_with_waits,
}
TOPIC_OF = {
    "sample": topics.TASK_METRICS,
    "minute": topics.TASK_METRICS,
    "topology": topics.JOB_TOPOLOGY,
    "cluster": topics.CLUSTER_TOPOLOGY,
    "engine-event": topics.ENGINE_EVENTS,
    "job-settings": topics.JOB_SETTINGS,
    "policy-release": topics.POLICY_RELEASES,
    "decision": topics.DECISIONS,
    "shadow-decision": topics.SHADOW_DECISIONS,
    "clock": topics.CLOCK,
    "command": topics.RESCHEDULE_COMMANDS,
    "outcome": topics.RESCHEDULE_EVENTS,
    "progress": topics.RESCHEDULE_EVENTS,
    "balance": topics.RESCHEDULE_EVENTS,
    "drift": topics.RESCHEDULE_EVENTS,
    "rescaler-state": topics.RESCALER_STATE,
    "dead-letter": topics.DEAD_LETTERS,
}
"""Where each kind of message travels."""


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_no_file_of_a_release_is_ever_changed(release: Path) -> None:
    """The list of digests names every file, and each file has its digest."""
    listed = dict(reversed(line.split("  ")) for line in (release / SUMS).read_text().splitlines())
    assert listed == {path.name: _digest(path) for path in release.iterdir() if path.name != SUMS}


@pytest.mark.parametrize("path", [path for each in RELEASES for path in sorted(each.glob("*.json"))], ids=str)
def test_a_message_of_a_release_still_reads(path: Path) -> None:
    """Today's reader makes the same message of it: what was added since has its default."""
    if path.stem in MESSAGES:
        assert decode(path.read_bytes(), type(MESSAGES[path.stem])) == MESSAGES[path.stem]
    else:
        assert decode_header(path.read_bytes()) == SUMMARIES[path.stem]()


@pytest.mark.parametrize("path", sorted(NEWEST.glob("*.json")), ids=str)
def test_what_the_newest_release_wrote_is_still_written(path: Path) -> None:
    """Today's bytes are the release's, apart from fields that were added since: an earlier reader passes over those."""
    frozen, today = path.read_bytes(), encode(MESSAGES.get(path.stem) or SUMMARIES[path.stem]())
    assert msgspec.json.encode(_as_far_as(json.loads(frozen), json.loads(today))) == frozen


def test_every_kind_of_message_is_in_the_newest_release() -> None:
    """A new message class of which no bytes are frozen fails here."""
    assert {type(message) for message in MESSAGES.values()} == set(Message.__subclasses__())
    assert {*MESSAGES, *SUMMARIES} == {path.stem for path in NEWEST.glob("*.json")}


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_of_a_release_still_reads(release: Path, name: str) -> None:
    """It decodes to the same window, and today's header is the release's, apart from fields that were added since.

    How zstd packs the figures may differ between its releases.
    """
    frozen, today = (release / name).read_bytes(), WINDOWS[name]()
    assert frozen[:4] == today[:4]
    told, now = json.loads(_head(frozen)), json.loads(_head(today))
    if told.pop("load_codes", ""):  # packed by zstd; earlier windows have none
        np.testing.assert_array_equal(decode_window(frozen).load_codes, decode_window(today).load_codes)
    assert _as_far_as(told, now) == told
    assert decode_window(frozen).figures.tobytes() == decode_window(today).figures.tobytes()
    np.testing.assert_array_equal(decode_window(frozen).hourly_peak, decode_window(today).hourly_peak)


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_a_recording_of_a_release_still_reads(release: Path) -> None:
    """Its file opens and is whole, and its readers take every record of every topic."""
    found = list(Recording(release / RECORDING).records())
    for each in found:
        if each.topic == topics.TASK_METRICS:
            assert decode(each.value, TaskSample | MinuteMarker)
        else:
            summary = dict(each.headers).get(SUMMARY_HEADER)
            # The recording of 0.1.0 has clusters in place of jobs as keys, which no writer of that release wrote.
            key = JOB.encode() if topics.TOPICS[each.topic].key == "job" else each.key
            record = Record(each.topic, each.partition, each.offset, key, each.value, each.append_ms, summary)
            project(record)  # raises if it cannot be read
    assert {each.topic for each in found} == set(topics.TOPICS)


def _as_far_as(frozen: object, today: object) -> object:
    """Return today's document without the fields that the frozen one lacks."""
    if isinstance(frozen, dict) and isinstance(today, dict):
        return {name: _as_far_as(frozen[name], value) for name, value in today.items() if name in frozen}
    if isinstance(frozen, list) and isinstance(today, list) and len(frozen) == len(today):
        return [_as_far_as(before, after) for before, after in zip(frozen, today, strict=True)]
    return today


def _head(window: bytes) -> bytes:
    return window[8 : 8 + int.from_bytes(window[4:8])]


def _summary() -> SummaryHeader:
    return header_of(windows({FIRST_MINUTE: 1.0})[0])


def _summary_without_slots() -> SummaryHeader:
    found = _summary()
    minute = msgspec.structs.replace(found.summary.minute, slots=None, slots_configured=None)
    return msgspec.structs.replace(found, summary=msgspec.structs.replace(found.summary, minute=minute))


SUMMARIES: dict[str, Callable[[], SummaryHeader]] = {"summary": _summary_without_slots, "summary-slots": _summary}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _records() -> list[RawRecord]:
    """Return every message on its topic, and the windows with and without their summaries."""
    found: list[RawRecord] = []
    for message in MESSAGES.values():
        topic = TOPIC_OF[type(message).__struct_config__.tag.split("/")[0]]  # type: ignore[union-attr]
        found.append(RawRecord(topic, 0, len(found), 1, _key(message), encode(message)))
    for made in windows({FIRST_MINUTE: 1.0, FIRST_MINUTE + 1: 2.0}):
        headers = ((SUMMARY_HEADER, encode_header(header_of(made))),) if len(found) % 2 else ()
        found.append(RawRecord(topics.SNAPSHOTS, 0, len(found), 1, JOB.encode(), encode_window(made), headers))
    return sorted(found, key=lambda each: (each.topic, each.offset))


def _key(message: Message) -> bytes:
    if isinstance(message, RescalerRecord):
        return str(MemoryKey(cluster=message.cluster, kind=message.kind, id=message.id)).encode()
    job, cluster = getattr(message, "job", None), getattr(message, "cluster", None)
    return (record_key(message) or cluster or (job and cluster_of(job)) or "main").encode()


def _missing() -> dict[str, Callable[[Path], object]]:
    """Return how each file of the newest release is made."""
    made: dict[str, Callable[[Path], object]] = {
        f"{name}.json": lambda path, message=message: path.write_bytes(encode(message))  # type: ignore[misc]
        for name, message in (MESSAGES | {name: make() for name, make in SUMMARIES.items()}).items()  # type: ignore[operator]
    }
    made |= {name: lambda path, make=make: path.write_bytes(make()) for name, make in WINDOWS.items()}  # type: ignore[misc]
    return made | {RECORDING: _record}


def _record(path: Path) -> None:
    records = _records()
    header = Header(
        created_ms=0,
        surescale=path.parent.name,
        topic_prefix="",
        asked_topics=(),
        asked_jobs=(),
        from_ms=None,
        until_ms=None,
        topics=tuple(RecordedTopic(name=name, partitions=1) for name in dict.fromkeys(each.topic for each in records)),
        jobs=(),
    )
    with RecordingWriter(path, header) as writer:
        for each in records:
            writer.add(each)


if __name__ == "__main__":
    for name, make in _missing().items():
        if not (NEWEST / name).exists():
            make(NEWEST / name)
    files = sorted(path for path in NEWEST.iterdir() if path.name != SUMS)
    (NEWEST / SUMS).write_text("".join(f"{_digest(path)}  {path.name}\n" for path in files))
