"""The load by five minutes: what is kept of it, and how it lines up with hours."""

import math

import numpy as np
import pytest

from surescale.contracts.block_load import BLOCK_MS, BLOCKS, HOUR_BLOCKS, BlockLoads, coded, decoded, first_block, unknown_blocks
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import RecordRejected
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import HOUR_MS, Window, decode_window, encode_window
from tests.support.builders import JOB, row, topology

START_MS = 900 * HOUR_MS


def _window(minutes: list[int], loads: dict[int, float]) -> Window:
    """Return the last window of minutes after the start, each with as many records as ``loads`` says, else ten."""
    history = WindowHistory(job=JOB, window_minutes=3)
    for minute in minutes:
        window = history.close(START_MS + minute * MINUTE_MS, {"source": row(records_in=loads.get(minute, 10))}, topology())
    return window


@pytest.mark.parametrize("load", [0.002, 0.5, 1.0, 137.3, 1e6, 3e12])
def test_a_load_is_kept_to_a_quarter_of_a_per_cent(load: float) -> None:
    """Whatever its size."""
    assert decoded(coded(np.array([load])))[0] == pytest.approx(load, rel=0.0026)


def test_zero_is_a_figure_and_silence_is_not() -> None:
    """Neither becomes the other, and what no code stands for is unknown."""
    assert decoded(coded(np.array([0.0, np.nan]))).tolist()[0] == 0.0
    assert np.isnan(decoded(coded(np.array([np.nan])))).all()
    assert np.isnan(decoded(np.array([65_535], dtype=np.uint16))).all()


def test_a_window_tells_the_mean_of_every_five_minutes() -> None:
    """Its last block is the one that has passed; what comes later in the hour is unknown."""
    window = _window(list(range(1, 13)), dict.fromkeys(range(6, 11), 40.0))
    blocks = decoded(window.load_codes)
    assert blocks[-HOUR_BLOCKS : -HOUR_BLOCKS + 2] == pytest.approx([10.0, 40.0], rel=0.003)
    assert np.isnan(blocks[:-HOUR_BLOCKS]).all()
    assert np.isnan(blocks[-HOUR_BLOCKS + 2 :]).all()


def test_blocks_without_a_minute_are_unknown() -> None:
    """A job that nobody saw for a while has a hole, and what was there eight days before does not show in it."""
    blocks = BlockLoads()
    for number in range(2 * BLOCKS):
        if not BLOCKS + 5 <= number < BLOCKS + 9:
            blocks.close((number + 1) * BLOCK_MS, [float(number)] * 5)
    end_ms = 2 * BLOCKS * BLOCK_MS
    found = decoded(blocks.until(end_ms))
    assert first_block(end_ms) == BLOCKS
    assert np.flatnonzero(np.isnan(found)).tolist() == [5, 6, 7, 8]
    assert found[9:] == pytest.approx(np.arange(BLOCKS + 9, 2 * BLOCKS, dtype=np.float64), rel=0.003)


def test_minutes_that_are_unknown_do_not_count() -> None:
    """The others of their block tell its mean; a block of unknown ones is unknown."""
    blocks = BlockLoads()
    blocks.close(BLOCK_MS, [math.nan, 20.0, math.nan, 40.0, math.nan])
    blocks.close(2 * BLOCK_MS, [math.nan] * 5)
    found = decoded(blocks.until(2 * BLOCK_MS))
    assert found[-HOUR_BLOCKS] == pytest.approx(30.0, rel=0.003)
    assert np.isnan(found[-HOUR_BLOCKS + 1])


def test_a_window_carries_them() -> None:
    """Eight noisy days take less than 4 KiB of a record, and come out as they went in."""
    counts = np.random.default_rng(3).poisson(700.0, BLOCKS) / 5.0
    window = _window([1], {})
    full = Window(**{**_fields(window), "load_codes": coded(counts)})
    raw, bare = encode_window(full), encode_window(Window(**{**_fields(window), "load_codes": unknown_blocks()}))
    assert np.array_equal(decode_window(raw).load_codes, full.load_codes)
    assert len(raw) - len(bare) < 4096


def test_blocks_of_another_number_are_refused() -> None:
    """A reader says so instead of taking them for other times."""
    window = _window([1], {})
    short = Window(**{**_fields(window), "load_codes": coded(np.full(100, 3.0))})
    with pytest.raises(RecordRejected, match="load_codes"):
        decode_window(encode_window(short))


def _fields(window: Window) -> dict[str, object]:
    return {name: getattr(window, name) for name in Window.__slots__}
