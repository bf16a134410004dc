"""The whole pipeline as a user sees it: one undisturbed demo, and one run whose rescaler and Spark job are killed on the way."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import EventRecord, Outcome, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.services.local_stack.local_pipeline import LocalPipeline, PipelineOptions
from tests.support.topic_records import records
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.e2e

MINUTES = 120
START_TIMEOUT_S = 420.0


@dataclass(frozen=True, slots=True)
class DemoRun:
    """A demo that has ended its trace and stays up."""

    process: subprocess.Popen[bytes]
    report: dict[str, Any]

    @property
    def settings(self) -> PipelineSettings:
        """Where the run's Kafka and Redis are."""
        endpoints = self.report["endpoints"]
        return PipelineSettings(bootstrap=endpoints["kafka"], redis_url=endpoints["redis"])

    def read(self, topic: str, kind: Any) -> list[Any]:
        """Return the records of a topic, read committed."""
        return records(self.settings, topic, kind)

    def get(self, path: str) -> Any:
        """Return what the HTTP API answers."""
        with urllib.request.urlopen(self.report["endpoints"]["http"] + path, timeout=30) as answer:
            assert answer.status == 200
            return json.load(answer)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoRun]:
    """Run ``surescale demo --keep`` until its report is there."""
    folder = tmp_path_factory.mktemp("demo")
    report = folder / "report.json"
    command = [sys.executable, "-m", "surescale.services.cli", "demo", "--minutes", str(MINUTES), "--out", str(report), "--keep"]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: report.exists() or process.poll() is not None, START_TIMEOUT_S, "the demo's report")
        assert report.exists(), (folder / "output").read_text()[-4000:]
        yield DemoRun(process, json.loads(report.read_text()))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENT_S)


@pytest.fixture(scope="module")
def disturbed() -> dict[str, Any]:
    """Run the same pipeline again, killing the rescaler and then the Spark job in the middle, and return its report."""
    with LocalPipeline(PipelineOptions(minutes=MINUTES)) as pipeline:
        pipeline.start()
        for minute, role in ((35, "rescaler"), (75, "spark")):
            pipeline.wait_for_minute(minute)
            pipeline.supervisor.kill(role)
            pipeline.supervisor.restart(role)
        pipeline.wait_for_minute(MINUTES)
        pipeline.supervisor.wait(lambda: pipeline.engine_report().finished, timeout_s=300, what="the end of the trace")
        return dict(json.loads(msgspec.json.encode(pipeline.report())))


def series(report: dict[str, Any]) -> dict[str, list[int]]:
    """Return each job's parallelism, minute by minute, under the policy that acted."""
    return {job: policies["sure"]["parallelism"] for job, policies in report["jobs"].items()}


def test_the_jobs_ran_to_the_end(demo: DemoRun) -> None:
    """Three jobs, every minute of each, a window for every job-minute, no stop missed."""
    assert sorted(demo.report["jobs"]) == ["sim/clicks", "sim/orders", "sim/payments"]
    assert {len(found) for found in series(demo.report).values()} == {MINUTES}
    assert demo.report["counts"]["windows"] == 3 * MINUTES
    assert demo.report["lockstep_misses"] == 0


def test_the_report_has_its_promised_keys(demo: DemoRun) -> None:
    """Other programs read these keys."""
    figures = {"reward", "latency_mean_s", "latency_p99_s", "utilisation", "task_minutes", "rescales", "overload_minutes"}
    for policies in demo.report["jobs"].values():
        assert set(policies) == {"sure", "static", "target-utilisation"}
        assert all(figures <= set(found) for found in policies.values())
    counts = demo.report["counts"]
    assert set(counts["decisions"]) == {"act", "hold"}
    assert set(counts["outcomes"]) == {"commanded", "superseded", "refused", "pending"}
    assert {"metrics", "windows", "commands", "events", "late", "duplicates", "dead_letters"} <= set(counts)
    assert demo.report["freshness_s"]["pipeline"]["samples"] > 0
    assert {"window_minutes", "span_minutes", "minutes", "wall_s", "policy", "seed"} <= set(demo.report)


def test_parallelism_follows_the_load(demo: DemoRun) -> None:
    """On the morning ramp each job is rescaled, and uses fewer task-minutes than what was provisioned for the peak."""
    for job, policies in demo.report["jobs"].items():
        assert len(set(policies["sure"]["parallelism"])) > 1, job
        assert policies["sure"]["rescales"] > 0
        assert policies["sure"]["task_minutes"] < policies["static"]["task_minutes"]


def test_every_act_has_one_last_outcome(demo: DemoRun) -> None:
    """An act ends commanded, superseded or refused, once; a hold is held, once."""
    decisions = {found.decision_id: found for found in demo.read(topics.DECISIONS, Decision)}
    outcomes = [found for found in demo.read(topics.RESCHEDULE_EVENTS, EventRecord) if isinstance(found, Outcome)]
    last = Counter(found.decision_id for found in outcomes if found.status in {"commanded", "superseded", "refused", "held"})
    waiting = {found.decision_id for found in outcomes if found.status == "pending"} - set(last)
    newest = max(found.span_end_ms for found in decisions.values())
    assert all(decisions[each].span_end_ms == newest for each in waiting)  # only the end of the trace cuts a wait short
    assert set(last.values()) == {1}
    assert set(decisions) == set(last) | waiting
    assert all((found.status == "held") == (decisions[found.decision_id].action == "hold") for found in outcomes)


def test_commands_are_unique_and_their_generations_have_no_gap(demo: DemoRun) -> None:
    """One command per identity; each job's generations count 1, 2, 3, ..., the steps of each 0, 1, ..."""
    commands = demo.read(topics.RESCHEDULE_COMMANDS, RescheduleCommand)
    assert len({found.command_id for found in commands}) == len(commands) == demo.report["counts"]["commands"] > 0
    for job in demo.report["jobs"]:
        steps = [(found.desired_generation, found.step) for found in commands if found.job == job]
        generations = [generation for generation, step in steps if step == 0]
        assert generations == list(range(1, len(generations) + 1))
        assert all(step == 0 or (generation, step - 1) in steps for generation, step in steps)


def test_every_command_was_applied(demo: DemoRun) -> None:
    """Each change that the trace left time for (two minutes) was applied by the engine, and none failed."""
    commands = demo.read(topics.RESCHEDULE_COMMANDS, RescheduleCommand)
    progress = [found for found in demo.read(topics.RESCHEDULE_EVENTS, EventRecord) if isinstance(found, Progress)]
    end_ms = max(found.span_end_ms for found in demo.read(topics.DECISIONS, Decision))
    commits = {found.command_id: found for found in commands if found.action == "commit"}
    in_time = {of for of, found in commits.items() if found.issued_at_ms + 2 * MINUTE_MS <= end_ms}
    applied = {found.command_id for found in progress if found.status == "applied"}
    assert applied & set(commits) == in_time != set()
    assert not [found for found in progress if found.status == "failed"]


def test_learners_warm_state_before_it_moves(demo: DemoRun) -> None:
    """State that moves is prepared, and then the change costs a second instead of a minute."""
    progress = [found for found in demo.read(topics.RESCHEDULE_EVENTS, EventRecord) if isinstance(found, Progress)]
    warmed = [found for found in progress if found.status == "applied" and found.learners]
    commits = {found.command_id for found in demo.read(topics.RESCHEDULE_COMMANDS, RescheduleCommand) if found.action == "commit"}
    assert warmed
    assert {found.duration_ms for found in progress if found.status == "applied" and found.command_id in commits} == {1_000}
    assert set(demo.report["rescaling"]["jobs"]) == set(demo.report["jobs"])
    assert any(found["learners"] for found in demo.report["rescaling"]["jobs"].values())


def test_nothing_was_late_doubled_or_refused(demo: DemoRun) -> None:
    """A healthy pipeline has no late rows, no duplicates and no dead letters."""
    counts = demo.report["counts"]
    assert (counts["late"], counts["duplicates"], counts["dead_letters"]) == (0, 0, 0)


def test_the_http_api_shows_what_kafka_holds(demo: DemoRun) -> None:
    """The root answers, and a job's view shows the parallelism that the trace ended with."""
    assert demo.get("")
    for job, parallelism in series(demo.report).items():
        tasks = demo.get(f"jobs/{job}")["topology"]["record"]["tasks"]
        assert sum(task["parallelism"] for task in tasks if task["scalable"]) == parallelism[-1] > 0


def surescale(demo: DemoRun, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command against the demo's servers."""
    command = [sys.executable, "-m", "surescale.services.cli", *arguments]
    environment = os.environ | to_environment(demo.settings)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENT_S, check=False)


def test_a_decision_is_explained_and_decided_again_with_the_same_answer(demo: DemoRun) -> None:
    """``explain --recompute`` fetches window, settings and model, and gets the very bytes."""
    for job in demo.report["jobs"]:
        done = surescale(demo, "job", "explain", job, "--recompute", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["recomputed"]["same"] is True


def test_a_recording_of_the_pipeline_replays_to_the_same_decisions(demo: DemoRun, tmp_path: Path) -> None:
    """Recorded to a file and decided again, every decision has the bytes it had; another policy shows its own."""
    file = tmp_path / "pipeline.ssr"
    jobs = [word for job in demo.report["jobs"] for word in ("--job", job)]
    assert surescale(demo, "recording", "create", *jobs, "--out", str(file)).returncode == 0
    done = surescale(demo, "recording", "replay", str(file), "--policy", "sure", "--policy", "static", "--json")
    assert done.returncode == 0, done.stderr
    sure, static = json.loads(done.stdout)["policies"]
    assert (sure["recorded"]["same"], sure["recorded"]["different"]) == (sum(demo.report["counts"]["decisions"].values()), 0)
    assert static["rescales"] != sure["rescales"]


def redis_dump(url: str) -> dict[str, Any]:
    """Return every key of the view with its value, whatever its type, but when it was last up to date, which no record says."""
    import redis

    client = redis.Redis.from_url(url, decode_responses=True)
    readers = {
        "string": client.get,
        "hash": client.hgetall,
        "list": lambda key: client.lrange(key, 0, -1),
        "set": client.smembers,
        "zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        "stream": client.xrange,
    }
    return {key: readers[client.type(key)](key) for key in client.keys("*") if not key.endswith("kept")}


def test_redis_equals_its_rebuild(demo: DemoRun) -> None:
    """The view, flushed and rebuilt from Kafka, holds what it held."""
    environment = {"SURESCALE_BOOTSTRAP": demo.settings.bootstrap, "SURESCALE_REDIS_URL": demo.settings.redis_url}
    before = redis_dump(demo.settings.redis_url)
    assert before
    command = [sys.executable, "-m", "surescale.services.cli", "job", "list", "--rebuild"]
    subprocess.run(command, env={**environment, "PATH": "/usr/bin:/bin"}, check=True, timeout=PATIENT_S)
    wait_until(lambda: redis_dump(demo.settings.redis_url) == before, 60.0, "the rebuilt view")


@pytest.mark.nightly("a second whole run; tests/faults kills each role too, test_rescaler_crashes and test_spark_job one each")
def test_a_killed_rescaler_and_a_killed_spark_job_change_nothing(demo: DemoRun, disturbed: dict[str, Any]) -> None:
    """With one seed the disturbed run gives the same parallelism series, windows, decisions and commands."""
    assert series(disturbed) == series(demo.report)
    for count in ("windows", "decisions", "commands", "dead_letters", "late"):
        assert disturbed["counts"][count] == demo.report["counts"][count], count


def test_the_twin_gives_the_pipelines_series(demo: DemoRun) -> None:
    """The same policy in the simulator, in one process, gives the series that the pipeline gave."""
    done = surescale(demo, "policy", "twin", "--policy", "sure", *PipelineOptions(minutes=MINUTES).shared_arguments())
    assert done.returncode == 0, done.stderr
    assert series(json.loads(done.stdout)) == series(demo.report)


def words_of(process: psutil.Process) -> list[str]:
    """Return a process's command line, nothing if it has just ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def is_alive(process: psutil.Process) -> bool:
    """Say whether a process still runs; one that has ended and is not yet collected does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def test_ctrl_c_leaves_nothing_behind(demo: DemoRun) -> None:
    """An interrupt after the trace ends the demo that was kept: its children are gone, and its folder is removed."""
    children = psutil.Process(demo.process.pid).children(recursive=True)
    folders = {Path(word).parent for child in children for word in words_of(child) if word.endswith("/checkpoint")}
    assert len(children) > 7
    assert folders
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(PATIENT_S) == 0
    wait_until(lambda: not any(is_alive(child) for child in children), 20.0, "the end of all children")
    assert not any(folder.exists() for folder in folders)
