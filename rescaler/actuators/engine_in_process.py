"""The simulated engine in this process, as an actuator sees it: the same answers as over HTTP, without a socket."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from contracts.capabilities import SIMULATED, Capabilities
from contracts.commands import RescheduleCommand
from rescaler.actuators.base import CANNOT_WITHDRAW, Accepted, EngineRefused, JobStatus, Rescale
from simulation.engine import rescales
from simulation.engine.cluster import SimulatedCluster
from simulation.engine.refusals import EngineRefusal

ResultType = TypeVar("ResultType")


@dataclass(frozen=True, slots=True)
class EngineInProcess:
    """``EngineApi`` on a simulated cluster. It is never away."""

    cluster: SimulatedCluster

    def capabilities(self) -> Capabilities:
        """Return what the simulated engine can do."""
        return SIMULATED

    def request(self, command: RescheduleCommand) -> Accepted:
        """Ask the cluster to carry a command out; asking again gets the same answer."""
        rescale = _call(lambda: self.cluster.apply(command, self.cluster.now_ms))
        return Accepted(rescale.effective_at_ms, rescale.done_at_ms)

    def look(self, job: str) -> JobStatus:
        """Return how far the cluster is with a job."""
        running = _call(lambda: self.cluster.job(job))
        last = running.rescale_at(self.cluster.now_ms)
        parallelism = {spec.task: spec.parallelism for spec in running.topology.tasks}
        return JobStatus(
            generation=running.topology.generation,
            rescale=None if last is None else _rescale(last),
            required={spec.task: spec.parallelism for spec in running.wanted_tasks},
            running=parallelism,
            state=running.state_at(self.cluster.now_ms),
        )

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Refuse: a command takes effect within a minute.

        Raises:
            EngineRefused: always.
        """
        raise EngineRefused(CANNOT_WITHDRAW, "the simulated engine carries out what it has accepted")


def _rescale(last: rescales.Rescale) -> Rescale:
    return Rescale(
        command_id=last.command_id,
        state=last.state,
        effective_at_ms=last.effective_at_ms,
        done_at_ms=last.done_at_ms,
        code=last.code,
        learners=last.learners,
        lag_bytes=last.lag_bytes,
        units=last.units,
    )


def _call(call: Callable[[], ResultType]) -> ResultType:
    """Return what the cluster answers; its refusals become the port's.

    Raises:
        EngineRefused: the cluster refused.
    """
    try:
        return call()
    except EngineRefusal as refusal:
        raise EngineRefused(refusal.code, refusal.message) from None
