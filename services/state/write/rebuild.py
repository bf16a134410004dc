"""Rebuilds the view from Kafka, for ``surescale state --rebuild``."""

import logging

import redis

from contracts.settings import PipelineSettings
from runtime.kafka_errors import readable_errors
from services.state.write.projector import Projector
from services.state.write.view_store import ViewStore

TIMEOUT_S = 300.0


def rebuild(settings: PipelineSettings, client: redis.Redis) -> str:
    """Flush the view, build it again, and return what was done in words.

    A projector that runs at the same time helps: whichever is first writes.

    Raises:
        TimeoutError: it took longer than ``TIMEOUT_S``.
    """
    store = ViewStore(client, settings.topic_prefix)
    projector = Projector(settings, store, logging.getLogger("surescale.state"))
    try:
        with readable_errors(settings):
            projector.catch_up(TIMEOUT_S)  # fails before anything is flushed if Kafka is away
            flushed = store.flush()
            projector.catch_up(TIMEOUT_S)
    finally:
        projector.close()
    return f"rebuilt from Kafka: {flushed} keys flushed, {len(list(store.own_keys()))} keys now"
