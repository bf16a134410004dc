"""Views of topics that are kept up to date."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from surescale.contracts.errors import RecordRejected
from surescale.contracts.topics import JOB_SETTINGS, TopicNames
from surescale.runtime.kafka import LogReader
from surescale.runtime.latest_of import LatestOf


def _record(at: int, value: bytes) -> SimpleNamespace:
    return SimpleNamespace(
        topic=lambda: f"x-{JOB_SETTINGS}", partition=lambda: 3, offset=lambda: at, key=lambda: b"sim/clicks", value=lambda: value
    )


def viewed(*readers: "Reader", counted: list[tuple[str, bool]] | None = None) -> LatestOf[str]:
    """Return a view that opens these readers, one after the other."""
    left, found = list(readers), [] if counted is None else counted
    return LatestOf(
        TopicNames("x-"),
        {JOB_SETTINGS: take},
        lambda: cast(LogReader, left.pop(0)),
        logging.getLogger("test"),
        count=lambda *each: found.append(each),
    )


class Reader:
    """A reader of one topic that has these records, and fails before the end as often as it is told to."""

    def __init__(self, *values: bytes, fails: bool = False) -> None:
        self._values, self._fails, self.closed = values, fails, False

    def read_to_end(self) -> Any:
        """Yield the records."""
        for at, value in enumerate(self._values):
            yield _record(at, value)
        if self._fails:
            raise TimeoutError("short of the end")
        self._values = ()

    def close(self) -> None:
        """Take note of it."""
        self.closed = True


def take(key: bytes | None, raw: bytes | None) -> str | None:
    """Refuse one record, and call another one news."""
    assert key == b"sim/clicks"
    if raw == b"bad":
        raise RecordRejected("invalid_field", "mode", "is none")
    return "news" if raw == b"new" else None


def test_a_record_that_does_not_parse_is_counted_named_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    """What comes after it is taken."""
    counted: list[tuple[str, bool]] = []
    view = viewed(Reader(b"old", b"bad", b"new"), counted=counted)
    assert (view.refresh(), view.refresh()) == (["news"], [])
    assert counted == [(JOB_SETTINGS, True), (JOB_SETTINGS, False), (JOB_SETTINGS, True)]
    assert f"x-{JOB_SETTINGS}[3]@1" in caplog.text


def test_after_a_failure_a_new_reader_begins_at_the_beginning() -> None:
    """What the first one had read so far counts only once, and it is closed."""
    readers = [Reader(b"new", fails=True), Reader(b"new")]
    view = viewed(*readers)
    with pytest.raises(TimeoutError):
        view.refresh()
    assert view.refresh() == ["news"]
    assert [reader.closed for reader in readers] == [True, False]
