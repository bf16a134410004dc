"""When a minute closes, what is late, what is refused."""

import msgspec
import numpy as np
import pytest

from surescale.contracts.messages import HourlyLoad, MinuteMarker, TaskSample
from surescale.contracts.windows import HOUR_MS, Window, encode_window
from surescale.contracts.wire import decode
from surescale.spark_streaming.columns import Coordinates
from surescale.spark_streaming.minutes import MinuteRules, Minutes
from tests.support.record_columns import records_of
from tests.unit.spark_streaming.pipeline import JOB, MINUTE, RULES, feed, graph, marker, newest, no_clock, recorded, sample, spec

HOUR_END = HOUR_MS // MINUTE


def ends(windows: object) -> list[int]:
    """Return the ends of windows, in minutes."""
    return [window.window_end_ms // MINUTE for window in windows]  # type: ignore[attr-defined]


def test_a_marker_closes_its_minute_at_once() -> None:
    """The window carries the broker's time of the marker and the wall time at which the clock reached the minute."""
    fed = feed(sample(MINUTE, 5), marker(1, reached_wall_ms=77))
    assert ends(fed.windows) == [1]
    assert (fed.windows[0].closed_append_ms, fed.windows[0].reached_wall_ms) == (1_001, 77)


def test_an_idle_minute_closes_too() -> None:
    """A marker without samples gives a window whose newest minute is masked."""
    fed = feed(sample(MINUTE, 5), marker(1), marker(2))
    assert ends(fed.windows) == [1, 2]
    assert fed.windows[1].reported[:, 0].tolist() == [False, False, True, False]


def test_without_a_marker_the_lateness_closes_a_minute() -> None:
    """Minute 2 is open until a sample lies more than five seconds behind its end; the last good topology serves."""
    until = [sample(MINUTE, 5), marker(1), sample(2 * MINUTE, 9), sample(2 * MINUTE + 5_000, 10)]
    minutes = Minutes(RULES)
    assert ends(feed(*until, minutes=minutes).windows) == [1]
    fed = feed(sample(2 * MINUTE + 5_001, 11), minutes=minutes)
    assert ends(fed.windows) == [2]
    assert newest(fed.windows[0], "records_in") == 4


def test_rows_of_a_closed_minute_are_late_and_counted() -> None:
    """Two rows of minute 1 after its marker appear as late in the window of minute 2, and change no figure."""
    fed = feed(sample(MINUTE, 5), marker(1), sample(30_000, 3), sample(MINUTE, 5), sample(2 * MINUTE, 6), marker(2))
    assert [window.counts.late for window in fed.windows] == [0, 2]
    assert newest(fed.windows[1], "records_in") == 1
    assert fed.late == 2


def test_a_second_marker_of_a_minute_changes_nothing() -> None:
    """A monitor that was restarted may send the last marker again."""
    assert ends(feed(sample(MINUTE, 5), marker(1), marker(1), marker(2)).windows) == [1, 2]


def test_a_missing_marker_is_made_up_by_the_next_one() -> None:
    """The marker of minute 3 closes minutes 2 and 3, so that no window is missing."""
    fed = feed(sample(MINUTE, 5), marker(1), sample(2 * MINUTE, 7), sample(3 * MINUTE, 8), marker(3))
    assert ends(fed.windows) == [1, 2, 3]
    assert newest(fed.windows[1], "records_in") == 2


def test_a_long_silence_gives_windows_for_its_last_minutes_only() -> None:
    """After a thousand silent minutes a window's length of them get windows, and the marker's own minute."""
    assert ends(feed(sample(MINUTE, 5), marker(1), marker(1_000)).windows) == [1, 996, 997, 998, 999, 1_000]


def test_jobs_do_not_close_each_other() -> None:
    """A job that is an hour ahead leaves the minute of the other one open."""
    other = graph(job="sim/other")
    fed = feed(sample(MINUTE, 5), marker(60, other), sample(MINUTE, 6, subtask=1), marker(1))
    assert [(window.job, window.window_end_ms // MINUTE) for window in fed.windows] == [(JOB, 1), ("sim/other", 60)]
    assert newest(fed.windows[0], "records_in") == 11


def test_rows_out_of_order_within_the_open_minute_are_all_used() -> None:
    """The last sample by event time counts, not the last to arrive."""
    fed = feed(sample(MINUTE, 9), sample(15_000, 2), sample(45_000, 7), marker(1))
    assert newest(fed.windows[0], "records_in") == 9


def test_a_record_far_ahead_of_the_clock_is_refused_before_it_closes_a_minute() -> None:
    """One hour ahead goes to dead letters with its field, its coordinates and itself; the open minute stays open."""
    records = recorded([sample(MINUTE, 5), sample(61 * MINUTE, 6), marker(61), sample(40_000, 4)])
    minutes = Minutes(RULES)
    fed = minutes.feed(records, np.full(4, MINUTE, dtype=np.int64))
    assert fed.windows == ()
    assert [(each.offset, each.reason, each.field) for each in fed.refused] == [
        (1, "ahead_of_clock", "sampled_at_ms"),
        (2, "ahead_of_clock", "minute_end_ms"),
    ]
    assert decode(fed.refused[0].payload, TaskSample) == sample(61 * MINUTE, 6)
    assert "3600 s ahead" in fed.refused[0].message


def test_two_minutes_ahead_of_the_clock_is_allowed() -> None:
    """The bound itself is inside."""
    assert Minutes(RULES).feed(recorded([sample(3 * MINUTE)]), np.array([MINUTE])).refused == ()


def test_a_task_that_is_not_in_the_topology_is_refused_when_the_minute_closes() -> None:
    """Every one of its samples goes to dead letters, the other tasks' figures stand."""
    fed = feed(sample(30_000, 1, task="ghost"), sample(MINUTE, 5), sample(MINUTE, 2, task="ghost"), marker(1))
    assert [each.offset for each in fed.refused] == [0, 2]
    assert {(each.reason, each.field) for each in fed.refused} == {("unknown_task", "task")}
    assert "'ghost'" in fed.refused[0].message
    assert newest(fed.windows[0], "records_in") == 5


def test_a_job_that_never_sent_a_topology_is_refused_when_its_minute_closes() -> None:
    """Closed by lateness, without a marker ever: its rows are dead letters and there is no window."""
    fed = feed(sample(MINUTE, 5), sample(3 * MINUTE, 6))
    assert fed.windows == ()
    assert [(each.offset, each.reason, each.field, each.key) for each in fed.refused] == [(0, "unknown_job", "job", JOB.encode())]


def test_a_cyclic_topology_is_refused_and_the_minute_closes_with_the_last_good_one() -> None:
    """Nothing else stops."""
    cyclic = graph(spec("map", "sink"), spec("sink", "map"), version=9)
    fed = feed(sample(MINUTE, 5), marker(1), sample(2 * MINUTE, 7), marker(2, cyclic), marker(3))
    assert [(each.offset, each.reason, each.field) for each in fed.refused] == [(3, "cyclic_topology", "topology.tasks")]
    assert ends(fed.windows) == [1, 2, 3]
    assert (fed.windows[1].topology.version, newest(fed.windows[1], "records_in")) == (1, 2)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (marker(2, minute_end_ms=90_000), "minute_end_ms"),
        (marker(2, graph(job="sim/other"), job=JOB), "topology.job"),
        (marker(2, graph(spec("map", "nowhere"))), "topology.tasks[0].upstream"),
    ],
)
def test_a_marker_that_contradicts_itself_is_refused_naming_the_field(bad: MinuteMarker, field: str) -> None:
    """The reason is ``invalid_field``, and the record travels along."""
    fed = feed(marker(1), bad)
    assert [(each.offset, each.reason, each.field) for each in fed.refused] == [(1, "invalid_field", field)]
    assert decode(fed.refused[0].payload, MinuteMarker) == bad


def test_the_first_minute_of_a_job_is_the_first_that_anything_was_seen_of() -> None:
    """No window is made up for the time before."""
    assert ends(feed(sample(500 * MINUTE, 5), marker(500)).windows) == [500]


def test_the_hourly_load_goes_on_from_the_history_in_the_first_marker() -> None:
    """A known hour stays; the present hour averages history and the minutes since."""
    history = (HourlyLoad(hour_start_ms=0, records=6_000, minutes=60), HourlyLoad(hour_start_ms=HOUR_MS, records=100, minutes=1))
    begin = HOUR_END + 1
    fed = feed(sample(begin * MINUTE + MINUTE, 300), marker(begin + 1, load_history=history))
    assert fed.windows[0].hourly_load[-2:].tolist() == [100.0, 200.0]
    assert np.isnan(fed.windows[0].hourly_load[:-2]).all()


def test_a_history_sent_again_does_not_replace_what_was_seen() -> None:
    """A restarted monitor sends the history once more."""
    history = (HourlyLoad(hour_start_ms=0, records=10, minutes=1),)
    fed = feed(marker(1, load_history=history), sample(2 * MINUTE, 30), marker(2), marker(3, load_history=history))
    assert fed.windows[-1].hourly_load[-1] == 20.0


def test_equal_minutes_give_equal_bytes() -> None:
    """Two assemblies of the same records are the same, byte for byte."""
    messages = [sample(MINUTE, 5), sample(MINUTE, 5, subtask=3), marker(1), sample(2 * MINUTE, 8), marker(2)]
    first, second = feed(*messages).windows, feed(*messages).windows
    assert [encode_window(window) for window in first] == [encode_window(window) for window in second]


def test_an_empty_batch_gives_nothing() -> None:
    """Spark may call with no rows."""
    nothing = records_of([])
    fed = Minutes(MinuteRules()).feed(nothing, no_clock(nothing))
    assert (fed.windows, fed.refused, fed.samples) == ((), (), 0)


def test_coordinates_of_refused_records_come_in_order_of_partition_and_offset() -> None:
    """Whatever order jobs are worked off in."""
    at = [Coordinates(1, 4, 0), Coordinates(0, 9, 0), Coordinates(1, 3, 0)]
    jobs = ["sim/a", "sim/b", "sim/c"]
    records = records_of([(each, sample(99 * MINUTE, job=job)) for each, job in zip(at, jobs, strict=True)])
    fed = Minutes(RULES).feed(records, np.zeros(3, dtype=np.int64))
    assert [each.at for each in fed.refused] == [(0, 9), (1, 3), (1, 4)]


def resubmitted(*second_minute: TaskSample) -> list[Window]:
    """Return the windows of minutes 2 and 3 of a job that was at attempt 3 in minute 1 and at attempt 0 from minute 2 on."""
    minutes, old = Minutes(RULES), msgspec.structs.replace(graph(), attempt=3)
    feed(sample(MINUTE, 50, attempt=3), marker(1, old), minutes=minutes)
    third = sample(3 * MINUTE, 12, attempt=0)
    return list(feed(*second_minute, marker(2), third, marker(3), minutes=minutes).windows)


def test_a_job_that_counts_its_attempts_anew_is_measured_anew() -> None:
    """It was submitted again under its old name: its attempt 0 is no relic of a time before attempt 3."""
    second, third = resubmitted(sample(2 * MINUTE, 7))
    assert (newest(second, "records_in"), newest(second, "restarts"), second.counts.late) == (7, 0, 0)
    assert newest(third, "records_in") == 5


def test_a_sample_of_an_attempt_that_never_was_costs_a_minute_and_no_more() -> None:
    """It would outdate every sample of the engine from then on. The marker says which attempt runs, and its samples go on."""
    minutes, forged = Minutes(RULES), sample(2 * MINUTE - 1, 9, attempt=2**53)
    feed(sample(MINUTE, 50), marker(1), sample(2 * MINUTE, 60), forged, marker(2), minutes=minutes)
    third = (sample(2 * MINUTE + 1, 60), sample(3 * MINUTE, 75), marker(3))
    fourth = (sample(4 * MINUTE, 95), marker(4))
    windows = feed(*third, *fourth, minutes=minutes).windows
    assert [newest(window, "records_in") for window in windows][-1] == 20
    assert windows[-1].counts.late == 0


def test_a_restart_that_the_topology_does_not_show_yet_outdates_what_was_before() -> None:
    """The attempt before it sends nothing any more, so its end stays its end."""
    minutes, restarted = Minutes(RULES), sample(2 * MINUTE, 7, attempt=1)
    feed(sample(MINUTE, 50), marker(1), restarted, marker(2), minutes=minutes)
    (window,) = feed(sample(3 * MINUTE, 12, attempt=1), marker(3), minutes=minutes).windows
    assert (newest(window, "records_in"), newest(window, "restarts"), window.counts.late) == (5, 0, 0)


def test_what_came_of_the_attempts_before_in_the_same_minute_is_late() -> None:
    """Else it would outdate the new ones for good."""
    second, third = resubmitted(sample(MINUTE + 1, 60, attempt=3), sample(2 * MINUTE, 7))
    assert (newest(second, "records_in"), second.counts.late, newest(third, "records_in")) == (7, 1, 5)
