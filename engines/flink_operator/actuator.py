"""Jobs that the Flink operator runs, as an actuator sees them: a FlinkDeployment or FlinkSessionJob asks for parallelism.

One object holds what is asked for. It is read, compared and written with the resource version that was read, so a change in
between is never lost; the operator carries it out in place and says so in the object's status. Where Flink's own figures are the
source, Flink is asked what runs; elsewhere the operator's word counts, which it gives after it has compared every vertex.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

import msgspec

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import RescheduleCommand
from surescale.engines.flink.actuator import FlinkEngine
from surescale.engines.flink_operator import OPERATED, UPGRADED
from surescale.engines.flink_operator.answers import FlinkResource
from surescale.engines.flink_operator.overrides import OverridesUnreadable, change_to
from surescale.engines.flink_operator.owners import other_owner
from surescale.engines.flink_operator.requirement import Requirement, jobs_of, required_of, requirement_id
from surescale.engines.flink_operator.resource import SESSION_JOBS, SETTING, OperatedJob
from surescale.engines.flink_operator.state import effective_configuration, has_failed, hindrance_of, refusal_of, running_of, runs
from surescale.engines.groups.actuator import UNKNOWN_TASK
from surescale.engines.kubernetes import KubernetesSettings
from surescale.engines.kubernetes.actuator import OTHER_OWNER, TARGET_GONE, WRITES_MAX, answers_of_the_port
from surescale.engines.kubernetes.client import KubernetesClient, client_of
from surescale.engines.kubernetes.errors import Conflict
from surescale.engines.ports.actuator import (
    EPOCH_CHANGED,
    REQUIREMENT_CHANGED,
    UNKNOWN_JOB,
    Accepted,
    EngineRefused,
    EngineUnavailable,
    JobStatus,
)
from surescale.engines.ports.requirement import covers, in_words
from surescale.engines.settings import ClusterSettings

OPERATOR_MS = 15_000
"""How long the operator may take before it passes a change on to Flink."""
OVERRIDES_UNREADABLE = "OVERRIDES_UNREADABLE"
"""What the resource asks for is no parallelism by vertex."""


@dataclass(frozen=True, slots=True)
class FlinkOperatorEngine:
    """``EngineApi`` on the jobs that an operator runs. Keeps nothing that is needed after a restart.

    Attributes:
        client: of the API server.
        jobs: by name.
        cluster: its name in the settings, the part before the slash of a job's id.
        flink: Flink itself, where its REST API gives the figures; None elsewhere.
    """

    client: KubernetesClient
    jobs: Mapping[str, OperatedJob]
    cluster: str
    flink: FlinkEngine | None = None

    @classmethod
    def of(cls, settings: ClusterSettings, timeout_s: float) -> Self:
        """Return the one of a role's settings.

        Raises:
            SettingsError: the file, a certificate or the API server's address cannot be used.
        """
        flink = None if settings.chosen.sources[settings.source_kind].asks_actuator else FlinkEngine.of(settings, timeout_s)
        return cls(client_of(settings.part(KubernetesSettings), timeout_s=timeout_s), jobs_of(settings), settings.cluster, flink)

    # The port

    def capabilities(self) -> Capabilities:
        """Return what the cluster can do."""
        upgrades = any(job.upgrades for job in self.jobs.values())
        if self.flink is None:
            return UPGRADED if upgrades else OPERATED
        can = self.flink.capabilities()
        if upgrades and can.acts == "none":
            return msgspec.structs.replace(UPGRADED, version=can.version)
        return msgspec.structs.replace(can, stabilization_ms=(can.stabilization_ms or 0) + OPERATOR_MS)

    def request(self, command: RescheduleCommand) -> Accepted:
        """Ask for the command's parallelism, if nobody has asked for another one since the decision."""
        with _answers():
            self._until_written(lambda: self._request(command), command)
        return Accepted()

    def look(self, job: str) -> JobStatus:
        """Return what is asked for, and what runs."""
        with _answers(is_look=True):
            operated = self._job(job)
            required = required_of(self.client, operated)
            hindrance = hindrance_of(required.resource, operated.target)
            if self.flink is None or required.upgrades:
                return self._by_the_operator(job, required, operated, hindrance)
        seen = self.flink.look(job)
        counts = {**seen.required, **required.counts}
        named = requirement_id(required.resource.metadata.uid, counts)
        return replace(seen, required=counts, requirement_id=named, hindrance=hindrance)

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Ask for something else, if the command is what is asked for now."""
        with _answers():
            self._until_written(lambda: self._withdraw(command, put_back), command)

    # Read, compared, written

    def _request(self, command: RescheduleCommand) -> None:
        job, required = self._addressed(command)
        before = dict(command.expected.required) if command.expected is not None else {}
        if covers(required.counts, command.targets):
            self._expect(command.job, command.targets, required)
            return
        foreign = {task: count for task, count in required.counts.items() if count != before.get(task, count)}
        if foreign:
            raise EngineRefused(REQUIREMENT_CHANGED, f"somebody else asked for {in_words(foreign)}")
        self._check(job, required.resource)
        if self.flink is not None and required.upgrades:
            mode = required.resource.spec.job.upgrade_mode if required.resource.spec.job is not None else None
            self.flink.check_upgrade(command, needs_checkpoint=mode != "savepoint")
        elif self.flink is not None:
            self.flink.check(command)
        # All tasks are written: what is asked for of a vertex without an override is not known from the resource.
        self._write(job, required.resource, {**before, **command.targets})
        self._expect(command.job, command.targets, required)

    def _withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        job, required = self._addressed(command)
        if covers(required.counts, put_back):
            return
        if not covers(required.counts, command.targets):
            raise EngineRefused(REQUIREMENT_CHANGED, f"somebody else asked for {in_words(required.counts)}")
        self._write(job, required.resource, put_back)
        self._expect(command.job, put_back, required)

    def _expect(self, job: str, targets: Mapping[str, int], required: Requirement) -> None:
        """Have checkpoints requested while Flink only waits for one, as the actuator `flink` does; an upgrade waits for none."""
        if self.flink is not None and not required.upgrades:
            self.flink.expect(job, targets)

    def _until_written(self, step: Callable[[], None], command: RescheduleCommand) -> None:
        """Read again and compare again as often as the object changes meanwhile: its status does so every few seconds."""
        for _ in range(WRITES_MAX):
            try:
                step()
            except Conflict:
                continue
            return
        raise EngineUnavailable(f"the resource of {command.job} changes faster than it can be written; it is tried again")

    def _write(self, job: OperatedJob, read: FlinkResource, counts: Mapping[str, int]) -> None:
        vertices = {_vertex(job, task): count for task, count in counts.items()}
        change = {"spec": {"flinkConfiguration": change_to(read.spec.flink_configuration, vertices)}}
        self.client.patch(job.target.path, change, read.metadata.resource_version, FlinkResource)

    def _check(self, job: OperatedJob, resource: FlinkResource) -> None:
        """Refuse what is somebody else's, and what the operator would not carry out in place."""
        session = self._session(job, resource)
        owner = other_owner(resource, effective_configuration(resource, session))
        if owner is not None:
            raise EngineRefused(OTHER_OWNER, f"{job.target}: {owner}")
        refusal = refusal_of(resource, session, upgrades=job.upgrades)
        if refusal is not None:
            raise EngineRefused(refusal.code, f"{job.target}: {refusal.sentence}")

    def _session(self, job: OperatedJob, resource: FlinkResource) -> FlinkResource | None:
        if job.target.resource != SESSION_JOBS:
            return None
        return self.client.read(job.session(resource.spec.deployment_name or "").path, FlinkResource)

    def _by_the_operator(self, name: str, required: Requirement, job: OperatedJob, hindrance: str) -> JobStatus:
        """Return what the operator says, and of vertices without an override what Flink shows, if it answers."""
        resource = required.resource
        shown = self.flink.shown(name) if self.flink is not None else {}
        running = {job.task_of(vertex): count for vertex, count in running_of(resource).items()}
        is_known = runs(resource) and required.counts.keys() <= running.keys()
        counts = {**shown, **required.counts}
        return JobStatus(
            epoch=required.epoch,
            requirement_id=requirement_id(resource.metadata.uid, counts),
            required=counts,
            running={**shown, **running},
            state="failed" if has_failed(resource) else "running" if is_known else "restarting",
            hindrance=hindrance,
        )

    # Which job

    def _job(self, job: str) -> OperatedJob:
        cluster, _, name = job.partition("/")
        found = self.jobs.get(name)
        if found is None or cluster != self.cluster:
            raise EngineRefused(UNKNOWN_JOB, f"{SETTING} names no resource for {name!r}; add it, or let its mode be advise")
        return found

    def _addressed(self, command: RescheduleCommand) -> tuple[OperatedJob, Requirement]:
        """Return the job of a command with what is asked for, if it is the submission that the command was made for."""
        job = self._job(command.job)
        for task in command.targets:
            _vertex(job, task)
        required = required_of(self.client, job)
        if required.resource.metadata.deletion_timestamp is not None:
            raise EngineRefused(TARGET_GONE, f"{job.target} is being deleted; create it again, or correct {SETTING}")
        epoch = command.expected.epoch if command.expected is not None else ""
        if epoch and required.epoch and epoch != required.epoch:
            raise EngineRefused(EPOCH_CHANGED, f"it was submitted again, as {required.epoch}")
        return job, required


def _vertex(job: OperatedJob, task: str) -> str:
    vertex = job.vertex_of(task)
    if vertex is None:
        raise EngineRefused(UNKNOWN_TASK, f"{task}: {SETTING} does not say its vertex id; add it to vertices")
    return vertex


@contextmanager
def _answers(*, is_look: bool = False) -> Iterator[None]:
    try:
        with answers_of_the_port(SETTING, is_look=is_look):
            yield
    except OverridesUnreadable as problem:
        raise EngineRefused(OVERRIDES_UNREADABLE, str(problem)) from None
