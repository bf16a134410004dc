"""The figures of each task for a board."""

import pytest
from msgspec import convert, to_builtins
from msgspec.structs import replace

from surescale.contracts.decisions import TaskDecision
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.services.state import metrics
from surescale.services.state.read.task_figures import DecidedTasks, TaskFigures, task_figures
from tests.support.builders import topology

TOPOLOGY = topology()


def decided(task: str, taken: float | None, busy: float | None = None, desired: int = 4) -> TaskDecision:
    """Return what a decision says of a task."""
    return TaskDecision(
        task=task, current=2, ratio=2.0, proposed=desired, desired=desired, records_per_minute=taken, utilisation=busy
    )


def figures(load: float | None, *tasks: TaskDecision, of: JobTopology = TOPOLOGY) -> list[TaskFigures]:
    """Return the figures of one job."""
    return task_figures([("sim/clicks", of, DecidedTasks(tasks=tasks, load_records_per_minute=load))])[0]


def test_a_task_has_what_runs_what_is_wanted_and_both_rates() -> None:
    """Its source lets in half of what comes: the target is twice what the task took in."""
    found = figures(1_200.0, decided("source", 600.0), decided("map", 300.0, 0.75))
    assert found == [TaskFigures(job="sim/clicks", task="map", parallelism=2, desired=4, target_rate=600.0, true_rate=400.0)]


def test_a_size_that_cannot_be_asked_for_is_not_told_to_whoever_scales() -> None:
    """Of three members a worker, what runs would be taken for workers: four become twelve, and twelve 36."""
    fixed = replace(TOPOLOGY, tasks=tuple(replace(each, fixed="why") for each in TOPOLOGY.tasks))
    (found,) = figures(600.0, decided("source", 600.0), decided("map", 600.0), of=fixed)
    assert (found.desired, found.fixed) == (None, "why")


@pytest.mark.parametrize(("desired", "told"), [(3, 8), (4, 8), (8, 8), (9, 9), (2, 2), (1, 1)])
def test_growth_takes_nothing_away_from_what_is_asked_for(desired: int, told: int) -> None:
    """Two of eight workers are members: who asks for three of them must not get five workers fewer."""
    asked = replace(TOPOLOGY, tasks=tuple(replace(each, required=8) for each in TOPOLOGY.tasks))
    (found,) = figures(600.0, decided("map", 600.0, desired=desired), of=asked)
    assert (found.parallelism, found.desired) == (2, told)


@pytest.mark.parametrize(("engine", "desired", "told"), [("kafka", 1, 7), ("kafka", 2, 8), ("flink", 1, 1), ("flink", 2, 2)])
def test_of_more_workers_than_members_no_more_go_than_members_shall(engine: str, desired: int, told: int) -> None:
    """Two of eight pods are members, and one or two shall be: of one or two pods nobody knows whether they are."""
    asked = replace(TOPOLOGY, engine=engine, tasks=tuple(replace(each, required=8) for each in TOPOLOGY.tasks))
    (found,) = figures(600.0, decided("map", 600.0, desired=desired), of=asked)
    assert found.desired == told


def test_what_is_not_known_is_no_figure() -> None:
    """Load, what the sources let in, busy time, the whole decision."""
    for load, source, task in (
        (None, decided("source", 600.0), decided("map", 300.0)),
        (1_200.0, decided("source", None), decided("map", 300.0, 0.0)),
        (1_200.0, decided("source", 0.0), decided("map", None, 0.5)),
    ):
        (found,) = figures(load, source, task)
        assert (found.desired, found.target_rate, found.true_rate) == (4, None, None)
    (undecided,) = figures(None)
    assert (undecided.parallelism, undecided.desired, undecided.target_rate) == (2, None, None)
    shown = [(each.metric.name, each.labels) for each in metrics.of_tasks([undecided], 0)]
    assert shown == [("surescale_state_tasks_left_out", ()), ("surescale_state_task_parallelism", ("sim/clicks", "map"))]


def test_series_are_told_apart_and_bounded() -> None:
    """A label that two tasks have is no name, a long one is cut, and beyond the most tasks the others are counted."""
    labels = ("same", "same", "x" * 500)
    specs = tuple(TaskSpec(task=f"t{at}", label=label, upstream=("source",)) for at, label in enumerate(labels))
    wide = convert(to_builtins(TOPOLOGY) | {"tasks": to_builtins((TOPOLOGY.tasks[0], *specs))}, JobTopology)
    assert [each.task for each in figures(None, of=wide)] == ["t0", "t1", "x" * 120]
    found, left_out = task_figures([(f"sim/{name}", wide, DecidedTasks()) for name in "ab"], most=4)
    assert ([(each.job, each.task[:2]) for each in found][-1], left_out) == (("sim/b", "t0"), 2)
