"""Files that settings name, in TOML or JSON: what engines run or know, by the name of each job."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from surescale.contracts.errors import SettingsError, reason_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A kind of file.

    Attributes:
        setting: names the file.
        page: of the documentation, which shows the form.
    """

    setting: str
    page: str

    def read(self, path: Path, form: type[dict[str, T]], *, may_be_empty: bool = False) -> dict[str, T]:
        """Return what a file says of each job.

        Raises:
            SettingsError: it cannot be read or is invalid; names the setting, the file, the field and the fix in one
                line.
        """
        try:
            text = path.read_bytes()
        except OSError as error:
            raise SettingsError(f"{self.at(path)} cannot be read ({reason_of(error)}); name a readable file") from None
        decode = msgspec.json.decode if path.suffix == ".json" else msgspec.toml.decode
        try:
            found = decode(text, type=form)
        except ValueError as error:  # msgspec's errors and those of a text that is no UTF-8, too
            raise self._malformed(path, str(error)) from None
        except RecursionError:
            raise self._malformed(path, "it is nested too deep") from None
        if not found and not may_be_empty:
            raise self._malformed(path, "names no job")
        return found

    def at(self, path: Path) -> str:
        """Return how a message about a file begins."""
        return f"{self.setting}: {path}"

    def _malformed(self, path: Path, what: str) -> SettingsError:
        return SettingsError(f"{self.at(path)}: {what}; {self.page} shows the form")
