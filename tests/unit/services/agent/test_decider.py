"""From a window's bytes to a decision, without Kafka."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from surescale.contracts.errors import RecordRejected
from surescale.contracts.job_settings import JobSettings, newer
from surescale.contracts.topics import WINDOW_BYTES_MAX
from surescale.contracts.windows import encode_window
from surescale.contracts.wire import encode
from surescale.policies.registry import Unavailable, load_policy
from surescale.services.agent.decider import Decider
from surescale.services.agent.settings import AgentSettings
from surescale.services.agent.worker import build_app, warn_if_unavailable
from tests.support.builders import JOB, window_at


def answerer(settings: JobSettings | None = None, *, policy: str = "target-utilisation") -> Decider:
    """Return an answerer for one job with these settings."""
    return Decider(lambda job: settings or JobSettings(job=job), policy=policy, folder="", seed=7)


def test_between_span_ends_there_is_no_decision() -> None:
    """A window whose end is not a multiple of the policy's span is not decided on."""
    assert answerer().answer(encode_window(window_at(601))) is None


def test_an_overloaded_task_is_scaled_out() -> None:
    """At a span's end a job that is too busy gets a decision to act."""
    decision = answerer().answer(encode_window(window_at(600)))
    assert decision is not None
    assert (decision.action, decision.seed) == ("act", 7)
    assert next(task.desired for task in decision.tasks if task.task == "map") > 2


def test_a_duplicate_window_gives_the_same_bytes() -> None:
    """The same window decided on by two agents gives byte-identical decisions."""
    raw = encode_window(window_at(600))
    first, second = answerer().answer(raw), answerer().answer(raw)
    assert first is not None
    assert second is not None
    assert encode(first) == encode(second)


def test_a_job_may_name_its_own_policy() -> None:
    """The policy of the job's settings wins over the pipeline's."""
    decision = answerer(JobSettings(job=JOB, policy="hold", version=3)).answer(encode_window(window_at(600)))
    assert decision is not None
    assert (decision.policy.name, decision.action, decision.settings_version) == ("hold", "hold", 3)


def test_a_missing_model_is_replaced_by_the_rule_and_said() -> None:
    """A policy without a package still gives a decision, which names what was asked and why another one answered."""
    decision = answerer(policy="no-such-model").answer(encode_window(window_at(600)))
    assert decision is not None
    assert decision.policy.asked == "no-such-model"
    assert "no-such-model" in (decision.policy.fallback_reason or "")


@pytest.mark.parametrize("raw", [None, b"", b"junk", encode_window(window_at(600))[:-10]])
def test_a_malformed_window_is_rejected(raw: bytes | None) -> None:
    """Bytes that are not a window raise a rejection and nothing else."""
    with pytest.raises(RecordRejected):
        answerer().answer(raw)


def test_older_settings_do_not_replace_newer_ones() -> None:
    """Of two settings records the higher version stays, whatever their order; of equal versions the later one."""
    old, new, again = (JobSettings(job=JOB, version=n, mode="observe") for n in (1, 2, 2))
    assert newer(newer(None, new), old) is new
    assert newer(new, again) is again


def test_faust_is_set_up_without_web_server_tables_or_topics_of_its_own() -> None:
    """The Faust app serves nothing, creates nothing and takes records of a window's size."""
    conf = build_app(AgentSettings(topic_prefix="x-")).conf
    assert conf.id == "x-surescale-agent"
    assert not conf.web_enabled
    assert not conf.topic_allow_declare
    assert conf.producer_max_request_size > WINDOW_BYTES_MAX


def test_the_agent_warns_at_start_of_a_policy_that_cannot_be_loaded(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise a typo in the name would show only in the decisions."""
    for name in ("sure", "sureley"):
        warn_if_unavailable(load_policy(name), logging.getLogger("surescale.agent"))
    assert ["sureley" in line.getMessage() for line in caplog.records] == [True]


def test_servers_may_be_separated_by_commas_and_blanks() -> None:
    """As for the other clients; otherwise only the agent would miss the second broker."""
    brokers = build_app(AgentSettings(bootstrap="one:9092, two:9092")).conf.broker
    assert [broker.host for broker in brokers] == ["one", "two"]


def test_rules_decide_at_the_ends_of_the_spans_that_were_set() -> None:
    """With a span of two minutes there is an answer at 08:02 and none at 08:01."""
    often = Decider(lambda job: JobSettings(job=job), policy="ds2", folder="", seed=7, span_minutes=2)
    ends = [(60 + minutes) * 60_000 for minutes in (0, 1, 2)]
    answers = [often.answer(encode_window(replace(window_at(60), window_end_ms=end_ms))) for end_ms in ends]
    assert [answer is not None for answer in answers] == [True, False, True]


def test_a_package_that_no_hash_pins_may_be_refused(tmp_path: Path) -> None:
    """With the fix; rules, and the packages that ship with surescale, need no hash."""
    (tmp_path / "sure").mkdir()
    pinned = Decider(lambda job: JobSettings(job=job), policy="sure", folder=str(tmp_path), seed=7, pinned=True)
    refused = pinned.policy("sure")
    assert isinstance(refused, Unavailable)
    assert refused.reason == (
        "sure was not released by its hash, and SURESCALE_POLICY_PINNED=true: surescale policy release sure"
    )
    assert pinned.policy("static").name == "static"
    shipped = Decider(lambda job: JobSettings(job=job), policy="sure", folder="", seed=7, pinned=True)
    assert shipped.policy("sure").sha256
