"""A library that repeats itself is kept down to a line now and then."""

import logging

from services.agent.quieting import Quieting


def record(name: str) -> logging.LogRecord:
    """Return a log record of a logger."""
    return logging.LogRecord(name, logging.ERROR, "file", 1, "away", None, None)


def test_only_the_named_loggers_are_kept_down() -> None:
    """Of the named library the first line passes and the next does not; others always pass."""
    quieting = Quieting(("aiokafka",))
    passed = [quieting.filter(record(name)) for name in ("aiokafka.conn", "aiokafka", "surescale.agent", "surescale.agent")]
    assert passed == [True, False, True, True]
