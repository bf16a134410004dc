"""Keeps a library that repeats itself many times a second while a broker is away down to one line every few seconds."""

import logging
from collections.abc import Iterable

from runtime.backoff import Seldom


class Quieting(logging.Filter):
    """Lets a record of the named loggers pass when it is time for one (``runtime.backoff.Seldom``), and all others always."""

    def __init__(self, loggers: Iterable[str]) -> None:
        super().__init__()
        self._prefixes = tuple(loggers)
        self._seldom = Seldom()

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether the record is written."""
        return not record.name.startswith(self._prefixes) or self._seldom.is_time()
