"""A world's course as B rows of one job meet it: each at its own minute of the trace, after its own rescales. Immutable."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from contracts.clock import MINUTE_MS
from simulation.load.jobs import SizedJob
from simulation.model.course import Course, Float64, Int64, course_of
from simulation.model.worlds import World

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
