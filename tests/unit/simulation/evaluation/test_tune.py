"""Calibration: limits, search, and that it sees nothing after its part."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.job_settings import JobSettings, LatencyBound
from surescale.contracts.messages import JobTopology
from surescale.policies.graph import job_graph
from surescale.policies.guardrails import Situation, guard
from surescale.policies.limits import Limits
from surescale.policies.registry import load_policy
from surescale.policies.rules.ds2 import DS2
from surescale.policies.rules.forecast import ForecastRule
from surescale.policies.rules.target_utilisation import TargetUtilisation
from surescale.simulation.evaluation.clairvoyant import granted
from surescale.simulation.evaluation.closed_loop import follow
from surescale.simulation.evaluation.search import Axis, constants, flat_optimum, middle_of, spread
from surescale.simulation.evaluation.spaces import fitted, spaces
from surescale.simulation.evaluation.static import best_static, sizes_scores
from surescale.simulation.evaluation.tune import BatchPolicy, Unheeding, rule_scores, tune
from surescale.simulation.load.workload import Workload
from tests.unit.simulation.cases import sized
from tests.unit.simulation.evaluation.cases import DAY, quiet, setting, small, wave


@given(
    current=st.lists(st.integers(1, 10), min_size=3, max_size=3), factor=st.lists(st.floats(0.01, 2.0), min_size=3, max_size=3)
)
def test_what_is_granted_is_what_serving_grants(current: list[int], factor: list[float]) -> None:
    """A clairvoyant's sizes pass the guardrails of serving, here with a total limit that binds."""
    job = replace(sized(small()), total_limit=14)
    graph = job_graph(job.specs())
    now = np.array([1, *current, 1])
    proposed = np.array([1, *(max(1, round(size * share)) for size, share in zip(current, factor, strict=True)), 1])
    seen = Situation(graph=graph, current=now, floor=np.zeros(5, np.int64), overloaded=np.zeros(5, np.bool_))
    topology = JobTopology(job="sim/x", version=0, at_ms=0, tasks=job.specs())
    limits = Limits.of(JobSettings(job="sim/x", total_limit=14), topology, 0)
    guarded = guard(proposed, seen, limits, floor_applies=False)
    assert granted(proposed[None], now[None], job)[0].tolist() == guarded.desired.tolist()


def test_halton_places_fill_the_box() -> None:
    """The first eight places of base 2 are the eighths."""
    assert sorted((spread(7, 2)[:, 0] * 8).round().tolist()) == [1, 2, 3, 4, 5, 6, 7]


def test_the_search_prefers_a_plateau_to_a_spike() -> None:
    """A single lucky place far above its surroundings cannot be chosen, only middles of good places."""
    lucky = spread(19, 1)[12]

    def scores(places: np.ndarray) -> np.ndarray:
        plateau = 1.0 - np.abs(places[:, 0] - 0.3)
        return np.where(np.abs(places[:, 0] - lucky[0]) < 1e-9, 1.05, plateau)

    found = flat_optimum(scores, np.array([0.9]), [0], 20)
    assert abs(found.place[0] - lucky[0]) > 1e-9
    assert found.place[0] == pytest.approx(0.3, abs=0.1)


def test_the_middle_of_choices_is_what_most_good_places_chose() -> None:
    """The second of three values is worth 1, so it is found, and the range is searched among places that have it."""

    def scores(places: np.ndarray) -> np.ndarray:
        return np.where((places[:, 1] * 3).astype(int) == 1, 1.0, 0.0) - np.square(places[:, 0] - 0.6)

    found = flat_optimum(scores, np.array([0.1, 0.1]), [0, 3], 20)
    assert int(found.place[1] * 3) == 1
    assert found.place[0] == pytest.approx(0.6, abs=0.1)


def test_axes_lead_there_and_back() -> None:
    """A constant's place gives the constant again, on a plain, a logarithmic and a choosing axis."""
    axes = (Axis("u", 0.4, 0.9), Axis("t", 0.01, 10.0, log=True), Axis("m", values=(10, 20, 60)))
    chosen = {"u": 0.7, "t": 0.5, "m": 20}
    assert constants(axes, np.array([axis.place(chosen[axis.name]) for axis in axes])) == chosen


@pytest.mark.parametrize("place", [0.0, 1 / 3, 2 / 3, 1.0])
def test_a_place_on_the_edge_between_two_choices_counts_for_the_one_that_was_tried(place: float) -> None:
    """Base 3 meets the edges of six values: the middle of the best is the value that made them good."""
    axis = Axis("m", values=tuple("abcdef"))
    middle, _ = middle_of(np.array([[place], [0.5]]), np.array([1.0, 0.0]), np.array([6]))
    assert axis.value(float(middle[0])) == axis.value(place)


def test_every_space_holds_the_shipped_constants() -> None:
    """The first setting tried is the rule as it ships."""
    rule = load_policy("forecast")
    assert isinstance(rule, ForecastRule)
    for name, space in spaces(rule, wave(), 0).items():
        made = space.make(space.shipped)
        assert made == load_policy(name) if name != "forecast" else made.base == rule.base
        for axis in space.axes:
            assert axis.value(axis.place(space.shipped[axis.name])) == pytest.approx(space.shipped[axis.name], abs=1e-3)


def later_changed(workload: Workload, end: int) -> Workload:
    """Return the workload with other minutes from ``end`` on."""
    requests = workload.requests.copy()
    requests[end:] = requests[end:][::-1] * 3
    return Workload(workload.name, requests, workload.trace_start_ms)


@pytest.mark.parametrize("name", ["ds2-gate", "forecast"])
def test_calibration_never_sees_later_minutes(name: str) -> None:
    """With all minutes after the part changed: the same load factor, constants and static vector."""
    chosen = []
    for workload in (wave(), later_changed(wave(), DAY)):
        here = setting(workload)
        rule = load_policy("forecast")
        space = spaces(rule if isinstance(rule, ForecastRule) else None, here.ground.workload, 0)[name]
        tuned = tune(space, here.ground, quiet, places=6)
        chosen.append((here.job.scale_factor, tuned.constants, tuned.reward, best_static(here.ground).sizes.tolist()))
        assert here.ground.workload.minutes == here.part.end
    assert chosen[0] == chosen[1]


def test_calibration_beats_a_bad_start() -> None:
    """From a target of 0.42 DS2 is led to a busier one, with a better reward on the part."""
    here = setting()
    space = replace(spaces(None, here.ground.workload, 0)["ds2"], shipped={"utilisation": 0.42, "estimate": "mean-60"})
    tuned = tune(space, here.ground, quiet, places=8)
    assert tuned.reward > tuned.shipped_reward + 0.01
    assert float(tuned.constants["utilisation"]) > 0.5  # type: ignore[arg-type]


@pytest.mark.parametrize("bound", [None, LatencyBound(seconds=30.0, share=0.05), LatencyBound(seconds=30.0, share=0.0001)])
@pytest.mark.parametrize("is_heeded", [False, True])
@pytest.mark.parametrize(
    ("world", "rule", "other"),
    [("calm", DS2(0.65), DS2(0.5)), ("restart@180", TargetUtilisation(), TargetUtilisation(estimate="peak"))],
)
def test_calibration_runs_what_the_closed_loop_runs(
    world: str, rule: BatchPolicy, other: BatchPolicy, bound: LatencyBound | None, is_heeded: bool
) -> None:
    """A rule's batched score equals that through ``decide`` on the same minutes, told of the same bound with its day's budget."""
    here = setting(load_parallelism=5.0, world=world, objective=bound)
    ground = replace(here.ground, is_bound_heeded=is_heeded)
    trial = replace(here.trial, workload=ground.workload, first_minutes=ground.first_minutes, seeds=(0,), hours=ground.hours)
    hours = follow(rule if is_heeded else Unheeding(rule), trial, quiet).hours
    assert ground.scores(hours, 1)[0] == pytest.approx(rule_scores([other, rule], ground)[1], abs=1e-9)


def test_the_static_vector_is_the_best_of_its_neighbourhood() -> None:
    """No single step up or down, no uniform size and not the start beats it on the calibration part."""
    ground = setting().ground
    best = best_static(ground)
    around = np.vstack([best.sizes + step * np.eye(5, dtype=np.int64)[task] for task in (1, 2, 3) for step in (1, -1)])
    around = around[(around[:, 1:-1] >= 1).all(axis=1)]
    uniform = np.array([[1, size, size, size, 1] for size in range(1, 11)])
    assert sizes_scores(np.vstack([around, uniform]), ground).max() <= best.reward + 1e-4


def test_a_fit_on_nothing_is_the_shipped_forecast() -> None:
    """Too few minutes leave the weights alone; a whole file moves them."""
    rule = load_policy("forecast")
    assert isinstance(rule, ForecastRule)
    shipped = rule.base.forecast
    assert fitted(shipped, Workload("short", np.full(150, 9, dtype=np.int64), 0), 0) == shipped
    assert fitted(shipped, wave(), 0) != shipped


def test_a_gap_is_no_load_of_zero_to_the_fit() -> None:
    """A half-missing hour counts as its other half; counted as half a load it moved weights by 0.07."""
    rule = load_policy("forecast")
    assert isinstance(rule, ForecastRule)
    holed = wave().requests.astype(np.float64)
    holed[DAY + 600 : DAY + 630] = holed[2 * DAY + 900 : 2 * DAY + 945] = np.nan
    whole, with_gaps = (fitted(rule.base.forecast, each, 0) for each in (wave(), Workload.counted("holed", holed, 0)))
    assert with_gaps.with_history == pytest.approx(whole.with_history, abs=0.005)
