"""Records that try to stop their readers: one table for every topic, the same at every run.

Nothing in it lies under the key of the job, cluster or pipeline that tests look at, so whatever a role does with a record that
happens to be well-formed leaves their results alone. Some bodies are about these all the same.
"""

import json
import random
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import zstandard

from surescale.contracts import topics
from surescale.contracts.windows import FIGURES, HOURS
from surescale.contracts.wire import encode
from tests.wire.messages import MESSAGES, window_bytes

JOB, CLUSTER, PIPELINE = "sim/hostile", "hostile", "hostile"
MUTATED_MAX = 150  # per kind of record: a sample of what can be done to each of its fields
KEY_BYTES = 1024 * 1024
_COMPRESSED_BYTES = 7 * 1024 * 1024  # unpacked it fits into a record
_HUGE = 2**63 - 1
_VERSION_MAX = 2**53

KINDS: dict[str, tuple[str, ...]] = {
    topics.TASK_METRICS: ("sample", "minute", "minute-peaks"),
    topics.JOB_TOPOLOGY: ("topology",),
    topics.JOB_SETTINGS: ("job-settings", "job-settings-pause", "job-settings-approval"),
    topics.CLUSTER_TOPOLOGY: ("cluster",),
    topics.ENGINE_EVENTS: ("engine-event",),
    topics.POLICY_RELEASES: ("policy-release", "policy-release-shadow", "policy-release-canary"),
    topics.DECISIONS: ("decision",),
    topics.SHADOW_DECISIONS: ("shadow-decision", "shadow-decision-late"),
    topics.RESCHEDULE_COMMANDS: ("command", "standby"),
    topics.RESCHEDULE_EVENTS: ("outcome", "progress", "balance"),
    topics.RESCALER_STATE: ("rescaler-state",),
    topics.CLOCK: ("clock", "clock-told"),
    topics.DEAD_LETTERS: ("dead-letter",),
}
"""The kinds of records of each topic of JSON; ``snapshots`` carries windows."""

READ_HEADERS = (b"summary", b"minute", b"monitor", b"overtaken-by", b"traceparent")

# Written as they stand into the place of a field: no encoder would make most of them.
_TOKENS: tuple[bytes, ...] = (
    b"-1",
    b"0",
    str(2**53).encode(),
    str(2**53 + 1).encode(),
    str(2**64).encode(),
    b"9" * 4_301,
    b"1e308",
    b"1e999",
    b"-1e-999",
    b"NaN",
    b"true",
    b"null",
    b"{}",
    b"[]",
    b'""',
    b'"/"',
    b'"no-slash"',
    b'"../../../etc/passwd"',
    b'"sim/a\\u0000b"',
    b'"\\ud800"',
    b'"\\u001b]0;title\\u0007\\n"',
    b'"' + b"x" * 70_000 + b'"',
    b"[" * 2_000 + b"]" * 2_000,
    b"[" + b",".join([b"0"] * 20_000) + b"]",
)
_PLACE = "the-hostile-token-goes-here"


@dataclass(frozen=True, slots=True)
class Hostile:
    """One record, and how a producer sends it."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0  # 0: now
    codec: str = "none"
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def hostile_records(topic: str) -> list[Hostile]:
    """Return the records for a topic (bare name)."""
    values = [*_anything(), *(_windows() if topic == topics.SNAPSHOTS else _documents(topic))]
    keys = _keys(topic)
    spread = [Hostile(keys[number % len(keys)], value) for number, value in enumerate(values)]
    good = values[-1] or b""
    large = b"k" * KEY_BYTES
    return [
        *spread,
        *_under_other_keys(topic),
        Hostile(large, b"x"),
        Hostile(large, None),
        *(Hostile(keys[0], good, timestamp_ms) for timestamp_ms in (1, 2**41, _HUGE // 10_000_000, _HUGE)),
        *(Hostile(keys[0], good, codec=codec) for codec in ("gzip", "snappy", "lz4", "zstd")),
        Hostile(keys[0], bytes(_COMPRESSED_BYTES), codec="zstd"),
        Hostile(keys[0], b" " * _COMPRESSED_BYTES, codec="gzip"),
        *(Hostile(keys[0], good, headers=headers) for headers in hostile_headers()),
    ]


def hostile_headers() -> Iterator[tuple[tuple[bytes, bytes | None], ...]]:
    """Yield headers of a record: of every name that a role reads, and of others."""
    values = (None, b"", b"\xff\xfe", b"{", b"9" * 4_301, b"[" * 100_000, b"x" * 500_000, b"00-" + b"f" * 52, b"\x1b]0;x\x07\n")
    for name in READ_HEADERS:
        yield from (((name, value),) for value in values)
        yield (name, b"1"), (name, b"2"), (name, None)
    yield from (((name, b"1"),) for name in (b"", b"\x00", b"\xff", b"a\xffb", b"\xed\xa0\x80", b"n" * 500_000, b"\x1b[2J"))
    yield (b"summary", b"{}"), (b"\xff", b"1"), (b"traceparent", b"x")
    yield tuple((b"n%d" % number, b"v") for number in range(20_000))


def _under_other_keys(topic: str) -> Iterator[Hostile]:
    """Yield records about what tests look at, of the highest version, under keys of others: such a record is nobody's."""
    if topics.TOPICS[topic].kept == "by time":  # their keys only choose the partition
        return
    for name in KINDS.get(topic, ()):
        good = MESSAGES[name]
        newest = {field: _VERSION_MAX for field in ("version", "sequence", "generation") if hasattr(good, field)}
        value = encode(msgspec.structs.replace(good, **newest))
        yield from (Hostile(key, value) for key in (JOB.encode(), CLUSTER.encode(), b"", None))


def _keys(topic: str) -> list[bytes | None]:
    about = [JOB.encode(), CLUSTER.encode(), PIPELINE.encode(), b"sim", b"sim/job/sim/hostile", b"hostile/cluster/topology"]
    strange = [None, b"", b"\x00", b"\xff\xfe", b"/", b"//", b"sim/", b"x" * 30_000, "\u202e\u0001".encode()]
    return [*about, *strange, b"sim/cluster/balance", b"sim/request/sim/hostile@1/rule", b"sim/job/sim/"]


def _anything() -> Iterator[bytes | None]:
    """Yield values that are no record of any topic."""
    yield from (None, b"", b"\x00", b"\xff\xfe", b"{", b"null", b"[]", b'"text"', b"junk" * 5_000)
    yield from (b"[" * 100_000, b'{"type":' * 50_000, b'{"type":' + b"9" * 4_301 + b"}", b"\xef\xbb\xbf{}")
    yield from (b'{"type":"\\ud800"}', b'{"type":"sample/1"}', b"SSW", b"SSW\x01\xff\xff\xff\xff", b"x" * 200_000)


def _documents(topic: str) -> Iterator[bytes]:
    """Yield records of a topic with one field changed, left out or twice, and cut ones; the last is well-formed."""
    for name in KINDS[topic]:
        good = _about_others(encode(MESSAGES[name]))
        changed = list(mutations(good))
        yield from random.Random(name).sample(changed, min(MUTATED_MAX, len(changed)))
        yield from (good[: len(good) // 2], good + good, good[:-1] + b',"type":"sample/1"}', good[:-1] + b',"unknown":{}}')
        yield good


def _about_others(good: bytes) -> bytes:
    for ours, others in ((b"sim/clicks", JOB.encode()), (b'"cluster":"sim"', b'"cluster":"hostile"'), (b'"main"', b'"hostile"')):
        good = good.replace(ours, others)
    return good


def mutations(good: bytes) -> Iterator[bytes]:
    """Yield a JSON document with each of its fields left out, and replaced by each hostile token."""
    document = json.loads(good)
    for path in list(_paths(document)):
        *parents, last = path
        copy = json.loads(good)
        inner = copy
        for step in parents:
            inner = inner[step]
        if last == "type" or (last in ("job", "cluster", "pipeline") and not parents):
            # Without it, or with another's, a record may be about what tests look at.
            continue
        inner[last] = _PLACE
        with_place = json.dumps(copy).encode()
        yield from (with_place.replace(f'"{_PLACE}"'.encode(), token) for token in _TOKENS)
        del inner[last]
        yield json.dumps(copy).encode()


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for key, inner in inside:
        yield (*path, key)
        yield from _paths(inner, (*path, key))


def _windows() -> Iterator[bytes]:
    """Yield windows whose header, layout or figures are wrong; the last is well-formed."""
    good = window_bytes().replace(b"sim/clicks", b"sim/clickx")  # of the same length
    prefix = struct.Struct(">3sBI")
    _, layout, head_bytes = prefix.unpack_from(good)
    head, body = good[prefix.size : prefix.size + head_bytes], good[prefix.size + head_bytes :]

    def window(header: bytes, figures: bytes, *, layout: int = layout, length: int | None = None) -> bytes:
        return prefix.pack(b"SSW", layout, len(header) if length is None else length) + header + figures

    changed = list(mutations(head))
    yield from (window(each, body) for each in random.Random("window").sample(changed, MUTATED_MAX))
    yield from (window(head, body, layout=99), window(head, body, length=2**32 - 1), window(head, b""), window(head, body[:-9]))
    yield window(head, zstandard.compress(bytes(64 * 1024 * 1024)))
    yield window(head.replace(b'"map"', b'"gone"', 1), body)
    yield window(_claims(head, minutes=100_000, tasks=1_000), zstandard.compress(bytes(1024)))
    yield window(_claims(head, minutes=60, tasks=10_000), zstandard.compress(bytes(60 * 10_000 * len(FIGURES) * 4)))
    yield good


def _claims(head: bytes, *, minutes: int, tasks: int) -> bytes:
    """Return a header of many tasks and minutes."""
    header = json.loads(head)
    spec = {"task": "t"}
    header["topology"]["tasks"] = [spec | {"task": f"t{number}"} for number in range(tasks)]
    header |= {"window_minutes": minutes, "hourly_load": [None] * HOURS}
    return msgspec.json.encode(header)
