"""The engine's HTTP interface: JSON for the monitor's source and the rescaler's actuator, and the metrics."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

import msgspec
from aiohttp import web

from contracts.commands import RescheduleCommand
from contracts.errors import RecordRejected
from contracts.wire import decode
from runtime.metrics import RoleMetrics
from services.engine import metrics
from services.engine.clockwork import Clockwork
from simulation.hosts import NewHost
from simulation.refusals import CONFLICTS, UNKNOWN, EngineRefusal
from simulation.rescales import Rescale
from simulation.running import RunningJob

LONG_POLL_S = 0.5
MINUTES_MAX = 600  # in one answer
_CLOCKWORK = web.AppKey("clockwork", Clockwork)
_READY = web.AppKey[Callable[[], bool]]("ready")
_METRICS = web.AppKey("metrics", RoleMetrics)
_encoder = msgspec.json.Encoder(order="deterministic")
routes = web.RouteTableDef()


def application(clockwork: Clockwork, is_ready: Callable[[], bool]) -> web.Application:
    """Return the interface of one engine; ``is_ready`` says whether Kafka is connected."""
    app = web.Application(middlewares=[_refusals])
    app[_CLOCKWORK] = clockwork
    app[_READY] = is_ready
    shown = RoleMetrics("engine", metrics.METRICS, lambda: metrics.readings(clockwork))
    app[_METRICS] = shown.of(lambda: {"ready": is_ready()})
    app.add_routes(routes)
    return app


@web.middleware
async def _refusals(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
    try:
        return await handler(request)
    except EngineRefusal as refusal:
        status = 404 if refusal.code in UNKNOWN else 409 if refusal.code in CONFLICTS else 400
        return _json({"code": refusal.code, "message": refusal.message}, status)
    except RecordRejected as rejected:
        return _json({"code": "INVALID_BODY", "message": str(rejected)}, 400)
    except web.HTTPException as problem:
        code = problem.reason.upper().replace(" ", "_")
        return _json({"code": code, "message": problem.text or problem.reason}, problem.status)


@routes.get("/health")
async def _health(request: web.Request) -> web.Response:
    ready = request.app[_READY]()
    return _json({"role": "engine", "ready": ready, **request.app[_CLOCKWORK].report()}, 200 if ready else 503)


@routes.get("/metrics")
async def _metrics(request: web.Request) -> web.Response:
    page, content_type = request.app[_METRICS].page(request.headers.get("Accept", ""))
    return web.Response(body=page, headers={"Content-Type": content_type})


@routes.get("/clock")
async def _clock(request: web.Request) -> web.Response:
    return _json(request.app[_CLOCKWORK].segment)


@routes.post("/clock/start")
async def _clock_start(request: web.Request) -> web.Response:
    if not request.app[_READY]():
        return _json({"code": "NOT_READY", "message": "the engine still waits for Kafka"}, 503)
    request.app[_CLOCKWORK].start()
    return _json(request.app[_CLOCKWORK].segment)


@routes.get("/cluster")
async def _cluster(request: web.Request) -> web.Response:
    clockwork = _caught_up(request)
    return _json(clockwork.cluster.topology())


@routes.get("/jobs")
async def _jobs(request: web.Request) -> web.Response:
    clockwork = _caught_up(request)
    now_ms = clockwork.cluster.now_ms
    return _json({"jobs": [{"job": name, "state": job.state_at(now_ms)} for name, job in clockwork.cluster.jobs.items()]})


@routes.get("/jobs/{name}")
async def _job(request: web.Request) -> web.Response:
    clockwork = _caught_up(request)
    now_ms = clockwork.cluster.now_ms
    job = _named(request, clockwork)
    rescale = job.rescale_at(now_ms)
    return _json(
        {
            "job": job.topology.job,
            "state": job.state_at(now_ms),
            "topology": job.topology,
            "generation": job.topology.generation,
            "rescale": rescale and _rescale(rescale),
            "standbys": _standbys(job),
        }
    )


@routes.get("/jobs/{name}/figures")
async def _figures(request: web.Request) -> web.Response:
    clockwork = _caught_up(request)
    job = _named(request, clockwork).topology.job
    after_ms, limit = _number(request, "after_ms", 0), min(_number(request, "limit_minutes", 60), MINUTES_MAX)
    minutes = clockwork.cluster.minutes_after(job, after_ms, limit)
    if not minutes:
        await clockwork.wait_for_minute(LONG_POLL_S)
        minutes = clockwork.cluster.minutes_after(job, after_ms, limit)
    return _json(
        {
            "minutes": [
                {
                    "minute_end_ms": minute.minute_end_ms,
                    "samples": clockwork.cluster.samples(minute),
                    "topology": minute.topology,
                    "reached_wall_ms": clockwork.reached_wall_ms(minute.minute_end_ms),
                }
                for minute in minutes
            ]
        }
    )


@routes.get("/jobs/{name}/history")
async def _history(request: web.Request) -> web.Response:
    clockwork = request.app[_CLOCKWORK]
    _named(request, clockwork)
    return _json({"hours": clockwork.cluster.history()})


@routes.get("/events")
async def _events(request: web.Request) -> web.Response:
    clockwork = _caught_up(request)
    return _json({"events": clockwork.cluster.events[_number(request, "after", 0) :]})


@routes.post("/jobs/{name}/checkpoints")
async def _checkpoint(request: web.Request) -> web.Response:
    clockwork = _caught_up(request)
    return _json(clockwork.cluster.checkpoint(_named(request, clockwork).topology.job), 201)


@routes.put("/jobs/{name}/resource-requirements")
async def _requirements(request: web.Request) -> web.Response:
    clockwork = _caught_up(request)
    job = _named(request, clockwork).topology.job
    command = decode(await request.read(), RescheduleCommand)
    if command.job != job or command.advice:
        problem = "is only advice" if command.advice else f"is for job {command.job}"
        raise EngineRefusal("INVALID_COMMAND", f"command {command.command_id} {problem}")
    rescale = clockwork.apply(command)
    answer = ("command_id", "effective_at_ms", "done_at_ms")
    return _json({name: getattr(rescale, name) for name in answer}, 202)


@routes.post("/hosts")
async def _host_joins(request: web.Request) -> web.Response:
    clockwork = _caught_up(request)
    return _json(clockwork.cluster.host_joins(decode(await request.read(), NewHost)), 201)


@routes.patch("/hosts/{host}")
async def _host_leaves(request: web.Request) -> web.Response:
    clockwork = _caught_up(request)
    decode(await request.read(), _Leaving)
    return _json(clockwork.cluster.host_leaves(request.match_info["host"]))


@routes.delete("/hosts/{host}")
async def _host_dies(request: web.Request) -> web.Response:
    clockwork = _caught_up(request)
    host = request.match_info["host"]
    return _json({"host": host, "effective_at_ms": clockwork.cluster.host_dies(host)}, 202)


@routes.get("/report")
async def _report(request: web.Request) -> web.Response:
    clockwork = _caught_up(request)
    cluster = clockwork.cluster
    jobs: dict[str, dict[str, Any]] = {}
    for name in cluster.jobs:
        figures = asdict(cluster.report(name))
        if "tasks" not in request.query:
            del figures["task_parallelism"]
        rescale = cluster.jobs[name].rescale_at(cluster.now_ms)
        jobs[name] = figures | {"state": cluster.jobs[name].state_at(cluster.now_ms), "rescale": rescale and _rescale(rescale)}
    return _json({**clockwork.report(), "jobs": jobs})


class _Leaving(msgspec.Struct):
    """The one change that a host can be told of."""

    state: str

    def __post_init__(self) -> None:
        """Refuse any other state."""
        if self.state != "removed_soon":
            raise ValueError("state can only be set to removed_soon")


def _caught_up(request: web.Request) -> Clockwork:
    clockwork = request.app[_CLOCKWORK]
    clockwork.now_ms()
    return clockwork


def _named(request: web.Request, clockwork: Clockwork) -> RunningJob:
    return clockwork.cluster.job(request.match_info["name"])


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, "")
    if not text:
        return default
    try:
        if not text.isdecimal():
            raise ValueError(text)
        return int(text)
    except ValueError:  # also of more digits than Python makes a number of
        raise RecordRejected("invalid_field", name, f"{text!r} is not a whole number") from None


def _rescale(rescale: Rescale) -> dict[str, Any]:
    return asdict(rescale)


def _standbys(job: RunningJob) -> list[dict[str, Any]]:
    """Return the copies of each unit's state: where they are, and what they have still to restore."""
    acceptable, lags = job.cost.acceptable_lag_bytes, dict[tuple[int, str], int]()
    for copy in job.standbys.copies:
        lags[copy.unit, copy.host] = lags.get((copy.unit, copy.host), 0) + copy.lag_bytes
    ready = job.standbys.ready(acceptable)
    return [
        {"unit": unit, "host": host, "lag_bytes": lag, "ready": host in ready.get(unit, ())}
        for (unit, host), lag in sorted(lags.items())
    ]


def _json(document: object, status: int = 200) -> web.Response:
    return web.Response(body=_encoder.encode(document), status=status, content_type="application/json")
