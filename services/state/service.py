"""The state service as a process: one thread runs the projector, the event loop answers HTTP."""

import asyncio
import logging
import math
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import redis
from confluent_kafka import KafkaException

from surescale.contracts.addresses import without_password
from surescale.runtime.backoff import Stopped, Throttle, wait_for
from surescale.runtime.health import HealthServer
from surescale.runtime.kafka import wait_for_topics
from surescale.runtime.kafka_clock import APART_MS, KAFKA_CLOCK, how_long
from surescale.runtime.listen import HalfRequests, listen, runner_of
from surescale.runtime.metrics import Reading, RoleMetrics, Tally
from surescale.runtime.watchdog import Watchdog
from surescale.services.state import metrics
from surescale.services.state.access import ServedCertificate, Tokens, is_loopback
from surescale.services.state.api import make_app
from surescale.services.state.connection import Credentials, ViewEvicted, ahead_of_redis_ms, connect, evicts
from surescale.services.state.counterfactuals import AllCounterfactuals
from surescale.services.state.documents import HealthDocument
from surescale.services.state.notify.notifier import Notifier
from surescale.services.state.operate import Operators
from surescale.services.state.read.queries import Queries
from surescale.services.state.read.together import Together
from surescale.services.state.redis_guard import in_words
from surescale.services.state.scaled_streams.controller import StreamController
from surescale.services.state.settings import StateSettings
from surescale.services.state.write.projections import PROJECTED
from surescale.services.state.write.projector import Projector
from surescale.services.state.write.view_store import ViewStore

if TYPE_CHECKING:
    from surescale.services.state.keda.server import ExternalScaler

READ_WAIT_S = 0.2
CHECK_REDIS_EVERY_S = 15.0
CLOCK_SAID_EVERY_S = 60.0
_LOOK_EVERY_S = 0.05
_REFRESH_EVERY_S = 0.5
_JOIN_WITHIN_S = 5.0


def run(settings: StateSettings, stop: threading.Event, log: logging.Logger) -> None:
    """Keep the view and answer HTTP requests until told to stop.

    Raises:
        SettingsError: the port of the HTTP API is taken, or the address of Redis is not one.
        Exception: a mistake of ours in the projector.
    """
    client = connect(settings.redis_url, Credentials.of(settings))
    queries = Queries(client, settings.topic_prefix)
    queries.policy_folder, queries.span_minutes = settings.policy_folder, settings.span_minutes
    beside: list[Notifier | StreamController] = []
    if settings.notify_url:
        beside.append(Notifier(settings, stop, log))
    if settings.namespaces:
        beside.append(StreamController(settings, queries, stop, log))
    work = _Projection(settings, ViewStore(client, settings.topic_prefix), queries, beside, stop, log)
    shown = queries
    if len(settings.prefixes) > 1:
        shown = Together(client, settings.prefixes, settings.span_minutes)
        shown.policy_folder, shown.clock_apart = settings.policy_folder, work.clock_apart
        work.together = shown
    with (
        Watchdog("state-service", settings.hung_after_s, log) as watchdog,
        HealthServer(settings, work.report, watchdog, work.metrics),
    ):
        for each in beside:
            each.start(watchdog)
        asyncio.run(_serve(settings, shown, work, watchdog, stop, log))
        for each in beside:
            each.join()
    if work.failed is not None:
        raise work.failed


async def _serve(
    settings: StateSettings,
    shown: Queries,
    work: "_Projection",
    watchdog: Watchdog,
    stop: threading.Event,
    log: logging.Logger,
) -> None:
    pulse, scaler = asyncio.create_task(watchdog.pulse("the event loop")), None
    certificate, half_requests = _certificate(settings), HalfRequests()
    app = make_app(
        shown,
        work.health,
        redis_url=without_password(settings.redis_url),
        answered=work.answered,
        tokens=Tokens(settings.http_token_file, settings.http_operate_token_file),
        hosts=frozenset(name.strip().lower() for name in settings.http_hosts.split(",")),
        execute=Operators(settings, shown, log).execute,
        decide_without=AllCounterfactuals(settings, shown.prefix_of).answer,
        half_requests=half_requests,
    )
    runner = runner_of(app)
    await runner.setup()
    try:
        context = certificate.context if certificate else None
        await listen(
            runner, settings.http_host, settings.http_port, option="--port", half_requests=half_requests, context=context
        )
        ends_late = asyncio.create_task(half_requests.end_late(runner))
        scaler = await _scaler(settings, shown, log)
        scheme = "https" if certificate else "http"
        log.info("the page and the API are at %s://%s:%d/", scheme, settings.http_host, settings.http_port)
        if settings.http_operate_token_file and not certificate and not is_loopback(settings.http_host):
            log.warning("tokens that may operate are sent unencrypted; set SURESCALE_HTTP_CERTIFICATE_FILE, or put TLS in front")
        thread = work.start(watchdog)
        refreshes = asyncio.create_task(_refresh(certificate, log))
        while not stop.is_set() and thread.is_alive():
            await asyncio.sleep(_LOOK_EVERY_S)
        stop.set()
        await asyncio.to_thread(thread.join, _JOIN_WITHIN_S)
        ends_late.cancel()
        refreshes.cancel()
    finally:
        pulse.cancel()
        if scaler is not None:
            await scaler.stop()
        await runner.cleanup()


async def _refresh(certificate: ServedCertificate | None, log: logging.Logger) -> None:
    """Take a certificate that has changed, for as long as the service runs."""
    seldom = Throttle()
    while certificate is not None:
        problem = await certificate.refresh()
        if problem is not None and seldom.is_time():
            log.warning("the certificate has changed and cannot be used, the one before it stays: %s", problem)
        await asyncio.sleep(_REFRESH_EVERY_S)


async def _scaler(settings: StateSettings, queries: Queries, log: logging.Logger) -> "ExternalScaler | None":
    """Open KEDA's port, if there is to be one."""
    if not settings.keda_port:
        return None
    from surescale.services.state.keda.server import ExternalScaler  # a large library, and an extra of its own

    scaler = ExternalScaler(settings, queries, log)
    log.info("KEDA's external scaler is at %s:%d", settings.http_host, await scaler.start())
    return scaler


def _certificate(settings: StateSettings) -> ServedCertificate | None:
    if not settings.http_certificate_file:
        return None
    return ServedCertificate(settings.http_certificate_file, settings.http_key_file)


class _Projection:
    """The projector in its thread, its health and its metrics."""

    def __init__(
        self,
        settings: StateSettings,
        store: ViewStore,
        queries: Queries,
        beside: Sequence[Notifier | StreamController],
        stop: threading.Event,
        log: logging.Logger,
    ) -> None:
        self._settings, self._queries, self._beside, self._stop, self._log = settings, queries, beside, stop, log
        self.metrics = RoleMetrics("state-service", metrics.METRICS, self._readings)
        self._projector = Projector(settings, store, log, self.metrics)
        self._requests = Tally()
        self._store, self._checked_s, self._is_evicted, self._says_nothing = store, -math.inf, False, False
        self._away = True
        self._clock_of_redis, self._seldom = "", Throttle(CLOCK_SAID_EVERY_S)
        queries.clock_apart = self.clock_apart
        self.together: Together | None = None
        """The other pipelines that are shown, until those of which nothing is to be seen are named."""
        self.failed: Exception | None = None

    def start(self, watchdog: Watchdog) -> threading.Thread:
        """Begin, in a thread, which is returned."""
        thread = watchdog.thread(self._run, "the projector", lambda: self._stop.is_set() or self.failed is not None)
        thread.start()
        return thread

    def health(self) -> HealthDocument:
        """Return the health document: ready when the view shows what Kafka has, but for what has just arrived."""
        projector = self._projector
        is_ready = projector.is_current and not self._away
        return HealthDocument(role="state-service", ready=is_ready, records=projector.records, rebuilds=projector.rebuilds)

    def report(self) -> Mapping[str, object]:
        """Return the health document for the role's own health endpoint."""
        return {**msgspec.structs.asdict(self.health()), "clock": self.clock_apart()}

    def clock_apart(self) -> str:
        """Return whose clock is apart from Kafka's, or from that of Redis while Kafka's is not known; empty: nobody's."""
        return KAFKA_CLOCK.apart_in_words() or ("" if KAFKA_CLOCK.is_known else self._clock_of_redis)

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
        yield Reading(metrics.HELD_BACK, projector.stable_offset_lag.seconds())
        for each in self._beside:
            yield from each.readings()
        with suppress(redis.RedisError):  # the service is not ready then, and says so
            jobs = self._queries.jobs()
            yield from metrics.of_jobs(jobs)
            present = [each.job for each in jobs if each.status not in metrics.GONE]
            yield from metrics.of_tasks(*self._queries.task_figures(present))
            yield from metrics.of_shadows(self._queries.shadows())

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
            if time.monotonic() - self._checked_s >= CHECK_REDIS_EVERY_S:
                self._check_redis()
            self._projector.step(READ_WAIT_S)
        except (KafkaException, redis.RedisError) as error:
            self._away = True
            if isinstance(error, redis.RedisError):
                raise redis.RedisError(in_words(error)) from None
            raise
        self._away = False
        if (words := self.clock_apart()) and self._seldom.is_time():
            self._log.warning("%s", words)
        if self.together is not None and self._projector.is_current:
            self._say_silent(self.together)
            self.together = None

    def _say_silent(self, together: Together) -> None:
        """Name the other pipelines of which nothing is to be seen: most likely a prefix is mistyped."""
        with suppress(redis.RedisError):  # the next step says that Redis is away
            for prefix, why in together.silent().items():
                if prefix != self._settings.topic_prefix:
                    self._log.warning("SURESCALE_HTTP_OTHER_PREFIXES: %s: %s", prefix, why)

    def _check_redis(self) -> None:
        """Refuse a Redis that drops keys, and build the view anew once it no longer does, or where keys are missing."""
        try:
            policy = evicts(self._store.client)
        except redis.ResponseError as error:  # a managed one may not say
            if not self._says_nothing:
                self._log.warning("Redis does not say whether it drops keys when it is full (%s); see that it does not", error)
            policy, self._says_nothing = "", True
        with suppress(redis.ResponseError):  # a managed one may not say
            ahead_ms = ahead_of_redis_ms(self._store.client)
            where, long = "ahead of" if ahead_ms > 0 else "behind", how_long(abs(ahead_ms))
            words = f"the clock of {socket.gethostname()} is {long} {where} that of Redis; set both right (NTP)"
            self._clock_of_redis = words if abs(ahead_ms) > APART_MS else ""
        if policy:
            self._is_evicted = True
            raise ViewEvicted(policy)
        if self._is_evicted:
            self._store.give_up()
            self._is_evicted = False
        if self._store.positions() is not None and not self._store.is_whole():
            self._log.warning("the view in Redis has lost keys, or entries of one; it is rebuilt from Kafka")
            self._store.give_up()
        self._checked_s = time.monotonic()
