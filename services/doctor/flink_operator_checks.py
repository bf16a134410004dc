"""Checks of the jobs that the Flink operator runs: rights, resources that are there, and nobody else's."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from contracts.settings import PipelineSettings
from engines.flink_operator.answers import FlinkResource
from engines.flink_operator.owners import other_owner
from engines.flink_operator.requirement import required_of
from engines.flink_operator.resource import SESSION_JOBS, OperatedJob, read_operated_jobs
from engines.flink_operator.rights import rights_for
from engines.flink_operator.state import effective_configuration, refusal_of
from engines.kubernetes.client import KubernetesClient
from services.doctor.findings import Finding
from services.doctor.scaled_objects import ScaledObject, Seen, check_objects

_ROLE = "compose/kubernetes/scaling/flink-operator"


def operated_jobs(settings: PipelineSettings) -> Iterator[Finding]:
    """Check every resource that the file names, with the caller's account."""
    return check_objects(settings, "flink operator", _ROLE, lambda: _listed(Path(settings.flink_resources_file)))


def _listed(file: Path) -> Iterator[ScaledObject]:
    for name, job in read_operated_jobs(file).items():
        yield ScaledObject(name, job.target, rights_for(job.target), partial(_look, job))


def _look(job: OperatedJob, client: KubernetesClient) -> Seen:
    required = required_of(client, job)
    resource, session = required.resource, None
    if job.target.resource == SESSION_JOBS:
        session = client.read(job.session(resource.spec.deployment_name or "").path, FlinkResource)
    refusal = refusal_of(resource, session)
    why = other_owner(resource, effective_configuration(resource, session)) or (refusal.sentence if refusal is not None else None)
    return Seen(why, f"{len(required.counts)} vertices have overrides" if required.counts else "no overrides yet")
