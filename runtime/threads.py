"""Starts every background thread of the project, so that none ends unnoticed.

A thread that ends by an error nobody expected, or though nobody told it to, ends its process with one line and an exit code, and
a supervisor starts that again: all roles may be killed at any moment. A role that went on without one of its threads would call
itself ready and not be.
"""

import logging
import os
import threading
from collections.abc import Callable

FAULT_EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h."""
end_process: Callable[[int], object] = os._exit
"""Ends the process at once; tests replace it."""
_log = logging.getLogger("surescale.threads")


class EndedEarly(Exception):
    """A thread returned that should have gone on."""


def background(run: Callable[[], None], name: str, over: Callable[[], bool] | None = None) -> threading.Thread:
    """Return a daemon thread that is not started yet. An error that ``run`` lets out ends the process.

    ``over``: says whether it may return, and ends the process if it does all the same; None: it may at any time.
    """

    def guarded() -> None:
        try:
            run()
            if over is not None and not over():
                raise EndedEarly("nobody told it to end")
        except BaseException as error:
            words = f"{type(error).__name__}: {error}"
            _log.critical("%s ended (%s): the process ends with exit code %d, to be started again", name, words, FAULT_EXIT_CODE,
                          exc_info=True)  # fmt: skip
            end_process(FAULT_EXIT_CODE)
            raise

    return threading.Thread(target=guarded, name=name, daemon=True)
