"""Parts of a computation, for timing: pure code says when a part begins and ends, and reads no clock."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Timed = Callable[[str, str], AbstractContextManager[object]]
"""Called with the name of a part and what it is for (an id); the part runs in the context that is returned."""

_NOTHING: AbstractContextManager[object] = nullcontext()


def untimed(_part: str, _of: str) -> AbstractContextManager[object]:
    """Do nothing: nobody wants to know how long it takes."""
    return _NOTHING
