"""What can come in place of an answer, and how to tell which.

KubernetesError
├── ApiUnavailable           nobody answers, or what answers cannot now: ask again
├── NotKubernetes     something else answers at this address: correct it
├── NotAuthenticated  the API does not know who asks: a token is missing, wrong or expired
├── NotAllowed        it knows who asks, and the account lacks a right
├── NotFound          there is no such object, or no such kind of object
├── Conflict          the object has changed since it was read: read it again
└── ApiRefused        the API will not do this, and says why
"""

from surescale.contracts.errors import UNREADABLE, SurescaleError
from surescale.contracts.wire import decoder
from surescale.engines.kubernetes.answers import Status
from surescale.runtime.http_pool import Answer
from surescale.runtime.printable import one_line

_AWAY = frozenset({408, 425, 429, 500, 502, 503, 504})
_RIGHT_IS_MISSING = " cannot "
_NO_SUCH_PATH = b"404 page not found"
"""The API server's whole answer, in plain text, where it knows no kind of that API group, such as KEDA's where that is absent."""
ROLE = "compose/kubernetes/scaling"
"""Where the rights stand that are needed."""


class KubernetesError(SurescaleError):
    """Base of what may come in place of an answer. The message names the request and the fix, in one line."""


class ApiUnavailable(KubernetesError):
    """No answer now; ask again. Of a request that changes something, it is unknown whether it did."""


class NotKubernetes(KubernetesError):
    """What answers is not an API server."""


class NotAuthenticated(KubernetesError):
    """Status 401, or the token cannot be read."""


class NotAllowed(KubernetesError):
    """Status 403, and the message names the right."""


class NotFound(KubernetesError):
    """Status 404: no such object, or no such kind."""


class Conflict(KubernetesError):
    """Status 409."""


class ApiRefused(KubernetesError):
    """Any other status of 400 and more."""


def problem_of(answer: Answer, request: str) -> KubernetesError:
    """Return what an answer without success means.

    Args:
        answer: of a status of 300 or more.
        request: method and address, for the message.
    """
    status, said = answer.status, _status_in(answer.body)
    words = one_line(said.message) if said is not None else answer.reason
    if status == 401:
        return NotAuthenticated(
            f"{request} answers 401 {words}; set SURESCALE_KUBERNETES_TOKEN_FILE to the token of an account, or unset it in a pod"
        )
    if status in _AWAY:
        return ApiUnavailable(f"{request} answers {status}: {words}")
    if status == 404 and answer.body.strip() == _NO_SUCH_PATH:
        return NotFound(f"{request}: the cluster knows no such kind of object; install its definition")
    if said is None:
        return not_kubernetes(answer, request)
    if status == 403 and _RIGHT_IS_MISSING in words:  # the other refusals are those of an admission controller
        return NotAllowed(f"{words}; give its account this right, {ROLE} has all that are needed")
    if status == 404:
        return NotFound(f"{request}: {words}")
    if status == 409:
        return Conflict(f"{request}: {words}")
    return ApiRefused(f"{request} is refused: {words}")


def not_kubernetes(answer: Answer, request: str) -> NotKubernetes:
    """Return the problem of an answer that an API server would not give."""
    return NotKubernetes(
        f"{request} answers {answer.status} with {answer.content_type} that is not an answer of Kubernetes; "
        "set SURESCALE_KUBERNETES_URL to the address of the API server"
    )


def _status_in(body: bytes) -> Status | None:
    try:
        found = decoder(Status).decode(body)
    except UNREADABLE:
        return None
    return found if found.kind == "Status" else None
