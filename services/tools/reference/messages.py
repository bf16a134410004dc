"""The page of messages, and the JSON Schema of each."""

import ast
import inspect
import json
from collections.abc import Iterator
from types import ModuleType
from typing import TypeVar

import msgspec

from contracts import commands, decisions, job_settings, messages, releases, rescaler_state, shadows, windows
from contracts.topics import SNAPSHOTS, TOPICS
from services.tools.reference.markdown import code, page, table
from services.tools.reference.source import comments_of, fields_of

T = TypeVar("T")

SCHEMAS = "schemas"
DECLARED_IN = (messages, decisions, job_settings, releases, shadows, commands, rescaler_state)


def message_kinds() -> list[type[messages.Message]]:
    """Return every kind of record that is sent on its own, in the order of the source."""
    return _structs(messages.Message)


def tag_of(kind: type[messages.Message]) -> str:
    """Return name and version as in the field ``type``: ``sample/1``."""
    return str(kind.__struct_config__.tag)


def messages_page() -> str:
    """Return the page."""
    parts = [
        "JSON, one object a record; the field `type` names kind and version. A field with a default may be left out. Fields are",
        "added with a default inside one version; a change of meaning is a new version. Unknown fields are ignored.\n",
        "## Types\n",
        table(["type", "is"], _aliases()),
    ]
    for kind in message_kinds():
        tag = tag_of(kind)
        parts += [f"## {kind.__name__}: `{tag}`\n", f"{_paragraphs(kind)}\n", _carried_by(kind)]
        parts += [f"[JSON Schema]({SCHEMAS}/{schema_name(kind)})\n", _field_table(kind)]
    parts.append("## Parts\n")
    for part in _structs(messages.Part):
        parts += [f"### {part.__name__}\n", f"{_paragraphs(part)}\n", _field_table(part)]
    return page("Messages", *parts, *_windows())


def schemas() -> Iterator[tuple[str, str]]:
    """Yield file name and JSON Schema (draft 2020-12) of every kind of record."""
    for kind in message_kinds():
        document = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": tag_of(kind), **msgspec.json.schema(kind)}
        yield f"{SCHEMAS}/{schema_name(kind)}", json.dumps(document, indent=1, sort_keys=True) + "\n"


def schema_name(kind: type[messages.Message]) -> str:
    """Return the file name of a kind's schema."""
    return tag_of(kind).replace("/", "-") + ".json"


def _structs(base: type[T]) -> list[type[T]]:
    """Return the subclasses of a base that the modules declare, in the order of the source."""
    return [kind for module in DECLARED_IN for kind in vars(module).values() if _is_kind_of(base, kind, module)]


def _is_kind_of(base: type, kind: object, module: ModuleType) -> bool:
    return isinstance(kind, type) and issubclass(kind, base) and kind is not base and kind.__module__ == module.__name__


def _field_table(kind: type) -> str:
    owners = [owner for owner in reversed(kind.__mro__) if issubclass(owner, msgspec.Struct) and owner is not msgspec.Struct]
    rows = [
        (code(field.name), code(field.type), code(field.default) or "required", field.description)
        for owner in owners
        for field in fields_of(owner)
    ]
    return table(["field", "type", "default", "is"], rows)


def _paragraphs(kind: type) -> str:
    return inspect.cleandoc(kind.__doc__ or "").replace("``", "`")


def _carried_by(kind: type) -> str:
    names = [topic.name for topic in TOPICS.values() if kind.__name__ in topic.carries.replace(",", " ").split()]
    return f"On {', '.join(map(code, names))}.\n"


def _aliases() -> Iterator[tuple[str, str]]:
    for node in (node for module in DECLARED_IN for node in ast.parse(inspect.getsource(module)).body):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and ast.unparse(node.value).startswith("Annotated")
        ):
            yield code(node.targets[0].id), code(ast.unparse(node.value))


def _windows() -> list[str]:
    comments = comments_of(windows, "FIGURES")
    rows = [(str(index), code(name), comments.get(name, "")) for index, name in enumerate(windows.FIGURES)]
    head = f"On `{SNAPSHOTS}`. {inspect.cleandoc(windows.__doc__ or '')}".replace("``", "`")
    return ["## Windows\n", f"{head}\n", table(["figure", "name", "is"], rows)]
