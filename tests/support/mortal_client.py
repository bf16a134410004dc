"""A client of an engine whose process dies before or after one of its requests: one more try at each of them finds every gap."""

from typing import Any, NoReturn


class Killed(BaseException):
    """The process ended here."""


class Mortal:
    """Mixed into a client that sends all its requests through ``_call``; dies before or after one of them, or never."""

    _left: int | None = None
    _is_sent = False

    def dies(self, at: int | None, *, is_sent: bool) -> None:
        """Die at this request, counted from 0; ``is_sent``: only once it has been answered. None: never."""
        self._left, self._is_sent = at, is_sent

    def _call(self, *args: Any, **more: Any) -> Any:
        if self._left is None:
            return self._asked(*args, **more)
        self._left -= 1
        if self._left < 0 and not self._is_sent:
            self._die()
        answer = self._asked(*args, **more)
        if self._left < 0:
            self._die()
        return answer

    def _die(self) -> NoReturn:
        self.close()  # type: ignore[attr-defined]  # the system closes the connections of a process that has died
        raise Killed

    def _asked(self, *args: Any, **more: Any) -> Any:
        return super()._call(*args, **more)  # type: ignore[misc]  # the client that this is mixed into has it
