"""The HTTP API over the view: JSON documents, GET only. Reads Redis, never Kafka."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import redis
from aiohttp import web

from services.state.views import LIMIT_MAX, NotFound, Views

LIMIT_DEFAULT = 50
ROUTES = (
    "/health",
    "/jobs",
    "/jobs/{cluster}/{name}",
    "/jobs/{cluster}/{name}/decisions?limit=",
    "/decisions/{id}",
    "/commands/{id}",
    "/clusters/{cluster}",
    "/clusters/{cluster}/info",
    "/dead-letters?limit=",
    "/counts",
    "/clocks",
)

Answered = Callable[[str, int, float], None]  # route, status code, seconds
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def _nobody_counts(_route: str, _code: int, _took_s: float) -> None:
    """Without metrics."""


def make_app(
    views: Views, health: Callable[[], Mapping[str, Any]], *, redis_url: str, answered: Answered = _nobody_counts
) -> web.Application:
    """Return the application; ``health`` is the document of the projector beside it, ``answered`` is told of each answer."""

    async def read(query: Callable[[], Any]) -> web.Response:
        return _json(await asyncio.to_thread(query))

    async def index(_: web.Request) -> web.Response:
        return _json({"name": "surescale", "links": list(ROUTES)})

    async def tell_health(_: web.Request) -> web.Response:
        document = health()
        return _json(document, status=200 if document.get("ready") else 503)

    def job_of(request: web.Request) -> str:
        return f"{request.match_info['cluster']}/{request.match_info['name']}"

    async def decisions(request: web.Request) -> web.Response:
        job, limit = job_of(request), _limit(request)
        return await read(lambda: views.decisions(job, limit))

    async def dead_letters(request: web.Request) -> web.Response:
        limit = _limit(request)
        return await read(lambda: views.dead_letters(limit))

    app = web.Application(middlewares=[_measured(answered), _errors_as_json(redis_url)])
    app.add_routes(
        [
            web.get("/", index),
            web.get("/health", tell_health),
            web.get("/jobs", lambda _: read(views.jobs)),
            web.get("/jobs/{cluster}/{name}", lambda request: read(lambda: views.job(job_of(request)))),
            web.get("/jobs/{cluster}/{name}/decisions", decisions),
            web.get("/decisions/{id:.+}", lambda request: read(lambda: views.decision(request.match_info["id"]))),
            web.get("/commands/{id:.+}", lambda request: read(lambda: views.command(request.match_info["id"]))),
            web.get("/clusters/{cluster}", lambda request: read(lambda: views.cluster(request.match_info["cluster"]))),
            web.get("/clusters/{cluster}/info", lambda request: read(lambda: views.cluster_info(request.match_info["cluster"]))),
            web.get("/dead-letters", dead_letters),
            web.get("/counts", lambda _: read(views.counts)),
            web.get("/clocks", lambda _: read(views.clocks)),
        ]
    )
    return app


def _measured(answered: Answered) -> Any:
    @web.middleware
    async def middleware(request: web.Request, handler: _Handler) -> web.StreamResponse:
        began_s, code = time.monotonic(), 500
        try:
            response = await handler(request)
            code = response.status
            return response
        finally:
            resource = request.match_info.route.resource
            # The route as it is written, not the address: its names would make a series each.
            answered(resource.canonical if resource else "none", code, time.monotonic() - began_s)

    return middleware


def _errors_as_json(redis_url: str) -> Any:
    @web.middleware
    async def middleware(request: web.Request, handler: _Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except NotFound as error:
            return _json({"error": str(error), "near": error.near}, status=404)
        except redis.RedisError as error:
            return _json({"error": f"the view in Redis at {redis_url} cannot be read now: {error}"}, status=503)
        except web.HTTPNotFound:
            return _json({"error": f"no such path: {request.path}", "links": list(ROUTES)}, status=404)
        except web.HTTPException as error:
            return _json({"error": error.text or error.reason}, status=error.status)

    return middleware


def _limit(request: web.Request) -> int:
    text = request.query.get("limit", str(LIMIT_DEFAULT))
    try:
        limit = int(text) if text.isascii() and text.isdigit() else 0
    except ValueError:  # more digits than Python makes a number of
        limit = 0
    if not 1 <= limit <= LIMIT_MAX:
        raise web.HTTPBadRequest(text=f"limit: {text!r} is not a whole number from 1 to {LIMIT_MAX}")
    return limit


def _json(document: Any, status: int = 200) -> web.Response:
    return web.Response(text=json.dumps(document), status=status, content_type="application/json")
