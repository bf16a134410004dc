"""Checks of the workloads that the actuator ``kubernetes`` is to scale: rights, they are there, and nobody else scales them."""

from collections.abc import Iterator, Mapping
from functools import partial

from contracts.settings import PipelineSettings
from engines.groups.chains import Chain, check_scaled_whole
from engines.kubernetes.client import KubernetesClient
from engines.kubernetes.errors import ROLE
from engines.kubernetes.owners import other_owner
from engines.kubernetes.requirement import targets_of
from engines.kubernetes.rights import rights_for
from engines.kubernetes.target import Target
from services.doctor.findings import Finding
from services.doctor.scaled_objects import ScaledObject, Seen, check_objects


def workloads(settings: PipelineSettings, chains: Mapping[str, Chain]) -> Iterator[Finding]:
    """Check every workload that the groups file names, with the caller's account."""
    return check_objects(settings, "kubernetes", ROLE, lambda: _listed(chains))


def _listed(chains: Mapping[str, Chain]) -> Iterator[ScaledObject]:
    check_scaled_whole(chains, "kubernetes")
    for chain in chains.values():
        for task, target in targets_of(chain).items():
            yield ScaledObject(f"{chain.name}/{task}", target, rights_for(target), partial(_look, target))


def _look(target: Target, client: KubernetesClient) -> Seen:
    scale, workload = client.scale(target), client.workload(target)
    owner = other_owner(target, workload, client.autoscalers(target.namespace), client.scaled_objects(target.namespace))
    return Seen(owner, f"{scale.spec.replicas} pods wanted")
