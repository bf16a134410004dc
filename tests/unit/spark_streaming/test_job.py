"""How the role starts its queries."""

import logging
import threading
from typing import Any, NoReturn

from confluent_kafka import KafkaError, KafkaException

from surescale.spark_streaming.manifest import Manifests
from surescale.spark_streaming.minutes import MinuteRules
from surescale.spark_streaming.places import place_of
from surescale.spark_streaming.settings import SparkSettings
from surescale.spark_streaming.streaming_job import Job


def test_a_broker_that_goes_away_before_the_query_starts_is_waited_for(tmp_path: Any) -> None:
    """It answered a moment ago and does not serve the clock's topic: the role tries again instead of ending."""
    stop = threading.Event()
    tries: list[int] = []

    def away(*_: object, **__: object) -> NoReturn:
        tries.append(len(tries))
        if len(tries) == 2:
            stop.set()
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "the broker is away"))

    role = Job(SparkSettings(pipeline_clock=True), stop=stop, log=logging.getLogger("test"), open_clock=away)
    role.run_queries(None, Manifests(place_of(str(tmp_path)), MinuteRules()), tmp_path)  # type: ignore[arg-type]  # no query starts, so no session is used
    assert len(tries) == 2
    assert role.report()["restarts"] == 2
