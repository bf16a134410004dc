"""A room as numpy columns, for the algorithms that look at every host for every subtask."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .model import TOLERANCE
from .order import twelve_digits
from .room import Room

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Columns:
    """Free cores, GB and slots of the hosts in `order`, kept in step with a room through `take`."""

    def __init__(self, room: Room, order: Sequence[int]) -> None:
        self.room = room
        self.order = tuple(order)
        self.cpu: Floats = np.array([room.cpu[host] for host in order], dtype=np.float64)
        self.memory: Floats = np.array([room.memory[host] for host in order], dtype=np.float64)
        self.slots = np.array([room.slots[host] for host in order], dtype=np.int64)

    def fitting(self, task: int) -> Flags:
        """Return which hosts fit one more subtask of `task`, by the rule of `Room.fits`."""
        cpu, memory = self.room.demand[task]
        flags: Flags = (self.slots > 0) & (self.cpu + TOLERANCE >= cpu) & (self.memory + TOLERANCE >= memory)
        return flags

    def take(self, at: int, task: int) -> int:
        """Put one subtask of `task` on the host at position `at` of the order; returns that host."""
        host = self.order[at]
        self.room.take(host, task)
        self.cpu[at], self.memory[at] = self.room.cpu[host], self.room.memory[host]
        self.slots[at] = self.room.slots[host]
        return host


def first_smallest(values: Floats) -> int | None:
    """Return the position of the smallest value, the first of those that tie at twelve digits; None if all are infinite.

    Only candidates within 1e-11 of the smallest can round to the same twelve digits, so only they are rounded.
    """
    if not len(values):
        return None
    smallest = float(values[np.argmin(values)])
    if smallest == np.inf:
        return None
    key = twelve_digits(smallest)
    slack = 1e-11 * abs(smallest)
    for at in np.flatnonzero(values <= smallest + slack).tolist():
        if twelve_digits(float(values[at])) == key:
            return int(at)
    raise AssertionError("the smallest value rounds to its own key")
