"""Records the answers of real Flink clusters into ``flink-VERSION/``: ``python -m tests.recordings.record [VERSION ...]``.

Each file holds one moment: what was asked and what came back. Java stack traces are cut to their first line, and lists of metrics
to those that are used; everything else is as Flink gave it.

    fresh               a job that nobody has asked about: counters 0 and incomplete
    running             a graph with every kind of edge; two jobs of one name with a slash, a legacy source, no checkpoints
    waiting             a job that waits for slots: CREATED, parallelism 1 everywhere
    rescaled            the graph after a rescale
    batch               a batch job
    chained             a job of one vertex, whose source counts nothing that it reads
    default-scheduler   a job that cannot be rescaled while it runs
"""

import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from surescale.runtime.http import ANSWER_BYTES_MAX
from surescale.runtime.http_pool import ConnectionPool
from surescale.services.local_stack.flink.cluster import FlinkCluster
from surescale.services.local_stack.flink.scaled_job import JobOptions, job_jar, submit
from tests.support.waiting import wait_until

VERSIONS = ("1.20.5", "2.2.1", "2.3.0")
FOLDER = Path(__file__).parent
SLOTS = 4
METRICS = (
    "numRecordsIn",
    "numRecordsOut",
    "pendingRecords",
    "PoolUsage",
    "currentInputWatermark",
    "currentOutputWatermark",
    "busyTimeMsPerSecond",
)
UNKNOWN = "0" * 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(JobOptions):
    """One of the jobs in ``RecordedJob.java``."""

    bootstrap: str = ""
    from_topic: str = ""
    to_topic: str = ""
    kind: str = "graph"

    def arguments(self) -> list[str]:
        """Return name and kind."""
        return [self.name, self.kind]

    def configuration(self) -> dict[str, str]:
        """Return the settings, with the parallelism that the job does not set itself."""
        return JobOptions.configuration(self) | {"parallelism.default": str(self.parallelism)}


@dataclass(slots=True)
class Moment:
    """What is asked and answered at one moment."""

    url: str
    exchanges: dict[str, dict[str, Any]] = field(default_factory=dict)

    def ask(self, path: str, method: str = "GET", body: object = None) -> Any:
        """Ask, keep the answer, and return its document."""
        connections = ConnectionPool(self.url)
        sent = None if body is None else json.dumps(body).encode()
        answer = connections.ask(method, path, sent, timeout_s=30, bytes_max=ANSWER_BYTES_MAX)
        connections.close()
        document = _shortened(json.loads(answer.body or b"null"))
        self.exchanges[f"{method} {path}"] = {"status": answer.status, "body": document}
        return document

    def write(self, folder: Path, name: str) -> None:
        """Write the file, one exchange a line."""
        folder.mkdir(exist_ok=True)
        lines = (f"{json.dumps(asked)}: {json.dumps(given)}" for asked, given in self.exchanges.items())
        (folder / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main(versions: tuple[str, ...]) -> None:
    """Record each version; clusters run one after the other."""
    for version in versions:
        folder = FOLDER / f"flink-{version}"
        with _cluster(version, {}) as (cluster, jar):
            _record_adaptive(cluster, jar, folder)
        with _cluster(version, {"jobmanager.scheduler": "default"}) as (cluster, jar):
            job = submit(cluster.rest_url, jar, Recorded(name="orders"))
            _wait_for(cluster, job, "RUNNING")
            _write_default(cluster, job, folder)


def _record_adaptive(cluster: FlinkCluster, jar: Path, folder: Path) -> None:
    url = cluster.rest_url
    orders = submit(url, jar, Recorded(name="Orders v17", labels={"surescale.job": "orders", "surescale.mode": "advise"}))
    wait_until(lambda: _state(cluster, orders) == "RUNNING", 60, "the job to run")
    _write_fresh(cluster, orders, folder)
    legacy = [submit(url, jar, Recorded(name="team a/legacy job", kind="legacy")) for _ in range(2)]
    for job in (orders, *legacy):
        _wait_for(cluster, job, "RUNNING")
    wait_until(lambda: cluster.get(f"/jobs/{orders}/checkpoints")["latest"]["completed"], 60, "a checkpoint")
    _write_running(cluster, orders, legacy, folder)
    late = submit(url, jar, Recorded(name="late", parallelism=3))
    _wait_for(cluster, late, "CREATED")
    _write(cluster, folder, "waiting", "/overview", "/jobs/overview", *_job_paths(cluster, late))
    for job in (late, *legacy):
        _cancel(cluster, job)
    chained = submit(url, jar, Recorded(name="chained", kind="chained", parallelism=2))
    _wait_for(cluster, chained, "RUNNING")
    time.sleep(10)  # its figures are those of a job that has run for a while
    _write_chained(cluster, chained, folder)
    _cancel(cluster, chained)
    batch = submit(url, jar, Recorded(name="nightly", settings={"execution.runtime-mode": "BATCH"}))
    _wait_for(cluster, batch, "RUNNING", at_once=False)
    _write(cluster, folder, "batch", "/jobs/overview", *_job_paths(cluster, batch), f"/jobs/{batch}/rescales/config")
    _cancel(cluster, batch)
    _write_rescaled(cluster, orders, folder)


def _write_chained(cluster: FlinkCluster, job: str, folder: Path) -> None:
    cluster.get(f"/jobs/{job}")  # makes Flink fetch the figures
    time.sleep(2)
    moment = Moment(cluster.rest_url)
    for path in ("/jobs/overview", *_job_paths(cluster, job)):
        moment.ask(path)
    for vertex in cluster.get(f"/jobs/{job}")["vertices"]:
        _ask_vertex(moment, job, vertex["id"])
    moment.write(folder, "chained")


def _write_fresh(cluster: FlinkCluster, job: str, folder: Path) -> None:
    moment = Moment(cluster.rest_url)
    detail = moment.ask(f"/jobs/{job}")
    for vertex in detail["vertices"]:
        moment.ask(f"/jobs/{job}/vertices/{vertex['id']}")
    moment.write(folder, "fresh")


def _write_running(cluster: FlinkCluster, orders: str, legacy: list[str], folder: Path) -> None:
    moment = Moment(cluster.rest_url)
    for path in ("/overview", "/config", "/jobmanager/config", "/taskmanagers", "/jobs/overview"):
        moment.ask(path)
    for job in (orders, *legacy):
        for path in _job_paths(cluster, job):
            moment.ask(path)
        for vertex in cluster.get(f"/jobs/{job}")["vertices"]:
            _ask_vertex(moment, job, vertex["id"])
    for path in ("jobmanager/config", "rescales/config", "rescales/history"):
        moment.ask(f"/jobs/{orders}/{path}")
    for path in (f"/jobs/{UNKNOWN}", f"/jobs/{UNKNOWN}/checkpoints/config", f"/jobs/{UNKNOWN}/resource-requirements", "/nothing"):
        moment.ask(path)
    path = f"/jobs/{orders}/resource-requirements"
    required = cluster.get(path)
    first = next(iter(required))
    moment.ask(f"{path}?incomplete", "PUT", {first: required[first]})
    too_many = {vertex: {"parallelism": {"lowerBound": 1, "upperBound": 65}} for vertex in required}
    moment.ask(f"{path}?too-many", "PUT", too_many)
    moment.write(folder, "running")


def _ask_vertex(moment: Moment, job: str, vertex: str) -> None:
    place = f"/jobs/{job}/vertices/{vertex}"
    moment.ask(place)
    listed = moment.ask(f"{place}/subtasks/metrics")
    names = [metric["id"] for metric in listed if metric["id"].endswith(METRICS)]
    moment.exchanges[f"GET {place}/subtasks/metrics"]["body"] = [{"id": name} for name in names]
    moment.ask(f"{place}/subtasks/metrics?get={','.join(names)}&agg=min,max,avg,sum")


def _write_rescaled(cluster: FlinkCluster, job: str, folder: Path) -> None:
    path = f"/jobs/{job}/resource-requirements"
    required = cluster.get(path)
    parse = next(vertex["id"] for vertex in cluster.get(f"/jobs/{job}")["vertices"] if vertex["name"] == "parse")
    moment = Moment(cluster.rest_url)
    moment.ask(path, "PUT", required | {parse: {"parallelism": {"lowerBound": 1, "upperBound": 3}}})
    asked = moment.ask(f"/jobs/{job}/checkpoints", "POST", {})
    wait_until(lambda: _parallelism(cluster, job).get("parse") == 3, 180, "the rescale")
    request = f"/jobs/{job}/checkpoints/{asked['request-id']}"
    wait_until(lambda: cluster.get(request)["status"]["id"] == "COMPLETED", 60, "the checkpoint")
    for each in (*_job_paths(cluster, job), request, f"/jobs/{job}/metrics?get=numRestarts,numRescales", "/taskmanagers"):
        moment.ask(each)
    history = moment.ask(f"/jobs/{job}/rescales/history")
    for rescale in history if isinstance(history, list) else ():
        moment.ask(f"/jobs/{job}/rescales/details/{rescale['rescaleUuid']}")
    moment.write(folder, "rescaled")


def _write_default(cluster: FlinkCluster, job: str, folder: Path) -> None:
    moment = Moment(cluster.rest_url)
    for path in ("/jobs/overview", *_job_paths(cluster, job), f"/jobs/{job}/rescales/config", f"/jobs/{job}/rescales/history"):
        moment.ask(path)
    required = {
        each["id"]: {"parallelism": {"lowerBound": 1, "upperBound": 1}} for each in cluster.get(f"/jobs/{job}")["vertices"]
    }
    moment.ask(f"/jobs/{job}/resource-requirements", "PUT", required)
    moment.write(folder, "default-scheduler")


def _write(cluster: FlinkCluster, folder: Path, name: str, *paths: str) -> None:
    moment = Moment(cluster.rest_url)
    for path in paths:
        moment.ask(path)
    moment.write(folder, name)


def _job_paths(cluster: FlinkCluster, job: str) -> tuple[str, ...]:
    parts = ("", "/config", "/checkpoints/config", "/checkpoints", "/resource-requirements", "/exceptions?maxExceptions=20")
    return tuple(f"/jobs/{job}{part}" for part in parts)


def _state(cluster: FlinkCluster, job: str) -> str:
    listed = cluster.get("/jobs/overview")["jobs"]  # asks for no figures, so that a fresh job stays fresh
    return str(next(each["state"] for each in listed if each["jid"] == job))


def _wait_for(cluster: FlinkCluster, job: str, state: str, *, at_once: bool = True) -> None:
    """Wait until a job is in a state and its graph is shown, and the answer is not one that Flink has kept.

    A batch job's vertices do not run all at once.
    """
    wait_until(lambda: cluster.get(f"/jobs/{job}")["state"] == state, 60, f"the job to be {state}")
    wait_until(lambda: cluster.get(f"/jobs/{job}")["vertices"], 60, "its graph")
    if state == "RUNNING" and at_once:
        wait_until(lambda: _parallelism(cluster, job), 60, "its vertices to run")
    time.sleep(4)  # `web.refresh-interval` is 3 s, and nothing says how old an answer is


def _parallelism(cluster: FlinkCluster, job: str) -> dict[str, int]:
    vertices = cluster.get(f"/jobs/{job}")["vertices"]
    if any(vertex["status"] != "RUNNING" for vertex in vertices):
        return {}
    return {vertex["name"]: vertex["parallelism"] for vertex in vertices}


def _cancel(cluster: FlinkCluster, job: str) -> None:
    ConnectionPool(cluster.rest_url).ask("PATCH", f"/jobs/{job}", timeout_s=30)
    wait_until(lambda: _state(cluster, job) == "CANCELED", 60, "the job to end")


@contextmanager
def _cluster(version: str, settings: dict[str, str]) -> Iterator[tuple[FlinkCluster, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        cluster = FlinkCluster(Path(folder), version=version, task_managers=1, slots=SLOTS, settings=settings)
        jar = job_jar(cluster.flink, source=_source_for(version, Path(folder)))
        try:
            cluster.start()
            cluster.wait_ready()
            print(f"{version}: recording at {urlsplit(cluster.rest_url).netloc}", flush=True)
            yield cluster, jar
        finally:
            cluster.stop()


def _source_for(version: str, folder: Path) -> Path:
    text = (FOLDER / "RecordedJob.java").read_text()
    if version.startswith("1."):
        text = text.replace("functions.source.legacy.", "functions.source.")
    (folder / "RecordedJob.java").write_text(text)
    return folder / "RecordedJob.java"


def _shortened(document: Any) -> Any:
    """Return an answer with the stack traces in its errors cut."""
    if not isinstance(document, dict) or "errors" not in document:
        return document
    return {"errors": [re.sub(r"(?:\n\tat [^\n]*|\n\t\.\.\. \d+ more)+", "\n\tat ...", text) for text in document["errors"]]}


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or VERSIONS)
