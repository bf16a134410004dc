"""The agent as a process: Faust wiring, at-least-once delivery, health, an orderly end. Decides nothing."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any

import faust
from aiokafka.errors import KafkaError

from contracts.dead_letters import Coordinates, dead_letter
from contracts.errors import RecordRejected
from contracts.ids import cluster_of
from contracts.messages import Decision
from contracts.topics import DEAD_LETTERS, DECISIONS, JOB_SETTINGS, POLICY_RELEASES, RECORD_BYTES_MAX, SNAPSHOTS, TopicNames
from contracts.wire import encode
from runtime.backoff import Stopped
from runtime.health import HealthServer
from runtime.kafka import wait_for_topics
from services.agent.answering import Answerer
from services.agent.job_settings import JobSettingsView
from services.agent.progress import Progress
from services.agent.quieting import Quieting
from services.agent.settings import AgentSettings
from services.agent.transport import read_committed

if TYPE_CHECKING:
    from policies.policy import Policy

READS_AND_WRITES = (SNAPSHOTS, JOB_SETTINGS, POLICY_RELEASES, DECISIONS, DEAD_LETTERS)
WINDOWS_IN_MEMORY = 16  # a window may have 16 MiB
COMMIT_EVERY_S = 1.0
STOP_WITHIN_S = 4.0
AGAIN_AFTER_S = 1.0
_LOOK_EVERY_S = 0.05


def run(settings: AgentSettings, stop: threading.Event, log: logging.Logger) -> None:
    """Decide until told to stop.

    Raises:
        Exception: a mistake of ours; the window it happened on was not committed and will be read again.
    """
    for ours in ("services.agent.transport", "services.agent.worker"):
        logging.getLogger(ours).setLevel(logging.WARNING)  # Faust's own life cycle, told under the names of our modules
    for handler in logging.getLogger().handlers:
        handler.addFilter(Quieting(("aiokafka", "surescale.librdkafka")))
    progress = Progress()
    with HealthServer(settings, progress.report, progress.metrics):
        while not stop.is_set() and progress.failed is None:
            try:
                wait_for_topics(settings, READS_AND_WRITES, stop=stop, log=log)
            except Stopped:
                return
            asyncio.run(_serve(settings, progress, stop, log))
            progress.partitions = 0
    if progress.failed is not None:
        raise progress.failed


def warn_if_unavailable(policy: "Policy", log: logging.Logger) -> None:
    """Say at once that the agents' own policy cannot be had; each decision says so too, and a rule answers in its place."""
    from policies.registry import Unavailable

    if isinstance(policy, Unavailable):
        log.warning("policy %s cannot be used, a rule answers in its place: %s", policy.name, policy.reason)


async def _serve(settings: AgentSettings, progress: Progress, stop: threading.Event, log: logging.Logger) -> None:
    """Run one Faust app until told to stop, or until it ends by itself because Kafka went away."""
    let_go = threading.Event()  # whoever waits for Kafka in a thread lets go with this app
    view = JobSettingsView(settings, stop=let_go, log=log)
    app = build_app(settings)
    _wire(app, _Desk(settings, view, app, progress, log), progress)
    log.info("deciding with policy %s on windows of %s", settings.policy, settings.bootstrap)
    starting = asyncio.ensure_future(app.start())
    while not (stop.is_set() or progress.failed or app.should_stop or _gave_up(starting, log)):
        await asyncio.sleep(_LOOK_EVERY_S)
    let_go.set()
    await _stop(app, stop)
    view.close()
    if not (stop.is_set() or progress.failed):
        log.warning("Faust ended by itself and is started again")
        await asyncio.sleep(AGAIN_AFTER_S)


def _gave_up(starting: "asyncio.Future[None]", log: logging.Logger) -> bool:
    """Say whether Faust could not start because Kafka went away; any other error of it is raised."""
    error = starting.exception() if starting.done() else None
    if error is not None and not isinstance(error, KafkaError):
        raise error
    if error is not None:
        log.warning("Kafka went away while Faust started: %s", error)
    return error is not None


async def _stop(app: faust.App, stop: threading.Event) -> None:
    """Stop Faust. While its broker is away it would not end: then the process ends without it.

    Nothing is lost by that: a window whose decision is not in Kafka was not committed.
    """
    stopping = asyncio.ensure_future(app.stop())
    while not stopping.done():
        await asyncio.wait({stopping}, timeout=STOP_WITHIN_S)
        if stop.is_set() and not stopping.done():
            logging.shutdown()
            os._exit(0)


class _App(faust.App):
    def _create_directories(self) -> None:
        """Faust's folders hold tables. There are none, so nothing is left behind, even by kill -9."""


def build_app(settings: AgentSettings) -> faust.App:
    """Return a Faust app without tables, folders, web server or topics of its own."""
    session_s = settings.agent_session_ms / 1000
    app = _App(
        f"{settings.topic_prefix}surescale-agent",
        broker=[f"kafka://{server.strip()}" for server in settings.bootstrap.split(",")],
        autodiscover=False,
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        processing_guarantee="at_least_once",
        broker_session_timeout=session_s,
        broker_heartbeat_interval=session_s / 4,
        broker_request_timeout=60.0,
        broker_max_poll_records=WINDOWS_IN_MEMORY,
        broker_commit_interval=COMMIT_EVERY_S,
        stream_buffer_maxsize=WINDOWS_IN_MEMORY,
        stream_wait_empty=False,
        producer_acks=-1,
        producer_max_request_size=RECORD_BYTES_MAX,
        worker_redirect_stdouts=False,
    )
    read_committed(app)
    return app


class _Desk:
    """Handles one window after the other and returns when its answer is acknowledged by Kafka."""

    def __init__(
        self, settings: AgentSettings, view: JobSettingsView, app: faust.App, progress: Progress, log: logging.Logger
    ) -> None:
        full = TopicNames(settings.topic_prefix)
        self.windows = _raw_topic(app, full(SNAPSHOTS))
        self._decisions = _raw_topic(app, full(DECISIONS))
        self._dead_letters = _raw_topic(app, full(DEAD_LETTERS))
        self._view, self._progress, self._log = view, progress, log
        self._answerer = Answerer(
            view.of, policy=settings.policy, folder=settings.policy_folder, seed=settings.seed, released=view.released
        )
        warn_if_unavailable(self._answerer.policy(settings.policy), log)  # which loads it before the first window

    async def handle(self, event: faust.Event) -> None:
        raw, record = event.value, event.message
        self._progress.windows += 1
        began_s = time.monotonic()
        try:
            decision = await asyncio.to_thread(self._answer, raw)
        except RecordRejected as error:
            at = Coordinates(record.topic, record.partition, record.offset)
            await _send(self._dead_letters, record.key, encode(dead_letter(at, raw, error, refused_by="agent")))
            self._progress.refused(error.reason)
            self._log.warning("%s[%d]@%d is refused: %s", at.topic, at.partition, at.offset, error)
            return
        if decision is not None:
            took_s = time.monotonic() - began_s
            await _send(self._decisions, cluster_of(decision.job).encode(), encode(decision))
            self._progress.decided(decision, took_s)
            fields = {"job": decision.job, "decision_id": decision.decision_id, "policy": decision.policy.name}
            self._log.debug("%s: %s", decision.action, decision.reason, extra=fields)

    def _answer(self, raw: bytes | None) -> Decision | None:
        self._view.refresh()
        return self._answerer.answer(raw)


def _raw_topic(app: faust.App, name: str) -> faust.Topic:
    return app.topic(name, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")


async def _send(topic: faust.Topic, key: bytes | None, value: bytes) -> None:
    acknowledged = await topic.send(key=key, value=value)
    await acknowledged


def _wire(app: faust.App, desk: _Desk, progress: Progress) -> None:
    async def decide_windows(stream: faust.Stream) -> None:
        # Faust acknowledges a window when its loop is left, also by an exception or by the end of the process. Here it is
        # acknowledged only when its decision is in Kafka.
        events: AsyncIterable[faust.Event] = stream.noack().events()
        async for event in events:
            if progress.failed is not None:
                return
            try:
                await desk.handle(event)
            except Stopped:
                return
            except Exception as error:
                progress.failed = error
                return
            event.ack()

    async def assigned(_app: faust.App, partitions: set[Any], **_: object) -> None:
        progress.partitions = len(partitions)

    async def revoked(_app: faust.App, _partitions: set[Any], **_: object) -> None:
        progress.partitions = 0

    app.agent(desk.windows, name="decide-windows")(decide_windows)
    app.on_partitions_assigned.connect(assigned, weak=False)
    app.on_partitions_revoked.connect(revoked, weak=False)
