"""Jobs run side by side, and what they give comes out before all of them are done."""

import pytest

from surescale.contracts.windows import Window, encode_window
from surescale.spark_streaming import minutes
from surescale.spark_streaming.minutes import Minutes
from tests.unit.spark_streaming.pipeline import MINUTE, RULES, Message, graph, marker, no_clock, recorded, sample

JOBS = tuple(f"sim/j{number}" for number in range(5))


def two_minutes() -> list[Message]:
    """Return two minutes of all jobs, each job's two markers included, in one batch."""
    return [
        message
        for minute in (1, 2)
        for number, job in enumerate(JOBS)
        for message in (sample(minute * MINUTE, minute * number, job=job), marker(minute, graph(job=job)))
    ]


def parts() -> list[list[Window]]:
    """Feed the batch and return the windows part by part."""
    records, found = recorded(two_minutes()), []
    fed = Minutes(RULES).feed(records, no_clock(records), lambda windows: found.append(list(windows)))
    ordered = sorted((window for part in found for window in part), key=lambda window: (window.job, window.window_end_ms))
    assert [id(window) for window in fed.windows] == [id(window) for window in ordered], "the same windows, by job and minute"
    return found


@pytest.mark.parametrize("rows", [1, 5, 100])
def test_windows_do_not_depend_on_how_many_minutes_close_together(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """One by one, a few, all at once: the same bytes, and each job's in order."""
    by_job = {job: [encode_window(each) for part in parts() for each in part if each.job == job] for job in JOBS}
    assert [len(windows) for windows in by_job.values()] == [2] * len(JOBS)
    monkeypatch.setattr(minutes, "ROWS_TOGETHER", rows)
    assert {job: [encode_window(each) for part in parts() for each in part if each.job == job] for job in JOBS} == by_job


def test_windows_come_out_while_others_are_still_to_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for two jobs' minutes at a time, both windows of the first jobs come before any of the last job."""
    monkeypatch.setattr(minutes, "ROWS_TOGETHER", 3)
    order = [[window.job for window in part] for part in parts() if part]
    assert len(order) > len(JOBS) // 2
    flat = [job for part in order for job in part]
    assert flat.index(JOBS[-1]) > max(at for at, job in enumerate(flat) if job == JOBS[0])
