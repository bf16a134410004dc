"""The rescaler's process from start to end: wait for Kafka, run one session after the other, serve health and metrics."""

import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial

from confluent_kafka import KafkaException

from surescale.contracts.topics import DEAD_LETTERS, DECISIONS, RESCALER_STATE, RESCHEDULE_COMMANDS, RESCHEDULE_EVENTS
from surescale.engines.ports.actuator import EngineApi, TendsWorkers
from surescale.rescaler.service.active import ActiveRescaler, activate
from surescale.rescaler.service.lost_topics import REMEMBERED, hold
from surescale.rescaler.service.pipeline_view import VIEWED
from surescale.rescaler.service.session import Session, decisions_of, group_member
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.status import Status
from surescale.rescaler.service.transactions import TransactionLost
from surescale.runtime.backoff import Stopped
from surescale.runtime.beats import pause
from surescale.runtime.health import HealthServer
from surescale.runtime.kafka import wait_for_topics
from surescale.runtime.topic_ids import TopicIds
from surescale.runtime.tracing.setup import tracer_of
from surescale.runtime.watchdog import Watchdog

PAUSE_S = 0.5  # before the next session; waiting for Kafka itself has its own back-off
NEEDED = (*VIEWED, DECISIONS, RESCHEDULE_COMMANDS, RESCHEDULE_EVENTS, RESCALER_STATE, DEAD_LETTERS)

Activate = Callable[..., ActiveRescaler]
"""Called as `rescaler.service.active.activate`."""


def run(
    settings: RescalerSettings,
    engine: EngineApi,
    stop: threading.Event,
    log: logging.Logger,
    *,
    activate: Activate = activate,
) -> None:
    """Run sessions until ``stop`` is set; ``activate`` connects an active rescaler.

    Raises:
        Fenced: another process has become the active rescaler of the cluster.
    """
    status, tracer = Status(settings.cluster), tracer_of("rescaler")
    with (
        Watchdog("rescaler", settings.hung_after_s, log) as watchdog,
        HealthServer(settings, status.report, watchdog, status.metrics),
        contextlib.closing(tracer),
        watchdog.loop("the main loop"),
    ):
        if isinstance(engine, TendsWorkers):
            engine.start()
        topics = TopicIds(settings, REMEMBERED)
        while not stop.is_set():
            try:
                wait_for_topics(settings, NEEDED, stop=stop, log=log)
                if lost := topics.look():
                    hold(settings, lost, log)
                    topics.accept()
                with contextlib.closing(group_member(settings, status.stable_offset_lag, log)) as member:
                    connect = partial(activate, settings, member, engine, status, stop, log, topics, tracer=tracer)
                    Session(settings.cluster, member, decisions_of(settings, member), connect, status, stop, log).run()
            except Stopped:
                return
            except (TransactionLost, KafkaException, TimeoutError, ConnectionError) as error:
                # The memory is on Kafka: the next session begins with what is committed.
                status.state = "starting"
                status.count("sessions_lost")
                status.stable_offset_lag.forget()
                log.warning("starting again from what is committed: %s", error)
                pause(stop, PAUSE_S)
