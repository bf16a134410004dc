"""Keeps the jars of the local stack in a cache folder: fetched once, checked, complete or absent. Starts nothing.

Each set of `locks/` is locked by names, versions and SHA-256, and lives in `CACHE/jars/NAME-DIGEST/`. The digest is that
of the lock, so a new version never meets an old folder. A folder is filled under a temporary name and renamed when complete; its
`complete.json` lists the file sizes, which are compared on every reuse. A lock file keeps two processes from fetching at once.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from surescale.contracts.errors import reason_of
from surescale.services.local_stack.errors import ArtifactError, DownloadError, Say, silent
from surescale.services.local_stack.ivy import REPOSITORY_VARIABLE, JarCoordinates, run_ivy
from surescale.services.local_stack.java import JavaRuntime, find_java

CACHE_VARIABLE = "SURESCALE_CACHE"
FETCH_ATTEMPTS = 3
PROGRESS_EVERY_S = 3.0
LOCKS = Path(__file__).parent / "locks"
_MARKER = "complete.json"
_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class LockedJar:
    """A jar and the SHA-256 (hexadecimal) that its bytes must have."""

    coordinates: JarCoordinates
    sha256: str


@dataclass(frozen=True, slots=True)
class ArtifactSet:
    """Jars that are fetched together; `title` is shown to people while they wait."""

    name: str
    title: str
    jars: tuple[LockedJar, ...]

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that change with any name, version or hash."""
        lines = sorted(f"{jar.coordinates} {jar.sha256}\n" for jar in self.jars)
        return hashlib.sha256("".join(lines).encode()).hexdigest()[:12]


def locked_set(name: str) -> ArtifactSet:
    """Return a set as its file in `locks/` has it: a line with its title, then one for each jar."""
    title, *lines = (LOCKS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    jars = (line.split() for line in lines)
    return ArtifactSet(
        name, title.removeprefix("# "), tuple(LockedJar(JarCoordinates.read(named), sha256) for named, sha256 in jars)
    )


KAFKA_BROKER = locked_set("kafka-broker-4.2.1")
SPARK_KAFKA = locked_set("spark-kafka-4.2.0")
MSK_IAM = locked_set("msk-iam-2.3.5")
FLINK_2_KAFKA = locked_set("flink-kafka-5.0.0-2.2")
FLINK_1_KAFKA = locked_set("flink-kafka-3.4.0-1.20")


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return SURESCALE_CACHE, else `surescale` in XDG_CACHE_HOME or ~/.cache.

    Raises:
        ArtifactError: neither variable is set, and the user has no home.
    """
    if environ.get(CACHE_VARIABLE):
        return Path(environ[CACHE_VARIABLE]).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "surescale"
    except RuntimeError:
        raise ArtifactError(f"no folder for downloaded jars: this user has no home; name one with {CACHE_VARIABLE}") from None


def fetch(
    wanted: ArtifactSet, *, cache: Path | None = None, java: JavaRuntime | None = None, progress: Say = silent
) -> tuple[Path, ...]:
    """Return the sorted paths of a set's jars. Downloads what the cache does not hold; works offline if it holds all.

    Raises:
        ArtifactError: a jar could not be fetched, or differs from the lock.
        JavaError: a download is needed, and there is no Java to run it.
    """
    home, names = (cache or cache_folder()) / "jars", [jar.coordinates.file_name for jar in wanted.jars]
    place = home / f"{wanted.name}-{wanted.digest}"

    def fill(folder: Path) -> Mapping[str, int]:
        _download(wanted, folder, java or find_java(), progress)
        return _check(wanted, folder / "jars")

    keep(place, home / f"{wanted.name}.lock", fill, names=names, title=wanted.title, what="the jars", progress=progress)
    return tuple(sorted(place / name for name in names))


def keep(
    place: Path,
    lock: Path,
    fill: Callable[[Path], Mapping[str, int]],
    *,
    names: Collection[str] = (),
    title: str,
    what: str,
    progress: Say,
) -> None:
    """Fill a folder of the cache with jars unless it is complete; what is interrupted leaves nothing behind.

    Args:
        place: the folder.
        lock: a file beside it, by which one process at a time fills it.
        fill: puts the jars into ``jars`` below a folder, and returns their sizes by name.
        names: of all jars, where they are known before.
        title: of the jars, for people.
        what: cannot be kept, in an error's words.
        progress: told what happens.

    Raises:
        ArtifactError: the jars cannot be kept there, or as ``fill`` raises it.
    """
    home = place.parent
    if is_complete(place, names):
        return
    try:
        home.mkdir(parents=True, exist_ok=True)
        with locked(lock, title, progress):
            if is_complete(place, names):  # another process may have done it while we waited
                return
            began_s = time.monotonic()
            with tempfile.TemporaryDirectory(prefix=f".{lock.stem}-", dir=home, ignore_cleanup_errors=True) as made:
                sizes, jars = fill(Path(made)), Path(made) / "jars"
                (jars / _MARKER).write_text(json.dumps(sizes, indent=1, sort_keys=True))
                if place.exists():
                    shutil.rmtree(place)
                jars.rename(place)
    except OSError as error:
        raise ArtifactError(
            f"cannot keep {what} in {home} ({reason_of(error)}); name another folder with {CACHE_VARIABLE}"
        ) from None
    took_s = time.monotonic() - began_s
    progress(f"{title}: {len(sizes)} jars, {sum(sizes.values()) / 1e6:.0f} MB in {took_s:.0f} s")


def is_complete(place: Path, names: Collection[str] = ()) -> bool:
    """Return whether a folder holds all jars, each with the size it had when it was checked; ``names``: of those it must hold."""
    try:
        sizes = json.loads((place / _MARKER).read_text())
        has_all = bool(sizes) and set(sizes) == set(names or sizes)
        return has_all and all((place / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, TypeError, AttributeError):
        return False


def _download(wanted: ArtifactSet, folder: Path, java: JavaRuntime, progress: Say) -> None:
    """Run Ivy until it has everything, with a few retries: networks have hiccups, and jars already fetched are kept."""
    names = [jar.coordinates for jar in wanted.jars]
    progress(f"{wanted.title}: downloading {len(names)} jars (once; they are kept in {folder.parent})")
    for attempt in range(1, FETCH_ATTEMPTS + 1):
        say = _Pace(wanted.title, len(names), progress)
        ended = run_ivy(java, names, folder=folder, pattern="[artifact]-[revision].[ext]", on_count=say)
        if ended.exit_code == 0 and not ended.missing:
            return
        if attempt < FETCH_ATTEMPTS:
            progress(f"{wanted.title}: {ended.reason}; trying again ({attempt} of {FETCH_ATTEMPTS - 1})")
            time.sleep(_PAUSE_S * attempt)
    first = ended.missing[0] if ended.missing else wanted.title
    others = f" and {len(ended.missing) - 1} more" if len(ended.missing) > 1 else ""
    raise DownloadError(
        f"could not download {first}{others} ({ended.reason}): check the network, or set {REPOSITORY_VARIABLE} to the "
        "address of a Maven mirror, then run the command again"
    )


def _check(wanted: ArtifactSet, folder: Path) -> dict[str, int]:
    """Compare every jar with its lock; return the sizes by file name."""
    sizes = {}
    for jar in wanted.jars:
        content = (folder / jar.coordinates.file_name).read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if found != jar.sha256:
            raise ArtifactError(
                f"{jar.coordinates} is not the jar that was locked (SHA-256 {found[:12]}..., expected "
                f"{jar.sha256[:12]}...): something on the way from the repository changed it; try another network or mirror"
            )
        sizes[jar.coordinates.file_name] = len(content)
    return sizes


@dataclass(slots=True)
class _Pace:
    """Tells every few seconds how many jars are there."""

    title: str
    total: int
    progress: Say
    last_s: float = field(default_factory=time.monotonic)

    def __call__(self, count: int) -> None:
        now_s = time.monotonic()
        if now_s - self.last_s >= PROGRESS_EVERY_S:
            self.last_s = now_s
            self.progress(f"{self.title}: {count} of {self.total} jars")


@contextlib.contextmanager
def locked(path: Path, title: str, progress: Say) -> Iterator[None]:
    """Hold an advisory lock on a file; the system releases it even if we are killed. `title` is what is fetched."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"{title}: another process is downloading it, waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
