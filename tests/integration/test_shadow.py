"""Policies in the shadow in a real pipeline: Kafka, the Faust agent, the view in Redis, the command line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from surescale.contracts import topics
from surescale.contracts.access import readers
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision, ShadowDecision
from surescale.contracts.messages import ClusterTopology, Host
from surescale.contracts.releases import Release
from surescale.contracts.topics import CLUSTER_TOPOLOGY, JOB_TOPOLOGY, POLICY_RELEASES, SHADOW_DECISIONS
from surescale.policies.released_policy import card_hash
from surescale.rescaler.service.loop import NEEDED
from surescale.runtime.topic_records import send
from surescale.services.state import metrics
from surescale.services.state.connection import connect
from surescale.services.state.read.queries import Queries
from surescale.services.state.write.projector import Projector
from surescale.services.state.write.view_store import ViewStore
from surescale.services.tools.explain.explanation import explanation
from surescale.services.tools.explain.lookup import Aftermath
from surescale.services.tools.explain.screen import show
from tests.support import release_pipeline
from tests.support.builders import JOB, topology
from tests.support.release_pipeline import ReleasePipeline
from tests.support.topic_records import records
from tests.support.view_pipeline import LOG
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
HOSTS = ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=(Host(host="m1", units=(1, 2), price_per_s=0.01),))
pipeline, start_agent = release_pipeline.pipeline, release_pipeline.start_agent


def shadows_of(pipeline: ReleasePipeline, count: int) -> list[ShadowDecision]:
    """Wait for this many answers from the shadow, and return them."""
    found: list[ShadowDecision] = []

    def arrived() -> bool:
        found[:] = records(pipeline.settings, SHADOW_DECISIONS, ShadowDecision)
        return len(found) >= count

    wait_until(arrived, 60, f"{count} answers from the shadow")
    return found


@pytest.fixture
def view(pipeline: ReleasePipeline, redis_url: str) -> Iterator[Callable[[], Queries]]:
    """Bring the view up to date and return its queries."""
    client = connect(redis_url)
    projector = Projector(pipeline.settings, ViewStore(client, pipeline.settings.topic_prefix), LOG)

    def current() -> Queries:
        projector.catch_up(60)
        return Queries(client, pipeline.settings.topic_prefix)

    yield current
    projector.close()
    client.close()


def test_a_policy_looks_on_is_compared_and_is_promoted(
    pipeline: ReleasePipeline, start_agent: Callable[[], None], view: Callable[[], Queries], capsys: pytest.CaptureFixture[str]
) -> None:
    """The serving policy's decisions stay its own; the shadow's answers reach Kafka, Redis, the metrics and the commands."""
    send(pipeline.settings, JOB_TOPOLOGY, JOB, topology())
    send(pipeline.settings, CLUSTER_TOPOLOGY, "sim", HOSTS)
    for name in ("hold", "ds2"):
        assert pipeline.policy("shadow", name, "--by", "ann").exit_code == 0
    broken = Release(cluster="sim", policy="sure", sha256="f" * 64, valid_from_ms=0, role="shadow")
    send(pipeline.settings, POLICY_RELEASES, "sim", broken)
    start_agent()
    decisions = [pipeline.decide(minute) for minute in (600, 610)]
    assert {decision.policy.name for decision in decisions} == {"target-utilisation"}
    found = {(each.span_end_ms // MINUTE_MS, each.policy): each for each in shadows_of(pipeline, 6)}
    assert {key: each.status for key, each in found.items()} == {
        (minute, policy): "failed" if policy == "sure" else "answered"
        for minute in (600, 610)
        for policy in ("ds2", "hold", "sure")
    }
    held = found[600, "hold"].comparison
    assert held is not None
    assert (held.served.action, held.shadow.action, [each.task for each in held.differences]) == ("act", "hold", ["map"])

    queries = view()
    by_policy = {each.policy: each for each in queries.policies().shadows}
    assert by_policy.keys() == {"ds2", "hold", "sure"}
    assert (by_policy["hold"].tasks_equal, by_policy["sure"].failed, by_policy["hold"].answered) == (0.0, 2, 2)
    assert (by_policy["hold"].dollars_per_day or 0.0) < 0
    assert [(each.record.role, each.record.policy) for each in queries.policies().releases] == [
        ("shadow", "ds2"), ("shadow", "hold"), ("shadow", "sure")
    ]  # fmt: skip
    assert len(queries.shadow_answers(JOB, 10)) == 6
    shown = {(each.metric, each.labels[1]): each.value for each in metrics.of_shadows(queries.shadows())}
    assert shown[metrics.SHADOW_DECISIONS_EQUAL, "hold"] == 0.0
    assert shown[metrics.SHADOW_ANSWERED, "sure"] == 0.0
    told = json.loads(pipeline.command("shadows", "--json").output)
    assert [each["policy"] for each in told] == ["ds2", "hold", "sure"]
    assert "0.0% of decisions, 0.0% of tasks" in pipeline.command("shadows", "--job", JOB).output

    refused = pipeline.policy("promote", "hold")
    assert "hold has 2 answers over 0.2 h from the shadow for sim; a promotion needs 36 over 6 h" in str(refused.exception)
    assert pipeline.serving() == []
    promoted = pipeline.policy("promote", "hold", "--answers", "2", "--hours", "0.1", "--job", JOB, "--by", "ann")
    assert promoted.exit_code == 0
    assert promoted.output.startswith("shadow")
    own = pipeline.decide(620)
    assert (own.policy.name, own.action) == ("hold", "hold")
    assert queries_release(view(), "job") == ("hold", "ann", "Promoted from the shadow: 2 answers")
    show(explanation(own, Aftermath((), (), (), ())))
    assert "hold (rule), seed 0; released for this job" in capsys.readouterr().out

    back = pipeline.policy("rollback", "--job", JOB)
    assert back.output.startswith(f"{JOB}: hold (rule) no longer from")
    assert pipeline.decide(630).policy.name == "target-utilisation"


def queries_release(queries: Queries, scope: str) -> tuple[str, str, str]:
    """Return policy, author and the beginning of the note of the release in a scope."""
    releases = (each.record for each in queries.policies().releases)
    (found,) = (each for each in releases if each.role == "serve" and each.scope == scope)
    return found.policy, found.set_by, str(found.note)[:35]


def test_a_canary_serves_its_share_and_is_named_by_decisions(pipeline: ReleasePipeline, start_agent: Callable[[], None]) -> None:
    """The decision names the share, and rolling the first release back returns to the agents' own policy."""
    send(pipeline.settings, JOB_TOPOLOGY, JOB, topology())
    sha256 = card_hash(Path(pipeline.settings.policy_folder) / "sure")
    said = pipeline.policy("release", "sure", "--canary", "99.9")
    assert said.output.splitlines()[1] == f"1 of 1 jobs: {JOB}"
    assert "99.9 % of the jobs of sim: from" in pipeline.policy("list").output
    start_agent()
    decision = pipeline.decide(610)
    assert (decision.policy.sha256, scope_of(decision)) == (sha256, ("canary", 999))
    assert pipeline.policy("rollback", "--canary").exit_code == 0
    assert scope_of(pipeline.decide(620)) is None


def scope_of(decision: Decision) -> tuple[str, object] | None:
    """Return the scope of the release behind a decision, and its share."""
    release = decision.policy.release
    return (release.scope, release.share_permille) if release else None


def test_the_rescaler_neither_reads_answers_from_the_shadow_nor_may() -> None:
    """Whatever they say, nothing is rescaled for them."""
    assert SHADOW_DECISIONS not in NEEDED
    assert set(readers(SHADOW_DECISIONS)) == {"state-service", "operator"}
    assert "rescaler" in readers(topics.DECISIONS)
