"""The overrides of a resource are read and written in every form that the operator reads."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.engines.flink_operator.overrides import KEY, OverridesUnreadable, change_to, flat, overrides_of

A, B, C = ("a" * 32, "b" * 32, "c" * 32)
_LEAF = KEY.partition(".")[2]


def _merged(document: Any, change: Any) -> Any:
    """Return a document after a merge patch (RFC 7386)."""
    if not isinstance(change, dict):
        return change
    document = document if isinstance(document, dict) else {}
    return {
        **{name: value for name, value in document.items() if name not in change},
        **{name: _merged(document.get(name), value) for name, value in change.items() if value is not None},
    }


counts = st.dictionaries(st.sampled_from([A, B, C]), st.integers(1, 999), min_size=1)


def _forms(asked: dict[str, int]) -> list[dict[str, Any]]:
    """Return a configuration in each form."""
    text = ",".join(f"{vertex}:{count}" for vertex, count in asked.items())
    flow = "{" + ", ".join(f"{vertex}: {count}" for vertex, count in asked.items()) + "}"
    texts = {vertex: str(count) for vertex, count in asked.items()}
    return [
        {KEY: text},
        {KEY: flow},
        {KEY: asked},
        {KEY: texts},
        {f"{KEY}.{vertex}": count for vertex, count in texts.items()},
        {"pipeline": {_LEAF: text}},
        {"pipeline": {_LEAF: asked}},
        {"pipeline": {f"{_LEAF}.{vertex}": count for vertex, count in asked.items()}},
    ]


@given(before=counts, after=counts, form=st.integers(0, 7), other=st.booleans())
def test_a_change_in_any_form_keeps_the_rest(before: dict[str, int], after: dict[str, int], form: int, other: bool) -> None:
    """What is asked for afterwards is what was before, with the change; nothing else moves, and the form stays."""
    rest: dict[str, Any] = {"state": {"backend": ["x", True]}, "pipeline.name": "orders"} if other else {}
    configuration = _forms(before)[form] | rest
    assert overrides_of(configuration) == before
    changed = _merged(configuration, change_to(configuration, after))
    assert overrides_of(changed) == {**before, **after}
    assert changed == _forms({**before, **after})[form] | rest


@given(after=counts, nested=st.booleans())
def test_the_first_change_fits_its_surroundings(after: dict[str, int], nested: bool) -> None:
    """A text under the flat name, or beside what else stands under ``pipeline``."""
    configuration: dict[str, Any] = {"pipeline": {"name": "orders"}} if nested else {"pipeline.name": "orders"}
    changed = _merged(configuration, change_to(configuration, after))
    assert overrides_of(changed) == after
    assert flat(changed).keys() == {"pipeline.name", KEY}


@pytest.mark.parametrize("configuration", [None, {}, {KEY: ""}, {KEY: "{}"}, {KEY: {}}, {"pipeline": {}}, {KEY: None}])
def test_nothing_is_asked_for(configuration: dict[str, Any] | None) -> None:
    """A job with its own parallelism."""
    assert overrides_of(configuration) == {}


@pytest.mark.parametrize(
    ("configuration", "said"),
    [
        ({KEY: f"{A}:1", "pipeline": {_LEAF: f"{A}:1"}}, "in 2 places; keep one of them"),
        ({KEY: f"{A}:1", f"{KEY}.{A}": "1"}, "in 2 places; keep one of them"),
        ({KEY: "4"}, "'4' is not a map like VERTEX:4,VERTEX:2; correct it"),
        ({KEY: f"{A}:1,{A}:2"}, "is not a map like VERTEX:4"),
        ({KEY: f"{A}:x"}, f"{A} has 'x'; set 1 to 32768"),
        ({KEY: {A: 0}}, f"{A} has '0'; set 1 to 32768"),
        ({KEY: {A: {B: 1}}}, "set 1 to 32768"),
        ({KEY: {A: True}}, f"{A} has 'true'; set 1 to 32768"),
    ],
)
def test_what_cannot_be_read_is_named(configuration: dict[str, Any], said: str) -> None:
    """In one line, with the key."""
    with pytest.raises(OverridesUnreadable) as unreadable:
        overrides_of(configuration)
    assert said in str(unreadable.value)
    assert KEY in str(unreadable.value)
    with pytest.raises(OverridesUnreadable):
        change_to(configuration, {A: 2})


def test_a_configuration_is_flat_as_the_operator_makes_it() -> None:
    """Numbers and truths become text, lists get an index."""
    given_ = {"a": {"b": 1, "c.d": True}, "e": ["x", {"f": None}]}
    assert flat(given_) == {"a.b": "1", "a.c.d": "true", "e[0]": "x", "e[1].f": ""}
