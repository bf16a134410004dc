"""The engine process over HTTP, as the monitor's source and the rescaler's actuator use it; without Kafka, in free pace."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

import msgspec
import pytest

from benchmarks.archive import where
from surescale.contracts.commands import RescheduleCommand, TaskChange
from surescale.contracts.messages import ClockSegment, ClusterTopology, JobTopology, TaskSample
from surescale.contracts.wire import encode
from surescale.runtime.http import open_url
from surescale.runtime.ports import free_port
from surescale.services.engine import metrics
from tests.support.metrics import scraped
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration

SURESCALE = [sys.executable, "-m", "surescale.services.cli"]
JOB = "sim/j_2521346"
START_MS = 810_543_600_000  # Friday 1995-09-08 07:00
MINUTE = 60_000


class Engine:
    """A running engine process and how to talk to it."""

    def __init__(self, url: str, process: "subprocess.Popen[bytes]") -> None:
        self.url, self.process = url, process

    def ask(self, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, Any]:
        """Return status and document."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        request = urllib.request.Request(self.url + path, method=method, data=body, headers=headers)
        try:
            with open_url(request, timeout_s=10) as answer:
                return answer.status, json.load(answer)
        except HTTPError as error:
            return error.code, json.load(error)

    def get(self, path: str) -> Any:
        """Return the document of a successful answer."""
        status, document = self.ask(path)
        assert status == 200, document
        return document

    def is_healthy(self) -> bool:
        """Say whether the engine is ready."""
        assert self.process.poll() is None, "the engine ended"
        try:
            return self.ask("/health")[0] == 200
        except URLError:
            return False


@contextmanager
def running_engine(*arguments: str, host: str = "127.0.0.1") -> Iterator[Engine]:
    """Run an engine until the block is left."""
    port = free_port()
    options = ["--bootstrap", "none", "--pace", "free", "--job", where("j_2521346"), "--port", str(port)]
    options += ["--workload", "clarknet", *arguments]
    with subprocess.Popen([*SURESCALE, "run", "engine", *options]) as process:
        engine = Engine(f"http://{host}:{port}", process)
        try:
            wait_until(engine.is_healthy, what="the engine")
            yield engine
        finally:
            process.terminate()
            process.wait(PATIENT_S)


@pytest.fixture(scope="module")
def paused() -> Iterator[Engine]:
    """An engine whose trace has not been started."""
    with running_engine("--minutes", "60") as engine:
        yield engine


@pytest.fixture(scope="module")
def finished() -> Iterator[Engine]:
    """An engine that has run ten minutes to their end."""
    with running_engine("--minutes", "10", "--speed", "20000") as engine:
        assert engine.ask("/clock/start", "POST")[0] == 200
        wait_until(lambda: engine.get("/report")["finished"], what="the end of the run")
        yield engine


def command(generation: int = 1, after: int = 4, units: tuple[int, ...] = (), job: str = JOB) -> RescheduleCommand:
    """Return a command that changes task M1 from its start parallelism."""
    change = TaskChange(task="M1", before=5, after=after, units=units)
    return RescheduleCommand(
        command_id=f"{job}#{generation}.0",
        cluster="sim",
        job=job,
        desired_generation=generation,
        step=0,
        base_placement_generation=0,
        decision_id="by hand",
        gate_reason="forced",
        gate_cause="test",
        issued_at_ms=START_MS,
        changes=(change,),
    )


def test_the_trace_waits_for_its_start(paused: Engine) -> None:
    """The clock stands at the run's beginning and no minute ends."""
    segment = msgspec.convert(paused.get("/clock"), ClockSegment)
    assert (segment.e0_ms, segment.until_ms, segment.end_ms) == (START_MS, START_MS, START_MS + 60 * MINUTE)
    assert paused.get("/jobs/j_2521346/figures?after_ms=0")["minutes"] == []


def test_hosts_and_jobs_are_listed(paused: Engine) -> None:
    """The documents are the pipeline's own messages."""
    cluster = msgspec.convert(paused.get("/cluster"), ClusterTopology)
    assert [(host.host, len(host.units)) for host in cluster.hosts[:3]] == [("m1", 4), ("l1", 8), ("xl1", 12)]
    assert paused.get("/jobs") == {"jobs": [{"job": JOB, "state": "running"}]}
    topology = msgspec.convert(paused.get("/jobs/j_2521346")["topology"], JobTopology)
    assert [spec.parallelism for spec in topology.tasks] == [1, 5, 5, 5, 5, 1]


def test_the_load_of_eight_days_is_told(paused: Engine) -> None:
    """192 hours lie before the run."""
    hours = paused.get("/jobs/j_2521346/history")["hours"]
    assert (len(hours), hours[-1]["hour_start_ms"], hours[-1]["minutes"]) == (192, START_MS - 60 * MINUTE, 60)


def test_a_refusal_carries_code_and_status(paused: Engine) -> None:
    """Unknown job, unknown unit, advice, a body that does not parse."""
    path = "/jobs/j_2521346/resource-requirements"
    unit = encode(command(units=(0, 1, 2, 999)))
    advice = encode(msgspec.structs.replace(command(), advice=True))
    answers = [paused.ask("/jobs/none"), *(paused.ask(path, "PUT", body) for body in (unit, advice, b"{}"))]
    assert [(status, document["code"]) for status, document in answers] == [
        (404, "UNKNOWN_JOB"),
        (400, "UNKNOWN_PARALLEL_UNIT"),
        (400, "INVALID_COMMAND"),
        (400, "INVALID_BODY"),
    ]


def test_hosts_join_and_leave_by_request() -> None:
    """A new host has fresh units; one that dies takes its job's subtasks along."""
    with running_engine("--minutes", "60") as engine:
        status, host = engine.ask("/hosts", "POST", b'{"host": "extra", "unit_count": 4}')
        assert (status, len(host["units"])) == (201, 4)
        assert engine.ask("/hosts/l1", "PATCH", b'{"state": "removed_soon"}')[1]["state"] == "removed_soon"
        assert engine.ask("/hosts/m1", "DELETE")[0] == 202
        started = engine.get("/events")["events"][0]
        assert [event["kind"] for event in engine.get(f"/events?after={started['event_id']}")["events"]] == [
            "host_joined",
            "host_leaving",
            "host_lost",
            "job_restarted",
        ]


def test_a_command_is_accepted_once_and_an_older_one_refused() -> None:
    """The same command again has the same answer; a stale generation is a conflict."""
    with running_engine("--minutes", "60", "--rescale", "restart") as engine:
        path = "/jobs/j_2521346/resource-requirements"
        first = engine.ask(path, "PUT", encode(command(generation=2)))
        assert first == (
            202,
            {"command_id": f"{JOB}#2.0", "effective_at_ms": START_MS + MINUTE, "done_at_ms": START_MS + 2 * MINUTE},
        )
        assert engine.ask(path, "PUT", encode(command(generation=2))) == first
        status, refusal = engine.ask(path, "PUT", encode(command(generation=1)))
        assert (status, refusal["code"]) == (409, "STALE_GENERATION")
        assert engine.get("/jobs/j_2521346")["rescale"]["state"] == "pending"


def test_finished_minutes_come_with_samples_topology_and_wall_time(finished: Engine) -> None:
    """Asking after a minute gives the next ones, oldest first, each with four samples of every subtask."""
    found = finished.get(f"/jobs/j_2521346/figures?after_ms={START_MS + MINUTE}&limit_minutes=2")["minutes"]
    assert [minute["minute_end_ms"] for minute in found] == [START_MS + 2 * MINUTE, START_MS + 3 * MINUTE]
    samples = msgspec.convert(found[0]["samples"], list[TaskSample])
    assert len(samples) == 4 * (5 * 4 + 2)
    assert samples[-1].sampled_at_ms == START_MS + 2 * MINUTE
    assert found[0]["reached_wall_ms"] <= found[1]["reached_wall_ms"]


def test_the_report_names_the_figures_of_every_job(finished: Engine) -> None:
    """And where the run stands."""
    report = finished.get("/report")
    figures = report["jobs"][JOB]
    assert (report["minutes_done"], report["misses"], figures["parallelism"]) == (10, 0, [20] * 10)
    assert {"reward", "latency_mean_s", "latency_p99_s", "utilisation", "task_minutes", "rescales", "overload_minutes"} <= set(
        figures
    )


def test_checkpoints_are_events(finished: Engine) -> None:
    """A running job's checkpoint completes."""
    status, event = finished.ask("/jobs/j_2521346/checkpoints", "POST")
    assert (status, event["kind"]) == (201, "checkpoint_completed")


def test_the_engine_ends_cleanly_when_told() -> None:
    """SIGTERM ends the process with exit code 0 within seconds."""
    with running_engine("--minutes", "60") as engine:
        engine.process.send_signal(signal.SIGTERM)
        assert engine.process.wait(PATIENT_S) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bootstrap", "none"], "--pace free"),
        (["--job", "click"], "did you mean clicks"),
        (["--workload", "nosuch.csv"], "neither a file nor one of clarknet, nasa"),
        (["--minutes", "30000"], "lower --minutes"),
        (["--restart-ms", "16000"], "below 15000 or a multiple"),
    ],
)
def test_bad_options_are_one_readable_line(arguments: list[str], words: str, tmp_path: Path) -> None:
    """The line names the option and the fix; the exit code is 1."""
    ended = subprocess.run(
        [*SURESCALE, "run", "engine", *arguments], capture_output=True, text=True, cwd=tmp_path, check=False, timeout=PATIENT_S
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("surescale: ")
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_the_metrics_show_clock_and_jobs(finished: Engine) -> None:
    """Minutes that passed, the pipeline's time, the size of each job."""
    page = scraped(finished.url.rpartition(":")[2])
    assert (page[metrics.MINUTES], page[metrics.PIPELINE_TIME]) == (10, START_MS / 1000 + 600)
    assert page.of(metrics.JOBS, state="running") == 1
    assert page.of(metrics.PARALLELISM, streaming_job=JOB) > 0


def test_the_engine_listens_where_it_is_told() -> None:
    """Loopback unless told otherwise; here another address of this machine."""
    with running_engine("--minutes", "10", "--host", "127.0.0.2", host="127.0.0.2") as engine:
        assert engine.get("/health")["role"] == "engine"
        with pytest.raises(URLError):
            Engine(engine.url.replace("127.0.0.2", "127.0.0.1"), engine.process).ask("/health")
