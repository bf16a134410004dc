"""Fetching Flink: which jars are kept, and what an interrupted or wrong download leaves behind."""

import io
import json
import sys
import tarfile
from pathlib import Path

import pytest

from surescale.services.local_stack import artifacts
from surescale.services.local_stack.errors import ArtifactError, DownloadError
from surescale.services.local_stack.flink import distribution
from surescale.services.local_stack.flink.distribution import (
    CONNECTORS,
    LOCKS,
    SDIST_BYTES,
    download_command,
    fetch_flink,
    unpack,
)

JARS = ("flink-dist-2.3.0.jar", "log4j-api-2.25.3.jar", "log4j-core-2.25.3.jar", "log4j-slf4j-impl-2.25.3.jar")


def package(path: Path, names: tuple[str, ...]) -> Path:
    """Write a source package with these files."""
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            content = name.encode() * 10
            member = tarfile.TarInfo(f"apache_flink_libraries-2.3.0/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.fixture
def no_connector(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The Kafka connector is there already."""
    monkeypatch.setattr(distribution, "fetch", lambda *_given, **_more: (tmp_path / "connector.jar",))


def pip_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Make the download run a Python script instead of pip; return the cache."""
    program = tmp_path / "pip.py"
    program.write_text(script)
    monkeypatch.setattr(distribution, "download_command", lambda _version, folder: [sys.executable, str(program), str(folder)])
    return tmp_path / "cache"


def test_only_the_jars_of_a_cluster_are_unpacked(tmp_path: Path) -> None:
    """Table libraries, plugins and files outside the library folder stay in the package."""
    others = ("deps/lib/flink-table-runtime-2.3.0.jar", "deps/opt/flink-dist-extra.jar", "setup.py")
    found = unpack(package(tmp_path / "x.tar.gz", (*(f"deps/lib/{jar}" for jar in JARS), *others)), tmp_path)
    assert sorted(found) == sorted(JARS)
    assert {path.name for path in tmp_path.glob("*.jar")} == set(JARS)


def test_a_package_without_the_distribution_is_refused(tmp_path: Path) -> None:
    """The message names what is missing."""
    with pytest.raises(ArtifactError, match=r"no flink-dist-\*\.jar"):
        unpack(package(tmp_path / "x.tar.gz", tuple(f"deps/lib/{jar}" for jar in JARS[1:])), tmp_path)


def test_a_distribution_is_downloaded_once_and_the_package_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_connector: None
) -> None:
    """The second call starts no download."""
    made = package(tmp_path / "made.tar.gz", tuple(f"deps/lib/{jar}" for jar in JARS))
    script = f"import pathlib, shutil, sys; shutil.copy({str(made)!r}, pathlib.Path(sys.argv[1]) / 'package.tar.gz')"
    cache = pip_that(tmp_path, monkeypatch, script)
    first = fetch_flink("2.3.0", cache=cache)
    monkeypatch.setattr(distribution, "download_command", lambda *_given: ["false"])
    assert fetch_flink("2.3.0", cache=cache) == first
    assert [jar.name for jar in first.jars] == [*sorted(JARS), "connector.jar"]
    assert sorted(path.name for path in (cache / "flink").rglob("*")) == sorted([*JARS, "complete.json", "2.3.0", "2.3.0.lock"])


def test_a_broken_download_leaves_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_connector: None
) -> None:
    """What was written half is gone, and the next call would start over."""
    script = (
        "import pathlib, sys; (pathlib.Path(sys.argv[1]) / 'half.tar.gz').write_bytes(b'x' * 99);"
        "print('ERROR: connection reset'); sys.exit(1)"
    )
    cache = pip_that(tmp_path, monkeypatch, script)
    with pytest.raises(DownloadError, match="connection reset"):
        fetch_flink("2.3.0", cache=cache)
    assert [path.name for path in (cache / "flink").iterdir()] == ["2.3.0.lock"]


def test_a_package_with_another_hash_is_not_a_network_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_connector: None
) -> None:
    """Tests skip without a network; a changed package must fail them."""
    script = "import sys; print('ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE'); sys.exit(1)"
    cache = pip_that(tmp_path, monkeypatch, script)
    with pytest.raises(ArtifactError, match="not the package that was locked") as caught:
        fetch_flink("2.3.0", cache=cache)
    assert not isinstance(caught.value, DownloadError)


def test_a_jar_that_was_cut_off_is_fetched_again(tmp_path: Path) -> None:
    """Sizes are compared at every use."""
    (tmp_path / "a.jar").write_bytes(b"123")
    (tmp_path / "complete.json").write_text(json.dumps({"a.jar": 3}))
    assert artifacts.is_complete(tmp_path)
    (tmp_path / "a.jar").write_bytes(b"12")
    assert not artifacts.is_complete(tmp_path)


def test_an_unknown_version_is_refused_before_anything_is_fetched() -> None:
    """The message lists the versions that are locked."""
    with pytest.raises(ArtifactError, match=r"no Flink 3\.0 is locked here; there are 2\.3\.0, 2\.2\.1, 1\.20\.5"):
        fetch_flink("3.0")


def test_every_version_has_its_lock_with_hashes_and_no_address() -> None:
    """The download names the package, its version and its hashes; where it comes from is pip's business."""
    assert set(CONNECTORS) == set(SDIST_BYTES) == {path.stem for path in LOCKS.glob("*.txt")}
    for version in CONNECTORS:
        lock = (LOCKS / f"{version}.txt").read_text()
        assert lock.startswith(f"apache-flink-libraries=={version} ")
        assert "--hash=sha256:" in lock
        assert "://" not in lock
        command = download_command(version, Path("folder"))
        assert "--require-hashes" in command
        assert str(LOCKS / f"{version}.txt") in command


def test_the_cache_is_named_when_it_cannot_be_written(tmp_path: Path, no_connector: None) -> None:
    """A file where the folder should be is an error that names the variable."""
    (tmp_path / "cache").write_text("")
    with pytest.raises(ArtifactError, match=artifacts.CACHE_VARIABLE):
        fetch_flink("2.3.0", cache=tmp_path / "cache")
