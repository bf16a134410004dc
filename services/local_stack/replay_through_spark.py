"""Replays recorded task metrics through a Spark job and an agent, on topics of its own that it removes afterwards.

The topics keep the append times that are sent, and every record goes to the partition it came from. So the Spark job sees what
it saw the first time, and its windows have the same bytes.
"""

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from contracts.errors import RecordRejected, SurescaleError
from contracts.messages import ClockSegment
from contracts.settings import PipelineSettings
from contracts.topics import (
    CLOCK,
    DECISIONS,
    JOB_SETTINGS,
    SNAPSHOTS,
    TASK_METRICS,
    TOPICS,
    TopicNames,
    agent_group,
)
from contracts.wire import decode
from policies.policy import Policy
from runtime.kafka import METADATA_TIMEOUT_S, REQUEST_TIMEOUT_S, LogReader, admin_client, producer
from runtime.kafka_errors import readable_errors
from services.local_stack.replay_stream import ANSWERED_ON, RecordStream
from services.local_stack.roles import PipelinePorts, pipeline_roles, spark_environment
from services.local_stack.supervisor import Supervisor
from services.tools.recording.records import job_of
from services.tools.recording.replay import AgentAnswers, Known, Replayed, agreement, learn, replay
from services.tools.recording.sources import KafkaSource, Say, Source

ROLES = ("spark", "agent")
_NOT_THERE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND})


def replay_through_spark(
    source: Source, policies: Sequence[Policy], known: Known, settings: PipelineSettings, *, jobs: frozenset[str], say: Say
) -> tuple[Replayed, AgentAnswers]:
    """Send a source's metrics through both processes. The agent decides with the first policy; then all policies decide here.

    ``settings`` name the Kafka to use, the first policy and the seed.

    Raises:
        SurescaleError: there are no task metrics, a process ended, or the replay came to a standstill.
        ConnectionError: Kafka does not answer.
    """
    _check_metrics(source, jobs)
    own = _own_settings(source, known, settings)
    with readable_errors(own), own_topics(own, source, say), Supervisor(progress=say) as supervisor:
        arguments = ["--master", "local[2]", "--checkpoint", str(supervisor.folder / "checkpoint")]
        roles = pipeline_roles(own, PipelinePorts.free(), spark_env=spark_environment(say), spark_arguments=arguments)
        chosen = [role for role in roles if role.name in ROLES]
        supervisor.start_together(chosen)
        reader = LogReader(own, ANSWERED_ON)
        try:
            stream = RecordStream(
                producer(own), reader, TopicNames(own.topic_prefix), policies[0].span_minutes, wait=supervisor.wait, say=say
            )
            stream.send(source, known, jobs)
        finally:
            reader.close()
        made = KafkaSource(own, (JOB_SETTINGS, DECISIONS, SNAPSHOTS))
        again = learn(made)
        found = replay(made, policies, known, seed=own.seed, made_again=True)
        directly = replay(made, policies[:1], again, seed=own.seed, made_again=True).policies[0].recorded
        return found, AgentAnswers(len(again.decisions), agreement(known, again, policies[0].name), directly)


def _check_metrics(source: Source, jobs: frozenset[str]) -> None:
    """Refuse a source without metrics before anything starts."""
    seen: set[str | None] = set()
    for record in source.records((TASK_METRICS,)):
        seen.add(job_of(record))
        if (jobs and jobs <= seen) or not jobs:
            return
    missing = sorted(jobs - {job for job in seen if job})
    raise SurescaleError(f"{source.name} has no task metrics of {missing[0] if missing else 'any job'} (topic {TASK_METRICS})")


def _own_settings(source: Source, known: Known, settings: PipelineSettings) -> PipelineSettings:
    """Return settings with a prefix of their own, and the clock and window length of the recording."""
    pipelines = []
    for record in source.records((CLOCK,)):
        with contextlib.suppress(RecordRejected):
            pipelines.append(decode(record.value, ClockSegment).road)
    return replace(
        settings,
        topic_prefix=f"replay-{uuid.uuid4().hex[:8]}-",
        road_clock=bool(pipelines),
        road=pipelines[0] if pipelines else settings.road,
        window_minutes=known.window_minutes(settings.window_minutes),
        health_port=0,
    )


@contextlib.contextmanager
def own_topics(own: PipelineSettings, source: Source, say: Say) -> Iterator[None]:
    """Create the topics of the table under the prefix. At the end remove them and the agent's group, whatever happens.

    Raises:
        KafkaException: the broker does not answer or refuses.
    """
    full = TopicNames(own.topic_prefix)
    admin = admin_client(own)
    kept = {"message.timestamp.type": "CreateTime", "cleanup.policy": "delete", "retention.ms": "-1"}
    wanted = [
        NewTopic(
            full(topic.name),
            num_partitions=source.partitions.get(topic.name, topic.partitions),
            replication_factor=-1,
            config=topic.config() | kept,
        )
        for topic in TOPICS.values()
    ]
    # Asked first: with no broker, creating and removing would each wait a minute.
    admin.list_topics(timeout=METADATA_TIMEOUT_S)
    try:
        for future in admin.create_topics(wanted, operation_timeout=REQUEST_TIMEOUT_S).values():
            future.result()
        yield
    finally:
        _remove(admin, own, [topic.topic for topic in wanted], say)


def _remove(admin: AdminClient, own: PipelineSettings, topics: Sequence[str], say: Say) -> None:
    """Delete the topics and the agent's group where they exist; report what could not be deleted."""
    group = agent_group(own.topic_prefix)
    futures = admin.delete_topics(list(topics), operation_timeout=REQUEST_TIMEOUT_S) | admin.delete_consumer_groups([group])
    left = []
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() not in _NOT_THERE:
                left.append(name)
    if left:
        say(f"{len(left)} topics and groups could not be removed: {', '.join(left)}")
