"""Every decoder of what comes from outside: records, windows, settings, cards, graphs, and Flink's answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import msgspec
import numpy as np
from confluent_kafka import Message

from surescale.contracts.clock import pipeline_time_ms, wall_time_ms
from surescale.contracts.errors import UNREADABLE, RecordRejected, SettingsError
from surescale.contracts.figures import FIGURE_MAX, known_count, known_number
from surescale.contracts.ids import NAME_LETTERS_MAX, RESERVED_NAMES, Cluster, cluster_of, job_id, plain_name, split_job
from surescale.contracts.job_limits import bounds_of
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClockSegment, ClusterTopology, JobTopology
from surescale.contracts.rescaler_state import RescalerRecord
from surescale.contracts.settings import PipelineSettings, from_environment, to_environment
from surescale.contracts.summaries import decode_header, encode_header
from surescale.contracts.summing_up import header_of
from surescale.contracts.topics import SNAPSHOTS
from surescale.contracts.topology import check_cluster, check_topology
from surescale.contracts.windows import decode_window, encode_window
from surescale.contracts.wire import decode, encode
from surescale.engines.flink import answers
from surescale.engines.flink.graph import checkpointing_of, tasks_of
from surescale.engines.flink.identity import attempt_of, identify
from surescale.engines.flink.requirements import Requirements, requirement_id, wanted
from surescale.engines.groups.busy import idle_in, values_in
from surescale.monitor.prices import PRICE_MAX, PriceTable
from surescale.monitor.progress import OtherMonitors, own_header
from surescale.monitor.settings import MonitorSettings
from surescale.policies.onnx_graph import check_graph
from surescale.policies.package import PackageRejected, check_format, decoded
from surescale.policies.registry import SHIPPED
from surescale.policies.sure.package import FORMAT, Card
from surescale.rescaler.control.job.memory import JobMemory, job_record, restored
from surescale.rescaler.service.active import TIME_DIGITS_MAX, overtaken_by_ms
from surescale.rescaler.service.settings import RescalerSettings
from surescale.runtime.tracing.context import context_of
from surescale.services.agent.settings import AgentSettings
from surescale.services.state.settings import StateSettings
from surescale.services.state.write.projections import Record, project
from surescale.services.tools.recording.format import RawRecord, event_ms
from tests.fuzz.mutate import mutated_window
from tests.fuzz.target import Declined, Target, expect
from tests.support.recorded_flink import VERSIONS, recorded
from tests.wire.messages import MESSAGES, window_bytes

GROWTH = 8_192
"""Bytes that defaults and one escaped character more may add to what was decoded, besides six times its length."""
LENGTH_OF_A_NAME = 128
"""Of another monitor; an escaped byte of it takes four letters."""
Answer = TypeVar("Answer")


def decoders() -> Iterator[Target]:
    """Yield every decoder."""
    for name, message in MESSAGES.items():
        yield Target(f"record {name}", [encode(message)], partial(_record, type(message)))
    job = job_record(Cluster("sim"), JobMemory(job="sim/clicks", desired_generation=3), 5).record
    yield Target("record of a job's memory", [encode(job)] if job else [], _job_record)
    yield Target("window", [window_bytes()], _window, mutated_window)
    yield Target("job id", [b"sim/clicks", b"flink/a b", b"x/y/z"], _job_id)
    yield Target("figure", [b"12.5", b"NaN", b"1e300", b"9007199254740992"], _figure)
    yield Target("name from outside", [b"orders", b"team/orders", b"*", b"..", b"a~0123456789abcdef"], _name)
    counter = b'# TYPE busy counter\nbusy_total{topic="a"} 1.5\nbusy_total 2 1700\n'
    yield Target("member's metrics", [counter, b'x_poll_idle_ratio_avg{client_id="\\"a:b\\"",v="1"} 0.5\n'], _metrics)
    yield Target("record's headers", [_joined(headers) for headers in _HEADERS], _headers)
    yield Target("window's summary", [encode_header(header_of(decode_window(window_bytes())))], _summary)
    yield Target("prices", [b"tm-*=0.192, worker=0.05", b"[a-c]?*=1e3,*=1", b""], _prices)
    yield Target("memory", [encode(JobMemory(job="sim/clicks", desired_generation=3))], _memory)
    for kind in (MonitorSettings, AgentSettings, RescalerSettings, StateSettings):
        yield Target(f"settings {kind.__name__}", _environments(kind), partial(_settings, kind))
    cards = [path.read_bytes() for path in sorted(SHIPPED.glob("sure*/card.json"))]
    yield Target("card", cards, _card)
    graphs = [path.read_bytes() for path in sorted(SHIPPED.glob("*/*.onnx"))]
    yield Target("onnx graph", [min(graphs, key=len)], _graph)
    for name, (seeds, call) in _flink().items():
        yield Target(f"flink {name}", seeds, call)


def _record(kind: type[msgspec.Struct], raw: bytes) -> None:
    try:
        message = decode(raw, kind)
    except RecordRejected as rejected:
        raise Declined(rejected.reason) from None
    again = encode(message)
    expect(len(again) <= 6 * len(raw) + GROWTH, f"{len(raw)} bytes became {len(again)}")
    expect(encode(decode(again, kind)) == again, "encoded and decoded it is another record")
    try:
        _used(message)
    except RecordRejected as rejected:
        raise Declined(rejected.reason) from None


def _used(message: msgspec.Struct) -> None:
    """Do what the first reader of a record does with it."""
    if isinstance(message, JobTopology):
        check_topology(message)
        for spec in message.tasks[:50]:
            least, most, _ = bounds_of(JobSettings(job=message.job), spec, message.engine)
            expect(least >= 1 and least <= max(least, most), "bounds are upside down")
    elif isinstance(message, ClusterTopology):
        check_cluster(message)
    elif isinstance(message, ClockSegment):
        for at_ms in (0, 1_780_000_000_000, 2**53):
            expect(abs(pipeline_time_ms(message, at_ms)) < 2**63, "a time that nothing can hold")
            expect(abs(wall_time_ms(message, at_ms)) < 2**63, "a time that nothing can hold")


def _job_record(raw: bytes) -> None:
    _record(RescalerRecord, raw)
    record = decode(raw, RescalerRecord)
    try:
        restored(record)
    except RecordRejected as rejected:
        raise Declined(rejected.reason) from None


def _memory(raw: bytes) -> None:
    try:
        memory = decode(raw, JobMemory)
    except RecordRejected as rejected:
        raise Declined(rejected.reason) from None
    expect(encode(decode(encode(memory), JobMemory)) == encode(memory), "encoded and decoded it is another memory")


def _window(raw: bytes) -> None:
    try:
        window = decode_window(raw)
    except RecordRejected as rejected:
        raise Declined(rejected.reason) from None
    expect(window.figures.nbytes <= 256 * 2**20, f"{len(raw)} bytes took {window.figures.nbytes}")
    again = decode_window(encode_window(window))
    expect(np.array_equal(again.figures, window.figures, equal_nan=True), "encoded and decoded it has other figures")
    expect(again.topology == window.topology, "encoded and decoded it is of another job")
    header = header_of(window)
    expect(decode_header(encode_header(header)) == header, "its summary does not survive")


def _job_id(raw: bytes) -> None:
    try:
        text = raw.decode()
        cluster, name = split_job(text)
    except (RecordRejected, UnicodeDecodeError) as rejected:
        raise Declined(str(rejected)) from None
    expect(job_id(cluster, name) == text and cluster_of(text) == cluster, "put together it is another job")


def _figure(raw: bytes) -> None:
    number, whole = known_number(raw.decode("utf-8", "replace")), known_count(raw.decode("utf-8", "replace"))
    if number is None or whole is None:
        raise Declined("unknown")
    expect(0 <= whole <= number <= FIGURE_MAX, "a figure outside its bounds")
    expect(known_number(number) == number, "a figure that is none")


def _name(raw: bytes) -> None:
    name = raw.decode("utf-8", "surrogateescape")
    made = plain_name(name)
    expect(len(made) <= NAME_LETTERS_MAX and made not in RESERVED_NAMES, "a name that is none")
    expect(split_job(f"shop/{made}") == ("shop", made), "a name that no job can have")
    expect(made == name or "~" in made, "another name's")


def _metrics(raw: bytes) -> None:
    page = raw.decode("utf-8", "replace")
    values = [*values_in(page, "busy_total"), *(value for shown in idle_in(page).values() for value in shown)]
    figures = [known_number(value) for value in values]
    if not figures:
        raise Declined("no counter")
    expect(all(each is None or 0 <= each <= FIGURE_MAX for each in figures), "a figure outside its bounds")


_HEADERS = (
    ((b"traceparent", b"00-" + b"a1" * 16 + b"-" + b"b2" * 8 + b"-01"), (b"minute", b"1780000000000")),
    ((b"monitor", b"host:1"), (b"overtaken-by", b"1780000000000")),
    ((b"summary", b"{}"), (b"traceparent", b"00-0-0-01")),
)


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"\0".join(name + b"=" + value for name, value in headers)


def _headers(raw: bytes) -> None:
    """Do with headers what their readers do, the names being text (`headers_of`) and the values whatever they are."""
    given: list[tuple[str, bytes | None]] = []
    for each in raw.split(b"\0"):
        name, has_value, value = each.partition(b"=")
        given.append((name.decode(errors="replace"), value if has_value else None))
    context = context_of(given)
    expect(context is None or context_of(context.headers()) == context, "handed on it is another place")
    newer_ms = overtaken_by_ms(given)
    expect(newer_ms is None or 0 <= newer_ms < 10**TIME_DIGITS_MAX, "a time that nothing can hold")
    record = RawRecord(SNAPSHOTS, 0, 7, 1_780_000_000_000, b"sim/clicks", b"", tuple(given))
    at_ms = event_ms(record)
    expect(at_ms is None or 0 <= at_ms <= FIGURE_MAX, "a time that nothing can hold")
    others = OtherMonitors(PipelineSettings(), logging.getLogger("surescale.fuzz"))
    others.take([cast(Message, _Marker(given, 1, own=True)), cast(Message, _Marker(given, 2))])
    expect(others.name.isprintable() and len(others.name) <= 4 * LENGTH_OF_A_NAME, "no name that can be printed")
    if context is None and newer_ms is None and at_ms is None and not others.name:
        raise Declined("none that anybody reads")


@dataclass(frozen=True, slots=True)
class _Marker:
    """A marker's record as the client gives it; ``own``: of the monitor that reads it."""

    given: list[tuple[str, bytes | None]]
    at: int
    own: bool = False

    def key(self) -> bytes:
        return f"{PipelineSettings().cluster}/clicks".encode()

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def headers(self) -> list[tuple[str, bytes | None]]:
        return [*own_header()] if self.own else self.given


def _summary(raw: bytes) -> None:
    record = Record(SNAPSHOTS, 0, 7, b"sim/clicks", b"", 1_780_000_000_000, raw)
    try:
        operations = project(record)
    except RecordRejected as rejected:
        raise Declined(rejected.reason) from None
    expect(sum(len(repr(each)) for each in operations) <= 12 * len(raw) + GROWTH, "what is kept of it is much longer")


def _prices(raw: bytes) -> None:
    try:
        table = PriceTable.of(raw.decode("utf-8", "surrogateescape"))
    except SettingsError as refused:
        expect("\n" not in str(refused), "the refusal is not one line")
        raise Declined(str(refused)) from None
    names = ("tm-3", "worker", "", "a" * 253, "[a-c]?*", "\udcff")
    for price in map(table.per_hour, names):
        expect(price is None or 0 < price <= PRICE_MAX, "a price that is none")
    cluster = MESSAGES["cluster"]
    assert isinstance(cluster, ClusterTopology)
    priced = table.priced(cluster)
    expect(set(table.unpriced(priced)) <= {host.host for host in cluster.hosts} | {"worker"}, "a host that is none")
    expect(decode(encode(priced), ClusterTopology) == priced, "its readers get other prices")


def _environments(kind: type[Any]) -> list[bytes]:
    names = [f"SURESCALE_{name.upper()}" for name in get_type_hints(kind)]
    values = {name: value for name, value in to_environment(kind()).items() if value != "none"}
    texts = {name: ("60000" if name.endswith("MS") else "x") for name in names}
    return [
        json.dumps(values).encode(),
        json.dumps({"SURESCALE_GATE": "checkpoint-interval=60000"}).encode(),
        json.dumps(texts).encode(),
    ]


def _settings(kind: type[Any], raw: bytes) -> None:
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError):
        raise Declined("not an environment") from None
    if not isinstance(given, dict):
        raise Declined("not an environment")
    variables = {str(name): value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    try:
        made = from_environment(kind, variables)
        if isinstance(made, RescalerSettings):
            made.control()
    except SettingsError as refused:
        expect("\n" not in str(refused) and bool(str(refused)), "the refusal is not one line")
        raise Declined(str(refused)) from None


def _card(raw: bytes) -> None:
    folder = Path("package")
    try:
        check_format(folder, raw, "format", FORMAT)
        decoded(folder, raw, Card)
    except PackageRejected as rejected:
        raise Declined(str(rejected)) from None


def _graph(raw: bytes) -> None:
    try:
        check_graph(raw)
    except PackageRejected as rejected:
        raise Declined(str(rejected)) from None


# Flink


def _flink() -> dict[str, tuple[list[bytes], Callable[[bytes], None]]]:
    found: dict[str, list[bytes]] = {}
    for version in VERSIONS:
        for asked, given in recorded(version, "running").items():
            path = asked.split("?")[0].split("/")
            kind = {2: path[-1], 3: "job" if path[1] == "jobs" and path[2] != "overview" else path[-1]}.get(len(path), path[-1])
            if len(path) == 5 and path[3] == "vertices":
                kind = "vertex"
            if given["status"] == 200 and "?" not in asked:
                found.setdefault(kind, []).append(json.dumps(given["body"]).encode())
    calls: dict[str, tuple[str, Callable[[bytes], None]]] = {
        "overview": ("overview", partial(_answer, answers.Jobs, _jobs_used)),
        "job": ("job", partial(_answer, answers.JobDetail, _job_used)),
        "vertex": ("vertex", partial(_answer, answers.VertexDetail, _nothing)),
        "requirements": ("resource-requirements", partial(_answer, Requirements, _requirements_used)),
        "checkpoints": ("checkpoints", partial(_answer, answers.Checkpoints, _checkpoints_used)),
        "exceptions": ("exceptions", partial(_answer, answers.Exceptions, _nothing)),
    }
    return {name: (found.get(kind) or [b"{}"], call) for name, (kind, call) in calls.items()}


def _answer(kind: Any, used: Callable[[Any], None], raw: bytes) -> None:
    try:
        answer = msgspec.json.decode(raw, type=kind)
    except UNREADABLE as refused:
        raise Declined(str(refused)) from None
    used(answer)


def _nothing(_answer: object) -> None:
    pass


def _jobs_used(jobs: answers.Jobs) -> None:
    for identity in identify("flink", jobs.jobs, {}).values():
        expect(split_job(identity.job)[0] == "flink", "a job of another cluster")


def _job_used(detail: answers.JobDetail) -> None:
    attempt_of(detail)
    tasks = tasks_of(detail, None)
    if tasks:
        try:
            topology = JobTopology(job="flink/x", version=1, at_ms=0, tasks=tasks)
            check_topology(decode(encode(topology), JobTopology))
        except RecordRejected as rejected:
            raise Declined(rejected.reason) from None


def _requirements_used(requirements: Requirements) -> None:
    expect(all(isinstance(count, int) for count in wanted(requirements).values()), "a count that is none")
    expect(bool(requirement_id(requirements)) or not requirements, "requirements without a name")


def _checkpoints_used(checkpoints: answers.Checkpoints) -> None:
    config = answers.CheckpointConfig(mode="exactly_once", interval=10_000)
    checkpointing_of(config, checkpoints)
