"""Files that are written whole or not at all; one that cannot be written is one readable line that names the option."""

import os
import tempfile
from pathlib import Path

from contracts.errors import SettingsError, reason_of


def check_folder(path: Path, *, option: str) -> None:
    """Refuse before the work what could not be written after it: a file beside it is made and taken away again.

    Raises:
        SettingsError: the file's folder is not there or cannot be written to, its name is none, or in its place stands what is
            no file; names the option and the fix.
    """
    try:
        real = _real(path, option)
        if not real.parent.is_dir():
            raise SettingsError(f"{option}: folder {path.parent} does not exist; create it first")
        if not os.access(real.parent, os.W_OK | os.X_OK):
            raise SettingsError(f"{option}: folder {path.parent} cannot be written to; name a file in another one")
        with tempfile.NamedTemporaryFile(dir=real.parent, prefix=f".{real.name}-"):
            pass
    except OSError as error:
        raise SettingsError(f"{option}: {path} cannot be written ({reason_of(error)}); name another file") from None


def write_whole(path: Path, text: str, *, option: str) -> None:
    """Write a file: a reader sees the former one or this one, never a part. Its folder is made if it is not there; a link stays.

    Raises:
        SettingsError: it cannot be written; names the option.
    """
    try:
        path = _real(path, option)
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, text)
    except OSError as error:
        raise SettingsError(f"{option}: {path} cannot be written ({reason_of(error)}); name another file") from None


def _real(path: Path, option: str) -> Path:
    """Return the file itself, whatever links lead to it; a folder, a device or a pipe would be lost if a file took its place."""
    if path.exists() and not path.is_file():
        raise SettingsError(f"{option}: {path} is no plain file; name another one")
    return Path(os.path.realpath(path))


def _replace(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
