"""A constant load on work that is dealt out: policies, guardrails and limits settle, in a grid of K, load, noise and policy.

`make check` plays a sample of the grid, and half of the drawn groups with hot partitions. ``SURESCALE_GRID=whole`` plays all of
its 4,515 cells, which takes half an hour, and all groups.
"""

import os
import random
from functools import cache
from itertools import product

import numpy as np
import pytest

from surescale.policies.dealt import carried, larger, needed
from surescale.policies.policy import Policy
from surescale.policies.registry import load_policy
from tests.support.dealt_loop import Cell, Course, run

THINGS = (8, 12, 16, 24, 60, 100, 128)
SHARES = tuple(range(10, 96, 2))  # per cent of K subtasks
NOISES = (0.0, 0.02, 0.05)
POLICIES = ("sure", "target-utilisation", "ds2", "forecast", "flink")
TARGET = {"sure": 0.75, "target-utilisation": 0.75, "ds2": 0.7, "forecast": 0.75, "flink": 0.7}
IS_WHOLE = os.environ.get("SURESCALE_GRID") == "whole"
SAMPLE = 6  # cells a policy
HOT_DRAWS = 8 if IS_WHOLE else 4  # four have each way to lie and to be dealt
MINUTES = 360
HOUR = 60
CAUGHT_UP = 5  # minutes after a restart of one
BEHIND = 0.25  # minutes of the load
SAVING = 0.14  # share of subtasks for which rules behind a gate make no restart

Spot = tuple[int, int, float]


def spots(name: str) -> list[Spot]:
    """Return the cells to play: K, share of K that the load is worth, noise."""
    every = list(product(THINGS, SHARES, NOISES))
    return every if IS_WHOLE else sorted(random.Random(name).sample(every, SAMPLE))


def cell_of(name: str, spot: Spot) -> Cell:
    """Return a cell that begins anywhere from a third of the load to twice as much, on one of two engines."""
    things, share, noise = spot
    busy = things * share / 100
    drawn = random.Random(f"{name} {spot}")
    begin = min(max(1, round(busy * drawn.uniform(0.3, 2.0))), things)
    return Cell(drawn.choice(("kafka", "flink")), things, busy, noise, begin, seed=drawn.randrange(2**31))


@cache
def policy(name: str) -> Policy:
    """Return a shipped policy."""
    return load_policy(name)


def fault_of(name: str, cell: Cell, course: Course) -> str:
    """Return what is wrong with a course, empty if nothing is."""
    late = [each for each in course.rescales if each[0] >= HOUR]
    if len(late) > 1:
        return f"rescales for ever: {late}"
    restarts = {minute for minute, *_ in course.rescales}
    behind = [
        waits > BEHIND * 1_000.0 * cell.busy and not restarts & set(range(minute - CAUGHT_UP, minute))
        for minute, waits in enumerate(course.waiting)
    ]
    if any(before and now for before, now in zip(behind[HOUR:], behind[HOUR + 1 :], strict=False)):
        return "is behind for two minutes in a row"
    return _wrong_size(name, cell, course.sizes[-1])


def _wrong_size(name: str, cell: Cell, size: int) -> str:
    """Return why the last size is wrong: it does not carry the load, or is more than one even size above what it needs.

    Of a load worth 95 % of K nothing above K can bring it to the target: K is right. The rule ``flink`` is the operator's, and
    that leaves a job alone while it is between 40 and 100 % busy, less the room that it keeps for a restart.
    """
    things, target = np.array([cell.things]), TARGET[name]
    carries = carried(np.array([size]), things)[0]
    if carries < cell.busy and size < cell.things:
        return f"{size} carry {carries:.2f}"
    if name == "flink" and carries <= cell.busy / (target - 0.3) + cell.busy * 5.0 / 30.0:
        return ""
    most = larger(needed(np.array([cell.busy / target]), things).astype(np.int64), things)[0]
    left = SAVING if name in ("target-utilisation", "forecast") else 0.0
    return f"{size} are more than {most}" if size * (1.0 - left) > most else ""


@pytest.mark.parametrize("name", POLICIES)
def test_a_constant_load_settles_within_an_hour(name: str) -> None:
    """Then at most one rescale in five hours, never behind for long, and at most one even size more than the target needs."""
    faults = []
    for spot in spots(name):
        cell = cell_of(name, spot)
        fault = fault_of(name, cell, run(cell, policy(name), MINUTES))
        faults += [f"{cell}: {fault}"] if fault else []
    assert faults == []


def test_a_size_that_was_too_few_at_this_load_is_not_tried_again() -> None:
    """Half of 16 key groups are hardly used: the rule tries eight subtasks once."""
    rates = tuple(1.0 if busy else 0.02 for busy in np.random.default_rng(2).random(16) < 0.5)
    course = run(Cell("flink", 16, 4.13, 0.0, 7, 1, rates), policy("target-utilisation"), MINUTES)
    assert [(before, after) for minute, before, after in course.rescales if minute >= HOUR] == [(16, 8), (8, 16)]


@pytest.mark.parametrize("name", ["sure", "target-utilisation"])
def test_a_size_whose_next_one_is_far_away_says_why_it_stays(name: str) -> None:
    """Of 24 partitions 13 to 23 members read as fast as 12. Nobody else asks why members that are 42 % busy stay."""
    course = run(Cell("kafka", 24, 10.0, 0.0, 24, 1), policy(name), 60)
    said = "count: 24 partitions are dealt out whole, so 13 to 23 subtasks carry no more than 12, which would be 83% busy."
    assert said in course.reason
    assert "close enough" not in course.reason
    near = run(Cell("kafka", 24, 9.0, 0.0, 12, 1), policy(name), 60)
    assert "dealt out whole" not in near.reason


@pytest.mark.parametrize("name", ["sure", "target-utilisation"])
@pytest.mark.parametrize("begin", [3, 24])
def test_a_partition_too_much_for_one_subtask_is_said(name: str, begin: int) -> None:
    """No size helps where one of 24 partitions needs 1.3 subtasks; that is never close enough, and no reason to grow."""
    course = run(Cell("kafka", 24, 6.0, 0.0, begin, 1, rates=(1.3, *(4.7 / 23,) * 23)), policy(name), 120)
    assert course.waiting[-1] > 1_000.0
    assert "close enough" not in course.reason
    assert "count: at any size one subtask has 22% of the records, more than it gets through" in course.reason
    assert len(course.rescales) <= 1


def hot_cell(draw: int) -> Cell:
    """Return a group of two or three hot partitions, mostly side by side, each of which fits on a member of its own."""
    random = np.random.default_rng([32, draw])
    things, hot = int(random.choice([12, 16, 20, 24, 32, 48])), int(random.choice([2, 3]))
    rates = random.uniform(0.6, 1.4, things)
    first = int(random.integers(things - hot + 1))
    at = np.arange(first, first + hot) if draw % 4 else random.choice(things, hot, replace=False)
    rates[at] *= random.uniform(6.0, 9.0, hot)
    busy = float(random.uniform(0.55, 0.75) * rates.sum() / rates.max())
    begin, assignor = max(2, round(busy * random.uniform(0.6, 1.3))), "sticky" if draw % 4 == 3 else "range"
    return Cell("kafka", things, busy, 0.02, begin, draw, tuple(rates.tolist()), assignor=assignor)


@pytest.mark.parametrize("name", ["sure", "target-utilisation", "flink"])
@pytest.mark.parametrize("draw", range(HOT_DRAWS))
def test_hot_partitions_are_parted(draw: int, name: str) -> None:
    """Two or three on one member are too much for it, and each alone is not: a size is found that deals them apart, and stays."""
    cell = hot_cell(draw)
    course = run(cell, policy(name), 240)
    assert [each for each in course.rescales if each[0] >= HOUR][1:] == []
    calm = [waits for minute, waits in enumerate(course.waiting) if minute >= HOUR and minute not in after_restarts(course)]
    assert max(calm) <= BEHIND * 1_000.0 * cell.busy


def after_restarts(course: Course) -> set[int]:
    """Return the minutes in which a job works off what a restart left."""
    return {minute + after for minute, *_ in course.rescales for after in range(1, 2 * CAUGHT_UP)}


@pytest.mark.parametrize("name", ["sure", "flink"])
@pytest.mark.parametrize(("before", "after", "busy", "begin"), [(16, 6, 5.0, 8), (16, 14, 12.0, 16), (30, 9, 6.0, 10)])
def test_members_go_that_a_topic_made_anew_has_no_partition_for(
    name: str, before: int, after: int, busy: float, begin: int
) -> None:
    """Once, when that has lasted as long as any lower need must."""
    course = run(Cell("kafka", before, busy, 0.02, begin, 1, fewer=(130, after)), policy(name), 240)
    late = [each for each in course.rescales if each[0] >= 130]
    assert course.sizes[-1] == after
    assert len(late) == 1
    assert late[0][0] >= 155


@pytest.mark.parametrize("name", ["sure", "target-utilisation"])
@pytest.mark.parametrize(
    ("things", "busy", "begin", "burst"), [(12, 3.5, 6, (10, 1, 2.0)), (16, 4.5, 8, (10, 1, 2.2)), (60, 10.0, 20, (11, 1, 2.5))]
)
def test_bursts_that_return_take_no_size_back_and_forth(
    name: str, things: int, busy: float, begin: int, burst: tuple[int, int, float]
) -> None:
    """What the last burst needed at once is kept while the next ones come."""
    course = run(Cell("kafka", things, busy, 0.02, begin, 1, burst=burst), policy(name), 240)
    assert len([each for each in course.rescales if each[0] >= HOUR]) <= 1


@pytest.mark.parametrize("name", ["target-utilisation", "ds2-gate"])
@pytest.mark.parametrize(
    ("engine", "things", "busy", "begin", "rise", "least"),
    [
        ("kafka", 12, 3.96, 12, (0, 1.0), 6),
        ("kafka", 24, 8.0, 12, (30, 0.25), 3),
        ("flink", 128, 17.92, 39, (0, 1.0), 26),
    ],
)
def test_a_rule_that_decides_every_minute_gives_back_what_noise_does_not_need(
    name: str, engine: str, things: int, busy: float, begin: int, rise: tuple[int, float], least: int
) -> None:
    """A lower need has to last for half an hour of minutes, each with its own noise of 5 %: some of them always needed more."""
    course = run(Cell(engine, things, busy, 0.05, begin, 3, rise=rise), load_policy(name, span_minutes=1), 75)
    assert least <= course.sizes[-1] < begin
    assert all(after < before for _, before, after in course.rescales)


@pytest.mark.parametrize("name", ["sure", "target-utilisation"])
def test_an_owner_can_keep_the_size_for_bursts_that_return_every_hour(name: str) -> None:
    """Ten minutes of twice the load are worth a rescale and back by default, and none where a lower need must last an hour."""
    course = run(Cell("kafka", 24, 4.0, 0.02, 8, 33, burst=(60, 10, 2.0)), policy(name), 300, shrinks_after=60)
    assert [each for each in course.rescales if each[0] >= HOUR] == []


def test_after_the_last_burst_the_size_goes_back() -> None:
    """A burst counts for no longer than any other need."""
    course = run(Cell("kafka", 12, 3.5, 0.02, 6, 1, burst=(1_000, 1, 2.0)), policy("target-utilisation"), 120)
    assert [(before, after) for _, before, after in course.rescales] == [(6, 12), (12, 6)]


def test_the_limit_that_holds_an_overloaded_job_back_is_named() -> None:
    """Of 256 key groups 129 to 255 subtasks carry as much as 128, and 200 are the most where nobody sets a maximum."""
    course = run(Cell("flink", 256, 150.0, 0.0, 128, 1), policy("target-utilisation"), 60)
    assert course.waiting[-1] > 100_000.0
    assert "the next size that carries more is 256 and at most 200 are allowed; --max changes that" in course.reason


@pytest.mark.parametrize("name", ["sure", "target-utilisation"])
@pytest.mark.parametrize(("things", "busy", "begin", "gone"), [(60, 4.0, 20, 0.02), (128, 20.0, 64, 0.03), (100, 6.0, 40, 0.01)])
def test_members_that_come_and_go_keep_no_group_wide(name: str, things: int, busy: float, begin: int, gone: float) -> None:
    """On spot hosts hardly a minute passes without another set of members. Those that stay read on: that is no restart."""
    course = run(Cell("kafka", things, busy, 0.02, begin, seed=1, gone=gone), policy(name), 240)
    assert 0.5 <= busy / course.rescales[-1][2] <= 0.8
    assert len(course.rescales) <= 4


@pytest.mark.parametrize("name", ["sure", "target-utilisation"])
@pytest.mark.parametrize(("engine", "things", "busy"), [("kafka", 24, 8.9), ("flink", 128, 40.0)])
def test_where_nothing_comes_any_more_few_rescales_lead_to_the_minimum(engine: str, things: int, busy: float, name: str) -> None:
    """Half of the way, in case that it is a pause, and then the rest: each step was half an hour and a restart before."""
    begin = 12 if things == 24 else 64
    course = run(Cell(engine, things, busy, 0.02, begin, 1, rise=(60, 0.0)), policy(name), 200)
    late = [each for each in course.rescales if each[0] >= 60]
    assert course.sizes[-1] == 1
    assert len(late) <= 3


def test_a_group_whose_members_come_and_go_grows_at_once() -> None:
    """A load that doubles does not wait for a minute without a change."""
    cell = Cell("kafka", 128, 20.0, 0.02, begin=28, seed=1, rise=(120, 2.0), gone=0.02)
    course = run(cell, policy("target-utilisation"), 180)
    assert any(minute <= 122 and after > before for minute, before, after in course.rescales if minute >= 120)


@pytest.mark.parametrize(("name", "busy", "stops"), [("target-utilisation", 43.0, 6), ("target-utilisation", 43.0, 10)])
def test_a_long_stop_is_no_reason_for_the_next_one(name: str, busy: float, stops: int) -> None:
    """128 eager members stop for minutes when half of them go; what that leaves waiting, the other half works off."""
    course = run(Cell("kafka", 128, busy, 0.02, 128, 1, stops=stops), policy(name), 150)
    assert [(before, after) for _, before, after in course.rescales] == [(128, 64)]
    assert course.waiting[-1] == 0.0
