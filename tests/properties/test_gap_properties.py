"""Minutes that nobody counted, anywhere: they change no verdict by being unknown, and no figure becomes NaN by them."""

import json
import math
from dataclasses import fields, replace

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from surescale.contracts.job_settings import JobSettings, LatencyBound
from surescale.contracts.windows import Window
from surescale.policies.answer import Float64
from surescale.policies.registry import load_policy
from surescale.simulation.calibration.fit import CalibrationError, fit
from surescale.simulation.calibration.recorded import put_together
from surescale.simulation.evaluation.judge import judge
from surescale.simulation.evaluation.report import report_of
from surescale.simulation.load.workload import Workload
from surescale.simulation.model.worlds import CALM
from surescale.simulation.tournament.candidates import Candidate
from surescale.simulation.tournament.score import Aim, Scored, TwinError, lead
from surescale.simulation.tournament.verdict import expectation, verdict
from surescale.simulation.what_if.compare import check, compare
from surescale.simulation.what_if.play import Variant, play
from surescale.simulation.what_if.scenario import WhatIfError, scenario_of
from tests.support.reach import reached, reaches
from tests.support.simulated_recordings import sized, windows_of
from tests.unit.simulation.evaluation.cases import quiet, setting, wave

DRAWS, HOURS = 3, 24
AIM = Aim(latency_weight=0.5, bound=None, path_minutes=0.0)
RECORDED_HOURS = 7
JOB = sized("j_2521346")
WINDOWS = windows_of(JOB, CALM, RECORDED_HOURS)
SETTINGS = JobSettings(job=WINDOWS[0].job)

gaps = st.lists(st.tuples(st.integers(0, RECORDED_HOURS * 60 - 1), st.integers(1, 60)), min_size=1, max_size=3)
"""First minute and length of some stretches."""


@st.composite
def hours_of_two(draw: st.DrawFn) -> tuple[Scored, Scored, bool]:
    """Draw the hours of what serves and of a rival, unknown where they do not count and perhaps elsewhere in the rival's."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    weight = np.broadcast_to(
        generator.choice([0.0, 0.5, 1.0], HOURS, p=draw(st.sampled_from([(0.1, 0.1, 0.8), (0.9, 0.1, 0.0)]))), (DRAWS, HOURS)
    )

    def hours(level: float) -> Scored:
        working, waiting = (
            np.where(weight > 0, values, np.nan)
            for values in (level + 0.01 * generator.standard_normal((DRAWS, HOURS)), np.full((DRAWS, HOURS), 0.1))
        )
        return Scored(waiting, working, weight, rescales=1.0, rent=240.0, late=3.0)

    own, rival = hours(0.5), hours(draw(st.sampled_from([0.4, 0.5, 0.9])))
    at = draw(st.none() | st.integers(0, HOURS - 1))
    if at is not None:
        rival.working[:, at] = np.nan
    return own, rival, at is not None and bool(weight[0, at] > 0)


@reaches("wins", "stays", "an unknown figure")
@given(hours_of_two())
def test_what_is_unknown_wins_no_tournament(drawn: tuple[Scored, Scored, bool]) -> None:
    """A verdict is made of finite numbers, or what serves stays, and a sentence says why."""
    own, rival, is_unknown = drawn
    candidates = [Candidate.of(load_policy(name)) for name in ("hold", "static")]
    found = verdict(list(zip(candidates, (own, rival), strict=True)), AIM, TwinError(0.0, 0.0), serving=0, own=0, seed=0)
    reached(found.change)
    assert found.why
    if is_unknown:
        reached("an unknown figure")
        assert found.change == "stays"
    if found.change == "wins":
        assert found.lead is not None
        told = (found.winner.reward, found.serving.reward, found.lead.margin, *found.lead.in_halves, found.lead.estimate.low)
        assert all(map(math.isfinite, told))
    assert "nan" not in found.why


@given(hours_of_two())
def test_hours_that_do_not_count_change_no_lead(drawn: tuple[Scored, Scored, bool]) -> None:
    """Whatever stands in them."""
    own, rival, _ = drawn

    def filled(hours: Scored) -> Scored:
        return replace(
            hours, working=np.where(hours.weight > 0, hours.working, 9.0), waiting=np.where(hours.weight > 0, hours.waiting, 9.0)
        )

    error = TwinError(0.1, 0.1)
    as_drawn, as_filled = (lead(*pair, AIM, error, seed=0) for pair in ((rival, own), (filled(rival), filled(own))))
    np.testing.assert_equal(msgspec.structs.asdict(as_drawn.estimate), msgspec.structs.asdict(as_filled.estimate))
    np.testing.assert_equal(as_drawn.in_halves, as_filled.in_halves)


def with_gaps(drawn: list[tuple[int, int]]) -> list[Window]:
    """Return the windows of a recording in which nothing is known of some minutes."""
    unknown = np.zeros(RECORDED_HOURS * 60, dtype=np.bool_)
    for first, length in drawn:
        unknown[first : first + length] = True
    found = []
    for window, own in zip(WINDOWS, unknown.reshape(RECORDED_HOURS, 60), strict=True):
        figures = window.figures.copy()
        figures[own] = np.nan
        found.append(replace(window, figures=figures))
    return found


@reaches("played")
@hypothesis_settings(max_examples=6)
@given(gaps)
def test_a_recording_with_gaps_is_played_in_numbers_or_refused(drawn: list[tuple[int, int]]) -> None:
    """Calibration, its check, what-if, a tournament's score and what it expects of the winner."""
    windows = with_gaps(drawn)
    recorded = put_together(windows[0].job, windows)
    try:
        fitted = fit(recorded)
        ground = scenario_of(recorded, fitted)
        checked = check(recorded, 60.0, draws=2, told=quiet)
    except (CalibrationError, WhatIfError):
        return  # too much of it is unknown, and one line says so
    reached("played")
    json.dumps(msgspec.to_builtins(fitted.world), allow_nan=False)
    variants = [Variant(name, load_policy(name), SETTINGS, None) for name in ("hold", "ds2-gate")]
    played = [(each, [play(ground, each, draw=draw, seed=0, told=quiet) for draw in range(2)]) for each in variants]
    for outcome in compare(played, checked, ground.job.path_minutes, seed=0).outcomes:
        for figure in outcome.figures.values():
            assert np.isfinite([figure.mean, figure.low, figure.high]).all()
    for aim in (AIM, Aim.of(JobSettings(job=SETTINGS.job, objective=LatencyBound(seconds=60.0)), 0.0)):
        for _, draws in played:
            scored = Scored.of(draws, ground, aim)
            assert all(np.isfinite(getattr(scored, field.name)).all() for field in fields(Scored))
            assert math.isfinite(scored.mean(scored.rewards(aim)))
    expected = expectation(played[0][1], ground, TwinError.of(checked))
    assert all(map(math.isfinite, msgspec.structs.astuple(expected)))


@hypothesis_settings(max_examples=3)
@given(st.lists(st.tuples(st.integers(0, 1440 - 1), st.integers(1, 300)), min_size=1, max_size=3))
def test_a_load_with_gaps_is_evaluated_in_numbers(drawn: list[tuple[int, int]]) -> None:
    """Calibrated and judged, whichever minutes are unknown."""
    load: Float64 = wave(1).requests.astype(np.float64)
    for first, length in drawn:
        load[first : first + length] = np.nan
    asked = setting(Workload.counted("gaps", load, 0), runs=1)
    results = [judge(name, asked, quiet) for name in ("threshold", "static")]
    json.dumps(msgspec.to_builtins(report_of(asked, results, {each.name: 0.0 for each in results})), allow_nan=False)
