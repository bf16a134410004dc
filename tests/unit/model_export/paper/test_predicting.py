"""Sizing by forecast: arithmetic, limits, and the target that pays best."""

from dataclasses import dataclass

import numpy as np
import pytest

from contracts.windows import FIGURE, FIGURES
from model_export.paper.predicting import Predicting, arrivals, tuned
from model_export.paper.world import View, follow, offsets, start, terms_of, week
from policies.proposal import Float64
from simulation.jobs import PARALLELISM_MAX, load_job
from simulation.loop import LoopRows
from simulation.workload import load_workload

CLARKNET = load_workload("clarknet")
JOB = load_job("j_2521346", CLARKNET)
TERMS = terms_of("clean")


@dataclass(frozen=True)
class Times:
    """Forecasts that every task gets so many times what it got."""

    factor: float

    def log_change(self, view: View) -> Float64:
        """Return the same for all."""
        return np.full(view.observed.current.shape, np.log(self.factor))


def view(rows: int = 3) -> View:
    """Return what loops of week 1 show before their first decision."""
    loops = LoopRows(JOB, week(CLARKNET, 1), offsets(rows), start(JOB, rows), TERMS)
    return View(loops.observe(), loops.graph, JOB, TERMS)


def test_what_waits_in_front_of_a_task_has_arrived_there() -> None:
    """Ten records a minute taken in and a queue that grows by four: fourteen; the first minute's growth is not known."""
    figures = np.zeros((1, 5, 2, len(FIGURES)), dtype=np.float32)
    figures[..., FIGURE["records_in"]] = 10.0
    figures[0, :, 1, FIGURE["queued_records_last"]] = [50, 54, 58, 62, 66]
    assert arrivals(figures).tolist() == [[10.0, 14.0]]


def test_a_task_gets_the_subtasks_that_the_forecast_keeps_as_busy_as_the_target() -> None:
    """p' = ceil(arrivals x service minutes / target)."""
    seen = view()
    needed = np.ceil(1.1 * arrivals(seen.observed.figures) * JOB.service_minutes / 0.8)
    found = Predicting(Times(1.1), 0.8).sizes(seen)
    np.testing.assert_array_equal(found[:, JOB.scalable], np.clip(needed, 1, 10)[:, JOB.scalable])


@pytest.mark.parametrize(("factor", "size"), [(1000.0, 2 * 5), (1e-6, 1)])
def test_a_forecast_moves_a_task_at_most_to_twice_its_size_and_within_its_bounds(factor: float, size: int) -> None:
    """Whatever it says."""
    found = Predicting(Times(factor), 0.5).sizes(view())
    assert (found[:, JOB.scalable] == min(size, PARALLELISM_MAX)).all()
    assert (found[:, ~JOB.scalable] == 1).all()


def test_rows_may_have_a_target_each() -> None:
    """A row is sized as by a rule with its target alone."""
    seen, targets = view(2), np.array([[0.3], [0.9]])
    found = Predicting(Times(1.0), targets).sizes(seen)
    for row, target in enumerate(targets[:, 0]):
        np.testing.assert_array_equal(found[row], Predicting(Times(1.0), target).sizes(seen)[row])


def test_the_target_is_the_one_that_pays_best_on_week_1() -> None:
    """Side by side or one after the other: the same rewards."""
    load = week(CLARKNET, 1)
    rule, paid = tuned(Times(1.0), JOB, load, TERMS, 2, 8)

    def reward(target: float) -> float:
        return float(follow(Predicting(Times(1.0), target), JOB, load, offsets(2), TERMS, 8).reward.mean())

    assert paid == pytest.approx(reward(float(rule.target)), abs=1e-12)
    assert all(paid >= reward(target) for target in (0.3, 0.6, 0.9))
