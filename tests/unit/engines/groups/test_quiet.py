"""When a job of consumer groups has nothing to do, and what is said of one that is at rest."""

import pytest
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import Quiet
from surescale.engines.groups.chains import Chain, Group, single
from surescale.engines.ports.source import SourceUnavailable
from tests.unit.engines.groups.test_job import BEGAN_MS, Broker, Followed

FIRST, SECOND = ("in", 0), ("in", 1)


def followed(**committed: int) -> Followed:
    """Return a job of one group of one worker that reads two partitions of 10 records, all committed but for what is said."""
    broker = Broker(ends={FIRST: 10, SECOND: 10})
    broker.group({FIRST: committed.get("first", 10), SECOND: committed.get("second", 10)}, [FIRST, SECOND])
    return Followed(broker, single("g"), required={"g": 1})


def told(found: Followed) -> Quiet:
    """Return what the next look says."""
    quiet = found.look().topology.quiet
    assert quiet is not None
    return quiet


def test_a_job_is_quiet_since_the_look_from_which_on_nothing_came_and_all_was_committed() -> None:
    """A record that comes begins it anew, also if it is committed by the next look; so does one that is not."""
    found = followed()
    first_ms = BEGAN_MS + MINUTE_MS
    assert [told(found) for _ in range(3)] == [Quiet(since_ms=first_ms, waiting=0)] * 3
    found.broker.ends[FIRST] = 11
    found.broker.group({FIRST: 11, SECOND: 10}, [FIRST, SECOND])
    assert told(found).since_ms == found.broker.now_ms()
    found.broker.ends[FIRST] = 13
    assert told(found) == Quiet(since_ms=None, waiting=2)
    found.broker.group({FIRST: 13, SECOND: 10}, [FIRST, SECOND])
    assert told(found) == Quiet(since_ms=found.broker.now_ms(), waiting=0)


def test_what_may_be_a_marker_counts_as_waiting() -> None:
    """For decisions a few offsets behind an end that stands still are markers of transactions; here nobody guesses."""
    found = followed(second=8)
    assert [told(found) for _ in range(8)][-1] == Quiet(since_ms=None, waiting=2)
    assert found.queued() == 0


@pytest.mark.parametrize("end", [0, 10])
def test_a_partition_without_a_commit_is_not_known_to_be_done(end: int) -> None:
    """Not even an empty one: its reader may begin at the end of what comes while it is away."""
    found = followed()
    found.broker.ends[SECOND] = end
    found.broker.group({FIRST: 10}, [FIRST, SECOND])
    assert [told(found) for _ in range(20)][-1] == Quiet(since_ms=None, waiting=end, why="g: in[1]: nothing was committed there")


def test_a_partition_that_the_broker_does_not_tell_is_not_known_to_be_done() -> None:
    """Nor one that was made anew."""
    found = followed()
    found.broker.untold[SECOND] = "its leader does not answer"
    assert told(found) == Quiet(since_ms=None, waiting=0, why="g: in[1]: its leader does not answer")
    found.broker.untold.clear()
    found.broker.ends[SECOND] = 4
    assert told(found) == Quiet(since_ms=None, waiting=4, why="g: in[1]: offset 10 was committed, past its end")


@pytest.mark.parametrize(("topic", "is_work"), [("g-store-repartition", True), ("g-store-changelog", False), ("else", True)])
def test_topics_that_members_read_and_nobody_looks_at_are_not_known_to_be_done(topic: str, is_work: bool) -> None:
    """Unless they only keep state."""
    found = Followed(followed().broker, Chain("j", {"g": Group(group="g", reads=("in",))}), required={"g": 1})
    found.broker.group({FIRST: 10, SECOND: 10}, [FIRST, SECOND, (topic, 0)])
    why = f"g: its members also read {topic}, which is not looked at" if is_work else ""
    assert told(found).why == why


def test_a_group_that_deals_out_its_partitions_is_not_quiet() -> None:
    """Whatever its commits say."""
    found = followed()
    found.look()
    found.broker.group({FIRST: 10, SECOND: 10}, [FIRST, SECOND], state="rebalancing")
    with pytest.raises(SourceUnavailable):
        found.look()
    assert told(found).since_ms is None


def test_a_job_that_nobody_asks_for_is_at_rest_and_nothing_is_wrong_with_it() -> None:
    """What waits is told on; a start is not said to lack members at once; figures go on with the first look after it."""
    found = followed()
    for _ in range(2):
        found.look()
    found.required = {"g": 0}
    found.broker.group({FIRST: 10, SECOND: 10}, state="empty")
    now = found.look()
    assert (now.topology.state, now.samples, found.spec().hindrance, found.spec().required) == ("resting", (), "", 0)
    assert found.spec().parallelism == 1
    for _ in range(60):
        assert told(found) == Quiet(since_ms=BEGAN_MS + MINUTE_MS, waiting=0)
    found.broker.ends[SECOND] = 17
    assert told(found) == Quiet(since_ms=None, waiting=7)
    found.required = {"g": 1}
    assert (found.look().topology.state, found.spec().hindrance) == ("created", "")
    found.broker.group({FIRST: 10, SECOND: 12}, [FIRST, SECOND], run="b")
    (sample,) = found.look().samples
    assert (sample.records_in, sample.queued_records) == (2, 5)
    assert found.told() == []


def test_a_start_that_brings_no_members_is_said() -> None:
    """After a while."""
    found = followed()
    found.required = {"g": 0}
    found.broker.group({FIRST: 10, SECOND: 10}, state="empty")
    found.look()
    found.required = {"g": 1}
    shown = [(found.look().topology.state, bool(found.spec().hindrance)) for _ in range(3)]
    assert shown == [("created", False), ("suspended", True), ("suspended", True)]
    assert found.told() == ["g: group g has no members; start its consumers"]


def test_a_job_at_rest_whose_offsets_kafka_forgot_has_all_its_records_before_it() -> None:
    """It is not gone: it is seen, and what waits starts it."""
    found = followed()
    found.look()
    found.required = {"g": 0}
    found.broker.group({}, state="dead")
    now = found.look()
    assert (now.topology.state, found.spec().hindrance) == ("resting", "")
    assert now.topology.quiet == Quiet(since_ms=None, waiting=20, why="g: in[0]: nothing was committed there")


def test_figures_of_quiet_make_no_new_version() -> None:
    """They are of one look, as what people see of the groups."""
    found = followed(first=9)
    before = found.look().topology
    found.broker.group({FIRST: 10, SECOND: 10}, [FIRST, SECOND])
    after = found.look().topology
    assert before.quiet != after.quiet
    assert replace(before, at_ms=0, quiet=None, groups=()) == replace(after, at_ms=0, quiet=None, groups=())
