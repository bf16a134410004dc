"""Decoders that many threads ask for at once."""

import subprocess
import sys
from pathlib import Path

_ALL_AT_ONCE = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from surescale.contracts.wire import decode, encode
from tests.wire.messages import MESSAGES

sys.setswitchinterval(1e-6)
THREADS = 8
together = threading.Barrier(THREADS)

def read(_):
    together.wait()
    for message in MESSAGES.values():
        assert decode(encode(message), type(message)) == message

with ThreadPoolExecutor(THREADS) as threads:
    list(threads.map(read, range(THREADS)))
"""
PROCESSES = 6
"""Of those without a lock around the making of decoders, half end by a segmentation fault."""


def test_threads_that_read_a_kind_of_record_for_the_first_time_at_once_do_not_end_the_process() -> None:
    """As the thousand watchers of a monitor do when it starts."""
    root = Path(__file__).parents[3]
    for _ in range(PROCESSES):
        done = subprocess.run([sys.executable, "-c", _ALL_AT_ONCE], cwd=root, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
