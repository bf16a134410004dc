"""Acknowledges windows in the order of their offsets, whatever order they are done in.

Faust lets its commit pass a record that was never acknowledged if it is the first behind the committed offset and the next one is
acknowledged (``Consumer._new_offset`` in 0.15.3 looks for a gap of more than one), or if offsets were missing before it
(``Consumer._add_gap``). After a rebalance nobody would read that record again.
"""

from collections import defaultdict
from typing import Protocol


class Message(Protocol):
    """A record's place."""

    @property
    def topic(self) -> str:
        """Its topic, with the prefix."""

    @property
    def partition(self) -> int:
        """Its partition."""

    @property
    def offset(self) -> int:
        """Its offset."""


class Event(Protocol):
    """A record that Faust gave to the agent."""

    @property
    def message(self) -> Message:
        """The record."""

    def ack(self) -> bool:
        """Let Faust commit it."""


class Acknowledgements:
    """The windows that were begun and are not acknowledged yet, of each partition."""

    def __init__(self) -> None:
        self._open: defaultdict[tuple[str, int], dict[int, Event]] = defaultdict(dict)  # in the order of offsets
        self._done: defaultdict[tuple[str, int], set[int]] = defaultdict(set)

    def begin(self, event: Event) -> None:
        """Take a window in hand. One that is read again takes its own place."""
        place, offset = _place(event), event.message.offset
        ours = self._open[place]
        goes_back = bool(ours) and offset < next(reversed(ours))
        ours[offset] = event
        if goes_back:
            self._open[place] = dict(sorted(ours.items()))

    def is_open(self, event: Event) -> bool:
        """Say whether a window is still ours: its partition was not taken away since it was begun."""
        return self._open[_place(event)].get(event.message.offset) is event

    def done(self, event: Event) -> None:
        """Acknowledge a window once all before it are done. One that is not ours any more is left to who has it now."""
        if not self.is_open(event):
            return
        place = _place(event)
        ours, done = self._open[place], self._done[place]
        done.add(event.message.offset)
        while ours and (first := next(iter(ours))) in done:
            done.remove(first)
            ours.pop(first).ack()

    def clear(self) -> None:
        """Forget all: what is not acknowledged is read again."""
        self._open.clear()
        self._done.clear()


def _place(event: Event) -> tuple[str, int]:
    return event.message.topic, event.message.partition
