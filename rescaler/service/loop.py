"""The rescaler's process from start to end: wait for Kafka, serve sessions one after the other, tell its health."""

import logging
import threading

from confluent_kafka import KafkaException

from contracts.topics import DEAD_LETTERS, DECISIONS, RESCALER_STATE, RESCHEDULE_COMMANDS
from rescaler.actuators.base import EngineApi
from rescaler.service.session import Session
from rescaler.service.settings import RescalerSettings
from rescaler.service.status import Status
from rescaler.service.transactions import Lost
from rescaler.service.views import VIEWED
from runtime.backoff import Stopped
from runtime.health import HealthServer
from runtime.kafka import wait_for_topics

PAUSE_S = 0.5  # before the next session; waiting for Kafka itself has its own back-off
NEEDED = (*VIEWED, DECISIONS, RESCHEDULE_COMMANDS, RESCALER_STATE, DEAD_LETTERS)


def run(settings: RescalerSettings, engine: EngineApi, stop: threading.Event, log: logging.Logger) -> None:
    """Serve until told to stop.

    Raises:
        Fenced: another process has become the active rescaler of the cluster.
    """
    status = Status(settings.cluster)
    with HealthServer(settings, status.report, status.metrics):
        while not stop.is_set():
            try:
                wait_for_topics(settings, NEEDED, stop=stop, log=log)
                Session(settings, engine, status, stop, log).run()
            except Stopped:
                return
            except (Lost, KafkaException, TimeoutError) as error:
                # The memory is on Kafka: the next session begins with what is committed.
                status.state = "starting"
                status.count("sessions_lost")
                log.warning("starting again from what is committed: %s", error)
                stop.wait(PAUSE_S)
