"""Secrets of Kafka that change while a role runs.

librdkafka and aiokafka take a new password for their next authentication, so it is given to them as soon as it is in its file.
Certificates, keys and OAuth secrets are fixed for the life of librdkafka's clients: for a new one a role ends, and its supervisor
starts it again. Spark's job only starts its query again (``spark_streaming.streaming_job``).
"""

import contextlib
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.contracts.foreign_files import contents
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.kafka_security import Credentials, credentials, is_encrypted, ssl_context, uses_tokens
from surescale.runtime.threads import background

LOOK_EVERY_S = 1.0
PASSWORD = ("kafka_password_file",)
_CERTIFICATES = ("kafka_ca_file", "kafka_certificate_file", "kafka_key_file")
_TOKENS = ("kafka_oauth_client_secret_file", "kafka_oauth_ca_file")
_log = logging.getLogger("surescale.kafka_rotation")
Client = TypeVar("Client")
Change = Callable[[Any, str, str], object]


class SecretChanged(SurescaleError):
    """A secret has changed that a running client cannot take over; the role ends so that its supervisor starts it again."""


# Passwords


@dataclass(slots=True)
class _Followers:
    """The clients that use one user and password file, and the password that they have."""

    settings: PipelineSettings
    password: str
    clients: list[tuple[weakref.ref[Any], Change]] = field(default_factory=list)
    complaint: str = ""

    def add(self, client: object, change: Change, given: Credentials) -> None:
        self.clients.append((weakref.ref(client), change))
        if self.password != given.password:  # the file changed between the making of the client and now
            self._give(self.password)

    def look(self) -> None:
        """Give every client the password in the file, if it is another one; one that cannot be read changes nothing."""
        try:
            found = credentials(self.settings)
            complaint = "" if found and found.password else "SURESCALE_KAFKA_PASSWORD_FILE: the file is empty"
        except SettingsError as error:
            found, complaint = None, str(error)
        if complaint and complaint != self.complaint:
            _log.warning("%s; the last password stays in use", complaint)
        self.complaint = complaint
        if complaint or found is None or found.password == self.password:
            return
        self.password = found.password
        self._give(found.password)
        _log.info("SURESCALE_KAFKA_PASSWORD_FILE has changed; the next authentication at Kafka uses the new password")

    def _give(self, password: str) -> None:
        self.clients = [(client, change) for client, change in self.clients if client() is not None]
        for reference, change in self.clients:
            client = reference()
            if client is not None:
                with contextlib.suppress(RuntimeError, KafkaException):  # it was closed meanwhile
                    change(client, self.settings.kafka_username, password)


_lock = threading.Lock()
_followers: dict[tuple[str, str, str], _Followers] = {}


def follow_password(
    settings: PipelineSettings, given: Credentials, client: Client, change: Callable[[Client, str, str], object]
) -> None:
    """Call ``change`` with client, user and password whenever another password is in the file; for as long as the client lives.

    Args:
        settings: name the file.
        given: what the client was made with.
        client: must allow weak references; nothing here keeps it alive.
        change: may be called from another thread.
    """
    key = (settings.kafka_password_file, given.username, given.mechanism)
    with _lock:
        is_first = not _followers
        _followers.setdefault(key, _Followers(settings, given.password)).add(client, change, given)
        if is_first:
            background(_follow, "kafka-passwords", lambda: False).start()


def _follow() -> None:
    never = threading.Event()
    while not never.wait(LOOK_EVERY_S):
        with _lock:
            for each in _followers.values():
                each.look()


# What only a new client can use


def fixed_secrets(settings: PipelineSettings) -> tuple[str, ...]:
    """Return the settings in use whose files librdkafka reads only when a client is made."""
    names = (*(_CERTIFICATES if is_encrypted(settings) else ()), *(_TOKENS if uses_tokens(settings) else ()))
    return tuple(name for name in names if getattr(settings, name))


class SecretFiles:
    """Notices that files which settings name have other contents than before."""

    def __init__(self, settings: PipelineSettings, names: Iterable[str]) -> None:
        self._paths = {name: Path(getattr(settings, name)) for name in names if getattr(settings, name)}
        self._known = self._last = self._contents()

    def changed(self) -> tuple[str, ...]:
        """Return the environment variables of the files that have changed, once they stay as they are from one call to the next.

        A certificate and its key are two files, written one after the other. A file that cannot be read has not changed yet.
        """
        now, before = self._contents(), self._last
        self._last = now
        if now != before or None in now.values():
            return ()
        return tuple(f"SURESCALE_{name.upper()}" for name in now if now[name] != self._known[name])

    def accept(self) -> None:
        """Take the contents of the last call for the known ones."""
        self._known = self._last

    def _contents(self) -> dict[str, bytes | None]:
        found: dict[str, bytes | None] = {}
        for name, path in self._paths.items():
            try:
                found[name] = contents(path)
            except OSError:
                found[name] = None
        return found


@contextlib.contextmanager
def ended_by_new_secrets(settings: PipelineSettings, stop: threading.Event, log: logging.Logger) -> Iterator[None]:
    """Set ``stop`` once a secret of Kafka has changed that only a new client can use. The block is the role's work.

    Raises:
        SecretChanged: at the end of the block, if such a secret ended it; names the settings.
    """
    names = fixed_secrets(settings)
    if not names:
        yield
        return
    files, over, told = SecretFiles(settings, names), threading.Event(), list[str]()

    def watch() -> None:
        while not (over.wait(LOOK_EVERY_S) or stop.is_set()):
            changed = ", ".join(files.changed())
            if not changed:
                continue
            try:
                ssl_context(settings)
            except SettingsError as error:
                log.warning("%s changed, and cannot be used: %s; what was there before stays in use", changed, error)
                files.accept()
                continue
            told.append(changed)
            stop.set()

    watcher = background(watch, "kafka-secrets", lambda: over.is_set() or stop.is_set())
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    if told:
        raise SecretChanged(
            f"{told[0]} changed, and Kafka clients read it only when they are made: this role ends, to be started again"
        )
