"""How many subtasks of which vertex a resource asks for: ``pipeline.jobvertex-parallelism-overrides``. Pure.

The operator makes one flat map of ``spec.flinkConfiguration``, so the same thing can be written in several ways:

- a flat name with a text: ``pipeline.jobvertex-parallelism-overrides: "VERTEX:4,VERTEX:2"`` (or ``"{VERTEX: 4}"``)
- a flat name for each vertex: ``pipeline.jobvertex-parallelism-overrides.VERTEX: "4"``
- nested YAML, down to the text or to a map of vertices, with any part of the name in one piece

A change is written in the form that is there, as a merge patch, so everything else stays as it is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from surescale.contracts.errors import SurescaleError

KEY = "pipeline.jobvertex-parallelism-overrides"
_PARENT, _, _LEAF = KEY.partition(".")
PARALLELISM_MAX = 2**15
"""Flink's most key groups."""


class OverridesUnreadable(SurescaleError):
    """What stands there is no parallelism by vertex. The message says what to do, in one line."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the overrides stand: ``path`` leads to a text or a map; ``prefix`` begins the names of single entries there."""

    path: tuple[str, ...]
    prefix: str = ""


def flat(configuration: Mapping[str, Any] | None) -> dict[str, str]:
    """Return a configuration as the operator reads it: one map of strings."""
    return {".".join(path): _text(value) for path, value in _leaves(configuration or {}, ())}


def overrides_of(configuration: Mapping[str, Any] | None) -> dict[str, int]:
    """Return the parallelism that is asked for, by vertex id; nothing for a vertex that keeps the job's own.

    Raises:
        OverridesUnreadable: it is given twice, or is not a map of numbers.
    """
    place = _place(configuration or {})
    if place is None:
        return {}
    found = _at(configuration or {}, place.path)
    entries: Mapping[str, Any]
    if place.prefix:
        entries = {name.removeprefix(place.prefix): each for name, each in found.items() if name.startswith(place.prefix)}
    else:
        entries = found if isinstance(found, Mapping) else _entries(_text(found))
    return {vertex: _count(vertex, each) for vertex, each in entries.items()}


def change_to(configuration: Mapping[str, Any] | None, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the merge patch of a configuration that asks for a parallelism of some vertices; the others keep theirs.

    Raises:
        OverridesUnreadable: what is there cannot be read.
    """
    configuration = configuration or {}
    before, place = overrides_of(configuration), _place(configuration)
    if place is None:
        nested = isinstance(configuration.get(_PARENT), Mapping)
        return _nested((_PARENT, _LEAF) if nested else (KEY,), _joined({**before, **counts}))
    found = _at(configuration, place.path)
    if not isinstance(found, Mapping):
        is_flow = _text(found).strip().startswith("{")
        text = _joined({**before, **counts}, ": ", ", ") if is_flow else _joined({**before, **counts})
        return _nested(place.path, f"{{{text}}}" if is_flow else text)
    numbers = any(isinstance(each, int) for name, each in found.items() if name.startswith(place.prefix))
    entries = {f"{place.prefix}{vertex}": count if numbers else str(count) for vertex, count in counts.items()}
    return _nested(place.path, entries)


def is_key(name: str) -> bool:
    """Return whether a flat name is of the overrides, or of one of them."""
    return name == KEY or name.startswith(f"{KEY}.")


def _place(configuration: Mapping[str, Any]) -> _Place | None:
    places = list(dict.fromkeys(_places(configuration, ())))
    if len(places) > 1:
        raise OverridesUnreadable(f"spec.flinkConfiguration has {KEY} in {len(places)} places; keep one of them")
    return places[0] if places else None


def _places(node: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[_Place]:
    for name, value in node.items():
        here = (*path, name)
        dotted = ".".join(here)
        if dotted == KEY:
            yield _Place(here)
        elif dotted.startswith(f"{KEY}."):
            above = f"{'.'.join(path)}." if path else ""
            yield _Place(path, f"{KEY}.".removeprefix(above))
        elif KEY.startswith(f"{dotted}.") and isinstance(value, Mapping):
            yield from _places(value, here)


def _leaves(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _leaves(value, (*path, name))
    elif isinstance(node, list):
        for at, value in enumerate(node):
            yield from _leaves(value, (*path[:-1], f"{path[-1]}[{at}]"))
    else:
        yield path, node


def _at(node: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = node
    for name in path:
        found = found[name]
    return found


def _text(value: Any) -> str:
    """Return a value as the operator turns it into text."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _entries(text: str) -> dict[str, str]:
    """Return the entries of a map in a text: ``a:1,b:2`` or ``{a: 1, b: 2}``."""
    text = text.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    entries: dict[str, str] = {}
    for part in (each.strip() for each in text.split(",")):
        if not part:
            continue
        vertex, colon, count = (each.strip().strip("'\"") for each in part.partition(":"))
        if not colon or not vertex or vertex in entries:
            raise OverridesUnreadable(f"spec.flinkConfiguration: {KEY}: {text!r} is not a map like VERTEX:4,VERTEX:2; correct it")
        entries[vertex] = count
    return entries


def _count(vertex: str, value: Any) -> int:
    text = _text(value).strip()
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 5 and 1 <= int(text) <= PARALLELISM_MAX):
        raise OverridesUnreadable(f"spec.flinkConfiguration: {KEY}: {vertex} has {text!r}; set 1 to {PARALLELISM_MAX}")
    return int(text)


def _joined(counts: Mapping[str, int], colon: str = ":", comma: str = ",") -> str:
    return comma.join(f"{vertex}{colon}{count}" for vertex, count in counts.items())


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    assert isinstance(value, dict)
    return value
