"""Classes are learned by msgspec one after the other: threads that make it learn the same one at once end the process."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
THREADED = ("contracts", "engines", "monitor", "rescaler", "services/agent", "services/state")
"""Rooms whose code several threads of a role run at once; others decode in one thread, or in a process of their own."""
_LEARNS = re.compile(r"json\.Decoder\(|json\.decode\([^\n]+, type=|msgspec\.convert\((?!.*\blearned\()")
_BUILT_IN = re.compile(r"tuple\[float, str\]|dict\[str, dict\[str, int\]\]")


def test_threads_decode_with_decoders_that_were_made_one_after_the_other() -> None:
    """``contracts.wire.decoder`` makes them, and ``learned`` readies what is converted."""
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {line.strip()}"
        for room in THREADED
        for path in (ROOT / room).rglob("*.py")
        if "node_modules" not in path.parts and path != ROOT / "contracts" / "wire.py"
        for line in path.read_text().splitlines()
        if _LEARNS.search(line) and not _BUILT_IN.search(line)
    }
    assert found == set()
