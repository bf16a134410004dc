"""What once broke stays fixed, and a short seeded run finds nothing new; ``make fuzz`` runs for as long as you like."""

from __future__ import annotations

import random
import time

import pytest

from tests.fuzz.campaign import CPU_S_MAX, Count, all_targets, fuzzed, kept, tried
from tests.fuzz.mutate import mutated
from tests.fuzz.target import Declined, Target, expect

TARGETS = all_targets()
INPUTS = 150


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", TARGETS)
def test_mutated_inputs_are_used_or_declined(name: str) -> None:
    """Neither an exception that is not declared, nor nonsense that is accepted, nor an input that takes long."""
    count = fuzzed(TARGETS[name], seed=20_261_122, inputs=INPUTS)
    assert count.findings == {}
    assert count.inputs == INPUTS
    assert count.accepted > 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "raw"), list(kept()), ids=lambda value: value if isinstance(value, str) else "")
def test_what_once_broke_stays_mended(name: str, raw: bytes) -> None:
    """Each input of the corpus ends as declared."""
    count = Count()
    tried(TARGETS[name], raw, count)
    assert count.findings == {}


def test_the_same_seed_gives_the_same_inputs() -> None:
    """A finding can be found again."""
    first, second = (mutated(random.Random(5), [b'{"a":[1,2,{"b":"c"}]}']) for _ in range(2))
    assert first == second


def test_undeclared_errors_nonsense_and_slow_inputs_are_findings() -> None:
    """What a target declines is none."""

    def call(raw: bytes) -> None:
        if raw == b"declined":
            raise Declined("as declared")
        expect(raw != b"nonsense", "nonsense was accepted")
        if raw == b"slow":
            began_s = time.thread_time()
            while time.thread_time() - began_s < CPU_S_MAX:
                pass
        if raw == b"broken":
            raise KeyError("x")

    count = Count()
    for raw in (b"good", b"declined", b"nonsense", b"slow", b"broken"):
        tried(Target("made up", [b"good"], call), raw, count)
    assert (count.inputs, count.accepted, count.declined) == (5, 2, 1)
    assert sorted(word.split(":")[0] for word in count.findings) == ["KeyError", "Nonsense", "Slow"]
