"""A pipeline together with what must hold on it, as the search explores it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.model.invariants import broken
from tests.model.pipeline import Pipeline
from tests.model.state import State


@dataclass(frozen=True, slots=True)
class Verified:
    """One scenario for `explore`."""

    pipeline: Pipeline
    _judged: dict[tuple[object, ...], str] = field(default_factory=dict)

    def begin(self) -> State:
        """Return the first state."""
        return self.pipeline.begin()

    def steps(self, state: State) -> Iterable[tuple[str, State]]:
        """Return what may happen next."""
        return self.pipeline.steps(state)

    def broken(self, state: State) -> str:
        """Return which invariant does not hold."""
        key = (state.now_ms, state.finals, state.commands, state.ends, state.memory, state.engine, state.seen)
        known = self._judged.get(key)
        if known is None:
            known = self._judged[key] = broken(self.pipeline, state)
        return known

    def is_end(self, state: State) -> bool:
        """Say whether all has ended."""
        return self.pipeline.is_end(state)
