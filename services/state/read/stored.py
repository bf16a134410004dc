"""Decodes the documents that lie in Redis, and notes those that cannot be read instead of failing the whole answer."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from surescale.contracts.errors import UNREADABLE, SurescaleError
from surescale.contracts.wire import decoder
from surescale.services.state.keys import unpack
from surescale.services.state.record_documents import Appended

D = TypeVar("D", bound=msgspec.Struct)
T = TypeVar("T")


class UnreadableView(SurescaleError):
    """The view holds a document that this version cannot read: another version wrote it."""

    def __init__(self, problem: Exception) -> None:
        super().__init__(f"another version wrote the view ({problem}); rebuild it with `surescale job list --rebuild`")


class Documents:
    """Decodes documents for one answer and keeps the names of those that it could not read."""

    def __init__(self) -> None:
        self._unreadable: dict[str, None] = {}

    @property
    def unreadable(self) -> tuple[str, ...] | UnsetType:
        """Return the names, in the order in which they were met; unset if everything was readable."""
        return tuple(self._unreadable) or UNSET

    def one(self, name: str, body: str | None, kind: type[D]) -> D | None:
        """Return a document, None if there is none or it cannot be read."""
        return self._read(name, body, kind, decoded)

    def part(self, name: str, body: str | None, kind: type[T]) -> T | None:
        """Return a document's record or some of its fields, None if there is none or it cannot be read."""
        return self._read(name, body, kind, record_of)

    def _read(self, name: str, body: str | None, kind: type[T], read: Callable[[str, type[T]], T]) -> T | None:
        if body is None:
            return None
        try:
            return read(body, kind)
        except UnreadableView:
            self._unreadable[name] = None
            return None

    def each(self, name: str, bodies: Iterable[str | None], kind: type[D]) -> tuple[D, ...]:
        """Return the documents that can be read."""
        return tuple(found for body in bodies if (found := self.one(name, body, kind)) is not None)


def record_of(body: str, kind: type[T]) -> T:
    """Return a document's record, or some of its fields.

    Raises:
        UnreadableView: it does not parse or validate.
    """
    try:
        return decoder(kind).decode(decoded(body, Appended[msgspec.Raw]).record)
    except UNREADABLE as error:
        raise UnreadableView(error) from None


def decoded(body: str, kind: type[D]) -> D:
    """Return a document of the view.

    Raises:
        UnreadableView: it does not parse or validate.
    """
    try:
        return decoder(kind).decode(unpack(body))
    except UNREADABLE as error:
        raise UnreadableView(error) from None
