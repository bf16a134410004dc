"""Where a checkpoint's files lie: a local folder, or one in an object store or in HDFS, by its URL. The edge to the store.

Every file is written whole or not at all: an object store shows an object only once it is there, elsewhere a file gets its name
only once it is written.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from surescale.contracts.addresses import store_of
from surescale.contracts.errors import SettingsError, SurescaleError, reason_of

SETTING = "SURESCALE_SPARK_CHECKPOINT"
_WHOLE = ("s3", "gcs", "abfs")
"""Stores that show an object only once it is complete, as pyarrow names them."""
_HALF_WRITTEN = ".half-"
GCS_TRIES_FOR_S = 20
"""pyarrow's client of it would try for a quarter of an hour, in silence; others give up sooner."""


class StoreAway(SurescaleError, OSError):
    """A store did not answer, or refused: that says nothing of the files in it."""


class Place:
    """A folder of files.

    Args:
        files: a file system of ``pyarrow.fs``.
        path: of the folder in it.
        name: the folder as people know it.
    """

    def __init__(self, files: Any, path: str, name: str) -> None:
        self._files, self._path, self._name = files, path, name

    def __str__(self) -> str:
        """Return the folder as people know it."""
        return self._name

    def __truediv__(self, folder: str) -> Self:
        """Return a folder inside."""
        return type(self)(self._files, f"{self._path}/{folder}", f"{self._name}/{folder}")

    @property
    def local(self) -> Path | None:
        """Return the folder's path, None if it is not on this machine."""
        return Path(self._path) if self._files.type_name == "local" else None

    def make(self) -> None:
        """Create the folder if it is missing, and remove what a kill left half written.

        Raises:
            SettingsError: the store does not answer or refuses; names the setting and the fix.
        """
        from pyarrow import ArrowException  # type: ignore[import-untyped]

        try:
            if self._files.type_name not in _WHOLE:  # which have no folders
                self._files.create_dir(self._path, recursive=True)
            for name in self._listed():
                if name.startswith(_HALF_WRITTEN):
                    self._files.delete_file(f"{self._path}/{name}")
        except (OSError, ArrowException) as error:
            raise SettingsError(
                f"{SETTING}: {self} cannot be created ({_reason_of(error)}); "
                "set it, or --checkpoint, to a folder this user can write"
            ) from None

    def names(self) -> list[str]:
        """Return the names of the files, sorted; none if there is no such folder.

        Raises:
            StoreAway: it does not answer.
        """
        with self._answering():
            return sorted(name for name in self._listed() if not name.startswith(_HALF_WRITTEN))

    def read(self, name: str) -> bytes:
        """Return a file's content.

        Raises:
            FileNotFoundError: there is none.
            StoreAway: it does not answer.
            OSError: the disk refuses.
        """
        with self._answering(name), self._files.open_input_stream(f"{self._path}/{name}", compression=None) as stream:
            content: bytes = stream.read()
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file, or replace it.

        Raises:
            StoreAway: it does not answer.
            OSError: it cannot be written; there is nothing half written, and what was there is still there.
        """
        with self._answering(name):
            self._write(name, content)

    def remove(self, name: str) -> None:
        """Remove a file if it is there.

        Raises:
            StoreAway: it does not answer.
        """
        with contextlib.suppress(FileNotFoundError), self._answering(name):
            self._files.delete_file(f"{self._path}/{name}")

    @contextlib.contextmanager
    def _answering(self, name: str = "") -> Iterator[None]:
        """Tell a store that is away from a file that is not there, and from a disk."""
        from pyarrow import ArrowException

        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, ArrowException) as error:  # pyarrow has no kind of its own for all that stores answer
            if self.local is not None:
                raise
            raise StoreAway(f"{self}/{name}: the store does not answer, or refuses ({_reason_of(error)})") from None

    def _write(self, name: str, content: bytes) -> None:
        path = f"{self._path}/{name}"
        if self._files.type_name in _WHOLE:
            self._put(path, content)
            return
        half = f"{self._path}/{_HALF_WRITTEN}{name}"
        try:
            self._put(half, content)
            if self.local is not None:
                _synced(half)
            self._files.move(half, path)
            if self.local is not None:
                _synced(self._path)  # so that the name survives a power cut
        except BaseException:
            with contextlib.suppress(Exception):  # the first error says what is wrong
                self._files.delete_file(half)
            raise

    def _put(self, path: str, content: bytes) -> None:
        # Without ``compression=None`` pyarrow compresses once more what is called .zst.
        with self._files.open_output_stream(path, compression=None) as stream:
            stream.write(content)

    def _listed(self) -> list[str]:
        from pyarrow.fs import FileSelector, FileType  # type: ignore[import-untyped]

        found = self._files.get_file_info(FileSelector(self._path, allow_not_found=True))
        return [each.base_name for each in found if each.type == FileType.File]


def place_of(text: str) -> Place:
    """Return the place that a path or URL names.

    Raises:
        SettingsError: no such kind of store; names the setting and the fix.
        StoreAway: it does not answer; names the setting too.
    """
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem, LocalFileSystem

    if not text.strip():
        raise SettingsError(f"{SETTING}: not set; set it to a folder, or use --checkpoint")
    try:
        url = store_of(text)
        parts = urlsplit(url or "")
    except ValueError as error:
        raise SettingsError(f"{SETTING}: {error}") from None
    if url is None:
        path = str(Path(text.strip()).absolute())
        return Place(LocalFileSystem(), path, path)
    shown = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
    if ":" in parts.netloc.rpartition("@")[0]:
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise SettingsError(f"{SETTING}: {shown} holds a password; leave it out and give it as the store's own tools take it")
    if parts.scheme == "gs" and "retry_limit_seconds" not in parts.query:
        query = "&".join(filter(None, (parts.query, f"retry_limit_seconds={GCS_TRIES_FOR_S}")))
        url = urlunsplit(parts._replace(query=query))
    try:
        files, path = FileSystem.from_uri(url)
        files.normalize_path(path)
    except (OSError, ArrowException) as error:
        kind = StoreAway if isinstance(error, OSError) and parts.scheme != "hdfs" else SettingsError  # hdfs: Hadoop's libraries
        raise kind(f"{SETTING}: {shown} cannot be used ({_reason_of(error)})") from None
    return Place(files, path.rstrip("/") or "/", shown)


def _synced(path: str) -> None:
    """Make what was written to a file or folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason_of(error: Exception) -> str:
    """Return the reason in one line; stores add a page of their own."""
    text = reason_of(error) if isinstance(error, OSError) else str(error)
    return next(iter(text.splitlines()), type(error).__name__)
