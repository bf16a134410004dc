"""The pipeline in containers of the project's own images: decisions and commands flow, and go on when a role is taken away.

One run is disturbed twice: the rescaler is killed, then both agents are restarted one after the other. It needs a container
engine that really runs containers; without one the module says why it does not.
"""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import EventRecord, Outcome, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.wire import encode
from tests.support.containers import PipelineInContainers, Stopped, build_missing_images, role_image, why_not
from tests.support.topic_records import records
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.e2e]
if os.environ.get("SURESCALE_TEST_STACK") == "local":
    pytest.skip("the pipeline in containers needs a container engine, and SURESCALE_TEST_STACK=local", allow_module_level=True)
if (reason := why_not()) is not None and os.environ.get("SURESCALE_TEST_STACK") != "containers":
    pytest.skip(f"the pipeline in containers needs a container engine: {reason}", allow_module_level=True)

MINUTES = 100
RESTART_MINUTES_MAX = 4  # until a command takes effect, and the job is back
AGENTS = ("agent-1", "agent-2")


@dataclass(frozen=True, slots=True)
class Run:
    """What was seen of a run that has ended."""

    report: dict[str, Any]
    decisions: list[Decision]
    commands: list[RescheduleCommand]
    events: list[EventRecord]
    jobs: list[dict[str, Any]]
    restarted: dict[str, Stopped]
    stopped: dict[str, Stopped]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Bring the pipeline up, disturb it, let the trace end, read what went over the topics, stop every role politely."""
    build_missing_images(PipelineInContainers.ROLES)
    with PipelineInContainers(MINUTES) as pipeline:
        pipeline.wait_for_minute(20)
        pipeline.roles["rescaler"].kill_and_start()
        pipeline.wait_for_minute(50)
        restarted = {agent: restart(pipeline, agent) for agent in AGENTS}
        wait_until(lambda: pipeline.engine_report()["finished"], 300, "the end of the trace")
        wait_until(lambda: len(pipeline.state("/jobs")) == 2, 30, "both jobs in the view")
        yield Run(
            report=pipeline.engine_report(),
            decisions=records(pipeline.settings, topics.DECISIONS, Decision),
            commands=records(pipeline.settings, topics.RESCHEDULE_COMMANDS, RescheduleCommand),
            events=records(pipeline.settings, topics.RESCHEDULE_EVENTS, EventRecord),
            jobs=pipeline.state("/jobs"),
            restarted=restarted,
            stopped={name: role.stop_politely() for name, role in pipeline.roles.items()},
        )


def restart(pipeline: PipelineInContainers, name: str) -> Stopped:
    """Stop one replica politely, start it again, and wait until it has partitions."""
    stopped = pipeline.roles[name].stop_politely()
    pipeline.roles[name].get_wrapped_container().start()
    pipeline.roles[name].wait_healthy()
    return stopped


def test_the_trace_ran_to_its_end(run: Run) -> None:
    """Every minute of both jobs, and no stop at which somebody failed to answer."""
    assert run.report["minutes_done"] == MINUTES
    assert run.report["misses"] == 0
    assert sorted(run.report["jobs"]) == ["sim/clicks", "sim/orders"]


def test_every_span_was_decided(run: Run) -> None:
    """Neither the restarted agents nor the killed rescaler lost a decision; one that was made again is byte for byte the same."""
    spans = {(decision.job, decision.span_end_ms) for decision in run.decisions}
    assert Counter(job for job, _ in spans) == dict.fromkeys(run.report["jobs"], MINUTES // 10)
    assert len({encode(decision) for decision in run.decisions}) == len(spans)


def test_every_decision_was_acted_on_once(run: Run) -> None:
    """The rescaler answers a decision's first outcome once, no matter which process was killed in between."""
    first = Counter(event.decision_id for event in run.events if isinstance(event, Outcome) and event.sequence == 0)
    assert first == dict.fromkeys({decision.decision_id for decision in run.decisions}, 1)


def test_commands_were_carried_out(run: Run) -> None:
    """Each command once, each applied by the engine unless the trace ended on it, generations and their steps without a gap."""
    applied = {event.command_id for event in run.events if isinstance(event, Progress) and event.status == "applied"}
    last_ms = run.report["start_ms"] + (MINUTES - RESTART_MINUTES_MAX) * MINUTE_MS
    assert applied
    assert {command.command_id for command in run.commands if command.issued_at_ms < last_ms} <= applied
    for job in run.report["jobs"]:
        steps = Counter(command.desired_generation for command in run.commands if command.job == job)
        written = [(command.desired_generation, command.step) for command in run.commands if command.job == job]
        assert list(steps) == list(range(1, len(steps) + 1))
        assert written == [(generation, step) for generation, count in steps.items() for step in range(count)]


def test_the_view_shows_both_jobs(run: Run) -> None:
    """Through the HTTP API of the state service, on its published port."""
    assert {job["job"] for job in run.jobs} == set(run.report["jobs"])


def test_agents_leave_in_time(run: Run) -> None:
    """A rolling restart sees exit code 0 within ten seconds from each."""
    assert set(run.restarted) == set(AGENTS)
    assert all(stopped.exit_code == 0 and stopped.took_s < 10 for stopped in run.restarted.values()), run.restarted


def test_every_role_leaves_in_time(run: Run) -> None:
    """SIGTERM, ten seconds, exit code 0."""
    late = {name: stopped for name, stopped in run.stopped.items() if stopped.exit_code != 0 or stopped.took_s >= 10}
    assert not late


@pytest.mark.parametrize("role", PipelineInContainers.ROLES)
def test_an_image_holds_what_it_needs_and_no_more(role: str) -> None:
    """No compiler, no installer, no torch, not root, and a list of licences."""
    build_missing_images((role,))
    script = """
        id -u
        for tool in cc gcc make uv; do command -v $tool && exit 1; done
        python -c 'import importlib.util as u; print([n for n in ("torch", "pip", "setuptools") if u.find_spec(n)])'
        grep -c . /opt/surescale/licences.txt
    """
    command = ["docker", "run", "--rm", "--read-only", role_image(role), "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    user, unwanted, licences = done.stdout.splitlines()
    assert (user, unwanted) == ("10001", "[]")
    assert int(licences) > 5
