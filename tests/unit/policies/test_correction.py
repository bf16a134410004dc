"""What the network's two outputs mean to a plan."""

import numpy as np
import pytest

from surescale.policies.graph import job_graph
from surescale.policies.sure.correction import Correction
from tests.unit.policies.conftest import chain_window

CHAIN = job_graph(chain_window().topology.tasks)  # source, a, b, sink


def test_zeros_change_nothing() -> None:
    """Service times are taken as measured, and a change must bring the plan's own least gain."""
    none = Correction.none(2, 4)
    assert none.caution.tolist() == np.ones((2, 4)).tolist()
    assert none.hurdle.tolist() == [1.0, 1.0]
    assert Correction.of(np.zeros((2, 4, 2)), CHAIN).residual.tolist() == none.residual.tolist()


def test_a_tasks_own_deviation_counts_less_than_its_jobs_mean() -> None:
    """Source and sink, which have no size, have no say in the mean."""
    outputs = np.array([[[9.0, 9.0], [1.0, 0.5], [3.0, 1.5], [9.0, 9.0]]])
    found = Correction.of(outputs, CHAIN)
    assert found.residual[0, 1:3] == pytest.approx([2.0 - 0.3, 2.0 + 0.3])
    assert found.ease == pytest.approx([1.0])


def test_corrections_are_bounded() -> None:
    """Whatever a network answers: service times times exp(0.7) at most, the least gain times exp(1.5) at most."""
    wild = Correction(np.array([[-1e9, 1e9]]), np.array([-1e9]))
    assert wild.caution[0] == pytest.approx([np.exp(-0.7), np.exp(0.7)])
    assert wild.hurdle == pytest.approx([np.exp(1.5)])
