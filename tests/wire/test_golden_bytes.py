"""The bytes of every message kind, frozen: a change here is a change of contract and needs a new schema version.

``python -m tests.wire.test_golden_bytes`` rewrites the files, for a new kind of record.
"""

from pathlib import Path

import numpy as np
import pytest

from contracts.messages import Message
from contracts.releases import TunedRelease
from contracts.windows import FIGURE, decode_window, encode_window
from contracts.wire import decode, encode
from tests.support.builders import JOB
from tests.wire.messages import MESSAGES, window_bytes, window_bytes_with_peaks

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_the_bytes_it_always_had(name: str) -> None:
    """Encoding gives the frozen bytes, and decoding them gives the message."""
    frozen = (GOLDEN / f"{name}.json").read_bytes()
    assert encode(MESSAGES[name]) == frozen
    assert decode(frozen, type(MESSAGES[name])) == MESSAGES[name]


@pytest.mark.parametrize("name", sorted(path.stem for path in (GOLDEN / "earlier").glob("*.json")))
def test_a_record_of_an_earlier_build_still_reads(name: str) -> None:
    """Fields that were added since have their defaults."""
    earlier = (GOLDEN / "earlier" / f"{name}.json").read_bytes()
    assert decode(earlier, type(MESSAGES[name])) == MESSAGES[name]


def test_every_kind_of_message_has_golden_bytes() -> None:
    """A new message class without golden bytes fails here."""
    assert {type(message) for message in MESSAGES.values()} == {*Message.__subclasses__(), TunedRelease}


def test_a_window_of_an_earlier_build_still_reads() -> None:
    """The frozen window decodes to the same window; its compressed bytes may differ between zstd releases, its header not."""
    frozen = (GOLDEN / "window.bin").read_bytes()
    assert frozen[:8] == window_bytes()[:8]
    assert decode_window(frozen).figures.tobytes() == decode_window(window_bytes()).figures.tobytes()
    assert b"hourly_peak" not in frozen
    assert np.isnan(decode_window(frozen).hourly_peak).all()


def test_peaks_of_hours_travel_in_a_windows_header() -> None:
    """The frozen window with peaks decodes to them, and its header is made the same way today."""
    frozen, today = (GOLDEN / "window-peaks.bin").read_bytes(), window_bytes_with_peaks()
    assert frozen[:8] == today[:8]
    assert decode_window(frozen).hourly_peak[-1] == decode_window(today).hourly_peak[-1] == 9.0


def test_a_window_of_the_first_layout_reads_with_what_it_lacks_unknown() -> None:
    """Its figures are those of the same window today, and it keeps its own identity, which recorded decisions name."""
    earlier, today = (
        decode_window((GOLDEN / "earlier" / "window-layout-1.bin").read_bytes()),
        decode_window(window_bytes_with_peaks()),
    )
    known = FIGURE["arrived"]
    assert earlier.figures[..., :known].tobytes() == today.figures[..., :known].tobytes()
    assert np.isnan(earlier.figures[..., known:]).all()
    assert (earlier.id, today.id) == (f"{JOB}@300000/1m/v1", f"{JOB}@300000/1m/v2")
    assert encode_window(earlier)[3] == today.layout


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, message in MESSAGES.items():
        (GOLDEN / f"{name}.json").write_bytes(encode(message))
    (GOLDEN / "window.bin").write_bytes(window_bytes())
    (GOLDEN / "window-peaks.bin").write_bytes(window_bytes_with_peaks())
