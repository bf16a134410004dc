"""A job of the Flink operator before its actuator, as the contract wants it; where the resource is kept is open."""

import abc
from collections.abc import Mapping

from surescale.engines.flink_operator.resource import API, DEPLOYMENTS, OperatedJob
from surescale.engines.kubernetes.target import Target
from tests.ports.requirement_contract import BEFORE, CLUSTER, JOB, RequirementRig
from tests.support.fake_jobmanager import FakeJobManager
from tests.support.fake_operator import KEY, FakeOperator

NAME = JOB.removeprefix(f"{CLUSTER}/")
VERTICES = {"parse": "cbc357ccb763df2852fee8c4fc7d55f2", "count": "6d2677a0ecc3fd8df0b72ec675edf8f4"}


def operated_job(
    namespace: str, vertices: Mapping[str, str] = VERTICES, resource: str = DEPLOYMENTS, *, upgrades: bool = False
) -> OperatedJob:
    """Return the job as the file names it."""
    return OperatedJob(Target(namespace, NAME, resource, API), vertices, upgrades)


class OperatedRig(RequirementRig):
    """With a JobManager that carries changes out, or by the operator's word alone."""

    operator: FakeOperator
    manager: FakeJobManager | None
    job: OperatedJob

    @abc.abstractmethod
    def write(self, configuration: Mapping[str, str]) -> None:
        """Change the resource's configuration as somebody else."""

    @property
    def before(self) -> dict[str, int]:
        """By vertex."""
        return {self.job.vertices[task]: count for task, count in BEFORE.items()}

    def require(self, parallelism: Mapping[str, int]) -> None:
        """As with ``kubectl edit``."""
        text = ",".join(f"{self.job.vertices[task]}:{count}" for task, count in parallelism.items())
        self.write({KEY: text})

    def submit_again(self) -> None:
        """As after a change of the image."""
        if self.manager is not None:
            self.operator.job = self.manager.submit(NAME, self.before)
        self.operator.submitted()

    def offer_slots(self, slots: int) -> None:
        """From now on; by then the operator has done what it was asked for."""
        self.operator.look()
        self.operator.slots = slots
        if self.manager is not None:
            self.manager.slots = slots
