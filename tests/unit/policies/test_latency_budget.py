"""The day's budget of minutes above a bound: how much is used, and how a decision says so."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from surescale.contracts.decisions import Candidates, ChangeScore, Decision, LatencyBudget
from surescale.contracts.job_settings import JobSettings, LatencyBound
from surescale.contracts.windows import Waits
from surescale.policies.decide import decide
from surescale.policies.latency_budget import budget_of, in_words, spent
from surescale.policies.question import Question
from surescale.policies.registry import load_policy
from tests.unit.policies.conftest import chain_window

BOUND = LatencyBound(seconds=30.0)
SETTINGS = JobSettings(job="sim/chain", objective=BOUND)
LEFT = LatencyBudget(seconds=30.0, allowed_minutes=14.4, used_minutes=3, known_minutes=1_440)
SPENT = changed(LEFT, used_minutes=20)


def smaller(made: Decision) -> bool:
    """Return whether a decision takes subtasks from some task."""
    return any(task.desired < task.current for task in made.tasks)


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


@pytest.mark.parametrize("policy", ["sure", "target-utilisation"])
def test_a_bound_that_no_size_can_keep_is_said_to_be_one(policy: str) -> None:
    """Records that take 1.8 s are never through within one: more subtasks were said to help, and no minute to be above it."""
    window = replace(chain_window(), waits=((0, 1_440),))
    told = [
        decide(window, load_policy(policy), changed(SETTINGS, objective=LatencyBound(seconds=seconds)), seed=1).reason
        for seconds in (1.0, 1.75, 1.85)
    ]
    said = "The work on one record alone takes 1.8 s, so no size keeps its latency below"
    assert [said in each for each in told] == [True, True, False]
    assert ["used today" in each for each in told] == [False, False, True]


@pytest.mark.parametrize("policy", ["sure", "target-utilisation", "ds2", "hpa"])
def test_a_task_shrinks_only_while_the_day_has_room_for_the_restart(policy: str) -> None:
    """A minute of restart puts about two above 30 s; whoever wants fewer subtasks, and says so in the reason."""
    idle = chain_window(load=20.0, parallelism=(8, 8))
    with_room, without = (replace(idle, waits=((0, 1_440 - late), (60, late))) for late in (12, 13))
    served = load_policy(policy)
    assert smaller(decide(with_room, served, SETTINGS, seed=1))
    held = decide(without, served, SETTINGS, seed=1)
    assert not smaller(held)
    assert "a restart puts about 2 minutes above 30 s, and 1.4 more may be today" in held.reason
    assert smaller(decide(without, served, JobSettings(job="sim/chain"), seed=1))


def test_growth_does_not_wait_for_the_budget() -> None:
    """A job that is overloaded gets what it needs, whatever is used up."""
    busy = replace(chain_window(load=380.0, parallelism=(4, 3)), waits=((0, 1_000), (60, 440)))
    made = decide(busy, load_policy("target-utilisation"), SETTINGS, seed=1)
    assert sum(task.desired - task.current for task in made.tasks) > 0


@given(used=st.integers(0, 1_440), share=st.floats(0.0001, 0.5), seconds=st.floats(1.0, 300.0), restart=st.floats(1.0, 900.0))
def test_what_is_left_covers_each_restart_that_a_task_may_shrink_for(
    used: int, share: float, seconds: float, restart: float
) -> None:
    """More used up never frees a task, and a restart within the bound costs nothing."""
    bound = LatencyBound(seconds=seconds, share=share)
    settings = changed(SETTINGS, objective=bound, restart_seconds=restart)
    waits = tuple((wait_s, minutes) for wait_s, minutes in ((0, 1_440 - used), (86_400, used)) if minutes)
    question, more = asked(waits, settings), asked(((86_400, 1_440),), settings)
    is_free, is_freer = (not spent(each, budget_of(each)) for each in (question, more))
    assert is_free or not is_freer
    if restart <= seconds - 2.0:
        assert is_free
    if is_free and restart > seconds:
        assert used + (restart - seconds) / 60.0 <= 1_440 * share + 0.01
