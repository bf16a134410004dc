"""What reads the view: the commands of Redis that it takes, typed as they answer in text. Imports no client library."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from surescale.contracts.addresses import without_password
from surescale.runtime.printable import one_line
from surescale.services.state.redis_words import remedy

if TYPE_CHECKING:
    import redis

    from surescale.contracts.settings import PipelineSettings


class TextPipeline(Protocol):
    """Several commands that are sent together; ``execute`` returns their answers in order."""

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, *error: object) -> None:
        """Forget what was not sent."""

    def hget(self, name: str, key: str) -> object:
        """Ask for one field of a hash."""

    def hmget(self, name: str, keys: Iterable[str]) -> object:
        """Ask for several fields of a hash."""

    def hvals(self, name: str) -> object:
        """Ask for the values of a hash."""

    def zrange(self, name: str, start: int, end: int, *, withscores: bool = False) -> object:
        """Ask for members of a sorted set, lowest score first."""

    def zrevrange(self, name: str, start: int, end: int, withscores: bool = False) -> object:
        """Ask for members of a sorted set, highest score first."""

    def zrangebyscore(self, name: str, min: str, max: str, start: int, num: int, withscores: bool = False) -> object:
        """Ask for members of a sorted set by their scores."""

    def execute(self) -> list[Any]:
        """Send the commands, and return what each was answered."""


class TextReader(Protocol):
    """The commands that read the view, with the types they have when Redis' answers are decoded to text.

    redis-py's own types allow for bytes too, whatever ``decode_responses`` says.
    """

    def get(self, name: str) -> str | None:
        """Return a text."""

    def hget(self, name: str, key: str) -> str | None:
        """Return one field of a hash."""

    def hgetall(self, name: str) -> dict[str, str]:
        """Return a whole hash."""

    def hmget(self, name: str, keys: Iterable[str]) -> list[str | None]:
        """Return several fields of a hash."""

    def hvals(self, name: str) -> list[str]:
        """Return the values of a hash."""

    def scan_iter(self, match: str, count: int) -> Iterator[str]:
        """Yield the keys that match, some perhaps twice."""

    def sismember(self, name: str, value: str) -> int:
        """Return 1 if a set has a member, else 0."""

    def smembers(self, name: str) -> set[str]:
        """Return the members of a set."""

    def zrange(self, name: str, start: int, end: int) -> list[str]:
        """Return members of a sorted set, lowest score first."""

    def zrevrange(self, name: str, start: int, end: int) -> list[str]:
        """Return members of a sorted set, highest score first."""

    def zrevrank(self, name: str, value: str) -> int | None:
        """Return the place of a member of a sorted set, 0 for the highest score; None if it is not in it."""

    def type(self, name: str) -> str:
        """Return the kind of a key."""

    def pipeline(self, transaction: bool) -> TextPipeline:
        """Return a pipeline."""


def as_text(client: "redis.Redis | TextReader") -> TextReader:
    """Return the same client, typed as one that answers text."""
    return cast(TextReader, client)


def away(settings: "PipelineSettings", reason: object) -> ConnectionError:
    """Return the error of a command that Redis does not answer: one line for people."""
    shown = without_password(settings.redis_url)
    said = one_line(str(reason))
    what_to_do = remedy(said, str(getattr(reason, "status_code", None) or ""))
    return ConnectionError(f"Redis at {shown} does not answer ({said}); {what_to_do}")
