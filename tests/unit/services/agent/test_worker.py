"""The agent's process."""

import logging

import pytest

from surescale.services.agent.worker import RateLimit, warn_if_unknown


def record(name: str) -> logging.LogRecord:
    """Return a log record of a logger."""
    return logging.LogRecord(name, logging.ERROR, "file", 1, "away", None, None)


def test_only_the_named_loggers_are_rate_limited() -> None:
    """The first line of the named library passes and the next does not; all other loggers pass."""
    limit = RateLimit("aiokafka")
    passed = [limit.filter(record(name)) for name in ("aiokafka.conn", "aiokafka", "surescale.agent", "surescale.agent")]
    assert passed == [True, False, True, True]


@pytest.mark.parametrize(
    ("name", "warned"), [("sure", []), ("hold", []), ("sur", ["SURESCALE_POLICY: there is no policy 'sur'"])]
)
def test_a_slip_in_the_policys_name_is_told_before_anything_connects(
    name: str, warned: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """With the names that there are."""
    warn_if_unknown(name, "", logging.getLogger("surescale.agent"))
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == warned
