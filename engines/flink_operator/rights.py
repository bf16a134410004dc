"""The rights that the overrides of a job take: as in the shipped role (`compose/kubernetes/scaling/flink-operator`)."""

from engines.flink_operator.resource import DEPLOYMENTS, SESSION_JOBS
from engines.kubernetes.rights import Right
from engines.kubernetes.target import Target


def rights_for(target: Target) -> tuple[Right, ...]:
    """Return what the rescaler's account needs. Of a job in a session cluster, that cluster's configuration is read too."""
    here, group, name = target.namespace, target.group, target.name
    own = (Right("get", group, target.resource, here, "", name), Right("patch", group, target.resource, here, "", name))
    return (*own, Right("get", group, DEPLOYMENTS, here)) if target.resource == SESSION_JOBS else own
