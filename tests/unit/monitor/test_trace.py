"""A recording as a source: which lines it refuses, and how it says so."""

from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import MinuteMarker
from surescale.contracts.wire import encode
from surescale.monitor.trace import TraceSource
from tests.support.engine_stub import MINUTE, job_chain, sample_of

JOB = "sim/clicks"


def marker(minute: int) -> bytes:
    """Return the line of a marker."""
    return encode(MinuteMarker(job=JOB, minute_end_ms=minute * MINUTE, topology=job_chain(JOB)))


def test_a_line_that_does_not_parse_is_named_with_its_field() -> None:
    """File, line, field and what to do."""
    bad = encode(sample_of(JOB, 1)).replace(b'"busy_ms":30000', b'"busy_ms":"much"')
    with pytest.raises(SettingsError, match=r"recording, line 2: busy_ms: expected `int \| null`.*; correct the line"):
        TraceSource([marker(1), bad], "recording")


def test_minutes_that_go_back_are_refused() -> None:
    """A job's minutes must be sorted by time."""
    with pytest.raises(SettingsError, match=r"recording, line 2: minute_end_ms: the minutes of job sim/clicks go back"):
        TraceSource([marker(2), marker(1)], "recording")


def test_a_recording_without_markers_is_refused() -> None:
    """No minute in it is finished."""
    with pytest.raises(SettingsError, match="no marker in it"):
        TraceSource([encode(sample_of(JOB, 1))], "recording")


def test_samples_behind_the_last_marker_are_left_out() -> None:
    """Their minute is not finished."""
    source = TraceSource([encode(sample_of(JOB, 1)), marker(1), encode(sample_of(JOB, 2))], "recording")
    assert [minute.samples for minute in source.minutes(JOB, 0)] == [(sample_of(JOB, 1),)]


def test_a_missing_file_names_the_setting(tmp_path: Path) -> None:
    """The message says which file."""
    with pytest.raises(SettingsError, match=r"SURESCALE_TRACE_FILE: .*none\.jsonl cannot be read \(no such file"):
        TraceSource.of_file(tmp_path / "none.jsonl")
