"""Breadth-first search through every state that a model can reach: for broken invariants, and for states without an end.

A model says where it begins, what may happen next, what must hold, and which states are ends. States are small hashable values.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

State = TypeVar("State", bound=Hashable)


class Model(Protocol[State]):
    """What can be explored."""

    def begin(self) -> State:
        """Return the first state."""

    def steps(self, state: State) -> Iterable[tuple[str, State]]:
        """Return what may happen, each with the state after it."""

    def broken(self, state: State) -> str:
        """Return which invariant does not hold and why; "" if all hold."""

    def is_end(self, state: State) -> bool:
        """Say whether everything that was accepted has ended."""


@dataclass(slots=True)
class Found(Generic[State]):
    """What a search has found."""

    states: int = 0
    transitions: int = 0
    ends: int = 0
    depth: int = 0
    seconds: float = 0.0
    is_complete: bool = True
    """False: the search was stopped by its limit."""
    broken: str = ""
    """The first broken invariant; the shortest way to it is `path`."""
    path: list[str] = field(default_factory=list)
    at: State | None = None
    actions: dict[str, int] = field(default_factory=dict)
    """Transitions by the first word of their name."""


class _Graph(Generic[State]):
    """The states found so far, numbered in order of discovery, with how each was first reached."""

    def __init__(self, first: State) -> None:
        self.numbers: dict[State, int] = {first: 0}
        self.states = [first]
        self.parents, self.depths = array("q", [-1]), array("q", [0])
        self.names: list[str] = [""]
        self.sources, self.targets = array("q"), array("q")

    def add(self, state: State, parent: int, name: str) -> int:
        number = self.numbers.get(state)
        if number is None:
            number = self.numbers[state] = len(self.states)
            self.states.append(state)
            self.parents.append(parent)
            self.depths.append(self.depths[parent] + 1)
            self.names.append(name)
        self.sources.append(parent)
        self.targets.append(number)
        return number

    def path(self, number: int) -> list[str]:
        names = []
        while number > 0:
            names.append(self.names[number])
            number = self.parents[number]
        return names[::-1]


def explore(
    model: Model[State], *, states_max: int | None = None, on_progress: Callable[[int], None] = lambda _: None
) -> Found[State]:
    """Return what a search from the first state finds. It ends at the first broken invariant.

    If every state was visited and all invariants hold, it also looks for states from which no end can be reached: those are
    commands that nobody would ever end. ``states_max``: give up after this many states; liveness is not judged then.
    """
    began_s, found = time.monotonic(), Found[State]()
    graph = _Graph(model.begin())
    ends = array("q")
    at = 0
    while at < len(graph.states):
        state = graph.states[at]
        why = model.broken(state)
        if why:
            _say(found, graph, at, why)
            break
        if model.is_end(state):
            ends.append(at)
        for name, after in model.steps(state):
            graph.add(after, at, name)
            word = name.split(" ", 1)[0]
            found.actions[word] = found.actions.get(word, 0) + 1
        at += 1
        if at % 10_000 == 0:
            on_progress(at)
        if states_max is not None and at >= states_max:
            found.is_complete = at == len(graph.states)
            break
    found.states, found.transitions, found.ends, found.depth = at, len(graph.sources), len(ends), max(graph.depths)
    if not found.broken and found.is_complete:
        stuck = _without_end(graph, ends)
        if stuck is not None:
            _say(found, graph, stuck, "no end can be reached from here")
    found.seconds = time.monotonic() - began_s
    return found


def _say(found: Found[State], graph: _Graph[State], number: int, why: str) -> None:
    found.broken, found.path, found.at = why, graph.path(number), graph.states[number]


def _without_end(graph: _Graph[State], ends: Iterable[int]) -> int | None:
    """Return the first state from which no end can be reached: search backwards from all ends."""
    before: list[list[int]] = [[] for _ in graph.states]
    for source, target in zip(graph.sources, graph.targets, strict=True):
        before[target].append(source)
    good = bytearray(len(graph.states))
    todo = list(ends)
    for number in todo:
        good[number] = 1
    while todo:
        for number in before[todo.pop()]:
            if not good[number]:
                good[number] = 1
                todo.append(number)
    stuck = good.find(0)
    return None if stuck < 0 else stuck
