"""Checks of the workloads that the actuator ``kubernetes`` is to scale: rights, they are there, and nobody else scales them."""

from collections.abc import Iterator, Mapping

from contracts.errors import SettingsError
from contracts.settings import RoadSettings
from engines.groups.chains import Chain, check_scaled_whole
from engines.kubernetes.client import KubernetesClient
from engines.kubernetes.connect import client_of
from engines.kubernetes.errors import ROLE, ApiAway, KubernetesProblem, NotAuthenticated, NotKubernetes
from engines.kubernetes.owners import other_owner
from engines.kubernetes.requirement import targets_of
from engines.kubernetes.rights import rights_for
from engines.kubernetes.target import Target
from services.doctor.findings import Finding

_SUBJECT = "kubernetes"
_REMEDY = "docs/kubernetes.md says what is needed"


def workloads(settings: RoadSettings, chains: Mapping[str, Chain]) -> Iterator[Finding]:
    """Check every workload that the groups file names, with the account of whoever asks."""
    try:
        check_scaled_whole(chains, "kubernetes")
        client = client_of(settings)
    except SettingsError as error:
        yield Finding("problem", _SUBJECT, str(error), _REMEDY)
        return
    try:
        for chain in chains.values():
            for task, target in targets_of(chain).items():
                yield _workload(client, f"{chain.name}/{task}", target)
    except (ApiAway, NotAuthenticated, NotKubernetes) as problem:  # the next one would say the same
        yield Finding("problem", _SUBJECT, str(problem), _REMEDY)
    finally:
        client.close()


def _workload(client: KubernetesClient, task: str, target: Target) -> Finding:
    try:
        missing = [str(right) for right in rights_for(target) if not client.may(right)]
        if missing:
            detail = f"{task}: {target}: the account that asks may not {', '.join(missing)}"
            return Finding(
                "problem", _SUBJECT, detail, f"give the rescaler's account these rights ({ROLE}), and run this with it"
            )
        scale, workload = client.scale(target), client.workload(target)
        owner = other_owner(target, workload, client.autoscalers(target.namespace), client.scaled_objects(target.namespace))
    except (ApiAway, NotAuthenticated, NotKubernetes):
        raise
    except KubernetesProblem as problem:
        return Finding("problem", _SUBJECT, f"{task}: {problem}", _REMEDY)
    if owner is not None:
        return Finding("problem", _SUBJECT, f"{task}: {target}: {owner}", "until then no act on its job is carried out")
    return Finding("ok", _SUBJECT, f"{task}: {target}, {scale.spec.replicas} pods wanted; all rights are there")
