"""State on disk: saved state comes back, and unusable state is refused by name."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from contracts.messages import HourlyLoad
from contracts.windows import encode_window
from spark_streaming import state_store
from spark_streaming.minutes import Minutes
from spark_streaming.state import Arrays, StateRefused, from_arrays, rows_to_arrays, to_arrays
from spark_streaming.state_store import FOLDER, KEPT, StateStore
from tests.unit.spark_streaming.pipeline import JOB, MINUTE, RULES, feed, graph, marker, sample

BEFORE = [
    *(sample(MINUTE, 5), marker(1, load_history=(HourlyLoad(hour_start_ms=0, records=9, minutes=3, peak_records=8),))),
    *(sample(2 * MINUTE, 8), marker(2), sample(30_000, 1), sample(130_000, 9), sample(130_000, 2, task="ghost")),
    *(marker(5, graph(job="sim/idle")), sample(MINUTE, 1, job="sim/unknown")),
]
AFTER = [sample(3 * MINUTE, 12), sample(3 * MINUTE, 6, attempt=1), marker(3), marker(6, graph(job="sim/idle"))]


def after(minutes: Minutes) -> list[bytes]:
    """Feed the second half of the pipeline and return the windows' bytes."""
    return [encode_window(window) for window in feed(*AFTER, minutes=minutes).windows]


def saved(folder: Path, batches: int = 1) -> StateStore:
    """Return a store with the state of the first half of the pipeline under ``batches`` numbers."""
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
    arrays, rows = to_arrays(minutes, [3]), rows_to_arrays(minutes, {})
    again = from_arrays(arrays, [rows], RULES)
    assert as_bytes(to_arrays(again, [3])) == as_bytes(arrays)
    assert as_bytes(rows_to_arrays(again, {})) == as_bytes(rows)


def test_before_the_first_batch_there_is_nothing(tmp_path: Path) -> None:
    """Batch 0 starts empty, also when its own state was saved already and it is replayed."""
    assert saved(tmp_path).load(-1).jobs == {}


def as_bytes(arrays: Arrays) -> list[tuple[str, bytes]]:
    """Return arrays in a form that can be compared."""
    return [(name, values.tobytes()) for name, values in arrays.items()]


def test_the_last_three_are_kept(tmp_path: Path) -> None:
    """Older ones go, nothing else lies around but the rows that they name."""
    store = saved(tmp_path, batches=6)
    assert store.batches() == [3, 4, 5]
    assert names(tmp_path) == [*(f"rows-{0:012d}.npz",), *(f"state-{batch:012d}.npz" for batch in (3, 4, 5))]


def names(folder: Path) -> list[str]:
    """Return the names of the state's files."""
    return sorted(path.name for path in (folder / FOLDER).iterdir())


def minute_by_minute(store: StateStore, minutes: range) -> Minutes:
    """Save one minute of a job a batch, going on from the batch before."""
    found = store.load(minutes.start - 2)
    for minute in minutes:
        feed(sample(minute * MINUTE, minute), marker(minute), minutes=found)
        store.save(minute - 1, found)
    return found


def test_rows_are_written_once_and_go_when_no_window_looks_at_them(tmp_path: Path) -> None:
    """One file of rows a minute; after ten minutes of four-minute windows only those that the last three states name."""
    minute_by_minute(StateStore(tmp_path, RULES), range(1, 11))
    assert [name for name in names(tmp_path) if name.startswith("rows")] == [f"rows-{batch:012d}.npz" for batch in range(4, 10)]


def test_each_of_the_last_three_can_be_gone_on_from(tmp_path: Path) -> None:
    """Also when it was another process that wrote them, and after further batches were saved on the newest."""
    whole = minute_by_minute(StateStore(tmp_path, RULES), range(1, 8))
    minute_by_minute(StateStore(tmp_path, RULES), range(8, 9))
    for batch in (5, 6, 7):
        assert sorted(StateStore(tmp_path, RULES).load(batch).jobs[JOB].history.rows) == [
            minute * MINUTE for minute in range(batch - 2, batch + 2)
        ]
    assert whole.jobs[JOB].closed_ms == 7 * MINUTE


def test_many_files_of_rows_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent job's file would stay forever, and all behind it: from a limit on, all rows in use are written to a new file."""
    monkeypatch.setattr(state_store, "ROW_FILES_MAX", 3)
    store = StateStore(tmp_path, RULES)
    found = minute_by_minute(store, range(1, 8))
    again = StateStore(tmp_path, RULES).load(6)
    assert len([name for name in names(tmp_path) if name.startswith("rows")]) <= 3 + KEPT
    assert as_bytes(rows_to_arrays(again, {})) == as_bytes(rows_to_arrays(found, {}))


def test_missing_rows_stop_by_name(tmp_path: Path) -> None:
    """A state without its rows is no state."""
    saved(tmp_path)
    (tmp_path / FOLDER / "rows-000000000000.npz").unlink()
    with pytest.raises(StateRefused, match=r"rows-000000000000\.npz: a part of the state of batch 0 is missing"):
        StateStore(tmp_path, RULES).load(0)


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


def test_state_that_cannot_be_written_names_file_and_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk; nothing half written is left, and with room the same batch is written."""
    store, minutes = StateStore(tmp_path, RULES), Minutes(RULES)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            OSError, match=r"state-000000000000\.npz: .* cannot be written \(no space left on device\); free space or"
        ):
            store.save(0, minutes)
    assert list((tmp_path / FOLDER).iterdir()) == []
    store.save(0, minutes)
    assert StateStore(tmp_path, RULES).batches() == [0]


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
