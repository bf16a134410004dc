"""There is one spelling of nothing: where null is allowed, a field that is left out never means anything else."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import Message
from surescale.contracts.summaries import SummaryHeader
from surescale.contracts.wire import decode, encode
from tests.wire.messages import MESSAGES

KINDS = [*Message.__subclasses__(), SummaryHeader]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_field_can_be_unset(kind: type[msgspec.Struct]) -> None:
    """In the message and all its parts a field has a value or null; what may be null and may be left out is then null."""
    for struct in _structs(msgspec.inspect.type_info(kind), set()):
        for field in struct.fields:
            assert field.default is not msgspec.UNSET, (struct.cls, field.name)
            if _may_be_null(field.type) and not field.required:
                assert field.default is None, (struct.cls, field.name)


@given(name=st.sampled_from(sorted(MESSAGES)), data=st.data())
def test_a_null_may_be_left_out(name: str, data: st.DataObject) -> None:
    """Without some of its nulls a record is the same message, or is refused since the field is required; never another one."""
    message = MESSAGES[name]
    document = msgspec.json.decode(encode(message))
    for place, key in list(_nulls(document)):
        if data.draw(st.booleans()):
            del place[key]
    try:
        found = decode(msgspec.json.encode(document), type(message))
    except RecordRejected as rejected:
        refused = rejected.message
    else:
        refused = "" if found == message else "it is another message"
    assert not refused or "missing required field" in refused


def _structs(node: msgspec.inspect.Type, seen: set[type]) -> Iterator[msgspec.inspect.StructType]:
    """Yield the struct types that a type is made of."""
    if isinstance(node, msgspec.inspect.StructType):
        if node.cls not in seen:
            seen.add(node.cls)
            yield node
            for field in node.fields:
                yield from _structs(field.type, seen)
        return
    inner = [getattr(node, part, None) for part in ("item_type", "key_type", "value_type", "type")]
    for each in (*inner, *getattr(node, "types", ()), *getattr(node, "item_types", ())):
        if isinstance(each, msgspec.inspect.Type):
            yield from _structs(each, seen)


def _may_be_null(node: msgspec.inspect.Type) -> bool:
    return any(isinstance(each, msgspec.inspect.NoneType) for each in getattr(node, "types", ()))


def _nulls(document: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the places of a document's nulls that are fields."""
    if isinstance(document, dict):
        for key, value in document.items():
            if value is None:
                yield document, key
            else:
                yield from _nulls(value)
    elif isinstance(document, list):
        for each in document:
            yield from _nulls(each)
