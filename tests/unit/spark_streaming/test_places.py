"""Where a checkpoint lies: the same files in a local folder, in an object store, and in a file system that only renames."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import FileSelector, LocalFileSystem, _MockFileSystem  # type: ignore[import-untyped]

from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.contracts.windows import encode_window
from surescale.runtime.ports import free_port
from surescale.spark_streaming import places
from surescale.spark_streaming.checkpoint_lock import TakenOver, held
from surescale.spark_streaming.manifest import FOLDER
from surescale.spark_streaming.minutes import Minutes
from surescale.spark_streaming.places import Place, StoreAway, place_of
from surescale.spark_streaming.state_files import Memory, StateFiles
from surescale.spark_streaming.streaming_job import _scratch
from tests.support.object_store import BUCKET, impatient, object_store
from tests.support.spark_states import Saved, StateStore
from tests.unit.spark_streaming.pipeline import RULES, feed, marker, sample

LOG = logging.getLogger("test")
MINUTE = 60_000


@pytest.fixture(scope="module")
def bucket() -> Iterator[None]:
    """An object store that ``s3://`` leads to."""
    with object_store():
        yield


@pytest.fixture(params=["local", "s3", "s3a", "renaming"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A folder of each kind; in memory and without anything of S3's or a disk's the last one."""
    if request.param == "local":
        return place_of(str(tmp_path / "checkpoint"))
    if request.param == "renaming":  # as HDFS does
        return Place(_MockFileSystem(), "checkpoint", "mock://checkpoint")
    request.getfixturevalue("bucket")
    return place_of(f"{request.param}://{BUCKET}/{tmp_path.name}/checkpoint")


def test_files_are_written_replaced_read_and_removed(place: Place) -> None:
    """By name; a folder inside has files of its own."""
    place.make()
    assert place.names() == []
    place.write("b", b"one")
    place.write("a", b"")
    place.write("b", b"two" * 3_000_000)
    place.write("c.zst", b"as it is")
    inside = place / "windows"
    inside.make()
    inside.write("c", b"three")
    assert (place.names(), inside.names()) == (["a", "b", "c.zst"], ["c"])
    assert (place.read("a"), place.read("b"), inside.read("c")) == (b"", b"two" * 3_000_000, b"three")
    assert place._files.get_file_info(f"{place._path}/c.zst").size == len(place.read("c.zst")) == len(b"as it is")
    place.remove("a")
    place.remove("a")  # gone already
    assert place.names() == ["b", "c.zst"]
    with pytest.raises(FileNotFoundError):
        place.read("a")


def test_windows_go_on_from_a_state_of_each_kind(place: Place) -> None:
    """After a restart, with rows in files of their own, byte for byte; old states and rows go."""
    whole, store = Minutes(RULES), StateStore(place, RULES)
    for minute in range(1, 12):
        saved = store.load()
        records = (sample(minute * MINUTE, 3 * minute), marker(minute))
        windows = feed(*records, minutes=saved.minutes).windows
        assert list(map(encode_window, windows)) == list(map(encode_window, feed(*records, minutes=whole).windows))
        store.save(Saved(saved.batch + 1, saved.minutes, {0: minute}))
        store = StateStore(place, RULES)
    assert store.load().offsets == {0: 11}
    states = [name for name in (place / FOLDER).names() if name.startswith("state")]
    assert [name[: len("state-000000000000-00000")] for name in states] == [f"state-{batch:012d}-00000" for batch in (8, 9, 10)]


def test_what_a_kill_left_half_written_is_no_file(tmp_path: Path) -> None:
    """It goes at the next start."""
    place = Place(_MockFileSystem(), "checkpoint", "mock://checkpoint")
    place.make()
    place._files.open_output_stream("checkpoint/.half-state").close()
    assert place.names() == []
    place.make()
    assert place._files.get_file_info(FileSelector("checkpoint")) == []


def test_in_a_store_the_process_that_came_last_works_on(bucket: None, tmp_path: Path) -> None:
    """The one before it saves nothing any more, and says who does."""
    place = place_of(f"s3://{BUCKET}/{tmp_path.name}")
    with held(place, LOG) as first_check:
        first = StateStore(place, RULES, first_check)
        first.save(Saved(0, Minutes(RULES), {0: 1}))
        with held(place, LOG) as second_check:
            second = StateStore(place, RULES, second_check)
            found = second.load()
            with pytest.raises(TakenOver, match=r"s3://.* was taken over by process \d+ on .*: this process ends"):
                first.save(Saved(1, Minutes(RULES), {0: 2}))
            second.save(Saved(1, found.minutes, {0: 3}))
    assert StateStore(place, RULES).load().offsets == {0: 3}


class Killed(BaseException):
    """The process ends here, and cleans nothing up."""


class Dying:
    """A file system whose user is killed before or after one of its changes."""

    def __init__(self, files: Any, changes: int) -> None:
        self._files, self._left = files, changes

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._files, name)
        return self._then_killed(found) if name in ("open_output_stream", "move", "delete_file") else found

    def _then_killed(self, change: Any) -> Any:
        def tried(*given: Any, **more: Any) -> Any:
            for moment in ("before", "after"):
                if self._left == 0:
                    raise Killed
                self._left -= 1
                if moment == "before":
                    done = change(*given, **more)
            return done

        return tried


def test_a_kill_at_any_step_of_a_batch_loses_nothing() -> None:
    """Between produce and save, rows and state, state and manifest, manifest and the removal of old files: before and after each
    change of the store. The next process reads again what no manifest has, and gives the same bytes.
    """
    minutes = range(1, 7)
    records = {minute: (sample(minute * MINUTE, 3 * minute), marker(minute)) for minute in minutes}
    whole = Minutes(RULES)
    expected = {each.id: {encode_window(each)} for minute in minutes for each in feed(*records[minute], minutes=whole).windows}
    kills = 0
    while True:
        windows: dict[str, set[bytes]] = {}
        disk = _MockFileSystem()
        for files in (Dying(disk, kills), disk):
            try:
                store = StateStore(Place(files, "checkpoint", "mock://checkpoint"), RULES)
                found = store.load()
                for minute in minutes[found.offsets.get(0, 0) :]:
                    for each in feed(*records[minute], minutes=found.minutes).windows:
                        windows.setdefault(each.id, set()).add(encode_window(each))
                    found = Saved(found.batch + 1, found.minutes, {0: minute})
                    store.save(found)
                break
            except Killed:
                pass
        assert windows == expected, f"killed at step {kills}"
        if files is not disk:
            break
        kills += 1
    assert kills > 6 * 2 * 3 * 2  # six batches; rows, state and manifest; written and renamed


def test_scratch_of_a_checkpoint_in_a_store_lies_on_this_machine(bucket: None) -> None:
    """And goes with the process."""
    with _scratch(place_of(f"s3://{BUCKET}/any")) as scratch:
        assert scratch.is_dir()
    assert not scratch.exists()


def test_a_bucket_that_does_not_exist_is_one_line(bucket: None) -> None:
    """Before Spark starts, with the setting."""
    says = r"^SURESCALE_SPARK_CHECKPOINT: s3://other/checkpoint.* cannot be .*$"
    with pytest.raises(SettingsError, match=says) as refused, held(place_of("s3://other/checkpoint"), LOG):
        pass
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not set; set it to a folder, or use --checkpoint"),
        ("ftp://host/checkpoint", "ftp: is no store; use a folder, or a URL with one of file, s3, gs, abfs, abfss, hdfs"),
        ("dbfs:/checkpoint", "dbfs: is no store"),
        ("s3://key:secret@bucket/checkpoint", "s3://bucket/checkpoint holds a password"),
        ("  ", "not set"),
        ("viewfs://cluster/checkpoint", "viewfs: is no store"),
        ("WASBS://box@me/checkpoint", "wasbs: is no store"),
        ("C:\\checkpoint", "c: is no store"),
        ("c:/checkpoint", "c: is no store"),
        ("s3 ://bucket/checkpoint", "s3 : is no store"),
        ("folder:1", "folder: is no store"),
        ("s3:bucket/checkpoint", "a URL begins with s3://"),
        ("s3:/bucket/checkpoint", "a URL begins with s3://"),
        ("S3A//bucket/checkpoint", "a URL begins with s3a://"),
        ("file:checkpoint", "a URL begins with file://"),
        ("file://checkpoint", "file://checkpoint cannot be used"),
        ("s3://", "s3://: it names no bucket"),
        ("gs:///checkpoint", "gs://: it names no bucket"),
        ("abfss:///checkpoint", "abfss://: it names no container"),
        ("abfss://box/checkpoint", "abfss://box/checkpoint cannot be used"),
        ("s3://[bucket/checkpoint", ""),
        ("s3://bucket/a b", "s3://bucket/a b cannot be used"),
    ],
)
def test_what_names_no_store_is_refused_in_one_line(text: str, says: str) -> None:
    """Instead of becoming a folder of that name."""
    with pytest.raises(SettingsError) as refused:
        place_of(text)
    assert str(refused.value).startswith(f"SURESCALE_SPARK_CHECKPOINT: {says}")
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "FILE://{}", " {}/ "])
def test_a_folder_is_named_by_path_or_url(form: str, tmp_path: Path) -> None:
    """Both are local: with a lock, synced files and scratch inside."""
    assert place_of(form.format(tmp_path)).local == tmp_path
    assert isinstance(place_of(form.format(tmp_path))._files, LocalFileSystem)


def test_the_root_is_a_folder_too() -> None:
    """Not the working folder of whoever asks."""
    assert place_of("file:///").local == Path("/")


def test_a_folder_with_a_colon_is_named_as_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere else: what stands before the first colon is a scheme, unless a slash comes before it."""
    monkeypatch.chdir(tmp_path)
    assert place_of("./at:12").local == tmp_path / "at:12"
    assert place_of(f"{tmp_path}/s3://b").local == tmp_path / "s3:/b"


@pytest.mark.parametrize("form", ["S3://{}/x", "S3A://{}/x", " s3n://{}/x\n", "s3://{}/x/"])
def test_a_url_may_be_written_in_several_ways(bucket: None, form: str) -> None:
    """Upper case, Hadoop's names, white space around."""
    assert str(place_of(form.format(BUCKET))) == f"s3://{BUCKET}/x"


@pytest.mark.parametrize("path", ["{}//x", "other-bucket/x"])
def test_what_a_store_refuses_is_one_line(bucket: None, path: str) -> None:
    """Whatever kind of error its client raises."""
    says = r"^SURESCALE_SPARK_CHECKPOINT: s3://"
    with pytest.raises(SurescaleError, match=says) as refused, held(place_of(f"s3://{path.format(BUCKET)}"), LOG):
        pass
    assert "\n" not in str(refused.value)


def test_a_store_that_does_not_answer_is_away_and_its_files_are_not_corrupt(tmp_path: Path) -> None:
    """Whoever reads "corrupt" throws a good checkpoint away."""
    with object_store():
        store = StateStore(place_of(f"s3://{BUCKET}/{tmp_path.name}"), RULES)
        store.save(Saved(0, Minutes(RULES), {0: 1}))
        manifest = store.manifests.load()
        files = StateFiles(impatient(tmp_path.name) / FOLDER)  # which remembers no rows
    for ask in (lambda: files.load(manifest, {0}), lambda: files.save(Memory(Minutes(RULES)), 1, 0)):
        with pytest.raises(StoreAway, match=r"^s3://.*: the store does not answer, or refuses \(.*\)$"):
            ask()


def test_googles_store_is_not_asked_for_a_quarter_of_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client is silent meanwhile, and nobody knows what the job waits for."""
    monkeypatch.setattr(places, "GCS_TRIES_FOR_S", 1)
    place = place_of(f"gs://anonymous@bucket/checkpoint?scheme=http&endpoint_override=127.0.0.1:{free_port()}")
    with pytest.raises(SettingsError, match=r"gs://anonymous@bucket/checkpoint cannot be created"):
        place.make()


@pytest.mark.parametrize(("text", "kind"), [("gs://bucket/checkpoint", "gcs"), ("abfss://box@me.dfs.core.windows.net/c", "abfs")])
def test_other_stores_are_known_by_their_scheme(text: str, kind: str) -> None:
    """Each asks for its credentials only when it is used."""
    place = place_of(text)
    assert (place._files.type_name, place.local, str(place)) == (kind, None, text)
