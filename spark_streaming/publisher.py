"""Produces windows and dead letters and waits for their acknowledgement. The edge to Kafka; keeps no state."""

from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import Coordinates, DeadLetter, dead_letter, key_of_letter
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.summaries import SUMMARY_HEADER, encode_header
from surescale.contracts.summing_up import headers_of
from surescale.contracts.topics import DEAD_LETTERS, SNAPSHOTS, TASK_METRICS, TopicNames
from surescale.contracts.windows import Window, compressor, encode_window
from surescale.contracts.wire import encode
from surescale.runtime.kafka import producer
from surescale.runtime.kafka_errors import refusal_of
from surescale.runtime.tracing.context import parsed
from surescale.runtime.tracing.conventions import processed
from surescale.runtime.tracing.spans import NO_TRACER, Attributes, Span, Tracer
from surescale.spark_streaming.minutes import Refused

Headers = list[tuple[str, str | bytes | None]]

REFUSED_BY = "spark_streaming"
MINUTE_HEADER = "minute"
_POLL_S = 0.2


class Publisher:
    """Writes to ``snapshots`` and ``dead-letters``."""

    def __init__(self, settings: PipelineSettings, client: Producer | None = None, tracer: Tracer = NO_TRACER) -> None:
        """``tracer``: of the windows."""
        self._topic = TopicNames(settings.topic_prefix)
        self._client = client or producer(settings)
        self._failed: KafkaError | None = None
        """Names the topic, too."""
        self._tracer = tracer
        self._packer = compressor()
        self._spans: list[Span] = []  # of windows that are not acknowledged

    def windows(
        self, windows: Sequence[Window], traces: Mapping[tuple[str, int], bytes] = {}, began_ns: int | None = None
    ) -> list[RecordRejected]:
        """Produce windows, key = job, with headers: ``minute`` (the window's end), ``summary``, and ``traceparent`` if traced.

        Windows that are too large become dead letters; return the reason for each.

        Args:
            windows: some or all of one batch.
            traces: job and end -> header of the marker that closed the window's last minute.
            began_ns: wall time at which the batch began.
        """
        too_large: list[RecordRejected] = []
        for window, header in zip(windows, headers_of(windows), strict=True):
            try:
                value = encode_window(window, self._packer)
            except RecordRejected as rejected:
                self._dead_letter(_too_large(f"{self._topic(SNAPSHOTS)}/{window.job}", window, rejected), window.job.encode())
                too_large.append(rejected)
                continue
            headers: Headers = [
                (MINUTE_HEADER, str(window.window_end_ms).encode()),
                (SUMMARY_HEADER, encode_header(header)),
                *self._traced(window, traces, began_ns),
            ]
            self._produce(SNAPSHOTS, window.job.encode(), value, headers)
        return too_large

    def dead_letters(self, refused: Iterable[Refused]) -> None:
        """Produce one dead letter per refused record, under the record's own key."""
        for record in refused:
            at = Coordinates(self._topic(TASK_METRICS), record.partition, record.offset)
            why = RecordRejected(record.reason, record.field, record.message)
            self._dead_letter(dead_letter(at, record.payload, why, refused_by=REFUSED_BY), record.key)

    def flush_or_raise(self) -> None:
        """Wait until the broker has acknowledged everything.

        Raises:
            KafkaException: a record was not delivered.
        """
        self._client.flush()
        spans, self._spans = self._spans, []
        for span in spans:
            if self._failed is not None:
                span.fail(self._failed.str())
            span.end()
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise KafkaException(failed)

    def _traced(self, window: Window, traces: Mapping[tuple[str, int], bytes], began_ns: int | None) -> Headers:
        """Begin the span of a window, below the minute whose marker closed it; it ends with the acknowledgement."""
        if not self._tracer.is_on:
            return []
        above = parsed(traces.get((window.job, window.window_end_ms)))
        attributes: Attributes = {
            "surescale.job": window.job,
            "surescale.minute_end_ms": window.window_end_ms,
            **processed(self._topic(TASK_METRICS)),
        }
        span = self._tracer.begin("spark.window", above, kind="consumer", attributes=attributes, began_ns=began_ns)
        span.note({"surescale.window_id": window.id, "surescale.completeness": window.completeness})
        self._spans.append(span)
        return [*span.headers()]

    def _dead_letter(self, letter: DeadLetter, key: bytes | None) -> None:
        self._produce(DEAD_LETTERS, key_of_letter(key), encode(letter), [])

    def _produce(self, name: str, key: bytes | None, value: bytes, headers: Headers) -> None:
        while True:
            try:
                self._client.produce(self._topic(name), value, key, headers=headers, on_delivery=self._delivered)
                return
            except BufferError:  # the client's queue is full: let it drain
                self._client.poll(_POLL_S)

    def _delivered(self, error: KafkaError | None, record: Message) -> None:
        if error is not None:
            self._failed = KafkaError(error.code(), refusal_of(record.topic(), error))


def _too_large(topic: str, window: Window, rejected: RecordRejected) -> DeadLetter:
    """No record is at fault, so the letter's coordinates name the window itself."""
    return dead_letter(Coordinates(topic, 0, window.window_end_ms), None, rejected, refused_by=REFUSED_BY)
