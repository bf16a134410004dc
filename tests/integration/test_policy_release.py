"""Releases and settings reach a running agent: from a stated event minute on, without a restart."""

from collections.abc import Callable
from pathlib import Path

import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, JobTopology, TaskSpec
from surescale.contracts.releases import Release
from surescale.contracts.topics import CLUSTER_TOPOLOGY, JOB_SETTINGS, JOB_TOPOLOGY, POLICY_RELEASES
from surescale.policies.released_policy import card_hash
from surescale.runtime.topic_records import send
from tests.support import release_pipeline
from tests.support.builders import JOB
from tests.support.release_pipeline import ReleasePipeline

pytestmark = pytest.mark.integration
pipeline, start_agent = release_pipeline.pipeline, release_pipeline.start_agent


def test_a_release_takes_effect_at_its_minute_in_a_running_agent(
    pipeline: ReleasePipeline, start_agent: Callable[[], None]
) -> None:
    """Decisions before and after carry their hashes; rollback, a job's own policy and a foreign hash do as they say."""
    sha256 = card_hash(Path(pipeline.settings.policy_folder) / "sure")
    start_agent()
    assert pipeline.decide(600).policy.name == "target-utilisation"
    assert pipeline.policy("release", "target-utilisation", "--from", "now").exit_code == 0
    assert pipeline.policy("release", "sure", "--from", str(615 * MINUTE_MS), "--by", "ann").exit_code == 0
    assert (pipeline.decide(610).policy.name, pipeline.decide(620).policy.sha256) == ("target-utilisation", sha256)
    send(pipeline.settings, JOB_SETTINGS, JOB, JobSettings(job=JOB, version=1, policy="hold"))
    assert (pipeline.decide(630).policy.name, pipeline.decide(640).settings_version) == ("hold", 1)
    send(pipeline.settings, JOB_SETTINGS, JOB, JobSettings(job=JOB, version=2))
    assert pipeline.decide(650).policy.sha256 == sha256
    assert pipeline.policy("rollback").exit_code == 0
    assert pipeline.decide(660).policy.name == "target-utilisation"
    foreign = Release(cluster="sim", policy="sure", sha256="f" * 64, valid_from_ms=661 * MINUTE_MS)
    send(pipeline.settings, POLICY_RELEASES, "sim", foreign)
    fallen_back = pipeline.decide(670).policy
    assert (fallen_back.name, fallen_back.asked) == ("target-utilisation", "sure")
    assert "ffffffffffff" in (fallen_back.fallback_reason or "")


def test_a_release_is_a_record_that_list_shows(pipeline: ReleasePipeline) -> None:
    """Who, what, hash and minute are kept, and `policy list` tells which release is in force or to come."""
    assert pipeline.policy("release", "sure", "--from", "1970-01-01T10:30", "--by", "ann").exit_code == 0
    (released,) = pipeline.releases()
    assert (released.policy, released.valid_from_ms, released.set_by) == ("sure", 630 * MINUTE_MS, "ann")
    assert released.sha256 == card_hash(Path(pipeline.settings.policy_folder) / "sure")
    told = pipeline.policy("list").output
    assert "1970-01-01 10:30" in told
    assert "to come" in told
    assert "no release in force" in told


def test_a_cluster_that_no_monitor_has_named_is_refused(pipeline: ReleasePipeline) -> None:
    """A slip would otherwise be kept forever and change nothing. Before the first monitor there is nothing to compare with."""
    for topic, key, named in (
        (CLUSTER_TOPOLOGY, "sim", ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=())),
        (JOB_TOPOLOGY, "shop/orders", JobTopology(job="shop/orders", version=1, at_ms=0, tasks=(TaskSpec(task="a"),))),
    ):
        send(pipeline.settings, topic, key, named)
    refused = pipeline.policy("release", "sure", "--cluster", "shopp")
    assert str(refused.exception) == "--cluster: there is no cluster 'shopp'; known: shop"
    assert pipeline.releases() == []
    assert [pipeline.policy("release", "sure", "--cluster", cluster).exit_code for cluster in ("sim", "shop")] == [0, 0]


def test_a_policy_that_fails_its_check_is_not_released(pipeline: ReleasePipeline) -> None:
    """A damaged package is one clear line, and nothing is published."""
    card = Path(pipeline.settings.policy_folder) / "sure" / "card.json"
    card.write_bytes(card.read_bytes()[:-10])
    for name in ("sure", "nonesuch"):
        result = pipeline.policy("release", name, "--from", "now")
        assert str(result.exception).startswith(f"policy {name}: ")
        assert "\n" not in str(result.exception)
    assert pipeline.releases() == []
