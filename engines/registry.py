"""The kinds of engines: what can watch and what can scale the jobs of each. Found by entry points, imported when used.

An entry point of the group ``surescale.engines`` has the kind as its name and leads to an `Engine`. What that names is written as
``module:name``, so a role imports the clients that it uses and no others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surescale.engines.ports.actuator import EngineApi
    from surescale.engines.ports.findings import Finding
    from surescale.engines.ports.requirement import Requirements
    from surescale.engines.ports.source import Source
    from surescale.engines.settings import ClusterSettings, SourceSettings

GROUP = "surescale.engines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A source or an actuator.

    Attributes:
        make: makes it.
        checks: takes `SourceSettings` and yields what `surescale doctor` says of it; empty: nothing.
        settings: classes of its own settings (`contracts.settings.Settings`); two parts may share one.
        needs: names of those that must be set.
    """

    make: str
    checks: str = ""
    settings: tuple[type[Settings], ...] = ()
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceKind(Part):
    """A source. ``make`` takes `SourceSettings` and returns a `Source`.

    Attributes:
        asks_actuator: whether only the actuator knows what a job was asked for.
        follows_clock: whether it can follow the topic ``clock``.
    """

    asks_actuator: bool = False
    follows_clock: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActuatorKind(Part):
    """An actuator. ``make`` takes `ClusterSettings` and the seconds that one call may take, and returns an `EngineApi`.

    Attributes:
        requirements: takes `SourceSettings` and returns what it asks for (`Requirements`); empty: the engine's own source knows.
    """

    requirements: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A kind of engine, with what may watch and what may scale its jobs. The first of each is the usual one.

    Attributes:
        sources: by the value of ``SURESCALE_SOURCE``.
        actuators: by the value of ``SURESCALE_ACTUATOR``.
        checks: as of a part, made before those of source and actuator.
        settings: classes of settings that the engine has whatever watches and scales it.
        is_secured: whether its API may have several addresses, certificates and a token.
    """

    sources: Mapping[str, SourceKind]
    actuators: Mapping[str, ActuatorKind]
    checks: str = ""
    settings: tuple[type[Settings], ...] = ()
    is_secured: bool = True

    def part_of(self, role: str, kind: str) -> Part:
        """Return the source or actuator of a kind."""
        return self.sources[kind] if role == "SOURCE" else self.actuators[kind]


NO_ACTUATOR = ActuatorKind(
    make="surescale.engines.ports.read_only:ReadOnlyEngine.of", requirements="surescale.engines.ports.requirement:Requirements.of"
)
"""For every engine: the jobs are only watched."""


@cache
def engines() -> dict[str, Engine]:
    """Return every kind of engine that is installed, by name."""
    return {point.name: point.load() for point in sorted(entry_points(group=GROUP))}


def source_of(settings: "SourceSettings") -> "Source":
    """Return the source that the settings name; nothing is asked yet.

    Raises:
        SettingsError: a file or a certificate cannot be used.
    """
    source: Source = resolve_name(settings.chosen.sources[settings.source_kind].make)(settings)
    return source


def actuator_of(settings: "ClusterSettings", timeout_s: float) -> "EngineApi":
    """Return the actuator that the settings name. Nothing is asked yet, and no worker is tended before ``start``.

    Args:
        settings: of the role.
        timeout_s: seconds that one call to the engine may take.

    Raises:
        SettingsError: a file or a certificate cannot be used.
    """
    actuator: EngineApi = resolve_name(settings.chosen.actuators[settings.actuator_kind].make)(settings, timeout_s)
    return actuator


def requirements_of(settings: "SourceSettings") -> "Requirements":
    """Return what the actuator of the settings asks for; nothing, if only the source knows that.

    Raises:
        SettingsError: a file or a certificate cannot be used.
    """
    name = settings.chosen.actuators[settings.actuator_kind].requirements or NO_ACTUATOR.requirements
    found: Requirements = resolve_name(name)(settings)
    return found


def checks_of(settings: "SourceSettings") -> "Iterator[Finding]":
    """Yield what `surescale doctor` says of the engine, source and actuator of the settings."""
    from surescale.engines.ports.findings import Finding

    engine = settings.chosen
    parts = (engine, engine.sources[settings.source_kind], engine.actuators[settings.actuator_kind])
    try:
        for checks in filter(None, (part.checks for part in parts)):
            yield from resolve_name(checks)(settings)
    except SettingsError as error:
        yield Finding("problem", "engine", str(error), "correct the file, or the setting that names it")


@cache
def users_of_settings() -> dict[type[Settings], list[dict[str, str]]]:
    """Return every class of settings with what reads it: the values that ``ENGINE``, ``SOURCE`` and ``ACTUATOR`` must have."""
    found: dict[type[Settings], list[dict[str, str]]] = {}
    for name, engine in engines().items():
        users = [({"ENGINE": name}, engine.settings)]
        users += [({"ENGINE": name, "SOURCE": kind}, part.settings) for kind, part in engine.sources.items()]
        users += [({"ENGINE": name, "ACTUATOR": kind}, part.settings) for kind, part in engine.actuators.items()]
        for user, kinds in users:
            for kind in kinds:
                found.setdefault(kind, []).append(user)
    return found
