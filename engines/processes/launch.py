"""Becomes one worker: takes its lock, writes who it is, and turns into the command.

    python -I -S launch.py FILE PORT COMMAND [ARGUMENT...]

The lock on FILE is held by the command itself, because the open file passes through ``exec``. So a worker is known from its first
moment to its last, whoever started it and whatever died meanwhile: there is no time in which it runs and nobody knows, and no
process id that could have gone to somebody else. A second start of the same worker ends here. Standard library only.
"""

import fcntl
import json
import os
import sys
import time

NOT_STARTED = 127
RUNS_ALREADY = 75
_LOCK_WITHIN_S = 2.0  # whoever looks whether the worker lives holds the lock for a moment


def main(path: str, port: str, command: list[str]) -> int:
    """Become the worker; return only if that fails."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + _LOCK_WITHIN_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                return RUNS_ALREADY
            time.sleep(0.02)
    os.ftruncate(file, 0)
    os.write(file, json.dumps({"pid": os.getpid(), "port": int(port), "started_ms": time.time_ns() // 1_000_000}).encode())
    os.set_inheritable(file, True)
    try:
        os.execvp(command[0], command)
    except OSError as problem:
        print(f"cannot start {command[0]}: {problem.strerror}", file=sys.stderr, flush=True)
    return NOT_STARTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
