"""The cache of jars, filled by the real Ivy from a tiny repository on loopback."""

import functools
import hashlib
import http.server
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from surescale.services.local_stack import artifacts
from surescale.services.local_stack.artifacts import KAFKA_BROKER, SPARK_KAFKA, ArtifactSet, LockedJar, cache_folder, fetch
from surescale.services.local_stack.errors import ArtifactError
from surescale.services.local_stack.ivy import REPOSITORY_VARIABLE, JarCoordinates
from tests.support.http_server import serving

LEFT, RIGHT = JarCoordinates("org.example", "left", "1.0"), JarCoordinates("org.example", "right", "2.0")


def sha256(content: bytes) -> str:
    """Return the hash as the lock writes it."""
    return hashlib.sha256(content).hexdigest()


PAIR = ArtifactSet("pair", "two jars", (LockedJar(LEFT, sha256(b"left" * 99)), LockedJar(RIGHT, sha256(b"right" * 99))))


@dataclass
class Repository:
    """A Maven repository with two small jars."""

    folder: Path
    downloads: Counter[str] = field(default_factory=Counter)

    def path(self, jar: JarCoordinates) -> Path:
        """Return where a jar lies."""
        return self.folder / jar.organisation.replace(".", "/") / jar.name / jar.version / jar.file_name


class CountingHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files and counts the downloads."""

    def __init__(self, *arguments: object, downloads: Counter[str], directory: str) -> None:
        self.downloads = downloads
        super().__init__(*arguments, directory=directory)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        """Count and serve."""
        self.downloads[self.path.rsplit("/", 1)[-1]] += 1
        super().do_GET()

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """A repository on loopback that Ivy is configured with."""
    here = Repository(tmp_path / "repository")
    for jar, content in ((LEFT, b"left" * 99), (RIGHT, b"right" * 99)):
        here.path(jar).parent.mkdir(parents=True)
        here.path(jar).write_bytes(content)
    handler = functools.partial(CountingHandler, downloads=here.downloads, directory=str(here.folder))
    with serving(handler) as url:
        monkeypatch.setenv(REPOSITORY_VARIABLE, f"{url}/")
        monkeypatch.setattr(artifacts, "_PAUSE_S", 0.0)
        yield here


def test_a_set_is_fetched_once_and_then_needs_no_repository(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call neither connects nor starts Java."""
    first = fetch(PAIR, cache=tmp_path / "cache")
    monkeypatch.setenv(REPOSITORY_VARIABLE, "http://127.0.0.1:9/")
    monkeypatch.setenv("PATH", "")
    assert fetch(PAIR, cache=tmp_path / "cache") == first
    assert [path.name for path in first] == ["left-1.0.jar", "right-2.0.jar"]
    assert first[0].read_bytes() == b"left" * 99


def test_a_damaged_cache_is_noticed_and_fetched_again(repository: Repository, tmp_path: Path) -> None:
    """A jar that was cut short on disk is never handed out."""
    (left, _right) = fetch(PAIR, cache=tmp_path / "cache")
    left.write_bytes(b"lef")
    assert fetch(PAIR, cache=tmp_path / "cache")[0].read_bytes() == b"left" * 99


def test_a_jar_with_other_bytes_is_refused_by_name_and_leaves_nothing(repository: Repository, tmp_path: Path) -> None:
    """What the lock does not know is not run."""
    repository.path(RIGHT).write_bytes(b"something else")
    with pytest.raises(ArtifactError, match=r"org\.example:right:2\.0 is not the jar that was locked"):
        fetch(PAIR, cache=tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache" / "jars").iterdir()] == ["pair.lock"]


def test_a_missing_jar_is_one_line_that_names_it_and_what_helps(repository: Repository, tmp_path: Path) -> None:
    """After a few attempts the message says which jar, and how to use a mirror."""
    repository.path(RIGHT).unlink()
    said: list[str] = []
    with pytest.raises(ArtifactError, match=rf"^[^\n]*org\.example:right:2\.0 [^\n]*{REPOSITORY_VARIABLE}[^\n]*$"):
        fetch(PAIR, cache=tmp_path / "cache", progress=said.append)
    assert sum("trying again" in line for line in said) == artifacts.FETCH_ATTEMPTS - 1


def test_two_processes_at_once_download_once(repository: Repository, tmp_path: Path) -> None:
    """The second waits for the first and uses what it fetched."""
    with ThreadPoolExecutor(2) as both:
        found = list(both.map(lambda _: fetch(PAIR, cache=tmp_path / "cache"), range(2)))
    assert found[0] == found[1]
    assert repository.downloads == {"left-1.0.jar": 1, "right-2.0.jar": 1}


def test_the_cache_folder_follows_the_environment() -> None:
    """Our own variable first, then the desktop standard, then the home folder."""
    assert cache_folder({"SURESCALE_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache_folder({"XDG_CACHE_HOME": "/b"}) == Path("/b/surescale")
    assert cache_folder({}) == Path.home() / ".cache" / "surescale"


@pytest.mark.parametrize("locked", [KAFKA_BROKER, SPARK_KAFKA], ids=lambda each: each.name)
def test_the_locked_sets_are_well_formed(locked: ArtifactSet) -> None:
    """File names do not collide in one folder, and every jar has a whole hash."""
    assert len({jar.coordinates.file_name for jar in locked.jars}) == len(locked.jars)
    assert all(len(jar.sha256) == 64 for jar in locked.jars)


def test_another_version_gets_another_folder() -> None:
    """A new lock never meets the files of an old one."""
    changed = ArtifactSet("pair", "two jars", PAIR.jars[:1])
    assert changed.digest != PAIR.digest
