"""Decoders that many threads ask for at once."""

import subprocess
import sys
from pathlib import Path

_ALL_AT_ONCE = """
import os, sys, threading
from surescale.contracts.wire import decode, encode
from tests.wire.messages import MESSAGES

THREADS = 8

def read(together):
    together.wait()
    for message in MESSAGES.values():
        assert decode(encode(message), type(message)) == message

def read_at_once():
    from concurrent.futures import ThreadPoolExecutor

    sys.setswitchinterval(1e-6)
    together = threading.Barrier(THREADS)
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(read, [together] * THREADS))

for _ in range(int(sys.argv[1])):
    # What was imported is there, no decoder is made yet: as in a process that has just started, at a part of its cost.
    child = os.fork()
    if not child:
        read_at_once()
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended:
        sys.exit(f"a process ended with {ended}")
"""
PROCESSES = 6
"""Of those without a lock around the making of decoders, half end by a segmentation fault."""


def test_threads_that_read_a_kind_of_record_for_the_first_time_at_once_do_not_end_the_process() -> None:
    """As the thousand watchers of a monitor do when it starts."""
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", _ALL_AT_ONCE, str(PROCESSES)]
    done = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
