"""The encoder: golden values worked by hand, masks, batches."""

from dataclasses import replace

import numpy as np
import pytest

from surescale.contracts.messages import TaskSpec
from surescale.contracts.windows import FIGURE, Window
from surescale.policies.features import FEATURE_VERSION, SLOTS, SLOTS_SHA256, SURE_WIDTH, WIDTH, Encoded, encode
from surescale.policies.graph import job_graph
from tests.unit.policies.conftest import END_MS, WindowMaker


def encoded(window: Window) -> Encoded:
    """Encode a window by itself."""
    ends = np.array(window.window_end_ms)
    return encode(window.figures, job_graph(window.topology.tasks), ends, window.hourly_load)


def slot(window: Window, name: str, minute: int = -1) -> np.ndarray:
    """Return one slot of all tasks in one minute."""
    return encoded(window).x[minute, :, SLOTS.index(name)]


def test_there_are_27_slots_of_sure_and_18_of_ours() -> None:
    """A change of slots is a change of version: this test has to change with both."""
    assert WIDTH == 45
    assert SLOTS[27] == "day_sin"
    assert (FEATURE_VERSION, SLOTS_SHA256[:12]) == (1, "fbbda322f718")


GOLDEN = [
    # The window: 100 records a minute; a takes .02 and b .01 minutes each; 30 records wait at a; a has 4 subtasks, b 2.
    ("queue_log", [0, np.log(31), 0, 0]),
    ("queue_per_instance_log", [0, np.log(8.5), 0, 0]),
    ("drain_minutes_log", [0, np.log(1.15), 0, 0]),  # 30 x .02 / 4
    ("wait_minutes_log", [0, np.log(1.3), 0, 0]),  # 30 record-minutes over 100 records
    ("utilisation", [0, 0.5, 0.5, 0]),
    ("parallelism_share", [1, 0.4, 0.2, 1]),
    ("latency_log", [0, np.log(1.32), np.log(1.01), 0]),
    ("parents_count_log", [0, np.log(2), np.log(2), np.log(2)]),
    ("parents_latency_mean_log", [0, 0, np.log(1.32), np.log(1.01)]),
    ("children_latency_sum_log", [np.log(1.32), np.log(1.01), 0, 0]),
    ("job_utilisation", [0.5, 0.5, 0.5, 0.5]),  # 3 busy of 6
    ("level_code_0", np.sin([1, 2, 3, 4])),
    ("level_code_1", np.cos([1, 2, 3, 4])),
    ("minute_code_0", [0, 0, 0, 0]),  # the window ends at 08:00
    ("day_sin", [np.sin(2 * np.pi / 3)] * 4),
    ("trend_5", [0, 0, 0, 0]),
    ("demand", [0, 2, 1, 0]),
    ("demand_share", [0, 0.5, 0.5, 0]),
    ("backlog_minutes_log", [0, np.log(1.15), 0, 0]),
    ("scalable", [0, 1, 1, 0]),
    ("reported", [1, 1, 1, 1]),
]


@pytest.mark.parametrize(("name", "expected"), GOLDEN, ids=[name for name, _ in GOLDEN])
def test_slots_of_a_tiny_job_are_as_worked_by_hand(make_window: WindowMaker, name: str, expected: list[float]) -> None:
    """Four tasks in steady state."""
    np.testing.assert_allclose(slot(make_window(queued=(30.0, 0.0)), name), expected, atol=1e-5)


def test_trends_compare_the_last_minutes_with_the_hour(make_window: WindowMaker) -> None:
    """Five minutes at 220 after 55 at 100: the hour's mean is 110, the trend log 2."""
    window = make_window()
    window.figures[-5:, :, FIGURE["records_in"]] = window.figures[-5:, :, FIGURE["records_out"]] = 220.0
    assert slot(window, "trend_5")[1] == pytest.approx(np.log(2), abs=1e-5)
    assert slot(window, "hour_peak")[1] == pytest.approx(np.log(2), abs=1e-5)


def test_yesterday_says_how_load_grew_after_this_hour(make_window: WindowMaker) -> None:
    """At 08:00 yesterday's hour from 7 had 50 records a minute and the one from 8 had 100: growth log 2, level log .5."""
    hours = np.full(192, np.nan)
    hours[191 - 24], hours[191 - 23] = 50.0, 100.0
    window = make_window(load=100.0, hourly_load=hours)
    # The hour that ends at 08:00 began at 07:00; nothing of the hour before it is needed.
    assert slot(window, "yesterday_known")[1] == 0.0  # 06:00 of yesterday is unknown
    hours[191 - 25] = 50.0
    window = make_window(load=100.0, hourly_load=hours)
    assert slot(window, "yesterday_growth")[1] == pytest.approx(np.log(2), abs=1e-5)
    assert slot(window, "yesterday_level")[1] == pytest.approx(np.log(0.5), abs=1e-5)


def test_an_unreported_task_minute_is_zero_and_masked(make_window: WindowMaker) -> None:
    """NaN never reaches a network."""
    window = make_window(known=7)
    window.figures[-1, 2] = np.nan
    result = encoded(window)
    assert not np.isnan(result.x).any()
    assert result.mask.sum() == 7 * 4 - 1
    assert not result.x[~result.mask].any()


@pytest.mark.parametrize("figure", ["queue_wait_record_ms", "latency_record_ms"])
def test_littles_law_stands_in_for_a_figure_that_an_engine_lacks(make_window: WindowMaker, figure: str) -> None:
    """An engine without waiting times gets the same slots from its mean queues."""
    window = make_window(queued=(30.0, 0.0))
    lacking = replace(window, figures=window.figures.copy())
    lacking.figures[..., FIGURE[figure]] = np.nan
    np.testing.assert_allclose(encoded(lacking).x, encoded(window).x, atol=1e-5)


def test_latency_keeps_its_last_value_while_nothing_is_processed(make_window: WindowMaker) -> None:
    """Ten idle minutes do not turn a slow task into a fast one."""
    window = make_window(queued=(30.0, 0.0))
    for name in ("records_in", "latency_record_ms", "queue_wait_record_ms"):
        window.figures[-10:, 1, FIGURE[name]] = 0.0
    assert slot(window, "latency_log")[1] == pytest.approx(np.log(1.32), abs=1e-4)


def test_a_batch_encodes_as_its_rows_one_by_one(make_window: WindowMaker) -> None:
    """Training encodes many windows at once with the very code of serving."""
    windows = [make_window(load=100.0), make_window(load=40.0, known=9), make_window(load=250.0, queued=(9.0, 4.0))]
    graph = job_graph(windows[0].topology.tasks)
    hours = np.stack([w.hourly_load for w in windows])
    together = encode(np.stack([w.figures for w in windows]), graph, np.full(3, END_MS), hours)
    for row, window in enumerate(windows):
        np.testing.assert_array_equal(together.x[row], encoded(window).x)


@pytest.mark.parametrize("queued", [(0.0, 0.0), (30.0, 0.0)])
def test_the_slots_of_sure_are_the_same_without_the_others(make_window: WindowMaker, queued: tuple[float, float]) -> None:
    """Who reads 27 slots pays for no more, and gets the same bits."""
    window = make_window(queued=queued, known=9)
    graph, end = job_graph(window.topology.tasks), np.array(window.window_end_ms)
    narrow = encode(window.figures, graph, end, window.hourly_load, width=SURE_WIDTH)
    assert narrow.x.shape == (60, 4, SURE_WIDTH)
    np.testing.assert_array_equal(narrow.x, encoded(window).x[..., :SURE_WIDTH])


def test_a_queue_has_the_same_bits_among_few_queues_and_among_many(make_window: WindowMaker) -> None:
    """Where few task-minutes wait, only these get a logarithm; one window must not see which way its batch went."""
    quiet, busy = make_window(), make_window(queued=(30.0, 7.0))
    quiet.figures[40:43, 1, FIGURE["queued_records_last"]] = (3.0, 11.0, 29.0)
    graph, hours = job_graph(quiet.topology.tasks), np.stack([quiet.hourly_load] * 4)
    for others in (quiet, busy):
        figures = np.stack([quiet.figures, *[others.figures] * 3])
        together = encode(figures, graph, np.full(4, END_MS), hours)
        np.testing.assert_array_equal(together.x[0], encoded(quiet).x)


def test_figures_laid_out_as_the_simulators_encode_alike(make_window: WindowMaker) -> None:
    """Each figure in one piece, tasks first: read in place, never written to."""
    window = make_window(queued=(30.0, 0.0))
    planes = np.ascontiguousarray(window.figures.transpose(2, 1, 0))
    before = planes.copy()
    ends = np.array(window.window_end_ms)
    laid_out = encode(planes.transpose(2, 1, 0), job_graph(window.topology.tasks), ends, window.hourly_load)
    np.testing.assert_allclose(laid_out.x, encoded(window).x, atol=1e-6)
    np.testing.assert_array_equal(planes, before)


def test_a_wide_job_keeps_its_nearest_neighbours() -> None:
    """Two hundred tasks around one: each has 64 neighbours, the nearest first, then the lower index."""
    table = job_graph([TaskSpec(task="hub"), *(TaskSpec(task=f"t{at}", upstream=("hub",)) for at in range(200))]).neighbours
    assert table.known.all()
    assert table.index[0].tolist() == list(range(1, 65))
    assert table.index[70].tolist() == [0, *range(1, 64)]


def test_neighbours_are_within_three_hops_and_source_and_sink_are_no_bridges() -> None:
    """Of two branches between source and sink neither sees the other; along a chain the fourth task is too far."""
    chain = [TaskSpec(task="t0", scalable=False)]
    chain += [TaskSpec(task=f"t{i}", upstream=(f"t{i - 1}",)) for i in range(1, 6)]
    other = TaskSpec(task="other", upstream=("t0",))
    table = job_graph([*chain, other]).neighbours
    near = [sorted(table.index[i][table.known[i]].tolist()) for i in range(7)]
    assert near[1] == [0, 2, 3, 4]
    assert near[6] == [0]
