"""The HTTP API over the view: JSON documents, an event stream and the page. Reads Redis; what people change goes to Kafka."""

import asyncio
import logging
import mimetypes
import re
import time
from collections.abc import Awaitable, Callable, Collection
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlencode

import redis
from aiohttp import ETag, web
from aiohttp.typedefs import Middleware

from surescale.contracts.errors import SettingsError
from surescale.contracts.plurals import counted
from surescale.runtime.backoff import Throttle
from surescale.runtime.http_answers import HEADERS, kept
from surescale.runtime.listen import HalfRequests
from surescale.runtime.printable import printable
from surescale.services.job_settings.advice import NoOpenAdvice
from surescale.services.job_settings.snapshot import UnknownName, VersionConflict
from surescale.services.recomputation.counterfactual import CannotRecompute
from surescale.services.recomputation.records import NotInKafka
from surescale.services.state.access import ANYBODY, Caller, Tokens, Unreadable, is_own_host, is_same_site
from surescale.services.state.counterfactuals import CounterfactualsDisabled
from surescale.services.state.documents import (
    AccessDocument,
    CounterfactualDocument,
    ErrorDocument,
    HealthDocument,
    IndexDocument,
    OperationDocument,
)
from surescale.services.state.http.answers import Answers, Made, as_text, client_of, made_of, takes_packed
from surescale.services.state.http.openapi import openapi
from surescale.services.state.http.operations import BODY_BYTES_MAX, OPERATIONS, Operation, Operations
from surescale.services.state.http.routes import (
    ACCESS,
    COUNTERFACTUAL,
    EVENTS,
    HEALTH,
    LINKS,
    OPENAPI,
    ROUTES,
    BadParameter,
    Route,
)
from surescale.services.state.http.stream import Changes
from surescale.services.state.operate import OperationRequest
from surescale.services.state.read.queries import Queries
from surescale.services.state.read.stored import UnreadableView
from surescale.services.state.read.view import NotFound, StaleCursor
from surescale.services.state.record_documents import DecisionDocument
from surescale.services.state.redis_guard import in_words

_TEXTS = frozenset({"application/json", "application/javascript", "image/svg+xml"})
_OPTION = re.compile(r"(?<!\S)--(?=[a-z])")  # what is an option on the command line is a field here

Answered = Callable[[str, int, float], None]  # route, status code, seconds
DecideWithout = Callable[[DecisionDocument, str], Awaitable[CounterfactualDocument]]
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


WRONG_TOKEN_S, WRONG_TOKENS_WAIT_MAX, WRONG_TOKENS_SAID_EVERY_S = 0.1, 100, 60.0
_log = logging.getLogger("surescale.state")
_CALLER = web.RequestKey("caller", Caller)


def _nobody_counts(_route: str, _code: int, _took_s: float) -> None:
    """Do nothing: there are no metrics."""


def _nobody_operates(asked: OperationRequest) -> OperationDocument:
    """Refuse: there is no way to Kafka."""
    raise ConnectionError(f"{asked.target}: this service has no way to Kafka")


async def _nobody_decides(decision: DecisionDocument, _without: str) -> CounterfactualDocument:
    """Refuse: there is no way to Kafka."""
    raise ConnectionError(f"{decision.record.decision_id}: this service has no way to Kafka")


def make_app(
    queries: Queries,
    health: Callable[[], HealthDocument],
    *,
    redis_url: str,
    answered: Answered = _nobody_counts,
    tokens: Tokens | None = None,
    hosts: Collection[str] = (),
    execute: Callable[[OperationRequest], OperationDocument] = _nobody_operates,
    decide_without: DecideWithout = _nobody_decides,
    half_requests: HalfRequests | None = None,
) -> web.Application:
    """Return the application.

    Args:
        queries: answer requests.
        health: returns the health document, which needs no token.
        redis_url: shown when the view cannot be read; without password.
        answered: called after each answer.
        tokens: those that are let in; None: everybody is.
        hosts: names with a dot under which clients reach the API.
        execute: changes what somebody whose token allows it asks for.
        decide_without: answers what a decision would have been without a task or a minute.
        half_requests: ends connections on which none comes in time.
    """
    tokens = tokens or Tokens()
    operations = Operations(tokens, execute)
    answers, changes, files = Answers(queries), Changes(queries.all_positions), Page()
    text = as_text(openapi(version("surescale")))
    described = {may_pack: made_of(text, may_pack=may_pack) for may_pack in (True, False)}

    def handler(route: Route) -> _Handler:
        async def handle(request: web.Request) -> web.Response:
            return _tagged(request, await answers.made(route, request, client_of(request[_CALLER].name, request.remote)))

        return handle

    def operating(operation: Operation) -> _Handler:
        async def handle(request: web.Request) -> web.Response:
            return _json(await operations.answer(operation, request, request[_CALLER]))

        return handle

    async def tell_without(request: web.Request) -> web.Response:
        asked = COUNTERFACTUAL.read(request.match_info, request.query)
        headers = request.headers
        if not is_same_site(headers.get("Host", ""), headers.get("Origin"), headers.get("Sec-Fetch-Site")):
            raise web.HTTPForbidden(text="Origin: a page from elsewhere may not ask this")
        if not asked.values["without"]:
            raise BadParameter("without: name a task, or a minute like 09:45 or -3")
        decision = await asyncio.to_thread(queries.decision, asked.names["id"])
        document = await decide_without(decision, asked.values["without"])
        return _tagged(request, made_of(as_text(document), may_pack=takes_packed(request)))

    async def tell_access(request: web.Request) -> web.Response:
        caller = request[_CALLER]
        document = AccessDocument(name=caller.name, may_operate=caller.may_operate, operable=tokens.let_operate)
        response = _json(document)
        response.headers["Cache-Control"] = "no-store"
        return response

    async def index(request: web.Request) -> web.Response:
        has_page = files.is_built and _is_browser(request)
        response = files.file(request, "index.html") if has_page else _json(IndexDocument(name="surescale", links=LINKS))
        response.headers["Vary"] = "Accept"
        return response

    async def tell_health(_: web.Request) -> web.Response:
        document = health()
        return _json(document, status=200 if document.ready else 503)

    async def describe(request: web.Request) -> web.Response:
        return _tagged(request, described[takes_packed(request)])

    async def file(request: web.Request) -> web.Response:
        return files.file(request, request.match_info["file"])

    async def secured(_: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(SECURITY)

    async def tell_changes(request: web.Request) -> web.StreamResponse:
        return await changes.answer(request, client_of(request[_CALLER].name, request.remote))

    async def end_work(_: web.Application) -> None:
        await changes.close()
        answers.close()

    middlewares = [_measured(answered), _errors_as_json(redis_url), _guarded(tokens, hosts)]
    if half_requests is not None:
        middlewares.insert(0, half_requests.middleware)
    app = web.Application(middlewares=middlewares, client_max_size=BODY_BYTES_MAX)
    app.on_response_prepare.append(secured)
    app.on_shutdown.append(end_work)
    app.add_routes([web.get("/", index), web.get(HEALTH, tell_health), web.get(OPENAPI, describe)])
    app.add_routes([web.get(ACCESS, tell_access), web.get(COUNTERFACTUAL.pattern, tell_without)])
    app.add_routes([web.get(EVENTS, tell_changes), web.get(AT + "{file}", file)])
    app.add_routes([web.get(route.pattern, handler(route)) for route in ROUTES])
    app.add_routes([web.post(operation.path, operating(operation)) for operation in OPERATIONS])
    return app


def _measured(answered: Answered) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: _Handler) -> web.StreamResponse:
        began_s, code = time.monotonic(), 500
        try:
            response = await handler(request)
            code = response.status
            return response
        finally:
            resource = request.match_info.route.resource
            # The route, not the address: each name in an address would make a series.
            route = resource.canonical if resource else "none"
            if route != EVENTS:  # which lasts as long as its reader listens
                answered(route, code, time.monotonic() - began_s)

    return middleware


class WrongTokens:
    """Answers wrong tokens one after the other, whoever sends them, so that nobody tries many; others do not wait."""

    def __init__(self) -> None:
        """Have seen none yet."""
        self._count, self._waiting, self._seldom, self._turn = 0, 0, Throttle(WRONG_TOKENS_SAID_EVERY_S), asyncio.Lock()

    async def answer_slowly(self, sender: str) -> None:
        """Count one and wait for its turn.

        Raises:
            web.HTTPTooManyRequests: too many wait already.
        """
        self._count += 1
        if self._seldom.is_time():
            _log.warning("%s so far, the last one from %s", counted(self._count, "wrong token"), printable(sender))
        if self._waiting >= WRONG_TOKENS_WAIT_MAX:
            raise web.HTTPTooManyRequests(text="too many wrong tokens; ask again later", headers={"Retry-After": "60"})
        self._waiting += 1
        try:
            async with self._turn:
                await asyncio.sleep(WRONG_TOKEN_S)
        finally:
            self._waiting -= 1


class _TokenLooks:
    """Looks at the files of tokens in a thread, once for all who ask meanwhile: a disk that is silent holds up no one else."""

    def __init__(self, tokens: Tokens) -> None:
        """Look when somebody asks."""
        self._tokens = tokens
        self._look: asyncio.Task[None] | None = None

    async def caller(self, authorization: str) -> Caller | None:
        """Return who asks, None for nobody that is let in.

        Raises:
            Unreadable: the tokens cannot be read.
        """
        if self._tokens.has_files:
            if self._look is None or self._look.done():
                self._look = asyncio.create_task(asyncio.to_thread(self._tokens.look))
            await asyncio.shield(self._look)  # who goes away does not end it for the others
        return self._tokens.known(authorization)


def _guarded(tokens: Tokens, hosts: Collection[str]) -> Middleware:
    wrong, looks = WrongTokens(), _TokenLooks(tokens)

    @web.middleware
    async def middleware(request: web.Request, handler: _Handler) -> web.StreamResponse:
        # A whole address in place of a path has a host of its own.
        target = request.raw_path
        asked = [
            request.headers.get("Host", ""),
            *([] if target.startswith("/") else [target.partition("://")[2].partition("/")[0]]),
        ]
        if not all(is_own_host(host, hosts) for host in asked):
            raise web.HTTPMisdirectedRequest(text="this host is not known here; name it in SURESCALE_HTTP_HOSTS")
        try:
            is_public = request.path == HEALTH or request.path.startswith(AT) or (request.path == "/" and _is_browser(request))
            caller = ANYBODY if is_public else await looks.caller(request.headers.get("Authorization", ""))
            if caller is None:
                if "Authorization" in request.headers:
                    await wrong.answer_slowly(request.remote or "")
                raise web.HTTPUnauthorized(text="a token is required: Authorization: Bearer TOKEN")
            request[_CALLER] = caller
        except Unreadable:
            raise web.HTTPServiceUnavailable(text="the tokens cannot be read now") from None
        return await handler(request)

    return middleware


def _errors_as_json(redis_url: str) -> Middleware:
    @web.middleware
    async def middleware(request: web.Request, handler: _Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except UnknownName as error:
            return _json(ErrorDocument(error=str(error)), status=404)
        except (NoOpenAdvice, VersionConflict) as error:
            return _json(ErrorDocument(error=str(error)), status=409)
        except CounterfactualsDisabled as error:
            return _json(ErrorDocument(error=str(error)), status=403)
        except (CannotRecompute, NotInKafka) as error:
            return _json(ErrorDocument(error=str(error)), status=410)
        except SettingsError as error:
            return _json(ErrorDocument(error=_OPTION.sub("", str(error))), status=422)
        except ConnectionError as error:
            return _json(ErrorDocument(error=str(error)), status=503)
        except NotFound as error:
            return _json(ErrorDocument(error=str(error), near=error.near), status=404)
        except (BadParameter, StaleCursor) as error:
            return _json(ErrorDocument(error=str(error)), status=400)
        except UnreadableView as error:
            return _json(ErrorDocument(error=str(error)), status=503)
        except redis.RedisError as error:
            why = f"the view in Redis at {redis_url} cannot be read now: {in_words(error)}"
            return _json(ErrorDocument(error=why), status=503)
        except web.HTTPNotFound:
            return _json(ErrorDocument(error=f"no such path: {request.path}", links=LINKS), status=404)
        except web.HTTPException as error:
            answer = _json(ErrorDocument(error=error.text or error.reason), status=error.status)
            answer.headers.update(kept(error.headers))
            if error.status == web.HTTPUnauthorized.status_code:
                answer.headers["WWW-Authenticate"] = "Bearer"
            return answer

    return middleware


def _is_browser(request: web.Request) -> bool:
    """Say whether a person asks, who sees the page where programs read the index."""
    return "text/html" in request.headers.get("Accept", "")


def _tagged(request: web.Request, made: Made, content_type: str = "application/json") -> web.Response:
    """Return an answer with its tag, or only that it has not changed since the one that the reader has."""
    tag = ETag(made.tag, is_weak=True)
    if any(each.value in (tag.value, "*") for each in request.if_none_match or ()):
        response = web.Response(status=304)
    else:
        response = web.Response(body=made.body)
        response.content_type = content_type
        if content_type in _TEXTS or content_type.startswith("text/"):
            response.charset = "utf-8"
        if made.is_packed:
            response.headers["Content-Encoding"] = "gzip"
    response.etag = tag
    response.headers.update({"Cache-Control": "no-cache", "Vary": "Accept-Encoding"})
    if made.next_cursor:
        query = urlencode({**request.query, "cursor": made.next_cursor})
        response.headers["Link"] = f'<{request.rel_url.raw_path}?{query}>; rel="next"'
    return response


def _json(document: object, status: int = 200) -> web.Response:
    return web.Response(text=as_text(document), status=status, content_type="application/json")


BUILT = Path(__file__).parent / "page" / "built"
AT = "/page/"
SECURITY = {
    **HEADERS,
    # Nothing from anywhere else, nothing inline, nobody's frame.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
        "worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


class Page:
    """The built files, in memory, also compressed: anybody may ask for them. They hold no data, so no token guards them."""

    def __init__(self) -> None:
        """Read them; there are none in a checkout whose page was never built."""
        found = {path.name: path.read_bytes() for path in sorted(BUILT.glob("*"))} if BUILT.is_dir() else {}
        self._files = {
            (name, may_pack): made_of(body, may_pack=may_pack) for name, body in found.items() for may_pack in (True, False)
        }

    @property
    def is_built(self) -> bool:
        """Say whether there is a page."""
        return bool(self._files)

    def file(self, request: web.Request, name: str) -> web.Response:
        """Return one of its files.

        Raises:
            web.HTTPNotFound: it has no such file.
        """
        made = self._files.get((name, takes_packed(request)))
        if made is None:
            raise web.HTTPNotFound()
        # Asked for again by each load, so that a new version shows at once.
        return _tagged(request, made, mimetypes.guess_type(name)[0] or "application/octet-stream")
