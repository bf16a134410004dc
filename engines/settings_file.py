"""Files that settings name, in TOML or JSON: what engines run or know, by the name of each job.

``FILE#TABLE`` names one table of a file that holds other things too.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from surescale.contracts.errors import SettingsError, reason_of
from surescale.contracts.wire import learned

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A kind of file.

    Attributes:
        setting: names the file.
        page: of the documentation, which shows the form.
    """

    setting: str
    page: str

    def read(self, path: Path, form: type[dict[str, T]], *, may_be_empty: bool = False) -> dict[str, T]:
        """Return what a file says of each job.

        Raises:
            SettingsError: it cannot be read or is invalid; names the setting, the file, the field and the fix in one
                line.
        """
        name, _, table = (str(path), "", "") if path.exists() else str(path).rpartition("#")
        try:
            text = Path(name or path).read_bytes()
        except OSError as error:
            raise SettingsError(f"{self.at(path)} cannot be read ({reason_of(error)}); name a readable file") from None
        decode = msgspec.json.decode if (name or str(path)).endswith(".json") else msgspec.toml.decode
        document: Any = None
        try:
            document = decode(text)
            if table:
                document = document.get(table, {})
            found = msgspec.convert(document, learned(form))
        except msgspec.ValidationError as error:
            raise self._malformed(path, in_words(error, document, form)) from None
        except (ValueError, AttributeError) as error:  # also of a text that is no UTF-8, and of a document that is no table
            raise self._malformed(path, str(error)) from None
        except RecursionError:
            raise self._malformed(path, "it is nested too deep") from None
        if not found and not may_be_empty:
            raise self._malformed(path, "names no job")
        return found

    def at(self, path: Path) -> str:
        """Return how a message about a file begins."""
        return f"{self.setting}: {path}"

    def _malformed(self, path: Path, what: str) -> SettingsError:
        return SettingsError(f"{self.at(path)}: {what}; {self.page} shows the form")


_STEP = re.compile(r"\[\.\.\.\]|\[[0-9]+\]|\.[A-Za-z_]+")
_ANY_KEY = "[...]"
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`")


def in_words(error: msgspec.ValidationError, document: Any, form: Any) -> str:
    """Return what is wrong with a document and where, with the keys that msgspec leaves out, and what a slip was meant to be.

    >>> try: msgspec.convert({"shop": {"min": "2"}}, dict[str, dict[str, int]])
    ... except msgspec.ValidationError as error: in_words(error, {"shop": {"min": "2"}}, dict[str, dict[str, int]])
    'shop.min: Expected `int`, got `str`'
    """
    said, _, path = str(error).partition(" - at `$")
    keys = list(_keys(str(error), _STEP.findall(path), document, form))
    unknown = _UNKNOWN_FIELD.fullmatch(said)
    near = get_close_matches(unknown[1], _fields(inspect.type_info(form), keys), n=1) if unknown else []
    return f"{'.'.join(map(str, keys))}{': ' if keys else ''}{said}{f'; did you mean {near[0]}?' if near else ''}"


def _keys(said: str, steps: list[str], document: Any, form: Any) -> Iterator[str | int]:
    """Yield the keys that lead to what is wrong; where any key may stand, the first under which alone it is still wrong."""
    before: list[str | int] = []
    for step in steps:
        if step != _ANY_KEY:
            key: str | int = int(step[1:-1]) if step.startswith("[") else step[1:]
        else:
            document, key = next(
                ((alone, each) for each, alone in _each_alone(document, before) if _error(alone, form) == said), (document, "")
            )
            if not key:
                return
        before.append(key)
        yield key


def _each_alone(document: Any, before: list[str | int]) -> Iterator[tuple[str, Any]]:
    """Yield each key of the table behind some keys, with the document in which it is the only one of that table."""
    if before:
        first, *rest = before
        for key, alone in _each_alone(document[first], rest):
            yield key, ([alone] if isinstance(document, list) else {**document, first: alone})
    else:
        yield from ((key, {key: value}) for key, value in document.items())


def _error(document: Any, form: Any) -> str:
    try:
        msgspec.convert(document, learned(form))
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def _fields(kind: inspect.Type, keys: list[str | int]) -> list[str]:
    """Return the names of the fields that may stand behind some keys."""
    if isinstance(kind, inspect.Metadata):
        return _fields(kind.type, keys)
    if isinstance(kind, inspect.UnionType):
        return [name for each in kind.types for name in _fields(each, keys)]
    if isinstance(kind, inspect.StructType):
        if not keys:
            return [each.encode_name for each in kind.fields]
        return [name for each in kind.fields if each.encode_name == keys[0] for name in _fields(each.type, keys[1:])]
    if isinstance(kind, inspect.DictType) and keys:
        return _fields(kind.value_type, keys[1:])
    if isinstance(kind, inspect.CollectionType) and keys:
        return _fields(kind.item_type, keys[1:])
    return []
