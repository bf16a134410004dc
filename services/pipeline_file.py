"""The pipeline's file: one TOML file in which every command finds its settings, its consumer groups and its jobs.

    [settings]                        # SURESCALE_ variables, by their names without that, in lower case
    engine = "kafka"
    bootstrap = "kafka:9092"

    [up]                              # options of `surescale up`
    one-process = true

    [chains.orders.groups.parse]      # consumer groups, as in SURESCALE_GROUPS_FILE
    group = "orders-parse"

    [jobs."shop/orders"]              # settings of jobs, as `surescale job apply` takes them; `up` applies them
    max = 12

A variable of the environment wins over the file, and an option over both.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, get_type_hints

from surescale.contracts.errors import UNREADABLE, SettingsError, SurescaleError, reason_of
from surescale.contracts.foreign_files import is_plain, toml
from surescale.contracts.settings import PARTS, PipelineSettings, parse
from surescale.contracts.suggestions import meant
from surescale.runtime.logs import LogSettings
from surescale.runtime.printable import one_line

PREFIX = "SURESCALE_"
# Variables that no role reads as a setting: folders of the command line, image names, how tests run.
OTHERS = (
    ("SURESCALE_CACHE", "", "Where `demo`, `up` and tests keep downloaded jars; else a folder in the user's cache."),
    ("SURESCALE_MAVEN_REPOSITORY", "", "Maven repository for those jars; else Ivy's default."),
    ("SURESCALE_RUN_FOLDER", "runs/up", "Where `up` keeps logs and data."),
    ("SURESCALE_FILE", "surescale.toml, if there", "The pipeline's file, which every command reads; empty: none."),
    ("SURESCALE_TEST_STACK", "", "Tests: `containers` forbids local servers, `local` forbids containers."),
    ("SURESCALE_REGISTRY", "surescale", "Compose, image builds and tests: where the roles' images are pushed and pulled."),
    ("SURESCALE_TAG", "the project's version", "Compose, image builds and tests: tag of the roles' images."),
    ("SURESCALE_ROLE", "", "Set inside an image: which role it runs."),
)
_ALIKE = 0.8
_OF_A_SERVICE = re.compile(r"_SERVICE_(HOST|PORT)|_PORT_[0-9]+_(TCP|UDP)")
"""Kubernetes tells each pod of the services beside it in variables that begin with the service's name."""


def check_names(environment: Mapping[str, str]) -> None:
    """Refuse a variable that nothing reads and that looks like a slip in the name of one.

    Others that begin with ``SURESCALE_`` may be somebody else's.

    Raises:
        SettingsError: names it, and the name that was meant.
    """
    given = {name for name in environment if name.startswith(PREFIX)} - _names([PipelineSettings, LogSettings])
    if not given:
        return
    try:
        known = _names(_kinds())
    except ImportError:  # of an engine from elsewhere that is not whole; what uses it says so
        return
    for name in sorted(given - known):
        if _OF_A_SERVICE.search(name) or environment[name].startswith("tcp://"):
            continue
        bare = {each.removeprefix(PREFIX) for each in known}
        near = get_close_matches(name.removeprefix(PREFIX), sorted(bare), n=1, cutoff=_ALIKE)
        if near:
            raise SettingsError(f"{name}: nothing reads a variable of this name; set {PREFIX}{near[0]}, or unset it")


def known_types() -> dict[str, object]:
    """Return every variable with the type of its value; those that no role reads as a setting are text."""
    found: dict[str, object] = {name: str for name, _, _ in OTHERS}
    for kind in _kinds():
        hints = get_type_hints(kind)
        found |= {f"{PREFIX}{each.name.upper()}": hints[each.name] for each in fields(kind) if each.name != PARTS}
    return found


def _kinds() -> Iterator[type]:
    from surescale.contracts.topics import TopicSettings
    from surescale.engines.registry import users_of_settings

    yield from (PipelineSettings, LogSettings, TopicSettings)
    yield from users_of_settings()
    yield from (point.load() for point in entry_points(group="surescale.settings"))


def _names(kinds: Iterable[type]) -> set[str]:
    own = {f"{PREFIX}{each.name.upper()}" for kind in kinds for each in fields(kind) if each.name != PARTS}
    return own | {name for name, _, _ in OTHERS}


VARIABLE = f"{PREFIX}FILE"
DEFAULT = "surescale.toml"
SETTINGS, UP, CHAINS, JOBS = "settings", "up", "chains", "jobs"
TABLES = (SETTINGS, UP, CHAINS, JOBS)
_LISTED = "docs/reference/settings.md lists them"
_GROUPS_FILE = f"{PREFIX}GROUPS_FILE"


@dataclass(frozen=True, slots=True)
class PipelineFile:
    """What a file says.

    Attributes:
        path: of the file, absolute.
        variables: what it sets, as variables of the environment.
        up: options of `surescale up` by name.
        has_jobs: whether it sets jobs.
    """

    path: Path
    variables: Mapping[str, str]
    up: Mapping[str, object]
    has_jobs: bool

    def place(self, variable: str) -> str:
        """Return where the file sets a variable."""
        if variable == _GROUPS_FILE and self.variables[variable].endswith(f"#{CHAINS}"):
            return f"[{CHAINS}]"
        return f"[{SETTINGS}] {variable.removeprefix(PREFIX).lower()}"

    def overruled(self) -> list[str]:
        """Return the variables that the environment sets to something else."""
        return sorted(name for name, value in self.variables.items() if os.environ.get(name, value) != value)

    def explained(self, message: str) -> str:
        """Return a message with the place in the file beside the first variable that was set there."""
        named = [(message.index(name), -len(name), name) for name in self.variables if name in message]
        for _, _, name in sorted(named)[:1]:
            if os.environ.get(name) == self.variables[name]:
                return message.replace(name, f"{name} ({self.place(name)} of {self.path.name})", 1)
        return message


def chosen(given: Path | None) -> Path | None:
    """Return the file to read: the one that an option gives, else the variable's, else the usual one if it is there."""
    if given is not None:
        return given
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    return Path(DEFAULT) if Path(DEFAULT).is_file() else None


@contextmanager
def used(path: Path | None) -> Iterator[PipelineFile | None]:
    """Set what a file says in the environment, where that does not say it, for this command and its children.

    Raises:
        SettingsError: the file cannot be read or is wrong; and in place of the command's own errors, with the place in the file.
    """
    if path is None:
        yield None
        return
    file = read(path)
    missing = {name: value for name, value in file.variables.items() if name not in os.environ}
    before = os.environ.get(VARIABLE)
    os.environ.update(missing)
    os.environ[VARIABLE] = str(file.path)
    try:
        yield file
    except (SurescaleError, ConnectionError) as error:
        if len(error.args) == 1:
            error.args = (file.explained(str(error)),)
        raise
    finally:
        for name in missing:
            os.environ.pop(name, None)
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


def read(path: Path) -> PipelineFile:
    """Return what a file says.

    Raises:
        SettingsError: it cannot be read, or has a table, a name or a value that is none; names the place and the fix.
    """
    where = str(path)
    try:
        document = toml(path)
    except OSError as error:
        raise SettingsError(f"{where}: cannot be read ({reason_of(error)}); `surescale init` writes such a file") from None
    except UNREADABLE as error:
        raise SettingsError(f"{where}: is not TOML: {error}") from None
    for name, table in document.items():
        if name not in TABLES:
            raise SettingsError(f"{where}: there is no table [{one_line(name)}]; {meant(name, sorted(TABLES), '[{}]')}")
        if not isinstance(table, dict):
            raise SettingsError(f"{where}: {name}: is not a table; write [{name}] and what belongs to it below")
    variables = dict(_variables(where, document.get(SETTINGS, {})))
    absolute = path.absolute()
    if document.get(CHAINS):
        if _GROUPS_FILE in variables:
            raise SettingsError(f"{where}: [{SETTINGS}] groups_file: the groups stand in [{CHAINS}] already; take one out")
        variables[_GROUPS_FILE] = f"{absolute}#{CHAINS}"
    return PipelineFile(absolute, variables, document.get(UP, {}), bool(document.get(JOBS)))


def _variables(where: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    known = known_types() if table else {}
    names = {name.removeprefix(PREFIX).lower() for name in known} - {VARIABLE.removeprefix(PREFIX).lower()}
    for name, value in table.items():
        place = f"{where}: [{SETTINGS}] {name}"
        if name not in names:
            bare = name.lower().removeprefix(PREFIX.lower())
            raise SettingsError(f"{place}: there is no setting of this name; {meant(bare, sorted(names), otherwise=_LISTED)}")
        if not is_plain(value):
            raise SettingsError(f"{place}: takes a number or a text; write several values as one text, with commas between")
        variable, given = PREFIX + name.upper(), str(value).lower() if isinstance(value, bool) else str(value)
        if "\0" in given:
            raise SettingsError(f"{place}: has a NUL, which no variable can hold; take it out")
        try:
            parse(variable, given, known[variable])
        except SettingsError as error:
            raise SettingsError(f"{place}: {str(error).partition(': ')[2]}") from None
        yield variable, given
