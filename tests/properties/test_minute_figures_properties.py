"""Figures of many jobs' minutes at once are those of each job alone."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.messages import JobTopology
from surescale.spark_streaming.columns import ABSENT, COLUMN, FIGURE_COLUMNS, NULLABLE_COLUMNS, SAMPLE_COLUMNS, Int64
from surescale.spark_streaming.figures import NO_BASELINE, Baseline, ClosingMinute, MinuteFigures, minute_figures
from tests.unit.spark_streaming.pipeline import MINUTE, graph, spec

TASKS = ("map", "sink", "ghost", "join")
GRAPHS = (
    graph(spec("map", parallelism=2), spec("sink", "map")),
    graph(spec("join", parallelism=2), spec("map")),
    graph(spec("map")),
)


@st.composite
def samples(draw: st.DrawFn, minute: int, attempt: int) -> Int64:
    """Return samples of one minute: restarts in it, silent subtasks, unknown figures, unknown tasks, repeats; perhaps none."""
    drawn = random.Random(draw(st.integers(0, 2**32)))  # a draw of Hypothesis for each of a row's figures takes far longer
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        row = dict.fromkeys(SAMPLE_COLUMNS, 0)
        row |= {name: drawn.randint(0, 2**40) for name in FIGURE_COLUMNS}
        row |= dict.fromkeys((name for name in sorted(NULLABLE_COLUMNS) if drawn.random() < 0.2), ABSENT)
        row |= {"task": drawn.randrange(len(TASKS)), "subtask": drawn.randint(0, 2), "parallelism": 2}
        row |= {"attempt": attempt - drawn.randint(0, 1), "as_of_ms": ABSENT}
        row["sampled_at_ms"] = minute * MINUTE - drawn.choice([0, 1, 15_000, 31_000, 59_999])
        if drawn.random() < 0.5:  # clocks of an attempt that began lately, so that its growth is known
            row |= {name: drawn.randint(0, 25_000) for name in ("busy_ms", "idle_ms", "backpressured_ms")}
        rows += [list(row.values())] * drawn.choice([1, 1, 1, 2])
    return np.array(rows, dtype=np.int64).reshape(-1, len(SAMPLE_COLUMNS))


@st.composite
def job_minutes(draw: st.DrawFn) -> list[tuple[Int64, JobTopology]]:
    """Return three minutes of a job, with their graphs."""
    attempts = np.cumsum(draw(st.lists(st.integers(0, 2), min_size=3, max_size=3)))
    return [(draw(samples(at + 1, int(attempt) + 1)), draw(st.sampled_from(GRAPHS))) for at, attempt in enumerate(attempts)]


def bits(found: MinuteFigures) -> tuple[object, ...]:
    """Return everything that is found, comparable bit for bit."""
    rows = [(task, row.dtype, row.tobytes()) for task, row in found.rows.items()]
    arrays = [(each.shape, each.dtype, each.tobytes()) for each in (found.baseline.samples, found.unknown)]
    return rows, found.baseline.tasks, arrays, found.samples, found.duplicates, found.outdated


@given(st.lists(job_minutes(), min_size=1, max_size=5))
def test_figures_of_many_jobs_at_once_are_those_job_by_job(jobs: list[list[tuple[Int64, JobTopology]]]) -> None:
    """Bit for bit, over minutes that follow from one another."""
    baselines: list[Baseline] = [NO_BASELINE] * len(jobs)
    for at in range(3):
        closing = [
            ClosingMinute(own, TASKS, topology, baseline)
            for (own, topology), baseline in zip((job[at] for job in jobs), baselines, strict=True)
        ]
        together = minute_figures(closing)
        alone = [minute_figures([minute])[0] for minute in closing]
        assert [bits(found) for found in together] == [bits(found) for found in alone]
        baselines = [found.baseline for found in together]


def test_a_jobs_results_keep_no_other_jobs_in_memory() -> None:
    """They are arrays of their own: a job that falls silent must not hold what others have long dropped."""
    own = np.zeros((1, len(SAMPLE_COLUMNS)), dtype=np.int64)
    own[0, [COLUMN["sampled_at_ms"], COLUMN["parallelism"]]] = MINUTE, 1
    for found in minute_figures([ClosingMinute(own, ("map",), GRAPHS[2], NO_BASELINE) for _ in range(50)]):
        for array in (found.baseline.samples, found.rows["map"]):
            held = array if array.base is None else array.base
            assert held.nbytes == array.nbytes
