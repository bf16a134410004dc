"""Records of a broadcast edge are work for every subtask, however many they are."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.windows import Window
from surescale.policies.decide import decide
from surescale.policies.flows import Undivided
from surescale.policies.registry import load_policy
from tests.unit.policies.test_demand import Task, read, window_of

SIZING = ("sure", "forecast", "target-utilisation", "ds2", "ds2-gate", "drs", "flink", "hpa", "threshold", "lag")


def matching(size: int, *, busy: float, broadcast: float, data: float = 0.0) -> Window:
    """Return a job in which each subtask of ``match`` gets the ``broadcast`` rules, and all together the ``data``."""
    arrived = data + size * broadcast
    edges = (("rules", "broadcast"), *((("data", "hash"),) if data else ()))
    window = window_of(
        Task("rules", (), broadcast, broadcast, busy=0.1, lag=0.0, arrived=broadcast),
        *((Task("data", (), data, data, busy=0.1, lag=0.0, arrived=data),) if data else ()),
        Task("match", edges, arrived, arrived, busy=busy * size, parallelism=size),
        minutes=60,
    )
    return replace(window, topology=msgspec.structs.replace(window.topology, engine="flink"))


@pytest.mark.parametrize("name", SIZING)
@pytest.mark.parametrize("busy", [0.95, 0.02])
@pytest.mark.parametrize("size", [4, 8, 15, 32])
def test_a_task_whose_work_is_all_broadcast_keeps_its_size(name: str, busy: float, size: int) -> None:
    """At any size its subtasks are as busy, so it is neither grown nor shrunk for that, and the reason says why."""
    decision = decide(matching(size, busy=busy, broadcast=5_000), load_policy(name), JobSettings(job="flink/job"), seed=1)
    assert {task.task: task.desired for task in decision.tasks}["match"] == size
    assert ("100% of its records come over a broadcast edge" in decision.reason) == (busy > 0.75)


@pytest.mark.parametrize("name", ["sure", "target-utilisation", "ds2", "flink"])
def test_growth_ends_where_the_broadcast_part_alone_is_too_much(name: str) -> None:
    """Nine tenths of the work are each subtask's own at any size, so no size keeps it at its target."""
    window = matching(4, busy=0.95, broadcast=900, data=400)
    decision = decide(window, load_policy(name), JobSettings(job="flink/job"), seed=1)
    assert decision.tasks[-1].desired == 4
    assert "match: 90% of its records come over a broadcast edge" in decision.reason


@pytest.mark.parametrize(("size", "wanted"), [(3, 4), (4, 4), (30, 5)])  # a shrink leaves room
def test_only_the_divisible_part_divides(size: int, wanted: int) -> None:
    """Half of a subtask's time goes into 50 rules, and the rest is one subtask's work: four are 75 % busy."""
    window = matching(size, busy=0.5 + 1.0 / size, broadcast=50, data=100)
    rule = load_policy("target-utilisation")
    reading = read(window)
    exact = reading.measured.widened(reading.measured.demand(reading.measured.load[-1:][0]) / 0.75)
    assert exact[-1] == pytest.approx(4.0, rel=1e-4)
    decision = decide(window, rule, JobSettings(job="flink/job", step_down_max=10.0), seed=1)
    assert decision.tasks[-1].proposed == wanted


@given(st.floats(0.001, 0.99), st.integers(1, 100), st.floats(0.1, 200.0))
def test_what_is_needed_carries_what_was_asked_for(share: float, size: int, exact: float) -> None:
    """And no size does where each subtask's own part is more than it can do."""
    undivided = Undivided(np.array([share]), np.array([share / size]))
    sizes = undivided.needed(np.array([exact]))
    if np.isfinite(sizes[0]):
        assert undivided.carried(sizes)[0] == pytest.approx(exact)
    else:
        assert exact * share >= size * (1 - 1e-9)
    assert undivided.carried(np.array([size]))[0] == pytest.approx(size)
