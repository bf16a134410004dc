"""What people and other programs give: files of settings, answers of Prometheus, resources of Kubernetes, what KEDA asks."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError

from surescale.contracts.errors import UNREADABLE, SettingsError
from surescale.contracts.figures import FIGURE_MAX
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.releases import Releases
from surescale.contracts.topology import check_topology
from surescale.contracts.wire import decode, encode
from surescale.engines.groups.chains import read_chains
from surescale.engines.kubernetes.answers import Page
from surescale.engines.prometheus.client import PrometheusClient, PrometheusUnavailable, QueryRefused
from surescale.engines.prometheus.jobs import WatchedJob, read_jobs
from surescale.engines.prometheus.ledger import Ledger, SubtaskRoster
from surescale.engines.prometheus.mappings import FigureName
from surescale.engines.prometheus.readings import read
from surescale.runtime.http_pool import Answer
from surescale.services import pipeline_file
from surescale.services.job_settings.files import plans, read_entries
from surescale.services.job_settings.snapshot import KnownJobs
from surescale.services.state.keda.answers import BadMetadata, target_of
from surescale.services.state.keda.messages import ScaledObjectRef
from surescale.services.state.scaled_streams.definition import ScaledStream
from surescale.services.state.scaled_streams.plan import plans_of
from surescale.services.state.scaled_streams.status import happenings, rfc3339, status_of
from tests.fuzz.target import Declined, Target, expect
from tests.support.protobuf import field

JOB, AT_MS = "sim/clicks", 1_780_000_000_000
_PIPELINE = b"""[settings]
engine = "kafka"
bootstrap = "kafka:9092"
health_port = 8090
[up]
one-process = true
[chains.orders.groups.parse]
group = "orders-parse"
[jobs."shop/orders"]
max = 12
"""
_JOBS = b"""[jobs."sim/clicks"]
mode = "act"
max = 12
min = 2
utilisation = 0.6
exclude = ["mon-fri 09:00-17:30 Europe/Berlin"]
task = ["map:min=2"]
[jobs."sim/v*"]
align = true
"""
_CHAINS = b"""[shop]
mode = "act"
limits = {max = 12, utilisation = 0.6}
[shop.groups.parse]
group = "shop-parse"
reads = ["orders"]
writes = ["parsed"]
metrics = "http://{host}:9400/metrics"
busy = "worker_busy_seconds_total"
[shop.groups.parse.workers]
command = ["python", "parse.py", "--index", "{index}", "--port", "{port}"]
start = 1
[shop.groups.count]
reads = ["parsed"]
[shop.groups.count.kubernetes]
namespace = "shop"
name = "shop-count"
"""
_WATCHED = b"""[orders]
mapping = "kafka-exporter"
mode = "advise"
limits = {max = 12}
fresh_s = 120
[orders.tasks.parse]
reads = ["orders"]
writes = ["parsed"]
[orders.tasks.count]
reads = ["parsed"]
max_parallelism = 64
[orders.figures]
parallelism = 'x{task=~"$tasks"}'
busy = { query = 'busy_seconds_total', task = "stage", subtask = ["pod"], over = ["thread"], unit = "s" }
"""


def outsiders() -> Iterator[Target]:
    """Yield what reads them."""
    yield Target("pipeline's file", [_PIPELINE], partial(_file, _pipeline, ".toml"))
    yield Target("job settings' file", [_JOBS], partial(_file, _job_settings, ".toml"))
    yield Target("groups' file", [_CHAINS], partial(_file, _chains, ".toml"))
    yield Target("Prometheus' file", [_WATCHED], partial(_file, _jobs, ".toml"))
    watched = b'{"orders":{"tasks":{"parse":{},"count":{"upstream":["parse"]}},"figures":{"records_in":"x","records_out":"y"}}}'
    yield Target(
        "Prometheus' file in JSON",
        [watched.replace(b'"figures"', b'"subtask":["pod"],"figures"')],
        partial(_file, _jobs, ".json"),
    )
    yield Target("Prometheus' answer", _answers(), _prometheus)
    yield Target("ScaledStreams", _resources(), _streams)
    metadata = b"".join(field(3, field(1, key) + field(2, value)) for key, value in (("job", JOB), ("task", "map")))
    yield Target("KEDA's request", [field(1, "orders") + field(2, "shop") + metadata], _keda)


@cache
def _folder() -> Path:
    root = Path(tempfile.mkdtemp(prefix="surescale-fuzz-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


def _file(use: Callable[[Path], None], suffix: str, raw: bytes) -> None:
    path = _folder() / f"given{suffix}"
    path.write_bytes(raw)
    try:
        use(path)
    except SettingsError as refused:
        words = str(refused)
        expect("\n" not in words and words.isprintable(), "the refusal is not one line that can be printed")
        expect(str(path) in words, "the refusal does not name the file")
        raise Declined(words) from None


def _pipeline(path: Path) -> None:
    found = pipeline_file.read(path)
    expect(all("\0" not in value for value in found.variables.values()), "a variable that no environment takes")


def _job_settings(path: Path) -> None:
    entries = read_entries(path)
    try:
        made = plans(entries, _known(), "files", "ana")
    except SettingsError as refused:
        expect("\n" not in str(refused), "the refusal is not one line")
        raise Declined(str(refused)) from None
    for plan in made:
        expect(decode(encode(plan.after), JobSettings) == plan.after, "its readers get other settings")


def _chains(path: Path) -> None:
    for name, chain in read_chains(path).items():
        for task in chain.groups:
            chain.upstream(task, frozenset(chain.groups[task].reads))
        expect(name == chain.name and bool(chain.groups), "a job of another name, or without groups")


def _jobs(path: Path) -> None:
    for name, job in read_jobs(path).items():
        tasks = tuple(TaskSpec(task=task, upstream=job.upstream(task), max_parallelism=64) for task in job.tasks)
        topology = JobTopology(job=f"sim/{name}", version=1, at_ms=0, tasks=tasks)
        check_topology(decode(encode(topology), JobTopology))
        expect(any(job.is_last(task) for task in job.tasks), "a job without an end")


@cache
def _known() -> KnownJobs:
    tasks = (TaskSpec(task="map", max_parallelism=64),)
    topologies = {job: JobTopology(job=job, version=1, at_ms=0, tasks=tasks) for job in (JOB, "sim/views")}
    return KnownJobs(topologies, {}, {}, Releases([]), now_ms=AT_MS)


# Prometheus


class _Said:
    """A connection on which one answer comes."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def ask(self, *_: object, **__: object) -> Answer:
        return Answer(200, "OK", "application/json", "", self.body)


@cache
def _watched() -> WatchedJob:
    path = _folder() / "watched.toml"
    path.write_bytes(_WATCHED)
    return read_jobs(path)["orders"]


def _answers() -> list[bytes]:
    def answer(kind: str, result: object) -> bytes:
        return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()

    def series(value: str, **labels: str) -> dict[str, object]:
        return {"metric": labels, "value": [AT_MS / 1000, value]}

    read_by = (("parse", "orders"), ("count", "parsed"))
    names = [{"consumergroup": task, "topic": topic, "partition": part} for task, topic in read_by for part in ("0", "1")]
    return [
        answer("vector", [series(str(10 * at), **labels) for at, labels in enumerate(names)]
               + [series(str(AT_MS / 1000 - 5), surescale_at="1", **labels) for labels in names]),
        answer("vector", [series("3", consumergroup="parse"), series("2", consumergroup="count")]),
        answer("scalar", [AT_MS / 1000, str(AT_MS / 1000)]),
    ]  # fmt: skip


def _prometheus(raw: bytes) -> None:
    client, job = PrometheusClient("http://prometheus:9090"), _watched()
    client._connections = _Said(raw)  # type: ignore[assignment]
    ledger, roster, used = Ledger(job), SubtaskRoster(), False
    try:
        expect(0 <= client.now_ms() <= FIGURE_MAX, "a time that nothing can hold")
        return
    except (PrometheusUnavailable, QueryRefused) as refused:
        why = refused
    for at_ms in (AT_MS, AT_MS + 60_000, AT_MS + 120_000):
        found = {}
        for name in job.figures:
            try:
                found[name] = read(job, name, client.dated("x", at_ms), at_ms).readings
                used = True
            except (PrometheusUnavailable, QueryRefused) as refused:
                why, found[name] = refused, {}
        ledger.note(found, at_ms, is_other=False)
        roster.note({key.subtask: reading.target for key, reading in found["records_in"].items()}, ())
        for task in job.tasks:
            _figures(ledger, task, (), *job.figures)
            for subtask in roster.members:
                _figures(ledger, task, subtask, *job.figures)
    expect(all("\n" not in each for each in ledger.notes), "what is told is not one line")
    if not used:
        expect("\n" not in str(why), "the refusal is not one line")
        raise Declined(str(why))


def _figures(ledger: Ledger, task: str, subtask: tuple[str, ...], *names: FigureName) -> None:
    for name in names:
        value = ledger.of(name, task, subtask, 0, 2)
        expect(value is None or 0 <= value <= FIGURE_MAX, "a figure that no record holds")
    words = ledger.partly_unknown(task)
    expect("\n" not in words and len(words) <= 512, "what is unknown is not told in one line")


# Kubernetes


def _resources() -> list[bytes]:
    about = {"name": "clicks", "namespace": "shop", "uid": "u1", "generation": 2, "creationTimestamp": "2026-01-01T00:00:00Z",
             "resourceVersion": "7"}  # fmt: skip
    condition = {"type": "Set", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    exclude, task = ["mon-fri 09:00-17:30 Europe/Berlin"], ["map:min=2"]
    spec = {"job": JOB, "mode": "act", "max": 12, "exclude": exclude, "align": False, "task": task}
    one = {"metadata": about, "spec": spec, "status": {"conditions": [condition], "pipeline": "x", "observedGeneration": 2}}
    other = {"metadata": {**about, "name": "second", "uid": "u2"}, "spec": {"job": "sim/views", "policy": "hold"}}
    return [json.dumps({"items": [one, other], "metadata": {}}).encode()]


def _streams(raw: bytes) -> None:
    try:
        page = msgspec.json.decode(raw, type=Page[ScaledStream])
    except UNREADABLE as refused:
        raise Declined(str(refused)) from None
    streams = [each for each in page.items or () if each.metadata.namespace == "shop"]
    verdicts, changes = plans_of(streams, _known(), ["shop"], ("hold", "sure"))
    for plan in changes:
        expect(decode(encode(plan.after), JobSettings) == plan.after, "its readers get other settings")
    for stream in streams:
        verdict = verdicts[stream.metadata.uid]
        status = status_of(stream.status, stream.metadata.generation, verdict, None, rfc3339(AT_MS) or "")
        msgspec.json.encode({"status": status})
        expect("\n" not in verdict.message, "the verdict is not one line")
    expect(not list(happenings((), ())), "something happened that did not")


def _keda(raw: bytes) -> None:
    try:
        ref = ScaledObjectRef.FromString(raw)
        target = target_of({each.key: each.value for each in ref.scalerMetadata})
    except (DecodeError, BadMetadata) as refused:
        raise Declined(str(refused)) from None
    expect("/" in target.job and bool(target.task), "no job, or no task")
