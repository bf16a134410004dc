"""The parts of the Flink demo that need no Flink: its load, its job's options, the rival's command."""

from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.rivals.flink_peer import peer_settings
from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.services.local_stack.comparison.demo import consumers, flink
from surescale.services.local_stack.comparison.load import STEP_FROM, STEP_UNTIL, one_step, rates, read_steps
from surescale.services.local_stack.consumers.consumers_pipeline import ConsumersPipelineOptions
from surescale.services.local_stack.errors import JavaError
from surescale.services.local_stack.flink import flink_pipeline
from surescale.services.local_stack.flink.flink_pipeline import FlinkPipeline, FlinkPipelineOptions
from surescale.services.local_stack.flink.scaled_job import JobOptions
from surescale.services.local_stack.java import JavaRuntime, find_compiler
from surescale.simulation.load.workload import load_workload


def test_the_load_is_the_trace_at_one_minute_a_second_with_a_step() -> None:
    """Without the step it has the mean that was asked for and the trace's shape; the step multiplies a stretch of it."""
    trace = load_workload("clarknet")
    calm = rates(trace, seconds=200, mean=100.0, steps=())
    stepped = rates(trace, seconds=200, mean=100.0, steps=one_step(200, 4.0))
    first = trace.default_start_minute
    assert calm.mean() == pytest.approx(100.0)
    assert calm / calm[0] == pytest.approx(trace.requests[first : first + 200] / trace.requests[first])
    at = np.arange(200) / 200
    assert stepped / calm == pytest.approx(np.where((at >= STEP_FROM) & (at < STEP_UNTIL), 4.0, 1.0))


def test_a_trace_that_is_too_short_is_refused() -> None:
    """The message says what to change."""
    trace = load_workload("clarknet")
    with pytest.raises(SurescaleError, match="shorten the run or start earlier"):
        rates(trace, seconds=100, mean=10.0, steps=(), start_minute=trace.minutes - 50)


def test_several_steps_up_and_down_are_read_and_sent() -> None:
    """Each factor holds from its minute to the next; before the first it is 1."""
    steps = read_steps("1:4,2:1,2.5:0.5")
    calm, stepped = (rates(load_workload("clarknet"), seconds=200, mean=100.0, steps=each) for each in ((), steps))
    assert (stepped / calm)[[0, 59, 60, 119, 120, 149, 150, 199]] == pytest.approx([1, 1, 4, 4, 1, 1, 0.5, 0.5])


@pytest.mark.parametrize(("command", "usual"), [(flink, FlinkPipelineOptions), (consumers, ConsumersPipelineOptions)])
def test_without_options_a_demo_runs_what_its_page_says(command: click.Command, usual: type) -> None:
    """The load, its length and the policies of the command are those of its pipeline: the documented figures are of these."""
    defaults = {
        each.name: each.default for each in fields(usual) if each.default is not MISSING and each.default not in (None, ())
    }
    given = command.make_context(str(command.name), []).params
    common = defaults.keys() & given.keys()
    assert {"workload", "seconds", "mean", "step", "policies"} <= common
    assert {name: given[name] for name in common} == {name: defaults[name] for name in common}


@pytest.mark.parametrize(
    ("steps", "problem"),
    [("4", "'4' is not MINUTE:FACTOR"), ("2:4,x:1", "'x:1' is not MINUTE:FACTOR"), ("2:4,2:1", "must come after"),
     ("-1:4", "must"), ("1:0", "from 0.01 to 100"), ("1:nan", "from 0.01 to 100"), ("5:2", "after the 210 s of the run")],
)  # fmt: skip
def test_steps_that_make_no_sense_are_refused_before_anything_starts(steps: str, problem: str) -> None:
    """The message names the option."""
    found = CliRunner().invoke(flink, ["--steps", steps])
    assert isinstance(found.exception, SurescaleError)
    assert str(found.exception).startswith("--steps: ")
    assert problem in str(found.exception)


def test_labels_reach_flink_as_job_parameters() -> None:
    """They stand beside the job's other settings."""
    options = JobOptions(bootstrap="b", from_topic="in", to_topic="out", checkpoint_s=2)
    assert options.configuration() == {"execution.checkpointing.interval": "2s"}
    assert replace(options, labels={"surescale.mode": "act", "surescale.job": "orders"}).configuration() == {
        "execution.checkpointing.interval": "2s",
        "pipeline.global-job-parameters": "surescale.mode:act,surescale.job:orders",
    }


def test_the_rival_is_given_the_same_limits() -> None:
    """Bounds, span, utilisation and the time to catch up are the demo's."""
    given = peer_settings(FlinkPipelineOptions(parallelism_max=6, span_minutes=2))
    assert given["job.autoscaler.vertex.max-parallelism"] == "6"
    assert given["job.autoscaler.metrics.window"] == "120s"
    assert given["job.autoscaler.catch-up.duration"] == "120s"
    assert given["job.autoscaler.target.utilization"] == "0.75"


def test_only_the_slow_vertex_works() -> None:
    """The same work of a record is done in one of the two vertices."""
    usual, keyed = FlinkPipelineOptions(), FlinkPipelineOptions(slow_vertex="count")
    work = (usual.rounds, usual.wait_micros)
    assert (usual.work("parse"), usual.work("count")) == (work, (0, 0))
    assert (keyed.work("parse"), keyed.work("count")) == ((0, 0), work)


def test_a_policy_that_does_not_exist_ends_the_demo_at_once() -> None:
    """Nothing is fetched or started for a typing error."""
    found = CliRunner().invoke(flink, ["--policy", "sur"])
    assert isinstance(found.exception, SurescaleError)
    assert "sur" in str(found.exception)


@pytest.mark.parametrize("said", ["unaligned", "=true", "name=", " = "])
def test_a_setting_of_flink_that_is_none_ends_the_demo_at_once(said: str) -> None:
    """The message shows one that is."""
    found = CliRunner().invoke(flink, ["--job-setting", said])
    assert isinstance(found.exception, SettingsError)
    assert str(found.exception).startswith(f"--job-setting: {said!r} is not NAME=VALUE, like execution.")


class Hesitant:
    """A cluster that gives no answer about a stopping job at first."""

    rest_url = "http://127.0.0.1:1"

    def __init__(self) -> None:
        self.answers = iter([OSError("timed out"), {"state": "RUNNING"}, {"state": "FINISHED"}])

    def parallelism(self, _job: str) -> dict[str, int]:
        """All vertices run."""
        return {"parse": 1}

    def get(self, _path: str) -> Any:
        """The next answer."""
        answer = next(self.answers)
        if isinstance(answer, OSError):
            raise answer
        return answer


def test_a_job_that_flink_says_nothing_about_has_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output would be counted before its last records are committed."""
    cluster = Hesitant()
    monkeypatch.setattr(flink_pipeline, "stop", lambda _url, _job: None)
    pipeline = FlinkPipeline(FlinkPipelineOptions(policies=("static",)))
    monkeypatch.setattr(pipeline, "cluster", cluster, raising=False)
    monkeypatch.setattr(pipeline, "_ids", {"static": "1"}, raising=False)
    pipeline.stop_jobs()
    assert list(cluster.answers) == []


def test_a_runtime_without_a_compiler_is_told_from_a_jdk(tmp_path: Path) -> None:
    """The message names the package to install; beside `java` the compiler is found."""
    java = JavaRuntime(tmp_path / "bin" / "java", 17)
    (tmp_path / "bin").mkdir()
    java.executable.touch()
    with pytest.raises(JavaError, match="openjdk-17-jdk-headless"):
        find_compiler(java, {"PATH": str(tmp_path / "nowhere")})
    (tmp_path / "bin" / "javac").touch()
    assert find_compiler(java, {"PATH": ""}) == tmp_path / "bin" / "javac"
