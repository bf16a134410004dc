"""Runs one command as a process group that cannot outlive its starter.

    python process_group.py COMMAND [ARGUMENT...]

Standard input is a pipe whose other end the starter holds and never writes to. When it closes, for whatever reason, the
starter is gone or wants the command gone at once: the whole group gets SIGKILL. SIGTERM, SIGINT and SIGHUP are passed to the
command alone as SIGTERM, so that it can end its children in its own order. When the command ends, the rest of the group is
killed, and the command's exit code becomes ours (128 + n for a signal n).

If this process itself is killed, Linux kills the command (PR_SET_PDEATHSIG); on other systems it would keep running. Only the
standard library is used, so that it starts in milliseconds: `python -I -S process_group.py`.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from types import FrameType

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
COMMAND_NOT_STARTED = 127
_PR_SET_PDEATHSIG = 1


def main(command: list[str]) -> int:
    """Run the command until it or our starter ends; return the exit code."""
    wakeups = _signals_as_bytes()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=_die_with_parent())
    except OSError as problem:
        print(f"cannot start {command[0]}: {problem}", file=sys.stderr, flush=True)
        return COMMAND_NOT_STARTED
    while process.poll() is None:
        readable, _, _ = select.select([0, wakeups], [], [])
        if wakeups in readable and any(number in FORWARDED for number in os.read(wakeups, 64)):
            process.send_signal(signal.SIGTERM)
        if 0 in readable and not os.read(0, 64):
            _kill_group(process.pid)
            break
    exit_code = process.wait()
    _kill_group(process.pid)
    return exit_code if exit_code >= 0 else 128 - exit_code


def _signals_as_bytes() -> int:
    """Return a descriptor that becomes readable with the number of each signal, so that none is missed between two reads."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (*FORWARDED, signal.SIGCHLD):
        signal.signal(number, _note)
    return reading


def _note(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the byte on the wake-up descriptor is enough."""


def _die_with_parent() -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    ours = os.getpid()

    def ask_the_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != ours:  # the parent died before the kernel was asked
            os._exit(COMMAND_NOT_STARTED)

    return ask_the_kernel


def _kill_group(group: int) -> None:
    # macOS answers "not permitted" if only zombies are left in the group.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
