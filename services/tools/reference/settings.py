"""The page of settings: every variable that a role or a command reads, its default and what it means."""

from collections.abc import Iterator
from dataclasses import Field as DataclassField
from dataclasses import fields
from importlib.metadata import entry_points
from typing import Any

from contracts.settings import LIKE, PipelineSettings
from contracts.topic_settings import TopicSettings
from runtime.logs import LogSettings
from services.tools.health import ROLES
from services.tools.reference.markdown import code, page, table
from services.tools.reference.source import Field, fields_of, first_paragraph

# Variables that no role reads as a setting: folders of the command line, image names, how tests run.
OTHERS = (
    ("SURESCALE_CACHE", "", "Where `demo`, `up` and tests keep downloaded jars; else a folder in the user's cache."),
    ("SURESCALE_MAVEN_REPOSITORY", "", "Maven repository for those jars; else Ivy's default."),
    ("SURESCALE_RUN_FOLDER", "runs/up", "Where `up` keeps logs and data."),
    ("SURESCALE_TEST_STACK", "", "Tests: `containers` forbids local servers, `local` forbids containers."),
    ("SURESCALE_REGISTRY", "surescale", "Compose, image builds and tests: where the roles' images are pushed and pulled."),
    ("SURESCALE_TAG", "the project's version", "Compose, image builds and tests: tag of the roles' images."),
    ("SURESCALE_ROLE", "", "Set inside an image: which role it runs."),
)


def settings_page() -> str:
    """Return the page."""
    parts = [
        "A role reads variables `SURESCALE_NAME`; options of its command win over them. What does not parse ends the role with",
        "one line that names the variable. An address that carries a password is never shown with it.\n",
        "## Of every role\n",
        _table(fields_of(PipelineSettings), PipelineSettings),
        "## Of every role's log\n",
        _table(fields_of(LogSettings), LogSettings),
    ]
    for role, kind in roles():
        parts += [
            f"## Of `surescale {role}`\n",
            f"{first_paragraph(kind.__doc__)}\n".replace("``", "`"),
            _table(_own_fields(kind), kind),
        ]
    parts += [
        "## Of `surescale topics create`\n",
        "They take effect on topics that do not exist yet.\n",
        _table(_own_fields(TopicSettings), TopicSettings),
    ]
    rows = [(code(name), code(default), description) for name, default, description in OTHERS]
    return page("Settings", *parts, "## Others\n", table(["variable", "default", "is"], rows))


def roles() -> Iterator[tuple[str, type]]:
    """Yield each role with its settings, in the order of the pipeline."""
    found = {point.name: point.load() for point in entry_points(group="surescale.settings")}
    yield from ((role, found[role]) for role in ROLES)


def _own_fields(kind: type) -> list[Field]:
    """Return the fields of a role that not every role has, its own first."""
    return [field for each in kind.__mro__[: kind.__mro__.index(PipelineSettings)] for field in fields_of(each)]


def _table(written: list[Field], kind: type[Any]) -> str:
    # The value, not its source: a default may be another module's constant.
    known = {field.name: field for field in fields(kind)}
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
