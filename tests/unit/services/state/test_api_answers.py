"""The bytes of the HTTP API's answers, frozen: programs read them.

``python -m tests.unit.services.state.test_api_answers REDIS_URL`` writes the file again, for a document that is new.
"""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
from aiohttp.test_utils import TestClient, TestServer

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import SlotStandbys
from surescale.contracts.messages import ClockPrerequisites, ClockSegment
from surescale.contracts.releases import Release
from surescale.contracts.rescaler_state import CommandUnderway, Condition, JobSummary, RescalerRecord, WaitingAct
from surescale.contracts.wire import encode
from surescale.services.state.api import AT, make_app
from surescale.services.state.connection import connect
from surescale.services.state.documents import HealthDocument
from surescale.services.state.http.operations import OPERATIONS
from surescale.services.state.http.routes import LINKS
from surescale.services.state.read.queries import Queries
from surescale.services.state.write.operations import condensed
from surescale.services.state.write.projections import Record, project
from surescale.services.state.write.view_store import ViewStore
from tests.support.builders import JOB
from tests.support.view_pipeline import a_pipeline
from tests.wire.messages import MESSAGES

GOLDEN = Path(__file__).parent / "golden" / "answers.txt"
PATHS = (
    "/",
    "/health",
    "/jobs",
    f"/jobs/{JOB}",
    "/jobs/sim/clucks",
    f"/jobs/{JOB}/history?minutes=3",
    f"/jobs/{JOB}/history?minutes=0",
    f"/jobs/{JOB}/decisions?limit=3",
    f"/jobs/{JOB}/decisions?limit=2&cursor={JOB}@1800000/hold",
    f"/jobs/{JOB}/decisions?cursor=gone",
    f"/jobs/{JOB}/commands?limit=2",
    f"/jobs/{JOB}/shadows?limit=1",
    f"/jobs/{JOB}/shadows?cursor=gone",
    f"/decisions/{JOB}@60000/sure",
    f"/decisions/{JOB}@2400000/hold",
    f"/decisions/{JOB}@1/hold",
    f"/commands/{JOB}%232.0",
    f"/commands/{JOB}%233.0",
    "/jobs?offset=3&limt=2",
    "/clusters",
    "/clusters?limit=2",
    "/policies",
    "/pipeline",
    "/clusters/sim",
    "/clusters/sim/info",
    "/clusters/elsewhere",
    "/dead-letters",
    "/counts",
    "/clocks",
    "/nowhere",
)
JOB_SUMMARY = JobSummary(
    phase="cooldown",
    mode="desired",
    pending=WaitingAct(decision_id="sim/clicks@3600000/hold", reason="cooldown"),
    underway=CommandUnderway(decision_id="d", command_id="sim/clicks#6.0", step="prepare", given_up="LEARNERS_TIMEOUT"),
    wake_at_ms=90_000,
    desired_generation=4,
    applied_generation=3,
    observed_generation=3,
    failures=1,
    conditions=(
        Condition(
            type="Available",
            status=True,
            reason="Running",
            message="the job runs on 2 parallel units",
            last_transition_ms=60_000,
            observed_generation=3,
        ),
    ),
    standbys=(SlotStandbys(unit=1, hosts=("h",)),),
    mappings={"map": (1, 1, 2)},
)
BALANCE_MEMORY = (
    b'{"generation":2,"hosts":[["h","running"]],"hosts_version":1,"status":"settled","reason":"balanced","at_ms":60000,'
    b'"sequence":1,"settled_sequence":1,"until_ms":null,"is_balanced":true,"new":["h"],"avoided":[],"detail":"",'
    b'"under_replicated":{"sim/clicks":1},"seen":["sim/clicks"],"left_out":[]}'
)


def records() -> Iterable[tuple[str, str, bytes | None]]:
    """Return topic, key and value of a pipeline's records, and some of every kind with all their fields set."""
    for topic, key, message in a_pipeline():
        yield topic, key, encode(message) if isinstance(message, msgspec.Struct) else message
    for topic, names in {
        topics.DECISIONS: ("decision",),
        topics.SHADOW_DECISIONS: ("shadow-decision", "shadow-decision-late"),
        topics.RESCHEDULE_COMMANDS: ("command", "standby"),
        topics.RESCHEDULE_EVENTS: ("balance", "outcome", "progress"),
        topics.ENGINE_EVENTS: ("engine-event",),
        topics.DEAD_LETTERS: ("dead-letter",),
    }.items():
        yield from ((topic, JOB, encode(MESSAGES[name])) for name in names)
    yield from ((topics.POLICY_RELEASES, "sim", encode(MESSAGES[f"policy-release-{role}"])) for role in ("shadow", "canary"))
    memory = RescalerRecord(cluster="sim", at_ms=60_000, kind="job", id=JOB, body=msgspec.Raw(b"{}"), summary=JOB_SUMMARY)
    balance = RescalerRecord(cluster="sim", at_ms=60_000, kind="cluster", id="balance", body=msgspec.Raw(BALANCE_MEMORY))
    yield topics.RESCALER_STATE, f"sim/job/{JOB}", encode(memory)
    yield topics.RESCALER_STATE, "sim/cluster/balance", encode(balance)
    yield (
        topics.POLICY_RELEASES,
        "sim",
        encode(Release(cluster="sim", policy="sure", sha256="ab" * 32, valid_from_ms=9, set_by="Ä")),
    )
    told = ClockPrerequisites(hosts=1, events=2, jobs={JOB: 3})
    for segment in (
        ClockSegment(pipeline="main", sequence=1, e0_ms=0, w0_ms=5, speed=60.0, until_ms=9, end_ms=120_000, told=told),
        ClockSegment(pipeline="other", sequence=0, e0_ms=0, w0_ms=5, speed=1.5, until_ms=9),
    ):
        yield topics.CLOCK, segment.pipeline, encode(segment)


def answers(redis_url: str) -> str:
    """Return path, status and body of each answer, over a view of these records."""
    client = connect(redis_url)
    store = ViewStore(client, "answers-")
    store.flush()
    at = {("decisions", 0): 0}
    assert store.begin(at, None)
    operations = []
    for offset, (topic, key, value) in enumerate(records()):
        if value != b"junk":
            operations += project(Record(topic, 0, offset, key.encode(), value, 1_000 + offset))
    assert store.write(condensed(operations), at, at)
    try:
        return asyncio.run(_asked(Queries(client, "answers-", wall_ms=lambda: 100 * MINUTE_MS)))
    finally:
        store.flush()
        client.close()


async def _asked(queries: Queries) -> str:
    app = make_app(
        queries, lambda: HealthDocument(role="state-service", ready=True, records=1, rebuilds=0), redis_url="redis://here"
    )
    lines = []
    async with TestClient(TestServer(app)) as client:
        for path in PATHS:
            async with client.get(path) as answer:
                lines.append(f"{answer.status} {path} {answer.content_type}\n{await answer.text()}\n")
    return "\n".join(lines)


def test_answers_have_the_bytes_they_had(redis_url: str) -> None:
    """Order of fields, nulls and white space included."""
    assert answers(redis_url) == GOLDEN.read_text()


def test_the_index_lists_every_route() -> None:
    """Once, without the pattern of a parameter."""
    app = make_app(
        Queries(connect("redis://nowhere"), ""),
        lambda: HealthDocument(role="state-service", ready=True, records=0, rebuilds=0),
        redis_url="redis://nowhere",
    )
    routes = {resource.canonical for resource in app.router.resources()}
    assert routes == {"/", AT + "{file}", *(path.partition("?")[0] for path in LINKS), *(each.path for each in OPERATIONS)}


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(answers(sys.argv[1]))
