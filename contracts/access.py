"""Who may do what on Kafka: the least rights of each role, derived from the table of topics. Pure.

A broker with an authorizer that grants exactly these refuses a forged command, decision, marker, release or setting of anybody
else: each topic takes records of its one writer only. Dead letters have several, the rescaler may write settings, to pause its
cluster, and the operator may end a job of which no monitor tells any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from surescale.contracts import topics
from surescale.contracts.topics import (
    EXPLAIN_GROUP,
    READER_GROUP,
    RECORDER_GROUP,
    STATE_GROUP,
    TOPICS,
    TopicNames,
    actuator_group,
    agent_group,
    monitor_group,
    notify_group,
    rescaler_group,
)

Role = Literal["monitor", "spark", "agent", "rescaler", "state-service", "engine", "operator"]
ROLES: tuple[Role, ...] = get_args(Role)
"""``engine`` is the simulated one, ``operator`` who uses ``surescale job``, ``policy``, ``topics skip``, ``recording create``."""

Resource = Literal["topic", "group", "transactional-id"]
Operation = Literal["Read", "Write", "Describe", "DescribeConfigs"]

_REFUSE: tuple[Role, ...] = ("spark", "agent", "rescaler", "operator")
_WRITERS: dict[str, tuple[Role, ...]] = {
    "monitor": ("monitor",),
    "spark_streaming": ("spark",),
    "agent": ("agent",),
    "rescaler": ("rescaler",),
    "simulated engine": ("engine",),
    "command line": ("operator",),
    "API": (),  # writes only where people operate over HTTP: see ``rights``
    "the role that refused it": _REFUSE,
}
"""The roles behind each writer of the table of topics."""

_READERS: dict[str, tuple[Role, ...]] = {
    topics.TASK_METRICS: ("monitor", "spark"),
    topics.SNAPSHOTS: ("agent", "state-service"),
    topics.JOB_TOPOLOGY: ("monitor", "rescaler", "state-service"),
    topics.JOB_SETTINGS: ("agent", "rescaler", "state-service"),
    topics.CLUSTER_TOPOLOGY: ("monitor", "rescaler", "state-service"),  # the monitor: what slots have cost
    topics.ENGINE_EVENTS: ("rescaler", "state-service"),
    topics.POLICY_RELEASES: ("agent", "state-service"),
    topics.DECISIONS: ("rescaler", "state-service"),
    topics.SHADOW_DECISIONS: ("state-service",),  # and never the rescaler: nothing can act on a shadow's answer
    topics.RESCHEDULE_COMMANDS: ("rescaler", "state-service"),
    topics.RESCHEDULE_EVENTS: ("state-service", "engine"),
    topics.RESCALER_STATE: ("rescaler", "state-service"),
    topics.CLOCK: ("monitor", "spark", "rescaler", "state-service"),
    topics.DEAD_LETTERS: ("state-service",),
}
"""The roles that read each topic; the operator reads all."""

_ONLY_NAMED: dict[str, tuple[Role, ...]] = {
    READER_GROUP: ("monitor", "spark", "agent", "rescaler", "engine", "operator"),
    STATE_GROUP: ("state-service",),
    EXPLAIN_GROUP: ("operator",),
    RECORDER_GROUP: ("operator",),
}
"""Groups that nobody joins, and the roles whose clients name them."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One operation that a role may carry out on one resource of Kafka, named in full."""

    role: Role
    resource: Resource
    name: str
    operation: Operation


def writers(topic: str) -> tuple[Role, ...]:
    """Return the roles that write to a topic (bare name)."""
    return tuple(role for writer in TOPICS[topic].written_by for role in _WRITERS[writer])


def readers(topic: str) -> tuple[Role, ...]:
    """Return the roles that read a topic (bare name)."""
    return (*_READERS[topic], "operator")


def rights(topic_prefix: str, cluster: str, *, http_operate: bool = False, notify: bool = False) -> list[Right]:
    """Return what each role needs and no more, sorted: for topics under a prefix, and rescaler and monitors of one cluster.

    ``http_operate``: the state service writes settings, for people who pause, resume and approve, or as ScaledStreams say.
    ``notify``: the state service tells a webhook what happens, and keeps how far it has.
    ``Read`` and ``Write`` imply ``Describe``. An idempotent producer needs no right besides ``Write`` since Kafka 2.8 (KIP-679).
    """
    found = {*_on_topics(TopicNames(topic_prefix)), *_on_groups(topic_prefix, cluster)}
    if http_operate:
        found.add(Right("state-service", "topic", TopicNames(topic_prefix)(topics.JOB_SETTINGS), "Write"))
        found.add(Right("state-service", "group", READER_GROUP, "Describe"))
    if notify:
        found.add(Right("state-service", "group", notify_group(topic_prefix), "Read"))
        found.add(Right("operator", "group", notify_group(topic_prefix), "Describe"))  # `surescale doctor`
    return sorted(found)


def _on_topics(full: TopicNames) -> Iterator[Right]:
    for topic in TOPICS:
        yield from (Right(role, "topic", full(topic), "Write") for role in writers(topic))
        yield from (Right(role, "topic", full(topic), "Read") for role in readers(topic))
        yield Right("operator", "topic", full(topic), "DescribeConfigs")  # `surescale doctor`


def _on_groups(topic_prefix: str, cluster: str) -> Iterator[Right]:
    agents, rescalers = agent_group(topic_prefix), rescaler_group(topic_prefix, cluster)
    monitors = monitor_group(topic_prefix, cluster)
    for group, roles in _ONLY_NAMED.items():
        yield from (Right(role, "group", group, "Describe") for role in roles)
    yield Right("agent", "group", agents, "Read")
    yield Right("monitor", "group", monitors, "Read")  # only where several monitors choose the one that watches
    for group in (rescalers, actuator_group(topic_prefix, cluster)):
        yield Right("rescaler", "group", group, "Read")
    for operation in ("Write", "Describe"):
        yield Right("rescaler", "transactional-id", rescalers, operation)
        yield Right("monitor", "transactional-id", monitors, operation)
    for group in (agents, rescalers, actuator_group(topic_prefix, cluster)):
        yield Right("operator", "group", group, "Read")  # `surescale topics skip`
    yield Right("operator", "group", monitors, "Describe")  # `surescale doctor`
