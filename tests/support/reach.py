"""Keeps property tests from passing without checking anything.

A property of the form "if A then B" holds when no generated case has A. Mark the branch with ``reached("A")`` and the test with
``@reaches("A")``: the test then runs until some case had A, and fails if none ever has.
"""

import functools
from collections.abc import Callable

import hypothesis

RUNS_MAX = 20  # of the whole test, each with its own examples

_reached: set[str] = set()


def reached(name: str) -> None:
    """Note that a case got to this branch."""
    _reached.add(name)


def reaches(*names: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Run a property test until each named branch was reached; goes above ``@given``."""

    def decorate(test: Callable[[], None]) -> Callable[[], None]:
        @functools.wraps(test)
        def run() -> None:
            _reached.clear()
            for number in range(RUNS_MAX):
                if number:  # under CI hypothesis draws the same cases at every run of a test
                    hypothesis.seed(number)(test)
                test()
                if _reached.issuperset(names):
                    return
            assert not set(names) - _reached, "no generated case got to these branches"

        return run

    return decorate
