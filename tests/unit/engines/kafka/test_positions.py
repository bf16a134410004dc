"""What offsets say of topics and of their reader: what came, what waits, what was got through, what was skipped."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.contracts.clock import MINUTE_MS
from surescale.engines.kafka.positions import Answer, Extent, Partition, Positions, in_words

P, Q, R = ("orders", 0), ("orders", 1), ("orders", 2)
NEW = ("clicks", 0)


def extents(ends: Mapping[Partition, int | tuple[int, int]], topic_id: str = "a") -> dict[Partition, Extent]:
    """Return extents from ends, or from starts and ends."""
    return {
        each: Extent(*(found if isinstance(found, tuple) else (0, found)), topic_id and f"{topic_id}:{each[0]}")
        for each, found in ends.items()
    }


class Reader:
    """A reader that is looked at once a minute."""

    def __init__(self) -> None:
        self.positions, self.minute = Positions(), 0

    def look(
        self,
        committed: Mapping[Partition, int],
        ends: Mapping[Partition, int | tuple[int, int]],
        *,
        topic_id: str = "a",
        unknown: Mapping[Partition, str] | None = None,
        missing: frozenset[str] = frozenset(),
        busy_s: float | None = None,
        are_new: bool = False,
    ) -> Positions:
        """Take one look."""
        now_ms = self.minute * MINUTE_MS
        topics = {topic for topic, _ in (*ends, *(unknown or ()))} | missing
        self.positions.look(Answer(extents(ends, topic_id), unknown or {}, missing), topics, now_ms)
        busy_ms = None if busy_s is None else 1_000 * busy_s
        self.positions.read(committed, now_ms, busy_ms=busy_ms, are_new=are_new)
        self.minute += 1
        return self.positions


def followed(*looks: tuple[Mapping[Partition, int], Mapping[Partition, int | tuple[int, int]]]) -> Positions:
    """Return positions after looks a minute apart, each with committed offsets and ends."""
    reader = Reader()
    for committed, ends in looks:
        reader.look(committed, ends)
    return reader.positions


def came(*looks: Mapping[Partition, int | tuple[int, int]]) -> int | None:
    """Return how many arrivals are counted from the first to the last of some looks."""
    reader = Reader()
    first = reader.look({}, looks[0]).counted
    for ends in looks[1:]:
        reader.look({}, ends)
    return None if first is None or reader.positions.counted is None else reader.positions.counted - first


def test_what_waits_is_the_distance_to_the_end() -> None:
    """And what was got through is how far the reader moved; of a partition without a commit nobody knows."""
    positions = followed(({P: 10}, {P: 10, Q: 0}), ({P: 25}, {P: 30, Q: 7}))
    assert positions.lag == {P: 5, Q: None}
    assert positions.moved == {P: 15}


def test_a_part_that_is_unknown_is_named_and_what_is_known_still_counts() -> None:
    """As the least that waits; where nothing is known it is none of it."""
    positions = followed(({P: 10}, {P: 1_000, Q: 7}))
    assert positions.known == 990
    assert positions.partly_unknown.startswith("what waits in 1 partition is unknown and not counted: orders[1]: nothing was")
    nothing = followed(({}, {P: 1_000, Q: 7}))
    assert (nothing.known, nothing.partly_unknown, nothing.lag_ms) == (None, "", None)


def test_a_partition_whose_records_are_all_gone_waits_for_nothing() -> None:
    """Committed or not: whoever reads it begins at its end."""
    positions = followed(({P: 10}, {P: 30, Q: (4_000_008, 4_000_008)}))
    assert (positions.known, positions.unknown) == (20, {})
    assert followed(({P: 0}, {P: (4_000_008, 4_000_008)})).lag == {P: 0}


def test_a_start_that_passed_the_end_told_before_waits_for_nothing() -> None:
    """The two are asked one after the other, and records are removed meanwhile."""
    assert followed(({P: 100}, {P: (700, 500)})).lag == {P: 0}


@pytest.mark.parametrize("speed", [1.0, 0.5])
def test_what_came_since_a_rare_commit_may_have_been_worked_on(speed: float) -> None:
    """What the last commit left waits, all of it for a reader that falls behind; once it stands for longer, so does the rest."""
    reader, left = Reader(), []
    for minute in range(40):
        at = int(1_000 * speed * (minute // 10 * 10))
        left.append(reader.look({P: at}, {P: 1_000 * minute}).lag[P])
    assert left[30:] == [30_000 - 30_000 * speed] * 10
    for minute in range(40, 43):
        positions = reader.look({P: int(30_000 * speed)}, {P: 1_000 * minute})
    assert positions.lag[P] == 42_000 - 30_000 * speed


@pytest.mark.parametrize("every", [5, 8, 12])
@pytest.mark.parametrize("seed", range(3))
def test_members_that_commit_seldom_each_at_its_time_seem_to_be_behind_only_at_first(every: int, seed: int) -> None:
    """They have worked on all that comes. What was not committed for two minutes is unknown until their habit is, and no backlog.

    For up to two minutes it counts: most readers commit all the time.
    """
    reader, first = Reader(), [(7 * seed + 3 * member) % every for member in range(6)]
    partitions = [("orders", number) for number in range(6)]
    committed = dict.fromkeys(partitions, 0)
    for minute in range(4 * every):
        for each, begins in zip(partitions, first, strict=True):
            if minute % every == begins:
                committed[each] = 100 * minute
        positions = reader.look(committed, dict.fromkeys(partitions, 100 * minute), busy_s=200.0 if minute else None)
        if minute > 3 and (every < 10 or minute <= 10):  # nobody may stand for longer
            assert all(lag is None or lag <= 200 for lag in positions.lag.values())
        if minute >= 2 * every:
            assert (positions.known, positions.unknown) == (0, {})


def test_a_reader_that_hangs_after_its_first_commit_is_unknown_for_no_longer_than_one_that_commits_seldom_may_stand() -> None:
    """The other partition's reader commits each minute, and so does this one as far as anybody knows."""
    reader, partitions, unknown = Reader(), [("orders", 0), ("orders", 1)], []
    for minute in range(14):
        committed = {partitions[0]: 100 * min(minute, 1), partitions[1]: 100 * minute}
        positions = reader.look(committed, dict.fromkeys(partitions, 100 * minute), busy_s=60.0 if minute else None)
        unknown.append(len(positions.unknown))
    assert max(unknown) <= 1
    assert unknown[11:] == [0, 0, 0]
    assert positions.lag[partitions[0]] == 1_200


@pytest.mark.parametrize("every", [1, 5, 8])
def test_members_that_commit_seldom_and_fall_behind_are_seen_to(every: int) -> None:
    """Each gets through half of what comes, and is busy all the time: what waits is known to within two minutes' load."""
    reader, partitions = Reader(), [("orders", number) for number in range(6)]
    committed = dict.fromkeys(partitions, 0)
    for minute in range(40):
        for number, each in enumerate(partitions):
            if minute % every == number % every:
                committed[each] = 50 * minute
        positions = reader.look(committed, dict.fromkeys(partitions, 100 * minute), busy_s=360.0 if minute else None)
        if minute >= 2 * every:
            assert positions.known is not None
            assert abs(positions.known - 6 * 50 * minute) <= 2 * 600


def test_a_position_before_the_start_waits_for_what_is_there() -> None:
    """The records before were removed; that they were skipped is told once."""
    reader = Reader()
    reader.look({P: 100}, {P: 500})
    positions = reader.look({P: 120}, {P: (300, 600)})
    assert (positions.lag, positions.moved) == ({P: 300}, {P: 20})
    assert positions.notes == [
        "orders[0] was put forward by 180 records: skipped, and counted neither as work nor as input of the next group"
    ]
    positions = reader.look({P: 350}, {P: (300, 600)})
    assert (positions.lag, positions.moved, positions.notes) == ({P: 250}, {P: 50}, [])


def test_records_that_are_removed_behind_the_reader_were_work() -> None:
    """As where an application deletes what it has processed."""
    assert followed(({P: 100}, {P: 500}), ({P: 400}, {P: (300, 600)})).moved == {P: 300}


def test_a_position_past_the_end_is_unknown_and_told() -> None:
    """A topic was made anew, and the commits of the old one were kept; nothing counts twice when its reader begins anew."""
    reader = Reader()
    reader.look({P: 100_000}, {P: 100_000})
    positions = reader.look({P: 100_000}, {P: 90_000}, topic_id="b")
    assert (positions.lag, positions.known) == ({P: None}, None)
    assert "offset 100000 was committed, past the end 90000: the topic was made anew" in in_words(positions.unknown)
    assert (positions.arrived, positions.moved) == ({P: 90_000}, {})
    positions = reader.look({P: 40}, {P: 90_010}, topic_id="b")
    assert (positions.lag, positions.moved, positions.arrived) == ({P: 89_970}, {P: 40}, {P: 10})


def test_a_topic_that_is_made_anew_starts_anew_and_counts_once() -> None:
    """Also where it is longer by then, and its old commit may be a position in it."""
    reader = Reader()
    before = reader.look({P: 400}, {P: 500}).counted
    positions = reader.look({P: 400}, {P: 900}, topic_id="b")
    assert (positions.arrived, positions.moved, positions.counted) == ({P: 900}, {}, (before or 0) + 900)
    assert positions.notes == ["orders[0]: made anew: counted from the start"]
    assert reader.look({P: 450}, {P: 900}, topic_id="b").moved == {P: 50}


def test_an_end_that_fell_counts_from_there() -> None:
    """Where the broker tells no ids it may have been made anew or cut short; what it held may have been counted."""
    reader = Reader()
    before = reader.look({}, {P: 500}, topic_id="").counted
    positions = reader.look({}, {P: 480}, topic_id="")
    assert (positions.counted, positions.notes) == (before, ["orders[0]: made anew or cut short: counted from the new end"])
    positions = reader.look({}, {P: 490}, topic_id="")
    assert (positions.counted or 0) - (before or 0) == 10


def test_a_topic_that_comes_into_view_counts_from_its_first_look() -> None:
    """It has been in use for long, and what it holds did not come now."""
    assert came({P: 100}, {P: 180, NEW: 2_000_000_000}, {P: 200, NEW: 2_000_000_040}) == 140


def test_a_partition_that_is_added_to_a_topic_counts_from_its_start() -> None:
    """It did not exist before; one that the broker did not tell of is no new one."""
    assert came({P: 100}, {P: 100, Q: 30}) == 30
    reader = Reader()
    reader.look({}, {P: 100}, unknown={Q: "no leader"})
    assert reader.look({}, {P: 100, Q: 30}).arrived == {P: 0, Q: 0}


def test_a_topic_that_leaves_and_comes_back_counts_from_there() -> None:
    """What came meanwhile is not of the minute in which it came back."""
    assert came({P: 100, NEW: 10}, {P: 100}, {P: 100, NEW: 50_000}, {P: 101, NEW: 50_001}) == 2


def test_a_partition_that_is_not_told_once_loses_nothing() -> None:
    """What came is unknown until it is told again; the others are known. What was read meanwhile is no work of one minute."""
    reader = Reader()
    first = reader.look({P: 10, Q: 10}, {P: 10, Q: 10}).counted
    positions = reader.look({P: 10, Q: 10}, {P: 15}, unknown={Q: "no leader"})
    assert (positions.counted, positions.lag, positions.known) == (None, {P: 5, Q: None}, 5)
    positions = reader.look({P: 10, Q: 40}, {P: 15, Q: 50})
    assert (positions.counted or 0) - (first or 0) == 45
    assert (positions.moved, positions.lag) == ({P: 0}, {P: 5, Q: 10})
    assert reader.look({P: 10, Q: 42}, {P: 15, Q: 52}).moved == {P: 0, Q: 2}


def test_a_topic_that_vanishes_makes_its_part_unknown() -> None:
    """The rest is still known, and it counts anew when it is back."""
    reader = Reader()
    reader.look({P: 10, NEW: 3}, {P: 10, NEW: 5})
    positions = reader.look({P: 10}, {P: 25}, missing=frozenset({"clicks"}))
    assert (positions.known, positions.counted) == (15, None)
    assert "clicks[0]: the topic is gone" in positions.partly_unknown
    assert reader.look({P: 25}, {P: 25, NEW: 4}, topic_id="b").arrived[NEW] == 4


def test_a_count_that_begins_anew_is_lower() -> None:
    """So whoever compares it with that of the monitor's last run sees a fall, which is unknown, and no growth."""
    reader, later = Reader(), Reader()
    later.minute = 1
    early = reader.look({}, {P: 100}).counted
    assert early is not None
    late = later.look({}, {P: 2_000_000_000}).counted
    assert late is not None
    assert late < early


def test_a_partition_that_was_empty_counts_from_its_first_record() -> None:
    """Nobody had committed there; where records lay before the first commit, only what came since is sure."""
    assert followed(({}, {P: 0, Q: 30}), ({P: 10, Q: 35}, {P: 10, Q: 40})).moved == {P: 10, Q: 5}


def test_records_that_came_before_the_first_commit_count_with_it() -> None:
    """However many looks the first commit is behind them."""
    assert followed(({}, {P: 0}), ({}, {P: 80}), ({}, {P: 100}), ({P: 100}, {P: 100})).moved == {P: 100}


def test_an_offset_that_the_broker_leaves_out_once_loses_nothing() -> None:
    """The work is counted from the commit before."""
    assert followed(({P: 10}, {P: 20}), ({}, {P: 30}), ({P: 30}, {P: 30})).moved == {P: 20}


def test_an_offset_that_was_set_back_counts_for_nothing_and_is_told() -> None:
    """Somebody lets the group read again."""
    positions = followed(({P: 50}, {P: 50}), ({P: 10}, {P: 60}))
    assert positions.moved == {P: 0}
    assert positions.notes == ["orders[0] was set back by 40 records: read again, and nothing was got through"]


def test_the_age_of_the_oldest_record_is_when_the_end_passed_it() -> None:
    """Read off the ends of earlier looks: 150 was reached half a minute before the last look but one."""
    assert followed(({P: 100}, {P: 100}), ({P: 120}, {P: 200}), ({P: 150}, {P: 200})).lag_ms == 1.5 * MINUTE_MS
    assert followed(({P: 100}, {P: 100})).lag_ms == 0
    assert followed(({P: 50}, {P: 100})).lag_ms is None  # before anybody looked


def test_an_age_is_never_negative() -> None:
    """Also when the monitor's clock was set back."""
    reader = Reader()
    for minute, end in ((5, 100), (6, 200), (2, 300), (3, 400)):
        reader.minute = minute
        age = reader.look({P: end - 50}, {P: end}).lag_ms
        assert age is None or age >= 0


def test_old_records_without_a_commit_do_not_wait_for_ever() -> None:
    """A reader that gets on elsewhere began behind them; none that stands still says so, and not where records come."""
    quiet, hung = Reader(), Reader()
    for minute in range(30):
        ends = {P: 10 * minute, Q: 500, R: 100 + minute}
        found = quiet.look({P: 10 * minute}, ends)
        assert found.lag == {P: 0, Q: None if minute < 10 else 0, R: None}
        assert sorted(found.unknown) == ([Q, R] if minute < 10 else [R])
        hung.look({P: 0}, ends)
    assert hung.positions.lag[Q] is None


def test_markers_of_transactions_are_no_waiting_work() -> None:
    """A few offsets behind an end that stands still, once neither has moved for three minutes."""
    reader = Reader()
    for minute in range(3):
        assert reader.look({P: 100 * minute}, {P: 100 * minute + 1}).lag == {P: 1}
    found = [reader.look({P: 200}, {P: 201}).lag[P] for _ in range(4)]
    assert (found[0], found[-1], reader.positions.lag_ms) == (1, 0, 0)


# --- skips


def skipping(**jump: float | bool | None) -> tuple[Positions, int]:
    """Return positions after a jump forward over 4,000,000 of the waiting records, and what was got through in all."""
    reader, done = Reader(), 0
    busy_s = 40.0 if jump.get("busy_s") is not None else None
    for minute in range(20):
        reader.look({P: 3_000 * minute}, {P: 4_000_000 + 3_000 * minute}, busy_s=busy_s)
        done += sum(reader.positions.moved.values())
    positions = reader.look({P: 4_060_000}, {P: 4_060_000}, **jump)  # type: ignore[arg-type]
    return positions, done + sum(positions.moved.values())


@pytest.mark.parametrize("jump", [{}, {"busy_s": 41.0}, {"are_new": True}, {"are_new": True, "busy_s": 20.0}])
def test_a_jump_that_no_member_had_time_for_is_a_skip(jump: dict[str, float | bool]) -> None:
    """It is neither work nor what the next group gets, and it is told."""
    positions, done = skipping(**jump)
    assert done == 19 * 3_000
    assert (positions.moved, positions.lag) == ({}, {P: 0})
    (note,) = positions.notes
    assert note.startswith("orders[0] was put forward by 4003000 records: skipped")


def test_a_jump_of_a_group_that_was_never_seen_at_work_is_a_skip_if_its_members_are_new() -> None:
    """It hung when the monitor started, and was put past the record that it hung at."""
    reader = Reader()
    for minute in range(5):
        reader.look({P: 7}, {P: 90_000 + minute})
    assert reader.look({P: 90_004}, {P: 90_005}, are_new=True).moved == {}


def test_work_that_the_busy_time_explains_is_no_skip() -> None:
    """Members that had little to do catch up at their full speed."""
    reader = Reader()
    for minute in range(5):
        reader.look({P: 1_000 * minute}, {P: 1_000 * minute}, busy_s=1.0)
    reader.look({P: 4_000}, {P: 54_000}, busy_s=0.0)  # a pause
    positions = reader.look({P: 54_000}, {P: 55_000}, busy_s=50.0)
    assert (positions.moved, positions.notes) == ({P: 50_000}, [])


def test_a_burst_that_is_worked_off_is_no_skip() -> None:
    """So much came a moment ago; also without counters of busy time."""
    reader = Reader()
    for minute in range(5):
        reader.look({P: 10 * minute}, {P: 10 * minute})
    reader.look({P: 50}, {P: 50_000})
    assert reader.look({P: 50_000}, {P: 50_010}).moved == {P: 49_950}


def test_who_goes_on_at_that_speed_is_really_that_fast() -> None:
    """A group that was held up for hours catches up; only the first look at it is taken for a skip."""
    reader = Reader()
    for minute in range(5):
        reader.look({P: 100 * minute}, {P: 900_000 + 100 * minute})
    found = [reader.look({P: 400 + 50_000 * minute}, {P: 900_500 + 100 * minute}).moved.get(P, 0) for minute in (1, 2, 3)]
    assert found == [0, 50_000, 50_000]


def test_only_the_partitions_that_jumped_are_left_out() -> None:
    """The others' work counts."""
    reader = Reader()
    for minute in range(5):
        reader.look({P: 100 * minute, Q: 100 * minute}, {P: 90_000, Q: 100 * minute})
    assert reader.look({P: 90_000, Q: 500}, {P: 90_000, Q: 500}).moved == {Q: 100}


@pytest.mark.parametrize("busy_s", [None, 60.0])
@pytest.mark.parametrize("jump", [60_000, 300_000])
def test_a_jump_of_one_partition_of_many_is_a_skip(jump: int, busy_s: float | None) -> None:
    """To all of the group's work together it adds little; one partition and the time that the others leave explain none of it."""
    reader, others = Reader(), [("orders", number) for number in range(1, 50)]
    for minute in range(10):
        at = dict.fromkeys(others, 1_000 * minute)
        reader.look(at | {P: 1_000 * minute}, at | {P: 1_000 * minute + jump}, busy_s=busy_s)
    at = dict.fromkeys(others, 10_000)
    positions = reader.look(at | {P: 10_000 + jump}, at | {P: 10_000 + jump}, busy_s=busy_s)
    assert sum(positions.moved.values()) == 49_000
    assert positions.notes[0].startswith(f"orders[0] was put forward by {jump + 1_000} records: skipped")


def test_one_partition_of_many_that_is_caught_up_with_is_no_skip() -> None:
    """Its reader spent the time on it."""
    reader, others = Reader(), [("orders", number) for number in range(1, 50)]
    for minute in range(10):
        at = dict.fromkeys(others, 1_000 * minute)
        reader.look(at | {P: 0}, at | {P: 1_000 * minute + 60_000}, busy_s=60.0)
    at = dict.fromkeys(others, 10_000)
    positions = reader.look(at | {P: 40_000}, at | {P: 70_000}, busy_s=100.0)
    assert (sum(positions.moved.values()), positions.notes) == (89_000, [])


@settings(deadline=None)
@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["append", "remove", "anew", "commit", "forget", "hide", "vanish"]), st.integers(0, 10**6)),
            max_size=4,
        ),
        min_size=2,
        max_size=12,
    )
)
def test_whatever_happens_nothing_is_counted_twice(looks: list[list[tuple[str, int]]]) -> None:
    """Arrivals never fall, and are those of what was seen; what waits lies in the log; work is no more than there was to read."""
    reader, start, end, made, committed = Reader(), 0, 100, 0, {P: 50}
    came, done, seen_end, seen_made = 0, 0, 100, 0
    first = reader.look(committed, {P: 100}, topic_id="0").counted
    for events in looks:
        hidden = gone = False
        for what, number in events:
            if what == "append":
                end += number
            elif what == "remove":
                start = min(end, start + number)
            elif what == "anew":
                start, end, made = 0, 0, made + 1
            elif what == "commit":
                committed = {P: min(end, number)}
            elif what == "forget":
                committed = {}
            hidden, gone = hidden or what == "hide", gone or what == "vanish"
        told: dict[Partition, int | tuple[int, int]] = {} if hidden or gone else {P: (start, end)}
        unknown = {P: "no leader"} if hidden else None
        found = reader.look(
            committed, told, topic_id=str(made), unknown=unknown, missing=frozenset({"orders"} if gone and not hidden else ())
        )
        done += sum(found.moved.values())
        if not told:
            assert (found.counted, found.known) == (None, None)
            continue
        came += end - seen_end if made == seen_made and seen_made is not None else end - start
        seen_end, seen_made = end, made
        assert first is not None
        assert found.counted == first + came
        lag = found.lag[P]
        assert lag is None or 0 <= lag <= end - start
        assert done >= 0
        assert all(by >= 0 for by in (*found.moved.values(), *found.arrived.values()))
