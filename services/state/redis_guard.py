"""Keeps clients of Redis from whatever answers in its place: an answer has its kind, and limits of size and time.

The library reads any answer for as long as it lasts, and lets errors of its own out where one has another form.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import redis

from surescale.runtime.printable import one_line
from surescale.services.state.redis_words import NOT_REDIS, remedy

ANSWER_WITHIN_S = 15.0
"""Of what was asked together. The library asks four times, and no role may wait longer than two minutes for one call."""
ANSWER_BYTES_MAX = 512 * 2**20

_NUMBER, _NONE = (int, float), type(None)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "GET": (str, _NONE),
    "HGET": (str, _NONE),
    "HGETALL": (dict,),
    "HKEYS": (list,),
    "HLEN": (int,),
    "HMGET": (list,),
    "HVALS": (list,),
    "INFO": (dict,),
    "PEXPIRE": (bool,),
    "PTTL": (int,),
    "SCAN": (tuple, list),
    "SET": (bool, _NONE),
    "SISMEMBER": (int,),
    "SMEMBERS": (set,),
    "TIME": (tuple,),
    "TYPE": (str,),
    "ZCARD": (int,),
    "ZRANGE": (list,),
    "ZRANGEBYSCORE": (list,),
    "ZREVRANGE": (list,),
    "ZREVRANK": (int, _NONE),
    "ZSCORE": (float, _NONE),
}
"""Of the commands that the view takes, as the library makes them of the answers."""
_IN_LISTS = (str, _NONE, tuple, list, *_NUMBER)


def guarded(client: redis.Redis) -> redis.Redis:
    """Return the client, with guarded connections and answers.

    Raises:
        TypeError: its address names a kind of connection, as text.
    """
    pool = client.connection_pool
    kind = pool.connection_class
    if not isinstance(kind, type):
        raise TypeError(kind)
    pool.connection_class = type(f"Guarded{kind.__name__}", (_Guarded, kind), {})
    for command, kinds in _KINDS.items():
        made = client.response_callbacks.get(command)  # type: ignore[no-untyped-call]
        client.set_response_callback(command, _checked(made, kinds))
    return client


def in_words(error: Exception) -> str:
    """Return what is wrong with Redis and what to do, in one line."""
    said = one_line(str(error))
    return said if "SURESCALE_" in said else f"{said}; {what_to_do(error)}"


def what_to_do(error: Exception) -> str:
    """Return what to do about an error of Redis."""
    return remedy(str(error), str(getattr(error, "status_code", None) or ""))


def _checked(callback: Callable[..., Any] | None, kinds: tuple[type, ...]) -> Callable[..., Any]:
    def check(answer: Any, **options: Any) -> Any:
        try:
            found = answer if callback is None else callback(answer, **options)
        except redis.RedisError:
            raise
        except Exception:
            raise redis.InvalidResponse(NOT_REDIS) from None
        if isinstance(found, Exception):
            return found
        if not isinstance(found, kinds) or not all(isinstance(each, _IN_LISTS) for each in _parts(found)):
            raise redis.InvalidResponse(NOT_REDIS)
        return found

    return check


def _parts(found: Any) -> Any:
    if isinstance(found, dict):
        return () if any(isinstance(each, dict) for each in found.values()) else found.values()  # INFO has parts of its own
    return found if isinstance(found, list | set) else ()


class _TimedSocket:
    """A socket from which an answer is read until a point in time of ``time.monotonic``, and up to a number of bytes."""

    def __init__(self, sock: Any) -> None:
        self._sock, self.ends_s, self.bytes_left = sock, math.inf, ANSWER_BYTES_MAX

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def sendall(self, *args: Any) -> None:
        """Ask; the answers to all that is asked together have one time and one number of bytes, however many they are."""
        self._sock.sendall(*args)
        self.ends_s, self.bytes_left = time.monotonic() + ANSWER_WITHIN_S, ANSWER_BYTES_MAX

    def recv(self, *args: Any) -> bytes:
        """Return what has come."""
        read: bytes = self._sock.recv(*args)
        self._count(len(read))
        return read

    def recv_into(self, *args: Any) -> int:
        """Return how much has come."""
        read: int = self._sock.recv_into(*args)
        self._count(read)
        return read

    def _count(self, read: int) -> None:
        self.bytes_left -= read
        if self.bytes_left < 0:
            raise redis.InvalidResponse(f"an answer has more than {ANSWER_BYTES_MAX >> 20} MiB")
        if time.monotonic() > self.ends_s:
            raise TimeoutError(f"an answer has no end within {ANSWER_WITHIN_S:g} s")


_FORM = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""What an answer of another form than the library expects leads to there."""


class _Guarded:
    """The part of a connection that reads; the library's own is behind it."""

    def _connect(self) -> Any:
        return _TimedSocket(super()._connect())  # type: ignore[misc]

    def on_connect_check_health(self, *args: Any, **options: Any) -> Any:
        """Greet Redis; raises as ``read_response``."""
        return self._understood(super().on_connect_check_health, *args, **options)  # type: ignore[misc]

    def read_response(self, *args: Any, **options: Any) -> Any:
        """Return an answer.

        Raises:
            redis.RedisError: there is none, it is an error, or it is none of Redis.
        """
        return self._understood(super().read_response, *args, **options)  # type: ignore[misc]

    def _understood(self, read: Callable[..., Any], *args: Any, **options: Any) -> Any:
        try:
            return read(*args, **options)
        except redis.RedisError:
            raise
        except _FORM:
            self.disconnect()  # type: ignore[attr-defined]
            raise redis.InvalidResponse(NOT_REDIS) from None
