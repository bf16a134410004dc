"""A policy leaves the shadow by a rule, on a real Kafka: once, with its figures in the record, and not against a person."""

import threading

import pytest
from click.testing import Result

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.topics import JOB_TOPOLOGY, SHADOW_DECISIONS
from surescale.runtime.topic_records import send, send_all
from tests.support import release_pipeline
from tests.support.builders import JOB, topology
from tests.support.release_pipeline import ReleasePipeline
from tests.support.shadow_records import shadow_decision

pytestmark = pytest.mark.integration
pipeline = release_pipeline.pipeline
RULE = ("--when", "subtasks<=-1 hours>=2", "--answers", "4", "--hours", "1", "--by", "ana")


def answers(pipeline: ReleasePipeline, minutes: range, size: int) -> None:
    """Send what the shadow policy made of spans in which four subtasks were decided."""
    send_all(pipeline.settings, SHADOW_DECISIONS, [(JOB.encode(), shadow_decision(minute, shadow=size)) for minute in minutes])


def test_a_rule_promotes_once_and_never_against_a_person(pipeline: ReleasePipeline) -> None:
    """Not yet; then with the figures; then nothing more to do; after a rollback it is refused until the shadow begins again."""
    send(pipeline.settings, JOB_TOPOLOGY, JOB, topology())
    assert "does not run in shadow for sim" in str(pipeline.policy("promote", "ds2", *RULE).exception)
    assert pipeline.policy("shadow", "ds2").exit_code == 0
    answers(pipeline, range(500, 600, 10), 1)  # from before it looked on: they do not count
    assert pipeline.policy("promote", "ds2", *RULE).output.startswith("sim: ds2 (rule) not yet: ds2 has no answers")
    answers(pipeline, range(600, 680, 10), 3)
    early = pipeline.policy("promote", "ds2", *RULE)
    assert (early.exit_code, early.output) == (1, "sim: ds2 (rule) not yet: hours is 1.167, not >=2\n")
    assert pipeline.serving() == []
    answers(pipeline, range(680, 740, 10), 3)
    promoted = pipeline.policy("promote", "ds2", *RULE)
    assert promoted.exit_code == 0, promoted.output
    assert promoted.output.endswith("`surescale policy rollback` undoes it\n")
    (release,) = pipeline.serving()
    assert release.set_by == "rule subtasks<=-1 hours>=2 (set by ana)"
    assert str(release.note).startswith("The rule subtasks<=-1 hours>=2 holds. Promoted from the shadow: 14 answers over 2.2 h")
    again = pipeline.policy("promote", "ds2", *RULE)
    assert (again.exit_code, again.output) == (0, "sim: ds2 (rule) is released already\n")
    assert pipeline.policy("rollback", "--by", "ben").exit_code == 0
    refused = pipeline.policy("promote", "ds2", *RULE)
    assert refused.exit_code == 1
    assert "ben rolled that back" in str(refused.exception)
    assert len(pipeline.serving()) == 1


def test_a_rule_that_waits_promotes_when_it_holds_and_ends_with_the_shadow(pipeline: ReleasePipeline) -> None:
    """Stopping the shadow, on any machine, cancels the rule."""
    send(pipeline.settings, JOB_TOPOLOGY, JOB, topology())
    ended: dict[str, Result] = {}

    def waiting(name: str, *options: str) -> threading.Thread:
        def run() -> None:
            ended[name] = pipeline.policy("promote", "ds2", *RULE, *options, "--wait", "--every", "1", "--job", JOB)

        assert pipeline.policy("shadow", "ds2", "--job", JOB).exit_code == 0
        thread = threading.Thread(target=run)
        thread.start()
        return thread

    thread = waiting("promoted")
    answers(pipeline, range(600, 740, 10), 3)
    thread.join(60)
    assert ended["promoted"].exit_code == 0
    (release,) = pipeline.serving()
    assert (release.job, release.valid_from_ms) == (JOB, 600 * MINUTE_MS)
    assert pipeline.command("withdraw", "--job", JOB).exit_code == 0
    thread = waiting("cancelled", "--when", "hours>=99")
    assert pipeline.policy("shadow", "ds2", "--job", JOB, "--stop").exit_code == 0
    thread.join(60)
    assert ended["cancelled"].exit_code == 1
    assert "does not run in shadow for sim/clicks, so no rule promotes it" in str(ended["cancelled"].exception)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--wait"], "--wait: it waits for a rule; state one with --when"),
        (["--when", "hours>=1", "--force"], "--when: a rule needs its record and takes effect at once; leave out --force and"),
        (["--when", "gain>=1"], "--when: a record has no figure 'gain'"),
    ],
)
def test_options_that_contradict_one_another_are_refused(pipeline: ReleasePipeline, options: list[str], said: str) -> None:
    """Before Kafka is asked."""
    refused = pipeline.policy("promote", "ds2", *options)
    assert refused.exit_code == 1
    assert str(refused.exception).startswith(said)
