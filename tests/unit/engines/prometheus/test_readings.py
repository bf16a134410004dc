"""What series say of tasks and subtasks."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replaced

from surescale.engines.prometheus.client import QueryRefused, Series
from surescale.engines.prometheus.jobs import Task, WatchedJob
from surescale.engines.prometheus.mappings import MAPPINGS, Figure, FigureName, MappingName
from surescale.engines.prometheus.readings import Key, Reading, read, shown

AT_MS = 1_700_000_040_000
JOB = WatchedJob(
    "orders",
    {"parse": Task(reads=("orders",), writes=("parsed",)), "count": Task(series="Count", reads=("parsed",))},
    {
        "records_in": Figure("x", "task", subtask=("pod",), over=("partition",)),
        "busy": Figure("x", "task", subtask=("pod",), unit="s"),
        "arrived": Figure("x", "topic", "reads", subtask=(), over=("partition",)),
    },
)


def series(value: float = 1.0, at_ms: int = AT_MS, **labels: str) -> Series:
    """Return one."""
    return Series(labels, value, at_ms)


def test_a_series_belongs_to_the_task_that_its_label_names() -> None:
    """Names that no task has are told; they may be a task that the file forgot."""
    found = read(JOB, "busy", [series(2.0, task="parse", pod="p"), series(3.0, task="Count"), series(4.0, task="sink")], AT_MS)
    assert found.readings == {Key("parse", ("p",)): Reading(2_000.0, AT_MS), Key("count"): Reading(3_000.0, AT_MS)}
    assert found.unknown == {"sink"}


def test_a_topic_belongs_to_every_task_that_reads_it() -> None:
    """Its name is a part of what is added up."""
    job = replace(JOB, tasks={**JOB.tasks, "audit": Task(reads=("parsed",))})
    found = read(job, "arrived", [series(7.0, topic="parsed", partition="0"), series(7.0, topic="other", partition="0")], AT_MS)
    assert set(found.readings) == {Key("count", (), ("parsed", "0")), Key("audit", (), ("parsed", "0"))}
    assert not found.unknown


def test_two_series_for_one_subtask_are_refused_by_what_differs() -> None:
    """Nobody can tell which is right, and their sum may be twice the truth."""
    two = [series(task="parse", pod="p", replica="a"), series(task="parse", pod="p", replica="b")]
    with pytest.raises(
        QueryRefused, match=r'two series for task parse subtask p: \{replica="a"\} and \{replica="b"\}; select one'
    ):
        read(JOB, "busy", two, AT_MS)


def test_parts_that_are_named_are_added_up_and_no_others() -> None:
    """By the labels in ``over``."""
    parts = [series(1.0, task="parse", pod="p", partition=each) for each in ("0", "1")]
    assert len(read(JOB, "records_in", parts, AT_MS).readings) == 2
    with pytest.raises(QueryRefused, match=r"task parse subtask p \(1\)"):
        read(JOB, "records_in", [*parts, series(1.0, task="parse", pod="p", partition="1", replica="b")], AT_MS)


@pytest.mark.parametrize("name", ["records_in", "queued"])
@pytest.mark.parametrize(("mapping", "group"), [("kafka-exporter", "consumergroup"), ("kafka-lag-exporter", "group")])
def test_a_topic_that_a_group_has_left_is_not_what_waits_for_it(mapping: MappingName, group: str, name: FigureName) -> None:
    """An exporter shows all that a group ever committed. Of a task without ``reads`` nobody knows which it still reads."""
    figure = replaced(MAPPINGS[mapping].figures[name], task=group, subtask=())
    found = [series(7.0, topic=each, partition="0", **{group: "parse"}) for each in ("orders", "orders-v1")]
    for reads, topics in ((("orders",), {"orders"}), ((), {"orders", "orders-v1"})):
        job = WatchedJob("orders", {"parse": Task(reads=reads)}, {name: figure})
        assert {key.part[0] for key in read(job, name, found, AT_MS).readings} == topics


def test_a_series_without_a_task_is_refused() -> None:
    """With the label that was looked for."""
    with pytest.raises(QueryRefused, match="has no label 'task' that names the task; set task to one"):
        read(JOB, "busy", [series(pod="p")], AT_MS)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 2.0**54])
def test_what_is_no_count_is_unknown(value: float) -> None:
    """Never 0."""
    (found,) = read(JOB, "records_in", [series(value, task="parse", pod="p")], AT_MS).readings.values()
    assert found.value is None


def test_what_is_too_old_is_unknown() -> None:
    """By the job's own limit."""
    for age_ms, is_known in ((JOB.fresh_ms, True), (JOB.fresh_ms + 1, False)):
        (found,) = read(JOB, "busy", [series(at_ms=AT_MS - age_ms, task="parse", pod="p")], AT_MS).readings.values()
        assert (found.value is not None) == is_known


@settings(deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=300), max_size=5))
def test_labels_are_shown_in_one_short_line(labels: dict[str, str]) -> None:
    """Whatever they hold: anybody may have written them."""
    assert shown(labels).isprintable()
    assert len(shown(labels)) <= 160


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["parse", "Count", "sink", ""]), st.sampled_from("pq"), st.floats()), max_size=8))
def test_readings_are_counts_or_unknown(found: list[tuple[str, str, float]]) -> None:
    """Any series give readings of the job's own tasks, or a refusal."""
    try:
        readings = read(JOB, "busy", [series(value, task=task, pod=pod) for task, pod, value in found], AT_MS).readings
    except QueryRefused:
        assert any(not task for task, _, _ in found) or len({each[:2] for each in found}) < len(found)
        return
    assert {key.task for key in readings} <= set(JOB.tasks)
    assert all(each.value is None or 0 <= each.value <= 2**53 for each in readings.values())
