"""State on disk: saved state comes back, and unusable state is refused by name."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from surescale.contracts.messages import HourlyLoad, JobTopology, Saturation
from surescale.contracts.windows import encode_window
from surescale.spark_streaming import state_files
from surescale.spark_streaming.manifest import FIRST, FOLDER, KEPT, Manifest
from surescale.spark_streaming.minutes import MinuteRules, Minutes
from surescale.spark_streaming.places import place_of
from surescale.spark_streaming.state import Arrays, StateRefused, from_arrays, rows_of, rows_to_arrays, to_arrays
from surescale.spark_streaming.state_files import Memory, StateFiles
from tests.support.spark_states import Saved, StateStore
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


def store_at(folder: Path, rules: MinuteRules = RULES) -> StateStore:
    """Return a store in a local folder."""
    return StateStore(place_of(str(folder)), rules)


def saved(folder: Path, batches: int = 1) -> StateStore:
    """Return a store with the state of the first half of the pipeline under ``batches`` numbers."""
    store = store_at(folder)
    minutes = Minutes(RULES)
    feed(*BEFORE, minutes=minutes)
    for batch in range(batches):
        store.save(Saved(batch, minutes, {0: 10 * batch, 3: 7}))
    return store


def test_saved_state_goes_on_where_it_was(tmp_path: Path) -> None:
    """Windows after a restart equal, byte for byte, those without one: open rows, baselines, hours, late rows and all."""
    whole = Minutes(RULES)
    feed(*BEFORE, minutes=whole)
    found = saved(tmp_path).load()
    assert (found.batch, found.offsets) == (0, {0: 0, 3: 7})
    assert after(found.minutes) == after(whole)


def test_the_same_state_gives_the_same_arrays() -> None:
    """Also after it went through arrays once."""
    minutes = Minutes(RULES)
    feed(*BEFORE, minutes=minutes)
    arrays, rows = to_arrays(minutes), rows_to_arrays(minutes, {})
    again = from_arrays(arrays, [rows_of(rows)], RULES)
    assert as_bytes(to_arrays(again)) == as_bytes(arrays)
    assert as_bytes(rows_to_arrays(again, {})) == as_bytes(rows)


def test_a_state_from_before_waits_were_kept_goes_on_without_them() -> None:
    """Nothing else is lost; a state of today has them back."""
    minutes = Minutes(RULES)
    feed(*BEFORE, minutes=minutes)
    arrays, rows = to_arrays(minutes), [rows_of(rows_to_arrays(minutes, {}))]
    waits = {name: job.history.waits for name, job in minutes.jobs.items()}
    assert any(each.hours for each in waits.values())
    assert {name: job.history.waits for name, job in from_arrays(arrays, rows, RULES).jobs.items()} == waits
    older = from_arrays({name: array for name, array in arrays.items() if name != "waits"}, rows, RULES)
    assert {name: job.history.hours for name, job in older.jobs.items()} == {
        name: job.history.hours for name, job in minutes.jobs.items()
    }
    assert not any(job.history.waits.hours for job in older.jobs.values())


def test_a_load_by_blocks_of_another_shape_is_no_state() -> None:
    """It would be taken, and end the job minutes later."""
    minutes = Minutes(RULES)
    feed(*BEFORE, minutes=minutes)
    arrays, rows = to_arrays(minutes), [rows_of(rows_to_arrays(minutes, {}))]
    for blocks in (arrays["blocks"].reshape(-1), arrays["blocks"][:, :-1]):
        with pytest.raises(ValueError, match="the load by blocks has the shape"):
            from_arrays({**arrays, "blocks": blocks}, rows, RULES)


def test_a_topology_that_stays_is_decoded_once() -> None:
    """A worker loads states before each batch, and topologies are most of what there is to decode; one that changed is new."""
    minutes = Minutes(RULES)
    feed(marker(1, graph()), minutes=minutes)
    first, again = (from_arrays(to_arrays(minutes), [], RULES).jobs[JOB].topology for _ in range(2))
    assert first == minutes.jobs[JOB].topology
    assert first is again
    changed = minutes.jobs[JOB].topology = replace_version(first)
    assert from_arrays(to_arrays(minutes), [], RULES).jobs[JOB].topology == changed != first


def replace_version(topology: JobTopology | None) -> JobTopology:
    """Return the next version of a topology."""
    assert topology is not None
    return msgspec.structs.replace(topology, version=topology.version + 1)


def test_what_is_remembered_of_counters_is_kept_and_absent_in_older_state(tmp_path: Path) -> None:
    """State of a build that knew none of it reads as nothing known."""
    minutes = Minutes(RULES)
    feed(*BEFORE, minutes=minutes)
    older = to_arrays(minutes)
    assert b"saturations" in older["header"].tobytes()
    older["header"] = np.frombuffer(older["header"].tobytes().replace(b'"saturations":[]', b'"other":[]'), dtype=np.uint8)
    assert from_arrays(older, [], RULES).jobs[JOB].history.saturations == ()
    minutes.jobs[JOB].history.saturations = (Saturation(task="map", shown=0.25, at_ms=MINUTE, holds_ms=2 * MINUTE, epoch="a"),)
    store = store_at(tmp_path)
    store.save(Saved(0, minutes, {}))
    assert store.load().minutes.jobs[JOB].history.saturations == minutes.jobs[JOB].history.saturations


def test_before_the_first_batch_there_is_nothing(tmp_path: Path) -> None:
    """A new folder starts empty, at the beginning of every partition."""
    found = store_at(tmp_path).load()
    assert (found.batch, found.minutes.jobs, found.offsets) == (FIRST, {}, {})


def test_a_kill_before_the_first_state_was_saved_leaves_a_new_checkpoint(tmp_path: Path) -> None:
    """Its files may be there already; they go."""
    saved(tmp_path)
    the("manifest", tmp_path).unlink()
    assert store_at(tmp_path).load().batch == FIRST
    assert names(tmp_path) == []


def as_bytes(arrays: Arrays) -> list[tuple[str, bytes]]:
    """Return arrays in a form that can be compared."""
    return [(name, values.tobytes()) for name, values in arrays.items()]


def test_the_last_three_are_kept(tmp_path: Path) -> None:
    """Older ones go, nothing else lies around but the rows that they name."""
    store = saved(tmp_path, batches=6)
    store.load()
    assert store.manifests.batches() == [3, 4, 5]
    kept = [f"{kind}-{batch:012d}" for kind in ("manifest", "state") for batch in (3, 4, 5)]
    assert names(tmp_path) == sorted([f"rows-{0:012d}", *kept])


def names(folder: Path) -> list[str]:
    """Return the kinds and batches of the checkpoint's files."""
    return sorted(path.name[: path.name.index("-") + 13] for path in (folder / FOLDER).iterdir())


def the(kind: str, folder: Path, batch: int = 0) -> Path:
    """Return the only file of a kind that a batch wrote."""
    (found,) = (folder / FOLDER).glob(f"{kind}-{batch:012d}*")
    return found


def minute_by_minute(store: StateStore, minutes: range) -> Minutes:
    """Save one minute of a job a batch, going on from the batch before."""
    found = store.load().minutes
    for minute in minutes:
        feed(sample(minute * MINUTE, minute), marker(minute), minutes=found)
        store.save(Saved(minute - 1, found, {}))
    return found


def test_rows_are_written_once_and_go_when_no_window_looks_at_them(tmp_path: Path) -> None:
    """One file of rows a minute; after ten minutes of four-minute windows only those that the last three states name."""
    minute_by_minute(store_at(tmp_path), range(1, 11))
    assert [name for name in names(tmp_path) if name.startswith("rows")] == [f"rows-{batch:012d}" for batch in range(4, 10)]


def test_each_of_the_last_three_can_be_gone_on_from(tmp_path: Path) -> None:
    """Also when it was another process that wrote them: whoever removes the newest goes on with the one before it."""
    whole = minute_by_minute(store_at(tmp_path), range(1, 8))
    minute_by_minute(store_at(tmp_path), range(8, 9))
    for batch in (7, 6, 5):
        found = store_at(tmp_path).load()
        assert found.batch == batch
        assert sorted(found.minutes.jobs[JOB].history.rows) == [minute * MINUTE for minute in range(batch - 2, batch + 2)]
        the("manifest", tmp_path, batch).unlink()
    assert whole.jobs[JOB].closed_ms == 7 * MINUTE


def test_many_files_of_rows_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent job's file would stay forever, and all behind it: from a limit on, all rows in use are written to a new file."""
    monkeypatch.setattr(state_files, "ROW_FILES_MAX", 3)
    found = minute_by_minute(store_at(tmp_path), range(1, 8))
    again = store_at(tmp_path).load().minutes
    assert len([name for name in names(tmp_path) if name.startswith("rows")]) <= 3 + KEPT
    assert as_bytes(rows_to_arrays(again, {})) == as_bytes(rows_to_arrays(found, {}))


def test_missing_rows_stop_by_name(tmp_path: Path) -> None:
    """A state without its rows is no state."""
    saved(tmp_path)
    the("rows", tmp_path).unlink()
    with pytest.raises(StateRefused, match=r"rows-000000000000-.*: a part of the state of batch 0 is missing"):
        store_at(tmp_path).load()


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ("state-000000000007-00000-0123456789ab.npz.zst", "the manifest is missing; restore it"),
        ("state-000000000007.npz.zst", "it was written by another version"),
    ],
)
def test_states_without_a_manifest_stop_by_name(tmp_path: Path, left: str, said: str) -> None:
    """It never starts empty on an old checkpoint, nor on one of an older build."""
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / left).touch()
    with pytest.raises(StateRefused, match=said):
        store_at(tmp_path).load()


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_corrupt_state_stops_by_name(tmp_path: Path, damage: str) -> None:
    """Cut short, one byte of an array changed, or empty: the file is named."""
    store = saved(tmp_path)
    path = the("state", tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes({"cut": bytes(content[: len(content) // 2]), "flip": bytes(content), "empty": b""}[damage])
    with pytest.raises(StateRefused, match=r"state-000000000000-.*: the state of batch 0 is corrupt .*beginning\)$"):
        store.load()


def test_a_corrupt_manifest_with_one_before_it_can_be_removed(tmp_path: Path) -> None:
    """The line says so, and the job then reads again what the damaged one had read."""
    saved(tmp_path, batches=2)
    path = the("manifest", tmp_path, 1)
    path.write_bytes(b"")
    with pytest.raises(StateRefused, match=r"manifest-000000000001.*: .* corrupt .*; or remove it, and the job goes on from the"):
        store_at(tmp_path).load()
    path.unlink()
    found = store_at(tmp_path).load()
    assert (found.batch, found.offsets) == (0, {0: 0, 3: 7})


def test_an_array_file_of_something_else_stops_by_name(tmp_path: Path) -> None:
    """Any other file of arrays is refused as well."""
    saved(tmp_path)
    with the("state", tmp_path).open("wb") as file:
        np.savez(file, other=np.zeros(3))
    with pytest.raises(StateRefused, match="corrupt"):
        store_at(tmp_path).load()


def test_state_of_other_settings_stops_by_name(tmp_path: Path) -> None:
    """Windows of sixty minutes cannot go on from windows of four."""
    saved(tmp_path)
    with pytest.raises(StateRefused, match=r"written under other settings .*window_minutes=4"):
        store_at(tmp_path, replace(RULES, window_minutes=60)).load()


def test_state_that_cannot_be_written_names_file_and_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk; nothing half written is left, and with room the same batch is written."""
    store, minutes = store_at(tmp_path), Minutes(RULES)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            OSError, match=r"(rows|state)-000000000000-.*: .* cannot be written \(no space left on device\); free space or"
        ):
            store.save(Saved(0, minutes, {}))
    assert list((tmp_path / FOLDER).iterdir()) == []
    store.save(Saved(0, minutes, {}))
    assert store_at(tmp_path).load().batch == 0


def test_a_manifest_of_states_that_lie_elsewhere_is_not_written(tmp_path: Path) -> None:
    """An executor on another machine has a folder of the same name: what it wrote there nobody else would find."""
    here, there = tmp_path / "driver", tmp_path / "executor"
    store = store_at(here)
    store.load()
    (there / FOLDER).mkdir(parents=True)
    elsewhere = StateFiles(place_of(str(there)) / FOLDER).save(Memory(Minutes(RULES)), 0, 0)
    manifest = Manifest(batch=0, rules=RULES, partitions=1, states={0: elsewhere})
    with pytest.raises(OSError, match=r"state-.*an executor writes into another folder of this name.*SURESCALE_SPARK_CHECKPOINT"):
        store.manifests.save(manifest)
    assert store.manifests.batches() == []


def test_an_executor_without_the_folder_says_so(tmp_path: Path) -> None:
    """It makes none: nobody else would look there."""
    with pytest.raises(OSError, match=r"an executor writes into another folder of this name, or has none"):
        StateFiles(place_of(str(tmp_path / "missing")) / FOLDER).save(Memory(Minutes(RULES)), 0, 0)
    assert not (tmp_path / "missing").exists()


def test_what_a_kill_left_half_written_is_removed(tmp_path: Path) -> None:
    """The file beside its place goes at the next start, finished states stay."""
    saved(tmp_path)
    (tmp_path / FOLDER / ".half-state-000000000001.npz.zst").write_bytes(b"half")
    assert store_at(tmp_path).load().batch == 0
    assert not (tmp_path / FOLDER / ".half-state-000000000001.npz.zst").exists()
