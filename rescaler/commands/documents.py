"""How the rescaler's JSON commands talk: one document in, one document out, exit code 0 or 2.

`answering` runs a function from document to answer; `Fields` takes a document apart and names what is wrong with it.
What it does not do: know any command's contents.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import StrEnum
from typing import Any, NoReturn, TypeGuard, TypeVar

from rescaler.refusals import Refused

Document = dict[str, Any]
_Word = TypeVar("_Word", bound=StrEnum)

EXIT_REFUSED = 2
"""Exit code of an answer with ``"ok": false``."""


def parse(text: bytes | str) -> Document:
    """The JSON object in ``text``; fractions become `Decimal`. Refused with INVALID_JSON or INVALID_INPUT."""
    try:
        document = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refused("INVALID_JSON", f"the input is not a JSON document: {error}") from error
    if not isinstance(document, dict):
        raise Refused("INVALID_INPUT", f"the document must be an object, not {_kind(document)}")
    return document


def answer(function: Callable[[Document], Document], text: bytes | str) -> tuple[Document, int]:
    """``function``'s answer to the document in ``text`` with ``"ok": true``, or the refusal; and the exit code."""
    try:
        return {"ok": True, **function(parse(text))}, 0
    except Refused as refused:
        return {"ok": False, "error": refused.as_error()}, EXIT_REFUSED


def answering(function: Callable[[Document], Document]) -> NoReturn:
    """Answer standard input on standard output and leave with the exit code."""
    gc.disable()  # The process ends with its answer: looking for garbage would double the time of a large document.
    document, code = answer(function, read_input())
    write_output(document)
    sys.exit(code)


def read_input() -> bytes:
    """All of standard input; says so on a terminal, where one would otherwise wait without knowing why."""
    if sys.stdin.isatty():
        print("surescale: reading one JSON document from the terminal, end with Ctrl-D", file=sys.stderr)
    return sys.stdin.buffer.read()


def write_output(document: Document) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def invalid(message: str, **place: str | int) -> NoReturn:
    """Refuse with INVALID_INPUT."""
    raise Refused("INVALID_INPUT", message, place)


def is_integer(value: object) -> TypeGuard[int]:
    """A JSON integer: neither a boolean nor a fraction, not even 3.0."""
    return isinstance(value, int) and not isinstance(value, bool)


class Fields:
    """One object of a document; each method takes one value or refuses with INVALID_INPUT and ``place``."""

    def __init__(self, value: object, name: str, **place: str | int) -> None:
        """``name`` is how messages call the object; ``place`` goes into every refusal (default: the key as field)."""
        if not isinstance(value, dict):
            invalid(f"{name} must be an object, not {_kind(value)}", **place)
        self._value: Document = value
        self._name = name
        self._place = place

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def refused(self, key: str, wanted: str) -> Refused:
        """The refusal of the value of ``key``."""
        found = _kind(self._value[key]) if key in self._value else "missing"
        message = f"{self._name}: {key!r} must be {wanted}, it is {found}"
        return Refused("INVALID_INPUT", message, self._place or {"field": key})

    def any(self, key: str) -> Any:
        """Whatever stands under ``key``; it must be there."""
        if key not in self._value:
            raise self.refused(key, "given")
        return self._value[key]

    def integer(self, key: str, *, minimum: int | None = None, maximum: int | None = None, default: int | None = None) -> int:
        """An integer within the limits; absent: ``default``, if there is one."""
        if default is not None and key not in self._value:
            return default
        value: object = self._value.get(key)
        if is_integer(value):
            above = minimum is None or value >= minimum
            if above and (maximum is None or value <= maximum):
                return value
        limits = [f"at least {minimum}"] * (minimum is not None) + [f"at most {maximum}"] * (maximum is not None)
        raise self.refused(key, " ".join(["an integer", *([] if not limits else ["of", " and ".join(limits)])]))

    def text(self, key: str) -> str:
        """A string."""
        value: object = self._value.get(key)
        if isinstance(value, str):
            return value
        raise self.refused(key, "a string")

    def boolean(self, key: str, *, default: bool | None = None) -> bool:
        """True or false; absent: ``default``, if there is one."""
        if default is not None and key not in self._value:
            return default
        value: object = self._value.get(key)
        if isinstance(value, bool):
            return value
        raise self.refused(key, "true or false")

    def word(self, key: str, words: type[_Word], *, default: _Word | None = None) -> _Word:
        """One word of a closed set; absent: ``default``, if there is one."""
        if default is not None and key not in self._value:
            return default
        value: object = self._value.get(key)
        if isinstance(value, str) and value in {word.value for word in words}:
            return words(value)
        raise self.refused(key, "one of " + ", ".join(word.value for word in words))

    def integers(self, key: str, *, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """A list of integers; absent: ``default``, if there is one."""
        if default is not None and key not in self._value:
            return default
        value: object = self._value.get(key)
        if isinstance(value, list) and all(is_integer(item) for item in value):
            return tuple(value)
        raise self.refused(key, "a list of integers")

    def items(self, key: str, *, default_empty: bool = False) -> list[Any]:
        """A list; absent: an empty one, where that is allowed."""
        value: object = self._value.get(key)
        if isinstance(value, list):
            return value
        if default_empty and key not in self._value:
            return []
        raise self.refused(key, "a list")

    def members(self, key: str, *, default_empty: bool = False) -> Iterator[tuple[str, Any]]:
        """Key and value of each member of an object; absent: none, where that is allowed."""
        value: object = self._value.get(key)
        if isinstance(value, dict):
            return iter(value.items())
        if default_empty and key not in self._value:
            return iter(())
        raise self.refused(key, "an object")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool | int | Decimal):
        return str(value).lower()[:40]
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    return "a list" if isinstance(value, list) else "an object"
