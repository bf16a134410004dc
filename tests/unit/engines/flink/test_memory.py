"""What TaskManagers tell of their memory, and what is unknown."""

import json
from collections.abc import Mapping

import pytest

from surescale.contracts.messages import TaskMemory
from surescale.engines.flink.answers import Metric
from surescale.engines.flink.memory import memory_of, names_of
from surescale.engines.flink.source import FlinkSource
from tests.support import flink_source
from tests.support.fake_flink import FakeFlink
from tests.support.flink_source import look_at
from tests.support.stub_server import StubRequest, StubResponse

flink, source = flink_source.flink, flink_source.source
GC = "Status.JVM.GarbageCollector."
HEAP = {"Status.JVM.Memory.Heap.Used": "750", "Status.JVM.Memory.Heap.Max": "1000"}
MANAGED = {"Status.Flink.Memory.Managed.Used": "0", "Status.Flink.Memory.Managed.Total": "500"}


def told(figures: Mapping[str, str]) -> TaskMemory:
    """Return the memory by what Flink answers."""
    return memory_of({name: Metric(id=name, value=value) for name, value in figures.items()})


@pytest.mark.parametrize(
    ("collectors", "share"),
    [
        ({"G1_Young_Generation": "120.5", "G1_Old_Generation": "200"}, 0.32),
        ({"G1_Young_Generation": "100", "G1_Old_Generation": "0.0", "G1_Concurrent_GC": "700"}, 0.1),
        ({"ZGC_Minor_Cycles": "900", "ZGC_Minor_Pauses": "3", "ZGC_Major_Cycles": "0", "ZGC_Major_Pauses": "0"}, 0.003),
        ({"Shenandoah_Cycles": "900", "Shenandoah_Pauses": "20"}, 0.02),
        ({"PS_MarkSweep": "900", "PS_Scavenge": "200"}, 1.0),
        ({"G1_Young_Generation": "NaN", "G1_Old_Generation": "0"}, None),
        ({}, None),
    ],
)
def test_only_the_time_counts_in_which_the_job_stands_still(collectors: dict[str, str], share: float | None) -> None:
    """Collectors that work beside the job are in Flink's own sum; a figure that is missing makes the sum unknown."""
    given = {f"{GC}{name}.TimeMsPerSecond": value for name, value in collectors.items()} | {f"{GC}All.TimeMsPerSecond": "999"}
    asked = names_of([*given, f"{GC}G1_Young_Generation.Count", "Status.JVM.CPU.Load", *HEAP])
    assert set(asked) - set(HEAP) == {name for name in given if not any(each in name for each in ("All", "Concurrent", "Cycles"))}
    assert told({name: given[name] for name in asked if name in given}).gc_share == share


def test_heap_and_managed_memory_are_shares() -> None:
    """Of what the JVM may take, and of what Flink set aside; unknown where there is none."""
    assert told(HEAP | MANAGED) == TaskMemory(heap_share=0.75, managed_share=0.0)
    assert told(HEAP | {"Status.Flink.Memory.Managed.Used": "0", "Status.Flink.Memory.Managed.Total": "0"}).managed_share is None
    assert told({"Status.JVM.Memory.Heap.Used": "750", "Status.JVM.Memory.Heap.Max": "-1"}).heap_share is None


def answer(flink: FakeFlink, task_manager: str, figures: Mapping[str, str]) -> None:
    """Have a TaskManager tell these figures."""
    body = [{"id": name, "value": value} for name, value in figures.items()]
    flink.answers[f"GET /taskmanagers/{task_manager}/metrics"] = {"status": 200, "body": body}


def test_a_look_has_the_memory_of_what_runs_each_task(flink: FakeFlink, source: FlinkSource) -> None:
    """A change of it makes no new version of the topology, or every minute would have one."""
    assert {spec.memory for spec in look_at(source).topology.tasks} == {None}, "unknown is not zero"
    answer(flink, "taskmanager-1", {f"{GC}G1_Young_Generation.TimeMsPerSecond": "420.7", **HEAP, **MANAGED})
    first = source.follow(flink_source.ORDERS)
    source._memory._known.clear()  # two seconds later
    seen = first.look().topology
    assert {spec.memory for spec in seen.tasks} >= {TaskMemory(gc_share=0.42, heap_share=0.75, managed_share=0.0)}
    answer(flink, "taskmanager-1", {f"{GC}G1_Young_Generation.TimeMsPerSecond": "10", **HEAP})
    source._memory._known.clear()
    later = first.look().topology
    assert {spec.memory for spec in later.tasks} >= {TaskMemory(gc_share=0.01, heap_share=0.75)}
    assert later.version == seen.version


def test_a_minute_is_not_lost_for_it(flink: FakeFlink, source: FlinkSource) -> None:
    """Whatever Flink answers."""

    def refuse(asked: StubRequest) -> StubResponse | None:
        return StubResponse(500, json.dumps({"errors": ["no"]}).encode()) if asked.path.startswith("/taskmanagers/") else None

    flink.instead = refuse
    look = look_at(source)
    assert look.samples
    assert {spec.memory for spec in look.topology.tasks} == {None}
