"""What a run came to, by hand on small series."""

import numpy as np
import pytest

from surescale.simulation.engine.job_report import JobLedger, weighted_percentile
from surescale.simulation.model.reward import block_reward, latency_minutes, mean_reward
from tests.unit.simulation.cases import chain, column, rows, sized


def ledger(parallelism: int, *requests: float) -> JobLedger:
    """Return the ledger of a job of one task that serves 100 records a minute per instance."""
    job = sized(chain(1.0))
    flow_rows, noted = rows(job, parallelism), JobLedger(job.path_minutes)
    for minute, load in enumerate(requests):
        noted.note(flow_rows.advance(column(load)), [parallelism], rescaled=minute == 1)
    return noted


def test_the_reward_weighs_latency_and_utilisation() -> None:
    """100 records waited 20 record-minutes on a path of 0.1: latency 0.3; 2 of 4 instance-minutes busy."""
    reward = block_reward(np.array([100.0]), np.array([20.0]), np.array([2.0]), np.array([4.0]), 0.1, 0.5)
    assert reward.tolist() == pytest.approx([-0.5 * 0.3 + 0.5 * 0.5])


def test_a_blocks_latency_is_capped_at_ten_minutes() -> None:
    """An hour of delay costs no more than ten minutes."""
    reward = block_reward(np.array([1.0]), np.array([60.0]), np.array([0.0]), np.array([4.0]), 0.1, 1.0)
    assert reward.tolist() == [-10.0]


def test_a_minute_without_arrivals_has_the_path_or_the_cap() -> None:
    """Nothing to divide by: the cap when something waited."""
    assert latency_minutes(np.array([0.0, 5.0]), np.zeros(2), 0.1).tolist() == pytest.approx([0.1, 10.1])


def test_a_last_shorter_block_counts_by_its_minutes() -> None:
    """Sixty minutes at utilisation 1, thirty at 0."""
    busy = np.array([1.0] * 60 + [0.0] * 30)
    assert mean_reward(np.ones(90), np.zeros(90), busy, np.ones(90), 0.0, 0.0) == pytest.approx(2 / 3)


def test_percentiles_are_weighted_by_records() -> None:
    """One slow minute with few records does not move the 99th percentile."""
    values, weights = np.array([1.0, 50.0, 2.0]), np.array([500.0, 4.0, 496.0])
    assert weighted_percentile(values, weights, 0.99) == 2.0
    assert weighted_percentile(values, weights, 0.999) == 50.0


def test_a_report_adds_up_a_run() -> None:
    """One instance: 80, 150, 50 requests; 50 wait at the end of the second minute and none at the end of the third."""
    report = ledger(1, 80, 150, 50).report()
    assert (report.task_minutes, report.overload_minutes, report.rescales, report.minutes) == (3, 1, 1, 3)
    assert report.utilisation == pytest.approx(280 / 300)
    assert report.latency_mean_s == pytest.approx(60 * (50 / 280 + 0.01))
    assert (report.load_records_per_minute, report.parallelism) == (50.0, (1, 1, 1))


def test_a_run_that_has_not_begun_has_an_empty_report() -> None:
    """Zeros, no errors."""
    report = ledger(1).report()
    assert (report.reward, report.latency_p99_s, report.utilisation, report.parallelism) == (0.0, 0.0, 0.0, ())


def test_a_job_that_waits_throughout_has_no_utilisation() -> None:
    """It was allocated nothing: the figure is 0 and no nonsense."""
    noted = JobLedger(0.1)
    noted.note(rows(sized(chain(1.0)), 1).advance(column(0)), [0], rescaled=False)
    assert noted.report().utilisation == 0.0
