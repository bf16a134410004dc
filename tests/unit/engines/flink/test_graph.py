"""A job's details as tasks: ties, slots, states."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.messages import Input, TaskSpec
from surescale.contracts.topology import slots_needed
from surescale.engines.flink.answers import JobDetail, Vertex
from surescale.engines.flink.graph import KEY_GROUPS_MAX, state_of, tasks_of, tied_groups

NAMES = st.sampled_from("abcdef")
EDGES = st.dictionaries(NAMES, st.lists(st.tuples(NAMES, st.sampled_from(("forward", "hash"))), max_size=3))


@given(EDGES)
def test_a_tied_group_is_what_forward_edges_connect(edges: dict[str, list[tuple[str, str]]]) -> None:
    """Both ends of a forward edge are in one group, and no group is larger than walking along forward edges reaches."""
    inputs = {
        task: tuple(Input(task=upstream, ship=ship) for upstream, ship in into)  # type: ignore[arg-type]  # of the closed set
        for task, into in edges.items()
    }
    groups = tied_groups(inputs)
    neighbours: dict[str, set[str]] = {}
    for task, into in edges.items():
        for upstream, ship in into:
            if ship == "forward":
                neighbours.setdefault(task, set()).add(upstream)
                neighbours.setdefault(upstream, set()).add(task)
    assert groups.keys() == neighbours.keys()
    for task in groups:
        reached, at = {task}, [task]
        while at:
            new = neighbours[at.pop()] - reached
            reached |= new
            at += new
        assert {other for other in groups if groups[other] == groups[task]} == reached
        assert groups[task] in reached


def test_each_sharing_group_takes_the_slots_of_its_largest_task() -> None:
    """Finished tasks take none."""
    tasks = (
        TaskSpec(task="source", parallelism=2, sharing_group="one"),
        TaskSpec(task="parse", parallelism=3, sharing_group="one"),
        TaskSpec(task="sink", parallelism=4, sharing_group="two"),
        TaskSpec(task="once", parallelism=9, sharing_group="three", state="finished"),
    )
    assert slots_needed(tasks) == 3 + 4
    assert slots_needed(tasks, {"source": 5, "sink": 1}) == 5 + 1


@pytest.mark.parametrize(
    ("flink", "ours"), [("RUNNING", "running"), ("CREATED", "created"), ("CANCELED", "finished"), ("NEW_IN_3", "restarting")]
)
def test_a_state_that_is_not_known_is_not_running(flink: str, ours: str) -> None:
    """Nobody acts on a job in a state that a later version invents."""
    assert state_of(flink) == ours


def test_a_vertex_without_a_maximum_has_flinks_own() -> None:
    """-1 stands for unknown. A job whose scheduler cannot be asked has no scalable task and no requirement."""
    vertex = Vertex(id="v", name="x" * 300, parallelism=2, max_parallelism=-1, status="RUNNING")
    detail = JobDetail(jid="1", name="n", state="RUNNING", start_time=0, now=0, vertices=(vertex,))
    (task,) = tasks_of(detail)
    assert (task.max_parallelism, task.required, task.scalable, len(task.label)) == (KEY_GROUPS_MAX, None, False, 256)


def test_partitions_bound_what_is_useful() -> None:
    """More subtasks of a source than partitions would get no records."""
    vertex = Vertex(id="v", name="source", parallelism=2, max_parallelism=64, status="RUNNING")
    detail = JobDetail(jid="1", name="n", state="RUNNING", start_time=0, now=0, vertices=(vertex,))
    (task,) = tasks_of(detail, partitions={"v": 8})
    assert (task.useful_max, task.max_parallelism) == (8, 64)
