"""A library that repeats itself is kept down to a line now and then."""

import logging

from services.agent.seldom import Seldom


def record(name: str) -> logging.LogRecord:
    """Return a log record of a logger."""
    return logging.LogRecord(name, logging.ERROR, "file", 1, "away", None, None)


def test_only_the_named_loggers_are_kept_down() -> None:
    """Of the named library the first line passes and the next does not; others always pass."""
    seldom = Seldom(("aiokafka",), every_s=60.0)
    passed = [seldom.filter(record(name)) for name in ("aiokafka.conn", "aiokafka", "surescale.agent", "surescale.agent")]
    assert passed == [True, False, True, True]


def test_after_a_while_the_next_line_passes() -> None:
    """With no pause asked for, every line passes."""
    seldom = Seldom(("aiokafka",), every_s=0.0)
    assert all(seldom.filter(record("aiokafka")) for _ in range(3))
