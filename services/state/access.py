"""Who may ask the HTTP API: bearer tokens from a file, and the names under which it may be asked. Knows no HTTP library."""

import hmac
import ipaddress
import os
import re
import ssl
from collections.abc import Collection
from pathlib import Path

from contracts.errors import SettingsError, reason_of

TOKEN_CHARACTERS_MIN = 16
_BEARER = "bearer "
_HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^:\[\]]+))(:\d+)?")


class Unreadable(Exception):
    """The file of tokens cannot be read now; nobody is let in."""


class Tokens:
    """The tokens in a file, one a line; the file is read again when it has changed, so tokens rotate without a restart.

    With two lines in it both hold, so that clients can change over one after the other.
    """

    def __init__(self, path: str) -> None:
        """Read the file; without a path everybody is let in.

        Raises:
            SettingsError: it cannot be read or holds no token; names the setting.
        """
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._known: tuple[bytes, ...] = ()
        try:
            self._refresh()
        except Unreadable as problem:
            raise SettingsError(f"SURESCALE_HTTP_TOKEN_FILE: {problem}") from None

    def let_in(self, authorization: str) -> bool:
        """Say whether a request with this value of the header ``Authorization`` is let in.

        Raises:
            Unreadable: the tokens cannot be read.
        """
        if not self._path:
            return True
        self._refresh()
        if authorization[: len(_BEARER)].lower() != _BEARER:
            return False
        given = authorization[len(_BEARER) :].strip().encode(errors="surrogateescape")
        # All are compared, each in constant time: how long it takes says nothing about any of them.
        return sum(hmac.compare_digest(given, token) for token in self._known) > 0

    def _refresh(self) -> None:
        if not self._path:
            return
        try:
            seen = os.stat(self._path)
            stamp = (seen.st_mtime_ns, seen.st_size, seen.st_ino)
            if stamp == self._stamp:
                return
            lines = Path(self._path).read_text(encoding="ascii").split()
        except OSError as error:
            raise Unreadable(f"{self._path} cannot be read ({reason_of(error)}); set it to a readable file") from None
        except UnicodeDecodeError:
            raise Unreadable(f"{self._path} is not text; write one token a line into it") from None
        if not lines or min(map(len, lines)) < TOKEN_CHARACTERS_MIN:
            raise Unreadable(f"{self._path}: write one token a line into it, each of at least {TOKEN_CHARACTERS_MIN} characters")
        self._known, self._stamp = tuple(line.encode() for line in lines), stamp


def is_own_host(host: str, names: Collection[str]) -> bool:
    """Say whether a value of the header ``Host`` may be one of ours: an address, a name without a dot, or one of ``names``.

    A page in a browser may make the name of its own site lead to our address (DNS rebinding), and so read what only this network
    may. Such a name has a dot; ours, unless set, is an address or a name of the local network.
    """
    found = _HOST.fullmatch(host.strip().lower())
    if found is None:
        return False
    address, name = found["address"], found["name"] or ""
    if name and (name in names or "." not in name):
        return True
    try:
        ipaddress.ip_address(address or name)
    except ValueError:
        return False
    return True


class ServedCertificate:
    """A certificate and its key for TLS; ``refresh`` takes files that have changed, for connections from then on."""

    def __init__(self, certificate_file: str, key_file: str) -> None:
        """Load them.

        Raises:
            SettingsError: they cannot be used; names the settings.
        """
        self._files = (certificate_file, key_file)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._stamp = self._stamps()
        try:
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                f"SURESCALE_HTTP_CERTIFICATE_FILE, _KEY_FILE: cannot be used ({error}); set them to PEM files"
            ) from None

    def refresh(self) -> str | None:
        """Load the files again if they have changed; return why that failed, None if it did not.

        After a failure the certificate before stays in use, until the files change again.
        """
        stamp = self._stamps()
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        try:
            # Into another context first: one half of a pair that is being replaced must not spoil the one in use.
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*self._files)
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            return str(error)
        return None

    def _stamps(self) -> tuple[int, ...]:
        return tuple(os.stat(path).st_mtime_ns if os.path.exists(path) else 0 for path in self._files)
