"""Messages as the columns that the merge step of the Spark job takes, without Spark."""

from collections.abc import Mapping, Sequence

import numpy as np

from surescale.contracts.messages import MinuteMarker, TaskSample
from surescale.spark_streaming.columns import ABSENT, COLUMN, FIGURE_COLUMNS, SAMPLE_COLUMNS, Coordinates, Records


def records_of(messages: Sequence[tuple[Coordinates, TaskSample | MinuteMarker]]) -> Records:
    """Build columns from messages, as `spark_streaming.stages` does from records."""
    jobs = tuple(sorted({message.job for _, message in messages}))
    tasks = tuple(sorted({message.task for _, message in messages if isinstance(message, TaskSample)}))
    job_code, task_code = {name: i for i, name in enumerate(jobs)}, {name: i for i, name in enumerate(tasks)}
    samples = np.zeros((len(messages), len(SAMPLE_COLUMNS)), dtype=np.int64)
    markers: dict[int, MinuteMarker] = {}
    for row, (at, message) in enumerate(messages):
        if isinstance(message, MinuteMarker):
            samples[row, [COLUMN["partition"], COLUMN["offset"]]] = at.partition, at.offset
            markers[row] = message
        else:
            samples[row] = _sample_row(at, message, task_code)
    return Records(
        jobs=jobs,
        job=np.array([job_code[message.job] for _, message in messages], dtype=np.int32),
        tasks=tasks,
        samples=samples,
        append_ms=np.array([at.append_ms for at, _ in messages], dtype=np.int64),
        markers=markers,
    )


def _sample_row(at: Coordinates, sample: TaskSample, task_code: Mapping[str, int]) -> list[int]:
    figures = (getattr(sample, name) for name in FIGURE_COLUMNS)
    return [
        task_code[sample.task],
        sample.subtask,
        sample.attempt,
        sample.sampled_at_ms,
        at.partition,
        at.offset,
        *(ABSENT if value is None else value for value in figures),
    ]
