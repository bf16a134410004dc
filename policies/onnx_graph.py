"""Refuses ONNX graphs with control flow, before anything runs them: a loop might never end, and would hold up every decision.

Walks the file's protobuf messages itself, as far as needed: the library ``onnx``, which could, is no part of a running pipeline.
Field numbers are those of ``onnx.proto``.
"""

from collections.abc import Iterator

from policies.package import PackageRejected

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MODEL_GRAPH, _MODEL_FUNCTIONS, _GRAPH_NODE, _FUNCTION_NODE = 7, 25, 1, 7
_NODE_OPERATOR, _NODE_ATTRIBUTE, _NODE_DOMAIN = 4, 5, 7
_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS = 6, 11
_OWN_DOMAINS = (b"", b"ai.onnx")


def check_graph(model: bytes) -> None:
    """Refuse a model with a graph inside a node (Loop, Scan, If), with functions, or with operators of other domains.

    Without them each operator runs once, so a run ends. How much memory it takes is not limited here.

    Raises:
        PackageRejected: names the operator, or says that the file is no ONNX model.
    """
    try:
        _check(memoryview(model))
    except (IndexError, ValueError):
        raise PackageRejected("the model cannot be run: the file is not an ONNX model") from None


def _check(model: memoryview) -> None:
    for number, value in _fields(model):
        if number == _MODEL_FUNCTIONS:
            raise PackageRejected("the model defines functions of its own, which are not allowed")
        if number == _MODEL_GRAPH:
            for inner, node in _fields(value):
                if inner == _GRAPH_NODE:
                    _check_node(node)


def _check_node(node: memoryview) -> None:
    fields = list(_fields(node))
    operator = next((bytes(value) for number, value in fields if number == _NODE_OPERATOR), b"?").decode("utf-8", "replace")[:64]
    if any(number == _NODE_DOMAIN and bytes(value) not in _OWN_DOMAINS for number, value in fields):
        raise PackageRejected(f"operator {operator!r} is not one of ONNX itself")
    for number, attribute in fields:
        if number == _NODE_ATTRIBUTE and any(inner in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS) for inner, _ in _fields(attribute)):
            raise PackageRejected(f"operator {operator!r} has a graph inside; loops and branches are not allowed")


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and content of each field that is itself bytes; skip the others.

    Raises:
        IndexError, ValueError: not a protobuf message.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _BYTES:
            length, at = _varint(message, at)
            if length > len(message) - at:
                raise ValueError("a field is longer than its message")
            yield tag >> 3, message[at : at + length]
            at += length
        elif kind == _VARINT:
            _, at = _varint(message, at)
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"wire type {kind}")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number has more than 64 bits")
