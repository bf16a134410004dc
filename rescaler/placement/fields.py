"""Reads JSON objects field by field and names every wrong field by its path.

Knows types and ranges, not placement. A wrong field leaves a complaint and a harmless stand-in value, so that one
reading finds all of them; the caller raises `RequestError` once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar, cast

NUMBER_MAX = 1e18
"""Largest number accepted anywhere: far above any real figure, and products of four of them stay finite."""
LISTED_MAX = 20

Choice = TypeVar("Choice", bound=str)


class RequestError(ValueError):
    """The request is wrong; `complaints` holds one `path: what and how to mend it` per wrong field."""

    def __init__(self, complaints: Sequence[str]) -> None:
        self.complaints = tuple(complaints)
        listed = "; ".join(self.complaints[:LISTED_MAX])
        hidden = len(self.complaints) - LISTED_MAX
        super().__init__(listed + (f"; and {hidden} more" if hidden > 0 else ""))


def kind_of(value: object) -> str:
    """JSON's word for the value's type, with the value where it is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:.6g}" if isinstance(value, float) or abs(value) < 10**15 else "a huge integer"
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    return "a list" if isinstance(value, list) else "an object"


class Fields:
    """One JSON object at `path`. A missing or null optional field gives its default."""

    def __init__(self, value: object, path: str, complaints: list[str]) -> None:
        self.path = path
        self.complaints = complaints
        self.value: dict[str, Any] = {}
        if isinstance(value, dict):
            self.value = value
        else:
            self.complain("", f"must be an object, not {kind_of(value)}")

    def at(self, key: str) -> str:
        """Path of a field of this object."""
        return f"{self.path}.{key}" if self.path and key else self.path or key or "request"

    def complain(self, key: str, what: str) -> None:
        """Note that field `key` is wrong."""
        self.complaints.append(f"{self.at(key)}: {what}")

    def has(self, key: str) -> bool:
        """Whether the field is given and not null."""
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
        minimum: float = 0.0,
        maximum: float = NUMBER_MAX,
        above: bool = False,
    ) -> float:
        """A finite number in [minimum, maximum], or (minimum, maximum] with `above`. No default: required."""
        wanted = f"a number {'above' if above else 'of at least'} {minimum:g}"
        if not self._given(key, default is None, wanted):
            return default if default is not None else 1.0
        return self.checked_number(self.value[key], key, minimum, maximum, above)

    def checked_number(self, value: object, key: str, minimum: float, maximum: float, above: bool = False) -> float:
        """`value` as a double if it is a number in range, else a complaint under `key`."""
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

    def integer(self, key: str, default: int | None = None, *, maximum: int, stand_in: int = 0) -> int:
        """A whole number in [0, maximum]. No default: required."""
        if not self._given(key, default is None, "a whole number of at least 0"):
            return stand_in if default is None else default
        value = self.value[key]
        if isinstance(value, bool) or not isinstance(value, int):
            self.complain(key, f"must be a whole number, not {kind_of(value)}")
        elif not 0 <= value <= maximum:
            self.complain(key, f"must be from 0 to {maximum}, not {kind_of(value)}")
        else:
            return value
        return stand_in

    def text(self, key: str, default: str | None = None) -> str:
        """A string; a required one must not be empty."""
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
        """One of a closed set of words."""
        wanted = "one of " + ", ".join(choices)
        if not self._given(key, default is None, wanted):
            return default if default is not None else choices[0]
        value = self.value[key]
        if value not in choices:
            self.complain(key, f"must be {wanted}, not {kind_of(value)}")
            return choices[0]
        return cast(Choice, value)

    def child(self, key: str, *, required: bool = False) -> Fields:
        """The object in field `key`; a missing optional one reads as empty."""
        if not self._given(key, required, "an object"):
            return Fields({}, self.at(key), self.complaints)
        return Fields(self.value[key], self.at(key), self.complaints)

    def items(self, key: str, *, required: bool = False, count_max: int) -> list[Any]:
        """The list in field `key`, at most `count_max` long; a missing optional one reads as empty."""
        if not self._given(key, required, "a list"):
            return []
        value = self.value[key]
        if not isinstance(value, list):
            self.complain(key, f"must be a list, not {kind_of(value)}")
            return []
        if len(value) > count_max:
            self.complain(key, f"must hold at most {count_max} entries, not {len(value)}")
            return []
        return value

    def children(self, key: str, *, required: bool = False, count_max: int) -> list[Fields]:
        """The objects of the list in field `key`."""
        found = self.items(key, required=required, count_max=count_max)
        return [Fields(value, f"{self.at(key)}[{at}]", self.complaints) for at, value in enumerate(found)]
