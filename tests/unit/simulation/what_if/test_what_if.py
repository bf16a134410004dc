"""A recorded job is played again: as it ran if nothing changes, and otherwise as its settings say."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.contracts.job_settings import ExcludedPeriod, JobSettings, LatencyBound, PeriodBounds
from surescale.contracts.windows import Window
from surescale.policies.registry import RULES, load_policy
from surescale.simulation.calibration.fit import fit
from surescale.simulation.calibration.recorded import put_together
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.hourly import HourlyFigures
from surescale.simulation.model.worlds import CALM, World, world_named
from surescale.simulation.what_if.compare import Check, check, compare
from surescale.simulation.what_if.play import Played, Variant, not_played, play, with_settings, with_utilisation
from surescale.simulation.what_if.scenario import Scenario, WhatIfError, scenario_of
from tests.support.simulated_recordings import sized, windows_of

JOB = sized("j_2521346")
SETTINGS = JobSettings(job="sim/j_2521346")
DEALT_EVENLY = 0  # a seed with which all partitions of a task bring as much


def quiet(share: float) -> None:
    """Hear progress and say nothing."""


def scenario(windows: list[Window]) -> Scenario:
    """Return the scenario of a recording."""
    recorded = put_together(windows[0].job, windows)
    return scenario_of(recorded, fit(recorded))


def variant(policy: str, **changes: object) -> Variant:
    """Return a variant at a dollar per subtask and hour."""
    return Variant(policy, load_policy(policy), with_settings(SETTINGS, changes), 1.0)


@pytest.mark.parametrize("world", [CALM, world_named("pressure"), world_named("dealt", seed=DEALT_EVENLY)])
def test_a_world_in_which_nothing_strays_is_foretold_exactly(world: World) -> None:
    """At the recorded sizes the last quarter has the busy time and the queues that were recorded."""
    windows = windows_of(JOB, world, 8)
    recorded = put_together(windows[0].job, windows)
    found = check(recorded, 60.0, draws=2, told=quiet)
    assert found.minutes == 120
    assert found.busy_error < 0.01
    assert found.waiting_range[0] == found.waiting_range[1] == pytest.approx(found.waiting)
    assert abs(found.waiting - found.waiting_recorded) < 0.05 * max(found.waiting_recorded, 20.0)


def test_a_job_that_is_left_alone_keeps_its_sizes_and_its_load() -> None:
    """``hold`` pays for the sizes of the first minute; every record of the recording arrives."""
    found = scenario(windows_of(JOB, CALM, 6))
    played = play(found, variant("hold"), draw=0, seed=0, told=quiet)
    assert played.subtasks.tolist() == [float(found.job.start_parallelism[1:-1].sum())] * found.hours * 60
    assert played.arrivals.sum() == found.load.sum()
    assert not played.rescales.any()


def test_forecasts_look_back_on_the_hours_before_the_recording() -> None:
    """Means and peaks of the eight days before it are those of its first window."""
    windows = windows_of(JOB, CALM, 6)
    generator = np.random.default_rng(1)
    hourly = np.round(generator.uniform(500, 600, 192)).astype(np.float32)
    peaks = np.round(hourly * generator.uniform(1.3, 1.8, 192)).astype(np.float32)
    windows[0] = replace(windows[0], hourly_load=hourly, hourly_peak=peaks)
    found = scenario(windows)
    at = np.array([found.lead_minutes])
    assert found.lead_minutes % 60 == 0
    before = HourlyFigures.loads(found.workload.requests, found.workload.masked).before(at)[0]
    highest = HourlyFigures.peaks(found.workload.requests, found.workload.masked).before(at)[0]
    np.testing.assert_allclose(before, np.concatenate([before[:1], hourly[:-1]]), rtol=0.01)
    np.testing.assert_allclose(highest[1:], peaks[:-1], rtol=0.01)


def test_bounds_are_those_of_engine_and_settings_not_of_the_simulator() -> None:
    """A task whose engine allows 32 subtasks gets more than the simulator's usual ten, and no more than its settings allow."""
    windows = windows_of(JOB, CALM, 6)
    wide = [replace(each, topology=_with_maximum(each, 32)) for each in windows]
    tried = Variant("wide", with_utilisation(load_policy("target-utilisation"), 0.08), with_settings(SETTINGS, {}), None)
    found = scenario(wide)
    free = play(found, replace(tried, settings=with_settings(SETTINGS, {"parallelism_max": 32})), draw=0, seed=0, told=quiet)
    bound = play(found, replace(tried, settings=with_settings(SETTINGS, {"parallelism_max": 14})), draw=0, seed=0, told=quiet)
    assert free.sizes.max() > 14
    assert bound.sizes.max() == 14


def test_a_minimum_within_a_period_is_played() -> None:
    """In the period every task has as many, and outside of it what the load needs."""
    found = scenario(windows_of(JOB, CALM, 6))
    begins_ms = found.workload.trace_start_ms + found.first_minute * 60_000
    starts, ends = (datetime.fromtimestamp(begins_ms / 1_000 + hour * 3_600, UTC).strftime("%H:%M") for hour in (1, 2))
    within = (PeriodBounds(period=ExcludedPeriod(starts=starts, ends=ends), least=9),)
    changed = replace(variant("target-utilisation"), settings=msgspec.structs.replace(SETTINGS, minimum_within=within))
    played = play(found, changed, draw=0, seed=0, told=quiet)
    hours = (played.at_ms - begins_ms) // 3_600_000
    assert played.sizes[hours == 1].min() == 9
    assert played.sizes[hours != 1].min() < 9


def test_an_emergency_waits_for_no_span_where_the_job_answers_it() -> None:
    """The load becomes four times as high in the middle of a span. On a real engine the job grows at the next minute's end."""
    windows = [replace(each, topology=_on(each, "flink")) for each in windows_of(JOB, CALM, 6)]
    found = scenario(windows)
    at = found.first_minute + 63
    requests = found.workload.requests.copy()
    requests[at:] *= 4
    found = replace(found, workload=Workload("risen", requests, found.workload.trace_start_ms))
    grown, waited = (
        play(found, variant("target-utilisation", emergency_growth=answered), draw=0, seed=0, told=quiet)
        for answered in (True, False)
    )
    by_default = play(found, variant("target-utilisation"), draw=0, seed=0, told=quiet)
    assert by_default.at_ms.tolist() == grown.at_ms.tolist()
    between = [time for time in grown.at_ms.tolist() if time % 600_000]
    assert between
    assert between[0] == found.workload.trace_start_ms + (at + 1) * 60_000
    reason = grown.reasons[grown.at_ms.tolist().index(between[0])]
    assert " 14 -> 28 subtasks in 3 of 4 tasks. Emergency: " in reason
    assert reason.endswith(" Decided before the end of the span. Amended by emergency.")
    assert not any(time % 600_000 for time in waited.at_ms.tolist())
    assert grown.waited.sum() < 0.8 * waited.waited.sum()
    assert grown.arrivals.sum() == waited.arrivals.sum()


def test_a_simulated_job_decides_at_its_spans_only() -> None:
    """There an emergency waits, unless its owner wants it answered."""
    found = scenario(windows_of(JOB, CALM, 6))
    played = play(found, variant("target-utilisation"), draw=0, seed=0, told=quiet)
    assert not any(time % 600_000 for time in played.at_ms.tolist())
    assert len(played.at_ms) == found.hours * 6


def _on(window: Window, engine: str) -> object:
    return msgspec.structs.replace(window.topology, engine=engine)


def _with_maximum(window: Window, most: int) -> object:
    tasks = tuple(msgspec.structs.replace(spec, max_parallelism=most) for spec in window.topology.tasks)
    return msgspec.structs.replace(window.topology, tasks=tasks)


@pytest.mark.parametrize("name", [*RULES, "forecast"])
def test_a_target_utilisation_changes_the_rules_that_have_one(name: str) -> None:
    """The lower the target, the more subtasks; a rule without a target says so."""
    if name in ("static", "hold", "lag", "drs", "threshold", "random"):
        with pytest.raises(WhatIfError, match="has no target utilisation"):
            with_utilisation(load_policy(name), 0.5)
        return
    found = scenario(windows_of(JOB, CALM, 6))
    low, high = (
        play(found, Variant("", with_utilisation(load_policy(name), share), SETTINGS, None), draw=0, seed=0, told=quiet)
        for share in (0.4, 0.9)
    )
    assert low.subtasks.mean() > 1.2 * high.subtasks.mean()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"parallelism_max": "many"}, "parallelism_max: expected int | null, got str"),
        ({"parallelism_min": 9, "parallelism_max": 4}, "parallelism_min=9: above parallelism_max=4"),
        ({"cpu_limit": 3}, "cpu_limit: a what-if does not play this setting"),
        ({"safe_size": 3}, "safe_size: a what-if does not play this setting"),
        ({"tasks": {"M1": {"pined": True}}}, "tasks: there is no field 'pined'"),
        ({"objective": "fast"}, "objective: invalid enum value 'fast'"),
    ],
)
def test_settings_that_cannot_be_played_are_named(changes: dict[str, object], told: str) -> None:
    """One line, which begins with the field."""
    with pytest.raises(WhatIfError) as refused:
        with_settings(SETTINGS, changes)
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize("changes", [{"rescales_a_day_max": 4}, {"scale_down_after_minutes": 30}, {"block_ineffective": True}])
def test_the_rescalers_limits_on_rescales_may_be_tried(changes: dict[str, object]) -> None:
    """As the page says."""
    found = msgspec.to_builtins(with_settings(SETTINGS, changes))
    assert {name: found[name] for name in changes} == changes


def test_quotas_and_pauses_are_told_as_not_played() -> None:
    """Settings at their defaults are not mentioned, nor those whose waits and limits are played."""
    assert not_played(SETTINGS) == ()
    assert not_played(msgspec.structs.replace(SETTINGS, cpu_limit=4.0)) == ("cpu_limit",)
    assert not_played(msgspec.structs.replace(SETTINGS, rescales_a_day_max=4)) == ()


def test_the_rescalers_limit_on_rescales_a_day_is_played() -> None:
    """Free, the job is rescaled more than once in six hours; with one allowed, once."""
    found = scenario(windows_of(JOB, CALM, 6))
    free, limited = (
        play(found, variant("target-utilisation", rescales_a_day_max=most), draw=0, seed=0, told=quiet) for most in (None, 1)
    )
    assert len(free.at_ms) == len(limited.at_ms)
    assert (np.diff(limited.subtasks) != 0).sum() < (np.diff(free.subtasks) != 0).sum()


def test_the_days_minutes_above_a_bound_are_played() -> None:
    """Where they have no room for a single restart nothing shrinks, and the reasons say so."""
    found = scenario(windows_of(JOB, CALM, 6))
    never = LatencyBound(seconds=1.0, share=0.0001)
    free, held = (
        play(found, variant("target-utilisation", objective=bound), draw=0, seed=0, told=quiet) for bound in (None, never)
    )
    assert (np.diff(free.sizes, axis=0) < 0).any()
    assert not (np.diff(held.sizes, axis=0) < 0).any()
    assert any("a restart puts about" in reason for reason in held.reasons)


def test_a_recording_that_is_too_short_is_refused() -> None:
    """Three hours are not enough, and the message says how many minutes are."""
    with pytest.raises(WhatIfError, match=r"180 minutes with figures are too few .* record at least 240"):
        scenario(windows_of(JOB, CALM, 3))


def made(subtasks: list[list[float]], waited: float = 0.0) -> list[Played]:
    """Return draws of runs with these subtasks by hour."""
    hours = len(subtasks[0])
    return [
        Played(
            subtasks=np.repeat(np.array(each), 60),
            waiting=np.full(60 * hours, waited),
            busy=np.full(60 * hours, 1.0),
            waited=np.full(hours, 60 * waited),
            arrivals=np.full(hours, 6_000.0),
            rescales=np.zeros(hours, dtype=np.int64),
            late=np.full(hours, 3.0 if waited > 1.0 else 0.0),
            counted=np.full(hours, 60.0),
            sizes=np.array(each, dtype=np.int64)[:, None],
            at_ms=np.arange(hours) * 3_600_000,
            reasons=("",) * hours,
        )
        for each in subtasks
    ]


def checked(busy_error: float = 0.0, waiting_error: float = 0.0) -> Check:
    """Return a check with these errors, the second one in records."""
    return Check(
        minutes=60,
        busy=1.0 + busy_error,
        busy_recorded=1.0,
        waiting=waiting_error,
        waiting_recorded=0.0,
        waiting_range=(0.0, 0.0),
        arrivals=100.0,
    )


SIZES = st.lists(st.lists(st.integers(1, 40).map(float), min_size=8, max_size=8), min_size=2, max_size=4)


@settings(max_examples=25)
@given(SIZES, st.data())
def test_differences_are_paired_and_their_intervals_hold_the_mean(sizes: list[list[float]], data: st.DataObject) -> None:
    """A variant against another is the reverse of the other against it; a figure lies within its interval."""
    others = data.draw(
        st.lists(st.lists(st.integers(1, 40).map(float), min_size=8, max_size=8), min_size=len(sizes), max_size=len(sizes))
    )
    first, second = (variant("hold"), made(sizes)), (replace(variant("hold"), label="b"), made(others))
    there = compare([first, second], checked(), 0.0, seed=0).outcomes[1].differences
    back = compare([second, first], checked(), 0.0, seed=0).outcomes[1].differences
    assert there is not None
    assert back is not None
    for name in ("cost", "utilisation"):
        assert there[name].estimate.mean == pytest.approx(-back[name].estimate.mean)
        assert there[name].estimate.low == pytest.approx(-back[name].estimate.high)
        assert there[name].estimate.low <= there[name].estimate.mean <= there[name].estimate.high
    assert there["cost"].estimate.mean == pytest.approx(24.0 * (np.mean(others) - np.mean(sizes)))


def test_the_same_runs_are_the_same() -> None:
    """No decision differs, and nothing is refused for it."""
    draws = made([[4.0] * 8, [5.0] * 8])
    found = compare([(variant("hold"), draws), (replace(variant("hold"), label="b"), draws)], checked(0.5, 50.0), 0.0, seed=0)
    assert found.outcomes[1].is_same
    assert not found.outcomes[1].is_refused


def test_a_world_that_is_off_by_more_than_the_difference_refuses_it() -> None:
    """Ten percent fewer subtasks say nothing if the busy time was predicted 20 % wrong, and much if it was 2 % wrong."""
    base, less = made([[10.0] * 8, [10.0] * 8]), made([[9.0] * 8, [9.0] * 8])
    tried = [(variant("hold"), base), (replace(variant("hold"), label="b"), less)]
    assert compare(tried, checked(0.2), 0.0, seed=0).outcomes[1].is_refused
    told = compare(tried, checked(0.02), 0.0, seed=0).outcomes[1]
    assert not told.is_refused
    assert told.differences is not None
    assert told.differences["cost"].is_shown
    assert told.differences["cost"].estimate.mean == pytest.approx(-24.0)


def test_latency_is_judged_by_what_waited() -> None:
    """A second more for every record is more than a world that was off by half a second, and less than one off by two."""
    base, slow = made([[4.0] * 8] * 2), made([[4.0] * 8] * 2, waited=100.0 / 60.0)
    tried = [(variant("hold"), base), (replace(variant("hold"), label="b"), slow)]
    for seconds, is_shown in ((0.7, True), (2.0, False)):
        found = compare(tried, checked(waiting_error=seconds * 100.0 / 60.0), 0.0, seed=0).outcomes[1]
        assert found.differences is not None
        assert found.differences["latency"].estimate.mean == pytest.approx(1.0)
        assert found.differences["latency"].is_shown is is_shown


def test_a_job_without_queues_says_nothing_about_latency() -> None:
    """A world that predicts no waiting where nothing waited has not been checked on it."""
    assert math.isnan(replace(checked(), waiting=0.2, waiting_recorded=0.4).latency_error_s)
    assert replace(checked(), waiting=0.2, waiting_recorded=2.2).latency_error_s == pytest.approx(1.2)


def test_an_engine_that_does_not_tell_its_queues_leaves_latency_unchecked() -> None:
    """An unknown error hides nothing and is told as unknown."""
    unknown = replace(checked(0.01), waiting_recorded=math.nan)
    base, slow = made([[4.0] * 8] * 2), made([[4.0] * 8] * 2, waited=5.0)
    found = compare([(variant("hold"), base), (replace(variant("hold"), label="b"), slow)], unknown, 0.0, seed=0).outcomes[1]
    assert found.differences is not None
    assert math.isnan(found.differences["latency"].model_error)
    assert found.differences["latency"].is_shown
