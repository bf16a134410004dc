"""Refuses ONNX graphs with control flow, before anything runs them: a loop might never end, and would hold up every decision.

Walks the file's protobuf messages itself: the library ``onnx``, which could, is no part of a running pipeline. Two readers may
take the same bytes for different models, so only what all of them read alike is let in: the fields of ``onnx.proto`` that a plain
graph needs, each with its own wire type, numbers in their shortest form, and no field twice that can stand only once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from surescale.policies.package import PackageRejected

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_TAG_MAX = 2**32 - 1  # readers differ on what to make of more bits
_OWN_DOMAINS = (b"", b"ai.onnx")


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a message: its wire types, whether it may stand several times, and the message inside it."""

    kinds: tuple[int, ...] = (_BYTES,)
    repeated: bool = False
    inside: str = ""


_TEXT, _NUMBER, _FLOAT = _Field(), _Field((_VARINT,)), _Field((_FIXED32,))
_TEXTS, _NUMBERS = _Field(repeated=True), _Field((_BYTES, _VARINT), repeated=True)
_FLOATS, _DOUBLES = _Field((_BYTES, _FIXED32), repeated=True), _Field((_BYTES, _FIXED64), repeated=True)


def _one(inside: str) -> _Field:
    return _Field(inside=inside)


def _many(inside: str) -> _Field:
    return _Field(repeated=True, inside=inside)


_FIELDS: dict[str, dict[int, _Field]] = {
    "ModelProto": {
        1: _NUMBER, 2: _TEXT, 3: _TEXT, 4: _TEXT, 5: _NUMBER, 6: _TEXT, 7: _one("GraphProto"),
        8: _many("OperatorSetIdProto"), 14: _many("StringStringEntryProto"),
    },
    "GraphProto": {
        1: _many("NodeProto"), 2: _TEXT, 5: _many("TensorProto"), 10: _TEXT, 11: _many("ValueInfoProto"),
        12: _many("ValueInfoProto"), 13: _many("ValueInfoProto"), 16: _many("StringStringEntryProto"),
    },
    "NodeProto": {
        1: _TEXTS, 2: _TEXTS, 3: _TEXT, 4: _TEXT, 5: _many("AttributeProto"), 6: _TEXT, 7: _TEXT,
        9: _many("StringStringEntryProto"),
    },
    "AttributeProto": {
        1: _TEXT, 2: _FLOAT, 3: _NUMBER, 4: _TEXT, 5: _one("TensorProto"), 7: _FLOATS, 8: _NUMBERS, 9: _TEXTS,
        10: _many("TensorProto"), 13: _TEXT, 20: _NUMBER,
    },
    "TensorProto": {
        1: _NUMBERS, 2: _NUMBER, 4: _FLOATS, 5: _NUMBERS, 6: _TEXTS, 7: _NUMBERS, 8: _TEXT, 9: _TEXT, 10: _DOUBLES,
        11: _NUMBERS, 12: _TEXT, 14: _NUMBER, 16: _many("StringStringEntryProto"),
    },
    "ValueInfoProto": {1: _TEXT, 2: _one("TypeProto"), 3: _TEXT, 4: _many("StringStringEntryProto")},
    "TypeProto": {1: _one("Tensor"), 6: _TEXT},
    "Tensor": {1: _NUMBER, 2: _one("TensorShapeProto")},
    "TensorShapeProto": {1: _many("Dimension")},
    "Dimension": {1: _NUMBER, 2: _TEXT, 3: _TEXT},
    "OperatorSetIdProto": {1: _TEXT, 2: _NUMBER},
    "StringStringEntryProto": {1: _TEXT, 2: _TEXT},
}  # fmt: skip
"""What a model may hold, by message and field number of ``onnx.proto``."""
_REFUSED = {
    ("ModelProto", 25): "the model defines functions of its own, which are not allowed",
    ("TensorProto", 13): "the model keeps numbers in another file, which is not allowed",
}
_GRAPHS_INSIDE = (6, 11)
"""Fields of ``AttributeProto``: a loop's or a branch's own graphs."""


def check_graph(model: bytes) -> None:
    """Refuse a model with a graph inside a node (Loop, Scan, If), with functions, or with operators of other domains.

    Without them each operator runs once, so a run ends. How much memory it takes is not limited here.

    Raises:
        PackageRejected: names the operator or the field, or says that the file is no ONNX model.
    """
    try:
        _check("ModelProto", memoryview(model))
    except (IndexError, ValueError):
        words = "the model cannot be run: the file is not an ONNX model, or one that two readers could read differently"
        raise PackageRejected(words) from None


def _check(message: str, raw: memoryview, operator: str = "") -> None:
    """Refuse what a message of this name must not hold, and messages inside it; ``operator`` is that of the node around it."""
    fields, seen = list(_fields(raw)), set[int]()
    if message == "NodeProto":
        operator = _check_node(fields)
    for number, kind, value in fields:
        if message == "AttributeProto" and number in _GRAPHS_INSIDE:
            raise PackageRejected(f"operator {operator!r} has a graph inside; loops and branches are not allowed")
        if (message, number) in _REFUSED:
            raise PackageRejected(_REFUSED[message, number])
        field = _FIELDS[message].get(number)
        if field is None:
            raise PackageRejected(f"the model holds field {number} of {message}, which is not allowed; export it without")
        if kind not in field.kinds or (number in seen and not field.repeated):
            raise ValueError(f"field {number} of {message}")
        seen.add(number)
        if field.inside:
            _check(field.inside, value, operator)


def _check_node(fields: list[tuple[int, int, memoryview]]) -> str:
    """Return the node's operator; refuse one of another domain."""
    operator = next((bytes(value) for number, _, value in fields if number == 4), b"?").decode("utf-8", "replace")[:64]
    if any(number == 7 and bytes(value) not in _OWN_DOMAINS for number, _, value in fields):
        raise PackageRejected(f"operator {operator!r} is not one of ONNX itself")
    return operator


def _fields(message: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Yield number, wire type and content of each field; of one that is not bytes, empty content.

    Raises:
        IndexError, ValueError: not a protobuf message, or one that two readers may read differently.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if not number or tag > _TAG_MAX:
            raise ValueError(f"tag {tag}")
        length = 0
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind == _VARINT:
            _, at = _varint(message, at)
        else:
            at += _WIDTHS[kind] if kind in _WIDTHS else len(message) + 1
        if length > len(message) - at:
            raise ValueError("a field is longer than its message")
        yield number, kind, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return a number and where it ends; refuse more bytes than it needs, and more than 64 bits."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            if (byte == 0 and shift > 7) or value >= 2**64:
                raise ValueError("a number that is not in its shortest form")
            return value, at
        if shift > 63:
            raise ValueError("a number has more than 64 bits")
