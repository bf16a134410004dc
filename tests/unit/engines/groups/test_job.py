"""What the source of consumer groups says of a job, from a broker that tells what a test has written down."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import GroupWorker, MinuteMarker, TaskSample, TaskSpec
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.windows import Window
from surescale.engines.groups.broker import GroupDescription, GroupReader, GroupState
from surescale.engines.groups.chains import Chain, Group, single
from surescale.engines.groups.job import ChainJob, _add_busy, _Counted
from surescale.engines.groups.members import Member
from surescale.engines.kafka.offsets import TopicOffsets
from surescale.engines.kafka.positions import Answer, Extent, Partition
from surescale.engines.ports.event_log import EventLog
from surescale.engines.ports.minutes import JobSnapshot
from surescale.engines.ports.source import SourceUnavailable, UnknownJob
from surescale.engines.processes.worker_store import Requirement
from surescale.policies.question import Question
from surescale.spark_streaming.columns import Coordinates
from surescale.spark_streaming.minutes import MinuteRules, Minutes
from tests.support.record_columns import records_of
from tests.unit.spark_streaming.pipeline import RULES, newest, no_clock

BEGAN_MS = 30_000_000 * MINUTE_MS
Ends = Mapping[Partition, int | tuple[int, int]]


class Groups(GroupReader):
    """The groups of a broker."""

    def __init__(self) -> None:
        """Connect to nothing."""
        self.told: dict[str, GroupDescription] = {}

    def look(self, groups: Sequence[str]) -> dict[str, GroupDescription]:
        """Return some of them."""
        return {name: self.told[name] for name in groups}


@dataclass
class Broker(TopicOffsets):
    """A broker with some groups and topics, and a clock that goes a minute further with each look."""

    ends: dict[Partition, int | tuple[int, int]] = field(default_factory=dict)  # type: ignore[assignment]
    groups: Groups = field(default_factory=Groups)
    topic_ids: dict[str, str] = field(default_factory=dict)
    untold: dict[Partition, str] = field(default_factory=dict)
    minute: int = 0

    def __post_init__(self) -> None:
        """Connect to nothing."""
        TopicOffsets.__init__(self, PipelineSettings(bootstrap="k:9092"))

    def look(self, topics: Sequence[str]) -> Answer:
        """Return what some topics hold."""
        found = {each: end for each, end in self.ends.items() if each[0] in topics and each not in self.untold}
        extents = {
            each: Extent(*(end if isinstance(end, tuple) else (0, end)), self.topic_ids.get(each[0], "a"))
            for each, end in found.items()
        }
        there = {topic for topic, _ in self.ends}
        return Answer(
            extents,
            {each: why for each, why in self.untold.items() if each[0] in topics},
            frozenset(each for each in topics if each not in there),
        )

    def now_ms(self) -> int:
        """Return the present time."""
        return BEGAN_MS + self.minute * MINUTE_MS

    def wait(self, seconds: float) -> bool:
        """Do not wait."""
        return False

    def group(
        self,
        committed: Mapping[Partition, int],
        *assigned: Sequence[Partition],
        name: str = "g",
        assignor: str = "sticky",
        state: GroupState = "stable",
        run: str = "",
    ) -> None:
        """Write down a group whose members have these partitions."""
        members = tuple(Member(f"{run}{at}", f"c{at}", "h", frozenset(each)) for at, each in enumerate(assigned))
        self.groups.told[name] = GroupDescription(name, state, members, assignor, dict(committed))


@dataclass
class Followed:
    """A job and what its looks say."""

    broker: Broker
    chain: Chain
    events: EventLog = field(default_factory=lambda: EventLog("c"))
    failing: dict[str, str] = field(default_factory=dict)
    workers: dict[str, tuple[GroupWorker, ...]] = field(default_factory=dict)
    required: dict[str, int] | None = None
    before: tuple[TaskSample, ...] = ()
    now: JobSnapshot | None = None

    def __post_init__(self) -> None:
        """Take no look yet."""
        failing = lambda _, task: self.failing.get(task, "")  # noqa: E731
        asked = (
            self.broker.groups,
            self.broker,
            lambda _: self._requirement(),
            failing,
            lambda _, task: self.workers.get(task, ()),
        )
        self.job = ChainJob("c/j", self.chain, *asked, self.events, self.broker, 1.0)

    def _requirement(self) -> Requirement | None:
        return None if self.required is None else Requirement("e", 1, self.required)

    def look(self) -> JobSnapshot:
        """Take a look, a minute after the one before."""
        self.before = self.now.samples if self.now is not None else ()
        self.broker.minute += 1
        self.now = self.job.look()
        return self.now

    def grown(self, figure: str, task: str = "g") -> int | None:
        """Return by how much a figure of a task grew over the last look."""
        now, before = (total(samples, figure, task) for samples in (self.now.samples if self.now else (), self.before))
        return None if now is None or before is None else now - before

    def queued(self, task: str = "g") -> int | None:
        """Return what waits for a task."""
        return total(self.now.samples if self.now else (), "queued_records", task)

    def spec(self, task: str = "g") -> TaskSpec:
        """Return what the topology says of a task."""
        assert self.now is not None
        return next(each for each in self.now.topology.tasks if each.task == task)

    def told(self) -> list[str]:
        """Return what the events say, but for who joined and left."""
        return [each.detail for each in self.events.after("") if each.kind == "exception"]


def total(samples: Sequence[TaskSample], figure: str, task: str) -> int | None:
    """Return a figure over all members; None if one of them does not know it."""
    found = [getattr(each, figure) for each in samples if each.task == task]
    return None if not found or None in found else sum(found)


def alone(broker: Broker) -> Followed:
    """Return a job of one group without a file."""
    return Followed(broker, Chain("j", {"g": Group()}))


def parts(topic: str, count: int) -> list[Partition]:
    """Return the partitions of a topic."""
    return [(topic, number) for number in range(count)]


def test_an_idle_partition_without_a_commit_hides_no_backlog() -> None:
    """Its records were removed long ago: nothing waits there, and what waits elsewhere is known."""
    broker, orders = Broker(), parts("orders", 4)
    job = alone(broker)
    for minute in range(3):
        broker.ends.update(dict.fromkeys(orders[:3], 200000 + 10000 * minute) | {orders[3]: (700, 700)})
        broker.group(dict.fromkeys(orders[:3], 1000 * minute), orders[:2], orders[2:])
        job.look()
    assert (job.queued(), job.spec().backlog_partly_unknown) == (3 * (220_000 - 2_000), "")
    assert (job.grown("records_in"), job.grown("arrived_records")) == (3_000, 30_000)


def test_what_is_known_of_a_backlog_is_its_least() -> None:
    """The topology names the partition of which nobody knows, and an event does once."""
    broker, orders = Broker(), parts("orders", 2)
    job = alone(broker)
    broker.ends.update({orders[0]: 5_000, orders[1]: 300})
    broker.group({orders[0]: 1_000}, orders)
    for _ in range(3):
        job.look()
    assert job.queued() == 4_000
    assert "orders[1]: nothing was ever committed there" in job.spec().backlog_partly_unknown
    assert len(job.told()) == 1
    broker.group({}, orders)
    job.look()
    assert (job.queued(), job.spec().backlog_partly_unknown) == (None, "")


def test_a_topic_that_a_deploy_adds_brings_no_past() -> None:
    """It has been in use for long; its records count from the first look, also those of a partition that is added then."""
    broker, orders, clicks = Broker(), parts("orders", 2), parts("clicks", 2)
    job = alone(broker)
    for minute in range(2):
        broker.ends.update(dict.fromkeys(orders, 500 + 40 * minute))
        broker.group(dict.fromkeys(orders, 500 + 40 * minute), orders)
        job.look()
    broker.ends.update(dict.fromkeys(orders, 580) | dict.fromkeys(clicks, 1_000_000_000))
    broker.group(dict.fromkeys(orders, 580), [*orders, *clicks])
    job.look()
    assert job.grown("arrived_records") == 80
    broker.ends.update(dict.fromkeys(orders, 600) | dict.fromkeys(clicks, 1_000_000_010) | {("clicks", 2): 7})
    job.look()
    assert job.grown("arrived_records") == 40 + 20 + 7


def test_a_topic_that_the_group_has_left_does_not_count() -> None:
    """Its commits stay for days, and others go on writing to it."""
    broker, old, new = Broker(), parts("orders-v1", 2), parts("orders-v2", 2)
    job = alone(broker)
    for minute in range(4):
        broker.ends.update(dict.fromkeys(old, 40000 + 20000 * minute) | dict.fromkeys(new, 1500 * minute))
        broker.group(dict.fromkeys(old, 40000) | dict.fromkeys(new, 1500 * minute), new)
        job.look()
    assert (job.queued(), job.grown("arrived_records"), job.spec().useful_max) == (0, 3_000, 2)


def test_a_group_without_members_has_what_it_committed() -> None:
    """It is told what waits for it as soon as it has members."""
    broker, orders = Broker(), parts("orders", 2)
    job = alone(broker)
    broker.ends.update(dict.fromkeys(orders, 100))
    broker.group(dict.fromkeys(orders, 60), state="empty")
    assert job.look().topology.state == "suspended"
    assert job.job._tasks["g"].positions.known == 80


@pytest.mark.parametrize("assignor", ["faust", "stream", "StreamsPartitionAssignor", "copartitioned-sticky"])
def test_topics_that_an_application_makes_for_itself_do_not_count(assignor: str) -> None:
    """Changelogs, repartition topics, the assignor's; a partition of two members counts once, and the widest topic limits."""
    broker, orders = Broker(), parts("orders", 4)
    own = [*parts("g-table-changelog", 4), ("g-__assignor-__leader", 0), *parts("g-by-key-repartition", 4)]
    job = alone(broker)
    for minute in range(3):
        broker.ends.update(dict.fromkeys(orders, 100 * minute) | dict.fromkeys(own, 500 + 900 * minute))
        broker.group(dict.fromkeys(orders, 90 * minute), [*orders[:3], *own], [*orders[1:], *own[:4]], assignor=assignor)
        job.look()
    assert (job.grown("arrived_records"), job.grown("records_in"), job.queued()) == (400, 360, 80)
    assert job.spec().useful_max == 4


def test_another_application_may_read_a_changelog() -> None:
    """Only one's own are internal."""
    broker, changes = Broker(), parts("orders-changelog", 2)
    job = alone(broker)
    for minute in range(3):
        broker.ends.update(dict.fromkeys(changes, 10 * minute))
        broker.group(dict.fromkeys(changes, 10 * minute), changes)
        job.look()
    assert job.grown("arrived_records") == 20


@pytest.mark.parametrize(("assignor", "useful"), [("stream", 8), ("range", 8), ("sticky", 16)])
def test_members_of_a_join_share_the_numbers_of_its_topics(assignor: str, useful: int) -> None:
    """Of two topics of 8, partitioned alike, a member has both partitions of a number."""
    broker, both = Broker(), [*parts("orders", 8), *parts("payments", 8)]
    job = alone(broker)
    broker.ends.update(dict.fromkeys(both, 10))
    broker.group(dict.fromkeys(both, 10), both, assignor=assignor)
    job.look()
    assert job.spec().useful_max == useful


@pytest.mark.parametrize("assignor", ["range", "stream"])
def test_members_that_have_work_have_a_use(assignor: str) -> None:
    """Members may read different topics, or be parts of one Streams application; one that has only a changelog has no work."""
    broker, orders, payments = Broker(), parts("orders", 3), parts("payments", 3)
    job = alone(broker)
    broker.ends.update(dict.fromkeys([*orders, *payments], 10))
    alone_each = [[each] for each in (*orders, *payments)]
    broker.group(dict.fromkeys(orders, 10), *alone_each, [], parts("g-table-changelog", 1), assignor=assignor)
    job.look()
    assert (job.spec().parallelism, job.spec().useful_max) == (8, 6)


def test_partitions_whose_broker_starts_are_not_taken_for_slow_ones() -> None:
    """For one look a third of the partitions has no leader."""
    broker, orders = Broker(), parts("orders", 12)
    job = alone(broker)
    for minute in range(30):
        broker.untold = dict.fromkeys(orders[::3], "no leader") if minute == 20 else {}
        broker.ends.update(dict.fromkeys(orders, 1_000 * minute))
        broker.group(dict.fromkeys(orders, 1_000 * minute), *([each] for each in orders), assignor="range")
        job.look()
        assert job.spec().carries == ()


def test_a_phantom_backlog_below_the_start_is_none() -> None:
    """Retention has removed all that was not read: nothing waits, and nothing is stuck."""
    broker, orders = Broker(), parts("orders", 2)
    job = alone(broker)
    for minute in range(10):
        broker.ends.update({orders[0]: (4_000_008, 4_000_008), orders[1]: 100 * minute})
        broker.group({orders[0]: 0, orders[1]: 100 * minute}, orders[:1], orders[1:])
        job.look()
    assert (job.queued(), job.spec().hindrance) == (0, "")


def test_a_commit_past_the_end_is_unknown_and_told() -> None:
    """A topic was made anew, and the commits of the old one stayed: 90,000 records are unread."""
    broker, orders = Broker(), parts("orders", 1)
    job = alone(broker)
    for end, topic_id in ((100_000, "a"), (100_000, "a"), (90_000, "b"), (90_000, "b")):
        broker.topic_ids["orders"] = topic_id
        broker.ends[orders[0]] = end
        broker.group({orders[0]: 100_000}, orders)
        job.look()
    assert job.queued() is None
    assert any("past the end 90000: the topic was made anew; reset the offsets" in each for each in job.told())
    assert [each.watermark_lag_ms for each in job.now.samples] == [None]  # type: ignore[union-attr]


def test_an_idle_group_behind_a_marker_of_a_transaction_is_not_stuck() -> None:
    """It commits the offset after its last record, which is one short of the end."""
    broker, orders = Broker(), parts("orders", 4)
    job = alone(broker)
    for minute in range(30):
        done = 100 * min(minute, 5)
        broker.ends.update(dict.fromkeys(orders, done + 1))
        broker.group(dict.fromkeys(orders, done), orders)
        job.look()
    assert (job.told(), job.spec().useful_max, job.queued()) == ([], 4, 0)


def test_a_jump_forward_is_neither_work_nor_input_of_the_next_group() -> None:
    """The offsets of the first group were put to the end, over four million records; the second goes on as before."""
    broker, orders, parsed = Broker(), parts("orders", 4), parts("parsed", 4)
    chain = Chain("j", {"g": Group(reads=("orders",), writes=("parsed",)), "next": Group(reads=("parsed",))})
    job = Followed(broker, chain)
    for minute in range(12):
        jump = 1_000_000 if minute >= 8 else 0
        broker.ends.update(dict.fromkeys(orders, 1000000 + 750 * minute) | dict.fromkeys(parsed, 750 * minute))
        broker.group(dict.fromkeys(orders, jump + 750 * minute), *[[each] for each in orders], run="b" if minute >= 8 else "a")
        broker.group(dict.fromkeys(parsed, 750 * minute), parsed, name="next")
        job.look()
        if minute == 8:
            assert total(job.now.samples, "records_in", "g") == 0  # type: ignore[union-attr]
        elif minute > 1:
            assert (job.grown("records_in"), job.grown("records_in", "next")) == (3_000, 3_000)
    skipped = [each for each in job.told() if "put forward" in each]
    assert len(skipped) == 1
    assert skipped[0].startswith("g: orders[3] and 3 more were put forward by 4003000 records: skipped")


def test_a_broker_that_tells_of_some_partitions_makes_the_others_unknown() -> None:
    """What is known counts as the least, arrivals are unknown until all are told, and nothing counts twice."""
    broker, orders = Broker(), parts("orders", 2)
    job = alone(broker)
    counts = []
    for minute in range(5):
        broker.ends.update(dict.fromkeys(orders, 100 + 50 * minute))
        broker.untold = {orders[1]: "the broker does not tell its offsets (leader not available); look at its leader"}
        if minute != 2:
            broker.untold = {}
        broker.group(dict.fromkeys(orders, 50 * minute), orders)
        job.look()
        counts.append(total(job.now.samples, "arrived_records", "g"))  # type: ignore[union-attr]
        if minute == 2:
            assert job.queued() == 100
            assert "orders[1]: the broker does not tell its offsets" in job.spec().backlog_partly_unknown
    assert counts[2] is None
    assert counts[1] is not None
    assert counts[4] is not None
    assert counts[4] - counts[1] == 300
    assert total(job.now.samples, "records_in", "g") == 300, "two looks' work is that of no minute"  # type: ignore[union-attr]


def test_a_broker_that_tells_of_some_partitions_makes_no_load_of_them() -> None:
    """Half of the topic for five minutes: neither half the load, nor all of it in one minute, nor records that cost twice."""
    broker, orders = Broker(), parts("orders", 2)
    minutes, job, loads, busy = Minutes(MinuteRules()), alone(broker), [], []
    for minute in range(20):
        broker.ends.update(dict.fromkeys(orders, 50 * minute))
        broker.untold = {orders[1]: "no leader"} if 10 <= minute < 15 else {}
        broker.group({each: broker.ends[each] for each in orders}, orders)  # type: ignore[misc]
        window = window_after(minutes, job, 10 * minute)
        (load,) = Question.of(window, JobSettings(job="c/j"), 0).measured.load[-1:].tolist()
        loads.append(load)
        busy += [each.busy_ms for each in job.now.samples] if 10 <= minute < 15 else []  # type: ignore[union-attr]
    assert [minute for minute, each in enumerate(loads) if math.isnan(each)] == [0, 1, *range(10, 16)]
    assert {each for each in loads if not math.isnan(each)} == {100.0}
    assert float(window.hourly_load[-1]) == pytest.approx(100.0, abs=5.0)
    assert busy == [None] * 5


@pytest.mark.parametrize("state", ["stable", "empty", "dead"])
@pytest.mark.parametrize(
    ("group", "lacks"),
    [
        (Group(reads=("clicks",)), "clicks"),
        (Group(reads=("orders", "clicks")), "clicks"),
        (Group(reads=("orders",), writes=("parsed",)), "parsed"),
        (Group(reads=("ordres",), writes=("parsed",)), "ordres, parsed"),
    ],
    ids=["all", "one of two", "an output", "both"],
)
def test_a_job_whose_file_names_a_topic_that_never_was_starts_and_names_it(group: Group, lacks: str, state: GroupState) -> None:
    """It is a job from the first look, without figures; with the topic it goes on, and what that held before is no load."""
    broker, orders = Broker(), parts("orders", 1)
    broker.group({orders[0]: 10}, *([orders] if state == "stable" else []), state=state)
    broker.ends[orders[0]] = 30
    job = Followed(broker, Chain("j", {"g": group}, is_named=True))
    for _ in range(3):
        look = job.look()
        assert (look.topology.state, look.samples) == ("created", ())
        assert f"has no topic {lacks}; " in job.spec().hindrance
        assert "or correct its name in SURESCALE_GROUPS_FILE" in job.spec().hindrance
    assert len(job.told()) == 1  # once, and not with each look
    broker.ends |= dict.fromkeys([(topic, 0) for topic in lacks.split(", ")], 1_000)
    broker.group({orders[0]: 10}, orders)
    assert (job.look().topology.state, job.spec().hindrance) == ("running", "")
    job.look()
    job.look()
    assert job.grown("arrived_records") == 0


def test_a_job_at_rest_waits_for_the_topics_of_its_file() -> None:
    """It was at work with them: that it has nothing to do is not known, nor that it has to start anew."""
    broker, orders = Broker(), parts("orders", 1)
    broker.group({orders[0]: 10}, state="empty")
    job = Followed(broker, Chain("j", {"g": Group(reads=("orders",))}, is_named=True), required={"g": 0})
    with pytest.raises(SourceUnavailable, match="has no topic orders; set SURESCALE_SOURCE_BOOTSTRAP"):
        job.look()


def test_a_topic_that_vanishes_is_unknown_and_the_rest_of_the_job_is_known() -> None:
    """Somebody deleted it; without any topic the job is held."""
    broker, orders = Broker(), parts("orders", 1)
    broker.ends[orders[0]] = 30
    job = Followed(broker, Chain("j", {"g": Group(reads=("orders", "payments"))}))
    broker.ends["payments", 0] = 9
    broker.group({orders[0]: 10, ("payments", 0): 9}, [*orders, ("payments", 0)])
    job.look()
    job.look()
    del broker.ends["payments", 0]
    job.look()
    assert job.queued() == 20
    assert "payments[0]: the topic is gone" in job.spec().backlog_partly_unknown
    assert [each.arrived_records for each in job.now.samples] == [None]  # type: ignore[union-attr]
    broker.ends.clear()
    with pytest.raises(SourceUnavailable, match=r"has no topic orders, payments; .*held"):
        job.look()


def window_after(minutes: Minutes, job: Followed, offset: int) -> Window:
    """Return the window that a look at a job makes."""
    look, end_ms = job.look(), job.broker.now_ms()
    samples = [msgspec.structs.replace(each, sampled_at_ms=end_ms) for each in look.samples]
    messages = [*samples, MinuteMarker(job="c/j", minute_end_ms=end_ms, topology=look.topology)]
    records = records_of([(Coordinates(0, offset + at, end_ms + at), each) for at, each in enumerate(messages)])
    (window,) = minutes.feed(records, no_clock(records)).windows
    return window


def test_a_jump_into_view_never_enters_the_load_history() -> None:
    """Neither when a topic joins, nor when the monitor starts over and sees it for the first time: then one minute is unknown."""
    broker, orders, clicks = Broker(), parts("orders", 2), parts("clicks", 2)
    minutes, job, arrived, hourly = Minutes(RULES), alone(broker), [], 0.0
    for minute in range(40):
        broker.ends.update(dict.fromkeys(orders, 50 * minute) | dict.fromkeys(clicks, 1_000_000_000))
        assigned = [*orders, *clicks] if minute >= 20 else orders
        broker.group({each: broker.ends[each] for each in assigned}, assigned)  # type: ignore[misc]
        if minute == 30:
            job = alone(broker)
        window = window_after(minutes, job, 10 * minute)
        arrived.append(newest(window, "arrived", "g"))
        hourly = float(window.hourly_load[-1])
    unknown = [minute for minute, each in enumerate(arrived) if math.isnan(each)]
    assert unknown == [0, 1, 30, 31]
    assert {each for each in arrived if not math.isnan(each)} == {100.0}
    assert hourly == pytest.approx(100.0, abs=5.0)


def test_a_busy_time_that_cannot_have_passed_is_unknown() -> None:
    """Of a process that goes on under a new id, once; of a counter of milliseconds, for ever. A record may take ten minutes."""
    joined = _Counted(busy_s=0.0, moved_ms=0)
    told = [_add_busy(joined, 7_200.0 + 30.0 * minute, 1.0, (minute + 1) * MINUTE_MS) for minute in range(3)]
    assert (told, joined.busy_ms) == ([False, True, True], 60_000)
    milliseconds = _Counted(busy_s=0.0, moved_ms=0)
    assert not any(_add_busy(milliseconds, 30_000.0 * minute, 1.0, minute * MINUTE_MS) for minute in range(1, 4))
    assert milliseconds.busy_ms is None
    slow = _Counted(busy_s=5.0, moved_ms=0)
    assert all(_add_busy(slow, 5.0 + 600.0 * (minute // 10), 1.0, minute * MINUTE_MS) for minute in range(1, 21))
    assert slow.busy_ms == 1_200_000


def test_workers_that_crash_at_their_start_are_named_in_the_topology() -> None:
    """So state, API and page say so; before anything else that hinders the task."""
    broker = Broker(ends={("orders", 0): 10})
    broker.group({("orders", 0): 10}, [("orders", 0)])
    job = Followed(broker, Chain("j", {"g": Group()}), failing={"g": "worker g 1 failed to start"})
    job.look()
    assert job.spec().hindrance == "worker g 1 failed to start"
    job.failing.clear()
    job.look()
    assert job.spec().hindrance == ""


def test_a_job_of_the_file_is_one_before_any_worker_has_joined() -> None:
    """It starts, and says how its workers fail; once its group has been there, one that is gone is refused."""
    broker = Broker(ends={("orders", 0): 10})
    broker.group({}, state="dead")
    job = Followed(broker, Chain("j", {"g": Group()}))
    first = job.look()
    assert (first.topology.state, first.samples) == ("created", ())
    assert job.spec().hindrance == "there is no group g; start its consumers, or correct its name in SURESCALE_GROUPS_FILE"
    assert first.topology.groups[0].lag is None
    assert len(job.told()) == 1
    job.failing["g"] = "worker g 0 failed to start"
    job.look()
    assert job.spec().hindrance == "worker g 0 failed to start"
    job.failing.clear()
    broker.group({("orders", 0): 4}, [("orders", 0)])
    job.look()
    running = job.look()
    assert (running.topology.state, job.queued(), job.spec().hindrance) == ("running", 6, "")
    broker.group({}, state="dead")
    with pytest.raises(SourceUnavailable, match=r"there is no group g \(g\); start its consumers, or correct its name"):
        job.look()


def test_a_group_that_no_file_names_is_no_job_once_it_is_gone() -> None:
    """A consumer that somebody started on the command line would stay as a job that starts."""
    broker, orders = Broker(), parts("orders", 1)
    broker.group({}, state="dead")
    with pytest.raises(UnknownJob, match="there is no group g"):
        Followed(broker, single("g")).look()
    job = Followed(broker, single("g"))
    broker.ends.update(dict.fromkeys(orders, 0))
    broker.group(dict.fromkeys(orders, 0), orders)
    assert job.look().topology.state == "running"
    broker.group(dict.fromkeys(orders, 0), state="empty")
    assert job.look().topology.state == "suspended"
    broker.group({}, state="dead")
    with pytest.raises(UnknownJob, match="there is no group g"):
        job.look()


def test_partitions_of_unequal_rates_say_what_sizes_carry() -> None:
    """Two hot ones side by side, which range gives to one member; a change of that makes no version of the topology."""
    broker, orders = Broker(), parts("orders", 6)
    came = dict(zip(orders, (900, 900, 50, 50, 50, 50), strict=True))
    job, versions = alone(broker), set()
    for minute in range(40):
        ends = {each: records * minute for each, records in came.items()}
        broker.ends.update(ends)
        broker.group(ends, orders[:2], orders[2:4], orders[4:], assignor="range")
        versions.add(job.look().topology.version)
        told = dict(job.spec().carries)
        if minute > 3:
            assert max(carries for size, carries in told.items() if size < 6) == pytest.approx(2000 / 1800, rel=0.05)
            assert told[6] == pytest.approx(2000 / 900, rel=0.01)
    assert len(versions) == 1
    even = dict.fromkeys(orders, 300)
    for _ in range(60):
        broker.ends.update({each: broker.ends[each] + even[each] for each in orders})  # type: ignore[operator]
        broker.group(dict(broker.ends), orders[:2], orders[2:4], orders[4:], assignor="range")  # type: ignore[arg-type]
        versions.add(job.look().topology.version)
    assert job.spec().carries == ()
    assert len(versions) == 1
