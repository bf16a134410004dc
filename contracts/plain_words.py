"""What msgspec says of a value, in words for people."""

import re
from collections.abc import Iterable

from msgspec import inspect

from surescale.contracts.suggestions import meant

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text in quotes",
    "array": 'a list, like ["one", "two"]',
    "object": "a table",
}
_EXPECTED = re.compile(r"Expected `([a-z |]+)`(?:, got `\w+`)?( of length)?(?: (>=|>|<=|<) (\S+))?")
_SIGNS = {">=": "at least ", ">": "more than ", "<=": "at most ", "<": "less than "}
_PATTERN = re.compile(r"Expected `str` matching regex '(.*)'")
_ENUM = re.compile(r"Invalid enum value (?:'(.*)'|(.*))")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


def in_plain_words(said: str, known: Iterable[str] = ()) -> str:
    """Return what msgspec says of a value as what to write instead; other texts stay as they are.

    ``known``: the words that may stand there, or the names of the fields of that table.

    >>> in_plain_words("Expected `int | null`, got `str`"), in_plain_words("Expected `float` > 1.0")
    ('must be a whole number', 'must be a number, more than 1.0')
    >>> in_plain_words("Invalid enum value 'acts'", ["observe", "advise", "act"])
    "'acts' is not one of observe, advise, act; did you mean act?"
    >>> in_plain_words("Object contains unknown field `grp`", ["group", "reads"])
    "there is no field 'grp'; did you mean group?"
    """
    words = list(known)
    if expected := _EXPECTED.fullmatch(said):
        kinds, length, sign, bound = expected.groups()
        alternatives = [_KINDS.get(kind, kind) for kind in kinds.split(" | ") if kind != "null"]
        limit = f"{_SIGNS[sign]}{bound}" if sign else ""
        return f"must be {' or '.join(alternatives)}" + (f", {limit}{' long' if length else ''}" if limit else "")
    if (chosen := _ENUM.fullmatch(said)) and words:
        word = chosen[1] if chosen[2] is None else chosen[2]
        return f"{word!r} is not one of {', '.join(words)}" + _near(word, words)
    if pattern := _PATTERN.fullmatch(said):
        return f"must fit the pattern {pattern[1]}"
    if missing := _MISSING.fullmatch(said):
        return f"{missing[1]!r} is missing"
    if unknown := _UNKNOWN.fullmatch(said):
        return f"there is no field {unknown[1]!r}" + (f"; {meant(unknown[1], words)}" if words else "")
    return said


def words_of(kind: inspect.Type) -> list[str]:
    """Return the words that a kind of value consists of; none if it is no choice among words.

    >>> from typing import Literal
    >>> words_of(inspect.type_info(Literal["up", "down"] | None))
    ['down', 'up']
    """
    if isinstance(kind, inspect.Metadata):
        return words_of(kind.type)
    if isinstance(kind, inspect.UnionType):
        return [word for each in kind.types for word in words_of(each)]
    if isinstance(kind, inspect.EnumType):
        return [str(member.value) for member in kind.cls]
    return [str(value) for value in kind.values] if isinstance(kind, inspect.LiteralType) else []


def _near(word: str, words: list[str]) -> str:
    near = meant(word, words, otherwise=" ").strip()
    return f"; {near}" if near else ""
