"""From cumulative samples to the figures of a minute."""

import math

import pytest

from surescale.spark_streaming.minutes import Minutes
from tests.unit.spark_streaming.pipeline import MINUTE, RULES, feed, graph, marker, newest, sample, spec

TWO_SUBTASKS = graph(spec("map", parallelism=2))


def test_a_minute_counts_what_the_counters_grew_by() -> None:
    """The second minute's figure is its last sample less the first minute's last sample."""
    fed = feed(sample(MINUTE, 100), marker(1), sample(75_000, 130), sample(2 * MINUTE, 180), marker(2))
    assert [newest(window, "records_in") for window in fed.windows] == [100, 80]


def test_a_sample_at_the_very_end_belongs_to_the_minute() -> None:
    """At 60,000 ms the first minute ends, at 60,001 ms the second has begun."""
    fed = feed(sample(MINUTE, 10), sample(MINUTE + 1, 11), marker(1), sample(2 * MINUTE, 12), marker(2))
    assert [newest(window, "records_in") for window in fed.windows] == [10, 2]


def test_a_task_is_the_sum_of_its_subtasks() -> None:
    """Two subtasks with 3 and 4 records make a task with 7, fully covered."""
    fed = feed(sample(MINUTE, 3, parallelism=2), sample(MINUTE, 4, subtask=1, parallelism=2), marker(1, TWO_SUBTASKS))
    assert newest(fed.windows[0], "records_in") == 7
    assert newest(fed.windows[0], "coverage") == 1.0


def test_what_a_silent_subtask_counted_meanwhile_is_unknown() -> None:
    """It reports again two minutes later: its growth of 20 belongs to no minute, so only the third minute after has it again."""
    minutes = Minutes(RULES)
    both = [sample(MINUTE, 5, parallelism=2), sample(MINUTE, 5, subtask=1, parallelism=2), marker(1, TWO_SUBTASKS)]
    one = [sample(2 * MINUTE, 9, parallelism=2), marker(2, TWO_SUBTASKS)]
    again = [sample(3 * MINUTE, 11, parallelism=2), sample(3 * MINUTE, 25, subtask=1, parallelism=2), marker(3, TWO_SUBTASKS)]
    then = [sample(4 * MINUTE, 12, parallelism=2), sample(4 * MINUTE, 28, subtask=1, parallelism=2), marker(4, TWO_SUBTASKS)]
    windows = feed(*both, *one, *again, *then, minutes=minutes).windows
    assert [newest(window, "coverage") for window in windows] == [1.0, 0.5, 0.5, 1.0]
    assert [newest(window, "records_in") for window in windows] == [10, 4, 2, 4]


def test_growth_is_divided_over_the_time_it_took() -> None:
    """Looks after 50 and 70 seconds that each saw 100 records a minute: both minutes have 100."""
    fed = feed(sample(MINUTE, 0), marker(1), sample(110_000, 83), marker(2), sample(3 * MINUTE, 200), marker(3))
    assert [newest(window, "records_in") for window in fed.windows] == pytest.approx([0, 100, 100], abs=0.5)
    assert [newest(window, "covered_ms") for window in fed.windows] == [MINUTE, 50_000, 70_000]


def test_the_age_of_figures_is_not_taken_for_time_without_records() -> None:
    """Figures of 100 records a minute, first 10 s old, then fresh: covered are 70 s, and the minute has 100."""
    fed = feed(sample(MINUTE, 0, as_of_ms=50_000), marker(1), sample(2 * MINUTE, 117), marker(2))
    assert newest(fed.windows[1], "records_in") == pytest.approx(100, abs=0.5)
    assert newest(fed.windows[1], "covered_ms") == 70_000


def test_growth_over_a_hole_is_unknown_and_no_burst() -> None:
    """Nobody looked for five and a half minutes in which 84,165 records went by: the minute is masked, the next one is known."""
    before = [sample(MINUTE, 0), marker(1), sample(2 * MINUTE, 15_000), marker(2)]
    after = [sample(450_000, 99_165), sample(8 * MINUTE, 106_665), marker(8), sample(9 * MINUTE, 121_665), marker(9)]
    windows = feed(*before, *after).windows
    assert not windows[-2].reported[-1, 0]
    assert newest(windows[-1], "records_in") == 15_000


def test_a_minute_seen_for_less_than_half_of_it_is_unknown() -> None:
    """Twenty seconds do not say what a minute brings."""
    fed = feed(sample(MINUTE, 10), marker(1), sample(80_000, 40), marker(2))
    assert not fed.windows[1].reported[-1, 0]


def test_a_figure_unknown_in_one_subtask_is_unknown_and_never_zero() -> None:
    """Busy and queue are null in one of two subtasks; records are known in both. The busiest is unknown too."""
    null = {"busy_ms": None, "idle_ms": None, "backpressured_ms": None, "queued_records": None}
    fed = feed(
        *(sample(MINUTE, 3, busy_ms=50, parallelism=2), sample(MINUTE, 4, subtask=1, parallelism=2, **null)),
        marker(1, TWO_SUBTASKS),
        *(sample(2 * MINUTE, 6, busy_ms=90, parallelism=2), sample(2 * MINUTE, 8, subtask=1, parallelism=2, **null)),
        marker(2, TWO_SUBTASKS),
    )
    assert newest(fed.windows[0], "coverage") == 0.5, "an attempt without clocks may have begun long ago"
    assert newest(fed.windows[1], "records_in") == 7
    for name in ("busy_ms", "idle_ms", "backpressured_ms", "queued_records_last", "queued_records_mean", "busy_ms_max"):
        assert math.isnan(newest(fed.windows[1], name)), name


def test_a_counter_that_becomes_known_does_not_bring_its_whole_past() -> None:
    """Unknown in the minute before, so its growth is unknown, too."""
    fed = feed(sample(MINUTE, 1), marker(1), sample(2 * MINUTE, 2, latency_record_ms=9_000), marker(2))
    assert math.isnan(newest(fed.windows[1], "latency_record_ms"))


def test_a_restart_of_a_task_without_clocks_counts_from_zero() -> None:
    """The task was seen a minute before under an older attempt, so the new one began since."""
    null = {"busy_ms": None, "idle_ms": None, "backpressured_ms": None}
    fed = feed(sample(MINUTE, 100, **null), marker(1), sample(2 * MINUTE, 30, attempt=1, **null), marker(2))
    assert newest(fed.windows[1], "records_in") == 30


def test_attempts_may_be_numbered_with_gaps() -> None:
    """An engine without a count of attempts numbers them by time: one began, not 614."""
    fed = feed(sample(MINUTE, 100, attempt=1_000), marker(1), sample(2 * MINUTE, 30, attempt=1_614), marker(2))
    assert newest(fed.windows[1], "restarts") == 1


def test_what_arrives_while_a_job_is_down_arrived() -> None:
    """At the door 600, then 1,500 over a restart onto two subtasks: 900 arrived, whatever the source took."""
    on_two = {"attempt": 1, "parallelism": 2}
    fed = feed(
        *(sample(MINUTE, 500, arrived_records=600), marker(1)),
        *(
            sample(2 * MINUTE, 100, arrived_records=750, **on_two),
            sample(2 * MINUTE, 50, subtask=1, arrived_records=750, **on_two),
        ),
        marker(2, TWO_SUBTASKS),
    )
    assert math.isnan(newest(fed.windows[0], "arrived")), "what came before anyone looked does not belong to this minute"
    assert newest(fed.windows[1], "arrived") == 900
    assert newest(fed.windows[1], "records_in") == 150


@pytest.mark.parametrize("second", [{"arrived_records": None}, {"arrived_records": 100}])
def test_arrivals_are_unknown_when_a_part_is_missing_or_fell(second: dict[str, int | None]) -> None:
    """Half of a sum, or one that started over, is no growth."""
    fed = feed(sample(MINUTE, 5, arrived_records=600), marker(1), sample(2 * MINUTE, 9, **second), marker(2))
    assert math.isnan(newest(fed.windows[1], "arrived"))


def test_the_busiest_subtask_shows_skew() -> None:
    """One subtask was busy for 50 of 60 seconds, the other for 10."""
    fed = feed(sample(MINUTE, 3, busy_ms=50_000), sample(MINUTE, 4, subtask=1, busy_ms=10_000), marker(1, TWO_SUBTASKS))
    assert (newest(fed.windows[0], "busy_ms"), newest(fed.windows[0], "busy_ms_max")) == (60_000, 50_000)


def test_pools_are_averaged_and_the_slowest_watermark_counts() -> None:
    """A subtask that does not know them says nothing about them."""
    fed = feed(
        sample(MINUTE, in_pool_permille=1_000, watermark_lag_ms=400),
        sample(MINUTE, subtask=1, in_pool_permille=500, watermark_lag_ms=900),
        sample(MINUTE, subtask=2),
        marker(1, graph(spec("map", parallelism=3))),
    )
    assert (newest(fed.windows[0], "in_pool"), newest(fed.windows[0], "watermark_lag_ms")) == (0.75, 900)


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


@pytest.mark.parametrize(("fell_to", "grown"), [(3_599_800, 0), (500, 500)])
def test_a_clock_that_fell_by_a_moment_did_not_grow(fell_to: int, grown: int) -> None:
    """Flink computes busy time from other clocks; an hour of it must not count as that of one minute."""
    first = sample(MINUTE, 0, busy_ms=3_600_000, idle_ms=0)
    fed = feed(first, marker(1), sample(2 * MINUTE, 0, busy_ms=fell_to, idle_ms=60_000), marker(2))
    assert newest(fed.windows[1], "busy_ms") == grown


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
