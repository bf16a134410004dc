"""From cumulative samples to the figures of a minute."""

import math

import pytest

from spark_streaming.minutes import Minutes
from tests.unit.spark_streaming.road import MINUTE, RULES, feed, graph, marker, newest, sample, spec

TWO_SUBTASKS = graph(spec("map", parallelism=2))


def test_a_minute_counts_what_the_counters_grew_by() -> None:
    """The second minute's figure is its last sample less the first minute's last sample."""
    fed = feed(sample(MINUTE, 100), marker(1), sample(75_000, 130), sample(2 * MINUTE, 180), marker(2))
    assert [newest(window, "records_in") for window in fed.windows] == [100, 80]


def test_a_sample_at_the_very_end_belongs_to_the_minute() -> None:
    """At 60,000 ms the first minute ends, at 60,001 ms the second has begun."""
    fed = feed(sample(MINUTE, 10), sample(MINUTE + 1, 11), marker(1), marker(2))
    assert [newest(window, "records_in") for window in fed.windows] == [10, 1]


def test_a_task_is_the_sum_of_its_subtasks() -> None:
    """Two subtasks with 3 and 4 records make a task with 7, fully covered."""
    fed = feed(sample(MINUTE, 3, parallelism=2), sample(MINUTE, 4, subtask=1, parallelism=2), marker(1, TWO_SUBTASKS))
    assert newest(fed.windows[0], "records_in") == 7
    assert newest(fed.windows[0], "coverage") == 1.0


def test_a_silent_subtask_lowers_the_coverage_and_keeps_its_baseline() -> None:
    """It reports again two minutes later, and what it counted meanwhile is not lost."""
    minutes = Minutes(RULES)
    both = [sample(MINUTE, 5, parallelism=2), sample(MINUTE, 5, subtask=1, parallelism=2), marker(1, TWO_SUBTASKS)]
    one = [sample(2 * MINUTE, 9, parallelism=2), marker(2, TWO_SUBTASKS)]
    again = [sample(3 * MINUTE, 9, parallelism=2), sample(3 * MINUTE, 25, subtask=1, parallelism=2), marker(3, TWO_SUBTASKS)]
    windows = feed(*both, *one, *again, minutes=minutes).windows
    assert [newest(window, "coverage") for window in windows] == [1.0, 0.5, 1.0]
    assert [newest(window, "records_in") for window in windows] == [10, 4, 20]


def test_a_new_attempt_counts_from_zero_and_the_ended_one_is_not_lost() -> None:
    """Attempt 0 grew by 20 before it ended, attempt 1 counted 7: the minute has 27 and one restart."""
    fed = feed(sample(MINUTE, 100), marker(1), sample(75_000, 120), sample(2 * MINUTE, 7, attempt=1), marker(2))
    assert newest(fed.windows[1], "records_in") == 27
    assert [newest(window, "restarts") for window in fed.windows] == [0, 1]


def test_a_restart_between_two_minutes_counts_from_zero() -> None:
    """The counter went from 100 to 30 under a new attempt: 30 records."""
    fed = feed(sample(MINUTE, 100), marker(1), sample(2 * MINUTE, 30, attempt=1), marker(2))
    assert newest(fed.windows[1], "records_in") == 30


def test_a_counter_that_fell_within_an_attempt_was_reset() -> None:
    """An engine that does not count attempts still never gives a negative figure."""
    fed = feed(sample(MINUTE, 100), marker(1), sample(2 * MINUTE, 30), marker(2))
    assert newest(fed.windows[1], "records_in") == 30


def test_an_ended_attempt_changes_no_later_minute() -> None:
    """A straggler of attempt 0 in a minute after attempt 1 had begun is counted as late and not used."""
    fed = feed(sample(MINUTE, 10, attempt=1), marker(1), sample(70_000, 999), sample(2 * MINUTE, 15, attempt=1), marker(2))
    assert newest(fed.windows[1], "records_in") == 5
    assert fed.windows[1].counts.late == 1


def test_an_attempt_that_began_before_anyone_watched_only_sets_the_baseline() -> None:
    """Its first minute is masked, because what it counted in that minute cannot be known; the next one is known."""
    fed = feed(sample(MINUTE, 90_000, idle_ms=3_600_000), marker(1), sample(2 * MINUTE, 90_050, idle_ms=3_660_000), marker(2))
    assert not fed.windows[0].reported[-1, 0]
    assert newest(fed.windows[1], "records_in") == 50


def test_queued_records_are_averaged_over_the_samples_of_the_minute() -> None:
    """Sums over subtasks of 4 and 8 average to 6; the last is 8."""
    early = [sample(30_000, queued_records=1), sample(30_000, subtask=1, queued_records=3)]
    last = [sample(MINUTE, queued_records=2), sample(MINUTE, subtask=1, queued_records=6)]
    fed = feed(*early, *last, marker(1, TWO_SUBTASKS))
    assert newest(fed.windows[0], "queued_records_mean") == 6
    assert newest(fed.windows[0], "queued_records_last") == 8


def test_a_figure_that_an_engine_does_not_have_is_masked_alone() -> None:
    """Without queue waits that figure is NaN, and the task-minute counts as reported."""
    fed = feed(sample(MINUTE, 5, latency_record_ms=70), marker(1))
    assert math.isnan(newest(fed.windows[0], "queue_wait_record_ms"))
    assert newest(fed.windows[0], "latency_record_ms") == 70
    assert fed.windows[0].completeness == pytest.approx(1 / 4)


def test_parallelism_is_that_of_the_latest_sample() -> None:
    """A task that went from one subtask to two in the minute has two at its end, both counted in its state."""
    fed = feed(
        sample(30_000, parallelism=1, state_bytes=10),
        sample(MINUTE, attempt=1, parallelism=2, state_bytes=6),
        sample(MINUTE, attempt=1, subtask=1, parallelism=2, state_bytes=7),
        marker(1, TWO_SUBTASKS),
    )
    assert (newest(fed.windows[0], "parallelism"), newest(fed.windows[0], "state_bytes")) == (2, 13)


def test_a_duplicate_has_no_effect_but_being_counted() -> None:
    """The same identity twice, even with other figures, counts once: the first arrival."""
    fed = feed(sample(MINUTE, 10, queued_records=4), sample(MINUTE, 999, queued_records=999), marker(1))
    assert newest(fed.windows[0], "records_in") == 10
    assert newest(fed.windows[0], "queued_records_mean") == 4
    assert (fed.windows[0].counts.samples, fed.windows[0].counts.duplicates) == (1, 1)


def test_tasks_appear_and_vanish_with_the_topology() -> None:
    """Each window has the tasks of its own minute's topology; what a newcomer did not report before is masked."""
    grown, shrunk = graph(spec("map"), spec("sink", "map"), version=2), graph(spec("sink"), version=3)
    fed = feed(
        *(sample(MINUTE, 10), marker(1)),
        *(sample(2 * MINUTE, 30), sample(2 * MINUTE, 20, task="sink"), marker(2, grown)),
        *(sample(3 * MINUTE, 25, task="sink"), marker(3, shrunk)),
    )
    assert [window.figures.shape[1] for window in fed.windows] == [1, 2, 1]
    assert newest(fed.windows[1], "records_in", "sink") == 20
    assert fed.windows[1].reported[:, 1].tolist() == [False, False, False, True]
    assert newest(fed.windows[2], "records_in", "sink") == 5
