"""Follows the topic ``clock`` to know the pipeline's time at each record. The edge to Kafka."""

import logging
import threading

from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import ClockSegment
from surescale.contracts.record_keys import decode_under
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK
from surescale.runtime.backoff import Stopped
from surescale.runtime.beats import pause
from surescale.runtime.kafka import LogReader
from surescale.runtime.topic_records import key_of, value_of
from surescale.spark_streaming.columns import Int64
from surescale.spark_streaming.references import TimedSegment, references

_PAUSE_S = 0.1


class PipelineClock:
    """The clock of one pipeline, or the broker's append times if ``pipeline_clock`` is off."""

    def __init__(self, settings: PipelineSettings, *, stop: threading.Event, log: logging.Logger) -> None:
        self._pipeline = settings.pipeline
        self._stop = stop
        self._log = log
        self._segments: list[TimedSegment] = []
        self._reader = LogReader(settings, [CLOCK]) if settings.pipeline_clock else None

    def at(self, append_ms: Int64) -> Int64:
        """Return int64 [n], the pipeline's time when each record was appended.

        Reads the clock to its end first, and waits for the first segment: without one no time is known.

        Raises:
            TimeoutError, KafkaException: the broker does not deliver.
            runtime.backoff.Stopped: the process was told to stop while it waited.
        """
        if self._reader is None or not len(append_ms):
            return append_ms
        self._read(self._reader)
        if not self._segments:
            self._log.warning("records arrived before the first segment of clock %r: waiting for it", self._pipeline)
        while not self._segments:
            if pause(self._stop, _PAUSE_S):
                raise Stopped("the pipeline's clock")
            self._read(self._reader)
        return references(self._segments, append_ms)

    def close(self) -> None:
        """Close the connection."""
        if self._reader is not None:
            self._reader.close()

    def _read(self, reader: LogReader) -> None:
        for record in reader.read_to_end():
            try:
                segment = decode_under(key_of(record), value_of(record), ClockSegment)
            except RecordRejected as rejected:
                self._log.warning("record %d of the clock is not a segment (%s): skipped", record.offset(), rejected)
                continue
            if segment.pipeline == self._pipeline:
                self._segments.append((record.timestamp()[1], segment))
