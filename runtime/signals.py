"""Orderly end of a role: SIGTERM and SIGINT set an event that every loop looks at. And of a command that has no loop to look."""

import signal
import sys
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


def end_in_order() -> None:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does, by an exception: what is half done is taken away. Main thread only."""

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
