"""Hours, means, intervals and paired differences."""

from dataclasses import replace

import numpy as np
import pytest

from surescale.simulation.evaluation.hours import Hours, hours_of, interval, paired
from surescale.simulation.loops.rows import LoopRows
from surescale.simulation.loops.terms import Mode, Terms
from tests.unit.simulation.cases import chain, sized, workload
from tests.unit.simulation.evaluation.cases import small, wave


def hours(rewards: list[list[float]], weight: float = 1.0, first: int = 0) -> Hours:
    """Return hours without latency whose rewards are the utilisation."""
    values = np.array(rewards)
    zeros = np.zeros(values.shape)
    return Hours(
        latency=zeros,
        utilisation=values,
        weight=np.full(values.shape, weight),
        task_minutes=zeros,
        rescales=zeros.astype(np.int64),
        first=np.full(len(values), first, dtype=np.int64),
        latency_weight=0.0,
        latency_cap=10.0,
    )


def test_six_spans_make_an_hour() -> None:
    """Ten minutes at a time or an hour at once: the same latency, utilisation and subtask-minutes."""
    job = sized(small(), 3.0, 200)
    found = []
    for minutes in (10, 60):
        terms = Terms(span_minutes=minutes)
        rows = LoopRows(job, wave(), np.array([600]), job.start_parallelism[None], terms)
        spans = [rows.step(rows.parallelism) for _ in range(240 // minutes)]
        found.append(hours_of(spans, terms, np.array([600]), job))
    for name in ("latency", "utilisation", "task_minutes", "weight"):
        assert getattr(found[0], name) == pytest.approx(getattr(found[1], name), rel=1e-9)
    assert found[0].rewards.shape == (1, 4)


@pytest.mark.parametrize(("mode", "at_cap"), [("clean", 4.0), ("slo", 4.0), ("compat", 0.0)])
def test_hours_at_the_cap_are_those_of_the_mode(mode: Mode, at_cap: float) -> None:
    """Four hours at twice the capacity: ten minutes in ``clean``, ten minutes over the SLO in ``slo``; ``compat`` has no cap."""
    job, sizes = sized(chain(1.0)), np.array([[1, 1, 1]])
    rows = LoopRows(job, workload([200] * 600), np.array([60]), sizes, Terms(mode, span_minutes=60))
    spans = [rows.step(sizes) for _ in range(4)]
    assert hours_of(spans, rows.terms, np.array([60]), job).hours_at_cap == at_cap


def test_the_interval_holds_the_mean_and_narrows_without_spread() -> None:
    """Constant rewards have no interval; noise has one around the mean."""
    assert interval(hours([[0.5] * 48]), seed=0) == (0.5, 0.5)
    noisy = hours(np.random.default_rng(0).normal(0.2, 0.1, (3, 240)).tolist())
    low, high = interval(noisy, seed=0)
    assert low < noisy.mean(noisy.rewards) < high
    assert (low, high) == interval(noisy, seed=0)


def test_blocks_follow_the_workloads_own_time() -> None:
    """Two runs over the same hours give no more blocks than one, so no narrower interval."""
    once = np.random.default_rng(1).normal(0.0, 0.1, (1, 120)).tolist()
    assert interval(hours(once * 2), seed=0) == pytest.approx(interval(hours(once), seed=0))


def test_paired_differences_forget_what_both_share() -> None:
    """Rewards that swing by one and differ by 0.1 throughout: a difference of 0.1 with no error."""
    swing = np.sin(np.arange(72))
    mean, error = paired(hours([(swing + 0.1).tolist()]), hours([swing.tolist()]))
    assert mean == pytest.approx(0.1)
    assert error == pytest.approx(0.0, abs=1e-12)


def test_paired_errors_are_those_of_block_means() -> None:
    """Two blocks that differ by 0 and by 0.2: mean 0.1, standard error 0.1."""
    mean, error = paired(hours([[0.0] * 12 + [0.2] * 12]), hours([[0.0] * 24]))
    assert (mean, error) == pytest.approx((0.1, 0.1))


def test_hours_in_gaps_do_not_count() -> None:
    """Neither in the mean nor in the worst hour."""
    mixed = hours([[0.4, -9.0, 0.6]])
    masked = replace(mixed, weight=np.array([[1.0, 0.0, 1.0]]))
    assert masked.mean(masked.rewards) == pytest.approx(0.5)
    assert masked.worst == pytest.approx(0.4)
