"""What can come in place of an answer of the container engine.

ComposeError
├── ComposeUnavailable     nobody answers, or what answers cannot now: ask again
├── NotAnEngine      something else answers at this address: correct it
├── NotFound         there is no such container or image
├── NameConflict        another container has this name: look again
└── ComposeRefused       the engine will not do this, and says why
"""

import msgspec

from surescale.contracts.errors import UNREADABLE, SurescaleError
from surescale.contracts.wire import decoder
from surescale.runtime.http_pool import Answer
from surescale.runtime.printable import one_line

SETTING = "SURESCALE_COMPOSE_URL"
_AWAY = frozenset({408, 425, 429, 502, 503, 504})


class ComposeError(SurescaleError):
    """Base of what may come in place of an answer. The message names the request and the fix, in one line."""


class ComposeUnavailable(ComposeError):
    """No answer now; ask again. Of a request that changes something, it is unknown whether it did."""


class NotAnEngine(ComposeError):
    """What answers is no container engine, or one that is too old or too new."""


class NotFound(ComposeError):
    """Status 404."""


class NameConflict(ComposeError):
    """Status 409."""


class ComposeRefused(ComposeError):
    """Any other status of 400 and more; a container that cannot be started gets 500."""


class _Said(msgspec.Struct, frozen=True):
    message: str


def problem_of(answer: Answer, request: str) -> ComposeError:
    """Return what an answer without success means.

    Args:
        answer: of a status of 300 or more.
        request: method and address, for the message.
    """
    try:
        words = one_line(decoder(_Said).decode(answer.body).message)
    except UNREADABLE:
        words = ""
    if answer.status in _AWAY:
        return ComposeUnavailable(f"{request} answers {answer.status}: {words or answer.reason}")
    if answer.status == 403:  # of a proxy before the engine
        return ComposeRefused(f"{request} is forbidden: {words or answer.reason}; let the proxy at {SETTING} pass it")
    if not words:
        return NotAnEngine(f"{request} answers {answer.status} without an engine's words; set {SETTING} to a container engine's")
    kind = {404: NotFound, 409: NameConflict}.get(answer.status, ComposeRefused)
    return kind(f"{request}: {words}")
