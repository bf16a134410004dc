"""What a task is scaled by: one service of a Compose project."""

from typing import Annotated

import msgspec
from msgspec import Meta


class Service(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One service.

    Attributes:
        project: as ``docker compose ls`` shows it.
        service: as the Compose file names it.
    """

    project: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]*$(?!\n)", max_length=200)]
    service: Annotated[str, Meta(pattern=r"^[a-zA-Z0-9._-]+$(?!\n)", max_length=200)]

    def __str__(self) -> str:
        return f"{self.project}/{self.service}"
