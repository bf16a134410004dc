"""What a Kafka broker tells of groups: their members, what each is assigned, and how far the group has committed."""

import logging
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import is_a_role, may_be_a_role
from surescale.engines.groups.members import Member
from surescale.engines.groups.other_types import Listed, NotTold, OtherGroup, OtherGroups, OtherType
from surescale.engines.kafka.offsets import ANSWER_TIMEOUT_S
from surescale.engines.kafka.positions import Partition
from surescale.runtime.backoff import Throttle
from surescale.runtime.kafka import GROUP_REQUEST_TIMEOUT_S, admin_client, end_offsets
from surescale.runtime.printable import printable

GroupState = Literal["stable", "rebalancing", "empty", "dead"]
_STATES: dict[ConsumerGroupState, GroupState] = {
    ConsumerGroupState.STABLE: "stable",
    ConsumerGroupState.EMPTY: "empty",
    ConsumerGroupState.DEAD: "dead",
}
_OTHER_STATES: dict[str, GroupState] = {"Stable": "stable", "Empty": "empty", "Dead": "dead"}
_REFUSALS = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_INTERNAL = re.compile(r"(-changelog|-repartition|-__assignor-__leader|-KTABLE-FK-JOIN-SUBSCRIPTION-RE\w+-\d+-topic)\Z")
"""What follows the application's name in the topics that Kafka Streams and Faust make for themselves."""
_ABSENT = frozenset({KafkaError.GROUP_ID_NOT_FOUND})
GroupType = Literal["consumer", "streams", "share"]
SAY_EVERY_S = 600.0
_REASON_LETTERS_MAX = 200
_log = logging.getLogger("surescale.monitor")


class GroupsUnavailable(SurescaleError):
    """The broker does not tell; the message names it and the fix, in one line."""


class RightMissing(GroupsUnavailable):
    """The broker answers, and does not let us ask."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group now.

    Attributes:
        members: sorted by client id and member id. Those of a share group (KIP-932) may have the same partition.
        assignor: how partitions are dealt out, e.g. ``range``.
        committed: the offset of the next record by partition; partitions without a commit are missing. A share group does not
            do its records in order: there it is how many are done, from the first on.
        type: a consumer group of either protocol, a Kafka Streams group of KIP-1071, or a share group.
    """

    group: str
    state: GroupState
    members: tuple[Member, ...]
    assignor: str
    committed: dict[Partition, int]
    type: GroupType = "consumer"

    @property
    def absence(self) -> str:
        """Return why a dead group cannot be looked at."""
        return f"there is no group {self.group}"

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
        self._other_groups = OtherGroups(settings, timeout_s)
        self._types: dict[str, OtherType] = {}  # of the groups that librdkafka does not know, when last listed
        self._shared: dict[str, dict[Partition, tuple[int, int]]] = {}  # of share groups: what was written down, and is done
        self._seldom = Throttle(SAY_EVERY_S)
        self._bootstrap, self._timeout_s = settings.bootstrap, timeout_s
        self._roles: dict[str, bool] = {}  # whether each group is of a role that is named like one

    def close(self) -> None:
        """Leave the brokers."""
        self._other_groups.close()

    def names(self, listed: Mapping[str, bool] | None = None) -> tuple[str, ...]:
        """Return the ids of all groups that have members and that we may see, sorted, without those of surescale's own roles.

        One that is named as such a group is looked at once, for what it reads; until that is known, it counts as one of them, and
        keeps no other from being known. One that we may not look at is somebody's: its job says which right is missing.

        Args:
            listed: what `listed` gave; None: ask again.

        Raises:
            GroupsUnavailable: the broker does not answer.
        """
        found = [group for group, has_members in (self.listed() if listed is None else listed).items() if has_members]
        known = {group: self._roles[group] for group in found if group in self._roles}
        hidden = {group for group in found if group not in known and may_be_a_role(group)}
        for group in random.sample(sorted(hidden), len(hidden)):
            try:
                topics = self.look([group])[group].topics
            except RightMissing:
                hidden.remove(group)
                continue
            except GroupsUnavailable:
                break  # whose members may have said what no client reads; the next look begins elsewhere
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
        found = {each.group_id: each.state not in absent for each in listed.valid or ()}
        return found | {group: not each.is_empty for group, each in self._others().items()}

    def _others(self) -> dict[str, Listed]:
        """Return the groups that librdkafka does not know.

        Raises:
            GroupsUnavailable: there were some, and the broker does not answer now.
        """
        try:
            found = self._other_groups.listed()
        except NotTold as error:
            if self._types:
                raise self._untold(error, "list groups") from None
            if self._seldom.is_time():
                _log.warning("%s", self._untold(error, "list its Kafka Streams and share groups"))
            return {}
        self._types = {group: each.type for group, each in found.items()}
        for gone in [group for group in list(self._shared) if group not in found]:
            self._shared.pop(gone, None)
        return found

    def look(self, groups: Sequence[str]) -> dict[str, GroupDescription]:
        """Return the groups as they are now. One that does not exist is dead.

        Raises:
            GroupsUnavailable: the broker does not answer, or does not let us ask.
        """
        asked = self._admin.describe_consumer_groups(list(groups), request_timeout=GROUP_REQUEST_TIMEOUT_S)
        described = {group: self._described(group, future) for group, future in asked.items()}
        unknown = [group for group, found in described.items() if found is None]
        others = self._look_at_others(unknown) if unknown else {}
        return {
            group: others[group] if group in others else self._description(group, found) for group, found in described.items()
        }

    def _look_at_others(self, groups: Sequence[str]) -> dict[str, GroupDescription]:
        if not self._types.keys() >= set(groups):
            self._others()
        types = {group: self._types[group] for group in groups if group in self._types}
        if not types:
            return {}
        what = f"describe group {next(iter(types))}"
        try:
            told, ends = self._other_groups.look(types), {}
            if partitions := {TopicPartition(*each) for group in told.values() for each in group.waits}:
                # So that the ends are older than what is said to wait before them.
                ends = end_offsets(self._admin, sorted(partitions), self._timeout_s)
                told = self._other_groups.look(types)
        except NotTold as error:
            raise self._untold(error, what) from None
        except KafkaException as error:
            raise self._unknown(error, what) from None
        self._types = {group: kind for group, kind in self._types.items() if group not in types or group in told}
        return {group: self._other(group, types[group], found, ends) for group, found in told.items()}

    def _other(self, group: str, kind: GroupType, told: OtherGroup, ends: Mapping[Partition, int]) -> GroupDescription:
        state = _OTHER_STATES.get(told.state, "rebalancing")
        committed = self._done(group, told, ends) if kind == "share" else self._committed(group)
        return GroupDescription(group, state, _sorted(told.members), told.assignor, committed, kind)

    def _done(self, group: str, told: OtherGroup, ends: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return how far a share group is. Records that came between two answers do not make it go back."""
        before, now = self._shared.get(group, {}), {}
        for each, (start, lag) in told.waits.items():
            if lag is not None and each in ends:
                was_start, was_done = before.get(each, (0, 0))
                now[each] = start, max(start, ends[each] - lag, was_done if start >= was_start else 0)
        self._shared[group] = now
        return {each: done for each, (_, done) in now.items()}

    def _described(self, group: str, future: Future[ConsumerGroupDescription]) -> ConsumerGroupDescription | None:
        try:
            found = future.result(self._timeout_s)
        except (KafkaException, FutureTimeout) as error:
            if isinstance(error, KafkaException) and error.args[0].code() in _ABSENT:
                return None
            raise self._unknown(error, f"describe group {group}") from None
        return None if ConsumerGroupState(found.state) is ConsumerGroupState.DEAD else found

    def _description(self, group: str, found: ConsumerGroupDescription | None) -> GroupDescription:
        if found is None:
            return GroupDescription(group, "dead", (), "", self._committed(group))
        members = _sorted(
            Member.told(each.member_id, each.client_id, each.host, _partitions(each.assignment.topic_partitions))
            for each in found.members
        )
        state: GroupState = _STATES.get(ConsumerGroupState(found.state), "rebalancing")
        return GroupDescription(group, state, members, found.partition_assignor, self._committed(group))

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
        if not isinstance(error, KafkaException):
            return self._unavailable(what, "no answer in time")
        problem: KafkaError = error.args[0]
        # Of some requests librdkafka gives the name of the request alone.
        reason = f"{problem.str()}{problem.name()}" if problem.str().endswith(": ") else problem.str()
        return self._unavailable(what, reason, is_refused=problem.code() in _REFUSALS)

    def _untold(self, error: NotTold, what: str) -> GroupsUnavailable:
        return self._unavailable(what, printable(str(error))[:_REASON_LETTERS_MAX], is_refused=error.is_refused)

    def _unavailable(self, what: str, reason: str, *, is_refused: bool = False) -> GroupsUnavailable:
        where = f"Kafka at {self._bootstrap}, which the groups read,"
        if is_refused:
            return RightMissing(f"{where} does not let us {what}; grant DESCRIBE on it to the user of the monitor")
        return GroupsUnavailable(
            f"{where} does not answer when asked to {what} ({reason}); set SURESCALE_SOURCE_BOOTSTRAP to brokers that the "
            "monitor reaches, and SURESCALE_SOURCE_KAFKA_... to its credentials"
        )


def _sorted(members: Iterable[Member]) -> tuple[Member, ...]:
    return tuple(sorted(members, key=lambda member: (member.client_id, member.id)))


def _partitions(assigned: Sequence[TopicPartition]) -> Iterator[Partition]:
    return ((each.topic, each.partition) for each in assigned)
