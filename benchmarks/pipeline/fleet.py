"""Task metrics of a synthetic fleet of jobs, as a monitor sends them. Pure: the same fleet and minute give the same records.

Each job is a chain, since the snapshot stage does not look at edges. Counters grow by a seeded load per task.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import JobTopology, MinuteMarker, TaskSample, TaskSpec

FIRST_MINUTE = 13_500_000  # in September 1995
ROUNDS_MS = (15_000, 30_000, 45_000, 60_000)
LAST_ROUND_MS = (60_000,)


@dataclass(frozen=True, slots=True)
class Fleet:
    """``jobs`` jobs of ``tasks`` tasks with ``subtasks`` subtasks each, dealt to ``clusters`` clusters in turn."""

    jobs: int
    tasks: int
    subtasks: int
    seed: int
    clusters: int = 1
    name: str = "bench"
    """Begins the names of its clusters, so that the jobs of two fleets differ."""
    _loads: dict[int, tuple[int, ...]] = field(default_factory=dict, compare=False)

    def records_per_minute(self, rounds: tuple[int, ...] = ROUNDS_MS) -> int:
        """Return the records that all jobs send per minute, including markers; a subtask sends a sample in each round."""
        return self.jobs * (self.tasks * self.subtasks * len(rounds) + 1)

    def job(self, index: int) -> str:
        """Return a job's id."""
        return f"{self.name}{index % self.clusters}/job-{index:04d}-{self.tasks}"

    def topology(self, index: int) -> JobTopology:
        """Return a job's graph."""
        names = [f"task-{number:04d}" for number in range(self.tasks)]
        return JobTopology(
            job=self.job(index),
            version=1,
            at_ms=0,
            tasks=tuple(
                TaskSpec(
                    task=name,
                    upstream=(names[number - 1],) if number else (),
                    parallelism=self.subtasks,
                    units=tuple(range(self.subtasks)),
                )
                for number, name in enumerate(names)
            ),
        )

    def samples(self, index: int, minute: int, rounds: tuple[int, ...] = ROUNDS_MS) -> Iterator[TaskSample]:
        """Yield a job's samples of minute n (from 0), taken at ``rounds`` ms after the start of the minute."""
        job = self.job(index)
        for at_ms in rounds:
            sampled_at_ms = (FIRST_MINUTE + minute) * MINUTE_MS + at_ms
            passed_ms = minute * MINUTE_MS + at_ms
            for task, load in enumerate(self._load(index)):
                for subtask in range(self.subtasks):
                    yield _sample(job, task, subtask, self.subtasks, sampled_at_ms, passed_ms, load)

    def marker(self, index: int, minute: int) -> MinuteMarker:
        """Return the marker of a job's minute n (from 0)."""
        end_ms = (FIRST_MINUTE + minute + 1) * MINUTE_MS
        return MinuteMarker(job=self.job(index), minute_end_ms=end_ms, topology=self.topology(index))

    def _load(self, index: int) -> tuple[int, ...]:
        """Return records per second of one subtask, by task."""
        if index not in self._loads:
            generator = random.Random(f"{self.seed}/{index}")
            self._loads[index] = tuple(generator.randrange(50, 500) for _ in range(self.tasks))
        return self._loads[index]


def _sample(job: str, task: int, subtask: int, parallelism: int, sampled_at_ms: int, passed_ms: int, load: int) -> TaskSample:
    records = load * passed_ms // 1000
    busy_ms = passed_ms * load // 600
    return TaskSample(
        job=job,
        task=f"task-{task:04d}",
        subtask=subtask,
        attempt=1,
        sampled_at_ms=sampled_at_ms,
        records_in=records,
        records_out=records,
        bytes_in=200 * records,
        bytes_out=180 * records,
        busy_ms=busy_ms,
        idle_ms=passed_ms - busy_ms,
        backpressured_ms=0,
        queued_records=(load * 7 + subtask + passed_ms // 15_000) % 40,
        parallelism=parallelism,
        state_bytes=4096 * load,
        queue_wait_record_ms=3 * records,
        latency_record_ms=5 * records,
    )
