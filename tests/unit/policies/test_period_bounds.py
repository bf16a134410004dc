"""What bounds within periods make of decisions: prepared in time, kept, lifted, and told."""

from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pytest

from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import JobSettings, LatencyBound
from surescale.contracts.limits_in_words import read_within
from surescale.contracts.messages import Input
from surescale.contracts.windows import Window
from surescale.policies.answer import RawAnswer
from surescale.policies.decide import decide, decide_if_due
from surescale.policies.policy import Policy
from surescale.policies.question import Question
from surescale.policies.rules.fixed import Hold, Static
from surescale.policies.rules.target_utilisation import TargetUtilisation
from tests.unit.policies.conftest import END_MS, MINUTE_MS, chain_window

EVERY: tuple[Policy, ...] = (Hold(span_minutes=60), Static(span_minutes=60), TargetUtilisation(span_minutes=60))


def within(*texts: str, **given: object) -> JobSettings:
    """Return settings with these periods; a restart takes a minute."""
    wanted = {"job": "sim/chain", "restart_seconds": 60.0, "minimum_within": tuple(map(read_within, texts))}
    return msgspec.convert(wanted | given, JobSettings)


def window_at(minutes: int, parallelism: tuple[int, int] = (4, 2), known: int = 60) -> Window:
    """Return a window of a Flink job that ends so many minutes after 08:00 on a Monday."""
    window = chain_window(parallelism=parallelism, configured=parallelism, known=known)
    topology = msgspec.structs.replace(window.topology, engine="flink")
    return replace(window, topology=topology, window_end_ms=END_MS + minutes * MINUTE_MS)


def sizes(decision: Decision | None) -> list[int]:
    """Return the desired parallelism of the tasks that can be scaled."""
    assert decision is not None
    return [task.desired for task in decision.tasks][1:-1]


def test_the_decision_that_is_in_time_is_made_for_the_period() -> None:
    """At 08:00 for 08:12: ten minutes, a minute for the decision and one for the restart. A minute later is soon enough."""
    made = decide(window_at(0), Hold(), within("08:12-09:00: min 8"), seed=0)
    assert sizes(made) == [8, 8]
    assert ": 6 -> 16 subtasks. Min 8 from 08:12 UTC. " in made.reason
    assert made.reason.endswith(" Amended by minimum_within.")
    assert sizes(decide(window_at(0), Hold(), within("08:13-09:00: min 8"), seed=0)) == [4, 2]


@pytest.mark.parametrize("policy", EVERY, ids=[policy.name for policy in EVERY])
def test_a_period_that_begins_between_spans_does_not_wait_for_their_end(policy: Policy) -> None:
    """However rarely a policy is asked. Before it is time, and once the period has begun, spans decide."""
    settings = within("08:30-09:00: min 8", emergency_growth=False)
    made = [decide_if_due(window_at(minutes), policy, settings, seed=0) for minutes in (27, 28, 29, 30)]
    assert [each and sizes(each) for each in made] == [None, [8, 8], [8, 8], None]
    assert made[1] is not None
    assert made[1].reason.endswith(
        ": 6 -> 16 subtasks. Min 8 from 08:30 UTC. Decided before the end of the span. Amended by minimum_within."
    )


@pytest.mark.parametrize(
    ("given", "parallelism", "known"),
    [
        ({}, (8, 9), 60),  # nothing to do
        ({}, (4, 2), 3),  # too little is known of the job
        ({"parallelism_max": 2}, (2, 2), 60),
        ({"tasks": {"a": {"pinned": True}, "b": {"pinned": True}}}, (4, 2), 60),
        ({"excluded": [{"emergencies": False}]}, (4, 2), 60),
    ],
)
def test_what_is_stronger_than_a_minimum_makes_no_decision_between_spans(
    given: dict[str, object], parallelism: tuple[int, int], known: int
) -> None:
    """A maximum, a pin, an excluded period; and a job that is not known yet."""
    settings = within("08:30-09:00: min 8", emergency_growth=False, **given)
    assert decide_if_due(window_at(28, parallelism, known), Hold(span_minutes=60), settings, seed=0) is None


def test_what_runs_in_a_period_is_held_and_told() -> None:
    """A policy that wants less keeps the minimum, and the reason says until when."""
    made = decide(window_at(0, (8, 8)), TargetUtilisation(), within("07:30-09:00 UTC: min 8", step_down_max=8.0), seed=0)
    assert (made.action, sizes(made)) == ("hold", [8, 8])
    assert "Min 8 until 09:00 UTC." in made.reason
    free = decide(window_at(0, (8, 8)), TargetUtilisation(), within("09:30-10:00 UTC: min 8", step_down_max=8.0), seed=0)
    assert max(sizes(free)) < 8
    assert "Min" not in free.reason


def test_a_maximum_within_a_period_is_reached_in_steps_and_ends_with_it() -> None:
    """As every maximum below what runs. What is far below it is not told of it."""
    night = within("22:00-06:00 Asia/Tokyo: max 2")  # 13:00 to 21:00 UTC
    at_night, by_day = (decide(window_at(minutes, (8, 1)), Hold(), night, seed=0) for minutes in (360, 0))
    assert sizes(at_night) == [4, 1]
    assert "above its maximum of 2: it goes there a step at a time" in at_night.reason
    assert "Max 2 until 06:00 Asia/Tokyo." in at_night.reason
    assert (sizes(by_day), "Max" in by_day.reason) == ([8, 1], False)
    assert "Max" not in decide(window_at(360, (1, 1)), Hold(), night, seed=0).reason


def test_a_minimum_that_is_rounded_up_for_an_even_deal_changes_a_job_once() -> None:
    """Ten subtasks have ten of 100 partitions each, nine have eleven or twelve: growth takes ten, and nine stay met by them."""
    settings, made = within("08:00-09:00: min 9", step_down_max=8.0), []
    for running in (3, 10):
        window = window_at(0, (running, 2))
        specs = window.topology.tasks
        keyed = (Input(task=specs[0].task, ship="hash"),)
        dealt = msgspec.structs.replace(specs[1], max_parallelism=100, vnodes=100, inputs=keyed)
        topology = msgspec.structs.replace(window.topology, tasks=(specs[0], dealt, *specs[2:]))
        made.append(sizes(decide(replace(window, topology=topology), TargetUtilisation(), settings, seed=0))[0])
    assert made == [10, 10]


@dataclass(frozen=True)
class AsTold:
    """A policy that wants as many subtasks as the bound on latency that it is told of has seconds."""

    name: str = "as-told"
    sha256: str = "cafe"
    span_minutes: int = 10
    floor_applies: bool = True

    def answer(self, question: Question) -> RawAnswer:
        """Return them."""
        bound = question.latency_bound
        return RawAnswer(np.full(len(question.current), 4 if bound is None else int(bound.seconds)), "As told.")


def test_a_policy_is_told_the_objective_of_the_period() -> None:
    """Outside of it the job's own."""
    settings = within("07:30-09:00: objective latency=6", objective="cost")
    now, later = (decide(window_at(minutes, (4, 4)), AsTold(), settings, seed=0) for minutes in (0, 60))
    assert (sizes(now), sizes(later)) == ([6, 6], [4, 4])
    assert "Objective latency=6@0.01 until 09:00 UTC." in now.reason
    assert "Objective" not in later.reason
    assert Question.of(window_at(0), settings, 0).latency_bound == LatencyBound(seconds=6.0)
