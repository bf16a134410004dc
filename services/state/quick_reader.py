"""Reads the view without the client library, for commands that look once: importing it takes longer than all the rest.

It speaks RESP 2, over TCP, to an address like ``redis://:password@host:6379/0``. Whatever else Redis may ask for (TLS, a password
from a file, options in the address) is left to the library.
"""

import io
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from surescale.contracts.errors import reason_of
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.deadlines import DeadlineReader
from surescale.services.state.redis_words import NOT_REDIS, ODD_BYTES
from surescale.services.state.text_reader import TextReader, as_text, away

TIMEOUT_S = 5.0
LOOK_WITHIN_S = 60.0
"""For all answers of a look together, however slowly they come."""
ANSWER_BYTES_MAX = 256 * 2**20
"""Of commands that are sent together."""
_PORT = 6379
_LINE_MAX = 64 * 1024  # of an answer's first line: longer ones are none of Redis
_ITEM_BYTES = 64
"""What an item of a list takes here, without its text."""
_DEPTH_MAX = 3
_NUMBER = re.compile(rb"-?[0-9]{1,18}")
_FORM = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What an answer of another form than the command's leads to."""


class RedisRefused(Exception):
    """Redis is away, refuses a command, or is something else."""


@contextmanager
def opened_to_look(settings: PipelineSettings, *, is_repeated: bool = False) -> Iterator[TextReader]:
    """Yield what reads the view, for a command that looks once; who looks repeatedly gets the library, which connects again.

    Raises:
        SettingsError: the address is not one of Redis.
        ConnectionError: Redis is away; the message is one line for people.
    """
    greeting = None if is_repeated else _greeting(settings)
    if greeting is None:
        from surescale.services.state.connection import opened

        with opened(settings) as client:
            yield as_text(client)
        return
    place = urlsplit(settings.redis_url)
    try:
        with QuickReader(place.hostname or "", place.port or _PORT, greeting) as reader:
            yield reader
    except RedisRefused as refused:
        raise away(settings, refused) from None


def _greeting(settings: PipelineSettings) -> list[tuple[str, ...]] | None:
    """Return what a connection begins with: password and database. None: the address needs the library, or is none."""
    try:
        place = urlsplit(settings.redis_url)
        is_plain = place.scheme == "redis" and bool(place.hostname) and (place.port is None or place.port > 0)
    except ValueError:  # brackets without an end, a port that is none
        return None
    database = place.path.strip("/")
    if not is_plain or place.query or place.fragment or settings.redis_password_file or not (database or "0").isdecimal():
        return None
    if place.username and not place.password:
        return None
    words = [unquote(word) for word in (place.username, place.password) if word]
    return [*([("AUTH", *words)] if words else []), *([("SELECT", database)] if database else [])]


def _text(answer: Any) -> str | None:
    if not isinstance(answer, str | None):
        raise TypeError
    return answer


def _whole(answer: Any) -> int | None:
    if not isinstance(answer, int | None):
        raise TypeError
    return answer


def _texts(answer: Any) -> list[Any]:
    if not isinstance(answer, list):
        raise TypeError
    return [_text(each) for each in answer]


def _by_field(answer: Any) -> dict[str, str]:
    found = _texts(answer)
    return dict(zip(found[::2], found[1::2], strict=True))


def _scored(answer: Any) -> list[tuple[str, float]]:
    found = _texts(answer)
    return [(member, float(score)) for member, score in zip(found[::2], found[1::2], strict=True)]


def _found(answer: Any) -> tuple[str, list[str]]:
    cursor, names = answer
    return str(_text(cursor)), _texts(names)


class QuickReader:
    """One connection. Every method raises RedisRefused when Redis is away."""

    def __init__(self, host: str, port: int, greeting: Sequence[tuple[str, ...]] = ()) -> None:
        """Connect, and say the words of the greeting."""
        try:
            self._socket = socket.create_connection((host, port), TIMEOUT_S)
        except OSError as error:
            raise RedisRefused(reason_of(error)) from None
        self._read = DeadlineReader(self._socket, socket.SocketIO(self._socket, "r"), 0.0, TIMEOUT_S)
        self._answers, self._left_s, self._left_bytes = io.BufferedReader(self._read), LOOK_WITHIN_S, 0
        try:
            self.ask([(words, _text) for words in greeting])
        except RedisRefused:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._answers.close()
        self._socket.close()

    def ask(self, commands: Sequence[tuple[tuple[str, ...], Callable[[Any], Any]]]) -> list[Any]:
        """Send commands together, each with what makes its answer of Redis', and return the answers."""
        began_s = time.monotonic()
        self._read.deadline_s, self._left_bytes = began_s + self._left_s, ANSWER_BYTES_MAX
        try:
            self._socket.sendall(b"".join(_written(words) for words, _ in commands))
            answers = [self._answer() for _ in commands]
            for answer in answers:
                if isinstance(answer, RedisRefused):
                    raise answer
            return [made_of(answer) for (_, made_of), answer in zip(commands, answers, strict=True)]
        except OSError as error:
            raise RedisRefused(reason_of(error)) from None
        except _FORM:
            raise RedisRefused(NOT_REDIS) from None
        finally:
            self._left_s -= time.monotonic() - began_s

    def _answer(self, depth: int = 0) -> Any:
        line = self._answers.readline(_LINE_MAX)
        if not line:
            raise RedisRefused("it closed the connection")
        self._count(len(line) + _ITEM_BYTES)
        kind, rest = line[:1], line[1:].removesuffix(b"\r\n")
        match kind:
            case b"+":
                return rest.decode()
            case b"-":
                return RedisRefused(" ".join(rest.decode(errors=ODD_BYTES).split()))
            case b":":
                return _number(rest)
            case b"$":
                return None if (length := _number(rest)) < 0 else self._text(length)
            case b"*" if depth < _DEPTH_MAX:
                return None if (count := _number(rest)) < 0 else [self._answer(depth + 1) for _ in range(count)]
        raise ValueError(kind)

    def _text(self, length: int) -> str:
        self._count(length)
        body = self._answers.read(length + 2)
        if len(body) < length + 2:
            raise RedisRefused("it closed the connection")
        return body[:-2].decode(errors=ODD_BYTES)

    def _count(self, read: int) -> None:
        self._left_bytes -= read
        if self._left_bytes < 0:
            raise RedisRefused(f"its answer has more than {ANSWER_BYTES_MAX >> 20} MiB")

    def _one(self, *words: str, made_of: Callable[[Any], Any]) -> Any:
        return self.ask([(words, made_of)])[0]

    def get(self, name: str) -> str | None:
        """Return a text."""
        found: str | None = self._one("GET", name, made_of=_text)
        return found

    def hget(self, name: str, key: str) -> str | None:
        """Return one field of a hash."""
        found: str | None = self._one("HGET", name, key, made_of=_text)
        return found

    def hgetall(self, name: str) -> dict[str, str]:
        """Return a whole hash."""
        found: dict[str, str] = self._one("HGETALL", name, made_of=_by_field)
        return found

    def hmget(self, name: str, keys: Iterable[str]) -> list[str | None]:
        """Return several fields of a hash."""
        found: list[str | None] = self._one("HMGET", name, *keys, made_of=_texts)
        return found

    def hvals(self, name: str) -> list[str]:
        """Return the values of a hash."""
        found: list[str] = self._one("HVALS", name, made_of=_texts)
        return found

    def scan_iter(self, match: str, count: int) -> Iterator[str]:
        """Yield the keys that match, some perhaps twice."""
        cursor = "0"
        while True:
            cursor, found = self._one("SCAN", cursor, "MATCH", match, "COUNT", str(count), made_of=_found)
            yield from found
            if cursor == "0":
                return

    def sismember(self, name: str, value: str) -> int:
        """Return 1 if a set has a member, else 0."""
        found: int = self._one("SISMEMBER", name, value, made_of=_whole)
        return found

    def smembers(self, name: str) -> set[str]:
        """Return the members of a set."""
        found: set[str] = self._one("SMEMBERS", name, made_of=lambda answer: set(_texts(answer)))
        return found

    def zrange(self, name: str, start: int, end: int) -> list[str]:
        """Return members of a sorted set, lowest score first."""
        found: list[str] = self._one("ZRANGE", name, str(start), str(end), made_of=_texts)
        return found

    def zrevrange(self, name: str, start: int, end: int) -> list[str]:
        """Return members of a sorted set, highest score first."""
        found: list[str] = self._one("ZREVRANGE", name, str(start), str(end), made_of=_texts)
        return found

    def zrevrank(self, name: str, value: str) -> int | None:
        """Return the place of a member of a sorted set, 0 for the highest score; None if it is not in it."""
        found: int | None = self._one("ZREVRANK", name, value, made_of=_whole)
        return found

    def type(self, name: str) -> str:
        """Return the kind of a key."""
        found: str = self._one("TYPE", name, made_of=_text)
        return found

    def pipeline(self, transaction: bool) -> "QuickPipeline":
        """Return a pipeline; what only reads needs no transaction."""
        return QuickPipeline(self)


class QuickPipeline:
    """Several commands that are sent together."""

    def __init__(self, reader: QuickReader) -> None:
        self._reader, self._commands = reader, list[tuple[tuple[str, ...], Callable[[Any], Any]]]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._commands.clear()

    def _later(self, *words: str, scored: bool = False, made_of: Callable[[Any], Any] = _texts) -> None:
        self._commands.append(((*words, "WITHSCORES") if scored else words, _scored if scored else made_of))

    def hget(self, name: str, key: str) -> None:
        """Ask for one field of a hash."""
        self._later("HGET", name, key, made_of=_text)

    def hmget(self, name: str, keys: Iterable[str]) -> None:
        """Ask for several fields of a hash."""
        self._later("HMGET", name, *keys)

    def hvals(self, name: str) -> None:
        """Ask for the values of a hash."""
        self._later("HVALS", name)

    def zrange(self, name: str, start: int, end: int, *, withscores: bool = False) -> None:
        """Ask for members of a sorted set, lowest score first."""
        self._later("ZRANGE", name, str(start), str(end), scored=withscores)

    def zrevrange(self, name: str, start: int, end: int, withscores: bool = False) -> None:
        """Ask for members of a sorted set, highest score first."""
        self._later("ZREVRANGE", name, str(start), str(end), scored=withscores)

    def zrangebyscore(self, name: str, min: str, max: str, start: int, num: int, withscores: bool = False) -> None:
        """Ask for members of a sorted set by their scores."""
        words = ("ZRANGEBYSCORE", name, min, max, *(("WITHSCORES",) if withscores else ()), "LIMIT", str(start), str(num))
        self._commands.append((words, _scored if withscores else _texts))

    def execute(self) -> list[Any]:
        """Send the commands, and return what each was answered."""
        commands, self._commands = self._commands, []
        return self._reader.ask(commands) if commands else []


def _number(text: bytes) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _written(words: Sequence[str]) -> bytes:
    """Return a command as Redis reads it.

    >>> _written(["GET", "ä"])
    b'*2\\r\\n$3\\r\\nGET\\r\\n$2\\r\\n\\xc3\\xa4\\r\\n'
    """
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
