"""Becomes one worker: takes its lock, writes who it is, and turns into the command.

    python -I -S launch.py FILE PORT COMMAND [ARGUMENT...]

FILE names the process by its id and the time at which it started, which together no other process ever has. The lock on FILE is
held by the command itself, because the open file passes through ``exec``: so a second start of the same worker ends here, also
between the start of the first one and the moment in which it is written down. Standard library only.
"""

import fcntl
import json
import os
import sys
import time
from pathlib import Path

NOT_STARTED = 127
RUNS_ALREADY = 75
_LOCK_WITHIN_S = 2.0  # whoever looks whether the worker lives holds the lock for a moment


def born(pid: int) -> int:
    """Return when a process started, in clock ticks since the machine's start; 0: there is no such process, or it is a zombie.

    A process that leads no session is none of ours (0): a worker is started as the leader of its own.
    """
    try:
        # The command's name, in brackets, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        state, session, ticks = fields[0], int(fields[3]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return 0
    return ticks if session == pid and state not in (b"Z", b"X") else 0


def main(path: str, port: str, command: list[str]) -> int:
    """Become the worker; return only if that fails."""
    # The command inherits a file that it can read only: what is written there decides who is sent signals.
    file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    deadline = time.monotonic() + _LOCK_WITHIN_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                return RUNS_ALREADY
            time.sleep(0.02)
    pid, started_ms = os.getpid(), time.time_ns() // 1_000_000
    written = json.dumps({"pid": pid, "port": int(port), "started_ms": started_ms, "born": born(pid)})
    writing = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK)
    os.write(writing, written.encode())
    os.close(writing)
    os.set_inheritable(file, True)
    try:
        os.execvp(command[0], command)
    except OSError as problem:
        print(f"cannot start {command[0]}: {problem.strerror}", file=sys.stderr, flush=True)
    return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
