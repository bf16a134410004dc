"""Writes files whole or not at all; a failure is one readable line that names the option."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from surescale.contracts.errors import SettingsError, reason_of


def check_folder(path: Path, *, option: str) -> None:
    """Check before the work that a file can be written after it, by making and removing a file beside it.

    Raises:
        SettingsError: the folder is missing or not writable, the name is invalid, or something other than a file is in its
            place; names the option and the fix.
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


def check_new(path: Path, *, option: str, force: bool, others: Mapping[str, str | Path | None] | None = None) -> None:
    """Check before the work that a file can be written after it, and that nothing is lost: see `check_apart` for ``others``.

    Raises:
        SettingsError: as of `check_folder` and `check_apart`; or there is such a file, and nobody said that it may be replaced.
    """
    check_apart(path, option=option, others=others or {})
    check_folder(path, option=option)
    if path.exists() and not force:
        raise SettingsError(f"{option}: {path} exists; name another file or pass --force")


def check_apart(path: Path, *, option: str, others: Mapping[str, str | Path | None]) -> None:
    """Check before the work that a file to be written is none of those that the command reads or writes besides.

    Args:
        path: the file to be written.
        option: what names it.
        others: the other files by option; None, and a name that is no file, are passed over.

    Raises:
        SettingsError: it is one of them, perhaps by another name; names both options.
    """
    for name, other in others.items():
        if other is not None and os.path.realpath(path) == os.path.realpath(other):
            raise SettingsError(f"{option}: {path} is the file of {name}, which would be lost; name another one")


def write_atomically(path: Path, text: str, *, option: str, mode: int = 0o644) -> None:
    """Write a file atomically: a reader sees the old one or the new one, never a part. Makes its folder; follows links.

    Raises:
        SettingsError: it cannot be written; names the option.
    """
    try:
        path = _real(path, option)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_atomically(path, text, mode=mode)
    except OSError as error:
        raise SettingsError(f"{option}: {path} cannot be written ({reason_of(error)}); name another file") from None


def _real(path: Path, option: str) -> Path:
    """Return the file behind any links; refuse a folder, device or pipe, which a file would replace."""
    if path.exists() and not path.is_file():
        raise SettingsError(f"{option}: {path} is not a regular file; name another one")
    return Path(os.path.realpath(path))


def replace_atomically(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a file atomically into a folder that exists; raises OSError."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
