"""What a Kafka broker tells of consumer groups: their members, what each is assigned, and how far the group has committed."""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import ConsumerGroupDescription  # type: ignore[attr-defined]

from surescale.contracts.errors import SurescaleError
from surescale.contracts.figures import known_count
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import is_a_role, may_be_a_role
from surescale.engines.kafka.offsets import ANSWER_TIMEOUT_S
from surescale.engines.kafka.positions import Partition
from surescale.runtime.kafka import GROUP_REQUEST_TIMEOUT_S, admin_client
from surescale.runtime.printable import printable

GroupState = Literal["stable", "rebalancing", "empty", "dead"]
_STATES: dict[ConsumerGroupState, GroupState] = {
    ConsumerGroupState.STABLE: "stable",
    ConsumerGroupState.EMPTY: "empty",
    ConsumerGroupState.DEAD: "dead",
}
_REFUSALS = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_INTERNAL = re.compile(r"(-changelog|-repartition|-__assignor-__leader|-KTABLE-FK-JOIN-SUBSCRIPTION-RE\w+-\d+-topic)\Z")
"""What follows the application's name in the topics that Kafka Streams and Faust make for themselves."""
_ABSENT = frozenset({KafkaError.GROUP_ID_NOT_FOUND})
CLIENT_ID_LETTERS_MAX = 200
"""The last ones are kept, with the number at the end; whoever connects chooses as many as the broker takes."""
STREAMS_GROUP = "a Kafka Streams group (KIP-1071)"
SHARE_OR_STREAMS_GROUP = f"a share group (KIP-932) or {STREAMS_GROUP}"
_NUMBER = re.compile(r"[0-9]+")


def known_client(client_id: str) -> str:
    """Return a client id as members have it: printable, and its last letters."""
    return printable(client_id)[-CLIENT_ID_LETTERS_MAX:]


def untold(other_type: str) -> str:
    """Return what nobody tells us of a group of a type other than consumer groups."""
    what = "whose members" if other_type == STREAMS_GROUP else "whose members and what waits for them"
    return f"{what} the broker does not tell us"


class GroupsUnavailable(SurescaleError):
    """The broker does not tell; the message names it and the fix, in one line."""


class RightMissing(GroupsUnavailable):
    """The broker answers, and does not let us ask."""


@dataclass(frozen=True, slots=True)
class Member:
    """One consumer of a group."""

    id: str
    client_id: str
    host: str
    partitions: frozenset[Partition]

    def filled_in(self, template: str) -> str | None:
        """Return a template with ``{host}`` and ``{number}``, the last number in the client id; None without such a number."""
        number = (_NUMBER.findall(self.client_id) or [""])[-1]
        host = f"[{self.host}]" if ":" in self.host else self.host
        return None if known_count(number) is None and "{number}" in template else template.format(host=host, number=number)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A consumer group now.

    Attributes:
        members: sorted by client id and member id.
        assignor: how partitions are dealt out, e.g. ``range``.
        committed: the offset of the next record by partition; partitions without a commit are missing.
        other_type: of a dead one, what a group of this id is that is no consumer group; empty: there is none.
    """

    group: str
    state: GroupState
    members: tuple[Member, ...]
    assignor: str
    committed: dict[Partition, int]
    other_type: str = ""

    @property
    def absence(self) -> str:
        """Return why a dead group cannot be looked at."""
        if not self.other_type:
            return f"there is no group {self.group}"
        return f"{self.group} is {self.other_type}, {untold(self.other_type)}"

    @property
    def commits_nothing(self) -> bool:
        """Return whether it is no consumer group and has no committed offsets, as a share group never has."""
        return bool(self.other_type) and not self.committed

    @property
    def topics(self) -> frozenset[str]:
        """Topics that its members are assigned; while they have none, those that it committed, some of which it may have left.

        Topics that its application has made for itself are not among them.
        """
        assigned = {topic for member in self.members for topic, _ in member.partitions}
        found = assigned or {topic for topic, _ in self.committed}
        return frozenset(each for each in found if not (each.startswith(f"{self.group}-") and _INTERNAL.search(each)))


class GroupReader:
    """Asks one Kafka cluster. Thread-safe."""

    def __init__(self, settings: PipelineSettings, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Connect to nothing yet.

        Raises:
            SettingsError: a file of the credentials cannot be read.
        """
        self._admin = admin_client(settings)
        self._bootstrap, self._timeout_s = settings.bootstrap, timeout_s
        self._roles: dict[str, bool] = {}  # whether each group is of a role that is named like one

    def names(self, listed: Mapping[str, bool] | None = None) -> tuple[str, ...]:
        """Return the ids of all groups that have members and that we may see, sorted, without those of surescale's own roles.

        One that is named as such a group is looked at once, for what it reads; until that is known, it counts as one of them. One
        that we may not look at is somebody's: its job says which right is missing.

        Args:
            listed: what `listed` gave; None: ask again.

        Raises:
            GroupsUnavailable: the broker does not answer.
        """
        found = [group for group, has_members in (self.listed() if listed is None else listed).items() if has_members]
        known = {group: self._roles[group] for group in found if group in self._roles}
        hidden = {group for group in found if group not in known and may_be_a_role(group)}
        for group in sorted(hidden):
            try:
                topics = self.look([group])[group].topics
            except RightMissing:
                hidden.remove(group)
                continue
            if topics:
                known[group] = is_a_role(group, topics)
        self._roles = known
        return tuple(sorted(group for group in found if not known.get(group, group in hidden)))

    def listed(self) -> dict[str, bool]:
        """Return the ids of all groups that we may see, and whether each has members.

        Raises:
            GroupsUnavailable: the broker does not answer.
        """
        try:
            listed = self._admin.list_consumer_groups(request_timeout=GROUP_REQUEST_TIMEOUT_S).result(self._timeout_s)
        except (KafkaException, FutureTimeout) as error:
            raise self._unknown(error, "list consumer groups") from None
        if listed.errors:  # without this broker's groups the list would look as if they had ended
            raise self._unknown(KafkaException(listed.errors[0]), "list consumer groups")
        absent = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
        return {each.group_id: each.state not in absent for each in listed.valid or ()}

    def of_other_types(self) -> dict[str, str]:
        """Return what each group is that is a share group or a Kafka Streams group of KIP-1071, by id, sorted.

        Of these the broker lists the ids and describes none; groups of Kafka Connect and the like it does describe.

        Raises:
            GroupsUnavailable: the broker does not answer.
        """
        try:
            every = self._admin.list_groups(timeout=self._timeout_s)  # see `_other_type`
            listed = self._admin.list_consumer_groups(request_timeout=GROUP_REQUEST_TIMEOUT_S).result(self._timeout_s)
        except (KafkaException, FutureTimeout) as error:
            raise self._unknown(error, "list groups") from None
        known = {each.group_id for each in listed.valid or ()}
        others = sorted(str(each.id) for each in every if each.id not in known and not each.protocol_type)
        return {group: _type_of(self._committed(group)) for group in others}

    def look(self, groups: Sequence[str]) -> dict[str, GroupDescription]:
        """Return the groups as they are now. One that does not exist, or is no consumer group, is dead.

        Raises:
            GroupsUnavailable: the broker does not answer, or does not let us ask.
        """
        asked = self._admin.describe_consumer_groups(list(groups), request_timeout=GROUP_REQUEST_TIMEOUT_S)
        described = {group: self._described(group, future) for group, future in asked.items()}
        return {group: self._description(group, found) for group, found in described.items()}

    def _described(self, group: str, future: Future[ConsumerGroupDescription]) -> ConsumerGroupDescription | None:
        try:
            return future.result(self._timeout_s)
        except (KafkaException, FutureTimeout) as error:
            if isinstance(error, KafkaException) and error.args[0].code() in _ABSENT:
                return None
            raise self._unknown(error, f"describe group {group}") from None

    def _description(self, group: str, found: ConsumerGroupDescription | None) -> GroupDescription:
        if found is None or ConsumerGroupState(found.state) is ConsumerGroupState.DEAD:
            committed = self._committed(group)
            return GroupDescription(group, "dead", (), "", committed, self._other_type(group, committed))
        members = sorted(
            (
                Member(
                    each.member_id,
                    known_client(each.client_id),
                    each.host.lstrip("/"),
                    _partitions(each.assignment.topic_partitions),
                )
                for each in found.members
            ),
            key=lambda member: (member.client_id, member.id),
        )
        state: GroupState = _STATES.get(ConsumerGroupState(found.state), "rebalancing")
        return GroupDescription(group, state, tuple(members), found.partition_assignor, self._committed(group))

    def _other_type(self, group: str, committed: Mapping[Partition, int]) -> str:
        """Return what a group is that the broker does not describe; empty: there is none.

        librdkafka lists the ids of groups of every type, and tells neither their types nor, of any but consumer groups, their
        members.
        """
        try:
            listed = self._admin.list_groups(group, timeout=self._timeout_s)  # deprecated, and the only one that lists all types
        except KafkaException as error:
            raise self._unknown(error, f"list group {group}") from None
        return _type_of(committed) if listed else ""

    def _committed(self, group: str) -> dict[Partition, int]:
        try:
            (future,) = self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=GROUP_REQUEST_TIMEOUT_S
            ).values()
            found = future.result(self._timeout_s)
        except (KafkaException, FutureTimeout) as error:
            if isinstance(error, KafkaException) and error.args[0].code() in _ABSENT:
                return {}
            raise self._unknown(error, f"read the offsets of group {group}") from None
        return {(each.topic, each.partition): each.offset for each in found.topic_partitions or () if each.offset >= 0}

    def _unknown(self, error: Exception, what: str) -> GroupsUnavailable:
        where = f"Kafka at {self._bootstrap}, which the groups read,"
        if isinstance(error, KafkaException):
            problem: KafkaError = error.args[0]
            if problem.code() in _REFUSALS:
                return RightMissing(f"{where} does not let us {what}; grant DESCRIBE on it to the user of the monitor")
            # Of some requests librdkafka gives the name of the request alone.
            reason = f"{problem.str()}{problem.name()}" if problem.str().endswith(": ") else problem.str()
        else:
            reason = "no answer in time"
        return GroupsUnavailable(
            f"{where} does not answer when asked to {what} ({reason}); set SURESCALE_SOURCE_BOOTSTRAP to brokers that the "
            "monitor reaches, and SURESCALE_SOURCE_KAFKA_... to its credentials"
        )


def _type_of(committed: Mapping[Partition, int]) -> str:
    """Return what a group is that is listed and not described. Share groups commit nothing."""
    return STREAMS_GROUP if committed else SHARE_OR_STREAMS_GROUP


def _partitions(assigned: Sequence[TopicPartition]) -> frozenset[Partition]:
    return frozenset((each.topic, each.partition) for each in assigned)
