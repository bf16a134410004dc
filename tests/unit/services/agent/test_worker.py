"""The agent's process."""

import logging
from pathlib import Path

import pytest

from surescale.services.agent.worker import RateLimit, warn_of_policy


def record(name: str) -> logging.LogRecord:
    """Return a log record of a logger."""
    return logging.LogRecord(name, logging.ERROR, "file", 1, "away", None, None)


def test_only_the_named_loggers_are_rate_limited() -> None:
    """The first line of the named library passes and the next does not; all other loggers pass."""
    limit = RateLimit("aiokafka")
    passed = [limit.filter(record(name)) for name in ("aiokafka.conn", "aiokafka", "surescale.agent", "surescale.agent")]
    assert passed == [True, False, True, True]


@pytest.mark.parametrize(
    ("name", "span", "warned"),
    [
        ("sure", 10, []),
        ("hold", 1, []),
        ("sur", 1, ["SURESCALE_POLICY: there is no policy 'sur'"]),
        ("sure", 1, ["SURESCALE_SPAN_MINUTES: 1 is for rules; sure decides every 10 minutes"]),
        ("sure-paper", 30, ["SURESCALE_SPAN_MINUTES: 30 is for rules; sure-paper decides every 60 minutes"]),
        ("sure-paper", 60, []),
    ],
)
def test_a_policy_that_is_not_there_or_decides_at_another_span_is_told_before_anything_connects(
    name: str, span: int, warned: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """With the names that there are, and how often it does decide."""
    warn_of_policy(name, "", span, logging.getLogger("surescale.agent"))
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == warned


def test_a_policy_folder_that_is_not_there_is_told_instead_of_the_policy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The name may be right."""
    warn_of_policy("sure", str(tmp_path / "none"), 10, logging.getLogger("surescale.agent"))
    (said,) = (record.getMessage() for record in caplog.records)
    assert said == f"SURESCALE_POLICY_FOLDER: {tmp_path / 'none'} is no folder, so a rule answers in place of 'sure'"
