"""Watches one Flink job from outside. Its parallelism is what Flink's REST API says."""

from collections import Counter
from collections.abc import Mapping

from services.local_stack.comparison.watch import Figures, Watch, number_of, read_to_end
from services.local_stack.flink.cluster import FlinkCluster


class ArmFigures(Figures, frozen=True, kw_only=True):
    """How one job did.

    Attributes:
        subtask_minutes: subtasks of all vertices, summed over the time.
        state_wrong: keys whose count does not go up by one from one.
    """

    subtask_minutes: float
    rescales: int
    state_wrong: int


class FlinkWatch(Watch):
    """One job."""

    late_s = 60.0

    def __init__(self, cluster: FlinkCluster, job_id: str, bootstrap: str, topic_in: str, topic_out: str) -> None:
        super().__init__(bootstrap, topic_in, topic_out)
        self._cluster, self._job_id = cluster, job_id

    def figures(self) -> ArmFigures:
        """Read the committed output of a job that has stopped from its beginning, and return the figures."""
        times: Counter[int] = Counter()
        counts: dict[str, Counter[int]] = {}
        for record in read_to_end(self._bootstrap, self._topic_out):
            key, number, count = (record.value() or b"").decode().split(",")
            times[int(number)] += 1
            counts.setdefault(key, Counter())[int(count)] += 1
        return ArmFigures(
            **self._figures(times, self._waiting(times)),
            subtask_minutes=self.size_minutes,
            rescales=max(0, len(self._steps) - 1),
            state_wrong=sum(set(seen) != set(range(1, len(seen) + 1)) or seen.total() != len(seen) for seen in counts.values()),
        )

    def _waiting(self, came_out: Counter[int]) -> int:
        """Return how many records lie after the last of their partition that came out; a source reads a partition in order."""
        waiting: dict[int, int] = {}
        for record in read_to_end(self._bootstrap, self._topic_in):
            partition = record.partition() or 0
            waiting[partition] = 0 if number_of(record) in came_out else waiting.get(partition, 0) + 1
        return sum(waiting.values())

    def _sizes_now(self) -> Mapping[str, int]:
        """Return the running parallelism; nothing while vertices restart, for their slots are kept."""
        try:
            return self._cluster.parallelism(self._job_id)
        except OSError:
            return {}
