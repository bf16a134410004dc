"""What a demo counts from the records on its topics."""

from msgspec.structs import replace

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.topics import DECISIONS
from surescale.contracts.wire import encode
from surescale.policies.decide import decide
from surescale.policies.registry import load_policy
from surescale.services.local_stack.demo_report import acting
from surescale.services.local_stack.pipeline_figures import PipelineFigures
from tests.support.builders import JOB, window_at


def figures(*policies: str) -> PipelineFigures:
    """Return the figures of decisions by these policies, one after the other, delivered newest first."""
    found = PipelineFigures()
    for at, policy in reversed(list(enumerate(policies))):
        made = decide(window_at(600 + 10 * at), load_policy(policy), JobSettings(job=JOB), seed=0)
        found.take(DECISIONS, b"sim", encode(made), 0)
        found.take(DECISIONS, b"sim", encode(replace(made, seed=1)), 1)
    return found


def test_a_policy_that_was_released_on_the_way_is_named() -> None:
    """In the order of the spans, each once in a row; a repeated record does not count."""
    assert figures("static", "static").decided_by() == {JOB: ("static",)}
    assert figures("static", "ds2", "ds2", "static").decided_by() == {JOB: ("static", "ds2", "static")}


def test_the_summary_says_who_decided() -> None:
    """One policy, several in turn, or different ones by job."""
    assert acting([("sure",), ("sure",)], "sure") == "sure"
    assert acting([("sure", "ds2")], "sure") == "sure, then ds2"
    assert acting([("sure", "ds2"), ("sure",)], "sure") == "sure, then others"
    assert acting([()], "sure") == "sure"
