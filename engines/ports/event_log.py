"""What happened in an engine that is looked at: its newest events, each once, with ids that follow from what happened.

So a monitor that restarts gives the same event the same id, where the engine remembers what happened.
"""

import hashlib
import threading
import zlib
from collections import deque
from collections.abc import Iterable

from surescale.contracts.messages import EngineEvent, EventKind

EVENTS_MAX = 10_000
DETAIL_LENGTH_MAX, EVENT_ID_LENGTH_MAX = 300, 256
_SEQUENCES_PER_MS = 1_000


class EventLog:
    """The newest events of one cluster, each once, in the order in which they were found. Thread-safe, bounded."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._events: deque[EngineEvent] = deque(maxlen=EVENTS_MAX)
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def add(
        self, kind: EventKind, event_id: str, at_ms: int, *, job: str | None = None, host: str | None = None, detail: str = ""
    ) -> None:
        """Note an event, unless it is known. An id made of long names is cut: its end is then a hash of the whole."""
        if len(event_id) > EVENT_ID_LENGTH_MAX:
            whole = hashlib.sha256(event_id.encode(errors="backslashreplace")).hexdigest()[:16]
            event_id = f"{event_id[: EVENT_ID_LENGTH_MAX - 17]}~{whole}"
        event = EngineEvent(
            cluster=self._cluster,
            sequence=_sequence(at_ms, event_id),
            event_id=event_id,
            at_ms=at_ms,
            kind=kind,
            job=job,
            host=host,
            detail=detail[:DETAIL_LENGTH_MAX],
        )
        with self._lock:
            if event_id in self._known:
                return
            if len(self._events) == EVENTS_MAX:
                self._known.discard(self._events[0].event_id)
            self._known.add(event_id)
            self._events.append(event)

    def after(self, event_id: str) -> list[EngineEvent]:
        """Return the events after one; all, if it is not known."""
        with self._lock:
            events = list(self._events)
        found = next((at for at in range(len(events), 0, -1) if events[at - 1].event_id == event_id), 0)
        return events[found:]


def changes(before: Iterable[tuple[str, int]], now: Iterable[tuple[str, int]]) -> str:
    """Return in words how parallelisms differ: ``parse 1 -> 2, sink 2 -> 1``."""
    old = dict(before)
    return ", ".join(f"{name} {old.get(name, '?')} -> {count}" for name, count in now if old.get(name) != count)


def _sequence(at_ms: int, event_id: str) -> int:
    """Return a number that grows with time, and differs for most events of one millisecond."""
    return at_ms * _SEQUENCES_PER_MS + zlib.crc32(event_id.encode()) % _SEQUENCES_PER_MS
