"""The agent's process."""

import logging
from pathlib import Path

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


def test_a_policy_folder_that_is_not_there_is_told_instead_of_the_policy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The name may be right."""
    warn_if_unknown("sure", str(tmp_path / "none"), logging.getLogger("surescale.agent"))
    (said,) = (record.getMessage() for record in caplog.records)
    assert said == f"SURESCALE_POLICY_FOLDER: {tmp_path / 'none'} is no folder, so a rule answers in place of 'sure'"
