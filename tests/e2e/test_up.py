"""``surescale up``: the roles against a Kafka, a Redis and an engine that are there already."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.contracts import topics
from surescale.contracts.commands import EventRecord, Progress
from surescale.contracts.decisions import Decision
from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.contracts.wire import decode
from surescale.engines.settings import ClusterSettings
from surescale.runtime.http import fetch_json, is_ok
from surescale.runtime.kafka import LogReader
from surescale.runtime.ports import free_ports
from surescale.services.local_stack.child_process import ChildProcess
from surescale.services.local_stack.roles import surescale
from tests.conftest import KafkaForTests
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture
def pipeline(kafka: KafkaForTests, redis_url: str) -> PipelineSettings:
    """Settings of a pipeline of its own on the session's servers."""
    engine_port, _ = free_ports(2)
    return ClusterSettings(
        bootstrap=kafka.bootstrap,
        topic_prefix=kafka.topic_prefix(),
        redis_url=redis_url,
        engine_url=f"http://127.0.0.1:{engine_port}",
        policy="target-utilisation",
        pipeline_clock=True,
    )


@pytest.fixture
def engine(pipeline: PipelineSettings, tmp_path: Path) -> Iterator[str]:
    """A simulated engine of one job whose clock runs freely, three minutes a second for three minutes, once it is started."""
    subprocess.run(surescale("topics", "create"), env=os.environ | to_environment(pipeline), check=True, timeout=PATIENT_S)
    port = pipeline.engine_url.rpartition(":")[2]
    command = surescale(
        "run", "engine", "--port", port, "--job", "orders", "--minutes", "540", "--pace", "free", "--speed", "180"
    )
    process = ChildProcess(command, log_path=tmp_path / "engine.log", env=to_environment(pipeline))
    try:
        wait_until(lambda: is_ok(f"{pipeline.engine_url}/health"), 60.0, "the engine")
        yield pipeline.engine_url
    finally:
        process.stop(10.0)


def well(pipeline: PipelineSettings) -> set[str]:
    """Return what `surescale doctor` looks at in a pipeline where all is well; nothing until all of it is."""
    done = subprocess.run(
        surescale("doctor", "--json"), env=os.environ | to_environment(pipeline), capture_output=True, timeout=PATIENT_S
    )
    found = json.loads(done.stdout)
    return {each["subject"] for each in found} if {each["verdict"] for each in found} == {"ok"} else set()


@pytest.mark.parametrize("shared", [(), ("--one-process",)], ids=["a process each", "one process"])
def test_the_roles_run_against_given_addresses_until_stopped(
    pipeline: PipelineSettings, engine: str, tmp_path: Path, shared: tuple[str, ...]
) -> None:
    """Decisions flow, the job is rescaled, the HTTP API answers, and SIGTERM ends all of it with exit code 0."""
    (http_port,) = free_ports(1)
    command = [
        sys.executable,
        "-m",
        "surescale.services.cli",
        "up",
        "--http-port",
        str(http_port),
        "--master",
        "local[2]",
        *shared,
    ]
    environment = os.environ | to_environment(pipeline) | {"SURESCALE_RUN_FOLDER": str(tmp_path / "run")}
    with (tmp_path / "up.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_until(
            lambda: b"Ctrl-C stops" in (tmp_path / "up.log").read_bytes() or process.poll() is not None, 240.0, "the roles"
        )
        assert process.poll() is None, (tmp_path / "up.log").read_text()[-3000:]
        fetch_json(f"{engine}/clock/start", method="POST")
        reader, applied, decided = LogReader(pipeline, [topics.DECISIONS, topics.RESCHEDULE_EVENTS]), set(), set()

        def job_was_rescaled() -> bool:
            for record in reader.read_to_end():
                if topics.DECISIONS in str(record.topic()):
                    decided.add(decode(record.value(), Decision).decision_id)
                elif isinstance(found := decode(record.value(), EventRecord), Progress) and found.status == "applied":
                    applied.add(found.command_id)
            return bool(decided and applied)

        wait_until(job_was_rescaled, 240.0, "an applied command")
        assert fetch_json(f"http://127.0.0.1:{http_port}/jobs")
        # A role that lags on a busy machine catches up.
        assert wait_until(lambda: well(pipeline), 120.0, "a doctor who finds nothing") == {
            "surescale", "java", "kafka", "topics", "the monitor", "the Spark job", "the agent", "the rescaler of sim",
            "the state service", "redis", "engine", "policy",
        }  # fmt: skip
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENT_S) == 0
