"""One supervised child process: its own group, its log file, its end. Does not restart anything.

The child runs under `process_group.py`, which kills the whole group when our end of a pipe closes. So nothing is left running
when this process is killed, even by SIGKILL. It works from any thread: no kernel rule is tied to the thread that starts it.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from surescale.services.local_stack import process_group

_WRAPPER = Path(process_group.__file__)
_KILL_WAIT_S = 10.0


class ChildProcess:
    """A command that is started and followed until its end.

    The child gets this process's environment plus `env`. Its standard output and error are appended to `log_path`.
    """

    def __init__(self, command: Sequence[str | Path], *, log_path: Path, env: Mapping[str, str] | None = None) -> None:
        self.log_path = log_path
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("ab") as log:
            self._log_start = log.tell()
            self._wrapper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_WRAPPER), *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,  # Ctrl-C at the terminal reaches us alone
            )

    @property
    def exit_code(self) -> int | None:
        """The exit code: None while it runs, 128 + the signal if a signal ended it."""
        code = self._wrapper.poll()
        return 128 - code if code is not None and code < 0 else code

    @property
    def is_running(self) -> bool:
        """Return whether it still runs."""
        return self.exit_code is None

    def describe_end(self) -> str:
        """Return how it ended, in words."""
        code = self.exit_code
        if code is None:
            return "still runs"
        if code > 128:
            with contextlib.suppress(ValueError):
                return f"was ended by {signal.Signals(code - 128).name}"
        return f"ended with exit code {code}"

    def ask_to_end(self) -> None:
        """Send SIGTERM to the command."""
        if self.is_running:
            self._wrapper.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end; return whether it ended in time."""
        try:
            self._wrapper.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._close_pipe()
        return True

    def kill(self) -> None:
        """Kill the command and its group with SIGKILL; return when they are gone."""
        self._close_pipe()
        if not self.wait(_KILL_WAIT_S):
            self._wrapper.kill()
            self._wrapper.wait()

    def stop(self, grace_s: float) -> bool:
        """Send SIGTERM, then SIGKILL after the grace period; return whether SIGTERM was enough."""
        self.ask_to_end()
        if self.wait(grace_s):
            return True
        self.kill()
        return False

    def last_log_lines(self, count: int) -> list[str]:
        """Return the last lines that this process wrote (from at most 64 KiB of its log)."""
        with self.log_path.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - 65_536))
            return log.read().decode(errors="replace").splitlines()[-count:]

    def _close_pipe(self) -> None:
        if self._wrapper.stdin is not None:
            self._wrapper.stdin.close()
