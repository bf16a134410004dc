"""Small pieces of Python as real processes, for tests of what starts and ends them."""

import sys
from pathlib import Path

FOREVER = "import signal\nwhile True: signal.pause()"
ROOT = Path(__file__).parents[2]
"""Where a process must start that imports our rooms."""


def python(code: str, *arguments: str) -> list[str]:
    """Return the command that runs a piece of Python."""
    return [sys.executable, "-S", "-c", code, *arguments]
