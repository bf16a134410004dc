"""What Faust may commit while windows are done out of order."""

import asyncio
from dataclasses import dataclass, field

from faust.transport.conductor import Conductor
from faust.transport.consumer import Consumer
from faust.types import TP, ConsumerMessage
from hypothesis import given
from hypothesis import strategies as st

from surescale.services.agent.settings import AgentSettings
from surescale.services.agent.transport import Acknowledgements
from surescale.services.agent.worker import build_app

PLACE = TP("snapshots", 0)
FIRST = 40  # the committed offset


class FaustOffsets:
    """Faust's own bookkeeping of one partition, without a broker."""

    def __init__(self) -> None:
        app = build_app(AgentSettings())
        consumer, topics = app.consumer, app.topics
        assert isinstance(consumer, Consumer)
        assert isinstance(topics, Conductor)
        topics._acking_topics.add(PLACE.topic)
        self.consumer = consumer
        self.consumer._committed_offset[PLACE] = FIRST

    def event(self, offset: int) -> "Read":
        """Return a record that was read."""
        return Read(self.consumer, ConsumerMessage(PLACE.topic, PLACE.partition, offset, 0.0, 0, {}, b"", b"", None, tp=PLACE))

    def take_away(self) -> None:
        """Forget the partition, and have it again from the committed offset on, as in a rebalance."""
        committed = self.commit()
        for kept in (self.consumer._acked, self.consumer._acked_index):
            kept.pop(PLACE, None)
        self.consumer._committed_offset[PLACE] = committed

    def commit(self) -> int:
        """Move the committed offset as Faust's commit does, and return it."""
        offset = self.consumer._new_offset(PLACE)
        if offset is not None and self.consumer._should_commit(PLACE, offset):
            self.consumer._committed_offset[PLACE] = offset
        return int(self.consumer._committed_offset[PLACE] or 0)


@dataclass(eq=False)
class Read:
    """A record that Faust gave to the agent."""

    consumer: Consumer
    message: ConsumerMessage

    def ack(self) -> bool:
        """Let Faust commit it."""
        return bool(self.consumer.ack(self.message))


def test_faust_alone_passes_a_record_that_was_never_acknowledged() -> None:
    """If this fails, Faust has mended it, and `Acknowledgements` may go."""
    faust = FaustOffsets()
    faust.event(FIRST + 1).ack()
    assert faust.commit() == FIRST + 2


def test_faust_alone_passes_a_record_before_which_offsets_are_missing() -> None:
    """It reads 40, then 43, and takes 43 for one of those that are missing, as those of a transaction's marks are."""
    faust = FaustOffsets()
    faust.event(FIRST).ack()
    asyncio.run(faust.consumer._add_gap(PLACE, FIRST + 1, FIRST + 3))
    faust.event(FIRST + 4).ack()
    assert faust.commit() == FIRST + 5


@given(st.data())
def test_nothing_is_committed_before_it_is_done(data: st.DataObject) -> None:
    """Windows are done in any order, commits come in between, and partitions are taken away and read again from there."""
    faust, ours = FaustOffsets(), Acknowledgements()
    open_: dict[int, Read] = {}
    next_, done = FIRST, set[int]()
    for step in data.draw(st.lists(st.sampled_from(["read", "read", "done", "done", "commit", "rebalance"]), max_size=40)):
        if step == "read":
            open_[next_] = faust.event(next_)
            ours.begin(open_[next_])
            next_ += 1
        elif step == "done" and open_:
            offset = data.draw(st.sampled_from(sorted(open_)))
            ours.done(open_.pop(offset))
            done.add(offset)
        elif step == "commit":
            assert set(range(FIRST, faust.commit())) <= done
        elif step == "rebalance":
            ours.clear()
            open_.clear()
            faust.take_away()
            next_ = faust.commit()
    for event in open_.values():
        ours.done(event)
    assert faust.commit() == next_


@dataclass(eq=False)
class Place:
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


@dataclass(eq=False)
class Counted:
    """An event that says when it was acknowledged."""

    message: Place
    acknowledged: list[int] = field(default_factory=list)

    def ack(self) -> bool:
        """Note it."""
        self.acknowledged.append(self.message.offset)
        return True


def test_partitions_do_not_wait_for_each_other() -> None:
    """Each has its own order."""
    ours, acknowledged = Acknowledgements(), list[int]()
    first, other = (Counted(Place("snapshots", partition, 7 + partition), acknowledged) for partition in (0, 1))
    ours.begin(first)
    ours.begin(other)
    ours.done(other)
    assert acknowledged == [8]


def test_a_record_that_is_read_again_waits_in_its_own_place() -> None:
    """What was in hand before is not ours any more, and what comes behind waits for the new reading."""
    ours, acknowledged = Acknowledgements(), list[int]()
    old, behind, new = (Counted(Place("snapshots", 0, offset), acknowledged) for offset in (7, 8, 7))
    for event in (old, behind, new):
        ours.begin(event)
    assert not ours.is_open(old)
    ours.done(old)
    ours.done(behind)
    assert acknowledged == []
    ours.done(new)
    assert acknowledged == [7, 8]


def test_what_was_taken_away_is_never_acknowledged() -> None:
    """Whoever has the partition now answers it."""
    ours, acknowledged = Acknowledgements(), list[int]()
    event = Counted(Place("snapshots", 0, 7), acknowledged)
    ours.begin(event)
    ours.clear()
    ours.done(event)
    assert acknowledged == []
    assert not ours.is_open(event)
