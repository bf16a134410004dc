"""Batches with silence between them: a job does not shrink for a few minutes, again and again, and follows long silences."""

import pytest

from surescale.policies.registry import load_policy
from tests.support.dealt_loop import Cell, Course, run

MINUTES, JUDGED_FROM = 900, 300


def batches(policy: str, every: int, lasting: int) -> Course:
    """Return the course of a group that every so many minutes gets work for six members, and else nothing."""
    cell = Cell("kafka", 12, 6.0, 0.02, 8, seed=1, burst=(every, lasting, 1.0), only_bursts=True)
    return run(cell, load_policy(policy), MINUTES)


@pytest.mark.parametrize("policy", ["sure", "target-utilisation", "flink"])
@pytest.mark.parametrize(("every", "lasting"), [(60, 10), (75, 20), (60, 15), (70, 10)])
def test_a_silence_that_ends_soon_after_a_shrink_makes_the_next_one_wait(every: int, lasting: int, policy: str) -> None:
    """At the half hour alone, batches met a job that had just shrunk: 15 to 20 rescales in these ten hours, with two of these."""
    late = [minute for minute, *_ in batches(policy, every, lasting).rescales if minute >= JUDGED_FROM]
    assert len(late) <= 8


@pytest.mark.parametrize("policy", ["sure", "target-utilisation", "flink"])
def test_a_job_that_works_for_45_minutes_every_four_hours_has_its_minimum_between(policy: str) -> None:
    """Two rescales down and one up for each batch."""
    course = batches(policy, 240, 45)
    sizes = course.sizes[JUDGED_FROM:]
    assert (min(sizes), max(sizes)) == (1, 12)
    assert sizes.count(1) > 0.35 * len(sizes)
    assert len([minute for minute, *_ in course.rescales if minute >= JUDGED_FROM]) <= 9
