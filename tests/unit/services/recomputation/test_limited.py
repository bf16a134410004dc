"""Deciding again in a process of its own: the same answers, and neither a long answer nor a missing policy harms who asks."""

from typing import Any

import pytest

from surescale.contracts.decisions import Decision
from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import JobSettings
from surescale.policies.decide import decide
from surescale.policies.registry import load_policy
from surescale.services.recomputation.counterfactual import PolicyMissing, question_of, without
from surescale.services.recomputation.limited import StoppedEarly, without_in_process
from tests.support.builders import JOB, window_at

WINDOW, SETTINGS = window_at(600), JobSettings(job=JOB)
LIMITS: dict[str, Any] = {"folder": "", "span_minutes": 10, "seconds": 60.0}


def decided(policy: str) -> Decision:
    """Return the decision on the window."""
    return decide(WINDOW, load_policy(policy), SETTINGS, seed=3)


@pytest.mark.parametrize("policy", ["target-utilisation", "sure"])
def test_the_process_answers_as_this_one_does(policy: str) -> None:
    """A rule and a package; with nothing left out the decision is the same."""
    decision = decided(policy)
    for name in ("map", "-3"):
        answer = without_in_process(decision, WINDOW, SETTINGS, name, **LIMITS)
        (here,) = without(question_of(decision, WINDOW, SETTINGS, ""), (name,))
        assert answer.facts == here
        assert answer.is_same


def test_a_decision_that_this_version_would_not_make_is_told_apart() -> None:
    """Its settings are not those that it was made with, so it differs although nothing is left out."""
    bounded = JobSettings(job=JOB, parallelism_max=3)
    decision = decided("target-utilisation")
    assert not without_in_process(decision, WINDOW, bounded, "0", **LIMITS).is_same


def test_what_cannot_be_answered_says_why() -> None:
    """A name that the window has not, a package that is not in the folder, a time that is too short."""
    decision = decided("target-utilisation")
    with pytest.raises(SettingsError, match=r"no task or minute 'mup'; tasks: .*map"):
        without_in_process(decision, WINDOW, SETTINGS, "mup", **LIMITS)
    with pytest.raises(PolicyMissing, match="the model is not available: sure of hash"):
        without_in_process(decided("sure"), WINDOW, SETTINGS, "map", **LIMITS | {"folder": "tests"})
    with pytest.raises(StoppedEarly, match=r"took more than 0\.01 s and was stopped"):
        without_in_process(decision, WINDOW, SETTINGS, "map", **LIMITS | {"seconds": 0.01})
