"""Runs the jobs of a batch side by side, so that minutes of many of them close at once. Pure.

A job's minutes follow from one another, so a job stops at each (it yields a ``ClosingMinute``) until its figures are there. Jobs
do not depend on one another: whichever stop, the figures of all are computed in one go.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

from spark_streaming.figures import ClosingMinute, MinuteFigures, minute_figures

T = TypeVar("T")
Steps = Generator[T | ClosingMinute, MinuteFigures | None, None]

ROWS_TOGETHER = 8_192
"""Minutes are closed once they have this many rows together: enough that calls cost little, few enough for the cache."""


def run_together(jobs: Iterable[Steps[T]]) -> Iterator[list[T]]:
    """Run all jobs to their ends; yield what they give besides their minutes, in parts, each job's in order."""
    waiting: deque[tuple[Steps[T], MinuteFigures | None]] = deque((job, None) for job in jobs)
    while waiting:
        given: list[T] = []
        closing: list[tuple[Steps[T], ClosingMinute]] = []
        rows = 0
        while waiting and rows < ROWS_TOGETHER:
            job, figures = waiting.popleft()
            minute = _next_minute(job, figures, given)
            if minute is not None:
                closing.append((job, minute))
                rows += len(minute)
        yield given
        answers = minute_figures([minute for _, minute in closing])
        waiting.extendleft(reversed([(job, figures) for (job, _), figures in zip(closing, answers, strict=True)]))


def _next_minute(job: Steps[T], figures: MinuteFigures | None, given: list[T]) -> ClosingMinute | None:
    """Run a job to the next minute that it closes, None at its end; what it gives until then goes to ``given``."""
    try:
        step = job.send(figures)
        while not isinstance(step, ClosingMinute):
            given.append(step)
            step = next(job)
    except StopIteration:
        return None
    return step
