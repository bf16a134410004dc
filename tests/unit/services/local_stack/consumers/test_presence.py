"""Workers of the demo learn that its owner is gone, however it went."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from surescale.services.local_stack.consumers.worker import hold, is_held
from tests.support.waiting import wait_until

_OWNER = """
import signal, sys
from pathlib import Path
from surescale.services.local_stack.consumers.worker import hold
kept = hold(Path(sys.argv[1]))
print("held", flush=True)
signal.pause()
"""


def test_a_file_is_held_until_it_is_closed(tmp_path: Path) -> None:
    """Looking at it does not take it away; without a file nobody holds it."""
    path = tmp_path / "owner"
    assert not is_held(path)
    with hold(path):
        assert is_held(path)
        assert is_held(path)
    assert not is_held(path)


def test_an_owner_that_is_killed_outright_holds_nothing(tmp_path: Path) -> None:
    """Though its file is still there."""
    path = tmp_path / "owner"
    owner = subprocess.Popen([sys.executable, "-c", _OWNER, str(path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[5])
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"held\n"
        assert is_held(path)
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
        wait_until(lambda: not is_held(path), what="the lock to be free")
        assert path.exists()
    finally:
        owner.kill()
        owner.wait()
