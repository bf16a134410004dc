"""Runs targets on mutated inputs, counts what became of them, and keeps what broke."""

from __future__ import annotations

import hashlib
import random
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.decoders import decoders
from tests.fuzz.looks import looks
from tests.fuzz.outsiders import outsiders
from tests.fuzz.steps import steps
from tests.fuzz.stores import stores
from tests.fuzz.target import Declined, Target

CORPUS = Path(__file__).parent / "corpus"
CPU_S_MAX = 2.0
"""A single input that takes more processor time than this is a finding; the usual one takes a thousandth of it."""
MEMORY_BYTES_MAX = 4 * 2**30
"""Address space of a process of the campaign: an input that takes more is a `MemoryError`, and that is a finding."""
FINDINGS_MAX = 5
"""Kept of one kind and target."""


@dataclass(slots=True)
class Count:
    """What became of the inputs of one target."""

    inputs: int = 0
    accepted: int = 0
    declined: int = 0
    slowest_s: float = 0.0
    seconds: float = 0.0
    findings: dict[str, list[bytes]] = field(default_factory=dict)
    """Inputs by what went wrong."""


def all_targets() -> dict[str, Target]:
    """Return every target by name."""
    return {target.name: target for target in (*decoders(), *stores(), *steps(), *looks(), *outsiders())}


def tried(target: Target, raw: bytes, count: Count) -> None:
    """Call a target with one input, and count what happens."""
    count.inputs += 1
    began_s = time.thread_time()
    try:
        target.call(raw)
        count.accepted += 1
    except Declined:
        count.declined += 1
    except Exception as error:
        _note(count, _named(error), raw)
    took_s = time.thread_time() - began_s
    count.slowest_s = max(count.slowest_s, took_s)
    if took_s > CPU_S_MAX:
        _note(count, f"Slow: {took_s:.1f} s", raw)


def _named(error: Exception) -> str:
    """Return what an error is and where in the product it was raised."""
    where, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "site-packages" not in name and "/tests/" not in name:
            where = f" @ {Path(name).parent.name}/{Path(name).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}{where}"


def _note(count: Count, what: str, raw: bytes) -> None:
    kept = count.findings.setdefault(what, [])
    if len(kept) < FINDINGS_MAX:
        kept.append(raw)


def fuzzed(target: Target, *, seed: int, seconds: float | None = None, inputs: int | None = None) -> Count:
    """Run one target for a time or a number of inputs, whichever ends first."""
    rng, count, began_s = random.Random(f"{seed}/{target.name}"), Count(), time.monotonic()
    for raw in target.seeds:
        tried(target, raw, count)
    while (inputs is None or count.inputs < inputs) and (seconds is None or time.monotonic() - began_s < seconds):
        tried(target, target.change(rng, target.seeds), count)
    count.seconds = time.monotonic() - began_s
    return count


def run(name: str, *, seed: int, seconds: float) -> Count:
    """Run one target by its name, in a process of its own."""
    return fuzzed(all_targets()[name], seed=seed, seconds=seconds)


def limited() -> None:
    """Limit the memory of this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


def kept() -> Iterator[tuple[str, bytes]]:
    """Yield what once broke: target and input."""
    names = {_folder(name): name for name in all_targets()}
    for path in sorted(CORPUS.glob("*/*.bin")):
        yield names[path.parent.name], path.read_bytes()


def _folder(target: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in target)


def keep(target: str, raw: bytes, folder: Path) -> Path:
    """Write an input to a folder of findings, named after its content."""
    path = folder / _folder(target) / f"{hashlib.sha256(raw).hexdigest()[:16]}.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path
