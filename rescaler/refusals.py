"""How the rescaler's pure parts refuse input: a code from a closed set, a sentence, and the place.

    Exception
    └── Refused          the caller's data cannot be accepted; nothing has changed

Our own mistakes are assertions or ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Mapping

Place = Mapping[str, str | int]
"""What the refusal is about: any of ``field``, ``fragment``, ``task``, ``host``."""


class Refused(Exception):
    """The input was refused with ``code``; ``place`` names the offending field, fragment, task or host."""

    def __init__(self, code: str, message: str, place: Place | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = str(code)
        self.message = message
        self.place: dict[str, str | int] = dict(place or {})

    def as_error(self) -> dict[str, str | int]:
        """Return the ``error`` object of a command's answer."""
        return {"code": self.code, "message": self.message, **self.place}
