"""Graphs are built once and shared, within a limit on memory."""

import pytest

from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import TaskSpec
from surescale.policies import graph
from surescale.policies.graph import job_graph


def chain(length: int, name: str = "t", parallelism: int = 1) -> list[TaskSpec]:
    """Return tasks that follow one another."""
    return [
        TaskSpec(task=f"{name}{at}", upstream=(f"{name}{at - 1}",) if at else (), parallelism=parallelism) for at in range(length)
    ]


def test_graphs_that_differ_in_parallelism_alone_are_one() -> None:
    """Each window of a job would build it again otherwise."""
    assert job_graph(chain(5)) is job_graph(chain(5, parallelism=3))


def test_graphs_asked_for_last_are_kept_as_far_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs of 10,000 tasks would fill an agent's memory; the one just built is kept however large it is."""
    small, other = job_graph(chain(3, "a")), job_graph(chain(3, "b"))
    monkeypatch.setattr(graph, "KEPT_BYTES_MAX", small.nbytes + job_graph(chain(40, "c")).nbytes)
    assert job_graph(chain(3, "a")) is small
    large = job_graph(chain(40, "d"))
    assert job_graph(chain(40, "d")) is large
    assert job_graph(chain(3, "a")) is small
    assert job_graph(chain(3, "b")) is not other
    huge = job_graph(chain(400, "e"))
    assert job_graph(chain(400, "e")) is huge
    assert job_graph(chain(3, "a")) is not small


def test_a_graphs_size_is_that_of_its_tables() -> None:
    """The square table of links is most of a large one."""
    assert 1_000_000 <= job_graph(chain(1_000)).nbytes < 2_000_000


def test_a_cycle_is_refused_each_time() -> None:
    """And nothing is kept of it."""
    tasks = [TaskSpec(task="a", upstream=("b",)), TaskSpec(task="b", upstream=("a",))]
    for _ in range(2):
        with pytest.raises(RecordRejected):
            job_graph(tasks)
