"""State on disk: what is saved comes back, and what cannot be used stops by name."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts.messages import HourlyLoad
from contracts.windows import encode_window
from spark_streaming.minutes import Minutes
from spark_streaming.state import StateRefused, from_arrays, to_arrays
from spark_streaming.state_store import FOLDER, KEPT, StateStore
from tests.unit.spark_streaming.road import MINUTE, RULES, feed, graph, marker, sample

BEFORE = [
    *(sample(MINUTE, 5), marker(1, load_history=(HourlyLoad(hour_start_ms=0, records=9, minutes=3),))),
    *(sample(2 * MINUTE, 8), marker(2), sample(30_000, 1), sample(130_000, 9), sample(130_000, 2, task="ghost")),
    *(marker(5, graph(job="sim/idle")), sample(MINUTE, 1, job="sim/unknown")),
]
AFTER = [sample(3 * MINUTE, 12), sample(3 * MINUTE, 6, attempt=1), marker(3), marker(6, graph(job="sim/idle"))]


def after(minutes: Minutes) -> list[bytes]:
    """Feed the second half of the road and return the windows' bytes."""
    return [encode_window(window) for window in feed(*AFTER, minutes=minutes).windows]


def saved(folder: Path, batches: int = 1) -> StateStore:
    """Return a store with the state of the first half of the road under ``batches`` numbers."""
    store = StateStore(folder, RULES)
    minutes = Minutes(RULES)
    feed(*BEFORE, minutes=minutes)
    for batch in range(batches):
        store.save(batch, minutes)
    return store


def test_saved_state_goes_on_where_it_was(tmp_path: Path) -> None:
    """Windows after a restart equal, byte for byte, those without one: open rows, baselines, hours, late rows and all."""
    whole = Minutes(RULES)
    feed(*BEFORE, minutes=whole)
    assert after(saved(tmp_path).load(0)) == after(whole)


def test_the_same_state_gives_the_same_arrays() -> None:
    """Also after it went through arrays once."""
    minutes = Minutes(RULES)
    feed(*BEFORE, minutes=minutes)
    arrays = to_arrays(minutes)
    again = to_arrays(from_arrays(arrays, RULES))
    assert [(name, values.tobytes()) for name, values in arrays.items()] == [(name, again[name].tobytes()) for name in again]


def test_before_the_first_batch_there_is_nothing(tmp_path: Path) -> None:
    """Batch 0 starts empty, also when its own state was saved already and it is replayed."""
    assert saved(tmp_path).load(-1).jobs == {}


def test_the_last_three_are_kept(tmp_path: Path) -> None:
    """Older ones go, nothing else lies around."""
    store = saved(tmp_path, batches=6)
    assert store.batches() == [3, 4, 5]
    assert len(list((tmp_path / FOLDER).iterdir())) == KEPT


def test_missing_state_stops_by_name(tmp_path: Path) -> None:
    """It never starts empty on an old checkpoint."""
    with pytest.raises(StateRefused, match=r"state-000000000007\.npz: the state of batch 7 is missing; restore it"):
        StateStore(tmp_path, RULES).load(7)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_corrupt_state_stops_by_name(tmp_path: Path, damage: str) -> None:
    """Cut short, one byte changed in the middle, or empty: the file is named."""
    store = saved(tmp_path)
    path = tmp_path / FOLDER / "state-000000000000.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes({"cut": bytes(content[: len(content) // 2]), "flip": bytes(content), "empty": b""}[damage])
    with pytest.raises(StateRefused, match=r"state-000000000000\.npz: the state of batch 0 is corrupt"):
        store.load(0)


def test_an_array_file_of_something_else_stops_by_name(tmp_path: Path) -> None:
    """Any other file of arrays is refused as well."""
    store = StateStore(tmp_path, RULES)
    np.savez(tmp_path / FOLDER / "state-000000000000.npz", other=np.zeros(3))
    with pytest.raises(StateRefused, match="corrupt"):
        store.load(0)


def test_state_of_other_settings_stops_by_name(tmp_path: Path) -> None:
    """Windows of sixty minutes cannot go on from windows of four."""
    saved(tmp_path)
    with pytest.raises(StateRefused, match=r"written under other settings .*window_minutes=4"):
        StateStore(tmp_path, replace(RULES, window_minutes=60)).load(0)


def test_what_a_kill_left_half_written_is_removed(tmp_path: Path) -> None:
    """The file beside its place goes at the next start, finished states stay."""
    saved(tmp_path)
    (tmp_path / FOLDER / ".state-abc").write_bytes(b"half")
    assert StateStore(tmp_path, RULES).batches() == [0]
    assert not (tmp_path / FOLDER / ".state-abc").exists()


@pytest.mark.parametrize(("committed", "is_refused"), [([], False), ([0], False), ([0, 1], True)])
def test_a_checkpoint_is_checked_before_spark_starts(tmp_path: Path, committed: list[int], is_refused: bool) -> None:
    """The last batch that Spark committed must have its state; a batch that it did not commit need not."""
    store = saved(tmp_path)
    (tmp_path / "commits").mkdir()
    for batch in committed:
        (tmp_path / "commits" / str(batch)).touch()
        (tmp_path / "commits" / f".{batch}.crc").touch()
    if is_refused:
        with pytest.raises(StateRefused, match="batch 1 is missing"):
            store.check()
    else:
        store.check()
