"""Sizing a job for a workload: how long a record takes at each task, and the parallelism it starts with.

A trace's durations are those of batch tasks, so only their proportions are kept. One factor per job sets the load: at the 99th
percentile of the workload, or of that part of it on which things may be calibrated, the heaviest task needs ``load_parallelism``
busy subtasks, and all tasks together at most ``TOTAL_DEMAND_MAX``. Rewards of a job can only be compared at the same factor.

``literal`` load takes the durations at their word instead, as the SURE paper's code does: a task of 2,000 s spends 0.002 minutes
on a request.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from contracts.messages import TaskSpec
from contracts.topology import levels
from simulation.graphs import JobError, JobGraph, load_graph
from simulation.workload import Workload

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

LOAD_PARALLELISM = 7.0
TOTAL_DEMAND_MAX = 110.0
PARALLELISM_MAX = 10  # per task
START_PARALLELISM_MAX = 5
CONFIGURED_UTILISATION = 0.8  # what a careful author leaves at peak load
LITERAL_FACTOR = 1e-6  # minutes a request over the trace's seconds
SLO_SHARE_MAX = 0.8  # of a minute, per stage

Load = Literal["calibrated", "literal"]


@dataclass(frozen=True, slots=True)
class SizedJob:
    """A graph with service times; arrays are [N] in the graph's order, source and sink included.

    Attributes:
        graph: the job's tasks and edges.
        service_minutes: float64, minutes one subtask works on one record; 0 for source and sink.
        scale_factor: service_minutes over the trace's duration_s: the load factor.
        start_parallelism: int64, the largest uniform parallelism up to 5 within the total limit; 1 for source and sink.
        configured_parallelism: int64, what an author would provision: ceil(demand at P99 load / 0.8) within the limits.
        total_limit: most subtasks of real tasks together: 200, or two a real task where that is more.
        path_minutes: sum of service times on the longest path: the least time a record spends in the job.
        slo_minutes: what a batch a minute may take (mode ``slo``): longest path of min(0.8, demand at P99 load), a task's demand
            being the minutes that one instance works on a minute's batch.
    """

    graph: JobGraph
    service_minutes: Float64
    scale_factor: float
    start_parallelism: Int64
    configured_parallelism: Int64
    total_limit: int
    path_minutes: float
    slo_minutes: float

    @property
    def name(self) -> str:
        """Return the job's name."""
        return self.graph.name

    @property
    def size(self) -> int:
        """Return N, source and sink included."""
        return self.graph.size

    @property
    def scalable(self) -> npt.NDArray[np.bool_]:
        """Return bool [N]: the real tasks."""
        mask = np.ones(self.size, dtype=np.bool_)
        mask[[0, -1]] = False
        return mask

    def specs(self) -> tuple[TaskSpec, ...]:
        """Return the tasks as the engine announces them, at their start parallelism, without units."""
        return tuple(
            TaskSpec(
                task=spec.task,
                upstream=spec.upstream,
                parallelism=int(self.start_parallelism[index]),
                max_parallelism=PARALLELISM_MAX if spec.scalable else 1,
                scalable=spec.scalable,
                stateful=spec.stateful,
                configured_parallelism=int(self.configured_parallelism[index]),
            )
            for index, spec in enumerate(self.graph.specs())
        )


def load_job(
    name_or_path: str,
    workload: Workload,
    load_parallelism: float = LOAD_PARALLELISM,
    *,
    minutes: tuple[int, int] | None = None,
    load: Load = "calibrated",
) -> SizedJob:
    """Return a shipped job, or the job of a file (``simulation.graphs.load_graph``), sized for a workload (``size_job``).

    Raises:
        JobError: the job cannot be built.
    """
    return size_job(load_graph(name_or_path), workload, load_parallelism, minutes=minutes, load=load)


def size_job(
    graph: JobGraph,
    workload: Workload,
    load_parallelism: float = LOAD_PARALLELISM,
    *,
    minutes: tuple[int, int] | None = None,
    load: Load = "calibrated",
) -> SizedJob:
    """Scale a graph's durations so that the heaviest task needs ``load_parallelism`` subtasks at P99 of the workload.

    ``minutes`` (A, B): of minutes A to B - 1 alone. ``load`` "literal" leaves ``load_parallelism`` out of account.

    Raises:
        JobError: the load is not positive, or the minutes hold none.
    """
    if not load_parallelism > 0:
        raise JobError(f"load_parallelism must be above 0, not {load_parallelism}")
    peak = _peak(graph, workload, minutes)
    duration_s = np.array(graph.duration_s, dtype=np.float64)
    factor = min(load_parallelism / (peak * duration_s.max()), TOTAL_DEMAND_MAX / (peak * duration_s.sum()))
    if load == "literal":
        factor = LITERAL_FACTOR
    service_minutes = duration_s * factor
    real = graph.size - 2
    total_limit = max(200, 2 * real)
    return SizedJob(
        graph=graph,
        service_minutes=service_minutes,
        scale_factor=factor,
        start_parallelism=_with_ends(np.full(real, min(START_PARALLELISM_MAX, total_limit // real), dtype=np.int64)),
        configured_parallelism=_with_ends(_configured(peak * service_minutes[1:-1], total_limit)),
        total_limit=total_limit,
        path_minutes=_longest_path(graph, service_minutes),
        slo_minutes=_longest_path(graph, np.minimum(SLO_SHARE_MAX, peak * service_minutes)),
    )


def _peak(graph: JobGraph, workload: Workload, minutes: tuple[int, int] | None) -> float:
    first, end = minutes or (0, workload.minutes)
    if not 0 <= first < end <= workload.minutes:
        raise JobError(
            f"calibration minutes {first}:{end} do not lie in workload {workload.name}; "
            f"give A:B with 0 <= A < B <= {workload.minutes}"
        )
    peak = workload.percentile(99, (first, end))
    if peak <= 0:
        raise JobError(
            f"workload {workload.name}, minutes {first} to {end - 1}: 99 % of its minutes are empty; "
            f"there is no load to size job {graph.name} for; give minutes that have some, or another workload"
        )
    return peak


def cap_total(parallelism: Int64, total_limit: int) -> Int64:
    """Lower the highest values to a common cap until the sum [n] is within the limit."""
    cap = int(parallelism.max())
    while cap > 1 and int(np.minimum(parallelism, cap).sum()) > total_limit:
        cap -= 1
    return np.minimum(parallelism, cap)


def _configured(demand: Float64, total_limit: int) -> Int64:
    # The factor's rounding must not push a demand of exactly 5.6 subtasks above 7 configured ones.
    wanted = np.ceil(demand / CONFIGURED_UTILISATION - 1e-9).astype(np.int64)
    return cap_total(np.clip(wanted, 1, PARALLELISM_MAX), total_limit)


def _with_ends(real: Int64) -> Int64:
    return np.concatenate([[1], real, [1]]).astype(np.int64)


def _longest_path(graph: JobGraph, service_minutes: Float64) -> float:
    behind = np.zeros(graph.size)
    for index in np.argsort(levels(graph.specs()), kind="stable"):
        parents = graph.upstream[index]
        behind[index] = service_minutes[index] + max((behind[parent] for parent in parents), default=0.0)
    return float(behind[-1])
