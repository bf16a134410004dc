"""Says what every thread of this process does now, and in one line where a fault came from."""

import sys
import threading
import traceback

from surescale.runtime.printable import printable

FRAMES_MAX = 12
"""Of each thread, the innermost: a log cuts long texts."""
FAULT_CHARACTERS_MAX = 300


def stacks_of_all_threads(first: int = 0) -> str:
    """Return the innermost frames of every Python thread, newest first: a line for the thread, then one for each frame.

    The thread ``first`` (its ident) leads; the one that asks is left out.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = {ident: frame for ident, frame in sys._current_frames().items() if ident != threading.get_ident()}
    lines = []
    for ident in sorted(frames, key=lambda ident: (ident != first, ident)):
        lines.append(f"thread {names.get(ident, ident)}:")
        found = traceback.StackSummary.extract(traceback.walk_stack(frames[ident]), limit=FRAMES_MAX, lookup_lines=False)
        lines += [f"  {_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in found]
    return "\n".join(lines)


def fault_in_words(fault: BaseException) -> str:
    """Return kind, message and place of an error, in one line that is safe to print."""
    place = traceback.extract_tb(fault.__traceback__)[-1:]
    where = f" ({_short(place[0].filename)}:{place[0].lineno})" if place else ""
    return f"{type(fault).__name__}: {printable(' '.join(str(fault).split()))[:FAULT_CHARACTERS_MAX]}{where}"


def _short(path: str) -> str:
    """Return a file with the two folders around it."""
    return "/".join(path.split("/")[-3:])
