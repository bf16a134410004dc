"""Shrinks that were taken back: a task that had to grow again at the same load does not shrink to that size for half a day."""

import msgspec
import pytest

from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import JobSettings
from surescale.policies.stateful_limits import (
    LONGER_MS,
    SOON_MS,
    TAKEN_BACK_MS,
    TOO_FEW_MS,
    Change,
    LimitedAct,
    LimitsMemory,
    after_begin,
    apply_limits,
    with_needs,
)
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, decision, job

FREE = JobSettings(job=JOB, scale_down_after_minutes=0, block_ineffective=True)


def at_load(memory: LimitsMemory, load: float | None, at_ms: int = START_MS, **wanted: int) -> tuple[LimitsMemory, Decision]:
    """Return the memory after a decision at this load, and the decision."""
    made = msgspec.structs.replace(decision(at_ms, wanted or None), load_records_per_minute=load)
    return with_needs(memory, made, FREE, "flink", before_ms=at_ms - MINUTE_MS), made


def taken_back(after_ms: int = 10 * MINUTE_MS, load: float = 100.0) -> LimitsMemory:
    """Return the memory of a task that shrank from three subtasks to two at 100 records a minute, and grew again later."""
    memory, _ = at_load(LimitsMemory(), 100.0)
    memory = after_begin(memory, {"map": Change(3, 2)}, START_MS)
    memory, _ = at_load(memory, load, START_MS + after_ms)
    return after_begin(memory, {"map": Change(2, 3)}, START_MS + after_ms)


def shrunk(memory: LimitsMemory, later_ms: int, load: float | None, settings: JobSettings = FREE, to: int = 2) -> LimitedAct:
    """Return what is left of a decision to shrink the task from three subtasks."""
    at_ms = START_MS + 10 * MINUTE_MS + later_ms
    memory, made = at_load(memory, load, at_ms, map=to)
    topology = msgspec.structs.replace(job(units=range(3)), engine="flink")
    return apply_limits(memory, made, topology, settings, engine="flink", hosts=())


@pytest.mark.parametrize("load", [91.0, 100.0, 300.0, None])
def test_a_shrink_that_was_taken_back_is_not_repeated_at_the_same_load(load: float | None) -> None:
    """Nor at a higher one, or at one that nobody knows."""
    left = shrunk(taken_back(), MINUTE_MS, load)
    assert left.refusal == "scale_down_waits"
    assert "map: 2 were too few at this load, so it keeps 3" in left.words


def test_it_is_repeated_at_a_lower_load_and_after_half_a_day() -> None:
    """And where it was not taken back for want of size: much later, or because more came."""
    assert shrunk(taken_back(), MINUTE_MS, 80.0).wanted == {"map": 2}
    assert shrunk(taken_back(), TOO_FEW_MS - MINUTE_MS, 100.0).refusal
    assert shrunk(taken_back(), TOO_FEW_MS, 100.0).wanted == {"map": 2}
    assert shrunk(taken_back(load=120.0), MINUTE_MS, 100.0).wanted == {"map": 2}
    assert shrunk(taken_back(after_ms=TAKEN_BACK_MS + MINUTE_MS), TAKEN_BACK_MS, 100.0).wanted == {"map": 2}


WAITING = JobSettings(job=JOB, scale_down_after_minutes=10, block_ineffective=True)


def minutes_until_it_shrinks(memory: LimitsMemory, at_ms: int, settings: JobSettings = WAITING) -> int:
    """Return for how long from a time on decisions that want two subtasks of three at a low load leave the task three."""
    topology = msgspec.structs.replace(job(units=range(3)), engine="flink")
    for minute in range(300):
        made = decision(at_ms + minute * MINUTE_MS, {"map": 2})
        made = msgspec.structs.replace(made, load_records_per_minute=10.0)
        memory = with_needs(memory, made, settings, "flink", before_ms=made.span_end_ms - MINUTE_MS)
        left = apply_limits(memory, made, topology, settings, engine="flink", hosts=())
        if left.wanted == {"map": 2} and left.refusal is None:
            return minute
        assert "map: 2 must be enough for " in left.words
        assert ("since such a shrink was soon taken back" in left.words) == (" 10 minutes" not in left.words)
    return 300


def after_batches(times: int, apart_ms: int) -> tuple[LimitsMemory, int]:
    """Return the memory of a task that shrank so often, and that so much later more load made grow again, and the time then."""
    memory, at_ms = LimitsMemory(), START_MS
    for _ in range(times):
        memory, _ = at_load(memory, 10.0, at_ms)
        memory = after_begin(memory, {"map": Change(3, 2)}, at_ms)
        at_ms += apart_ms
        memory, _ = at_load(memory, 100.0, at_ms)
        memory = after_begin(memory, {"map": Change(2, 3)}, at_ms)
        at_ms += MINUTE_MS
    return memory, at_ms


@pytest.mark.parametrize(("times", "minutes"), [(0, 10), (1, 20), (2, 40), (5, 40)])
def test_a_shrink_that_more_load_takes_back_soon_makes_the_next_one_wait_longer(times: int, minutes: int) -> None:
    """Twice and four times as long, for four hours. An owner who wants no wait has none."""
    memory, at_ms = after_batches(times, 5 * MINUTE_MS)
    assert minutes_until_it_shrinks(memory, at_ms) == minutes
    assert minutes_until_it_shrinks(memory, at_ms + LONGER_MS) == 10
    assert minutes_until_it_shrinks(memory, at_ms, FREE) == 0


def sizes_left(*changes: tuple[int, int, int]) -> list[int]:
    """Return what is left of decisions to shrink eight subtasks to two, in each minute after changes (minute, before, after)."""
    memory, topology = LimitsMemory(), msgspec.structs.replace(job(units=range(8)), engine="flink")
    for minute, before, after in changes:
        at_ms = START_MS + minute * MINUTE_MS
        memory, _ = at_load(memory, 10.0 if after < before else 100.0, at_ms)
        memory = after_begin(memory, {"map": Change(before, after)}, at_ms)
    found = []
    for later in range(60):
        made = msgspec.structs.replace(decision(at_ms + later * MINUTE_MS, {"map": 2}), load_records_per_minute=10.0)
        memory = with_needs(memory, made, WAITING, "flink", before_ms=made.span_end_ms - MINUTE_MS)
        found.append(apply_limits(memory, made, topology, WAITING, engine="flink", hosts=()).wanted["map"])
    return found


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        # Four subtasks were left for 40 minutes, two for 20.
        ([(0, 8, 4), (20, 4, 2), (40, 2, 8)], [8] * 10 + [4] * 10),
        ([(0, 8, 4), (10, 4, 2), (25, 2, 8)], [8] * 20),
        ([(0, 8, 4), (10, 4, 2), (25, 2, 4), (27, 4, 8)], [8] * 20),  # in two steps, too
        ([(0, 8, 4), (10, 4, 2), (25, 2, 4), (45, 4, 8)], [8] * 10 + [4] * 10),
        # Someone else sets three, then it grows: that takes no step back.
        ([(0, 8, 4), (25, 6, 8)], [8] * 10),
        # The step to four waits as long as usual until it, too, is taken back soon.
        ([(0, 8, 4), (20, 4, 2), (40, 2, 8), (60, 8, 4), (75, 4, 8)], [8] * 20),
        ([(0, 8, 4), (20, 4, 2), (40, 2, 8), (60, 8, 4), (100, 4, 2), (110, 2, 8)], [8] * 10 + [4] * 30),
    ],
)
def test_only_steps_that_were_taken_back_soon_wait_longer(changes: list[tuple[int, int, int]], kept: list[int]) -> None:
    """The others paid."""
    found = sizes_left(*changes)
    assert found[: len(kept)] == kept
    assert set(found[len(kept) :]) == {2}


def test_one_that_is_taken_back_later_was_worth_it() -> None:
    """It saved half an hour of what went."""
    memory, at_ms = after_batches(2, SOON_MS + MINUTE_MS)
    assert minutes_until_it_shrinks(memory, at_ms) == 10


def test_a_larger_size_in_between_does_not_bring_it_back() -> None:
    """From three subtasks to one and back; then two will do, and from two one is still too few. So are two once they were."""
    memory, _ = at_load(LimitsMemory(), 100.0)
    for later, (before, after) in enumerate([(3, 1), (1, 3), (3, 2)]):
        at_ms = START_MS + 10 * later * MINUTE_MS
        memory, made = at_load(memory, 100.0, at_ms, map=after)
        topology = msgspec.structs.replace(job(units=range(before)), engine="flink")
        assert apply_limits(memory, made, topology, FREE, engine="flink", hosts=()).wanted == {"map": after}
        memory = after_begin(memory, {"map": Change(before, after)}, at_ms)
    memory, made = at_load(memory, 100.0, at_ms, map=1)
    topology = msgspec.structs.replace(job(units=range(2)), engine="flink")
    left = apply_limits(memory, made, topology, FREE, engine="flink", hosts=())
    assert "map: 1 were too few at this load, so it keeps 2" in left.words
    memory = after_begin(memory, {"map": Change(2, 3)}, at_ms)
    assert "map: 2 were too few" in shrunk(memory, 20 * MINUTE_MS, 100.0).words


def test_it_holds_for_smaller_sizes_too_and_not_where_the_owner_turns_it_off() -> None:
    """``block_ineffective`` is the switch of both, and an owner's maximum is stronger."""
    assert shrunk(taken_back(), MINUTE_MS, 100.0, to=1).refusal
    for changes in ({"block_ineffective": False}, {"parallelism_max": 2}):
        free = msgspec.structs.replace(FREE, **changes)
        assert shrunk(taken_back(), MINUTE_MS, 100.0, free).wanted == {"map": 2}
