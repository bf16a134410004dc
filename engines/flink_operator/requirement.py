"""What a resource of the operator asks for, with its name and its epoch; asked of the API server."""

from collections.abc import Mapping
from dataclasses import dataclass

from engines.flink_operator.answers import FlinkResource
from engines.flink_operator.overrides import overrides_of
from engines.flink_operator.resource import OperatedJob
from engines.groups.requirement import digest
from engines.kubernetes.client import KubernetesClient


@dataclass(frozen=True, slots=True)
class Requirement:
    """The overrides of one job, by task. The epoch is Flink's id of the submission, as the operator last saw it."""

    resource: FlinkResource
    counts: Mapping[str, int]

    @property
    def epoch(self) -> str:
        """Return the name of the submission; empty while there is none."""
        return self.resource.job_id

    @property
    def id(self) -> str:
        """Return the name of what is asked for in this life of the resource."""
        return requirement_id(self.resource.metadata.uid, self.counts)


def requirement_id(uid: str, counts: Mapping[str, int]) -> str:
    """Return the name of a parallelism by task that one resource asks for."""
    return digest([uid, *(f"{task} {count}" for task, count in counts.items())])


def required_of(client: KubernetesClient, job: OperatedJob) -> Requirement:
    """Return what a job's resource asks for now.

    Raises:
        KubernetesError: it is unknown.
        OverridesUnreadable: it is no parallelism by vertex.
    """
    resource = client.read(job.target.path, FlinkResource)
    return Requirement(resource, counts_of(resource, job))


def counts_of(resource: FlinkResource, job: OperatedJob) -> dict[str, int]:
    """Return the overrides by task.

    Raises:
        OverridesUnreadable: they are no parallelism by vertex.
    """
    return {job.task_of(vertex): count for vertex, count in overrides_of(resource.spec.flink_configuration).items()}
