"""What can come in place of an answer, and how to tell which.

FlinkError
├── FlinkUnavailable          nobody answers, or what answers cannot now: ask again
├── NotFlink           something else answers at this address: correct it
├── FlinkRedirected     a redirect: use the address it names
├── NotAuthorized      a token or certificate is missing or wrong
├── NotFound           there is no such job or vertex
│   └── NoSuchPath     this version of Flink has no such path, or the address has a path too many
└── FlinkRefused       Flink will not do this, and says why
    └── NotAdaptive    the job's scheduler cannot change parallelism; some versions answer this with HTTP 500
"""

import re
from urllib.parse import urlsplit

import msgspec

from surescale.contracts.errors import UNREADABLE, SurescaleError
from surescale.contracts.wire import decoder
from surescale.runtime.http_pool import Answer
from surescale.runtime.printable import one_line

_AWAY = frozenset({408, 425, 429, 502, 503, 504})
_EXCEPTION = re.compile(r"^(?:Caused by: )?(?:[\w.$]+\.)?(\w+(?:Exception|Error))(?::\s*(.*))?\Z")
_WRAPPERS = frozenset({"CompletionException", "ExecutionException", "RestHandlerException", "SerializedThrowable"})
_PASSING = frozenset({
    "TimeoutException", "AskTimeoutException",
    # While another JobManager takes over: the old one is gone, the new one does not answer yet, or it reads the jobs in.
    "RecipientUnreachableException", "RpcConnectionException", "FencingTokenException", "EndpointNotStartedException",
    "UnavailableDispatcherOperationException",
})  # fmt: skip
_NO_FILE = "Unable to load requested file"
_NO_JOB = "FlinkJobNotFoundException"  # some paths answer it with status 500
_INTERNAL = "Internal server error"
_SET_ADDRESS = "set SURESCALE_ENGINE_URL to the address of Flink's REST API"
_ACCESS = "SURESCALE_ENGINE_TOKEN_FILE, or SURESCALE_ENGINE_CERTIFICATE_FILE and _KEY_FILE"


class FlinkError(SurescaleError):
    """Base of what may come in place of an answer. The message names the request and, where it is certain, the fix: one line.

    Attributes:
        problem: what is wrong, without the fix.
        remedy: what to do, for somebody who asks only that.
    """

    USUAL_REMEDY = "look at the JobManager's log"

    def __init__(self, problem: str, fix: str = "") -> None:
        """``fix``: what to do; where there is none, what usually helps is the remedy."""
        super().__init__(f"{problem}; {fix}" if fix else problem)
        self.problem, self.remedy = problem, fix or self.USUAL_REMEDY


class FlinkUnavailable(FlinkError):
    """No answer now; ask again. Of a request that changes something, it is unknown whether it did."""

    USUAL_REMEDY = "start Flink, wait until it answers, or correct SURESCALE_ENGINE_URL, the address of its REST API"


class NotFlink(FlinkError):
    """What answers is not Flink's REST API, or a version that answers otherwise than the known ones."""


class FlinkRedirected(FlinkError):
    """The address answers with a redirect, as a proxy before a login page does."""


class NotAuthorized(FlinkError):
    """Status 401 or 403, or the token cannot be read."""

    USUAL_REMEDY = f"set {_ACCESS}, to what may use the API"


class NotFound(FlinkError):
    """Flink does not know the job or vertex. ``reason`` is its own sentence, without the request."""

    def __init__(self, problem: str, reason: str, fix: str = "") -> None:
        super().__init__(problem, fix)
        self.reason = reason


class NoSuchPath(NotFound):
    """Flink does not know the path."""


class FlinkRefused(FlinkError):
    """Flink refuses. ``reason`` is its own sentence, without the request."""

    def __init__(self, problem: str, reason: str, fix: str = "") -> None:
        super().__init__(problem, fix)
        self.reason = reason


class NotAdaptive(FlinkRefused):
    """The job does not run under the adaptive scheduler, so nobody can change its parallelism while it runs."""


class _Errors(msgspec.Struct, frozen=True):
    errors: list[str]


def problem_of(answer: Answer, request: str) -> FlinkError:
    """Return what an answer without success means.

    Args:
        answer: of a status of 300 or more.
        request: method and address, for the message.
    """
    status = answer.status
    if 300 <= status < 400:
        return FlinkRedirected(f"{request} answers with a redirect to {_without_query(answer.location)}", _SET_ADDRESS)
    if status in (401, 403):
        return NotAuthorized(f"{request} answers {status} {answer.reason}", NotAuthorized.USUAL_REMEDY)
    errors = _errors(answer.body)
    if status in _AWAY:
        return FlinkUnavailable(f"{request} answers {status}: {one_line(' '.join(errors)) or answer.reason}")
    if not errors:
        return not_flink(answer, request)
    if status == 404:
        return _not_found(reason_in(errors), request)
    return _refusal(status, errors, request)


def not_flink(answer: Answer, request: str) -> NotFlink:
    """Return the problem of an answer that Flink would not give."""
    what = "a web page" if answer.content_type == "text/html" else f"{answer.content_type} that is not an answer of Flink"
    return NotFlink(f"{request} answers {answer.status} with {what}", _SET_ADDRESS)


def reason_in(errors: list[str]) -> str:
    """Return the innermost sentence of Flink's errors, which come with their Java stack traces."""
    return _innermost(errors)[1]


def _not_found(reason: str, request: str) -> NotFound:
    if not reason.startswith(_NO_FILE):
        return NotFound(f"{request}: {reason}", reason)
    return NoSuchPath(f"{request}: Flink has no such path", reason, "check its version (1.20 to 2.3) and SURESCALE_ENGINE_URL")


def _refusal(status: int, errors: list[str], request: str) -> FlinkError:
    kind, reason = _innermost(errors)
    if kind == _NO_JOB:
        return NotFound(f"{request}: {reason}", reason)
    if kind == "UnsupportedOperationException":
        return NotAdaptive(
            f"{request} is refused: {reason}",
            reason,
            "set jobmanager.scheduler: adaptive in Flink's configuration and restart the job",
        )
    # Nothing is refused to who only asks: an answer that Flink was about to make may be cancelled while a job restarts.
    if status >= 500 and (kind in _PASSING or request.startswith("GET ")):
        return FlinkUnavailable(f"{request} answers {status}: {reason}")
    return FlinkRefused(f"{request} is refused: {reason}", reason)


def _innermost(errors: list[str]) -> tuple[str, str]:
    """Return class and message of the innermost exception; the class is empty if there is only text."""
    kind, reason = "", ""
    for text in errors:
        if text.startswith(_INTERNAL):
            continue
        for line in text.splitlines():
            found = _EXCEPTION.match(line.strip())
            if found and found[1] not in _WRAPPERS:
                kind, reason = found[1], found[2] or found[1]
            elif found and found[2]:
                reason = reason or found[2]
    plain = reason or next((text.splitlines()[0] for text in errors if text.strip()), "no reason is given")
    return kind, one_line(_unwrapped(plain))


def _unwrapped(reason: str) -> str:
    """Return a sentence without the names of Java classes before it."""
    return re.sub(r"^(?:[\w$]+\.)+\w+(?:Exception|Error|Throwable): ", "", reason).strip()


def _errors(body: bytes) -> list[str]:
    try:
        return decoder(_Errors).decode(body).errors
    except UNREADABLE:
        return []


def _without_query(location: str) -> str:
    """Return where a redirect points to, without what may be secret in it."""
    parts = urlsplit(location)
    return (
        f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
        if parts.scheme
        else parts.path
    )
