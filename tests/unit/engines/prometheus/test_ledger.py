"""What is kept of figures from look to look, and who belongs to a task."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.engines.prometheus import ledger as ledger_module
from surescale.engines.prometheus.jobs import Task, WatchedJob
from surescale.engines.prometheus.ledger import GONE_LOOKS, Ledger, SubtaskRoster, ordered
from surescale.engines.prometheus.mappings import Figure
from surescale.engines.prometheus.readings import Key, Reading

MINUTE = 60_000
PODS = WatchedJob(
    "orders",
    {"parse": Task()},
    {
        "records_in": Figure("x", subtask=("pod",)),
        "queued": Figure("x", subtask=(), over=("partition",)),
        "arrived": Figure("x", "topic", "reads", over=("partition",)),
        "watermark_lag": Figure("x", subtask=()),
    },
)
OFFSETS = WatchedJob(
    "orders",
    {"parse": Task()},
    {
        "records_in": Figure("x", over=("partition",), offset=True),
        "queued": Figure("x", over=("partition",)),
        "arrived": Figure("x", "topic", "reads", over=("partition",), offset=True),
    },
)
COUNTED = WatchedJob("orders", {"parse": Task()}, {"records_in": Figure("x", over=("partition",)), "parallelism": Figure("x")})


def records(minute: int, **pods: float | None) -> dict[Key, Reading]:
    """Return the records of pods, scraped at the end of a minute."""
    return {Key("parse", (pod,)): Reading(value, minute * MINUTE) for pod, value in pods.items()}


def parts(minute: int, *values: float | None) -> dict[Key, Reading]:
    """Return a figure by partition."""
    return {Key("parse", (), (str(part),)): Reading(value, minute * MINUTE) for part, value in enumerate(values)}


def of_pod(ledger: Ledger, name: str, pod: str = "a", index: int = 0, count: int = 2) -> int | None:
    """Return a figure of one of two pods."""
    return ledger.of(name, "parse", (pod,), index, count)  # type: ignore[arg-type]


def test_totals_begin_at_0_and_follow_each_subtask() -> None:
    """The first look shows where the counters stand."""
    ledger = Ledger(PODS)
    ledger.note({"records_in": records(1, a=500, b=70)}, MINUTE, is_other=False)
    assert (of_pod(ledger, "records_in"), of_pod(ledger, "records_in", "b")) == (0, 0)
    ledger.note({"records_in": records(2, a=530, b=75)}, 2 * MINUTE, is_other=False)
    assert (of_pod(ledger, "records_in"), of_pod(ledger, "records_in", "b")) == (30, 5)
    assert ledger.as_of_ms("parse", ("a",)) == 2 * MINUTE


def test_an_attempt_begins_with_what_grew_since_the_look_before() -> None:
    """And arrivals go on, since records arrive while nobody works."""
    ledger, counts = Ledger(PODS), []
    for minute, value in ((1, 500), (2, 600), (3, 640)):
        ledger.note({"records_in": records(minute, a=value), "arrived": parts(minute, value)}, minute * MINUTE, is_other=False)
        counts.append(of_pod(ledger, "arrived", count=1) or 0)
    ledger.begin_attempt()
    assert of_pod(ledger, "records_in") == 40
    assert [of_pod(ledger, "arrived", count=1) == counts[2], counts[2] - counts[0]] == [True, 140]


def test_series_with_ever_new_labels_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is scraped may invent them: what is gone is forgotten after an hour, and sooner where it is much."""
    for most, kept in ((1_000_000, 62), (50, 5)):
        monkeypatch.setattr(ledger_module, "COUNTERS_MAX", most)
        ledger = Ledger(PODS)
        for minute in range(1, 200):
            arrived = {Key("parse", (), (f"topic-{minute}", str(part))): Reading(1.0, minute * MINUTE) for part in range(20)}
            ledger.note({"arrived": arrived}, minute * MINUTE, is_other=False)
        for found in (ledger._counters, ledger._came_ms):
            assert len(found) <= 20 * kept


def test_a_partition_that_comes_into_view_brings_no_past() -> None:
    """It is new, or its exporter has only now shown it; and one that was gone for minutes moved while nobody looked."""
    ledger, counts = Ledger(OFFSETS), []
    shown = [(500,), (600,), (700, 2_000_000_000), (800, 2_000_000_005), (900,), (1_000,), (1_100,), (1_200, 2_100_000_000)]
    for minute, values in enumerate(shown, start=1):
        ledger.note({"records_in": parts(minute, 1), "arrived": parts(minute, *values)}, minute * MINUTE, is_other=False)
        counts.append(of_pod(ledger, "arrived", count=1))
    first = counts[0] or 0
    assert [None if each is None else each - first for each in counts] == [0, 100, 200, 305, None, None, 605, 705]


def test_a_position_that_was_put_forward_is_no_work() -> None:
    """Told once; what other partitions got through counts, and it goes on from there."""
    ledger, notes, done = Ledger(OFFSETS), [], []
    for minute in range(1, 12):
        jump = 4_000_000 if minute >= 9 else 0
        found = {
            "records_in": parts(minute, 500 * minute + jump, 100 * minute),
            "arrived": parts(minute, 4_500 * minute, 100 * minute),
        }
        ledger.note(found, minute * MINUTE, is_other=False)  # type: ignore[arg-type]
        notes += ledger.notes
        done.append(of_pod(ledger, "records_in", count=1))
    assert done == [600 * minute - (500 if minute >= 8 else 0) for minute in range(11)]
    assert len(notes) == 1
    assert notes[0].startswith("parse: [0] was put forward by 4000500 records: skipped")


def test_a_partition_without_a_commit_hides_nothing() -> None:
    """An exporter shows -1 for it: nothing was got through there, and the rest that waits is the least."""
    ledger = Ledger(OFFSETS)
    for minute in (1, 2):
        found = {"records_in": parts(minute, 100 * minute, None), "queued": parts(minute, 30, None)}
        ledger.note(found, minute * MINUTE, is_other=False)  # type: ignore[arg-type]
    assert (of_pod(ledger, "records_in", count=1), of_pod(ledger, "queued", count=1)) == (100, 30)
    assert ledger.partly_unknown("parse").startswith("what waits in 1 partition is unknown and not counted: [1]: Prometheus")
    for minute in range(3, 15):
        found = {"records_in": parts(minute, 200, None), "queued": parts(minute, 0, None), "arrived": parts(minute, 200, 70)}
        ledger.note(found, minute * MINUTE, is_other=False)  # type: ignore[arg-type]
    assert ledger.partly_unknown("parse") == ""  # it began behind the 70 records that have lain there for ten minutes


def test_a_series_that_takes_the_place_of_another_keeps_when_records_last_came() -> None:
    """Once the old one is forgotten, what lies in the partition is still as old as it is."""
    ledger, old, new, other = Ledger(OFFSETS), *(Key("parse", (), (part,)) for part in ("0", "00", "1"))
    for minute in range(1, 90):
        arrived = {old if minute < 20 else new: Reading(5.0, minute * MINUTE)}
        waiting = {old: Reading(None, minute * MINUTE), other: Reading(1.0, minute * MINUTE)}
        ledger.note({"records_in": {}, "queued": waiting, "arrived": arrived}, minute * MINUTE, is_other=False)
        if minute > 11:
            assert ledger.partly_unknown("parse") == "", minute


def test_a_position_that_falls_is_told() -> None:
    """Somebody has set it back, or the topic was made anew; nothing was got through, and nothing taken away."""
    ledger = Ledger(OFFSETS)
    for minute, at in ((1, 500), (2, 600), (3, 200), (4, 230)):
        ledger.note({"records_in": parts(minute, at)}, minute * MINUTE, is_other=False)
        assert [each for each in ledger.notes if "[0] was set back by 400 records" in each] == ledger.notes
        assert bool(ledger.notes) is (minute == 3)
    assert of_pod(ledger, "records_in", count=1) == 130


def test_a_part_that_is_missing_makes_what_waits_the_least_until_it_is_gone() -> None:
    """A lag without one of its partitions looks smaller, and says so."""
    ledger = Ledger(PODS)
    ledger.note({"queued": parts(1, 10, 4)}, MINUTE, is_other=False)
    assert (of_pod(ledger, "queued"), of_pod(ledger, "queued", "b", 1)) == (7, 7)
    for look in range(2, 2 + GONE_LOOKS):
        ledger.note({"queued": parts(look, 11)}, look * MINUTE, is_other=False)
        assert of_pod(ledger, "queued", count=1) == 11
        assert bool(ledger.partly_unknown("parse")) is (look < 1 + GONE_LOOKS)


def test_one_unknown_part_makes_the_sum_unknown() -> None:
    """NaN is no 0, of a figure that grows; of what waits, nothing is known where all parts are unknown."""
    ledger = Ledger(PODS)
    ledger.note({"arrived": parts(1, 10, None), "queued": parts(1, None, None)}, MINUTE, is_other=False)
    assert (of_pod(ledger, "arrived"), of_pod(ledger, "queued"), ledger.partly_unknown("parse")) == (None, None, "")


def test_a_counter_goes_on_after_a_gap() -> None:
    """The sample after it covers more than a minute, and says since when."""
    ledger = Ledger(PODS)
    for minute, value in ((1, 100.0), (2, None), (3, 190.0)):
        ledger.note({"records_in": records(minute, a=value)}, minute * MINUTE, is_other=False)
        assert of_pod(ledger, "records_in", count=1) == {1: 0, 2: None, 3: 90}[minute]


def test_a_delay_of_the_whole_task_is_not_divided() -> None:
    """It is as long for each subtask; waiting records are divided."""
    ledger = Ledger(PODS)
    ledger.note({"watermark_lag": {Key("parse"): Reading(900.0, MINUTE)}}, MINUTE, is_other=False)
    assert of_pod(ledger, "watermark_lag") == 900


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 1_000), min_size=3, max_size=3), min_size=1, max_size=8), st.integers(1, 7))
def test_shares_of_a_task_add_up_and_never_fall(grown: list[list[int]], count: int) -> None:
    """Whoever reads counters takes a fall for a new beginning."""
    ledger, values, before = Ledger(COUNTED), [0, 0, 0], [0] * count
    for look, step in enumerate([[0, 0, 0], *grown], start=1):
        values = [value + more for value, more in zip(values, step, strict=True)]
        ledger.note({"records_in": parts(look, *values)}, look * MINUTE, is_other=False)
        shares = [ledger.of("records_in", "parse", (), index, count) or 0 for index in range(count)]
        assert sum(shares) == sum(values)
        assert all(now >= then for now, then in zip(shares, before, strict=True))
        before = shares


def present(*pods: str) -> dict[tuple[str, ...], tuple[str, str]]:
    """Return pods that show figures."""
    return {(pod,): ("workers", pod) for pod in pods}


def test_fewer_subtasks_are_believed_after_some_looks() -> None:
    """Until then the task has as many as before."""
    roster = SubtaskRoster()
    assert roster.note(present("a", "b"), ())
    for _ in range(GONE_LOOKS - 1):
        assert not roster.note(present("a"), ())
        assert len(roster.members) == 2
    assert roster.note(present("a"), ())
    assert roster.members == (("a",),)


def test_one_that_cannot_be_reached_is_not_gone() -> None:
    """However long it takes; its exporter is away, which says nothing of its work."""
    roster = SubtaskRoster()
    roster.note(present("a", "b"), ())
    for _ in range(3 * GONE_LOOKS):
        assert roster.missing(present("a")) == {("workers", "b")}
        assert not roster.note(present("a"), [("workers", "b")])
    assert not roster.note(present("a", "b"), ())
    assert len(roster.members) == 2


def test_one_in_place_of_another_is_believed_at_once() -> None:
    """As when a pod is replaced, and when there are more."""
    roster = SubtaskRoster()
    roster.note(present("a", "b"), ())
    assert roster.note(present("a", "c"), [("workers", "b")])
    assert roster.note(present("a", "c", "d"), ())
    assert roster.members == (("a",), ("c",), ("d",))


@settings(deadline=None)
@given(st.permutations([str(number) for number in range(12)]))
def test_numbers_are_in_the_order_of_numbers(numbers: list[str]) -> None:
    """So that a subtask keeps its number."""
    assert ordered((f"pod-{each}",) for each in numbers) == tuple((f"pod-{each}",) for each in range(12))


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(max_size=6)), unique=True))
def test_any_names_have_one_order(names: list[tuple[str, ...]]) -> None:
    """Whatever order they come in."""
    assert ordered(names) == ordered(reversed(names))
    assert sorted(ordered(names)) == sorted(names)
