"""Windows: their bytes, and the history they are cut from."""

import json
import struct
from copy import deepcopy
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import HourlyLoad, TaskSpec
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import FIGURE, HOUR_MS, HOURS, LAYOUT, Window, WindowCounts, decode_window, encode_window
from tests.support.builders import JOB, row, topology


def history(length: int = 3) -> WindowHistory:
    """Return an empty history of windows of ``length`` minutes."""
    return WindowHistory(job=JOB, window_minutes=length)


def test_a_window_survives_its_bytes_with_masks() -> None:
    """Decoding gives the same figures bit for bit, NaN included, and the same header."""
    kept = history()
    kept.close(MINUTE_MS, {"map": row(records_in=7.25)}, topology())
    window = kept.close(
        3 * MINUTE_MS, {"source": row(records_in=9)}, topology(2), counts=WindowCounts(late=2), closed_append_ms=5
    )
    back = decode_window(encode_window(window))
    assert back.figures.tobytes() == window.figures.tobytes()
    assert back.hourly_load.tobytes() == window.hourly_load.tobytes()
    assert (back.topology, back.counts, back.closed_append_ms, back.id) == (topology(2), WindowCounts(late=2), 5, window.id)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e30])
def test_a_figure_that_is_no_usable_number_is_unknown_and_named(value: float) -> None:
    """Whatever wrote the record; with task, figure and minute, and so is a load of the past."""
    window = history().close(3 * MINUTE_MS, {"source": row(records_in=9), "map": row(busy_ms=5.0)}, topology())
    figures, load = window.figures.copy(), window.hourly_load.copy()
    at = [spec.task for spec in topology().tasks].index("map")
    figures[-1, at, FIGURE["busy_ms"]] = value
    load[-1] = value
    back = decode_window(encode_window(replace(window, figures=figures, hourly_load=load)))
    assert np.isnan(back.figures[-1, at, FIGURE["busy_ms"]])
    assert np.isnan(back.hourly_load[-1])
    words = "map: busy_ms of the minute that ended at 180000 was no usable number; that counts as unknown."
    assert (back.unusable, decode_window(encode_window(window)).unusable) == (words, "")


def test_missing_task_minutes_are_masked_and_counted() -> None:
    """Two of nine task-minutes were reported, in two of three minutes."""
    kept = history()
    kept.close(MINUTE_MS, {"map": row()}, topology())
    window = kept.close(3 * MINUTE_MS, {"map": row()}, topology())
    assert window.reported.tolist() == [[False, True, False], [False, False, False], [False, True, False]]
    assert window.completeness == pytest.approx(2 / 9)
    assert window.minutes_known == 2


def test_a_window_moves_on_and_forgets() -> None:
    """Minutes older than L are gone."""
    kept = history()
    for minute in range(1, 6):
        window = kept.close(minute * MINUTE_MS, {"map": row(records_in=minute)}, topology())
    assert window.figure("records_in")[:, 1].tolist() == [3, 4, 5]
    assert len(kept.rows) == 3


def test_hourly_load_counts_known_minutes_only_and_takes_over_history() -> None:
    """Mean per known minute of the hour; hours before the pipeline watched come from the engine; others are NaN."""
    kept = history()
    kept.add_load_history((HourlyLoad(hour_start_ms=0, records=600, minutes=60),), before_ms=HOUR_MS)
    kept.close(HOUR_MS + MINUTE_MS, {"source": row(records_in=30)}, topology())
    window = kept.close(HOUR_MS + 3 * MINUTE_MS, {"source": row(records_in=50)}, topology())
    assert window.hourly_load.shape == (HOURS,)
    assert window.hourly_load[-2:].tolist() == [10, 40]
    assert np.isnan(window.hourly_load[:-2]).all()


def test_an_hour_that_the_pipeline_saw_itself_is_not_overwritten() -> None:
    """A restarted monitor sends its history again; what was measured stays."""
    kept = history()
    kept.close(MINUTE_MS, {"source": row(records_in=30)}, topology())
    kept.add_load_history((HourlyLoad(hour_start_ms=0, records=9_999, minutes=60),), before_ms=HOUR_MS)
    assert kept.close(2 * MINUTE_MS, {"source": row(records_in=30)}, topology()).hourly_load[-1] == 30


def closed(kept: WindowHistory, loads: list[float], first: int = 1) -> Window:
    """Close a minute for every load and return the last window; NaN: nothing was reported."""
    for minute, load in enumerate(loads, first):
        rows = {} if np.isnan(load) else {"source": row(records_in=load)}
        window = kept.close(minute * MINUTE_MS, rows, topology())
    return window


def test_an_hours_peak_is_its_largest_mean_of_five_minutes_in_a_row() -> None:
    """Five minutes may begin in the hour before; four do not count yet, nor five with an unknown one among them."""
    assert np.isnan(closed(history(), [9.0] * 4).hourly_peak).all()
    assert closed(history(), [1, 1, 1, 6, 6, 1, 1]).hourly_peak[-1] == 3.0
    assert closed(history(), [1, 1, 1, 1, 1, 900, np.nan, 900, 1, 1, 1]).hourly_peak[-1] == 180.8
    assert closed(history(), [0.0] * 56 + [10.0] * 8).hourly_peak[-2:].tolist() == [8.0, 10.0]


def test_peaks_of_hours_come_with_the_history_or_stay_unknown() -> None:
    """An engine may tell the most records of five minutes of an hour; an hour that the pipeline saw itself keeps its own."""
    kept = history()
    kept.add_load_history(
        (
            HourlyLoad(hour_start_ms=0, records=600, minutes=60, peak_records=90),
            HourlyLoad(hour_start_ms=HOUR_MS, records=5, minutes=1),
        ),
        before_ms=2 * HOUR_MS,
    )
    window = closed(kept, [10.0] * 4, first=62)
    assert window.hourly_peak[-2] == 18.0
    assert np.isnan(window.hourly_peak[-1])
    assert closed(kept, [10.0], first=66).hourly_peak[-1] == 10.0


def test_peaks_survive_a_windows_bytes() -> None:
    """Bit for bit, unknown ones included."""
    window = closed(history(), [float(7 * minute % 11) for minute in range(130)])
    back = decode_window(encode_window(window))
    assert back.hourly_peak.tobytes() == window.hourly_peak.tobytes()
    assert int((~np.isnan(back.hourly_peak)).sum()) == 3


def test_a_history_that_lost_its_rows_but_one_minute_counts_on() -> None:
    """Even with a window of one minute, the loads of the last five are remembered."""
    assert closed(history(1), [1, 2, 3, 4, 5]).hourly_peak[-1] == 3.0


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda raw: None, "unknown_layout"),
        (lambda raw: b"{}", "unknown_layout"),
        (lambda raw: raw[:3] + bytes([LAYOUT + 1]) + raw[4:], "unknown_layout"),
        (lambda raw: raw[:-4], "invalid_field"),
        (lambda raw: raw.replace(b'"window_minutes":3', b'"window_minutes":4'), "invalid_field"),
        (lambda raw: raw.replace(b'"job"', b'"jab"'), "invalid_field"),
        (lambda raw: raw.replace(b'"sim/', b'"\xff\xfe\xfd/'), "invalid_field"),
        (lambda raw: raw.replace(b'"hourly_load":[null,', b'"hourly_load":[     '), "invalid_field"),
        (lambda raw: raw.replace(b"records_in", b"records_on"), "unknown_layout"),
    ],
)
def test_a_damaged_window_is_refused(damage, reason: str) -> None:
    """Another magic, another version, a cut tail, a header that does not fit: each is refused by name."""
    raw = encode_window(history().close(MINUTE_MS, {"map": row()}, topology()))
    with pytest.raises(RecordRejected) as refused:
        decode_window(damage(raw))
    assert refused.value.reason == reason


def test_a_window_beyond_the_limit_is_refused_by_name() -> None:
    """A window that would pass the topic's limit is an error of its job, not of the broker."""
    window = history().close(MINUTE_MS, {"map": row()}, topology())
    noise = np.random.default_rng(0).random((2000, 3000, 1)).astype(np.float32)
    with pytest.raises(RecordRejected, match="8323072 allowed"):
        encode_window(type(window)(**{**{f: getattr(window, f) for f in window.__slots__}, "figures": noise}))


@given(st.lists(st.sets(st.sampled_from(["source", "map", "sink"])), min_size=1, max_size=8))
def test_completeness_is_the_share_of_reported_task_minutes(minutes: list[set[str]]) -> None:
    """Whatever was reported, completeness counts it within the last L minutes."""
    kept = history()
    for index, reported in enumerate(minutes, start=1):
        window = kept.close(index * MINUTE_MS, {task: row() for task in reported}, topology())
    assert window.completeness == pytest.approx(sum(len(m) for m in minutes[-3:]) / 9)


@pytest.mark.parametrize("minutes", [0, 2**33, 2**53])
def test_a_window_of_a_length_that_cannot_be_is_refused(minutes: int) -> None:
    """A damaged header is a refusal with its field: no room is asked for and no minute is looked for that is not there."""
    raw = encode_window(history().close(MINUTE_MS, {"map": row()}, topology()))
    (length,) = struct.unpack_from(">I", raw, 4)
    head = json.loads(raw[8 : 8 + length]) | {"window_minutes": minutes}
    changed = json.dumps(head).encode()
    body = zstandard.ZstdCompressor(write_content_size=minutes == 0).compress(b"")
    with pytest.raises(RecordRejected) as caught:
        decode_window(raw[:4] + struct.pack(">I", len(changed)) + changed + body)
    assert caught.value.reason == ("too_large" if minutes else "invalid_field")


def test_a_history_that_was_kept_and_read_back_goes_on_with_the_same_peaks() -> None:
    """Also where the job has got another source in the minutes before."""
    both = TaskSpec(task="other", scalable=False, max_parallelism=1, units=(1,))
    wider = msgspec.structs.replace(topology(), version=2, tasks=(*topology().tasks, both))
    kept = history(60)
    rows = {"source": row(records_in=10.0), "other": row(records_in=1_000.0)}
    for minute in range(1, 6):
        kept.close(minute * MINUTE_MS, rows, topology())
    saved = (dict(kept.rows), dict(kept.hours), dict(kept.peaks), kept.saturations, deepcopy(kept.waits), deepcopy(kept.blocks))
    back = WindowHistory(kept.job, kept.window_minutes, *saved)
    after = [each.close(6 * MINUTE_MS, rows, wider) for each in (kept, back)]
    assert encode_window(after[0]) == encode_window(after[1])
