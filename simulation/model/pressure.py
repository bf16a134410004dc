"""Back pressure: bounded buffers between tasks, so that a slow task holds up those before it. Pure.

The records are a fluid, as in ``simulation.model.queueing``. Every edge has a buffer of b records. A task works only while all
its inputs have records and none of its outputs is full ("blocking before service", Perros, Queueing Networks with Blocking,
1994; "window flow control", Le Boudec and Thiran, Network Calculus, 2001). With lags (records that entered the job minus records
that a task has served), entered records e and at most c_i served records in a step,

    lag_i(t+1) = max(lag_i(t) + e - c_i,  lag of every parent (t+1),  lag of every child (t+1) - b,  0),

and the least solution is the one in which every task serves as much as it can. It is

    lag_i(t+1) = max over j of (own_j - b * h_ij),  own_j = lag_j(t) + e - c_j, at least 0,

where h_ij is the least number of steps against the flow on any way from j to i along the graph's edges: steps with the flow are
free, because a late task starves those behind it. Within a step arrivals and capacities are constant, so every lag is a maximum
of lines in time: a convex function, whose maximum lies at an end. Lags at the ends of steps are therefore exact however long a
step is.

The virtual source takes what its buffers allow; what it does not take waits in the broker. A record that is in a buffer when the
job stops is still there afterwards, as in an unaligned checkpoint (FLIP-76). A checkpoint's barrier travels with the records
(aligned), so it takes as long as the job needs to serve what is in its buffers.

Size of a buffer: in front of the bottleneck of a Flink job lay 14,750 records at 500 records a second and 16,400 at 1,000 (a
checkpoint took 29.5 and 16.4 s). So a buffer holds a number of records, whatever the parallelism, here those of about twelve
seconds at the load that the job is sized for.

Not modelled: what is not in ``queueing`` either, channels of single subtasks (a hot key fills one channel and stops all), and
records that travel twice after a rescale.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.simulation.load.jobs import PARALLELISM_MAX, SizedJob
from surescale.simulation.model.queueing import STEPS, largest, padded

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

BUFFER_MS = 8_400  # of what the heaviest task serves at its widest (10 subtasks); it is sized for 7: 12 s of that load
CHECKPOINT_MINUTES_MAX = 10  # Flink's default of execution.checkpointing.timeout
_CELLS_MAX = 2_000_000  # of one table in memory
_SLACK = 1e-9  # relative; a buffer this close to full is full


@dataclass(frozen=True, slots=True)
class PressureTables:
    """A job's graph for bounded buffers; N tasks with source and sink.

    Attributes:
        buffer_records: b, what fits between two tasks.
        against: float64 [N, N], b * h_ij, the records between the backlog at task j and a task i that it holds up.
        parents: int64 [N, P], the first repeated; the source is its own parent.
        children: int64 [N, C], the first repeated; the sink is its own child.
        stops: bool [N, 1], the tasks that stand still while the job is down: all but the sink, which only follows.
    """

    buffer_records: float
    against: Float64
    parents: Int64
    children: Int64
    stops: Bool

    @classmethod
    def of(cls, job: SizedJob) -> "PressureTables":
        """Return the tables of a job."""
        upstream = job.graph.upstream
        downstream = [[child for child, parents in enumerate(upstream) if task in parents] for task in range(job.size)]
        buffered = buffer_records(job)
        steps = np.stack([_steps_against(task, upstream, downstream) for task in range(job.size)], axis=1)
        stops = np.ones((job.size, 1), dtype=np.bool_)
        stops[-1] = False
        return cls(
            buffer_records=buffered,
            against=buffered * steps,
            parents=padded(parents or [task] for task, parents in enumerate(upstream)),
            children=padded(children or [task] for task, children in enumerate(downstream)),
            stops=stops,
        )

    def pressed(self, own: Float64) -> Float64:
        """Return lags [N, B] from what each task's own capacity leaves behind, own [N, B] (see the module)."""
        lags = np.zeros_like(own)
        late = np.flatnonzero((own > 0.0).any(axis=1))
        if not len(late):
            return lags
        of_late, size = own[late], len(own)
        at_once = max(1, _CELLS_MAX // of_late.size)
        for begin in range(0, size, at_once):
            part = slice(begin, begin + at_once)
            np.maximum(0.0, (of_late - self.against[part, late, None]).max(axis=1), out=lags[part])
        return lags

    def waiting(self, lags: Float64) -> Float64:
        """Return the records that wait at each task for lags [.., N, B]: in the broker at the source, in buffers elsewhere.

        Records that wait for a join count at no task.
        """
        behind = largest(lags, self.parents)
        behind[..., :1, :] = 0.0  # the source
        waiting: Float64 = lags - behind
        return waiting

    def blocked(self, lags: Float64) -> Bool:
        """Return which tasks [.., N, B] have records to serve and a full buffer after them."""
        full = self.buffer_records * (1.0 - _SLACK) - _SLACK * lags
        blocked = largest(lags, self.children) - lags >= full
        blocked &= self.waiting(lags) > _SLACK * (self.buffer_records + lags)
        blocked[..., -1, :] = False  # the sink
        return blocked

    def checkpoint_minutes(self, lags: Float64, most: Float64) -> Float64:
        """Return how long [B] a checkpoint takes at lags [N, B] if the tasks serve at most this much in a minute [N, B].

        Its barrier comes out when everything that the source let in before has been served.
        """
        inside = lags[-1] - lags[0]
        minutes: Float64 = np.where(inside > 0.0, inside / most[1:-1].min(axis=0), 0.0)
        return minutes

    def effect_minutes(self, lags: Float64, most: Float64, least: int) -> Int64:
        """Return after how many whole minutes [B] a change asked for now takes effect: ``least``, or the checkpoint's end.

        A checkpoint is asked for together with the change; it is given up after ``CHECKPOINT_MINUTES_MAX``.
        """
        whole = np.ceil(self.checkpoint_minutes(lags, most) - _SLACK)
        return np.clip(whole, least, max(least, CHECKPOINT_MINUTES_MAX)).astype(np.int64)


def buffer_records(job: SizedJob) -> float:
    """Return how many records fit between two tasks of a job."""
    return BUFFER_MS / MINUTE_MS * PARALLELISM_MAX / float(job.service_minutes.max())


def run_minute(tables: PressureTables, lag: Float64, arrivals: Float64, most: Float64, up: Float64 | None = None) -> Float64:
    """Let one minute pass under back pressure.

    Args:
        tables: of the job.
        lag: float64 [N, B] at the start.
        arrivals: float64 [B], records that come in at the door in this minute.
        most: float64 [N, B], records that each task serves in one step at most.
        up: float64 [STEPS, B], share of each step in which the job runs; None: it always runs.

    Returns:
        float64 [STEPS + 1, N, B]: lags at the ends of the steps, after ``lag`` itself.
    """
    lags = np.zeros((STEPS + 1, *lag.shape))
    lags[0] = lag
    entered = arrivals / STEPS
    for step in range(STEPS):
        lags[step + 1] = next_lags(tables, lags[step], entered, most, None if up is None else up[step])
    return lags


def next_lags(tables: PressureTables, lag: Float64, entered: Float64, most: Float64, up: Float64 | None = None) -> Float64:
    """Return lags [N, B] after a stretch of time in which ``entered`` [B] records come and ``most`` [N, B] can be served.

    ``up`` [B]: the share of it in which the job runs.
    """
    served = most
    if up is not None:
        with np.errstate(invalid="ignore"):  # a task that takes no time: infinitely many records times zero
            served = np.where(tables.stops & (up < 1.0), np.where(up > 0.0, most * up, 0.0), most)
    return tables.pressed(lag + entered - served)


def _steps_against(start: int, upstream: tuple[tuple[int, ...], ...], downstream: list[list[int]]) -> Float64:
    """Return float64 [N]: the least steps against the flow from ``start`` to each task; steps with the flow are free."""
    steps = np.full(len(upstream), np.inf)
    steps[start] = 0.0
    border = [start]
    while border:  # all tasks with one number of steps, then those with one more
        for task in border:  # grows while it is read
            fresh = [child for child in downstream[task] if steps[child] > steps[task]]
            steps[fresh] = steps[task]
            border.extend(fresh)
        above = sorted({parent for task in border for parent in upstream[task] if np.isinf(steps[parent])})
        steps[above] = steps[border[0]] + 1.0
        border = above
    return steps
