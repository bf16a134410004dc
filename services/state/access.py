"""Who may ask the HTTP API, and do what: bearer tokens from files, own names, own pages. Knows no HTTP library."""

import asyncio
import hmac
import ipaddress
import os
import re
import ssl
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from surescale.contracts.errors import SettingsError, reason_of
from surescale.contracts.foreign_files import contents, in_time

TOKEN_CHARACTERS_MIN = 16
_BEARER = "bearer "
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_HOST = re.compile(r"(\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(:\d+)?")


class Unreadable(Exception):
    """The file of tokens cannot be read now; nobody is let in."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and what that token allows."""

    name: str = ""
    """Of a token that may operate; the others have none."""
    may_operate: bool = False


ANYBODY = Caller()


class Tokens:
    """The tokens of readers and of operators, from a file each. A file is read again when it has changed, so tokens rotate.

    A token of operators also reads. Where readers have no file, everybody reads, and operators still need a token.
    """

    def __init__(self, path: str = "", operate_path: str = "") -> None:
        """Read the files.

        Args:
            path: of readers: one token a line. With two in it both hold, so that clients can change over one after the other.
            operate_path: of operators: a name and a token a line; a name may have two. Empty: nobody operates.

        Raises:
            SettingsError: one cannot be read or holds no token; names the setting.
        """
        self._readers = _TokenFile(path, "SURESCALE_HTTP_TOKEN_FILE", _plain) if path else None
        self._operators = _TokenFile(operate_path, "SURESCALE_HTTP_OPERATE_TOKEN_FILE", _named) if operate_path else None

    @property
    def let_operate(self) -> bool:
        """Say whether there are tokens that may operate."""
        return self._operators is not None

    def caller(self, authorization: str) -> Caller | None:
        """Return who asks with this value of the header ``Authorization``; None for nobody that is let in.

        Raises:
            Unreadable: the tokens cannot be read, and without them nobody would be let in.
        """
        self.look()
        return self.known(authorization)

    @property
    def has_files(self) -> bool:
        """Say whether there is anything to look at."""
        return bool(self._readers or self._operators)

    def look(self) -> None:
        """Read again what has changed. May take as long as a disk that does not answer: a minute at most."""
        for file in (self._readers, self._operators):
            if file:
                file.look()

    def known(self, authorization: str) -> Caller | None:
        """Return who asks by what was read last, as ``caller``.

        Raises:
            Unreadable: the tokens could not be read, and without them nobody would be let in.
        """
        given = _token_of(authorization)
        problem: Unreadable | None = None
        found = None if self._readers else ANYBODY
        for file in (self._readers, self._operators):
            try:
                found = (file.owner(given) if file else None) or found
            except Unreadable as unreadable:
                problem = unreadable
        if found is None and problem is not None:
            raise problem
        return found


def _token_of(authorization: str) -> bytes:
    """Return the token in a header, empty if it has none. From nowhere else: a browser adds this header to no foreign request."""
    if authorization[: len(_BEARER)].lower() != _BEARER:
        return b""
    return authorization[len(_BEARER) :].strip().encode(errors="surrogateescape")


class _TokenFile:
    def __init__(self, path: str, setting: str, parse: Callable[[str], dict[bytes, Caller]]) -> None:
        self._path, self._parse = path, parse
        self._stamp: tuple[int, int, int] | None = None
        self._known: dict[bytes, Caller] = {}
        self._problem = ""
        self.look()
        if self._problem:
            raise SettingsError(f"{setting}: {self._problem}")

    def look(self) -> None:
        """Read the file again if it has changed."""
        try:
            self._refresh()
        except Unreadable as problem:
            self._problem = str(problem)
        else:
            self._problem = ""

    def owner(self, given: bytes) -> Caller | None:
        """Return whose token this is, None for nobody's.

        Raises:
            Unreadable: the file could not be read.
        """
        if self._problem:
            raise Unreadable(self._problem)
        # All are compared, each in constant time: how long it takes says nothing about any of them.
        owners = [caller for token, caller in self._known.items() if hmac.compare_digest(given, token)]
        return owners[0] if owners else None

    def _refresh(self) -> None:
        try:
            seen = in_time(lambda: os.stat(self._path), self._path)
            stamp = (seen.st_mtime_ns, seen.st_size, seen.st_ino)
            if stamp == self._stamp:
                return
            text = contents(self._path).decode("ascii")
        except OSError as error:
            raise Unreadable(f"{self._path} cannot be read ({reason_of(error)}); set it to a readable file") from None
        except UnicodeDecodeError:
            raise Unreadable(f"{self._path} is not text; write one token a line into it") from None
        try:
            self._known, self._stamp = self._parse(text), stamp
        except ValueError as wrong:
            raise Unreadable(f"{self._path}: {wrong}") from None


def _plain(text: str) -> dict[bytes, Caller]:
    tokens = text.split()
    if not tokens or min(map(len, tokens)) < TOKEN_CHARACTERS_MIN:
        raise ValueError(f"write one token a line into it, each of at least {TOKEN_CHARACTERS_MIN} characters")
    return {token.encode(): ANYBODY for token in tokens}


def _named(text: str) -> dict[bytes, Caller]:
    """Return the tokens with their owners. No message has a piece of a line: it may be a token."""
    found: dict[bytes, Caller] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if len(words) != 2 or not _NAME.fullmatch(words[0]) or len(words[1]) < TOKEN_CHARACTERS_MIN:
            raise ValueError(
                f"line {number}: write a name and a token there, like `ana TOKEN`; the name of at most 64 letters, digits and "
                f"._@-, the token of at least {TOKEN_CHARACTERS_MIN} characters"
            )
        if found.setdefault(words[1].encode(), Caller(words[0], may_operate=True)).name != words[0]:
            raise ValueError(f"line {number}: another name has the same token; give each a token of its own")
    if not found:
        raise ValueError("write a name and a token a line into it, like `ana TOKEN`")
    return found


def is_same_site(host: str, origin: str | None, fetch_site: str | None) -> bool:
    """Say whether a request comes from our own page or from no page at all, by what browsers tell of it.

    Args:
        host: value of the header ``Host``.
        origin: of the header ``Origin``, None without one. A proxy in front may speak TLS for us, so only its host must be ours.
        fetch_site: of the header ``Sec-Fetch-Site``, None without one.
    """
    if fetch_site not in (None, "same-origin", "none"):
        return False
    return origin is None or origin.strip().lower().partition("://")[2] == host.strip().lower() != ""


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


def is_loopback(host: str) -> bool:
    """Say whether only this machine reaches an address that something listens on."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ServedCertificate:
    """A certificate and its key for TLS; ``refresh`` takes files that have changed, for connections from then on."""

    def __init__(self, certificate_file: str, key_file: str) -> None:
        """Load them.

        Raises:
            SettingsError: they cannot be used; names the settings.
        """
        self._files = (certificate_file, key_file)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._stamp = stamps_of(self._files)
        try:
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                f"SURESCALE_HTTP_CERTIFICATE_FILE, _KEY_FILE: cannot be used ({error}); set them to PEM files"
            ) from None

    async def refresh(self) -> str | None:
        """Load the files again if they have changed; return why that failed, None if it did not.

        After a failure the certificate before stays in use, until the files change again. The disk is looked at in a thread: one
        that no longer answers holds up nobody.
        """
        try:
            stamp, problem = await asyncio.to_thread(in_time, self._look, *self._files)
            if stamp == self._stamp:
                return None
            self._stamp = stamp  # not in the thread: a look that came too late would pass for one that was used
            if not problem:
                self.context.load_cert_chain(*self._files)  # here, where connections begin: not while one does
        except (OSError, ssl.SSLError) as error:
            return str(error)
        return problem

    def _look(self) -> tuple[tuple[int, ...], str | None]:
        """Return what the files are now, and why they cannot be used, if they have changed."""
        stamp = stamps_of(self._files)
        try:
            if stamp != self._stamp:
                # Into another context first: one half of a pair that is being replaced must not spoil the one in use.
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            return stamp, str(error)
        return stamp, None


def stamps_of(files: Iterable[str]) -> tuple[int, ...]:
    """Return what changes when one of these files does."""
    return tuple(os.stat(path).st_mtime_ns if os.path.exists(path) else 0 for path in files)
