"""How long rescales stop a job, told from its minutes where the engine does not tell it. Pure.

A job that is stopped processes nothing: its subtasks are neither busy, idle nor held back, members are missing from its groups,
or nobody shows any figure at all. So what a rescale takes is the time from the last whole minute at the old sizes to the first
whole one at the new sizes, less the time that the new subtasks ran in between. Looks come once a minute, so one rescale is told
to half a minute or so; a minute at worst.
"""

import statistics
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import RESTART_ASSUMED_S
from surescale.contracts.messages import JobTopology, TaskSample

MEASURED_MAX = 5
"""So many past rescales say how long the next one will stop the job."""
SEEN_LEAST = 2
"""A single one says too little, unless it took longer than is assumed: an outage at the same time looks like a part of it."""
LONGEST_MS = 30 * MINUTE_MS
"""A job that stands still for longer does so for another reason."""
WHOLE_LEAST = 0.9
"""Share of a minute in which subtasks run that are all there; counters of busy and idle time do not quite add up to all of it."""
UNSEEN_MS = MINUTE_MS // 2
"""The old subtasks ran on after they were last looked at: for half a minute on average."""


@dataclass(frozen=True, slots=True)
class Look:
    """A job that runs, at the end of a minute.

    Attributes:
        epoch: the submission; a new one is no rescale.
        attempt: grows whenever counters begin again.
        sizes: subtasks of each task.
        ran_ms: for how long a subtask has run since the attempt began; None: the engine does not tell what it does with its time.
    """

    epoch: str
    attempt: int
    sizes: tuple[int, ...]
    ran_ms: float | None


class RestartMeter:
    """What the last rescales of one job took."""

    def __init__(self, known_ms: int | None = None) -> None:
        """``known_ms``: what was measured before; None: nothing."""
        self._lengths_ms = deque([] if known_ms is None else [float(known_ms)] * SEEN_LEAST, maxlen=MEASURED_MAX)
        self._last_ms = self._whole_ms = self._stood_ms = 0
        self._whole: Look | None = None  # the last whole minute at sizes that held
        self._newest: Look | None = None

    @property
    def restart_ms(self) -> int | None:
        """Return the median of the last few; None while too few were seen, and none that took longer than is assumed."""
        is_told = len(self._lengths_ms) >= SEEN_LEAST or any(each > 1_000.0 * RESTART_ASSUMED_S for each in self._lengths_ms)
        return round(statistics.median(self._lengths_ms)) if is_told else None

    def note(self, end_ms: int, look: Look | None, *, is_resting: bool = False) -> None:
        """Take the look at the end of a minute. A minute that was taken before tells nothing.

        Args:
            end_ms: the end of the minute.
            look: None: the job did not run then.
            is_resting: nobody wanted it to run: what follows is no rescale.
        """
        if end_ms <= self._last_ms:
            return
        self._last_ms = end_ms
        if is_resting:
            self._whole = self._newest = None
            return
        if look is None:
            self._stood_ms += MINUTE_MS
            return
        whole, newest, self._newest = self._whole, self._newest, look
        is_other = whole is not None and look.epoch == whole.epoch and look.attempt != whole.attempt
        if whole is None or not is_other or end_ms - self._whole_ms > LONGEST_MS:
            self._begin(end_ms, look)
        elif _is_whole(look, newest):
            took_ms = self._took_ms(end_ms - self._whole_ms, look)
            if took_ms is not None and look.sizes != whole.sizes:
                self._lengths_ms.append(took_ms)
            self._begin(end_ms, look)

    def _begin(self, end_ms: int, look: Look) -> None:
        self._whole, self._whole_ms, self._stood_ms = look, end_ms, 0

    def _took_ms(self, passed_ms: int, look: Look) -> float | None:
        """Return how long the job stood still in the time between two whole minutes; None if nobody can tell."""
        if look.ran_ms is not None:
            return max(float(self._stood_ms), passed_ms - look.ran_ms - UNSEEN_MS)
        # Only looks tell it then, and minutes without one tell nothing.
        return float(self._stood_ms) if passed_ms <= self._stood_ms + MINUTE_MS else None


def _is_whole(look: Look, before: Look | None) -> bool:
    """Return whether a job ran through the minute before a look; of one that does not tell it is believed."""
    if look.ran_ms is None:
        return True
    earlier_ms = before.ran_ms if before is not None and before.attempt == look.attempt else 0.0
    return look.ran_ms - (earlier_ms or 0.0) >= WHOLE_LEAST * MINUTE_MS


def look_at(topology: JobTopology, samples: Iterable[TaskSample]) -> Look | None:
    """Return what a minute's samples show of a job; None if it does not run, or shows nothing."""
    own = [sample for sample in samples if sample.attempt == topology.attempt]
    if topology.state != "running" or not own:
        return None
    ran_ms: defaultdict[str, float | None] = defaultdict(float)
    for sample in own:
        so_far_ms = ran_ms[sample.task]
        if so_far_ms is None or sample.busy_ms is None or sample.idle_ms is None:
            ran_ms[sample.task] = None
        else:  # those that do not report count as missing
            ran_ms[sample.task] = so_far_ms + sample.busy_ms + sample.idle_ms + (sample.backpressured_ms or 0)
    sizes = {spec.task: spec.parallelism for spec in topology.tasks}
    each_ms = [total / sizes[task] for task, total in ran_ms.items() if total is not None and sizes.get(task)]
    usual_ms = statistics.median_low(each_ms) if each_ms else None
    return Look(topology.epoch, topology.attempt, tuple(sizes.values()), usual_ms)
