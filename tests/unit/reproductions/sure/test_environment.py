"""The paper's setting: actions to sizes, weeks, runs, HPA's target."""

import numpy as np
import pytest

from benchmarks.archive import load_job
from reproductions.sure.environment import (
    DECISIONS,
    JOBS,
    RUNS,
    PaperMode,
    View,
    action_for,
    asked_for,
    follow,
    offsets,
    resized,
    sizes_of,
    start,
    terms_of,
    week,
)
from reproductions.sure.hpa import Hpa, tuned
from surescale.policies.graph import Int64
from surescale.simulation.load.workload import load_workload
from surescale.simulation.loops.terms import Terms

CLARKNET = load_workload("clarknet")
JOB = load_job("j_2521346", CLARKNET)


class Holds:
    """Never changes anything."""

    def sizes(self, view: View) -> Int64:
        """Return what is there."""
        return view.observed.current


def test_the_six_jobs_have_the_papers_numbers_of_tasks() -> None:
    """Source and sink included."""
    assert [load_job(name, CLARKNET).size for name in JOBS] == [6, 16, 25, 32, 40, 46]


def test_an_action_asks_for_one_plus_a_times_the_size() -> None:
    """Clean rounds half up; compat cuts the change towards zero, so one subtask is hard to leave."""
    current = np.array([[1, 1, 2, 5, 5, 1]])
    action = np.array([[0.9, 0.6, 0.49, -0.5, 1.0, 0.9]])
    assert sizes_of(action, current, JOB, terms_of("clean")).tolist() == [[1, 2, 3, 3, 10, 1]]
    assert sizes_of(action, current, JOB, terms_of("compat")).tolist() == [[1, 1, 3, 3, 10, 1]]


def test_compat_leaves_one_subtask_by_an_action_that_a_tanh_reaches() -> None:
    """Only a ratio of 2 does, and a mean action is below 1; so smaller actions ask for the same sizes."""
    one, terms = np.array([[1, 1, 1, 1, 1, 1]]), terms_of("compat")
    assert sizes_of(np.full((1, 6), 0.89), one, JOB, terms).tolist() == one.tolist()
    assert sizes_of(np.full((1, 6), 0.91), one, JOB, terms).tolist() == [[1, 2, 2, 2, 2, 1]]


@pytest.mark.parametrize("mode", ["clean", "compat"])
def test_actions_ask_for_the_sizes_they_stand_for(mode: PaperMode) -> None:
    """From any size to any other up to double, and slightly more so that rounding towards zero keeps it."""
    current, wanted = (each.ravel()[None] for each in np.meshgrid(np.arange(1, 11), np.arange(1, 11), indexing="ij"))
    action = action_for(wanted, current, terms_of(mode))
    reached = (action * (1 + 1e-9) <= 1.0) & (wanted <= 2 * current)
    asked = asked_for(action * (1 + 1e-9), current, terms_of(mode))
    np.testing.assert_array_equal(asked[reached], wanted[reached])


def test_fewer_sizes_are_stuck_at_one_when_actions_round_half_up() -> None:
    """Under random actions, rounding towards zero makes a size of one almost absorbing."""
    generator, stuck = np.random.default_rng(0), {}
    for mode in ("clean", "compat"):
        current = start(JOB, 200)
        for _ in range(60):
            action = np.clip(generator.normal(0.0, 0.61, current.shape), -1.0, 1.0)
            current = sizes_of(action, current, JOB, terms_of(mode))
        stuck[mode] = (current[:, JOB.scalable] == 1).mean()
    assert stuck["clean"] < 0.65
    assert stuck["compat"] > stuck["clean"] + 0.1


def test_weeks_do_not_overlap_and_runs_spread_over_one() -> None:
    """Week 2 begins where week 1 ends; ten runs begin on full hours, about every seventeenth, after a first window."""
    first, second = week(CLARKNET, 1), week(CLARKNET, 2)
    assert first.minutes == second.minutes == 10_080
    assert np.array_equal(np.concatenate([first.requests, second.requests]), CLARKNET.requests[:20_160])
    begins = offsets(RUNS)
    assert begins[0] == 60
    assert set(np.diff(begins)) == {16 * 60, 17 * 60}
    assert begins[-1] < 10_080
    assert DECISIONS * 60 + 60 == 10_080


def test_a_run_reports_what_the_reward_is_made_of() -> None:
    """Reward = -lambda latency + (1 - lambda) utilisation, per run; holding rescales nothing."""
    found = follow(Holds(), JOB, week(CLARKNET, 1), offsets(2), terms_of("clean"), 3)
    np.testing.assert_allclose(found.reward, -0.5 * found.latency + 0.5 * found.utilisation)
    assert found.rescales_per_day.tolist() == [0.0, 0.0]


def test_hpa_is_tuned_to_the_target_that_pays_best() -> None:
    """No other target is better on the same parts of week 1."""
    load, terms = week(CLARKNET, 1), terms_of("clean")
    best = tuned(JOB, load, terms, 2, 12)

    def reward(rule: Hpa) -> float:
        return float(follow(rule, JOB, load, offsets(2), terms, 12).reward.mean())

    assert all(reward(best) >= reward(Hpa(target)) for target in (0.3, 0.6, 0.9))


def test_one_almost_absorbs_under_the_papers_rounding_and_not_under_ours() -> None:
    """From 1, a ratio of 1.99 stays at 1 in compat and becomes 2 in clean."""
    one, ratio = np.array([[1, 1]]), np.array([[1.99, 2.0]])
    assert resized(one, ratio, Terms("compat")).tolist() == [[1, 2]]
    assert resized(one, ratio, Terms("clean")).tolist() == [[2, 2]]
    assert resized(np.array([[2, 5]]), np.array([[0.6, 0.5]]), Terms("compat")).tolist() == [[2, 3]]


def test_random_actions_leave_every_task_at_one_when_truncated_and_half_of_them_when_rounded_half_up() -> None:
    """Symmetric ratios drift downward (0.5 x 1.5 < 1), but only truncation has no way back."""
    ratios = 1 + np.random.default_rng(2).uniform(-1, 1, (200, 64, 10))
    above: dict[str, float] = {}
    for mode in ("clean", "compat"):
        size = np.full((64, 10), 5)
        for ratio in ratios:
            size = np.clip(resized(size, ratio, Terms(mode)), 1, 10)
        above[mode] = float((size > 1).mean())
    assert above["compat"] < 0.01
    assert above["clean"] > 0.45
