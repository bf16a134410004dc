"""Small jobs and workloads that the tests of the simulator start from."""

from functools import cache

import numpy as np

from benchmarks.archive import load_job
from surescale.contracts.commands import RescheduleCommand, TaskChange
from surescale.simulation.engine.cluster import RunOptions, SimulatedCluster
from surescale.simulation.load.graphs import JobGraph
from surescale.simulation.load.jobs import SizedJob, size_job
from surescale.simulation.load.workload import Gap, Workload, load_workload
from surescale.simulation.model.attempts import FlowRows
from surescale.simulation.model.costs import RestartCost
from surescale.simulation.model.queueing import Float64
from surescale.simulation.model.worlds import CALM, World

MINUTE = 60_000
HOUR = 60 * MINUTE


def workload(requests: list[int], name: str = "test", gaps: tuple[Gap, ...] = ()) -> Workload:
    """Return a workload that begins at the epoch."""
    return Workload(name, np.array(requests, dtype=np.int64), 0, unknown=gaps)


@cache
def clarknet() -> Workload:
    """Return the workload that most tests run."""
    return load_workload("clarknet")


def graph(edges: dict[str, tuple[str, ...]], durations: dict[str, float] | None = None) -> JobGraph:
    """Return source -> tasks -> sink, each task named with its parents ("source" for none), in topological order."""
    tasks = ("source", *edges, "sink")
    index = {task: position for position, task in enumerate(tasks)}
    read = {parent for parents in edges.values() for parent in parents}
    ends = tuple(index[task] for task in edges if task not in read)
    duration = dict.fromkeys(edges, 1.0) | (durations or {})
    return JobGraph(
        name="small",
        tasks=tasks,
        upstream=((), *(tuple(index[parent] for parent in parents) or (0,) for parents in edges.values()), ends),
        duration_s=(0.0, *(duration[task] for task in edges), 0.0),
        stateful=(False, *(len(parents) > 1 for parents in edges.values()), False),
    )


def chain(*durations: float) -> JobGraph:
    """Return a chain of tasks t1, t2, ... of these durations."""
    names = [f"t{number}" for number in range(1, len(durations) + 1)]
    return graph(
        {name: (names[position - 1],) if position else () for position, name in enumerate(names)},
        dict(zip(names, durations, strict=True)),
    )


def sized(shape: JobGraph, load_parallelism: float = 1.0, peak: int = 100) -> SizedJob:
    """Return a job whose heaviest task needs this many subtasks at ``peak`` requests a minute."""
    return size_job(shape, workload([peak]), load_parallelism)


def rows(job: SizedJob, parallelism: int | list[int], environments: int = 1) -> FlowRows:
    """Return environments at a parallelism of the real tasks: the same for all, or one per task."""
    real = np.broadcast_to(np.array(parallelism, dtype=np.int64), (job.size - 2,))
    return FlowRows(job, np.tile(np.concatenate([[1], real, [1]]), (environments, 1)))


def column(*requests: float) -> Float64:
    """Return arrivals [m, 1]."""
    return np.array(requests, dtype=np.float64)[:, None]


def cluster(
    *names: str,
    minutes: int = 60,
    sample_interval_ms: int = 15_000,
    cost: RestartCost | None = None,
    world: World = CALM,
) -> SimulatedCluster:
    """Return a cluster that runs shipped jobs under ClarkNet's default stretch."""
    load = clarknet()
    options = RunOptions(minutes=minutes, sample_interval_ms=sample_interval_ms, cost=cost or RestartCost(), world=world)
    return SimulatedCluster([load_job(name, load) for name in names or ("j_2521346",)], load, options)


def command(
    of: SimulatedCluster, after: dict[str, int] | int, *, generation: int = 1, job: str = "j_2521346", **changes: object
) -> RescheduleCommand:
    """Return a command from a job's present parallelism: the same for all real tasks, or for those named."""
    topology = of.job(job).topology
    wanted = {spec.task: after for spec in topology.tasks if spec.scalable} if isinstance(after, int) else after
    base: dict[str, object] = {
        "command_id": f"{topology.job}#{generation}.0",
        "cluster": "sim",
        "job": topology.job,
        "desired_generation": generation,
        "step": 0,
        "base_placement_generation": 0,
        "decision_id": "by hand",
        "gate_reason": "forced",
        "gate_cause": "test",
        "issued_at_ms": of.now_ms,
        "changes": tuple(
            TaskChange(task=spec.task, before=spec.parallelism, after=wanted[spec.task])
            for spec in topology.tasks
            if spec.task in wanted
        ),
    }
    return RescheduleCommand(**(base | changes))  # type: ignore[arg-type]
