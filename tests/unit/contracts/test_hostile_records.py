"""Records no role of ours writes: each is refused by its decoder, before it can cost memory or end a role."""

import importlib
import pkgutil
import struct
from collections.abc import Iterator
from typing import Any

import msgspec
import msgspec.inspect
import numpy as np
import pytest
import zstandard

from surescale import contracts
from surescale.contracts.clock import pipeline_time_ms, wall_time_ms
from surescale.contracts.decisions import Decision
from surescale.contracts.errors import RecordRejected, SettingsError
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import (
    KEY_BYTES_MAX,
    ClockSegment,
    ClusterTopology,
    Coordinates,
    DeadLetter,
    Host,
    HourlyLoad,
    JobTopology,
    Message,
    MinuteMarker,
    Part,
    TaskSample,
    TaskSpec,
    dead_letter,
    key_of_letter,
)
from surescale.contracts.own_acts import OwnAct, own_act_of
from surescale.contracts.releases import Release
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import TOPICS
from surescale.contracts.topology import check_cluster
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import HOUR_MS, HOURS, Window, decode_window, encode_window, unknown_hours
from surescale.contracts.wire import decode, encode

TOPOLOGY = JobTopology(
    job="sim/a", version=1, at_ms=0, tasks=(TaskSpec(task="source"), TaskSpec(task="map", upstream=("source",)))
)


def window(topology: JobTopology = TOPOLOGY) -> Window:
    """Return a window of two minutes without figures."""
    figures = np.full((2, len(topology.tasks), 15), np.nan, dtype=np.float32)
    return Window(job=topology.job, window_end_ms=120_000, figures=figures, topology=topology, hourly_load=unknown_hours())


def with_header(raw: bytes, figures: bytes, **changes: Any) -> bytes:
    """Return a window's bytes with another header and other figures."""
    magic, layout, length = struct.unpack_from(">3sBI", raw)
    header = msgspec.json.decode(raw[8 : 8 + length]) | changes
    head = msgspec.json.encode(header)
    return struct.pack(">3sBI", magic, layout, len(head)) + head + figures


@pytest.mark.parametrize("job", ["noslash", "a/b/c", "/a", "a/", "sim/a\u0000", "sim/\u001b[31m", "sim/a\nb"])
@pytest.mark.parametrize("kind", [JobSettings, TaskSample])
def test_a_job_id_of_another_form_is_refused_by_every_reader(kind: type[JobSettings | TaskSample], job: str) -> None:
    """Topics and API paths are built from it, and people read it on terminals."""
    figures = dict.fromkeys(
        [
            "subtask",
            "attempt",
            "sampled_at_ms",
            "records_in",
            "records_out",
            "bytes_in",
            "bytes_out",
            "busy_ms",
            "idle_ms",
            "backpressured_ms",
            "queued_records",
        ],
        0,
    )
    sample = {"type": "sample/1", "job": job, "task": "map", "parallelism": 1, **figures}
    document = sample if kind is TaskSample else {"type": "job-settings/1", "job": job}
    with pytest.raises(RecordRejected) as refused:
        decode(msgspec.json.encode(document), kind)
    assert (refused.value.reason, refused.value.field) == ("invalid_field", "job")


@pytest.mark.parametrize(
    ("field", "value"),
    [("policy", "sure\u0000"), ("policy", "../sure"), ("cluster", "a/b"), ("sha256", "\u0000"), ("sha256", "0" * 63)],
)
def test_a_release_that_could_name_another_file_is_refused(field: str, value: str) -> None:
    """An agent looks for the package under this name and hash."""
    document = {"type": "policy-release/1", "cluster": "sim", "policy": "sure", "sha256": "0" * 64, "valid_from_ms": 0}
    assert decode(msgspec.json.encode(document), Release).policy == "sure"
    with pytest.raises(RecordRejected) as refused:
        decode(msgspec.json.encode(document | {field: value}), Release)
    assert (refused.value.reason, refused.value.field) == ("invalid_field", field)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"decision_id": "sim/b@60000/sure"}, "decision_id"),
        ({"decision_id": "sim/a@120000/sure"}, "decision_id"),
        ({"decision_id": "sim/a@60000/hold"}, "decision_id"),
        ({"job": "sim/b"}, "decision_id"),
        ({"span_end_ms": 0}, "decision_id"),
        ({"policy": {"name": "sure", "asked": "hold"}}, "decision_id"),
        ({"policy": {"name": "balance"}, "decision_id": "sim/a@60000/balance"}, "policy"),
    ],
)
def test_a_decision_under_the_id_of_another_one_or_of_an_own_act_is_refused(changes: dict[str, object], field: str) -> None:
    """A rescaler would answer that id twice, or take the decision for one that it knows, and drop the true one."""
    document = {
        "type": "decision/1", "decision_id": "sim/a@60000/sure", "job": "sim/a", "span_end_ms": 60_000, "window_id": "w",
        "policy": {"name": "sure"}, "seed": 0, "settings_version": 0, "topology_version": 0, "action": "hold", "reason": "r",
        "completeness": 1.0, "minutes_known": 1, "tasks": [],
    }  # fmt: skip
    assert decode(msgspec.json.encode(document), Decision).decision_id == "sim/a@60000/sure"
    with pytest.raises(RecordRejected) as refused:
        decode(msgspec.json.encode(document | changes), Decision)
    assert (refused.value.reason, refused.value.field) == ("invalid_field", field)


@pytest.mark.parametrize("own", list(OwnAct))
def test_no_policy_has_the_name_of_an_act_of_the_rescalers_own(own: OwnAct) -> None:
    """Neither a job's settings, a release nor an agent's setting can ask for one."""
    release = {"cluster": "sim", "policy": own, "sha256": "", "valid_from_ms": 0}
    for document in ({"type": "job-settings/1", "job": "sim/a", "policy": own}, {"type": "policy-release/1", **release}):
        with pytest.raises(RecordRejected) as refused:
            decode(msgspec.json.encode(document), Release | JobSettings)
        assert (refused.value.reason, refused.value.field) == ("invalid_field", "policy")
    with pytest.raises(SettingsError, match="SURESCALE_POLICY"):
        PipelineSettings(policy=own)


def test_only_the_name_behind_job_and_time_says_whose_act_it_is() -> None:
    """A policy may be called what it likes; only a whole name counts."""
    ids = ("sim/a@5/balance", "sim/a@5/x/balance", "sim/a@5/balances", "sim/balance", "sim/a@b@5/drain", "")
    assert [own_act_of(each) for each in ids] == [OwnAct.BALANCE, None, None, None, OwnAct.DRAIN, None]


def strings_without_limit(kind: msgspec.inspect.Type, where: str) -> Iterator[str]:
    """Yield where a type holds text of any length."""
    match kind:
        case msgspec.inspect.StrType(max_length=None, pattern=None):
            yield where
        case msgspec.inspect.UnionType(types=several) | msgspec.inspect.TupleType(item_types=several):
            for each in several:
                yield from strings_without_limit(each, where)
        case msgspec.inspect.VarTupleType(item_type=item):
            yield from strings_without_limit(item, where)
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            yield from strings_without_limit(key, where)
            yield from strings_without_limit(value, where)


def kinds_below(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """Yield the kinds of records, or of their parts."""
    for kind in base.__subclasses__():
        yield kind
        yield from kinds_below(kind)


def test_no_record_holds_text_of_any_length() -> None:
    """Whoever may write one field of one record could else fill the memory and the screens of all who read it.

    What a rescaler remembers is its own, whatever its jobs and hosts are called.
    """
    for module in pkgutil.iter_modules(contracts.__path__):
        importlib.import_module(f"{contracts.__name__}.{module.name}")
    kinds = [kind for base in (Message, Part) for kind in kinds_below(base) if kind.__module__.startswith(contracts.__name__)]
    found = [
        where
        for kind in kinds
        if not kind.__module__.endswith(".rescaler_state")
        for field in msgspec.inspect.type_info(kind).fields  # type: ignore[attr-defined]  # of a struct
        for where in strings_without_limit(field.type, f"{kind.__name__}.{field.name}")
    ]
    assert (len(kinds) > 50, found) == (True, [])


@pytest.mark.parametrize("kind", [Release, JobSettings])
def test_an_author_of_a_thousand_pages_is_refused_by_name(kind: type[Release | JobSettings]) -> None:
    """The dead letter and the log say which field it was."""
    raw = b'{"type":"%s","cluster":"sim","policy":"sure","sha256":"","valid_from_ms":0,"job":"sim/a","set_by":"%s"}'
    with pytest.raises(RecordRejected) as caught:
        decode(raw % (kind.__struct_config__.tag.encode(), b"x" * 1_000_000), kind)  # type: ignore[union-attr]  # a text
    assert caught.value.field == "set_by"


def test_a_clock_cannot_be_so_fast_that_time_overflows() -> None:
    """At the highest speed both directions still give a time."""
    segment = ClockSegment(pipeline="r", sequence=0, e0_ms=0, w0_ms=0, speed=1e9, until_ms=2**53)
    fastest = decode(encode(segment), ClockSegment)
    assert (pipeline_time_ms(fastest, 2**53), wall_time_ms(fastest, 2**53)) == (2**53, 2**53 // 10**9)
    with pytest.raises(RecordRejected, match="speed"):
        decode(encode(msgspec.structs.replace(segment, speed=1e308)), ClockSegment)


def test_a_task_cannot_have_millions_of_virtual_nodes() -> None:
    """The rescaler's memory holds a mapping of each."""
    topology = msgspec.structs.replace(TOPOLOGY, tasks=(TaskSpec(task="source", vnodes=10_000_000),))
    with pytest.raises(RecordRejected, match=r"tasks\[0\].vnodes"):
        decode(encode(topology), JobTopology)


def test_a_window_that_claims_gigabytes_is_refused_before_it_is_unpacked() -> None:
    """203 KB of zeros would become 6 GB."""
    tasks = [{"task": f"t{number}"} for number in range(1_000)]
    zeros = zstandard.ZstdCompressor().compress(bytes(10_000_000))
    raw = with_header(
        encode_window(window()), zeros, window_minutes=100_000, topology=msgspec.to_builtins(TOPOLOGY) | {"tasks": tasks}
    )
    with pytest.raises(RecordRejected) as refused:
        decode_window(raw)
    assert (refused.value.reason, refused.value.field) == ("too_large", "figures")


@pytest.mark.parametrize(
    ("tasks", "reason"),
    [
        ((TaskSpec(task="map", upstream=("nobody",)),), "invalid_field"),
        ((TaskSpec(task="map"), TaskSpec(task="map")), "invalid_field"),
        ((TaskSpec(task="a", upstream=("b",)), TaskSpec(task="b", upstream=("a",))), "cyclic_topology"),
    ],
)
def test_a_window_whose_graph_is_none_is_refused(tasks: tuple[TaskSpec, ...], reason: str) -> None:
    """Policies walk along the graph and expect every upstream to be there."""
    with pytest.raises(RecordRejected) as refused:
        decode_window(encode_window(window(msgspec.structs.replace(TOPOLOGY, tasks=tasks))))
    assert refused.value.reason == reason
    assert refused.value.field.startswith("header.tasks")


def test_a_window_of_a_job_without_a_cluster_is_refused() -> None:
    """Its decision would have no topic partition to go to."""
    with pytest.raises(RecordRejected, match=r"header\.job"):
        decode_window(encode_window(window(msgspec.structs.replace(TOPOLOGY, job="noslash"))))


def test_hours_of_the_future_are_not_kept() -> None:
    """They would never fall behind the eight days that a window knows, and so stay forever."""
    kept = WindowHistory("sim/a", 2)
    hours = tuple(HourlyLoad(hour_start_ms=number * HOUR_MS, records=1, minutes=60) for number in range(1_000))
    kept.add_load_history(hours, before_ms=3 * HOUR_MS)
    assert sorted(kept.hours) == [0, HOUR_MS, 2 * HOUR_MS]


def test_a_marker_with_centuries_of_history_is_refused() -> None:
    """More than a monitor may ever send of eight days."""
    hour = HourlyLoad(hour_start_ms=0, records=1, minutes=60)
    marker = MinuteMarker(job="sim/a", minute_end_ms=60_000, topology=TOPOLOGY, load_history=(hour,) * HOURS)
    assert len(decode(encode(marker), MinuteMarker).load_history) == HOURS
    with pytest.raises(RecordRejected, match="load_history"):
        decode(encode(msgspec.structs.replace(marker, load_history=(hour,) * 150_000)), MinuteMarker)


def test_a_dead_letter_is_small_whatever_it_refuses() -> None:
    """A letter that Kafka does not take would stop the role in front of the record for good."""
    why = RecordRejected("invalid_field", "job", "x" * 10_000_000)
    letter = dead_letter(Coordinates("t", 0, 1), b"y" * 16_000_000, why, refused_by="agent")
    assert len(encode(letter)) < 16_384
    assert len(letter.message) == RecordRejected.CHARACTERS_MAX
    assert key_of_letter(b"k" * 16_800_000) == b"k" * KEY_BYTES_MAX
    assert (key_of_letter(None), key_of_letter(b"sim/a")) == (None, b"sim/a")
    assert decode(encode(letter), DeadLetter) == letter


def test_a_brokers_limit_on_bytes_holds_for_what_records_unpack_to() -> None:
    """900 MB of zeros are 854 KB under gzip and would pass. Nor does a broker's default codec reach our clients."""
    assert {topic.config()["compression.type"] for topic in TOPICS.values()} == {"uncompressed"}


@pytest.mark.parametrize(
    ("hosts", "field"),
    [
        ((Host(host="m1", units=(1,)), Host(host="m1", units=(2,))), r"hosts\[1\].host"),
        ((Host(host="m1", units=(1,)), Host(host="m2", units=(2, 1))), r"hosts\[1\].units"),
        ((Host(host="m1", units=(1, 1)),), r"hosts\[0\].units"),
    ],
    ids=["a host twice", "a unit on two hosts", "a unit twice"],
)
def test_a_cluster_lists_every_host_and_unit_once(hosts: tuple[Host, ...], field: str) -> None:
    """A rescaler that takes it in would place work on what does not exist."""
    with pytest.raises(RecordRejected, match=f"{field}: .* is listed twice"):
        check_cluster(ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=hosts))
