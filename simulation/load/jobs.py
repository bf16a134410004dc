"""Sizes a job for a workload: how long a record takes at each task, and the parallelism at the start.

The durations of the trace are those of batch tasks, so only their proportions are used. One factor per job sets the load: at the
99th percentile of the workload, or of its calibration part, the heaviest task needs ``load_parallelism`` busy subtasks, and all
tasks together at most ``TOTAL_DEMAND_MAX``. Rewards of a job are comparable only at the same factor.

``literal`` load uses the durations as they are, like the SURE paper's code: a task of 2,000 s spends 0.002 minutes on a request.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from surescale.contracts.messages import Input, TaskSpec
from surescale.contracts.topology import levels
from surescale.policies.graph import JobGraph as GraphTables
from surescale.policies.graph import job_graph
from surescale.policies.guardrails import within_limits
from surescale.policies.limits import Limits
from surescale.simulation.load.graphs import JobError, JobGraph, load_graph
from surescale.simulation.load.waves import Waves
from surescale.simulation.load.workload import Workload

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

LOAD_PARALLELISM = 7.0
TOTAL_DEMAND_MAX = 110.0
PARALLELISM_MAX = 10  # per task
START_PARALLELISM_MAX = 5
CONFIGURED_UTILISATION = 0.8  # at peak load, with the headroom of a careful author
LITERAL_FACTOR = 1e-6  # minutes per request for each second of the trace
SLO_SHARE_MAX = 0.8  # of a minute, per stage

Load = Literal["calibrated", "literal"]


@dataclass(frozen=True)
class SizedJob:
    """A graph with service times; arrays are [N] in the graph's order, source and sink included.

    Attributes:
        graph: the job's tasks and edges.
        service_minutes: float64, minutes one subtask works on one record; 0 for source and sink.
        scale_factor: service_minutes / duration_s of the trace, the load factor.
        start_parallelism: int64, the largest uniform parallelism up to 5 within the total limit; 1 for source and sink.
        configured_parallelism: int64, what an author would provision: ceil(demand at P99 load / 0.8) within the limits.
        total_limit: most subtasks of real tasks together: 200, or two a real task where that is more.
        path_minutes: sum of service times on the longest path: the least time a record spends in the job.
        slo_minutes: allowed time of a minute's batch (mode ``slo``): longest path of min(0.8, demand at P99 load). Demand here
            is the minutes that one subtask works on a minute's batch.
        dealt: per task, how many partitions (of one that reads the source) or key groups are dealt out to its subtasks, 0 where
            its work divides; empty: everywhere.
        waves: what reaches each task in a world where that changes; None: every record, once.
    """

    graph: JobGraph
    service_minutes: Float64
    scale_factor: float
    start_parallelism: Int64
    configured_parallelism: Int64
    total_limit: int
    path_minutes: float
    slo_minutes: float
    dealt: tuple[int, ...] = ()
    waves: Waves | None = None

    @property
    def name(self) -> str:
        """Return the job's name."""
        return self.graph.name

    @property
    def size(self) -> int:
        """Return N, source and sink included."""
        return self.graph.size

    @cached_property
    def scalable(self) -> npt.NDArray[np.bool_]:
        """Return bool [N]: the real tasks."""
        mask = np.ones(self.size, dtype=np.bool_)
        mask[[0, -1]] = False
        return mask

    @property
    def readers(self) -> tuple[bool, ...]:
        """Return which tasks [N] read the source and nothing else."""
        return tuple(parents == (0,) for parents in self.graph.upstream)

    @cached_property
    def tables(self) -> GraphTables:
        """Return the graph as policies read it."""
        return job_graph(self.specs())

    @cached_property
    def limits(self) -> Limits:
        """Return the limits of the job under default settings."""
        one = np.ones(self.size, dtype=np.int64)
        most = np.where(self.scalable, self._most, one)
        return Limits(least=one, most=most, total=self.total_limit, align=bool(self.dealt))

    @property
    def _most(self) -> Int64:
        """Return int64 [N], the most subtasks of each real task that have something to do, at most ``PARALLELISM_MAX``."""
        dealt = np.array(self.dealt or (0,) * self.size, dtype=np.int64)
        return np.where(dealt > 0, np.minimum(dealt, PARALLELISM_MAX), PARALLELISM_MAX)

    def within_limits(self, desired: Int64) -> Int64:
        """Bring parallelism [.., N] within the job's bounds and total limit (``policies.guardrails``)."""
        return within_limits(desired, self.scalable, self.limits)

    def specs(self) -> tuple[TaskSpec, ...]:
        """Return the tasks as the engine announces them, at start parallelism, without units."""
        plain = tuple(
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
        if not self.dealt:
            return plain
        return tuple(map(_dealt_out, plain, self.dealt, self.readers, self._most.tolist()))


def _dealt_out(spec: TaskSpec, things: int, reads: bool, most: int) -> TaskSpec:
    """Return a task as an engine announces one to whose subtasks so many partitions or key groups are dealt out; 0: none are."""
    if not things:
        return spec
    return msgspec.structs.replace(
        spec,
        max_parallelism=most,
        vnodes=things,
        inputs=tuple(Input(task=parent, ship="hash") for parent in spec.upstream),
        useful_max=things if reads else None,
    )


def with_deal(job: SizedJob, dealt: tuple[int, ...]) -> SizedJob:
    """Return a job to whose tasks so many partitions and key groups are dealt out."""
    dealt_job = replace(job, dealt=dealt)
    most = dealt_job.limits.most
    return replace(
        dealt_job,
        start_parallelism=np.minimum(job.start_parallelism, most),
        configured_parallelism=np.minimum(job.configured_parallelism, most),
    )


def load_job(name_or_path: str, workload: Workload, load_parallelism: float = LOAD_PARALLELISM) -> SizedJob:
    """Return a shipped job or the job of a file (``simulation.load.graphs.load_graph``), sized for a workload (``size_job``).

    Raises:
        JobError: the job cannot be built.
    """
    return size_job(load_graph(name_or_path), workload, load_parallelism)


def size_job(
    graph: JobGraph,
    workload: Workload,
    load_parallelism: float = LOAD_PARALLELISM,
    *,
    minutes: tuple[int, int] | None = None,
    load: Load = "calibrated",
    literal_factor: float = LITERAL_FACTOR,
) -> SizedJob:
    """Scale a graph's durations so that the heaviest task needs ``load_parallelism`` subtasks at P99 of the workload.

    ``minutes`` (A, B): use only minutes A to B - 1. ``load`` "literal" ignores ``load_parallelism``: a second of the graph's
    durations is ``literal_factor`` minutes a record.

    Raises:
        JobError: ``load_parallelism`` is not positive, or the minutes have no load.
    """
    if not load_parallelism > 0:
        raise JobError(f"load_parallelism must be above 0, not {load_parallelism}")
    peak = _peak(graph, workload, minutes)
    duration_s = np.array(graph.duration_s, dtype=np.float64)
    factor: float = min(load_parallelism / (peak * duration_s.max()), TOTAL_DEMAND_MAX / (peak * duration_s.sum()))
    if load == "literal":
        factor = literal_factor
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


def _configured(demand: Float64, total_limit: int) -> Int64:
    # Rounding of the factor must not turn a demand of exactly 5.6 subtasks into more than 7 configured ones.
    wanted = np.ceil(demand / CONFIGURED_UTILISATION - 1e-9).astype(np.int64)
    least = np.ones_like(wanted)
    return within_limits(wanted, least > 0, Limits(least=least, most=PARALLELISM_MAX * least, total=total_limit))


def _with_ends(real: Int64) -> Int64:
    return np.concatenate([[1], real, [1]]).astype(np.int64)


def _longest_path(graph: JobGraph, service_minutes: Float64) -> float:
    behind = np.zeros(graph.size)
    for index in np.argsort(levels(graph.specs()), kind="stable"):
        parents = graph.upstream[index]
        behind[index] = service_minutes[index] + max((behind[parent] for parent in parents), default=0.0)
    return float(behind[-1])
