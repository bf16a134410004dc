"""How a world's service times, hot keys and restarts go for one job, minute by minute. Seeded; pure.

Everything is drawn ahead from the world's seed and the tasks' places in the job, so a minute of the trace is the same for every
policy, however time is cut, and whatever the policy does. Only what a rescale redraws depends on how many there were.

- **drift**: the log of a task's service time is an Ornstein-Uhlenbeck process: caches, garbage collection, neighbours on a host,
  other keys in the records. Jitter adds what has no memory from one minute to the next.
- **slow**: tasks share hosts, and at times a host is slow for some 40 minutes: noisy neighbours, thermal limits, backups.
- **throttle**: now and then something outside holds a single task up for one to two hours: a database, an external service.
- **hot keys**: with a share h of the records on one key, the busiest of p subtasks has 1 + h (p - 1) times the mean. Which keys
  fall on the same subtask is redrawn at every rescale.
- **deal**: a task that reads the source has partitions and a keyed task has key groups, 8 to 128 of them. A subtask gets whole
  ones, in turn (Kafka's round robin) or a stretch of them (Flink: key group i of K to subtask i p / K), and the fullest subtask
  is the limit. In half of the tasks all bring as many records; in the others each has a rate of its own.
- **state**: the length of a restart follows the size of the state, which wanders over half a day.
- **nights**: from an hour in the evening on no record comes for seven to ten hours, and in half of the draws none at weekends:
  shops that close, offices, markets. The load is 0 there and known to be; what comes in the other hours is the trace's.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.windows import HOUR_MS
from surescale.policies.dealt import carried
from surescale.simulation.load.jobs import SizedJob, with_deal
from surescale.simulation.load.waves import COURSE_MINUTES, DAY_MINUTES, Waves, wandering, waves_of
from surescale.simulation.load.workload import Workload
from surescale.simulation.model.worlds import World

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

STATE_MINUTES = 720.0
SLOW_MINUTES = 40
SLOW_A_DAY = 2.0  # per host
TASKS_A_HOST = 3
THROTTLE_MINUTES = (40, 120)
THROTTLE_A_DAY = 2.0  # per job
THROTTLE_LEAST = 1.5
DEALT = (8, 12, 16, 24, 60, 100, 128)
RATE_SPREAD = 0.15  # standard deviation of the log of a partition's rate
NIGHT_BEGINS = (20, 23)  # hour of the day
NIGHT_HOURS = (7, 10)
_DAY_HOURS = 24
_EPOCH_WEEKDAY = 3  # 1 January 1970 was a Thursday
_UNEVEN = 0.25  # a rescale changes a hot key's usual surplus on its subtask by at most this share


@dataclass(frozen=True, slots=True)
class Course:
    """What a world does to one job.

    Attributes:
        slowness: float64 [T, N], factors on service times; None: always 1.
        hot_share: float64 [N], share of a task's records on its hottest key.
        state: float64 [T], factors on the length of a restart; None: always 1.
        redone_minutes: minutes of work that a restart does again.
        dealt: int64 [N], how many partitions or key groups are dealt out to a task's subtasks, 0 where its work divides; None:
            everywhere.
        fullest: float64 [N, P], the share of a task's work that its fullest subtask has at p subtasks, p < P; more subtasks leave
            it as it is. NaN where all partitions bring as much; None: everywhere.
        seed: of what a rescale redraws.
        waves: what reaches each task; None: every record, once.
    """

    slowness: Float64 | None
    hot_share: Float64
    state: Float64 | None
    redone_minutes: float
    dealt: Int64 | None
    fullest: Float64 | None
    seed: int
    waves: Waves | None = None

    def slowness_of(self, first_minutes: Int64, minutes: int) -> Float64 | None:
        """Return factors [m, N, B] for m minutes of the trace from ``first_minutes`` [B] on; None: all 1."""
        work = None if self.waves is None else self.waves.at(self.waves.work, first_minutes, minutes)
        if self.slowness is None:
            return work
        at = (first_minutes + np.arange(minutes)[:, None]) % len(self.slowness)
        factors: Float64 = np.moveaxis(self.slowness[at], -1, 1)
        return factors if work is None else factors * work

    def restart_factor(self, minutes: Int64) -> Float64:
        """Return factors [B] on the length of a restart that begins in these minutes of the trace [B]."""
        if self.state is None:
            return np.ones(len(minutes))
        factor: Float64 = self.state[minutes % len(self.state)]
        return factor

    def busiest(self, subtasks: Int64, rescales: Int64) -> Float64:
        """Return the work of the busiest of subtasks [N, B] over the mean, [N, B]; ``rescales`` [B] number the draws."""
        uneven = 1.0 + _UNEVEN * (2.0 * _uniform(self.seed, np.arange(len(subtasks))[:, None], rescales) - 1.0)
        share = np.minimum(self.hot_share[:, None] * uneven, 1.0)
        if self.dealt is None:
            return np.asarray(1.0 + share * (subtasks - 1), dtype=np.float64)
        most = 1.0 / carried(subtasks, self.dealt[:, None])
        if self.fullest is not None:
            own = self.fullest[np.arange(len(subtasks))[:, None], np.minimum(subtasks, self.fullest.shape[1] - 1)]
            most = np.where(np.isnan(own), most, own)
        return np.asarray(np.maximum(subtasks * (share + (1.0 - share) * most), 1.0), dtype=np.float64)


def course_of(job: SizedJob, world: World) -> Course | None:
    """Return the course of a world for a job; None if nothing varies."""
    if not world.varies:
        return None
    assert job.waves is not None or not world.has_waves, "the job has not come through its world"
    works = tuple((job.service_minutes > 0).tolist())
    if not world.is_dealt:
        return replace(_drawn(world, job.size, works), waves=job.waves)
    own = with_own_deal(world, job)
    return replace(_drawn(world, job.size, works, own.dealt, own.readers), waves=job.waves)


def job_in(world: World, job: SizedJob, workload: Workload) -> SizedJob:
    """Return a job as it is in a world under the load as it comes there; one that has come through the world is as it was."""
    job = with_own_deal(world, job)
    if not world.has_waves or job.waves is not None:
        return job
    return replace(job, waves=waves_of(world.seed, job.graph, workload.requests))


def with_own_deal(world: World, job: SizedJob) -> SizedJob:
    """Return a job as it is in ``dealt``: the tasks that read the source and those with state have their own deal.

    In a world that was fitted to the job it has the deal that was seen. A job that has come through the world already is as it
    was.
    """
    if not world.is_dealt or job.dealt:
        return job
    if world.own:
        return with_deal(job, tuple(task.dealt for task in world.own))
    drawn = np.random.default_rng([world.seed, 7]).choice(DEALT, job.size)
    is_dealt = np.array(job.graph.stateful) | np.array(job.readers)
    return with_deal(job, tuple(np.where(is_dealt, drawn, 0).tolist()))


def load_in(world: World, workload: Workload) -> Workload:
    """Return the load as it comes in a world; of a load that has come through the world already, the same."""
    if not world.has_nights:
        return workload
    generator = np.random.default_rng([world.seed, 6])
    begins, lasts = (int(generator.integers(*hours, endpoint=True)) for hours in (NIGHT_BEGINS, NIGHT_HOURS))
    rests_at_weekends = bool(generator.random() < 0.5)
    hours = (workload.trace_start_ms + np.arange(workload.minutes) * MINUTE_MS) // HOUR_MS
    is_silent = (hours - begins) % _DAY_HOURS < lasts
    if rests_at_weekends:
        is_silent |= (hours // _DAY_HOURS + _EPOCH_WEEKDAY) % 7 >= 5
    return replace(workload, requests=np.where(is_silent, 0, workload.requests))


@lru_cache(maxsize=8)
def _drawn(
    world: World, size: int, works: tuple[bool, ...], dealt: tuple[int, ...] = (), readers: tuple[bool, ...] = ()
) -> Course:
    generators = [np.random.default_rng([world.seed, effect]) for effect in range(6)]
    at_work = np.array(works)
    assert len(world.own) in (0, size), (len(world.own), size)
    drift, jitter, share = (
        np.array([getattr(task, field) for task in world.own]) if world.own else drawn
        for field, drawn in (
            ("drift", world.drift),
            ("jitter", world.jitter),
            ("hot_share", generators[3].uniform(0.0, 1.0, size) * world.hot_share),
        )
    )
    hot = np.where(at_work, share, 0.0)
    slowness = None
    if world.varies_in_time:
        logs = np.zeros((COURSE_MINUTES, size))
        if world.drift > 0:
            logs += drift * wandering(generators[0], world.drift_minutes, size)
        if world.slow > 1:
            logs += np.log(world.slow) * _slow_hosts(generators[1], size)
        if world.throttle > 1:
            logs += _throttled(generators[2], world.throttle, np.flatnonzero(at_work), size)
        if world.jitter > 0:
            logs += jitter * generators[5].standard_normal((COURSE_MINUTES, size))
        slowness = np.where(at_work, np.exp(logs), 1.0)
    state = None
    if world.state_spread > 0:
        state = np.exp(world.state_spread * wandering(generators[4], STATE_MINUTES, 1)[:, 0])
    fullest = _fullest(np.random.default_rng([world.seed, 8]), dealt, readers) if dealt and not world.own else None
    things = np.array(dealt, dtype=np.int64) if dealt else None
    return Course(slowness, hot, state, world.redone_s / 60.0, things, fullest, world.seed)


def _fullest(generator: np.random.Generator, dealt: tuple[int, ...], readers: tuple[bool, ...]) -> Float64:
    """Return [N, P] ``Course.fullest`` for numbers of partitions and key groups; 0: the task's work divides."""
    sizes = np.arange(1, max(*dealt, 1) + 1)
    found = np.full((len(dealt), len(sizes) + 1), np.nan)
    for task, (things, reads) in enumerate(zip(dealt, readers, strict=True)):
        is_even, logs = generator.random() < 0.5, generator.standard_normal(max(DEALT))
        if is_even or not things:
            continue
        at, rates = np.arange(things), np.exp(RATE_SPREAD * logs[:things])
        for size in sizes.tolist():
            owners = at % size if reads else at * size // things
            found[task, size] = np.bincount(owners, rates).max() / rates.sum()
    return found


def _slow_hosts(generator: np.random.Generator, size: int) -> Float64:
    """Return [T, N] 1 while the host of a task is slow, else 0."""
    hosts = -(-size // TASKS_A_HOST)
    host_of = generator.permutation(size) % hosts
    begins = generator.random((COURSE_MINUTES, hosts)) < SLOW_A_DAY / DAY_MINUTES
    is_slow = np.zeros((COURSE_MINUTES, hosts))
    for minute, host in zip(*np.nonzero(begins), strict=True):
        is_slow[minute : minute + SLOW_MINUTES, host] = 1.0
    return is_slow[:, host_of]


def _throttled(generator: np.random.Generator, most: float, tasks: Int64, size: int) -> Float64:
    """Return [T, N] the log of the factor on a task's service time while it is held up, else 0."""
    logs = np.zeros((COURSE_MINUTES, size))
    for minute in np.flatnonzero(generator.random(COURSE_MINUTES) < THROTTLE_A_DAY / DAY_MINUTES):
        task, lasts = generator.choice(tasks), int(generator.integers(*THROTTLE_MINUTES, endpoint=True))
        logs[minute : minute + lasts, task] = np.log(generator.uniform(min(THROTTLE_LEAST, most), most))
    return logs


def _uniform(seed: int, tasks: Int64, rescales: Int64) -> Float64:
    """Return numbers in [0, 1) that depend on their place alone (the mixing steps of SplitMix64)."""
    with np.errstate(over="ignore"):
        mixed = (np.uint64(seed) << np.uint64(40)) + (tasks.astype(np.uint64) << np.uint64(20)) + rescales.astype(np.uint64)
        mixed = (mixed + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    share: Float64 = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return share


Bool = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Variation:
    """Where B rows stand in a course.

    Attributes:
        course: of the world, for the rows' job.
        minutes: int64 [B], of the trace.
        rescales: int64 [B], so far, from the first minute on: two rows that begin at different minutes draw different keys.
    """

    course: Course
    minutes: Int64
    rescales: Int64

    @classmethod
    def start(cls, job: SizedJob, world: World, rows: int, minutes: Int64 | None) -> "Variation | None":
        """Return rows at these minutes [B] of the trace (0) that have not been rescaled; None if nothing varies."""
        course = course_of(job, world)
        first = np.zeros(rows, dtype=np.int64) if minutes is None else minutes
        return None if course is None else cls(course, first, first)

    def after(self, minutes: int, changed: Bool) -> "Variation":
        """Return the rows some minutes later; those that ``changed`` [B] have been rescaled once more."""
        return replace(self, minutes=self.minutes + minutes, rescales=self.rescales + changed)

    def chosen(self, rows: Int64) -> "Variation":
        """Return these rows; one may be chosen often."""
        return replace(self, minutes=self.minutes[rows], rescales=self.rescales[rows])

    def slowness(self, minutes: int) -> Float64 | None:
        """Return factors on service times [m, N, B] in the coming minutes; None: all 1."""
        return self.course.slowness_of(self.minutes, minutes)

    def busiest(self, subtasks: Int64) -> Float64:
        """Return the work of the busiest subtask over the mean [N, B] at subtasks [N, B]."""
        return self.course.busiest(subtasks, self.rescales)

    def restart_ms(self, usual_ms: int, begin: Int64 | int) -> Int64:
        """Return how long [B] a restart stops the job that begins in so many minutes."""
        lasts: Int64 = np.rint(usual_ms * self.course.restart_factor(self.minutes + begin)).astype(np.int64)
        return lasts

    def redone(self, entered: Float64) -> Float64:
        """Return the records [B] that a restart serves again after a minute in which ``entered`` [B] came."""
        again: Float64 = entered * self.course.redone_minutes
        return again


def running_share(begin: Int64 | int, lasts_ms: Int64, minutes: int) -> Float64:
    """Return the share [B, m] of each minute in which rows run that stand still from minute ``begin`` on for so long [B]."""
    ends = np.arange(1.0, minutes + 1.0)
    first = np.asarray(begin, dtype=np.float64)[..., None]
    last = first + lasts_ms[:, None] / MINUTE_MS
    down = np.clip(np.minimum(ends, last) - np.maximum(ends - 1.0, first), 0.0, 1.0)
    running: Float64 = 1.0 - down
    return running
