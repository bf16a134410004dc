"""A package's graphs in a process of their own: the same answers, and neither a long nor a huge run harms the agent."""

import numpy as np
import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.policies.decide import decide
from surescale.policies.onnx_sessions import GraphStopped, open_graphs
from surescale.policies.package import PackageRejected
from surescale.policies.registry import load_policy
from surescale.runtime.limited_graphs import STARTS_MAX, LimitedGraphs, Limits
from tests.support.protobuf import field
from tests.unit.policies.conftest import chain_window

pytest.importorskip("onnxruntime")
FLOAT, INT64 = 1, 7
LIMITS = Limits(seconds=30.0, memory_mb=512)


def node(operator: str, inputs: list[str], output: str) -> bytes:
    """One operator of a graph."""
    return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, operator))


def value(number: int, name: str) -> bytes:
    """A scalar float that goes in or out."""
    return field(number, field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, b""))))


def model(*nodes: bytes, side: int = 1) -> bytes:
    """A model from ``x`` to ``y`` that knows the constant ``shape``, a square; numbers of fields are those of onnx.proto."""
    shape = field(5, field(1, 2) + field(2, INT64) + field(8, "shape") + field(9, np.array([side, side]).tobytes()))
    graph = b"".join(nodes) + field(2, "test") + shape + value(11, "x") + value(12, "y")
    return field(1, 8) + field(8, field(2, 17)) + field(7, graph)


def sum_of_square(side: int, times: int = 0) -> bytes:
    """A model that spreads x over a square matrix, multiplies the square by itself some times, and adds it up."""
    products = [node("MatMul", [f"m{at}", "m0"], f"m{at + 1}") for at in range(times)]
    return model(node("Expand", ["x", "shape"], "m0"), *products, node("ReduceMean", [f"m{times}"], "y"), side=side)


X = {"x": np.array(0.0, dtype=np.float32)}


def test_decisions_are_the_same_in_a_process_of_its_own() -> None:
    """To the last bit: no number changes on the way."""
    window = chain_window(load=100.0)
    here, apart = (load_policy("sure-paper", opener=opener) for opener in (None, LIMITS.open))
    settings = JobSettings(job=window.job)
    made = decide(window, apart, settings, seed=1)
    assert made == decide(window, here, settings, seed=1)
    assert not made.policy.fallback_reason


def test_a_run_that_takes_too_long_is_stopped() -> None:
    """Operators without a loop may work for hours: here some thousand products of large matrices."""
    graphs = LimitedGraphs([sum_of_square(1_500, times=3_000)], Limits(seconds=0.5, memory_mb=512))
    with pytest.raises(GraphStopped, match=r"more than 0\.5 s and was stopped"):
        graphs.run(0, X)


def test_a_run_that_takes_too_much_memory_is_refused_or_ends_alone() -> None:
    """Forty gigabytes: either the runtime is refused the memory and says so, or its process ends."""
    graphs = LimitedGraphs([sum_of_square(100_000), sum_of_square(10)], LIMITS)
    with pytest.raises(GraphStopped):
        graphs.run(0, X)
    (answer,) = graphs.run(1, {"x": np.array(2.0, dtype=np.float32)})
    assert answer.item() == 2.0


def test_a_process_that_ends_is_started_again_a_few_times_only() -> None:
    """So a package that always hangs costs its time three times, not at every window."""
    graphs = LimitedGraphs([sum_of_square(10)], LIMITS)
    for _ in range(STARTS_MAX):
        assert graphs.run(0, X)[0].item() == 0.0
        graphs._end()
    with pytest.raises(GraphStopped, match="is not started again"):
        graphs.run(0, X)


def test_what_is_no_graph_is_refused_when_it_is_opened() -> None:
    """With the runtime's own words, once."""
    with pytest.raises(PackageRejected, match=r"^evil: the model cannot be run: [^:]"):
        open_graphs("evil", [model(node("NoSuchOperator", ["x"], "y"))], LIMITS.open)


def test_the_process_knows_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the agent, among them passwords, are not in its environment."""
    monkeypatch.setenv("SURESCALE_KAFKA_PASSWORD_FILE", "/run/secrets/kafka")
    graphs = LimitedGraphs([sum_of_square(10)], LIMITS)
    assert graphs._child is not None
    with open(f"/proc/{graphs._child.pid}/environ", "rb") as environ:
        assert b"SURESCALE_" not in environ.read()
