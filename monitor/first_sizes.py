"""The size that a job's author configured, where its engine does not say: what was asked for when a submission was first seen.

Nobody has scaled it by then. A new submission begins at its author's size, unless whoever submits it asks for the size that ran
before, as Flink's operator does with overrides: then the author's size is still that of the submission before.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from surescale.contracts.messages import JobTopology
from surescale.contracts.topology import required_of


class FirstSizes:
    """The author's sizes of one job."""

    def __init__(self, known: JobTopology | None = None) -> None:
        """``known``: what was last said of the job, with the sizes; None: nothing."""
        self._epoch = ""
        self._sizes: dict[str, int] = {}
        self._asked: Mapping[str, int] = {}
        if known is not None:
            self._epoch, self._asked = known.epoch, required_of(known)
            self._sizes = {
                spec.task: spec.configured_parallelism for spec in known.tasks if spec.configured_parallelism is not None
            }

    def noted(self, topology: JobTopology) -> JobTopology:
        """Return a topology with the author's size of each task that may change, as far as it is known."""
        asked = required_of(topology)
        if topology.state == "running":
            if topology.epoch != self._epoch and asked != self._asked:
                self._sizes = {}
            self._epoch, self._asked = topology.epoch, asked
            self._sizes = {task: self._sizes.get(task, size) for task, size in asked.items() if self._sizes.get(task, size)}
        tasks = tuple(
            spec
            if spec.configured_parallelism is not None or spec.task not in self._sizes
            else replace(spec, configured_parallelism=self._sizes[spec.task])
            for spec in topology.tasks
        )
        return replace(topology, tasks=tasks)
