"""Orderly end by a signal, with real processes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

HALF_DONE = """
import sys, time
from pathlib import Path
from surescale.runtime.signals import end_in_order
end_in_order()
place = Path(sys.argv[1])
try:
    place.touch()
    print("half done", flush=True)
    for _ in range(600):  # not at once: a signal that comes just before it does not end a sleep
        time.sleep(0.1)
finally:
    place.unlink()
"""
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_takes_away_what_is_half_done(number: signal.Signals, tmp_path: Path) -> None:
    """As Ctrl-C does; the exit code is that of the signal."""
    command = [sys.executable, "-c", HALF_DONE, str(tmp_path / "half")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half done\n"
        process.send_signal(number)
        assert process.wait(120) == 128 + number
    assert list(tmp_path.iterdir()) == []
