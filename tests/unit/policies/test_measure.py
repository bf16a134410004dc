"""What is read off a window: load, service time, visits, backlog."""

from dataclasses import replace

import numpy as np
import pytest

from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.windows import FIGURE, Window, blank_figures
from surescale.policies.graph import JobGraph, job_graph
from surescale.policies.measure import mean_of_last, measure
from surescale.policies.rules.reading import read_figures
from surescale.policies.rules.target_utilisation import TargetUtilisation
from tests.unit.policies.conftest import WindowMaker


def measured(window: Window):
    """Measure a window with its own graph."""
    return measure(window.figures, job_graph(window.topology.tasks))


def test_service_time_is_busy_time_over_records(make_window: WindowMaker) -> None:
    """A task that was busy 2 subtask-minutes for 100 records takes 0.02 minutes each."""
    np.testing.assert_allclose(measured(make_window()).service_minutes, [0, 0.02, 0.01, 0], atol=1e-7)


def test_what_a_task_emits_does_not_change_what_a_record_costs_it(make_window: WindowMaker) -> None:
    """For half an hour a emits three records for each that it takes: its service time has not fallen to a third."""
    window = make_window()
    figures = window.figures.copy()
    figures[30:, 1, FIGURE["records_out"]] *= 3.0
    figures[:, 1, FIGURE["busy_ms"]] *= np.where(np.arange(len(figures)) % 2, 1.01, 0.99)
    found = measured(replace(window, figures=figures))
    assert found.service_minutes[1] == pytest.approx(0.02, rel=0.02)
    assert found.spread[1] == 0.0


@pytest.mark.parametrize(
    ("load", "times", "visits"),
    [(100.0, 3.0, 3.0), (100.0, 0.25, 0.25), (100.0, 1.04, 1.01), (1.0, 1.5, 1.125)],
    ids=["a campaign", "a filter", "hardly", "so few that it may be chance"],
)
def test_visits_are_those_of_the_newest_minutes_once_they_have_moved(
    make_window: WindowMaker, load: float, times: float, visits: float
) -> None:
    """For a quarter of an hour a sends b more or fewer records; what is no move leaves the mean of the hour."""
    window = make_window(load=load)
    figures = window.figures.copy()
    figures[-15:, 1, FIGURE["records_out"]] *= times
    for name in ("records_in", "records_out", "busy_ms"):
        figures[-15:, 2, FIGURE[name]] *= times
    found = measured(replace(window, figures=figures))
    assert found.visits[2] == pytest.approx(visits, rel=0.01)
    assert found.visits[1] == 1.0


def test_demand_is_rate_times_service_time(make_window: WindowMaker) -> None:
    """100 records a minute at 0.02 minutes keep two subtasks busy."""
    np.testing.assert_allclose(measured(make_window()).demand(np.array(100.0)), [0, 2, 1, 0], atol=1e-5)


def test_a_slow_task_does_not_hide_the_demand_behind_it(make_window: WindowMaker) -> None:
    """While a lets only half of the load through and its queue grows, b is still sized for all of it."""
    window = make_window()
    figures = window.figures.copy()
    figures[:, 1:, FIGURE["records_in"]] = figures[:, 1:, FIGURE["records_out"]] = 50.0
    figures[:, 1:3, FIGURE["busy_ms"]] /= 2
    figures[:, 1, FIGURE["queued_records_last"]] = 50.0 * np.arange(1, 61)
    np.testing.assert_allclose(measured(replace(window, figures=figures)).demand(np.array(100.0)), [0, 2, 1, 0], atol=1e-5)


def test_a_task_known_to_have_had_nothing_to_do_needs_nothing(make_window: WindowMaker) -> None:
    """Ten known minutes without a record and without work are a demand of 0; fewer say nothing of its service time."""
    idle = measured(make_window(load=0.0, known=10))
    assert idle.service_minutes[1] == 0.0
    assert idle.demand(np.array(0.0))[1] == 0.0
    assert np.isnan(measured(make_window(load=0.0, known=9)).service_minutes[1])


def test_a_task_at_work_that_counts_nothing_has_no_known_demand(make_window: WindowMaker) -> None:
    """It does not count its records; that is no sign of none."""
    window = make_window(load=0.0)
    window.figures[-1, 1, FIGURE["busy_ms"]] = 30_000.0
    assert np.isnan(measured(window).service_minutes[1])
    stuck = make_window(load=0.0, queued=(5.0, 0.0))
    assert np.isnan(measured(stuck).service_minutes[1])


def test_the_mean_of_the_last_minutes_skips_unknown_ones() -> None:
    """Two known minutes are the last two known ones, however old."""
    load = np.array([1.0, 2.0, 4.0, np.nan, 6.0, np.nan])
    assert mean_of_last(load, 2) == pytest.approx(5.0)
    assert np.isnan(mean_of_last(np.full(3, np.nan), 2))


def test_minutes_unknown_long_ago_do_not_touch_the_mean_of_the_last_ones() -> None:
    """Whether all of the hour is known or only its end, the mean of five minutes has the same bits."""
    load = np.random.default_rng(3).uniform(0.0, 900.0, (4, 60))
    late = np.where(np.arange(60) < 7, np.nan, load)
    np.testing.assert_array_equal(mean_of_last(load, 5), mean_of_last(late, 5))
    assert mean_of_last(load, 90)[0] == pytest.approx(load[0].mean())


def diamond(processed_at_join: float, queue: np.ndarray | float = 0.0) -> np.ndarray:
    """Return visits of a diamond whose branches both emit 100 records a minute; ``queue``: of the join, at every minute's end."""
    specs = (TaskSpec(task="s"), TaskSpec(task="l", upstream=("s",)), TaskSpec(task="r", upstream=("s",)))
    topology = JobTopology(job="c/d", version=0, at_ms=0, tasks=(*specs, TaskSpec(task="j", upstream=("l", "r"))))
    figures = blank_figures(10, 4)
    figures[..., FIGURE["records_in"]] = figures[..., FIGURE["records_out"]] = 100.0
    figures[:, 3, FIGURE["records_in"]] = processed_at_join
    figures[:, 3, FIGURE["queued_records_last"]] = queue
    figures[..., FIGURE["coverage"]] = 1.0
    return measure(figures, job_graph(topology.tasks)).visits


def test_inputs_that_add_up_are_added_and_inputs_that_join_are_not() -> None:
    """A union of two branches gets both streams, a join one pair per record."""
    np.testing.assert_allclose(diamond(200.0), [1, 1, 1, 2])
    np.testing.assert_allclose(diamond(100.0), [1, 1, 1, 1])


def test_a_join_that_works_off_a_queue_is_no_union() -> None:
    """It processes more pairs than arrive; what came in from the window's queue is not what its parents sent."""
    queue = np.linspace(900.0, 0.0, 10)
    np.testing.assert_allclose(diamond(200.0, queue), [1, 1, 1, 1])


def two_sources() -> tuple[np.ndarray, JobGraph]:
    """Return figures of a job: x -> a, y -> b, both -> u; 100 records a minute from each source, .02 minutes a record."""
    upstream = {"x": (), "y": (), "a": ("x",), "b": ("y",), "u": ("a", "b")}
    figures = blank_figures(60, 5)
    figures[..., FIGURE["records_in"]] = figures[..., FIGURE["records_out"]] = [100, 100, 100, 100, 200]
    figures[..., FIGURE["busy_ms"]] = 60_000 * np.array([0, 0, 2, 2, 4])
    figures[..., FIGURE["coverage"]] = 1.0
    return figures, job_graph([TaskSpec(task=task, upstream=up, scalable=bool(up)) for task, up in upstream.items()])


def test_tasks_behind_a_source_that_never_reported_are_measured_by_their_own_count() -> None:
    """What it brings shows in what they take in; where they do not tell either, their demand is unknown and not 0."""
    figures, graph = two_sources()
    figures[:, 1] = np.nan
    np.testing.assert_allclose(measure(figures, graph).demand(np.array(100.0)), [0, 0, 2, 2, 4], rtol=1e-5)
    figures[:, [3, 4]] = np.nan
    np.testing.assert_allclose(measure(figures, graph).demand(np.array(100.0)), [0, np.nan, 2, np.nan, np.nan], rtol=1e-5)


def test_a_minute_without_one_of_the_sources_is_no_minute_of_less_load() -> None:
    """A hole in one source's figures is not half of the job's records gone."""
    figures, graph = two_sources()
    figures[-20:, 1] = np.nan
    seen = measure(figures, graph)
    np.testing.assert_array_equal(seen.load[:40], 200.0)
    assert np.isnan(seen.load[40:]).all()
    np.testing.assert_allclose(seen.visits, [0.5, 0.5, 0.5, 0.5, 1.0])


def test_sizes_behind_a_silent_source_stay_as_they_are() -> None:
    """A rule that took them for idle would leave one subtask each to their records."""
    figures, graph = two_sources()
    current = np.array([1, 1, 4, 4, 8])
    for silent in (slice(None), slice(-20, None)):
        seen = figures.copy()
        seen[silent, 1] = np.nan
        reading = read_figures(seen, graph, current, np.full(192, np.nan), np.array(0))
        wanted = TargetUtilisation().wanted(reading)
        assert (wanted[[3, 4]] >= [3, 6]).all(), wanted


def test_backlog_is_that_of_the_newest_reported_minute(make_window: WindowMaker) -> None:
    """A task that stopped reporting keeps the queue it last reported."""
    window = make_window(queued=(30.0, 0.0))
    figures = window.figures.copy()
    figures[-2:, 1] = np.nan
    seen = measured(replace(window, figures=figures))
    assert seen.backlog_records[1] == 30.0
    assert seen.backlog_minutes(np.array([1, 4, 2, 1]))[1] == pytest.approx(30 * 0.02 / 4)


def test_a_batch_is_measured_as_its_rows_one_by_one(make_window: WindowMaker) -> None:
    """Training measures many rows at once and must see the same figures as serving."""
    windows = [make_window(load=100.0), make_window(load=37.0, known=20), make_window(load=250.0, queued=(9.0, 4.0))]
    together = measure(np.stack([w.figures for w in windows]), job_graph(windows[0].topology.tasks))
    for row, window in enumerate(windows):
        alone = measured(window)
        np.testing.assert_array_equal(together.service_minutes[row], alone.service_minutes)
        np.testing.assert_array_equal(together.load[row], alone.load)
        np.testing.assert_array_equal(together.backlog_records[row], alone.backlog_records)
