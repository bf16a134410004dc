"""What the engine is asked for of a whole job: the containers that it is to run, by task, with one name."""

from collections.abc import Mapping
from dataclasses import dataclass

from surescale.engines.compose import COMPOSE, ComposeSettings
from surescale.engines.compose.answers import SERVICE, Container
from surescale.engines.compose.client import ComposeClient
from surescale.engines.compose.target import Service
from surescale.engines.groups.chains import Chain, chains_of
from surescale.engines.ports.requirement import Requirements, digest
from surescale.engines.settings import SourceSettings


@dataclass(frozen=True, slots=True)
class Requirement:
    """The containers of a job's tasks, those that drain or were stopped among them.

    The epoch changes when the first container of a service is recreated, as ``docker compose up`` does after a change of the
    file. Other containers may come and go.
    """

    containers: Mapping[str, tuple[Container, ...]]

    def wanted(self, task: str) -> list[Container]:
        """Return the containers of a task that the engine is to run, by their numbers."""
        return [each for each in self.containers.get(task, ()) if each.is_wanted]

    @property
    def epoch(self) -> str:
        """Return the name of the submission."""
        return digest(f"{task} {next((each.id for each in self.wanted(task)), '')}" for task in self.containers)

    @property
    def id(self) -> str:
        """Return the name of the numbers; equal ones have the same."""
        return digest([self.epoch, *(f"{task} {count}" for task, count in self.counts.items())])

    @property
    def counts(self) -> dict[str, int]:
        """Return how many containers are wanted, by task."""
        return {task: len(self.wanted(task)) for task in self.containers}


def services_of(chain: Chain) -> dict[str, Service]:
    """Return what the tasks of a job are scaled by; nothing for a job that is only watched."""
    return {task: group.compose for task, group in chain.groups.items() if group.compose is not None}


def requirement_of(client: ComposeClient, chain: Chain) -> Requirement | None:
    """Return what is asked for of a job; None: it names nothing to scale.

    Raises:
        ComposeError: it is unknown.
    """
    services = services_of(chain)
    if not services:
        return None
    found = {project: client.containers(project) for project in {each.project for each in services.values()}}
    return Requirement(
        {
            task: tuple(
                sorted(
                    (each for each in found[service.project] if each.labels.get(SERVICE) == service.service),
                    key=lambda each: (each.number, each.id),
                )
            )
            for task, service in services.items()
        }
    )


class RequiredContainers(Requirements):
    """The services of the groups file."""

    def __init__(self, settings: SourceSettings) -> None:
        super().__init__(COMPOSE)
        self._chains = chains_of(settings, "compose")
        self._client = ComposeClient(settings.part(ComposeSettings).compose_url)

    def look(self, job: str) -> Requirement | None:
        """Ask the container engine."""
        return requirement_of(self._client, self._chains[job]) if job in self._chains else None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
