"""Files that settings name, in TOML or JSON: what engines run or know, by the name of each job.

``FILE#TABLE`` names one table of a file that holds other things too.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from surescale.contracts.errors import SettingsError, reason_of
from surescale.contracts.foreign_files import in_time, text, toml
from surescale.contracts.ids import JOB_LETTERS_MAX, NAME_LETTERS_MAX
from surescale.contracts.plain_words import in_plain_words, words_of
from surescale.contracts.wire import learned
from surescale.runtime.printable import printable

T = TypeVar("T")

JOB_NAME_LETTERS_MAX = JOB_LETTERS_MAX - NAME_LETTERS_MAX - 1
"""The id of a job has room for the longest name of a cluster before it."""


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
        try:
            name, _, table = (str(path), "", "") if in_time(path.exists, path) else str(path).rpartition("#")
            is_json = (name or str(path)).endswith(".json")
            document: Any = msgspec.json.decode(text(name or path)) if is_json else toml(name or path)
        except OSError as error:
            raise SettingsError(f"{self.at(path)} cannot be read ({reason_of(error)}); name a readable file") from None
        except ValueError as error:
            raise self._malformed(path, str(error)) from None
        except RecursionError:
            raise self._malformed(path, "it is nested too deep") from None
        try:
            if table:
                document = document.get(table, {})
            found = msgspec.convert(document, learned(form))
        except msgspec.ValidationError as error:
            raise self._malformed(path, in_words(error, document, form)) from None
        except (ValueError, AttributeError) as error:  # also of a document that is no table
            raise self._malformed(path, str(error)) from None
        except RecursionError:
            raise self._malformed(path, "it is nested too deep") from None
        if not found and not may_be_empty:
            raise self._malformed(path, "names no job")
        for job in found:
            if len(job) > JOB_NAME_LETTERS_MAX or not job.isprintable():
                raise self._malformed(
                    path,
                    f"{job[:JOB_NAME_LETTERS_MAX]!r} is no name of a job; give it at most {JOB_NAME_LETTERS_MAX} visible letters",
                )
        return found

    def at(self, path: Path) -> str:
        """Return how a message about a file begins."""
        return f"{self.setting}: {path}"

    def _malformed(self, path: Path, what: str) -> SettingsError:
        return SettingsError(f"{self.at(path)}: {printable(what)}; {self.page} shows the form")


_STEP = re.compile(r"\[\.\.\.\]|\[[0-9]+\]|\.[A-Za-z_]+")
_ANY_KEY = "[...]"
_OF_A_KEY = " - at `key` in `$"


def in_words(error: msgspec.ValidationError, document: Any, form: Any) -> str:
    """Return what is wrong with a document and where, with the keys that msgspec leaves out, and what a slip was meant to be.

    >>> try: msgspec.convert({"shop": {"min": "2"}}, dict[str, dict[str, int]])
    ... except msgspec.ValidationError as error: in_words(error, {"shop": {"min": "2"}}, dict[str, dict[str, int]])
    'shop.min: must be a whole number'
    """
    of_key = _OF_A_KEY in str(error)
    said, _, path = str(error).partition(_OF_A_KEY if of_key else " - at `$")
    keys = list(_keys(str(error), _STEP.findall(path), document, form))
    kinds = _kinds(inspect.type_info(form), keys)
    if of_key:
        keys += next(([key] for key, alone in _each_alone(document, keys) if _error(alone, form) == str(error)), [])
    names = [name for each in kinds for name in (_key_words(each) if of_key else words_of(each) or _field_names(each))]
    return f"{'.'.join(map(str, keys))}{': ' if keys else ''}{in_plain_words(said, names)}"


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


def _kinds(kind: inspect.Type, keys: list[str | int]) -> list[inspect.Type]:
    """Return the kinds of what may stand behind some keys."""
    if isinstance(kind, inspect.Metadata):
        return _kinds(kind.type, keys)
    if isinstance(kind, inspect.UnionType):
        return [found for each in kind.types for found in _kinds(each, keys)]
    if not keys:
        return [kind]
    if isinstance(kind, inspect.StructType):
        return [found for each in kind.fields if each.encode_name == keys[0] for found in _kinds(each.type, keys[1:])]
    if isinstance(kind, inspect.DictType):
        return _kinds(kind.value_type, keys[1:])
    return _kinds(kind.item_type, keys[1:]) if isinstance(kind, inspect.CollectionType) else []


def _field_names(kind: inspect.Type) -> list[str]:
    return [each.encode_name for each in kind.fields] if isinstance(kind, inspect.StructType) else []


def _key_words(kind: inspect.Type) -> list[str]:
    return words_of(kind.key_type) if isinstance(kind, inspect.DictType) else []
