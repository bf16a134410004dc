"""`make up` and `make down` for real: the demo and Prometheus beside it come up, work, and leave nothing; what is wrong is said.

Needs a container engine that really runs containers, and a Compose; without one the module says why it does not.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from surescale.contracts import topics
from surescale.contracts.commands import EventRecord, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from tests.support.compose_pipeline import ComposePipeline, Ended, dashboard_queries
from tests.support.containers import REDIS_IMAGE, why_no_compose
from tests.support.topic_records import records
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.e2e]
if (reason := why_no_compose()) is not None and os.environ.get("SURESCALE_TEST_STACK") != "containers":
    pytest.skip(f"the pipeline by Compose: {reason}", allow_module_level=True)

MINUTES = 60
ROLES = ("monitor", "spark", "agent", "rescaler", "state", "engine")
QUERIES = dashboard_queries()
COMMANDS = (
    "job list --json",
    "job decisions sim/orders --json",
    "job set sim/orders --max 9",
    "job explain sim/orders",
    "doctor --json",
)
# What has nothing to show as long as all is well.
QUIET = {"Dead letters, late and unreadable records", "Fallbacks to the rule, by requested policy", "Restarts"}


@dataclass(frozen=True, slots=True)
class Run:
    """What was seen of a pipeline from `up` to `down`."""

    up: Ended
    states: dict[str, list[str]]
    jobs: list[dict[str, Any]]
    decisions: list[Decision]
    commands: list[RescheduleCommand]
    events: list[EventRecord]
    targets: list[dict[str, Any]]
    rules: list[dict[str, Any]]
    answers: dict[str, list[Any]]
    asked: dict[str, Ended]
    down: Ended
    left: list[str]


@pytest.fixture(scope="module")
def run() -> Run:
    """Bring the demo up with two agents and Prometheus, let its trace end, look at everything, take it down."""
    profiles = {"COMPOSE_PROFILES": "demo,prometheus", "DEMO_MINUTES": str(MINUTES), "AGENTS": "2", "UP_TIMEOUT_S": "300"}
    pipeline = ComposePipeline(settings=profiles)
    seen: dict[str, Any] = {}
    try:
        seen["up"] = up = pipeline.run("up")
        assert up.code == 0, up.said
        seen["states"] = pipeline.states()
        wait_until(lambda: pipeline.states()["trace"] == ["exited none 0 0"], 240, "the end of the trace")
        wait_until(lambda: len(pipeline.state("/jobs")) == 3, 30, "all jobs in the view")
        seen["asked"] = {words: pipeline.run("surescale", *words.split()) for words in COMMANDS}
        seen |= {"jobs": pipeline.state("/jobs"), **topics_of(pipeline), **prometheus_of(pipeline)}
    finally:
        down = pipeline.run("down")
    return Run(**seen, down=down, left=pipeline.left())


def topics_of(pipeline: ComposePipeline) -> dict[str, list[Any]]:
    """Read through Kafka's published port what went over three topics."""
    kinds = {"decisions": Decision, "commands": RescheduleCommand, "events": EventRecord}
    names = {"decisions": topics.DECISIONS, "commands": topics.RESCHEDULE_COMMANDS, "events": topics.RESCHEDULE_EVENTS}
    return {what: records(pipeline.pipeline, name, kinds[what]) for what, name in names.items()}


def prometheus_of(pipeline: ComposePipeline) -> dict[str, Any]:
    """Ask for targets, rules, and what the dashboard would show."""
    wait_until(lambda: len(up_targets(pipeline)) == len(ROLES) + 1, 60, "every replica of every role to be scraped")
    wait_until(lambda: all(rule["health"] == "ok" for rule in rules(pipeline)), 60, "every rule to be evaluated")
    with suppress(AssertionError):  # what is empty for good is a test's finding
        wait_until(lambda: empty_panels(answers(pipeline)) <= QUIET, 60, "two scrapes of each figure, for its rate")
    return {"targets": up_targets(pipeline), "rules": rules(pipeline), "answers": answers(pipeline)}


def answers(pipeline: ComposePipeline) -> dict[str, list[Any]]:
    """Return what Prometheus answers to the dashboard's queries, by panel."""
    return {title: [pipeline.prometheus("query", query=query)["result"] for query in found] for title, found in QUERIES.items()}


def empty_panels(found: dict[str, list[Any]]) -> set[str]:
    """Return the panels that would show nothing."""
    return {title for title, results in found.items() if not any(results)}


def up_targets(pipeline: ComposePipeline) -> list[dict[str, Any]]:
    """Return the targets that answer."""
    return [target for target in pipeline.prometheus("targets", state="active")["activeTargets"] if target["health"] == "up"]


def rules(pipeline: ComposePipeline) -> list[dict[str, Any]]:
    """Return the alert rules as Prometheus sees them."""
    return [rule for group in pipeline.prometheus("rules")["groups"] for rule in group["rules"]]


def test_up_returns_when_everything_is_healthy(run: Run) -> None:
    """It says where to look, and no container is still starting."""
    assert any("the pipeline is up after" in line for line in run.up.said)
    assert {name: len(run.states[name]) for name in ROLES} == {**dict.fromkeys(ROLES, 1), "agent": 2}
    assert {state for name in (*ROLES, "kafka", "redis", "prometheus") for state in run.states[name]} == {"running healthy 0 0"}


def test_decisions_and_commands_flow(run: Run) -> None:
    """Every span of all jobs is decided; commands are written and carried out; the view shows all jobs."""
    spans = {(decision.job, decision.span_end_ms) for decision in run.decisions}
    assert len(spans) == 3 * MINUTES // 10
    applied = {event.command_id for event in run.events if isinstance(event, Progress) and event.status == "applied"}
    assert applied
    assert applied <= {command.command_id for command in run.commands}
    assert {job["job"] for job in run.jobs} == {job for job, _ in spans}


def test_commands_run_in_a_container(run: Run) -> None:
    """What reads the view, what reads the topics, and what writes a setting."""
    assert {words: (ended.code, ended.said) for words, ended in run.asked.items()} == dict.fromkeys(COMMANDS, (0, []))
    printed = [run.asked[words].printed for words in COMMANDS]
    assert {job["job"] for job in json.loads(printed[0])} == {job["job"] for job in run.jobs}
    assert json.loads(printed[1])
    assert "max default -> 9" in printed[2]
    assert printed[3].startswith("sim/orders@")
    assert {each["subject"]: each["detail"] for each in json.loads(printed[4]) if each["verdict"] == "problem"} == {}


def test_prometheus_reads_every_replica_of_every_role(run: Run) -> None:
    """Found by the names of the services, both agents included."""
    assert sorted(target["discoveredLabels"]["__meta_dns_name"] for target in run.targets) == sorted([*ROLES, "agent"])


def test_prometheus_takes_every_alert_rule_and_none_fires(run: Run) -> None:
    """All is well in a pipeline that just ran."""
    assert len(run.rules) > 5
    assert {rule["name"] for rule in run.rules if rule["state"] == "firing"} == set()


def test_every_panel_of_the_dashboard_has_something_to_show(run: Run) -> None:
    """Except those about problems: there were none."""
    assert empty_panels(run.answers) <= QUIET


def test_down_leaves_nothing(run: Run) -> None:
    """No container, no network, and in the demo no volume."""
    assert (run.down.code, run.left) == (0, [])


@contextmanager
def refused(**settings: str) -> Iterator[str]:
    """Yield the one line that a failing `up` ends with; nothing may be left of it."""
    pipeline = ComposePipeline(settings=settings)
    ended = pipeline.run("up")
    assert ended.code == 1, ended.said
    assert all(line.startswith("surescale: ") for line in ended.said)
    yield ended.said[-1]
    assert pipeline.left() == []


def test_a_taken_port_is_named() -> None:
    """Before anything starts, with the variable that changes it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with refused(SURESCALE_HTTP_PORT=str(port)) as line:
            assert line == f"surescale: port {port} of 127.0.0.1 is taken; set SURESCALE_HTTP_PORT to another one"


def test_an_image_that_cannot_be_had_is_named() -> None:
    """With the reason and the variable."""
    with refused(REDIS_IMAGE="registry.invalid/redis:7") as line:
        assert "image registry.invalid/redis:7 cannot be had" in line


def test_a_broker_that_never_gets_healthy_is_named() -> None:
    """Its container runs, and nobody listens in it."""
    with refused(KAFKA_IMAGE=REDIS_IMAGE, UP_TIMEOUT_S="20") as line:
        assert "kafka" in line


def test_a_role_that_ends_is_named_with_its_last_words() -> None:
    """Its settings are wrong: the container ends, and says why."""
    with refused(SURESCALE_SEED="many", UP_TIMEOUT_S="60") as line:
        assert "SURESCALE_SEED" in line
