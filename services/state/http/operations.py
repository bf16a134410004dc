"""The POST requests of the HTTP API: pause, resume and approve. What each takes, and the rules that keep foreign pages out.

A browser sends no header ``Authorization`` for another site, and asks before it sends JSON to one; nothing here says that it may.
What browsers tell of the page that asks is checked on top.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import msgspec
from aiohttp import web

from surescale.contracts.errors import UNREADABLE
from surescale.contracts.wire import decoder
from surescale.services.state.access import Caller, Tokens, is_same_site
from surescale.services.state.documents import OperationDocument
from surescale.services.state.operate import ApproveBody, Body, OperationRequest, PauseBody, ResumeBody

KEY = "Idempotency-Key"
_KEY = re.compile(r"[!-\"$-~]{1,128}")  # visible, without the # that ends it in the record
BODY_BYTES_MAX = 4_096
BODY_WITHIN_S = 10.0
WAITING_MAX = 8

Execute = Callable[[OperationRequest], OperationDocument]


@dataclass(frozen=True, slots=True)
class Operation:
    """One path that changes something."""

    path: str
    about: str
    body: type[Body]
    of: Literal["job", "cluster"]

    def target(self, names: "web.UrlMappingMatchInfo") -> str:
        """Return the job or the cluster in the path."""
        return f"{names['cluster']}/{names['name']}" if self.of == "job" else names["cluster"]


OPERATIONS = (
    Operation("/jobs/{cluster}/{name}/pause", "Stop rescales of a job.", PauseBody, "job"),
    Operation("/jobs/{cluster}/{name}/resume", "End a pause of a job.", ResumeBody, "job"),
    Operation("/jobs/{cluster}/{name}/approve", "Have the newest advice of a job carried out.", ApproveBody, "job"),
    Operation("/clusters/{cluster}/pause", "Stop rescales of all jobs of a cluster.", PauseBody, "cluster"),
    Operation("/clusters/{cluster}/resume", "End a pause of a cluster.", ResumeBody, "cluster"),
)


class Operations:
    """Answers them, one after the other: each reads the settings, and writes the version that follows."""

    def __init__(self, tokens: Tokens, execute: Execute) -> None:
        self._tokens, self._execute = tokens, execute
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def answer(self, operation: Operation, request: web.Request, caller: Caller) -> OperationDocument:
        """Return what was done.

        Raises:
            web.HTTPException: the request may not, or not in this form; nothing was written.
            SettingsError, ConnectionError: as ``services.state.operate.Operator.execute``.
        """
        self._check(request, caller)
        body = await _body(request, operation.body)
        asked = OperationRequest(
            target=operation.target(request.match_info),
            of_cluster=operation.of == "cluster",
            body=body,
            by=caller.name,
            key=request.headers[KEY],
        )
        if self._waiting >= WAITING_MAX:
            raise web.HTTPServiceUnavailable(text=f"{WAITING_MAX} requests wait already; repeat this one later")
        self._waiting += 1
        # Whoever goes away has asked all the same.
        return await asyncio.shield(asyncio.create_task(self._in_turn(asked)))

    async def _in_turn(self, asked: OperationRequest) -> OperationDocument:
        try:
            async with self._turn:
                return await asyncio.to_thread(self._execute, asked)
        finally:
            self._waiting -= 1

    def _check(self, request: web.Request, caller: Caller) -> None:
        if not self._tokens.let_operate:
            raise web.HTTPForbidden(text="this service only reads; set SURESCALE_HTTP_OPERATE_TOKEN_FILE to let people operate")
        headers = request.headers
        if not is_same_site(headers.get("Host", ""), headers.get("Origin"), headers.get("Sec-Fetch-Site")):
            raise web.HTTPForbidden(text="Origin: a page from elsewhere may not do this")
        if not caller.may_operate:
            if "Authorization" not in headers:
                raise web.HTTPUnauthorized(text="an operator token is required: Authorization: Bearer TOKEN")
            raise web.HTTPForbidden(text="this token may not operate; use one of SURESCALE_HTTP_OPERATE_TOKEN_FILE")
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(text="Content-Type: send application/json")
        if headers.get("Content-Encoding", "identity") != "identity":
            raise web.HTTPUnsupportedMediaType(text="Content-Encoding: send the body as it is, not compressed")
        if not _KEY.fullmatch(headers.get(KEY, "")):
            raise web.HTTPBadRequest(
                text=f"{KEY}: send one that is new for each change, and the same when you repeat it: 1 to 128 visible characters "
                "other than #"
            )
        if request.query:
            raise web.HTTPBadRequest(text=f"{', '.join(request.query)}: this path takes no parameters; send them in the body")


async def _body(request: web.Request, kind: type[Body]) -> Body:
    try:
        # The application's limit on bodies holds here.
        sent = await asyncio.wait_for(request.read(), BODY_WITHIN_S)
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"the body did not arrive within {BODY_WITHIN_S:.0f} s") from None
    except web.RequestPayloadError:
        raise web.HTTPBadRequest(text="the body is not in the form that Transfer-Encoding says") from None
    try:
        return decoder(kind).decode(sent)
    except msgspec.ValidationError as wrong:
        raise web.HTTPUnprocessableEntity(text=str(wrong)) from None
    except UNREADABLE:
        raise web.HTTPBadRequest(text="the body is no JSON document") from None
