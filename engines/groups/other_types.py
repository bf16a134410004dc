"""Groups that librdkafka does not know: Kafka Streams groups (KIP-1071) and share groups (KIP-932), asked through kafka-python.

kafka-python has no calls for them either, but its connections carry any message (``engines.groups.protocol``). Whoever asks
drives them, so nothing runs in between.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups.members import Member
from surescale.engines.kafka.positions import Partition
from surescale.runtime.beats import TurnLock, beat
from surescale.runtime.kafka_security import OAUTHBEARER, credentials, ssl_context, uses_tokens
from surescale.runtime.oauth_tokens import fetch_token

STEPS_MAX = 3
"""So many times as long as one broker's answer may the whole question take."""
ANSWER_BYTES_MAX = 8 * 2**20
"""kafka-python's own limit of a million bytes is one that a few dozen groups with long names reach."""
_IMPORTING = threading.Lock()  # kafka-python imports itself in circles, which two threads at once do not survive
OtherType = Literal["streams", "share"]
_Found = TypeVar("_Found")
_Ask = Callable[[Any], Coroutine[Any, Any, _Found]]


class NotTold(Exception):
    """The broker does not tell; the text says why. ``is_refused``: we have no right to ask."""

    def __init__(self, why: str, *, is_refused: bool = False) -> None:
        """Take why."""
        super().__init__(why)
        self.is_refused = is_refused


@dataclass(frozen=True, slots=True)
class Listed:
    """A group that there is. It has no members if it ``is_empty``."""

    type: OtherType
    is_empty: bool


@dataclass(frozen=True, slots=True)
class OtherGroup:
    """A group as its coordinator tells it.

    Attributes:
        state: in the broker's word, e.g. ``Stable``.
        assignor: how partitions are dealt out.
        waits: of a share group, by partition, the first offset that was not done with when its state was last written down, and
            how many records wait; None where the broker, before 4.2, does not tell.
    """

    state: str
    assignor: str
    members: tuple[Member, ...]
    waits: Mapping[Partition, tuple[int, int | None]]


class OtherGroups:
    """Asks one Kafka cluster. Thread-safe."""

    def __init__(self, settings: PipelineSettings, timeout_s: float) -> None:
        """Connect to nothing yet; each question to a broker may take ``timeout_s``."""
        self._settings, self._timeout_ms = settings, round(timeout_s * 1_000)
        self._lock = TurnLock()
        self._manager: Any = None

    def listed(self) -> dict[str, Listed]:
        """Return all groups of both types, by id. Brokers before 4.1 have none.

        Raises:
            NotTold: a broker does not answer, or refuses.
        """
        return self._ask(_list)

    def look(self, groups: Mapping[str, OtherType]) -> dict[str, OtherGroup]:
        """Return groups as they are now; one that is gone is left out.

        Raises:
            NotTold: a broker does not answer, or refuses.
        """
        return self._ask(lambda manager: _look(manager, groups))

    def close(self) -> None:
        """Leave the brokers."""
        with self._lock:
            self._drop()

    def _ask(self, question: _Ask[_Found]) -> _Found:
        """Ask, and once more over new connections: a coordinator may have moved, or a broker closed one that was idle."""
        with _IMPORTING:
            from kafka.errors import AuthorizationError

        with self._lock:
            for is_last in (False, True):
                beat()
                try:
                    manager = self._connected()
                    found: _Found = self._run(manager, question, manager)
                except AuthorizationError as error:
                    raise NotTold(_in_words(error), is_refused=True) from None
                except Exception as error:  # whatever fails in the client's loop comes out of it here
                    self._drop()
                    if is_last:
                        raise NotTold(_in_words(error)) from None
                else:
                    return found
        raise AssertionError("the last try returns or raises")

    def _connected(self) -> Any:
        if self._manager is None:
            from kafka.net.manager import KafkaConnectionManager
            from kafka.net.selector import NetworkSelector

            logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what fails is raised, and told in our words
            options = {
                **_options(self._settings),
                "request_timeout_ms": self._timeout_ms,
                "socket_connection_setup_timeout_ms": self._timeout_ms,
                "socket_connection_setup_timeout_max_ms": self._timeout_ms,
                "receive_message_max_bytes": ANSWER_BYTES_MAX,
            }
            self._manager = KafkaConnectionManager(NetworkSelector(**options), **options)
            self._run(self._manager, self._manager.bootstrap_async, self._timeout_ms)
        return self._manager

    def _run(self, manager: Any, question: Callable[..., Any], *more: Any) -> Any:
        """Drive the client until a question is answered. Its own limits leave out TLS' handshake, and are of each step alone.

        Raises:
            Exception: what has failed.
        """
        future = manager._net.call_soon_with_future(question, *more)
        manager._net.poll(STEPS_MAX * self._timeout_ms, future)
        if not future.is_done:
            raise TimeoutError("no answer in time")
        if future.exception is not None:
            raise future.exception
        return future.value

    def _drop(self) -> None:
        manager, self._manager = self._manager, None
        if manager is not None:
            with contextlib.suppress(Exception):  # what has failed may fail to close
                manager.close()
                manager._net.close()


def _options(settings: PipelineSettings) -> dict[str, Any]:
    """Return kafka-python's options: how it reaches the brokers.

    Raises:
        SettingsError: a file of the credentials cannot be read.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap.split(","),
        "security_protocol": settings.kafka_security_protocol,
        "ssl_context": ssl_context(settings),
    }
    if found := credentials(settings):
        options |= {
            "sasl_mechanism": found.mechanism,
            "sasl_plain_username": found.username,
            "sasl_plain_password": found.password,
        }
    if uses_tokens(settings):
        options |= {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": _token_provider(settings)}
    return options


def _token_provider(settings: PipelineSettings) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):
        def token(self) -> str:
            return fetch_token(settings).value

    return Provider()


async def _list(manager: Any) -> dict[str, Listed]:
    from kafka.errors import IncompatibleBrokerVersion
    from kafka.protocol.admin import ListGroupsRequest

    found: dict[str, Listed] = {}
    for broker in manager.cluster.brokers():
        try:
            answer = await manager.send(
                ListGroupsRequest(types_filter=["streams", "share"], states_filter=[], min_version=5), node_id=broker.node_id
            )
        except IncompatibleBrokerVersion:
            continue
        _check(answer)
        types: dict[str, OtherType] = {"streams": "streams", "share": "share"}
        for each in answer.groups:
            if told := types.get(each.group_type.lower()):
                found[each.group_id] = Listed(told, each.group_state in ("Empty", "Dead"))
    return found


async def _look(manager: Any, groups: Mapping[str, OtherType]) -> dict[str, OtherGroup]:
    from surescale.engines.groups import protocol

    found: dict[str, OtherGroup] = {}
    for node, ids in (await _coordinators(manager, groups)).items():
        shared = [group for group in ids if groups[group] == "share"]
        streamed = [group for group in ids if groups[group] == "streams"]
        if streamed:
            request = protocol.StreamsGroupDescribeRequest(group_ids=streamed, include_authorized_operations=False)
            for each in _there((await manager.send(request, node_id=node)).groups):
                found[each.group_id] = _streams(each)
        if shared:
            request = protocol.ShareGroupDescribeRequest(group_ids=shared, include_authorized_operations=False, min_version=1)
            described = _there((await manager.send(request, node_id=node)).groups)
            asks = protocol.DescribeShareGroupOffsetsRequest
            everywhere = [asks.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None) for group in shared]
            request = asks(groups=everywhere)
            offsets = {each.group_id: each for each in _there((await manager.send(request, node_id=node)).groups)}
            for each in described:
                found[each.group_id] = _share(each, offsets.get(each.group_id))
    return found


async def _coordinators(manager: Any, groups: Iterable[str]) -> dict[int, list[str]]:
    from kafka.protocol.metadata import FindCoordinatorRequest

    answer = await manager.send(FindCoordinatorRequest(key_type=0, coordinator_keys=list(groups), min_version=4))
    found: dict[int, list[str]] = {}
    for each in answer.coordinators:
        _check(each)
        found.setdefault(each.node_id, []).append(each.key)
    return found


def _check(told: Any) -> None:
    """Raise what an answer, or a part of it, says that went wrong."""
    from kafka.errors import for_code

    if told.error_code:
        raise for_code(told.error_code)(getattr(told, "error_message", None) or "")


def _there(told: Iterable[Any]) -> list[Any]:
    """Return the groups that there are."""
    from kafka.errors import GroupIdNotFoundError

    found = []
    for each in told:
        with contextlib.suppress(GroupIdNotFoundError):
            _check(each)
            found.append(each)
    return found


def _streams(told: Any) -> OtherGroup:
    parts = told.topology.subtopologies or () if told.topology is not None else ()
    reads = {
        each.subtopology_id: (*each.source_topics, *(topic.name for topic in each.repartition_source_topics)) for each in parts
    }
    members = (
        Member.told(
            each.member_id,
            each.client_id,
            each.client_host,
            (
                (topic, partition)
                for task in each.assignment.active_tasks
                for partition in task.partitions
                for topic in reads.get(task.subtopology_id, ())
            ),
        )
        for each in told.members
    )
    return OtherGroup(told.group_state, "streams", tuple(members), {})


def _share(told: Any, offsets: Any) -> OtherGroup:
    members = (
        Member.told(
            each.member_id,
            each.client_id,
            each.client_host,
            ((topic.topic_name, at) for topic in each.assignment.topic_partitions for at in topic.partitions),
        )
        for each in told.members
    )
    waits = {
        (topic.topic_name, each.partition_index): (each.start_offset, each.lag if each.lag >= 0 else None)
        for topic in (offsets.topics if offsets is not None else ())
        for each in topic.partitions
        if not each.error_code and each.start_offset >= 0  # below: nobody has read there yet
    }
    return OtherGroup(told.group_state, told.assignor_name, tuple(members), waits)


def _in_words(error: Exception) -> str:
    return str(error) or type(error).__name__
