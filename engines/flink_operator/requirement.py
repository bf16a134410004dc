"""What a resource of the operator asks for, with its name and its epoch; asked of the API server."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from surescale.engines.flink_operator import OPERATED, UPGRADED, FlinkOperatorSettings
from surescale.engines.flink_operator.answers import FlinkResource
from surescale.engines.flink_operator.overrides import OverridesUnreadable, overrides_of
from surescale.engines.flink_operator.resource import SETTING, OperatedJob, check_no_vertices, check_vertices, read_operated_jobs
from surescale.engines.flink_operator.state import not_in_place
from surescale.engines.kubernetes import KubernetesSettings
from surescale.engines.kubernetes.client import KubernetesClient, client_of
from surescale.engines.kubernetes.errors import KubernetesError, NotFound
from surescale.engines.ports.requirement import Requirements, digest
from surescale.engines.ports.source import HELD, SourceUnavailable
from surescale.engines.settings import ClusterSettings, SourceSettings


@dataclass(frozen=True, slots=True)
class Requirement:
    """The overrides of one job, by task. The epoch is Flink's id of the submission, as the operator last saw it.

    ``upgrades``: the operator stops the job for a change and submits it again, under the same id.
    """

    resource: FlinkResource
    counts: Mapping[str, int]
    upgrades: bool = False

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
    return Requirement(resource, counts_of(resource, job), job.upgrades and not_in_place(resource) is not None)


def counts_of(resource: FlinkResource, job: OperatedJob) -> dict[str, int]:
    """Return the overrides by task.

    Raises:
        OverridesUnreadable: they are no parallelism by vertex.
    """
    return {job.task_of(vertex): count for vertex, count in overrides_of(resource.spec.flink_configuration).items()}


def jobs_of(settings: ClusterSettings) -> dict[str, OperatedJob]:
    """Return the jobs of the file that the settings name.

    Raises:
        SettingsError: it cannot be used, or gives vertices although Flink itself tells them.
    """
    jobs = read_operated_jobs(Path(settings.part(FlinkOperatorSettings).flink_resources_file))
    if not settings.chosen.sources[settings.source_kind].asks_actuator:
        check_no_vertices(jobs)
    return jobs


class Operated(Requirements):
    """The jobs of the file."""

    def __init__(self, settings: SourceSettings) -> None:
        self._jobs = jobs_of(settings)
        super().__init__(UPGRADED if self.upgrades else OPERATED)
        self._client = client_of(settings.part(KubernetesSettings))

    @property
    def upgrades(self) -> bool:
        """Return whether some job may be upgraded where it cannot be changed in place."""
        return any(job.upgrades for job in self._jobs.values())

    def check_tasks(self, job: str, tasks: Iterable[str]) -> None:
        """Refuse tasks without a vertex, and vertices without a task."""
        check_vertices(self._jobs, job, tasks)

    def look(self, job: str) -> Requirement | None:
        """Ask the API server for the resource of a job."""
        operated = self._jobs.get(job)
        if operated is None:
            return None
        try:
            return required_of(self._client, operated)
        except NotFound as problem:
            raise SourceUnavailable(f"{job}: {problem}; create it, or correct {SETTING}; {HELD}") from None
        except (KubernetesError, OverridesUnreadable) as problem:
            raise SourceUnavailable(f"{job}: {operated.target}: {problem}; {HELD}") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
