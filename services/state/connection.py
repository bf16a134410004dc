"""Connects to Redis, where the view lies."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import redis
from redis.credentials import CredentialProvider
from redis.sentinel import Sentinel

from surescale.contracts.addresses import without_password
from surescale.contracts.errors import SettingsError, reason_of
from surescale.contracts.figures import known_count
from surescale.contracts.foreign_files import contents
from surescale.contracts.settings import PORT_MAX, PipelineSettings
from surescale.services.state.redis_guard import guarded
from surescale.services.state.redis_words import ODD_BYTES
from surescale.services.state.text_reader import away

REDIS_TIMEOUT_S = 5.0
TLS = ("rediss://", "rediss+sentinel://")
_SENTINELS = ("redis+sentinel://", "rediss+sentinel://")
_SENTINEL_PORT = 26379


@dataclass(frozen=True, slots=True)
class Credentials:
    """How a client shows who it is, and knows the server; each names a file, an empty one is not used."""

    password_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""

    @classmethod
    def of(cls, settings: PipelineSettings) -> "Credentials":
        """Return those of the settings."""
        return cls(settings.redis_password_file, settings.redis_ca_file, settings.redis_certificate_file, settings.redis_key_file)

    def options(self, url: str) -> dict[str, object]:
        """Return the library's options for an address."""
        options: dict[str, object] = {}
        if self.password_file:
            options["credential_provider"] = _FromFile(unquote(_user(url)), Path(self.password_file))
        if url.startswith(TLS):
            files = {"ca_certs": self.ca_file, "certfile": self.certificate_file, "keyfile": self.key_file}
            options |= {f"ssl_{name}": path for name, path in files.items() if path}
        return options

    def address(self, url: str) -> str:
        """Return an address as the library wants it: without the user, if the password comes from a file."""
        scheme, slashes, rest = url.partition("//")
        return f"{scheme}{slashes}{rest.rpartition('@')[2]}" if self.password_file else url


def _user(url: str) -> str:
    """Return the user of an address, which may name several hosts."""
    who, at, _ = url.partition("//")[2].partition("/")[0].rpartition("@")
    return who.partition(":")[0] if at else ""


class _FromFile(CredentialProvider):
    """Reads the password for each connection, so that it rotates without a restart."""

    def __init__(self, user: str, path: Path) -> None:
        self._user, self._path = user, path

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        try:
            password = contents(self._path).decode().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else "it is not text"
            raise redis.AuthenticationError(f"SURESCALE_REDIS_PASSWORD_FILE: {self._path} cannot be read ({reason})") from None
        return (self._user, password) if self._user else (password,)


class ViewEvicted(redis.RedisError):
    """Redis drops keys when it is full: single ones of the view would be missing, and nobody would notice."""

    def __init__(self, policy: str) -> None:
        super().__init__(
            f"it drops keys when it is full (maxmemory-policy {policy}); set noeviction there, or name a Redis "
            "that has it in SURESCALE_REDIS_URL"
        )


def connect(redis_url: str, credentials: Credentials = Credentials()) -> redis.Redis:
    """Return a client; it connects when it is first used.

    Raises:
        SettingsError: the address is not one of Redis.
    """
    # The library's own words may have a piece of the password, which it takes for the port.
    wrong = SettingsError(
        f"SURESCALE_REDIS_URL: {without_password(redis_url)!r} is not an address of Redis; set one there or with --redis, like "
        "redis://user:password@host:6379/0, with / ? # @ of the password written as %2F %3F %23 %40"
    )
    if redis_url.startswith(_SENTINELS):
        return _by_sentinels(redis_url, credentials)
    if "@" in re.sub(r"^[^/]*//[^/?#]*", "", redis_url.partition("?")[0]):  # outside of host and user
        raise wrong
    try:
        client = guarded(
            redis.Redis.from_url(
                credentials.address(redis_url),
                decode_responses=True,
                encoding_errors=ODD_BYTES,
                socket_timeout=REDIS_TIMEOUT_S,
                socket_connect_timeout=REDIS_TIMEOUT_S,
                **credentials.options(redis_url),
            )
        )
        # The library looks at the address's options only when it makes a connection, which is not opened here.
        client.connection_pool.connection_class(**client.connection_pool.connection_kwargs)
    except (ValueError, TypeError, redis.RedisError):
        raise wrong from None
    return client


def _by_sentinels(redis_url: str, credentials: Credentials) -> redis.Redis:
    """Return a client that asks Sentinels who the master is, each time that it connects."""
    wrong = SettingsError(
        f"SURESCALE_REDIS_URL: {without_password(redis_url)!r} is not an address of Sentinels; write it like "
        "redis+sentinel://user:password@one:26379,two:26379/NAME/0, where NAME is what they call the master, with / ? # @ of the "
        "password written as %2F %3F %23 %40"
    )
    _, _, rest = redis_url.partition("//")
    place, _, path = rest.partition("/")
    who, _, hosts = place.rpartition("@")
    name, _, database = path.partition("/")
    user, _, password = (unquote(part) for part in who.partition(":"))
    try:
        asked = [_sentinel(host) for host in hosts.split(",")]
    except ValueError:
        raise wrong from None
    if not name or re.search(r"[/?#@\s]", name) or not (database or "0").isdecimal():
        raise wrong
    options = {"socket_timeout": REDIS_TIMEOUT_S, "socket_connect_timeout": REDIS_TIMEOUT_S}
    if redis_url.startswith(TLS):
        options["ssl"] = True
    shown = credentials.options(redis_url)
    certificates = {option: value for option, value in shown.items() if option.startswith("ssl_")}
    if not credentials.password_file:
        shown |= {"username": user or None, "password": password or None}
    sentinels = Sentinel(asked, sentinel_kwargs={**options, **certificates})  # type: ignore[no-untyped-call]
    client: redis.Redis = sentinels.master_for(  # type: ignore[no-untyped-call]
        name, db=int(database or 0), decode_responses=True, encoding_errors=ODD_BYTES, **options, **shown
    )
    return guarded(client)


def _sentinel(text: str) -> tuple[str, int]:
    """Return host and port of a Sentinel.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(f"//{text}")
    port = _SENTINEL_PORT if parts.port is None else parts.port
    if not parts.hostname or parts.netloc != text or not 0 < port <= PORT_MAX or re.search(r"\s", text):
        raise ValueError(text)
    return parts.hostname, port


def evicts(client: redis.Redis) -> str:
    """Return by which policy Redis drops keys once it is full; empty if it drops none.

    Policies that drop keys with an expiry only are no exception: whoever sets one on a key of the view would make it vanish.

    Raises:
        redis.RedisError: it does not say, or is away.
    """
    memory = client.info("memory")
    policy = str(memory.get("maxmemory_policy", ""))
    return policy if policy not in ("", "noeviction") and known_count(str(memory.get("maxmemory", 0))) else ""


def ahead_of_redis_ms(client: redis.Redis) -> int:
    """Return by how much this machine's clock is ahead of that of Redis, negative if it is behind.

    Raises:
        redis.RedisError: it does not say, or is away.
    """
    began_ms = time.time() * 1_000
    seconds, microseconds = client.time()
    return round((began_ms + time.time() * 1_000) / 2 - seconds * 1_000 - microseconds / 1_000)


@contextmanager
def opened(settings: PipelineSettings) -> Iterator[redis.Redis]:
    """Yield a client, for a command that runs once.

    Raises:
        SettingsError: the address is not one of Redis.
        ConnectionError: Redis is away; the message is one line for people.
    """
    client = connect(settings.redis_url, Credentials.of(settings))
    try:
        yield client
    except redis.RedisError as error:
        raise away(settings, error) from None
    finally:
        client.close()
