"""`SURESCALE_SECURE=true make up` for real: with every link locked decisions flow, and who is not asked in stays out.

Needs a container engine that really runs containers, and a Compose; without one the module says why it does not.
"""

import os
import shutil
import ssl
from dataclasses import dataclass, replace
from http.client import HTTPSConnection
from typing import Any

import msgspec
import pytest

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import EventRecord, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.ports import LOOPBACK
from tests.support.compose_pipeline import ROOT, ComposePipeline, Ended
from tests.support.containers import why_no_compose
from tests.support.topic_records import records
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.e2e]
if (reason := why_no_compose()) is not None and os.environ.get("SURESCALE_TEST_STACK") != "containers":
    pytest.skip(f"the secure pipeline by Compose: {reason}", allow_module_level=True)
if shutil.which("openssl") is None:
    pytest.skip("openssl, which makes the certificates, is not installed", allow_module_level=True)

MINUTES = 60
COMMAND_MINUTES = 10  # a command ends within these, so one that is issued later may be on its way when the trace ends
SECRETS = ROOT / "compose/secure/generated"


@dataclass(frozen=True, slots=True)
class Run:
    """What was seen of a secure pipeline from `up` to `down`."""

    up: Ended
    counts: dict[str, Any]
    without_token: int
    decisions: list[Decision]
    commands: list[RescheduleCommand]
    applied: set[str]
    kept_out: dict[str, str]
    asked: Ended
    down: Ended
    left: list[str]


@pytest.fixture(scope="module")
def run() -> Run:
    """Bring the demo up with everything locked, let its trace end, try every door, take it down."""
    profiles = {"COMPOSE_PROFILES": "demo", "DEMO_MINUTES": str(MINUTES), "UP_TIMEOUT_S": "300", "SURESCALE_SECURE": "true"}
    pipeline = ComposePipeline(settings=profiles)
    seen: dict[str, Any] = {}
    try:
        seen["up"] = up = pipeline.run("up")
        assert up.code == 0, up.said
        wait_until(lambda: pipeline.states()["trace"] == ["exited none 0 0"], 240, "the end of the trace")
        reader = (SECRETS / "http-tokens").read_text().split()[0]
        wait_until(lambda: len(answer(pipeline, "/jobs", reader)[1]) == 3, 30, "all jobs in the view")
        seen |= {"counts": answer(pipeline, "/counts", reader)[1], "without_token": answer(pipeline, "/counts")[0]}
        seen["decisions"] = records(as_role(pipeline, "state-service"), topics.DECISIONS, Decision)
        seen["commands"] = records(as_role(pipeline, "state-service"), topics.RESCHEDULE_COMMANDS, RescheduleCommand)
        events = records(as_role(pipeline, "state-service"), topics.RESCHEDULE_EVENTS, EventRecord)
        seen["applied"] = {event.command_id for event in events if isinstance(event, Progress) and event.status == "applied"}
        strangers = {
            "the monitor, which may not read them": as_role(pipeline, "monitor"),
            "a role with another one's password": replace(as_role(pipeline, "monitor"), kafka_username="surescale-state-service"),
            "nobody, unencrypted": pipeline.pipeline,
        }
        seen["kept_out"] = {who: why_not(settings) for who, settings in strangers.items()}
        seen["asked"] = pipeline.run("surescale", "job", "list", "--json")
    finally:
        down = pipeline.run("down")
    return Run(**seen, down=down, left=pipeline.left())


def answer(pipeline: ComposePipeline, path: str, token: str = "") -> tuple[int, Any]:
    """Ask the API over TLS, trusting the pipeline's own authority alone."""
    context = ssl.create_default_context(cafile=str(SECRETS / "ca.pem"))
    client = HTTPSConnection(LOOPBACK, pipeline.ports["SURESCALE_HTTP_PORT"], timeout=30, context=context)
    try:
        client.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        given = client.getresponse()
        return given.status, msgspec.json.decode(given.read())
    finally:
        client.close()


def as_role(pipeline: ComposePipeline, role: str) -> PipelineSettings:
    """Return the settings of a role that reaches Kafka through its published port."""
    return replace(
        pipeline.pipeline,
        kafka_security_protocol="SASL_SSL",
        kafka_username=f"surescale-{role}",
        kafka_password_file=str(SECRETS / "kafka-passwords" / role),
        kafka_ca_file=str(SECRETS / "ca.pem"),
    )


def why_not(settings: PipelineSettings) -> str:
    """Try to read decisions, and return why that failed."""
    try:
        return f"read {len(records(settings, topics.DECISIONS, Decision))} decisions"
    except ConnectionError as error:
        return str(error)


def test_decisions_flow_with_every_link_locked(run: Run) -> None:
    """Each span of all jobs is decided; what was commanded was applied, and everything is in the view."""
    assert len(run.decisions) == 3 * MINUTES // 10
    assert sum(run.counts["decisions"].values()) == len(run.decisions)
    assert (run.counts["commands"], run.counts["progress"]["applied"]) == (len(run.commands), len(run.applied))
    at_end_ms = max(decision.span_end_ms for decision in run.decisions) - COMMAND_MINUTES * MINUTE_MS
    due = {command.command_id for command in run.commands if command.issued_at_ms <= at_end_ms}
    assert due
    assert due <= run.applied


def test_who_is_not_asked_in_stays_out(run: Run) -> None:
    """No figures without a token; no records without a password, with another role's, without TLS, or without the right."""
    assert run.without_token == 401
    assert [who for who, why in run.kept_out.items() if why.startswith("read")] == []
    assert run.up.said[-1].endswith("the trace: compose/pipeline.sh logs --follow trace")


def test_commands_work_in_the_container(run: Run) -> None:
    """The command line of `pipeline.sh surescale` has the keys that it needs."""
    assert run.asked.code == 0, run.asked.said
    assert len(msgspec.json.decode(run.asked.printed)) == 3


def test_nothing_is_left(run: Run) -> None:
    """After `down`."""
    assert (run.down.code, run.left) == (0, [])
