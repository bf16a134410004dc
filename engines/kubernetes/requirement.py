"""What the cluster is asked for of a whole job: the scales of all its tasks, with one name."""

from collections.abc import Mapping
from dataclasses import dataclass

from surescale.engines.groups.chains import SETTING, Chain, chains_of
from surescale.engines.kubernetes import KUBERNETES, KubernetesSettings
from surescale.engines.kubernetes.answers import Scale
from surescale.engines.kubernetes.client import KubernetesClient, client_of
from surescale.engines.kubernetes.errors import NotFound
from surescale.engines.kubernetes.target import Target
from surescale.engines.ports.requirement import Requirements, digest
from surescale.engines.ports.source import HELD, SourceUnavailable
from surescale.engines.settings import SourceSettings


@dataclass(frozen=True, slots=True)
class Requirement:
    """The scales of a job's tasks. The epoch changes when one of the objects is deleted and created again, not by an update."""

    scales: Mapping[str, Scale]

    @property
    def epoch(self) -> str:
        """Return the name of the objects' lives."""
        return digest(f"{task} {scale.metadata.uid}" for task, scale in self.scales.items())

    @property
    def id(self) -> str:
        """Return the name of the numbers; equal ones have the same."""
        return digest(f"{task} {scale.metadata.uid}={scale.spec.replicas}" for task, scale in self.scales.items())

    @property
    def counts(self) -> dict[str, int]:
        """Return how many pods are wanted, by task."""
        return {task: scale.spec.replicas for task, scale in self.scales.items()}


def targets_of(chain: Chain) -> dict[str, Target]:
    """Return what the tasks of a job are scaled by; nothing for a job that is only watched."""
    return {task: group.kubernetes for task, group in chain.groups.items() if group.kubernetes is not None}


def requirement_of(client: KubernetesClient, chain: Chain) -> Requirement | None:
    """Return what is asked for of a job; None: it names nothing to scale.

    Raises:
        KubernetesError: it is unknown.
    """
    targets = targets_of(chain)
    return Requirement({task: client.scale(target) for task, target in targets.items()}) if targets else None


class RequiredPods(Requirements):
    """The workloads of the groups file."""

    def __init__(self, settings: SourceSettings) -> None:
        super().__init__(KUBERNETES)
        self._chains = chains_of(settings, "kubernetes")
        self._client = client_of(settings.part(KubernetesSettings))

    def look(self, job: str) -> Requirement | None:
        """Ask the API server."""
        try:
            return requirement_of(self._client, self._chains[job]) if job in self._chains else None
        except NotFound as problem:
            raise SourceUnavailable(f"{job}: {problem}; create it, or correct {SETTING}; {HELD}") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
