"""What is not seen of a job in the world ``blind``: its figures differ from what happens. Seeded; pure.

The job itself runs as in any other world. Every fault falls on tasks of its own, so that a job of four tasks has all of them, and
the fourth is seen as it is:

- **backlog**: four times a day, for one to four hours, nobody knows what waits for a task: a broker that does not answer.
- **subtasks**: a fifth to two fifths of a task's subtasks never report: a host whose metrics nobody collects. Counters are sums
  over the others, and coverage says how many these are.
- **busy time**: a task's counter shows a fifth to three fifths of its work, and the rest as idle: calls to something outside.
- **jumps**: twice a day the source's position jumps forward by 30 to 240 minutes' records in one minute: offsets that are set to
  the end, records that expire. None of these records comes.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from surescale.contracts.windows import FIGURE, Float32
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.waves import COURSE_MINUTES, DAY_MINUTES, places
from surescale.simulation.model.worlds import World

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

HIDDEN_A_DAY = 4.0
HIDDEN_MINUTES = (60, 240)
UNSEEN = (0.2, 0.4)
SHOWN = (0.2, 0.6)
JUMPS_A_DAY = 2.0
JUMP_MINUTES = (30, 240)
_FAULTS = 4  # one of them is none
_WITH_WORK = [
    FIGURE[name]
    for name in ("records_in", "records_out", "bytes_in", "bytes_out", "busy_ms", "queue_wait_record_ms", "latency_record_ms")
]
_EVEN = [FIGURE[name] for name in ("idle_ms", "backpressured_ms", "queued_records_mean", "queued_records_last", "state_bytes")]
_QUEUED = [FIGURE[name] for name in ("queued_records_mean", "queued_records_last")]
_BUSY, _BUSIEST, _IDLE = (FIGURE[name] for name in ("busy_ms", "busy_ms_max", "idle_ms"))


@dataclass(frozen=True, slots=True)
class Blindness:
    """What is not seen of one job.

    Attributes:
        hidden: bool [T, N], minutes of the course in which what waits for a task is unknown.
        unseen: float64 [N], the share of a task's subtasks that never report.
        shown: float64 [N], the part of a task's busy time that its counter shows.
        jumps: int64 [T], by how many times what comes in a minute the source's position jumps ahead in it; 0: not at all.
    """

    hidden: Bool
    unseen: Float64
    shown: Float64
    jumps: Int64

    @classmethod
    def of(cls, world: World, job: SizedJob) -> "Blindness | None":
        """Return what is not seen of a job in a world; None: everything is."""
        return _drawn(world.seed, tuple((job.service_minutes > 0).tolist())) if world.is_blind else None

    def reporting(self, subtasks: npt.NDArray[np.number]) -> Float64:
        """Return how many of subtasks [.., N] report, the first ones; NaN where their number is unknown."""
        found: Float64 = np.subtract(subtasks, np.floor(subtasks * self.unseen))
        return found

    def hidden_in(self, first_minutes: Int64, minutes: int) -> Bool:
        """Return bool [B, m, N], whether what waits is unknown in m minutes of the trace from ``first_minutes`` [B] on."""
        found: Bool = self.hidden[places(first_minutes, minutes, COURSE_MINUTES)]
        return found

    def counted_in(self, first_minutes: Int64, minutes: int) -> Int64:
        """Return how many records [B, m] the source counts for each that comes, in the same minutes."""
        found: Int64 = 1 + self.jumps[places(first_minutes, minutes, COURSE_MINUTES)]
        return found

    def seen(self, figures: Float32, first_minutes: Int64) -> Float32:
        """Return what is seen of figures [B, m, N, F], of minutes from ``first_minutes`` [B] on."""
        found = figures.copy()
        subtasks, busy = figures[..., FIGURE["parallelism"]], figures[..., _BUSY]
        not_shown = (busy * (1.0 - self.shown)).astype(np.float32)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = self.reporting(subtasks) / subtasks
            hot = np.where(busy > 0, figures[..., _BUSIEST] / busy, 1.0 / subtasks)
            others = np.where(subtasks > 1, (self.reporting(subtasks) - 1.0) / (subtasks - 1.0), 1.0)
        found[..., _BUSY] -= not_shown
        found[..., _IDLE] += not_shown
        found[..., FIGURE["latency_record_ms"]] -= not_shown
        found[..., _BUSIEST] *= self.shown.astype(np.float32)
        found[..., _WITH_WORK] *= np.where(share < 1.0, hot + (1.0 - hot) * others, 1.0).astype(np.float32)[..., None]
        found[..., _EVEN] *= share.astype(np.float32)[..., None]
        found[..., FIGURE["coverage"]] *= share.astype(np.float32)
        found[..., FIGURE["arrived"]] *= self.counted_in(first_minutes, figures.shape[1])[..., None]
        hidden = self.hidden_in(first_minutes, figures.shape[1])
        found[..., _QUEUED] = np.where(hidden[..., None], np.float32(np.nan), found[..., _QUEUED])
        return found


@lru_cache(maxsize=8)
def _drawn(seed: int, works: tuple[bool, ...]) -> Blindness:
    generator, tasks = np.random.default_rng([seed, 9]), np.flatnonzero(works)
    fault = np.full(len(works), _FAULTS - 1)
    fault[generator.permutation(tasks)] = (generator.integers(_FAULTS) + np.arange(len(tasks))) % _FAULTS
    hidden = np.zeros((COURSE_MINUTES, len(works)), dtype=np.bool_)
    for task in np.flatnonzero(fault == 0).tolist():
        for minute in np.flatnonzero(generator.random(COURSE_MINUTES) < HIDDEN_A_DAY / DAY_MINUTES).tolist():
            hidden[minute : minute + int(generator.integers(*HIDDEN_MINUTES, endpoint=True)), task] = True
    is_jump = generator.random(COURSE_MINUTES) < JUMPS_A_DAY / DAY_MINUTES
    return Blindness(
        hidden=hidden,
        unseen=np.where(fault == 1, generator.uniform(*UNSEEN, len(works)), 0.0),
        shown=np.where(fault == 2, generator.uniform(*SHOWN, len(works)), 1.0),
        jumps=np.where(is_jump, generator.integers(*JUMP_MINUTES, COURSE_MINUTES, endpoint=True), 0),
    )
