"""Sizing by forecast: arithmetic, limits, and the target that pays best."""

from dataclasses import dataclass

import numpy as np
import pytest

from benchmarks.archive import load_job
from reproductions.sure.environment import View, follow, offsets, start, terms_of, week
from reproductions.sure.forecast_rule import ForecastRule, arrivals, tuned
from surescale.contracts.windows import FIGURE, blank_figures
from surescale.policies.answer import Float64
from surescale.simulation.load.jobs import PARALLELISM_MAX
from surescale.simulation.load.workload import load_workload
from surescale.simulation.loops.rows import LoopRows

CLARKNET = load_workload("clarknet")
JOB = load_job("j_2521346", CLARKNET)
TERMS = terms_of("clean")


@dataclass(frozen=True)
class Times:
    """Forecasts the same factor for every task."""

    factor: float

    def log_change(self, view: View) -> Float64:
        """Return the same for all."""
        return np.full(view.observed.current.shape, np.log(self.factor))


def view(rows: int = 3) -> View:
    """Return the observation of loops in week 1 before their first decision."""
    loops = LoopRows(JOB, week(CLARKNET, 1), offsets(rows), start(JOB, rows), TERMS)
    return View(loops.observe(), loops.graph, JOB, TERMS)


def test_what_waits_in_front_of_a_task_has_arrived_there() -> None:
    """Ten records a minute taken in and a queue that grows by four: fourteen; the first minute's growth is not known."""
    figures = blank_figures(1, 5, 2)
    figures[..., FIGURE["records_in"]] = 10.0
    figures[0, :, 1, FIGURE["queued_records_last"]] = [50, 54, 58, 62, 66]
    assert arrivals(figures).tolist() == [[10.0, 14.0]]


def test_a_task_gets_the_subtasks_that_the_forecast_keeps_as_busy_as_the_target() -> None:
    """p' = ceil(arrivals x service minutes / target)."""
    seen = view()
    needed = np.ceil(1.1 * arrivals(seen.observed.figures) * JOB.service_minutes / 0.8)
    found = ForecastRule(Times(1.1), 0.8).sizes(seen)
    np.testing.assert_array_equal(found[:, JOB.scalable], np.clip(needed, 1, 10)[:, JOB.scalable])


@pytest.mark.parametrize(("factor", "size"), [(1000.0, 2 * 5), (1e-6, 1)])
def test_a_forecast_moves_a_task_at_most_to_twice_its_size_and_within_its_bounds(factor: float, size: int) -> None:
    """Whatever the forecast."""
    found = ForecastRule(Times(factor), 0.5).sizes(view())
    assert (found[:, JOB.scalable] == min(size, PARALLELISM_MAX)).all()
    assert (found[:, ~JOB.scalable] == 1).all()


def test_rows_may_have_a_target_each() -> None:
    """Each row is sized as by a rule with only its target."""
    seen, targets = view(2), np.array([[0.3], [0.9]])
    found = ForecastRule(Times(1.0), targets).sizes(seen)
    for row, target in enumerate(targets[:, 0]):
        np.testing.assert_array_equal(found[row], ForecastRule(Times(1.0), target).sizes(seen)[row])


def test_the_target_is_the_one_that_pays_best_on_week_1() -> None:
    """Side by side or one after the other: the same rewards."""
    load = week(CLARKNET, 1)
    rule, paid = tuned(Times(1.0), JOB, load, TERMS, 2, 8)

    def reward(target: float) -> float:
        return float(follow(ForecastRule(Times(1.0), target), JOB, load, offsets(2), TERMS, 8).reward.mean())

    assert paid == pytest.approx(reward(float(rule.target)), abs=1e-12)
    assert all(paid >= reward(target) for target in (0.3, 0.6, 0.9))
