"""Properties of all rules: pure, blind to the order of tasks, the same for one window as for a batch of rows."""

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.contracts.windows import FIGURE, Window
from surescale.policies.decide import decide
from surescale.policies.graph import job_graph
from surescale.policies.registry import RULES, load_policy
from surescale.policies.rules.ds2 import GatedDS2
from surescale.policies.rules.forecast import ForecastRule
from surescale.policies.rules.reading import Reading, SizingRule, read_figures, wanted_by
from surescale.policies.rules.target_utilisation import TargetUtilisation
from tests.unit.policies.conftest import chain_window, read
from tests.unit.policies.test_dealt import group

NAMES = (*RULES, "forecast")
JOB = JobSettings(job="sim/chain")

windows = st.builds(
    chain_window,
    load=st.floats(1.0, 400.0),
    service_minutes=st.tuples(*[st.floats(0.001, 0.03)] * 3),
    parallelism=st.tuples(*[st.integers(1, 10)] * 3),
    queued=st.tuples(*[st.floats(0.0, 3000.0)] * 3),
    known=st.integers(5, 60),
)

# A further subtask helps b as much as c, and a limit lets only one of the two take it.
EQUAL_TASKS = chain_window(load=83.0, service_minutes=(0.02, 0.03, 0.03), parallelism=(1, 1, 3), queued=(0.0,) * 3, known=5)


def rows_of(batch: list[Window]) -> Reading:
    """Return the reading of several windows of one job."""
    return read_figures(
        np.stack([window.figures for window in batch]),
        job_graph(batch[0].topology.tasks),
        np.stack([read(window).current for window in batch]),
        np.stack([window.hourly_load for window in batch]),
        np.array([window.window_end_ms for window in batch]),
    )


def shuffled(window: Window, order: list[int]) -> Window:
    """Return the window with its tasks in another order."""
    tasks = tuple(window.topology.tasks[task] for task in order)
    topology = JobTopology(job=window.job, version=0, at_ms=0, tasks=tasks)
    return replace(window, figures=np.ascontiguousarray(window.figures[:, order]), topology=topology)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, deadline=None)
@given(window=windows, seed=st.integers(0, 5))
def test_decisions_are_pure_and_within_bounds(name: str, window: Window, seed: int) -> None:
    """Asked twice, a rule answers the same; whatever it wants, guardrails keep 1 to 10 and half to twice."""
    first, again = (decide(window, load_policy(name), JOB, seed=seed) for _ in range(2))
    assert msgspec.to_builtins(first) == msgspec.to_builtins(again)
    for task in first.tasks:
        assert 1 <= task.desired <= 10
        assert task.proposed >= 0
        assert math.ceil(task.current / 2) - (task.current == 1) <= task.desired
        assert task.desired <= max(2 * task.current, task.floor)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, deadline=None)
@given(window=windows, order=st.permutations(range(5)))
@example(window=EQUAL_TASKS, order=[0, 3, 2, 1, 4])
def test_permuting_tasks_permutes_decisions(name: str, window: Window, order: list[int]) -> None:
    """No rule depends on the order in which a topology lists its tasks."""
    plain = {task.task: task.desired for task in decide(window, load_policy(name), JOB, seed=3).tasks}
    mixed = {task.task: task.desired for task in decide(shuffled(window, order), load_policy(name), JOB, seed=3).tasks}
    assert plain == mixed


@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(load_policy(name), "wanted")])
@settings(max_examples=6, deadline=None)
@given(batch=st.lists(windows, min_size=2, max_size=4))
def test_rows_of_a_batch_do_not_see_one_another(name: str, batch: list[Window]) -> None:
    """Calibration's batched arithmetic gives what each window alone gives."""
    rule = load_policy(name)
    assert rule.wanted(rows_of(batch)).tolist() == [rule.wanted(read(window)).tolist() for window in batch]  # type: ignore[attr-defined]


FORECAST = load_policy("forecast")
assert isinstance(FORECAST, ForecastRule)
BUSIER = msgspec.structs.replace(FORECAST.base.sizing, utilisation=0.95, need=0.1)
TREND_ONLY = msgspec.structs.replace(FORECAST.base.forecast, trend_only=(0.5, 0.2, 0.1, 0.05))
SETTINGS = (
    (GatedDS2(), GatedDS2(utilisation=0.9, need=0.05, estimate="peak"), GatedDS2(saving=0.05, estimate="p90")),
    (TargetUtilisation(), TargetUtilisation(BUSIER, "mean-15"), TargetUtilisation(BUSIER, "peak")),
    (FORECAST, ForecastRule(msgspec.structs.replace(FORECAST.base, forecast=TREND_ONLY, sizing=BUSIER))),
)


@pytest.mark.parametrize("rules", SETTINGS, ids=lambda rules: rules[0].name)
@settings(max_examples=8, deadline=None)
@given(batch=st.lists(windows, min_size=1, max_size=3))
def test_rules_asked_together_want_what_each_wants(rules: tuple[SizingRule, ...], batch: list[Window]) -> None:
    """Calibration asks many settings of a rule at once: each gets the answer that it would give by itself."""
    reading = rows_of(batch * len(rules))
    alone = [rule.wanted(rows_of(batch)).tolist() for rule in rules]
    assert wanted_by(rules, reading).tolist() == [row for rows in alone for row in rows]


@pytest.mark.parametrize("make", [TargetUtilisation, GatedDS2])
def test_each_of_several_rules_leaves_room_for_its_own_noise(make: type[TargetUtilisation] | type[GatedDS2]) -> None:
    """Of members that share 48 partitions: a load of one minute has more noise than one of ten, which a shrink must not bear."""
    random = np.random.default_rng(7)
    batch = [group(24, busy, 48) for busy in random.uniform(2.0, 12.0, 60)]
    for window in batch:
        for name in ("records_in", "records_out", "arrived", "busy_ms", "busy_ms_max"):
            window.figures[:, :, FIGURE[name]] *= random.normal(1.0, 0.1, (60, 1))
    rules = [make(estimate="peak", span_minutes=1), make(span_minutes=1), make()]
    alone = [rule.wanted(rows_of(batch)).tolist() for rule in rules]
    assert wanted_by(rules, rows_of(batch * len(rules))).tolist() == [row for rows in alone for row in rows]
