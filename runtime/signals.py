"""Orderly end of a role: SIGTERM and SIGINT set an event that every loop looks at."""

import signal
import threading


def stop_event() -> threading.Event:
    """Return an event that the first SIGTERM or SIGINT sets. Call it from the main thread."""
    stop = threading.Event()

    def set_stop(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, set_stop)
    return stop
