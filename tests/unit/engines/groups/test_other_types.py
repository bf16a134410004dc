"""Streams groups and share groups: what is made of a broker's answers. Real ones are in ``tests/integration``."""

import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import KafkaTimeoutError

from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups import protocol
from surescale.engines.groups.broker import GroupDescription, GroupReader, GroupsUnavailable, RightMissing
from surescale.engines.groups.job import MEMBERS_MAX, _by_member
from surescale.engines.groups.members import Member
from surescale.engines.groups.other_types import Listed, NotTold, OtherGroup, OtherGroups, _share, _streams
from surescale.engines.kafka.deals import shared
from surescale.engines.kafka.positions import Partition

NOWHERE = PipelineSettings(bootstrap="127.0.0.1:1")


def answer(kind: Any, **fields: Any) -> Any:
    """Return what a client makes of an answer's bytes."""
    made = kind(throttle_time_ms=0, **fields)
    return kind.decode(made.encode(version=kind.max_version), version=kind.max_version)


def streams(state: str, topology: Any, members: list[Any]) -> OtherGroup:
    """Return a Streams group from bytes."""
    kind = protocol.StreamsGroupDescribeResponse
    (found,) = answer(
        kind,
        groups=[
            kind.DescribedGroup(
                error_code=0,
                error_message=None,
                group_id="app",
                group_state=state,
                group_epoch=3,
                assignment_epoch=3,
                topology=topology,
                members=members,
                authorized_operations=0,
            )
        ],
    ).groups
    return _streams(found)


def part(name: str, topics: list[str], repartitions: list[str]) -> Any:
    """Return a part of an application."""
    made = protocol.StreamsGroupDescribeResponse.DescribedGroup.Topology.Subtopology
    info = made.TopicInfo
    return made(
        subtopology_id=name,
        source_topics=topics,
        repartition_sink_topics=[],
        state_changelog_topics=[info(name="app-store-changelog", partitions=0, replication_factor=1, topic_configs=[])],
        repartition_source_topics=[
            info(name=each, partitions=2, replication_factor=1, topic_configs=[]) for each in repartitions
        ],
    )


def thread(name: str, active: Mapping[str, list[int]], standby: Mapping[str, list[int]]) -> Any:
    """Return a member."""
    made = protocol.StreamsGroupDescribeResponse.DescribedGroup.Member
    tasks = made.Assignment.TaskIds

    def of(given: Mapping[str, list[int]]) -> list[Any]:
        return [tasks(subtopology_id=part, partitions=numbers) for part, numbers in given.items()]

    assigned = made.Assignment(active_tasks=of(active), standby_tasks=of(standby), warmup_tasks=[])
    return made(
        member_id=name,
        member_epoch=3,
        instance_id=None,
        rack_id=None,
        client_id=f"client-{name}",
        client_host="/10.0.0.1",
        topology_epoch=1,
        process_id="p",
        user_endpoint=made.Endpoint(host="10.0.0.1", port=8080),
        client_tags=[],
        task_offsets=[],
        task_end_offsets=[],
        assignment=assigned,
        target_assignment=assigned,
        is_classic=False,
    )


def test_a_thread_has_the_partitions_of_its_active_tasks() -> None:
    """Of all topics that the part reads; standby tasks read no work."""
    topology = protocol.StreamsGroupDescribeResponse.DescribedGroup.Topology
    found = streams(
        "Stable",
        topology(epoch=1, subtopologies=[part("0", ["a", "b"], []), part("1", [], ["app-x-repartition"])]),
        [thread("one", {"0": [0, 1]}, {"1": [0]}), thread("two", {"1": [1]}, {})],
    )
    assert [each.partitions for each in found.members] == [
        {("a", 0), ("a", 1), ("b", 0), ("b", 1)},
        {("app-x-repartition", 1)},
    ]
    assert (found.state, found.assignor, found.members[0].host) == ("Stable", "streams", "10.0.0.1")


@pytest.mark.parametrize("parts", [None, "none"])
def test_an_application_that_just_begins_has_no_topology_yet(parts: str | None) -> None:
    """Null, or without parts: its members have nothing."""
    topology = protocol.StreamsGroupDescribeResponse.DescribedGroup.Topology
    found = streams("NotReady", None if parts is None else topology(epoch=0, subtopologies=None), [thread("one", {"0": [0]}, {})])
    assert [each.partitions for each in found.members] == [frozenset()]


class _Answers(OtherGroups):
    """Answers with what a test says, in turn; an error is raised."""

    def __init__(self, listed: Any, *told: Any) -> None:
        super().__init__(NOWHERE, 1.0)
        self._listed, self._told, self.asked = listed, list(told), 0

    def listed(self) -> dict[str, Listed]:
        self.asked += 1
        if isinstance(self._listed, Exception):
            raise self._listed
        return dict(self._listed)

    def look(self, groups: Mapping[str, Any]) -> dict[str, OtherGroup]:
        told = self._told.pop(0)
        if isinstance(told, Exception):
            raise told
        return dict(told)


def reader(answers: OtherGroups) -> GroupReader:
    """Return a reader that has these answers."""
    made = GroupReader(NOWHERE, 0.1)
    made._other_groups = answers
    return made


def shared_group(start: int, lag: int | None) -> OtherGroup:
    """Return a share group with one partition."""
    return OtherGroup("Stable", "simple", (), {("q", 0): (start, lag)})


def test_how_far_a_share_group_is_does_not_go_back_by_what_came_meanwhile() -> None:
    """Only where somebody set it back; what nobody tells is unknown."""
    made = reader(_Answers({}))
    done = [
        made._done("g", shared_group(start, lag), ends)
        for start, lag, ends in (
            (0, 40, {("q", 0): 100}),
            (0, 45, {("q", 0): 100}),  # five came after the end was asked for
            (70, 30, {("q", 0): 110}),
            (10, 100, {("q", 0): 110}),  # set back
            (10, None, {("q", 0): 110}),
            (10, 90, {}),
        )
    ]
    assert done == [{("q", 0): 60}, {("q", 0): 60}, {("q", 0): 80}, {("q", 0): 10}, {}, {}]


def test_of_a_share_group_that_is_gone_nothing_is_kept() -> None:
    """Whoever makes groups may make ever new ones."""
    made = reader(_Answers({"stays": Listed("share", is_empty=False)}))
    for name in ("stays", *map(str, range(1_000))):
        made._done(name, shared_group(0, 40), {("q", 0): 100})
    made._others()
    assert made._shared.keys() == {"stays"}


def test_partitions_of_a_share_group_that_are_untold_are_left_out() -> None:
    """An error, or one that nobody has read yet, is no offset."""
    kind = protocol.DescribeShareGroupOffsetsResponse
    group = kind.DescribeShareGroupOffsetsResponseGroup
    topic = group.DescribeShareGroupOffsetsResponseTopic
    at = topic.DescribeShareGroupOffsetsResponsePartition

    def of(number: int, start: int, lag: int, error: int = 0) -> Any:
        return at(partition_index=number, start_offset=start, leader_epoch=0, lag=lag, error_code=error, error_message=None)

    (told,) = answer(
        kind,
        groups=[
            group(
                group_id="g",
                topics=[
                    topic(
                        topic_name="q", topic_id=None, partitions=[of(0, 5, 7), of(1, -1, -1), of(2, 5, -1), of(3, 5, 7, error=3)]
                    )
                ],
                error_code=0,
                error_message=None,
            )
        ],
    ).groups
    described = protocol.ShareGroupDescribeResponse.DescribedGroup(
        error_code=0,
        error_message=None,
        group_id="g",
        group_state="Empty",
        group_epoch=1,
        assignment_epoch=1,
        assignor_name="simple",
        members=[],
        authorized_operations=0,
    )
    assert _share(described, told).waits == {("q", 0): (5, 7), ("q", 2): (5, None)}
    assert _share(described, None).waits == {}


def test_a_client_that_fails_takes_nothing_down_until_there_were_such_groups(caplog: pytest.LogCaptureFixture) -> None:
    """First a line; later an answer without them would look as if they had ended."""
    made = reader(_Answers(NotTold("no way\x1b[2J")))
    assert (made._others(), made._others()) == ({}, {})
    assert caplog.text.count("list its Kafka Streams and share groups (no way") == 1
    assert "\x1b" not in caplog.text
    made._other_groups = _Answers({"g": Listed("share", is_empty=False)})
    assert made._others() == {"g": Listed("share", is_empty=False)}
    made._other_groups = _Answers(NotTold("no way"))
    with pytest.raises(GroupsUnavailable, match="when asked to list groups"):
        made._others()


@pytest.mark.parametrize(("is_refused", "kind"), [(True, RightMissing), (False, GroupsUnavailable)])
def test_a_group_that_is_not_told_of_is_one_line(is_refused: bool, kind: type[GroupsUnavailable]) -> None:
    """It names the group, and the right where that is missing."""
    listed = {"g": Listed("share", is_empty=False)}
    made = reader(_Answers(listed, NotTold("why", is_refused=is_refused)))
    with pytest.raises(kind, match="describe group g"):
        made._look_at_others(["g", "other"])


def test_groups_are_listed_again_only_for_one_that_is_not_known() -> None:
    """Each job looks at its own; a thousand of them would list a thousand groups a thousand times."""
    group = OtherGroup("Stable", "simple", (), {})
    answers = _Answers({"g": Listed("share", is_empty=False)}, {"g": group}, {"g": group}, {}, {})
    made = reader(answers)
    looks = [(bool(made._look_at_others(["g"])), answers.asked) for _ in range(4)]
    assert looks == [(True, 1), (True, 1), (False, 1), (False, 2)]


@given(
    st.dictionaries(st.tuples(st.just("q"), st.integers(0, 6)), st.integers(0, 10_000)),
    st.lists(st.frozensets(st.tuples(st.just("q"), st.integers(0, 6))), min_size=1, max_size=6),
    st.sampled_from(["share", "consumer"]),
)
def test_what_was_read_is_divided_among_members_and_none_is_lost(
    records: dict[Partition, int], members: list[frozenset[Partition]], kind: Any
) -> None:
    """Of a consumer group each partition is one member's; of a share group those who have it differ by one record at most."""
    group = GroupDescription("g", "stable", tuple(Member(str(n), "", "", each) for n, each in enumerate(members)), "", {}, kind)
    found = _by_member(group, records)
    assert {each: sum(own.get(each, 0) for own in found) for each in records} == records
    for each in records:
        parts = [own[each] for own in found if each in own]
        assert max(parts) - min(parts) <= 1
        assert len(parts) == (max(1, sum(each in own for own in members)) if kind == "share" else 1)


@given(st.integers(1, MEMBERS_MAX))
def test_any_number_of_members_shares_more_than_fewer(partitions: int) -> None:
    """Below the partitions as they are dealt, from then on each member counts; the list fits into a topology."""
    found = shared(partitions, MEMBERS_MAX)
    assert len(found) <= 256
    assert found[0] == (1, 1.0)
    assert all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(found))
    for size, carries in found:
        even = size if size >= partitions else partitions / -(-partitions // size)
        assert carries == pytest.approx(even, rel=0.006)


def test_threads_may_ask_first_at_the_same_time() -> None:
    """In a process of its own: kafka-python imports itself in circles."""
    program = """
import sys, threading
from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups.other_types import NotTold, OtherGroups

def ask():
    try:
        OtherGroups(PipelineSettings(bootstrap="127.0.0.1:1"), 0.1).listed()
    except NotTold as error:
        print(error)

threads = [threading.Thread(target=ask) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.count("Unable to bootstrap") == 4, done.stderr


def test_a_listener_that_never_ends_its_handshake_holds_nobody_up() -> None:
    """kafka-python waits for it without end, and whoever asks next waits for who asks now."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = PipelineSettings(bootstrap=f"127.0.0.1:{silent.getsockname()[1]}", kafka_security_protocol="SSL")
        made, found = OtherGroups(settings, 0.1), list[str]()

        def ask() -> None:
            with pytest.raises(NotTold) as told:
                made.listed()
            found.append(str(told.value))

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(20.0)
    assert found == ["no answer in time"]


def test_an_answer_of_more_than_a_million_bytes_is_read() -> None:
    """Whoever makes groups chooses how long their names are: thirty of the longest would hide all others."""
    made = OtherGroups(NOWHERE, 0.1)
    with pytest.raises(KafkaTimeoutError):
        made._connected()
    assert made._manager.config["receive_message_max_bytes"] >= 8 * 2**20
