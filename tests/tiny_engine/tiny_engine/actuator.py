"""Commands become the ``required`` of a job's file. Whatever runs the jobs reads it there."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import RescheduleCommand
from surescale.engines.ports.actuator import (
    EPOCH_CHANGED,
    REQUIREMENT_CHANGED,
    UNKNOWN_JOB,
    Accepted,
    EngineRefused,
    EngineUnavailable,
    JobStatus,
)
from surescale.engines.ports.requirement import covers
from surescale.engines.settings import ClusterSettings
from tiny_engine.jobs import Away, Job, Jobs

CAN = Capabilities(engine="tiny", acts="counts", takes_part="as many as fit", remembers="requirement", can_withdraw=True)


class TinyActuator:
    """``EngineApi`` on the folder."""

    def __init__(self, settings: ClusterSettings, timeout_s: float) -> None:
        """``timeout_s``: no call takes long here."""
        self._jobs = Jobs.of(settings)

    def capabilities(self) -> Capabilities:
        """Return what the engine can do."""
        return CAN

    def request(self, command: RescheduleCommand) -> Accepted:
        """Require what the command asks for, unless the job is no longer as it was decided on."""
        with _answers():
            job, expected = self._job(command.job), command.expected
            if expected is not None and expected.epoch not in ("", str(job.submission)):
                raise EngineRefused(EPOCH_CHANGED, "the job was submitted again")
            if not covers(job.required, command.targets):
                if expected is not None and not covers(job.required, expected.required):
                    raise EngineRefused(REQUIREMENT_CHANGED, f"{job.required} is required now")
                self._jobs.write(command.job, job.requiring(command.targets))
        return Accepted()

    def look(self, job: str) -> JobStatus:
        """Return what is required and what runs."""
        with _answers():
            seen = self._job(job)
        running = {name: task.running for name, task in seen.tasks.items()}
        return JobStatus(
            epoch=str(seen.submission),
            requirement_id=seen.requirement_id,
            required=seen.required,
            running=running,
            waiting_for="" if covers(running, seen.required) else "slots",
        )

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Require ``put_back`` instead of what the command asked for."""
        with _answers():
            job = self._job(command.job)
            if covers(job.required, put_back):
                return
            if not covers(job.required, command.targets):
                raise EngineRefused(REQUIREMENT_CHANGED, f"{job.required} is required now")
            self._jobs.write(command.job, job.requiring(put_back))

    def _job(self, job: str) -> Job:
        found = self._jobs.read(job)
        if found is None:
            raise EngineRefused(UNKNOWN_JOB, f"there is no job {job!r}")
        return found


@contextmanager
def _answers() -> Iterator[None]:
    try:
        yield
    except Away as away:
        raise EngineUnavailable(str(away)) from None
