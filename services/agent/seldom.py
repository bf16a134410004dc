"""Keeps a library that repeats itself many times a second while a broker is away down to one line every few seconds."""

import logging
import time
from collections.abc import Iterable


class Seldom(logging.Filter):
    """Lets one record of the named loggers pass per ``every_s``, and all others always."""

    def __init__(self, loggers: Iterable[str], *, every_s: float = 4.0) -> None:
        super().__init__()
        self._prefixes = tuple(loggers)
        self._every_s = every_s
        self._passed_s = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether the record is written."""
        if not record.name.startswith(self._prefixes):
            return True
        now_s = time.monotonic()
        if now_s - self._passed_s < self._every_s:
            return False
        self._passed_s = now_s
        return True
