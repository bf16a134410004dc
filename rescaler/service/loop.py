"""The rescaler's process from start to end: wait for Kafka, run one session after the other, serve health and metrics."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from confluent_kafka import KafkaException
from msgspec.structs import replace

from surescale.contracts.errors import RecordRejected
from surescale.contracts.job_settings import JobSettings, Pause, newer
from surescale.contracts.pauses import all_jobs_of
from surescale.contracts.record_keys import decode_under
from surescale.contracts.topics import (
    DEAD_LETTERS,
    DECISIONS,
    JOB_SETTINGS,
    RESCALER_STATE,
    RESCHEDULE_COMMANDS,
    RESCHEDULE_EVENTS,
)
from surescale.engines.ports.actuator import EngineApi, TendsWorkers
from surescale.rescaler.service.active import ActiveRescaler, activate
from surescale.rescaler.service.pipeline_view import VIEWED
from surescale.rescaler.service.session import Session, decisions_of, group_member
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.status import Status
from surescale.runtime.backoff import Stopped
from surescale.runtime.beats import pause
from surescale.runtime.health import HealthServer
from surescale.runtime.kafka import LogReader, wait_for_topics
from surescale.runtime.kafka_transactions import TransactionLost
from surescale.runtime.topic_ids import TopicIds
from surescale.runtime.topic_records import key_of, send, value_of
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


REMEMBERED = (RESCALER_STATE, JOB_SETTINGS)
"""Topics without which the rescaler does not know what it did, or what it may do."""
BY = "surescale"
_VERSION_MAX = 2**53  # a `Count`


def hold(settings: RescalerSettings, lost: Sequence[str], log: logging.Logger) -> None:
    """Pause every job of the cluster, in both directions, until somebody resumes it. ``lost``: topics that were made again.

    A Kafka that came back empty has neither bounds nor pauses nor the generations that were counted.

    Raises:
        KafkaException, TimeoutError, ConnectionError: Kafka does not answer, or refuses, and nothing was written.
    """
    reader = LogReader(settings, [JOB_SETTINGS])
    try:
        records = [(key_of(record), value_of(record)) for record in reader.read_to_end()]
    finally:
        reader.close()
    before = newest(records, all_jobs_of(settings.cluster))
    held = held_from(before, lost, settings.cluster, 0 if settings.pipeline_clock else time.time_ns() // 1_000_000)
    if held is not before:
        send(settings, JOB_SETTINGS, held.job, held)
    log.error("%s made again: cluster %s is paused: %s", ", ".join(lost), settings.cluster, held.pause and held.pause.why)


def newest(records: Iterable[tuple[bytes | None, bytes | None]], job: str) -> JobSettings:
    """Return the settings in force under a name, by the topic's keys and values in order; what cannot be read does not count."""
    latest = JobSettings(job=job)
    for key, value in records:
        try:
            found = decode_under(key, value, JobSettings)
        except RecordRejected:
            continue
        if found.job == job:
            latest = newer(latest, found)
    return latest


def held_from(before: JobSettings, lost: Sequence[str], cluster: str, now_ms: int) -> JobSettings:
    """Return the settings of all jobs with a pause of both directions; as they are if they have one until further notice.

    ``now_ms``: by the pipeline's clock; 0: it has not been seen.
    """
    given = before.pause
    if given is not None and given.direction == "both" and given.until_ms is None:
        return before
    why = (
        f"Kafka's topics {' and '.join(lost)} were made again, so what was remembered and set is gone; "
        f"set the jobs' limits again, then `surescale cluster resume {cluster}`"
    )
    pause = Pause(why=why[:256], by=BY, at_ms=now_ms)
    return replace(before, version=min(before.version + 1, _VERSION_MAX), pause=pause, set_by=BY, set_at_ms=now_ms, request=None)
