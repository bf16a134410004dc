"""Reads JSON objects field by field and names every wrong field by its path.

Knows types and ranges, nothing of what a document means. A wrong field leaves a complaint and a harmless stand-in value, so one
reading finds all of them. The caller then refuses the document once, with all complaints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeGuard, TypeVar, cast

from surescale.rescaler.refusals import Place

NUMBER_MAX = 1e18
"""Largest number accepted anywhere: far above any real figure, and products of four of them stay finite."""
LISTED_MAX = 20
"""Complaints that a message shows."""

Choice = TypeVar("Choice", bound=str)
Word = TypeVar("Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Complaint:
    """One wrong field."""

    path: str
    what: str
    """What is wrong, and how to fix it."""
    place: Place
    """The field, fragment, task or host it belongs to."""

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def listed(complaints: Sequence[Complaint]) -> str:
    """Return the complaints in one line, the first twenty spelled out."""
    hidden = len(complaints) - LISTED_MAX
    return "; ".join(map(str, complaints[:LISTED_MAX])) + (f"; and {hidden} more" if hidden > 0 else "")


def is_integer(value: object) -> TypeGuard[int]:
    """Say whether the value is a JSON integer: neither a boolean nor a fraction, not even 3.0."""
    return isinstance(value, int) and not isinstance(value, bool)


def kind_of(value: object) -> str:
    """Return JSON's word for the value's type, with the value where it is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**15 else "a huge integer"
    if isinstance(value, float | Decimal):
        return f"{value:.6g}"
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    return "a list" if isinstance(value, list) else "an object"


class Fields:
    """One JSON object at ``path``. A field that is missing or null takes its default; without a default it is required."""

    __slots__ = ("complaints", "path", "place", "value")

    def __init__(self, value: object, path: str, complaints: list[Complaint], place: Place | None = None) -> None:
        """``place`` goes into every complaint; by default it is the field itself."""
        self.path = path
        self.place = place
        self.complaints = complaints
        self.value: dict[str, Any] = {}
        if isinstance(value, dict):
            self.value = value
        else:
            self.complain("", f"must be an object, not {kind_of(value)}")

    def at(self, key: str) -> str:
        """Return the path of a field of this object."""
        return f"{self.path}.{key}" if self.path and key else self.path or key or "request"

    def complain(self, key: str, what: str) -> None:
        """Note that field ``key`` is wrong."""
        self.complaints.append(Complaint(self.at(key), what, self.place or {"field": key}))

    def within(self, **place: str | int) -> Fields:
        """Return the same object with its place named more closely."""
        return Fields(self.value, self.path, self.complaints, {**(self.place or {}), **place})

    def has(self, key: str) -> bool:
        """Say whether the field is given and not null."""
        return self.value.get(key) is not None

    def _given(self, key: str, required: bool, wanted: str) -> bool:
        if self.has(key):
            return True
        if required:
            self.complain(key, f"is missing; give {wanted}")
        return False

    def number(
        self,
        key: str,
        default: float | None = None,
        *,
        maximum: float = NUMBER_MAX,
        above: bool = False,
    ) -> float:
        """Return a finite number in [0, maximum], or in (0, maximum] with ``above``."""
        wanted = f"a number {'above' if above else 'of at least'} 0"
        if not self._given(key, default is None, wanted):
            return default if default is not None else 1.0
        return self.checked_number(self.value[key], key, 0.0, maximum, above)

    def checked_number(self, value: object, key: str, minimum: float, maximum: float, above: bool = False) -> float:
        """Return ``value`` as a double if it is a number in range, else complain under ``key``."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.complain(key, f"must be a number, not {kind_of(value)}")
        elif isinstance(value, float) and not math.isfinite(value):
            self.complain(key, f"must be a finite number, not {value}")
        elif value < minimum or (above and value == minimum):
            self.complain(key, f"must be {'above' if above else 'at least'} {minimum:g}, not {kind_of(value)}")
        elif value > maximum:
            self.complain(key, f"must be at most {maximum:g}, not {kind_of(value)}")
        else:
            return float(value) + 0.0  # -0.0 becomes 0.0
        return 1.0

    def integer(self, key: str, default: int | None = None, *, minimum: int | None = 0, maximum: int | None = None) -> int:
        """Return a whole number within the limits."""
        stand_in = minimum or 0
        if not self._given(key, default is None, "a whole number" + (f" of at least {minimum}" if minimum is not None else "")):
            return stand_in if default is None else default
        value: object = self.value[key]
        if not is_integer(value):
            self.complain(key, f"must be a whole number, not {kind_of(value)}")
        elif (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
            limits = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
            self.complain(key, f"must be {limits}, not {kind_of(value)}")
        else:
            return value
        return stand_in

    def integers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        found = self.items(key, required=default is None)
        if not all(map(is_integer, found)):
            self.complain(key, "must be a list of whole numbers")
            return ()
        return tuple(found) if self.has(key) else default or ()

    def boolean(self, key: str, default: bool | None = None) -> bool:
        """Return true or false."""
        if not self._given(key, default is None, "true or false"):
            return bool(default)
        value: object = self.value[key]
        if not isinstance(value, bool):
            self.complain(key, f"must be true or false, not {kind_of(value)}")
        return value is True

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string; a required one must not be empty."""
        if not self._given(key, default is None, "a string"):
            return default or ""
        value: object = self.value[key]
        if not isinstance(value, str):
            self.complain(key, f"must be a string, not {kind_of(value)}")
            return ""
        if default is None and not value:
            self.complain(key, "must not be empty")
        return value

    def choice(self, key: str, choices: Sequence[Choice], default: Choice | None = None) -> Choice:
        """Return one of a closed set of words."""
        wanted = "one of " + ", ".join(choices)
        if not self._given(key, default is None, wanted):
            return default if default is not None else choices[0]
        value = self.value[key]
        if value not in choices:
            self.complain(key, f"must be {wanted}, not {kind_of(value)}")
            return choices[0]
        return cast(Choice, value)

    def word(self, key: str, words: type[Word], default: Word | None = None) -> Word:
        """Return one word of an enumeration."""
        return words(self.choice(key, [word.value for word in words], default))

    def child(self, key: str, *, required: bool = False) -> Fields:
        """Return the object in field ``key``; a missing optional one reads as empty."""
        place = self.place or {"field": key}
        value = self.value[key] if self._given(key, required, "an object") else {}
        return Fields(value, self.at(key), self.complaints, place)

    def items(self, key: str, *, required: bool = False, count_max: int | None = None) -> list[Any]:
        """Return the list in field ``key``, at most ``count_max`` long; a missing optional one reads as empty."""
        if not self._given(key, required, "a list"):
            return []
        value = self.value[key]
        if not isinstance(value, list):
            self.complain(key, f"must be a list, not {kind_of(value)}")
            return []
        if count_max is not None and len(value) > count_max:
            self.complain(key, f"must hold at most {count_max} entries, not {len(value)}")
            return []
        return value

    def children(self, key: str, *, required: bool = False, count_max: int | None = None) -> list[Fields]:
        """Return the objects of the list in field ``key``."""
        place = self.place or {"field": key}
        found = self.items(key, required=required, count_max=count_max)
        return [Fields(value, f"{self.at(key)}[{at}]", self.complaints, place) for at, value in enumerate(found)]
