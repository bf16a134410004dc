"""Errors clustered by half-days and by job: what jobs or hours share is not counted as so many samples."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.clustered import Pair, difference
from surescale.simulation.evaluation.hours import BLOCK_HOURS, Hours, paired

FIRST = 14 * BLOCK_HOURS


def run(rewards: list[float], first: int = FIRST) -> Hours:
    """A run with one reward per block; without latency, utilisation is twice the reward."""
    utilisation = 2.0 * np.repeat(np.array([rewards]), BLOCK_HOURS, axis=1)
    zeros, ones = np.zeros_like(utilisation), np.ones_like(utilisation)
    return Hours(zeros, utilisation, ones, zeros, zeros.astype(np.int64), np.array([first]), latency_weight=0.5, latency_cap=10.0)


def pair(job: str, apart: list[float], load: str = "a") -> Pair:
    """A job in which the first policy is ahead by so much in each block."""
    return Pair(load, job, run(apart), run([0.0] * len(apart)))


BLOCKS = st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=8)


@given(BLOCKS)
def test_one_job_has_the_error_over_its_blocks(apart: list[float]) -> None:
    """As in the report of one evaluation."""
    only = pair("j", apart)
    found = difference([only])
    assert (found.mean, found.standard_error) == pytest.approx(paired(only.first, only.second), abs=1e-12)


@given(BLOCKS, st.integers(2, 6))
def test_the_same_hours_many_times_over_are_no_more_samples(apart: list[float], jobs: int) -> None:
    """Jobs under one load that all differ alike have the error of one of them."""
    many = difference([pair(f"j{at}", apart) for at in range(jobs)])
    assert many.standard_error == pytest.approx(difference([pair("j0", apart)]).standard_error, abs=1e-9)


@given(st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=6), st.integers(2, 8))
def test_what_a_job_does_in_all_hours_is_one_sample(levels: list[float], blocks: int) -> None:
    """Jobs that differ from one another but not over time have the error over jobs, however many hours there are."""
    found = difference([pair(f"j{at}", [level] * blocks) for at, level in enumerate(levels)])
    expected = np.std(levels, ddof=1) / math.sqrt(len(levels))
    # Within a block, jobs also differ: that part is taken off again, up to the correction for few blocks.
    assert found.standard_error == pytest.approx(expected, rel=0.5, abs=1e-9)
    assert found.mean == pytest.approx(np.mean(levels), abs=1e-12)


def test_hours_of_two_loads_are_apart() -> None:
    """The same hours of two loads are different hours: the error falls by the root of two, nearly."""
    one = difference([pair("j", [0.1, 0.3, 0.2, 0.6])])
    two = difference([pair("j", [0.1, 0.3, 0.2, 0.6], load) for load in "ab"])
    assert two.mean == pytest.approx(one.mean)
    assert two.standard_error == pytest.approx(one.standard_error * math.sqrt(3 / 7))
    assert two.errors == pytest.approx(two.mean / two.standard_error)


def test_a_single_block_of_a_single_job_has_no_error() -> None:
    """It says nothing of others."""
    found = difference([pair("j", [0.2])])
    assert found.mean == pytest.approx(0.2)
    assert math.isnan(found.standard_error)
    assert found.errors == 0.0
