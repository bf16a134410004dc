"""The agent's process."""

import logging

from services.agent.worker import RateLimit


def record(name: str) -> logging.LogRecord:
    """Return a log record of a logger."""
    return logging.LogRecord(name, logging.ERROR, "file", 1, "away", None, None)


def test_only_the_named_loggers_are_rate_limited() -> None:
    """The first line of the named library passes and the next does not; all other loggers pass."""
    limit = RateLimit("aiokafka")
    passed = [limit.filter(record(name)) for name in ("aiokafka.conn", "aiokafka", "surescale.agent", "surescale.agent")]
    assert passed == [True, False, True, True]
