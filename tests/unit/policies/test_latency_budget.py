"""The day's budget of minutes above a bound: how much is used, and how a decision says so."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from surescale.contracts.decisions import Candidates, ChangeScore, LatencyBudget
from surescale.contracts.job_settings import JobSettings, LatencyBound
from surescale.contracts.windows import Waits
from surescale.policies.decide import decide
from surescale.policies.latency_budget import budget_of, in_words
from surescale.policies.question import Question
from surescale.policies.registry import load_policy
from tests.unit.policies.conftest import chain_window

BOUND = LatencyBound(seconds=30.0)
SETTINGS = JobSettings(job="sim/chain", objective=BOUND)
LEFT = LatencyBudget(seconds=30.0, allowed_minutes=14.4, used_minutes=3, known_minutes=1_440)
SPENT = changed(LEFT, used_minutes=20)


def asked(waits: Waits, settings: JobSettings = SETTINGS) -> Question:
    """Return the question about a calm job whose last day waited like this."""
    return Question.of(replace(chain_window(), waits=waits), settings, 1)


@given(late=st.integers(0, 700), kept=st.integers(0, 700))
def test_late_minutes_are_used_up_and_unknown_ones_are_not_kept(late: int, kept: int) -> None:
    """A budget counts what is known, and says how much that is."""
    waits = tuple((seconds, minutes) for seconds, minutes in ((0, kept), (31, late)) if minutes)
    budget = budget_of(asked(waits))
    assert budget == LatencyBudget(seconds=30.0, allowed_minutes=14.4, used_minutes=late, known_minutes=late + kept)
    assert budget_of(asked(waits, JobSettings(job="sim/chain", objective="latency"))) is None
    said = in_words(budget, None)
    assert (f"{1_440 - late - kept} minutes unknown" in said) == (0 < late + kept < 1_439)
    assert ("spent" in said) == (late > 14)


def test_the_work_on_a_record_uses_up_a_part_of_the_bound() -> None:
    """Records are worked on for 1.8 s, so 29 s of waiting are above 30 s of latency, and 28 s are not."""
    used = [budget_of(asked(((wait_s, 5), (0, 1_435)))) for wait_s in (28, 29)]
    assert [each.used_minutes for each in used if each] == [0, 5]


def test_another_bound_at_noon_counts_the_same_day() -> None:
    """Nothing starts over."""
    waits = ((0, 1_400), (45, 30), (200, 10))
    bounds = (BOUND, LatencyBound(seconds=120.0), LatencyBound(seconds=600.0, share=0.001))
    found = [budget_of(asked(waits, changed(SETTINGS, objective=bound))) for bound in bounds]
    assert [(each.used_minutes, each.allowed_minutes) for each in found if each] == [(40, 14.4), (10, 14.4), (0, 1.44)]


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (LEFT, "3 of 14.4 minutes above 30 s used today."),
        (changed(LEFT, known_minutes=1_430), "At least 3 of 14.4 minutes above 30 s used today, 10 minutes unknown."),
        (changed(LEFT, known_minutes=0), "Nobody knows how many of today's minutes were above 30 s; 14.4 may be."),
        (SPENT, "20 of 14.4 minutes above 30 s used today: the budget is spent."),
        (None, ""),
    ],
)
def test_a_budget_in_words(budget: LatencyBudget | None, said: str) -> None:
    """In the operator's words; nothing without a bound."""
    assert in_words(budget, None) == said


def test_a_spent_budget_says_what_it_takes() -> None:
    """The fewest subtasks that keep the bound, or that none does and what to change."""
    candidates = Candidates(subtasks=(4, 6, 9), late_minutes=(12.0, 1.2, 0.0), minutes=120, late_seconds=30.0)
    scores = ChangeScore(
        subtasks=6, score=0.2, present_subtasks=4, present_score=0.1, gain_needed=0.0, unit="u", candidates=candidates
    )
    assert in_words(SPENT, scores).endswith("spent. 6 subtasks should keep the bound in the next 2 hours.")
    hopeless = changed(scores, candidates=changed(candidates, late_minutes=(40.0, 30.0, 25.0)))
    assert "No size that was compared" in in_words(SPENT, hopeless)
    assert "9 subtasks would be above it for 25.0 minutes" in in_words(SPENT, hopeless)


@pytest.mark.parametrize("policy", ["sure", "target-utilisation"])
def test_a_decision_carries_the_budget_and_says_it(policy: str) -> None:
    """Whichever policy decides; without a bound there is none."""
    window = replace(chain_window(), waits=((0, 1_437), (40, 3)))
    made = decide(window, load_policy(policy), SETTINGS, seed=1)
    assert made.budget == LEFT
    assert "3 of 14.4 minutes above 30 s used today." in made.reason
    assert decide(window, load_policy(policy), JobSettings(job="sim/chain"), seed=1).budget is None
