"""What the cluster is asked for of a whole job: the scales of all its tasks, with one name."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from contracts.errors import SettingsError
from engines.groups.chains import Chain
from engines.kubernetes.answers import Scale
from engines.kubernetes.client import KubernetesClient
from engines.kubernetes.target import Target

_ID_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Requirement:
    """The scales of a job's tasks. The epoch changes when one of the objects is deleted and made anew, not when it is updated."""

    scales: Mapping[str, Scale]

    @property
    def epoch(self) -> str:
        """Return the name of the objects' lives."""
        return _digest({task: scale.metadata.uid for task, scale in self.scales.items()})

    @property
    def id(self) -> str:
        """Return the name of the numbers; equal ones have the same."""
        return _digest({task: f"{scale.metadata.uid}={scale.spec.replicas}" for task, scale in self.scales.items()})

    @property
    def counts(self) -> dict[str, int]:
        """Return how many pods are wanted, by task."""
        return {task: scale.spec.replicas for task, scale in self.scales.items()}


def targets_of(chain: Chain) -> dict[str, Target]:
    """Return what the tasks of a job are scaled by; nothing for a job that is only watched."""
    return {task: group.kubernetes for task, group in chain.groups.items() if group.kubernetes is not None}


def check_targets(chains: Mapping[str, Chain]) -> None:
    """Refuse a job of which only some tasks can be scaled: what is asked for is compared for the whole job.

    Raises:
        SettingsError: names the task.
    """
    for chain in chains.values():
        known = targets_of(chain)
        missing = [task for task in chain.groups if task not in known]
        if known and missing:
            raise SettingsError(
                f"SURESCALE_GROUPS_FILE: {chain.name}.groups.{missing[0]}.kubernetes: not set, though other groups of the job "
                "have it; set it, or make that group a job of its own"
            )


def requirement_of(client: KubernetesClient, chain: Chain) -> Requirement | None:
    """Return what is asked for of a job; None: it names nothing to scale.

    Raises:
        KubernetesProblem: it is unknown.
    """
    targets = targets_of(chain)
    return Requirement({task: client.scale(target) for task, target in targets.items()}) if targets else None


def _digest(named: Mapping[str, str]) -> str:
    text = "\n".join(f"{name} {value}" for name, value in sorted(named.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]
