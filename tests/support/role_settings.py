"""Settings of a role as the environment gives them, those that an engine has of its own among them; and the groups file."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from surescale.contracts.settings import Settings, from_environment
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.chains import Group
from surescale.engines.settings import ClusterSettings

S = TypeVar("S", bound=Settings)


def role_settings(kind: type[S], **settings: object) -> S:
    """Return settings of a kind by their names; what is not given has its default."""
    return from_environment(kind, {f"SURESCALE_{name.upper()}": str(value) for name, value in settings.items()})


def write_groups(settings: ClusterSettings, **jobs: Mapping[str, Group]) -> None:
    """Write the groups file that settings name, with the groups of each job by task."""
    file = Path(settings.part(GroupsSettings).groups_file)
    file.write_bytes(msgspec.json.encode({name: {"groups": groups} for name, groups in jobs.items()}))
