"""Checks of the workloads that the actuator ``kubernetes`` is to scale: rights, they are there, and nobody else scales them."""

from collections.abc import Iterator, Mapping
from functools import partial

from surescale.engines.groups.chains import Chain, chains_of
from surescale.engines.kubernetes.client import KubernetesClient, rights_for
from surescale.engines.kubernetes.errors import ROLE
from surescale.engines.kubernetes.owners import ScaledObject, Seen, check_objects, other_owner
from surescale.engines.kubernetes.requirement import targets_of
from surescale.engines.kubernetes.target import Target
from surescale.engines.ports.findings import Finding
from surescale.engines.settings import SourceSettings


def workloads(settings: SourceSettings) -> Iterator[Finding]:
    """Check every workload that the groups file names, with the caller's account."""
    return check_objects(settings, "kubernetes", ROLE, lambda: _listed(chains_of(settings, "kubernetes")))


def _listed(chains: Mapping[str, Chain]) -> Iterator[ScaledObject]:
    for chain in chains.values():
        for task, target in targets_of(chain).items():
            yield ScaledObject(f"{chain.name}/{task}", target, rights_for(target), partial(_look, target))


def _look(target: Target, client: KubernetesClient) -> Seen:
    scale, workload = client.scale(target), client.workload(target)
    owner = other_owner(target, workload, client.autoscalers(target.namespace), client.scaled_objects(target.namespace))
    return Seen(owner, f"{scale.spec.replicas} pods wanted")
