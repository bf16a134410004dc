"""What a fuzzed function is: the inputs to begin with, how to call it, and what it may answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.fuzz.mutate import mutated


class Declined(Exception):
    """The function refused the input in the way that it declares."""


class Nonsense(AssertionError):
    """The function accepted what it should not have, or answered what its readers refuse."""


@dataclass(frozen=True, slots=True)
class Target:
    """A function under test."""

    name: str
    seeds: list[bytes] = field(repr=False)
    """Valid inputs, which are mutated."""
    call: Callable[[bytes], None] = field(repr=False)
    """Raises `Declined` for an input that was refused; anything else that it raises is a finding."""
    change: Callable[[random.Random, list[bytes]], bytes] = field(default=mutated, repr=False)
    """Makes an input of the valid ones."""


def expect(holds: bool, words: str) -> None:
    """Find fault with what was accepted.

    Raises:
        Nonsense: it does not hold.
    """
    if not holds:
        raise Nonsense(words)
