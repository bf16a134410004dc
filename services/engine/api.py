"""The engine's HTTP API: JSON for the monitor's source and the rescaler's actuator, and metrics."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec
from aiohttp import web
from msgspec.structs import asdict

from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.errors import RecordRejected
from surescale.contracts.wire import decode
from surescale.runtime.metrics import RoleMetrics
from surescale.runtime.watchdog import Watchdog
from surescale.services.engine import metrics
from surescale.services.engine.clock_driver import ClockDriver
from surescale.services.engine.documents import (
    AcceptedCommand,
    DyingHost,
    EngineError,
    EngineHealth,
    EngineReport,
    Events,
    Figures,
    History,
    JobList,
    JobState,
    JobStatus,
    MinuteDocument,
    ReportedJob,
    StandbyDocument,
)
from surescale.simulation.engine.checked_changes import CONFLICTS, UNKNOWN, EngineRefusal
from surescale.simulation.engine.cluster import SimulatedCluster
from surescale.simulation.engine.hosts import NewHost
from surescale.simulation.engine.running_job import RunningJob
from surescale.simulation.engine.simulated_minute import SimulatedMinute

LONG_POLL_S = 0.5
MINUTES_MAX = 600  # in one answer
FIGURES_BYTES_MAX = 16 * 2**20  # of one answer; it holds at least one minute
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_DRIVER = web.AppKey("driver", ClockDriver)
_READY = web.AppKey[Callable[[], bool]]("ready")
_WATCHDOG = web.AppKey("watchdog", Watchdog)
_METRICS = web.AppKey("metrics", RoleMetrics)
_encoder = msgspec.json.Encoder(order="deterministic")
routes = web.RouteTableDef()


def application(driver: ClockDriver, is_ready: Callable[[], bool], watchdog: Watchdog) -> web.Application:
    """Return the API of one engine; ``is_ready`` says whether Kafka is connected, ``watchdog`` whether a loop hangs."""
    app = web.Application(middlewares=[_refusals, _no_browsers])
    app[_DRIVER] = driver
    app[_READY] = is_ready
    shown = RoleMetrics("engine", metrics.METRICS, lambda: metrics.readings(driver))
    app[_METRICS] = shown.of(lambda: {"ready": is_ready()}, watchdog)
    app[_WATCHDOG] = watchdog
    app.add_routes(routes)
    return app


@web.middleware
async def _refusals(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
    try:
        return await handler(request)
    except EngineRefusal as refusal:
        status = 404 if refusal.code in UNKNOWN else 409 if refusal.code in CONFLICTS else 400
        return _json(EngineError(code=refusal.code, message=refusal.message), status)
    except RecordRejected as rejected:
        return _json(EngineError(code="INVALID_BODY", message=str(rejected)), 400)
    except web.HTTPException as problem:
        body = refused(problem.status, problem.text or problem.reason)
        return web.Response(body=body, status=problem.status, content_type="application/json")


@web.middleware
async def _no_browsers(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Refuse changes that a page in a browser asks for: the person who opens the page may reach this engine without wanting to.

    Browsers send an Origin with every change. A body must be JSON by name too, which a page cannot send without asking first.
    """
    if request.method not in _SAFE:
        if "Origin" in request.headers:
            raise web.HTTPForbidden(text="changes cannot be requested from a browser")
        if request.can_read_body and request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(text="the body must have the content type application/json")
    return await handler(request)


@routes.get("/health")
async def _health(request: web.Request) -> web.Response:
    ready = request.app[_READY]()
    run = asdict(request.app[_DRIVER].progress())
    return _json(EngineHealth(**run, role="engine", ready=ready), 200 if ready else 503)


@routes.get("/live")
async def _live(request: web.Request) -> web.Response:
    document = request.app[_WATCHDOG].document()
    return _json(document, 200 if document["alive"] else 503)


@routes.get("/metrics")
async def _metrics(request: web.Request) -> web.Response:
    page, content_type = request.app[_METRICS].page(request.headers.get("Accept", ""))
    return web.Response(body=page, headers={"Content-Type": content_type})


@routes.get("/clock")
async def _clock(request: web.Request) -> web.Response:
    return _json(request.app[_DRIVER].segment)


@routes.post("/clock/start")
async def _clock_start(request: web.Request) -> web.Response:
    if not request.app[_READY]():
        return _json(EngineError(code="NOT_READY", message="the engine is still waiting for Kafka"), 503)
    request.app[_DRIVER].start()
    return _json(request.app[_DRIVER].segment)


@routes.get("/cluster")
async def _cluster(request: web.Request) -> web.Response:
    driver = _caught_up(request)
    return _json(driver.cluster.topology())


@routes.get("/jobs")
async def _jobs(request: web.Request) -> web.Response:
    driver = _caught_up(request)
    now_ms = driver.cluster.now_ms
    return _json(JobList(jobs=[JobState(job=name, state=job.state_at(now_ms)) for name, job in driver.cluster.jobs.items()]))


@routes.get("/jobs/{name}")
async def _job(request: web.Request) -> web.Response:
    driver = _caught_up(request)
    now_ms = driver.cluster.now_ms
    job = _named(request, driver)
    return _json(
        JobStatus(
            job=job.topology.job,
            state=job.state_at(now_ms),
            topology=job.topology,
            required={spec.task: spec.parallelism for spec in job.wanted_tasks},
            generation=job.topology.generation,
            rescale=job.rescale_at(now_ms),
            standbys=_standbys(job),
        )
    )


@routes.get("/jobs/{name}/figures")
async def _figures(request: web.Request) -> web.Response:
    driver = _caught_up(request)
    job = _named(request, driver).topology.job
    after_ms, limit = query_number(request, "after_ms", 0), min(query_number(request, "limit_minutes", 60), MINUTES_MAX)
    minutes = driver.cluster.minutes_after(job, after_ms, limit)
    if not minutes:
        await driver.wait_for_minute(LONG_POLL_S)
        minutes = driver.cluster.minutes_after(job, after_ms, limit)
    return _json(Figures(minutes=_fitting(driver, minutes)))


@routes.get("/jobs/{name}/history")
async def _history(request: web.Request) -> web.Response:
    driver = request.app[_DRIVER]
    _named(request, driver)
    return _json(History(hours=driver.cluster.history()))


@routes.get("/events")
async def _events(request: web.Request) -> web.Response:
    driver = _caught_up(request)
    return _json(Events(events=driver.cluster.events_after(request.query.get("after", ""))))


@routes.post("/jobs/{name}/checkpoints")
async def _checkpoint(request: web.Request) -> web.Response:
    driver = _caught_up(request)
    return _json(driver.cluster.checkpoint(_named(request, driver).topology.job), 201)


@routes.put("/jobs/{name}/resource-requirements")
async def _requirements(request: web.Request) -> web.Response:
    driver = _caught_up(request)
    job = _named(request, driver).topology.job
    command = decode(await request.read(), RescheduleCommand)
    if command.job != job or command.advice:
        problem = "is advice only" if command.advice else f"is for job {command.job}"
        raise EngineRefusal("INVALID_COMMAND", f"command {command.command_id} {problem}")
    rescale = driver.apply(command)
    accepted = AcceptedCommand(
        command_id=rescale.command_id, effective_at_ms=rescale.effective_at_ms, done_at_ms=rescale.done_at_ms
    )
    return _json(accepted, 202)


@routes.post("/hosts")
async def _host_joins(request: web.Request) -> web.Response:
    driver = _caught_up(request)
    return _json(driver.cluster.host_joins(decode(await request.read(), NewHost)), 201)


@routes.patch("/hosts/{host}")
async def _host_leaves(request: web.Request) -> web.Response:
    driver = _caught_up(request)
    decode(await request.read(), _Leaving)
    return _json(driver.cluster.host_leaves(request.match_info["host"]))


@routes.delete("/hosts/{host}")
async def _host_dies(request: web.Request) -> web.Response:
    driver = _caught_up(request)
    host = request.match_info["host"]
    return _json(DyingHost(host=host, effective_at_ms=driver.cluster.host_dies(host)), 202)


@routes.get("/report")
async def _report(request: web.Request) -> web.Response:
    driver = _caught_up(request)
    with_tasks = "tasks" in request.query
    jobs = {name: _figures_of(driver.cluster, name, with_tasks=with_tasks) for name in driver.cluster.jobs}
    return _json(EngineReport(**asdict(driver.progress()), jobs=jobs))


class _Leaving(msgspec.Struct):
    """The one change that can be requested of a host."""

    state: str

    def __post_init__(self) -> None:
        """Refuse any other state."""
        if self.state != "removed_soon":
            raise ValueError("state can only be set to removed_soon")


def _caught_up(request: web.Request) -> ClockDriver:
    driver = request.app[_DRIVER]
    driver.now_ms()
    return driver


def _named(request: web.Request, driver: ClockDriver) -> RunningJob:
    return driver.cluster.job(request.match_info["name"])


def query_number(request: web.Request, name: str, default: int) -> int:
    """Return a whole number from the query string.

    Raises:
        RecordRejected: it is not one; names the parameter.
    """
    text = request.query.get(name, "")
    if not text:
        return default
    try:
        if not text.isdecimal():
            raise ValueError(text)
        return int(text)
    except ValueError:  # also raised for more digits than Python converts
        raise RecordRejected("invalid_field", name, f"{text[:40]!r} is not a whole number") from None


def _fitting(driver: ClockDriver, minutes: list[SimulatedMinute]) -> list[msgspec.Raw]:
    """Return the documents of the first minutes that fit into one answer."""
    encoded, size = list[msgspec.Raw](), 0
    for minute in minutes:
        raw = _encoder.encode(_minute(driver, minute))
        size += len(raw)
        if encoded and size > FIGURES_BYTES_MAX:
            break
        encoded.append(msgspec.Raw(raw))
    return encoded


def _minute(driver: ClockDriver, minute: SimulatedMinute) -> MinuteDocument:
    return MinuteDocument(
        minute_end_ms=minute.minute_end_ms,
        samples=driver.cluster.samples(minute),
        topology=minute.topology,
        reached_wall_ms=driver.reached_wall_ms(minute.minute_end_ms),
    )


def _figures_of(cluster: SimulatedCluster, name: str, *, with_tasks: bool) -> ReportedJob:
    figures, job = asdict(cluster.report(name)), cluster.jobs[name]
    if not with_tasks:
        del figures["task_parallelism"]
    return ReportedJob(**figures, state=job.state_at(cluster.now_ms), rescale=job.rescale_at(cluster.now_ms))


def _standbys(job: RunningJob) -> list[StandbyDocument]:
    """Return the copies of each unit's state: where they are, and how much they still have to restore."""
    acceptable, lags = job.cost.acceptable_lag_bytes, dict[tuple[int, str], int]()
    for copy in job.standbys.copies:
        lags[copy.unit, copy.host] = lags.get((copy.unit, copy.host), 0) + copy.lag_bytes
    ready = job.standbys.ready(acceptable)
    return [
        StandbyDocument(unit=unit, host=host, lag_bytes=lag, ready=host in ready.get(unit, ()))
        for (unit, host), lag in sorted(lags.items())
    ]


def refused(status: int, why: str) -> bytes:
    """Return the body of a refusal that HTTP has a name for."""
    return _encoder.encode(EngineError(code=HTTPStatus(status).phrase.upper().replace(" ", "_"), message=why))


def _json(document: object, status: int = 200) -> web.Response:
    return web.Response(body=_encoder.encode(document), status=status, content_type="application/json")
