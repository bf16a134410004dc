"""Checks of the jobs that the Flink operator runs: rights, resources that are there, and nobody else's."""

from collections.abc import Iterator
from functools import partial

from surescale.engines.flink_operator.answers import FlinkResource
from surescale.engines.flink_operator.owners import other_owner
from surescale.engines.flink_operator.requirement import jobs_of, required_of
from surescale.engines.flink_operator.resource import DEPLOYMENTS, SESSION_JOBS, OperatedJob
from surescale.engines.flink_operator.state import effective_configuration, refusal_of
from surescale.engines.kubernetes.client import KubernetesClient, Right
from surescale.engines.kubernetes.owners import ScaledObject, Seen, check_objects
from surescale.engines.kubernetes.target import Target
from surescale.engines.ports.findings import Finding
from surescale.engines.settings import SourceSettings

_ROLE = "compose/kubernetes/scaling/flink-operator"


def operated_jobs(settings: SourceSettings) -> Iterator[Finding]:
    """Check every resource that the file names, with the caller's account."""
    return check_objects(settings, "flink operator", _ROLE, lambda: _listed(settings))


def _listed(settings: SourceSettings) -> Iterator[ScaledObject]:
    for name, job in jobs_of(settings).items():
        yield ScaledObject(name, job.target, rights_for(job.target), partial(_look, job))


def _look(job: OperatedJob, client: KubernetesClient) -> Seen:
    required = required_of(client, job)
    resource, session = required.resource, None
    if job.target.resource == SESSION_JOBS:
        session = client.read(job.session(resource.spec.deployment_name or "").path, FlinkResource)
    refusal = refusal_of(resource, session, upgrades=job.upgrades)
    why = other_owner(resource, effective_configuration(resource, session)) or (refusal.sentence if refusal is not None else None)
    known = f"{len(required.counts)} vertices have overrides" if required.counts else "no overrides yet"
    return Seen(why, f"{known}; each rescale is an upgrade, which stops the job" if required.upgrades else known)


def rights_for(target: Target) -> tuple[Right, ...]:
    """Return what the rescaler's account needs. Of a job in a session cluster, that cluster's configuration is read too."""
    here, group, name = target.namespace, target.group, target.name
    own = (Right("get", group, target.resource, here, "", name), Right("patch", group, target.resource, here, "", name))
    return (*own, Right("get", group, DEPLOYMENTS, here)) if target.resource == SESSION_JOBS else own
