"""Graphs that could hold up every decision are refused before anything runs them."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.policies.onnx_graph import check_graph
from surescale.policies.onnx_sessions import open_graphs
from surescale.policies.package import PackageRejected
from surescale.policies.registry import SHIPPED

SHIPPED_GRAPHS = sorted(SHIPPED.rglob("*.onnx"))
onnx = pytest.importorskip("onnx", reason="onnx, which makes the graphs, is only installed for training")


def model(*nodes: object, **more: object) -> bytes:
    """Return a model of these nodes, from x to y."""
    one = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
    graph = onnx.helper.make_graph(list(nodes), "test", one[:1], one[1:])
    return bytes(onnx.helper.make_model(graph, **more).SerializeToString())


def endless_loop() -> bytes:
    """Return a model whose loop never ends: no limit, and a condition that stays true."""
    truth = onnx.helper.make_tensor_value_info("go_on", onnx.TensorProto.BOOL, [])
    count = onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [])
    value_in, value_out = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in ("v", "w"))
    out = onnx.helper.make_tensor_value_info("go_on_out", onnx.TensorProto.BOOL, [])
    inside = [onnx.helper.make_node("Identity", ["go_on"], ["go_on_out"]), onnx.helper.make_node("Identity", ["v"], ["w"])]
    body = onnx.helper.make_graph(inside, "body", [count, truth, value_in], [out, value_out])
    true = onnx.helper.make_tensor("true", onnx.TensorProto.BOOL, [], [True])
    return model(
        onnx.helper.make_node("Constant", [], ["c"], value=true), onnx.helper.make_node("Loop", ["", "c", "x"], ["y"], body=body)
    )


def test_an_endless_loop_is_refused_before_it_runs() -> None:
    """By the name of its package; the runtime itself would open it, and run it for ever."""
    with pytest.raises(PackageRejected, match="evil: operator 'Loop' has a graph inside"):
        open_graphs("evil", [endless_loop()])


def test_operators_of_others_and_functions_are_refused() -> None:
    """What they do is not known, and functions could hide a loop."""
    with pytest.raises(PackageRejected, match="operator 'Evil' is not one of ONNX itself"):
        check_graph(model(onnx.helper.make_node("Evil", ["x"], ["y"], domain="com.example")))
    body = [onnx.helper.make_node("Identity", ["a"], ["b"])]
    function = onnx.helper.make_function("own", "Own", ["a"], ["b"], body, [onnx.helper.make_opsetid("", 17)])
    with pytest.raises(PackageRejected, match="functions of its own"):
        check_graph(model(onnx.helper.make_node("Identity", ["x"], ["y"]), functions=[function]))


@pytest.mark.parametrize("path", SHIPPED_GRAPHS, ids=[f"{path.parent.name}-{path.stem}" for path in SHIPPED_GRAPHS])
def test_what_ships_is_let_in(path: Path) -> None:
    """None of our own needs a loop."""
    check_graph(path.read_bytes())


@given(at=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 400))
def test_a_damaged_file_is_refused_or_let_through_to_the_runtime(at: int, byte: int, cut: int) -> None:
    """It never ends in another error, nor takes longer than the file is long."""
    raw = bytearray(endless_loop())
    raw[at % len(raw)] = byte
    with contextlib.suppress(PackageRejected):
        check_graph(bytes(raw[: len(raw) - cut % len(raw)]))


@pytest.mark.parametrize("raw", [b"\xff" * 20, b"\x3a\xff\xff\xff\xff\x0f", b"\x0b", b"junk that is no model"])
def test_what_is_no_model_is_said_to_be_none(raw: bytes) -> None:
    """One line."""
    with pytest.raises(PackageRejected, match="not an ONNX model"):
        check_graph(raw)
