"""Checks of the jobs that the Flink operator runs: rights, resources that are there, and nobody else's."""

from collections.abc import Iterator
from pathlib import Path

from contracts.errors import SettingsError
from contracts.settings import RoadSettings
from engines.flink_operator.answers import FlinkResource
from engines.flink_operator.overrides import OverridesUnreadable
from engines.flink_operator.owners import other_owner
from engines.flink_operator.requirement import required_of
from engines.flink_operator.resource import SESSION_JOBS, OperatedJob, read_operated_jobs
from engines.flink_operator.rights import rights_for
from engines.flink_operator.state import effective_configuration, refusal_of
from engines.kubernetes.client import KubernetesClient
from engines.kubernetes.connect import client_of
from engines.kubernetes.errors import ApiAway, KubernetesProblem, NotAuthenticated, NotKubernetes
from services.doctor.findings import Finding

_SUBJECT = "flink operator"
_REMEDY = "docs/kubernetes.md says what is needed"
_ROLE = "compose/kubernetes/scaling/flink-operator"


def operated_jobs(settings: RoadSettings) -> Iterator[Finding]:
    """Check every resource that the file names, with the account of whoever asks."""
    try:
        jobs = read_operated_jobs(Path(settings.flink_resources_file))
        client = client_of(settings)
    except SettingsError as error:
        yield Finding("problem", _SUBJECT, str(error), _REMEDY)
        return
    try:
        for name, job in jobs.items():
            yield _job(client, name, job)
    except (ApiAway, NotAuthenticated, NotKubernetes) as problem:  # the next one would say the same
        yield Finding("problem", _SUBJECT, str(problem), _REMEDY)
    finally:
        client.close()


def _job(client: KubernetesClient, name: str, job: OperatedJob) -> Finding:
    try:
        missing = [str(right) for right in rights_for(job.target) if not client.may(right)]
        if missing:
            detail = f"{name}: {job.target}: the account that asks may not {', '.join(missing)}"
            return Finding(
                "problem", _SUBJECT, detail, f"give the rescaler's account these rights ({_ROLE}), and run this with it"
            )
        required = required_of(client, job)
        resource, session = required.resource, None
        if job.target.resource == SESSION_JOBS:
            session = client.read(job.session(resource.spec.deployment_name or "").path, FlinkResource)
    except (ApiAway, NotAuthenticated, NotKubernetes):
        raise
    except (KubernetesProblem, OverridesUnreadable) as problem:
        return Finding("problem", _SUBJECT, f"{name}: {problem}", _REMEDY)
    why = other_owner(resource, effective_configuration(resource, session))
    refusal = refusal_of(resource, session)
    if why is not None or refusal is not None:
        why = why or (refusal.sentence if refusal is not None else "")
        return Finding("problem", _SUBJECT, f"{name}: {job.target}: {why}", "until then no act on its job is carried out")
    overrides = f"{len(required.counts)} vertices have overrides" if required.counts else "no overrides yet"
    return Finding("ok", _SUBJECT, f"{name}: {job.target}, {overrides}; all rights are there")
