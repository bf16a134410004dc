"""Who serves after a tournament: margin, the twin's error, and what serves now as the one to beat."""

import math
from dataclasses import replace

import numpy as np
import pytest

from surescale.contracts.messages import Tuning
from surescale.policies.registry import load_policy
from surescale.simulation.tournament.candidates import Candidate
from surescale.simulation.tournament.score import Aim, Scored, TwinError, lead
from surescale.simulation.tournament.verdict import MARGIN, Verdict, verdict

HOURS, DRAWS = 72, 4
AIM = Aim(latency_weight=0.5, bound=None, path_minutes=0.0)
EXACT = TwinError(working=0.0, waiting=0.0)
NAMES = ("hold", "ds2-gate", "forecast", "static")


def scored(utilisation: float, waiting: float = 0.1, noise: float = 0.001, seed: int = 0) -> Scored:
    """Return hours around a utilisation and a latency in minutes."""
    generator = np.random.default_rng(seed)
    shape = (DRAWS, HOURS)
    return Scored(
        waiting=np.full(shape, waiting),
        working=utilisation + noise * generator.standard_normal(shape),
        weight=np.ones(shape),
        rescales=3.0,
        rent=24.0 * 10.0 / utilisation,
        late=60.0 * waiting,
    )


def found(*hours: Scored, error: TwinError = EXACT, serving: int = 0, own: int = 0, has_left: str = "") -> Verdict:
    """Return the verdict over candidates with these hours."""
    names = [Candidate.of(load_policy(name)) for name in NAMES]
    return verdict(list(zip(names, hours, strict=False)), AIM, error, serving=serving, own=own, seed=0, has_left=has_left)


def test_the_best_one_wins_by_a_margin_and_its_reason_has_the_figures() -> None:
    """Three hundredths of utilisation are .015 of reward."""
    verdict_ = found(scored(0.60), scored(0.62, seed=1), scored(0.63, seed=2))
    assert (verdict_.change, verdict_.winner.candidate.name) == ("wins", "forecast")
    rent = "with 381 subtask-hours a day instead of 400, 6.0 late minutes instead of 6.0 and 3.0 rescales instead of 3.0"
    assert verdict_.why.startswith(f"forecast is ahead of hold {rent}: by 0.015")
    assert [place.candidate.name for place in verdict_.places] == ["forecast", "ds2-gate", "hold"]


def test_late_minutes_that_nobody_knows_are_told_as_such() -> None:
    """Work and waiting may be known where no record left: the reason for a winner holds no figure that is none."""
    verdict_ = found(scored(0.60), replace(scored(0.63, seed=1), late=math.nan))
    assert verdict_.change == "wins"
    assert "with 381 subtask-hours a day instead of 400, late minutes that are unknown and 3.0 rescales" in verdict_.why


def test_less_than_the_margin_changes_nothing() -> None:
    """However sure the difference is."""
    verdict_ = found(scored(0.60), scored(0.60 + 1.9 * MARGIN, seed=1))
    assert verdict_.change == "stays"
    assert verdict_.winner is verdict_.serving
    assert "too little to tell or to pay" in verdict_.why


def test_a_lead_within_chance_changes_nothing() -> None:
    """The interval of the difference holds zero."""
    assert found(scored(0.60, noise=0.5), scored(0.64, noise=0.5, seed=1)).change == "stays"


def test_a_lead_within_the_twins_error_changes_nothing() -> None:
    """Half the work more or less: the difference in utilisation may be half as large."""
    hours = scored(0.60), scored(0.615, seed=1)
    assert found(*hours).change == "wins"
    assert found(*hours, error=TwinError(working=0.5, waiting=0.0)).change == "stays"


def test_latency_that_the_recording_does_not_check_wins_nothing() -> None:
    """A gain in it counts as nothing, and a loss as twice as much."""
    unchecked = TwinError(working=0.0, waiting=1.0)
    assert found(scored(0.60, 0.5), scored(0.60, 0.1, seed=1), error=unchecked).change == "stays"
    paid = scored(0.66, 0.12, seed=1)  # .03 of utilisation's reward for .01 of latency's
    assert found(scored(0.60, 0.1), paid, error=unchecked).change == "wins"
    assert found(scored(0.60, 0.1), scored(0.62, 0.11, seed=1), error=unchecked).change == "stays"


def test_who_serves_now_has_to_be_beaten_by_the_margin_too() -> None:
    """A former winner stays where its own policy, or another, is ahead by less: no change for change's sake."""
    hours = scored(0.600), scored(0.610, seed=1), scored(0.617, seed=2)
    assert found(*hours, serving=1, own=0).change == "stays"
    better = scored(0.600), scored(0.610, seed=1), scored(0.630, seed=2)
    verdict_ = found(*better, serving=1, own=0)
    assert (verdict_.change, verdict_.winner.candidate.name) == ("wins", "forecast")


def test_a_former_winner_that_is_no_longer_ahead_goes() -> None:
    """Nothing speaks for it any more, so what the people chose serves again."""
    verdict_ = found(scored(0.6005), scored(0.600, seed=1), serving=1, own=0)
    assert (verdict_.change, verdict_.winner.candidate.name) == ("ends", "hold")
    assert "no longer ahead of hold" in verdict_.why


def test_a_former_winner_that_its_job_has_left_goes_whatever_the_twin_says() -> None:
    """Reality has the last word."""
    verdict_ = found(scored(0.5), scored(0.7, seed=1), serving=1, own=0, has_left="A record waited 90 s.")
    assert (verdict_.change, verdict_.winner.candidate.name) == ("ends", "hold")
    assert "A record waited 90 s." in verdict_.why


def test_its_own_policy_that_is_ahead_ends_a_former_winner() -> None:
    """It needs no release: without one, it serves."""
    verdict_ = found(scored(0.65), scored(0.60, seed=1), serving=1, own=0)
    assert (verdict_.change, verdict_.winner.candidate.name) == ("ends", "hold")


def test_alone_nobody_is_ahead() -> None:
    """A tournament of one changes nothing."""
    assert found(scored(0.6)).why == "No candidate is ahead of hold."


def test_hours_in_a_gap_do_not_count() -> None:
    """A difference in them is none."""
    one, other = scored(0.60), scored(0.60)
    weight = np.ones((DRAWS, HOURS))
    weight[:, :24] = 0.0
    working = other.working.copy()
    working[:, :24] += 0.3
    masked = [replace(each, working=values, weight=weight) for each, values in ((one, one.working), (other, working))]
    ahead = lead(masked[1], masked[0], AIM, EXACT, seed=0)
    assert ahead.estimate.mean == pytest.approx(0.0, abs=1e-12)


def test_candidates_of_one_name_differ_by_their_constants() -> None:
    """What a release would name tells them apart."""
    rule = load_policy("ds2-gate")
    assert Candidate.of(rule).version != Candidate.of(rule, Tuning(constants={"need": 0.3})).version
