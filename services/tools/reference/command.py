"""``surescale dev reference``: write the pages that are generated from code, or say which ones are out of date."""

import ast
import inspect
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import Field as DataclassField
from dataclasses import dataclass, fields
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar, get_args, get_origin

import click
import msgspec

from surescale.contracts import commands, decisions, job_settings, messages, releases, rescaler_state, windows
from surescale.contracts.errors import SurescaleError
from surescale.contracts.settings import LIKE, PARTS, PipelineSettings
from surescale.contracts.topics import RECORD_BYTES_MAX, SNAPSHOTS, TOPICS, Topic, TopicSettings
from surescale.engines.registry import users_of_settings
from surescale.engines.settings import ClusterSettings
from surescale.runtime.logs import LogSettings
from surescale.runtime.metrics import COMMON, PROCESS, Metric
from surescale.services.pipeline_file import OTHERS
from surescale.services.tools.health import ROLES

DEFAULT_FOLDER = "docs/reference"


class OutOfDate(SurescaleError):
    """Pages differ from what the code makes; the message names them."""


@click.command("reference")
@click.option("--out", type=click.Path(path_type=Path), default=DEFAULT_FOLDER, show_default=True, help="Folder of the pages.")
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 if a page is missing, out of date, or not needed.")
def command(out: Path, check: bool) -> None:
    """Write the reference pages from the code.

    There is a page each for messages (with JSON Schema), topics, settings, metrics and commands, and the HTTP API's OpenAPI
    document.
    """
    made = pages()
    if check:
        if not out.is_dir():
            raise SurescaleError(f"--out: there is no folder {out}; name the one of the reference, or run this where it is")
        if stale := out_of_date(out, made):
            raise OutOfDate(f"{out}: out of date: {', '.join(stale)}; `make reference` writes them")
        click.echo(f"{out}: {len(made)} files are what the code makes")
        return
    stale = out_of_date(out, made)
    theirs = [name for name in stale if (out / name).is_file()]
    # A page that somebody altered among others is overwritten; a folder without any generated page is not the reference.
    if theirs and not any(_was_made(path, out) for path in out.glob("*.md")):
        raise SurescaleError(f"--out: {out / theirs[0]} was not made from code; name another folder, or move it")
    for name in stale:
        path = out / name
        if name in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[name], encoding="utf-8")
        else:
            path.unlink()
        click.echo(path)


def pages() -> dict[str, str]:
    """Return every page by its path below the folder. The same code gives the same bytes."""
    from surescale.services.cli import cli

    return {
        OPENAPI: api_document(),
        "commands.md": commands_page(cli),
        "messages.md": messages_page(),
        "metrics.md": metrics_page(),
        "settings.md": settings_page(),
        "topics.md": topics_page(),
        **dict(schemas()),
    }


def out_of_date(folder: Path, made: dict[str, str]) -> list[str]:
    """Return the sorted paths that are missing in the folder, have another text, or are no longer generated."""
    found = {path.relative_to(folder).as_posix(): path for path in _pages_in(folder)}
    changed = {name for name, text in made.items() if name not in found or found[name].read_text(encoding="utf-8") != text}
    return sorted(changed | {name for name in found.keys() - made.keys() if _was_made(found[name], folder)})


def _pages_in(folder: Path) -> list[Path]:
    return [*folder.glob("*.md"), *folder.glob(OPENAPI), *folder.glob(f"{SCHEMAS}/*.json")]


def _was_made(path: Path, folder: Path) -> bool:
    """Return whether a page was generated: pages written by hand stay, even if a wrong folder was named."""
    told_by = path if path.suffix == ".md" else folder / "messages.md"  # a schema cannot carry the note itself
    return told_by.is_file() and NOTE in told_by.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a class as written: its type, its default ("" for none), and its description."""

    name: str
    type: str
    default: str
    description: str


def fields_of(kind: type) -> list[Field]:
    """Return the fields that a class itself declares, in order, each described by the docstring below it or by its comment."""
    source = inspect.cleandoc("\n" + inspect.getsource(kind))
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    comments = _comments(source)
    found = []
    for item, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            default = ast.unparse(item.value) if item.value is not None else ""
            annotation, told = _annotated(item.annotation)
            description = told or _docstring(below) or comments.get(item.end_lineno or item.lineno, "")
            found.append(Field(item.target.id, _type(annotation, kind.__module__), default, description))
    return found


def comments_of(module: ModuleType, name: str) -> dict[str, str]:
    """Return the comments after the strings of a tuple that a module assigns to a name."""
    source = inspect.getsource(module)
    comments = _comments(source)
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            texts = [item for item in ast.walk(node.value) if isinstance(item, ast.Constant)]
            return {str(item.value): comments.get(item.lineno, "") for item in texts}
    raise LookupError(f"{module.__name__} assigns nothing to {name}")


def first_paragraph(text: str | None) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join(inspect.cleandoc(text or "").split("\n\n")[0].split())


def _annotated(annotation: ast.expr) -> tuple[ast.expr, str]:
    """Return the type of a job's setting without what is told of it, and its help with its option; another type as it is."""
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
        inner, *more = annotation.slice.elts
        for each in more:
            if isinstance(each, ast.Call) and ast.unparse(each.func) == "Setting":
                option, told = (ast.literal_eval(argument) for argument in each.args[:2])
                return inner, f"`--{option}`: {told}"
    return annotation, ""


def _type(annotation: ast.expr, module: str) -> str:
    """Return a field's type as written; the name of a closed set of words is replaced by the set."""
    written = ast.unparse(annotation)
    meant = getattr(sys.modules[module], written, None)
    return f"Literal[{', '.join(map(repr, get_args(meant)))}]" if get_origin(meant) is Literal else written


def _docstring(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}


NOTE = "Made from code by `make reference`; changes belong there.\n"


def page(title: str, *parts: str) -> str:
    """Return a whole page: title, note and parts, separated by empty lines."""
    return "\n".join([f"# {title}\n", NOTE, *parts]).rstrip("\n") + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """Return a text as inline code; empty for an empty text."""
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|").replace("\n", " ").strip()


WIDTH = 100


def commands_page(root: click.Group) -> str:
    """Return the page of a command line."""
    parts = [f"## `{path}`\n\n```\n{said}\n```\n" for path, said in _helps(root, "surescale", None)]
    return page("Commands", *parts)


def _helps(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    about: dict[str, Any] = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, parent=parent, info_name=name, **about)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None and not found.hidden:
                yield from _helps(found, below, context)


_DAY_MS = 86_400_000


def topics_page() -> str:
    """Return the page."""
    rows = [
        (code(topic.name), topic.key, _kept(topic), str(topic.partitions), ", ".join(topic.written_by), topic.carries)
        for topic in TOPICS.values()
    ]
    return page(
        "Topics",
        "`surescale topics create` makes them; a prefix (`SURESCALE_TOPIC_PREFIX`) may stand before every name. Keys are hashed",
        f"by murmur2, time stamps are the broker's append time, a record has at most {RECORD_BYTES_MAX} bytes. Numbers of",
        "partitions and days are the defaults; [settings](settings.md) change them before the first start.\n",
        table(["topic", "key", "kept", "partitions", "written by", "carries"], rows),
        "## Settings at the broker\n",
        table(["topic", "settings"], [(code(topic.name), _config(topic)) for topic in TOPICS.values()]),
    )


def _kept(topic: Topic) -> str:
    return f"{topic.retention_ms // _DAY_MS} days" if topic.kept == "by time" else topic.kept


def _config(topic: Topic) -> str:
    return ", ".join(code(f"{key}={value}") for key, value in sorted(topic.config().items()))


def metrics_page() -> str:
    """Return the page."""
    tables = {point.name: point.load() for point in entry_points(group="surescale.metrics")}
    parts = [
        "Every role shows them at `/metrics` of its health port (`SURESCALE_HEALTH_PORT`, `SURESCALE_HEALTH_HOST`), the engine",
        "at its own; in Prometheus' text form, or as OpenMetrics where that is asked for. Counters begin at 0 with the process,",
        "and a series with labels begins with its first event. The label `streaming_job` is a job's id.\n",
        "## Every role\n",
        _metric_table(COMMON),
        f"And of the process itself, as the Python client names them: {', '.join(map(code, PROCESS))}.\n",
    ]
    for role in ROLES:
        parts += [f"## {role}\n", _metric_table(tables[role])]
    return page("Metrics", *parts)


def _metric_table(metrics: tuple[Metric, ...]) -> str:
    rows = [(code(metric.name), metric.kind, ", ".join(map(code, metric.labels)), metric.help) for metric in metrics]
    return table(["metric", "kind", "labels", "is"], rows)


def settings_page() -> str:
    """Return the page."""
    parts = [
        "A role reads variables `SURESCALE_NAME`; options of its command win over them. What does not parse ends the role with",
        "one line that names the variable; so does a name that looks like a slip in one of these. An address that carries a",
        "password is never shown with it.\n",
        "## Of every role\n",
        _setting_table(fields_of(PipelineSettings), PipelineSettings),
        "## Of every role's log\n",
        _setting_table(fields_of(LogSettings), LogSettings),
        "## Of the engine\n",
        "Monitor, rescaler and `surescale doctor` read them.\n",
        _setting_table(fields_of(ClusterSettings), ClusterSettings),
    ]
    for own in users_of_settings():
        parts += [f"## {first_paragraph(own.__doc__).rstrip('.')}\n", _setting_table(fields_of(own), own)]
    for role, kind in roles():
        parts += [
            f"## Of `surescale run {role}`\n",
            f"{first_paragraph(kind.__doc__)}\n".replace("``", "`"),
            _setting_table(_own_fields(kind), kind),
        ]
    parts += [
        "## Of `surescale topics create`\n",
        "They take effect on topics that do not exist yet.\n",
        _setting_table(_own_fields(TopicSettings), TopicSettings),
    ]
    rows = [(code(name), code(default), description) for name, default, description in OTHERS]
    return page("Settings", *parts, "## Others\n", table(["variable", "default", "is"], rows))


def roles() -> Iterator[tuple[str, type]]:
    """Yield each role with its settings, in the order of the pipeline."""
    found = {point.name: point.load() for point in entry_points(group="surescale.settings")}
    yield from ((role, found[role]) for role in ROLES)


def _own_fields(kind: type) -> list[Field]:
    """Return the fields of a role that neither every role nor every engine has, its own first."""
    shared = ClusterSettings.__mro__
    return [field for each in kind.__mro__ if each not in shared for field in fields_of(each)]


def _setting_table(written: list[Field], kind: type[Any]) -> str:
    # The value, not its source: a default may be another module's constant.
    known = {field.name: field for field in fields(kind) if field.name != PARTS}
    rows = [
        (
            code(f"SURESCALE_{name.upper()}"),
            each.type,
            code(_text(known[name].default)),
            each.description or _description(known[name]),
        )
        for each in written
        if (name := each.name) in known
    ]
    return table(["variable", "type", "default", "is"], rows)


def _description(field: DataclassField[Any]) -> str:
    """Return what is said of a field where it is defined."""
    if LIKE not in field.metadata:
        return ""
    kind, name = field.metadata[LIKE]
    return next(each.description for each in fields_of(kind) if each.name == name)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


T = TypeVar("T")

OPENAPI = "openapi.json"
SCHEMAS = "schemas"
DECLARED_IN = (messages, decisions, job_settings, releases, commands, rescaler_state)


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
    from surescale.services.state.http.openapi import unindented

    for kind in message_kinds():
        own = unindented(msgspec.json.schema(kind))
        document = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": tag_of(kind), **own}
        yield f"{SCHEMAS}/{schema_name(kind)}", json.dumps(document, indent=1, sort_keys=True) + "\n"


def api_document() -> str:
    """Return the OpenAPI document of the HTTP API, which the types of the web page are made from."""
    from surescale.services.state.http.openapi import openapi

    # A service answers with its own version; here it would only be one more thing to change for a release.
    return json.dumps(openapi("source"), indent=1) + "\n"


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
    for module in DECLARED_IN:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                written = ast.unparse(node.value)
                if written.startswith("Annotated"):
                    yield code(node.targets[0].id), code(_CONSTANT.sub(partial(_value_in, module), written))


_CONSTANT = re.compile(r"(?<==)[A-Z_]+\b")


def _value_in(module: ModuleType, name: re.Match[str]) -> str:
    """Return the value of a module's constant, whose name says nothing to who reads the page."""
    return str(getattr(module, name[0]))


def _windows() -> list[str]:
    comments = comments_of(windows, "FIGURES")
    rows = [(str(index), code(name), comments.get(name, "")) for index, name in enumerate(windows.FIGURES)]
    head = f"On `{SNAPSHOTS}`. {inspect.cleandoc(windows.__doc__ or '')}".replace("``", "`")
    return ["## Windows\n", f"{head}\n", table(["figure", "name", "is"], rows)]
