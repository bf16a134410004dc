"""What a reader of ONNX graphs could read differently from another one is refused. The bytes are made by hand."""

import pytest

from surescale.policies.onnx_graph import check_graph
from surescale.policies.package import PackageRejected
from surescale.policies.registry import SHIPPED
from tests.support.protobuf import field, varint

AMBIGUOUS = "read differently"


def model(attribute: bytes, operator: bytes = b"Loop") -> bytes:
    """Return a model of one node with one attribute."""
    return field(1, 8) + field(7, field(1, field(4, operator) + field(5, attribute)))


BODY = field(1, field(4, b"Identity"))
LONG_TAG = varint(6 << 3 | 2 | 1 << 32)  # readers of 32 bits see field 6
WIDE_TAG = varint(6 << 3 | 2, width=5)


def test_a_plain_graph_is_let_in() -> None:
    """The bytes made here are what a reader of ONNX takes, so what is refused below is refused for its own sake."""
    check_graph(model(field(1, b"axis") + field(3, 1) + field(20, 2), b"Softmax"))


@pytest.mark.parametrize("at", [6, 11])
def test_a_graph_inside_a_node_is_refused_by_the_name_of_its_operator(at: int) -> None:
    """A loop might never end."""
    with pytest.raises(PackageRejected, match="operator 'Loop' has a graph inside"):
        check_graph(model(field(1, b"body") + field(at, BODY)))


@pytest.mark.parametrize(
    "raw",
    [
        model(field(1, b"body") + field(6, BODY, tag=LONG_TAG)),
        model(field(1, b"body") + field(6, BODY, tag=WIDE_TAG)),
        field(7, field(1, field(4, b"Identity"))) + field(7, field(1, field(4, b"Loop"))),  # two graphs, which readers join
        field(7, field(1, field(4, b"Identity") + field(4, b"Loop"))),  # of which the last one counts
        field(1, 8, tag=b"\x08") + varint(8 << 3 | 3),  # the start of a group
        field(0, b"junk"),
        varint(1 << 3) + varint(8, width=2),  # not the shortest form
        varint(1 << 3) + b"\xff" * 9 + b"\x7f",  # more than 64 bits
        field(7, 1),  # a number where a graph belongs
        model(field(2, b"\0\0\0\0")),  # bytes where a float belongs
    ],
)
def test_bytes_that_two_readers_could_read_differently_are_refused(raw: bytes) -> None:
    """What this check skips, the runtime might run."""
    with pytest.raises(PackageRejected, match=AMBIGUOUS):
        check_graph(raw)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (field(99, b"x"), "field 99 of ModelProto"),
        (field(20, b""), "field 20 of ModelProto"),  # a graph for training
        (field(25, field(1, b"own")), "functions of its own"),
        (field(7, field(15, b"")), "field 15 of GraphProto"),
        (field(7, field(5, field(13, field(1, b"location") + field(2, b"/etc/passwd")))), "another file"),
        (field(7, field(1, field(4, b"Evil") + field(7, b"com.example"))), "'Evil' is not one of ONNX itself"),
        (model(field(1, b"body") + field(14, b"")), "field 14 of AttributeProto"),
    ],
)
def test_a_field_that_no_plain_graph_needs_is_refused_by_name(raw: bytes, words: str) -> None:
    """Only what is known to be harmless is let in."""
    with pytest.raises(PackageRejected, match=words):
        check_graph(raw)


def test_a_shipped_graph_with_a_loop_added_is_refused() -> None:
    """Two graphs in one model are joined by some readers, and the last one wins with others."""
    whole = (SHIPPED / "sure-paper" / "policy.onnx").read_bytes()
    check_graph(whole)
    with pytest.raises(PackageRejected, match=f"has a graph inside|{AMBIGUOUS}"):
        check_graph(whole + field(7, field(1, field(4, b"Loop") + field(5, field(6, BODY)))))
