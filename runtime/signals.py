"""Ends roles and commands cleanly: SIGTERM and SIGINT set an event that loops check; a command gets an exception."""

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
    """Make SIGTERM and SIGHUP end a command by an exception, as Ctrl-C does, so it cleans up. Main thread only."""

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
