"""Puts the wall clock of a Python process ahead or back by the seconds in a file. C libraries keep the machine's.

Python imports a module of this name from its path before anything else.
"""

import contextlib
import os
import time

LOOK_EVERY_S = 0.1

if _file := os.environ.get("FAULTS_CLOCK"):
    _time, _time_ns = time.time, time.time_ns
    _looked_s, _shift_ns = 0.0, 0

    def _shift() -> int:
        global _looked_s, _shift_ns
        if time.monotonic() - _looked_s > LOOK_EVERY_S:
            _looked_s = time.monotonic()
            with contextlib.suppress(OSError, ValueError), open(_file, encoding="ascii") as found:
                _shift_ns = round(1e9 * float(found.read()))
        return _shift_ns

    time.time = lambda: _time() + _shift() / 1e9
    time.time_ns = lambda: _time_ns() + _shift()
