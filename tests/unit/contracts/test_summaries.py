"""The header that travels beside a window."""

import pytest
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import RecordRejected
from surescale.contracts.summaries import decode_header, encode_header
from surescale.contracts.summing_up import header_of
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import Window, WindowCounts, decode_window, encode_window
from tests.support.builders import JOB, row, topology


def window() -> Window:
    """Return a window of one known minute of three."""
    counts = WindowCounts(samples=12, late=2, duplicates=3)
    return WindowHistory(JOB, 3).close(MINUTE_MS, {"source": row(records_in=600)}, topology(), counts=counts, closed_append_ms=9)


def test_a_summary_says_what_the_window_says() -> None:
    """Identity, completeness, load of the newest minute, counts."""
    found = header_of(window()).summary
    assert (found.window_id, found.window_end_ms, found.window_minutes, found.tasks) == (window().id, MINUTE_MS, 3, 3)
    assert (found.completeness, found.minutes_known) == (window().completeness, 1)
    assert (found.load_records_per_minute, found.samples, found.late, found.duplicates) == (600.0, 12, 2, 3)


def test_a_window_without_load_has_none() -> None:
    """Not zero: nobody reported."""
    silent = WindowHistory(JOB, 3).close(MINUTE_MS, {}, topology())
    assert header_of(silent).summary.load_records_per_minute is None


def test_a_summary_says_how_many_slots_the_minute_took() -> None:
    """By the sizes of the minute and the sharing groups; what nobody reported is unknown, and a job at rest takes none."""
    groups = {"source": "default", "map": "gpu", "sink": "default"}
    tasks = tuple(
        replace(spec, sharing_group=groups.get(spec.task, "default"), configured_parallelism=4) for spec in topology().tasks
    )
    job = replace(topology(), tasks=tasks)
    rows = {spec.task: row(parallelism=2 if spec.task == "map" else 1) for spec in tasks}
    minute = header_of(WindowHistory(JOB, 3).close(MINUTE_MS, rows, job)).summary.minute
    assert (minute.slots, minute.slots_configured) == (3, 8)
    del rows["map"]
    assert header_of(WindowHistory(JOB, 3).close(MINUTE_MS, rows, job)).summary.minute.slots is None
    resting = replace(job, state="resting")
    assert header_of(WindowHistory(JOB, 3).close(MINUTE_MS, {}, resting)).summary.minute.slots == 0


def restarts_after(*minutes: tuple[int, int] | None) -> int:
    """Return the restarts of a job whose task had these attempts begin at this size; None: nobody reported."""
    history = WindowHistory(JOB, 60)
    for number, minute in enumerate(minutes, 1):
        rows = {} if minute is None else {"map": row(restarts=minute[0], parallelism=minute[1])}
        window = history.close(number * MINUTE_MS, rows, topology())
    return header_of(window).summary.restarts


def test_a_summary_counts_the_minutes_in_which_the_job_restarted_lately() -> None:
    """In the last ten; a change of size is no restart, and a minute without figures hides none."""
    assert restarts_after((0, 2), (1, 2), (3, 2), (0, 2), (1, 2)) == 3
    assert restarts_after((0, 2), (1, 4), (1, 2), None, (1, 2)) == 1
    assert restarts_after((0, 2), (1, 2), *[(0, 2)] * 9) == 1
    assert restarts_after((0, 2), (1, 2), *[(0, 2)] * 10) == 0


def test_the_header_and_the_window_give_the_same_bytes() -> None:
    """Whether a reader takes the header or sums the window up itself."""
    header = encode_header(header_of(window()))
    assert encode_header(header_of(decode_window(encode_window(window())))) == header
    assert encode_header(decode_header(header)) == header


def test_a_header_that_is_none_is_refused() -> None:
    """Like any record."""
    with pytest.raises(RecordRejected, match="missing required field"):
        decode_header(b"{}")
