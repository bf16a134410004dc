"""The state service as a process: one thread projects, the event loop answers HTTP."""

import asyncio
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import redis
from aiohttp import web
from confluent_kafka import KafkaException

from contracts.settings import without_password
from runtime.backoff import Stopped, wait_for
from runtime.health import HealthServer
from runtime.kafka import wait_for_topics
from runtime.metrics import Reading, RoleMetrics, Tally
from services.listening import listen
from services.state import metrics
from services.state.api import make_app
from services.state.project import PROJECTED
from services.state.projector import Projector
from services.state.settings import StateSettings
from services.state.view_store import ViewStore, connect
from services.state.views import Views

READ_WAIT_S = 0.2
_LOOK_EVERY_S = 0.05
_JOIN_WITHIN_S = 5.0


def run(settings: StateSettings, stop: threading.Event, log: logging.Logger) -> None:
    """Project and answer until told to stop.

    Raises:
        SettingsError: the port of the HTTP API is taken, or the address of Redis is none.
        Exception: a mistake of ours in the projector.
    """
    store = ViewStore(connect(settings.redis_url), settings.topic_prefix)
    work = _Projection(settings, store, stop, log)
    with HealthServer(settings, work.report, work.metrics):
        asyncio.run(_serve(settings, store, work, stop, log))
    if work.failed is not None:
        raise work.failed


async def _serve(
    settings: StateSettings, store: ViewStore, work: "_Projection", stop: threading.Event, log: logging.Logger
) -> None:
    shown_url = without_password(settings.redis_url)
    app = make_app(Views(store), work.report, redis_url=shown_url, answered=work.answered)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await listen(runner, settings.http_host, settings.http_port, option="--port")
        log.info("answering at http://%s:%d/", settings.http_host, settings.http_port)
        work.thread.start()
        while not stop.is_set() and work.thread.is_alive():
            await asyncio.sleep(_LOOK_EVERY_S)
        stop.set()
        await asyncio.to_thread(work.thread.join, _JOIN_WITHIN_S)
    finally:
        await runner.cleanup()


class _Projection:
    """The projector in its thread, with what its health document tells."""

    def __init__(self, settings: StateSettings, store: ViewStore, stop: threading.Event, log: logging.Logger) -> None:
        self._settings, self._stop, self._log = settings, stop, log
        self.metrics = RoleMetrics("state-service", metrics.METRICS, self._readings)
        self._projector = Projector(settings, store, log, self.metrics)
        self._requests = Tally()
        self._away = True
        self.failed: Exception | None = None
        self.thread = threading.Thread(target=self._run, name="projector", daemon=True)

    def report(self) -> Mapping[str, Any]:
        """Return the health document: ready when the view shows everything that Kafka had at the last step."""
        projector = self._projector
        return {
            "role": "state-service",
            "ready": projector.caught_up and not self._away,
            "records": projector.records,
            "rebuilds": projector.rebuilds,
        }

    def answered(self, route: str, code: int, took_s: float) -> None:
        """Take note of an answer of the HTTP API."""
        self._requests.add(route, str(code))
        self.metrics.observe(metrics.HTTP_DURATION, took_s, route)

    def _readings(self) -> Iterator[Reading]:
        projector = self._projector
        yield from projector.taken.readings(metrics.RECORDS_READ)
        yield from projector.unreadable.readings(metrics.UNREADABLE)
        yield from self._requests.readings(metrics.HTTP_REQUESTS)
        yield Reading(metrics.REBUILDS, projector.rebuilds)
        if (lag := projector.lag) is not None:
            yield Reading(metrics.LAG, lag)

    def _run(self) -> None:
        try:
            self._project()
        except Stopped:
            pass
        except Exception as error:
            self.failed = error
        finally:
            self._projector.close()

    def _project(self) -> None:
        wait_for_topics(self._settings, PROJECTED, stop=self._stop, log=self._log)
        what = f"Redis at {without_password(self._settings.redis_url)} and Kafka at {self._settings.bootstrap}"
        while not self._stop.is_set():
            wait_for(what, self._step, expected=(KafkaException, redis.RedisError), stop=self._stop, log=self._log)

    def _step(self) -> None:
        try:
            self._projector.step(READ_WAIT_S)
        except (KafkaException, redis.RedisError):
            self._away = True
            raise
        self._away = False
