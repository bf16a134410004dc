"""The environment variables that surescale reads, and a slip in the name of one."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import get_type_hints

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PARTS, PipelineSettings
from surescale.runtime.logs import LogSettings

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
