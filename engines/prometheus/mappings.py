"""Expressions for the metrics that Flink, Kafka lag exporters, Kafka Streams and Faust show Prometheus: the ready mappings.

``$tasks``, ``$reads`` and ``$writes`` stand for a regular expression of the names of the job's tasks and topics, ``$select`` for
a comma and the job's own matchers.
"""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Label = Annotated[str, Meta(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$(?!\n)")]
Unit = Literal["s", "ms", "us", "ns"]
Names = Literal["task", "reads", "writes"]
JoinedBy = Literal["topics", "buffers"]
MappingName = Literal["flink", "kafka-exporter", "kafka-lag-exporter", "kafka-streams", "faust"]
FigureName = Literal[
    "records_in",
    "records_out",
    "bytes_in",
    "bytes_out",
    "busy",
    "idle",
    "backpressured",
    "arrived",
    "queued",
    "state_bytes",
    "watermark_lag",
    "in_pool",
    "out_pool",
    "parallelism",
]
COUNTERS: tuple[FigureName, ...] = (
    "records_in",
    "records_out",
    "bytes_in",
    "bytes_out",
    "busy",
    "idle",
    "backpressured",
    "arrived",
)
"""Figures that only grow, until a process or a topic starts over; the others say how things are."""
TIMES: tuple[FigureName, ...] = ("busy", "idle", "backpressured", "watermark_lag")
"""Figures with a unit of time."""


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a figure is asked for, and what the labels of the answer mean.

    Attributes:
        query: PromQL; of a figure that grows the counter itself, without rate() or increase().
        task: the label that tells which task a series belongs to; empty: the job's.
        names: what that label holds: the task's name, or a topic that the task reads or writes.
        subtask: labels that tell subtasks apart; None: the job's; empty: the figure is one of the whole task.
        over: further labels whose series are added up, such as partitions. Any other second series is refused.
        unit: of times.
        offset: the figure is a position in a topic, not a count: if it falls, it was set back, and nothing was done.
    """

    query: Annotated[str, Meta(min_length=1, max_length=4_096)]
    task: Label | Literal[""] = ""
    names: Names = "task"
    subtask: tuple[Label, ...] | None = None
    over: tuple[Label, ...] = ()
    unit: Unit = "s"
    offset: bool = False


@dataclass(frozen=True, slots=True)
class Mapping:
    """Expressions for one kind of metrics, and the labels they come with."""

    task: str
    subtask: tuple[str, ...]
    joined_by: JoinedBy
    figures: dict[FigureName, Figure] = field(default_factory=dict)


_PARTITIONS = ("topic", "partition")


def _flink(metric: str) -> str:
    return f'flink_taskmanager_job_task_{metric}{{task_name=~"$tasks"$select}}'


def _streams(metric: str) -> str:
    return f'kafka_streams_stream_thread_metrics_{metric}{{job=~"$tasks"$select}}'


def _faust(metric: str) -> str:
    return f'{{__name__=~".+_{metric}",job=~"$tasks"$select}}'


MAPPINGS: dict[MappingName, Mapping] = {
    # Flink's reporters name a metric after its scope. A pool's use is a share of 1.
    "flink": Mapping(
        "task_name",
        ("subtask_index",),
        "buffers",
        {
            "records_in": Figure(_flink("numRecordsIn")),
            "records_out": Figure(_flink("numRecordsOut")),
            "bytes_in": Figure(_flink("numBytesIn")),
            "bytes_out": Figure(_flink("numBytesOut")),
            "busy": Figure(_flink("accumulateBusyTimeMs"), unit="ms"),
            "idle": Figure(_flink("accumulateIdleTimeMs"), unit="ms"),
            "backpressured": Figure(_flink("accumulateBackPressuredTimeMs"), unit="ms"),
            "in_pool": Figure(_flink("buffers_inPoolUsage")),
            "out_pool": Figure(_flink("buffers_outPoolUsage")),
        },
    ),
    # github.com/danielqsj/kafka_exporter. It shows a lag of -1 where a group has committed nothing: unknown.
    "kafka-exporter": Mapping(
        "consumergroup",
        (),
        "topics",
        {
            "records_in": Figure(
                'kafka_consumergroup_current_offset{consumergroup=~"$tasks"$select}', over=_PARTITIONS, offset=True
            ),
            "queued": Figure('kafka_consumergroup_lag{consumergroup=~"$tasks"$select}', over=_PARTITIONS),
            "parallelism": Figure('kafka_consumergroup_members{consumergroup=~"$tasks"$select}'),
            "arrived": Figure(
                'kafka_topic_partition_current_offset{topic=~"$reads"$select}', "topic", "reads", over=("partition",), offset=True
            ),
            "records_out": Figure(
                'kafka_topic_partition_current_offset{topic=~"$writes"$select}',
                "topic",
                "writes",
                over=("partition",),
                offset=True,
            ),
        },
    ),
    # github.com/seglo/kafka-lag-exporter. Its series also name the member that has the partition, which changes.
    "kafka-lag-exporter": Mapping(
        "group",
        (),
        "topics",
        {
            "records_in": Figure('kafka_consumergroup_group_offset{group=~"$tasks"$select}', over=_PARTITIONS, offset=True),
            "queued": Figure('kafka_consumergroup_group_lag{group=~"$tasks"$select}', over=_PARTITIONS),
            "watermark_lag": Figure('kafka_consumergroup_group_max_lag_seconds{group=~"$tasks"$select}'),
            "parallelism": Figure(
                'count by (group) (count by (group, consumer_id) (kafka_consumergroup_group_lag{group=~"$tasks",consumer_id!=""'
                "$select}))"
            ),
            "arrived": Figure(
                'kafka_partition_latest_offset{topic=~"$reads"$select}', "topic", "reads", over=("partition",), offset=True
            ),
            "records_out": Figure(
                'kafka_partition_latest_offset{topic=~"$writes"$select}', "topic", "writes", over=("partition",), offset=True
            ),
        },
    ),
    # Names as Prometheus' JMX exporter makes them without rules. A subtask is a stream thread, which is busy while it does not
    # wait for Kafka (KIP-761).
    "kafka-streams": Mapping(
        "job",
        ("instance", "thread_id"),
        "topics",
        {
            "records_in": Figure(_streams("process_total")),
            "busy": Figure(
                f"1000 * timestamp({_streams('blocked_time_ns_total')}) - {_streams('thread_start_time')}"
                f" - {_streams('blocked_time_ns_total')} / 1e6",
                unit="ms",
            ),
            "records_out": Figure(
                'kafka_producer_producer_topic_metrics_record_send_total{topic=~"$writes"$select}',
                "topic",
                "writes",
                subtask=(),
                over=("instance", "client_id"),
            ),
            "queued": Figure(
                'kafka_consumer_consumer_fetch_manager_metrics_records_lag{job=~"$tasks",topic=~"$reads"$select}',
                subtask=(),
                over=_PARTITIONS,
            ),
        },
    ),
    # Faust's own PrometheusMonitor. Names begin with the app's; a subtask is a worker. Sent topics are shown as "topic.NAME".
    "faust": Mapping(
        "job",
        ("instance",),
        "topics",
        {
            "records_in": Figure(_faust("messages_received_total")),
            "busy": Figure(_faust("events_runtime_ms_sum"), unit="ms"),
            "records_out": Figure(
                'label_replace({__name__=~".+_topic_messages_sent_total",topic=~"topic[.]($writes)"$select}, '
                '"topic", "$1", "topic", "topic[.](.*)")',
                "topic",
                "writes",
                subtask=(),
                over=("instance",),
            ),
            "queued": Figure(
                '{__name__=~".+_topic_partition_end_offset",job=~"$tasks",topic=~"$reads"$select} - '
                '{__name__=~".+_topic_partition_offset_commited",job=~"$tasks",topic=~"$reads"$select}',
                subtask=(),
                over=_PARTITIONS,
            ),
        },
    ),
}
