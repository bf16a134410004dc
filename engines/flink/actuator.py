"""Flink as an actuator sees it: parallelism is asked for through its REST API, and Flink places the subtasks itself.

A command changes the whole map of requirements, so it is read and compared right before it is written: what somebody else has
changed since the decision is left alone. Flink (from 2.0 on) rescales at the next checkpoint; one is requested, so that nobody
waits for the interval. What Flink is asked for and what it runs is all there is to know, so another process can go on at any
point.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import Expected, RescheduleCommand
from surescale.contracts.messages import JobState, TaskSpec
from surescale.contracts.topology import slots_needed
from surescale.engines.flink.answers import JobDetail, Overview, Requirements
from surescale.engines.flink.capabilities import capabilities_of, is_reactive
from surescale.engines.flink.client import FlinkClient
from surescale.engines.flink.directory import JobDirectory
from surescale.engines.flink.errors import FlinkError, FlinkRefused, NoSuchPath, NotAdaptive, NotFound
from surescale.engines.flink.graph import runs, state_of, tasks_of
from surescale.engines.flink.identity import Identity
from surescale.engines.flink.requirements import (
    NOT_ADAPTIVE,
    Cluster,
    Refusal,
    differences,
    merged,
    refusal,
    refusal_of_cluster,
    refusal_of_job,
    refusal_of_upgrade,
    requirement_id,
    wanted,
)
from surescale.engines.flink.rescales import interruption_of, last_interruption
from surescale.engines.ports.actuator import (
    EPOCH_CHANGED,
    REQUIREMENT_CHANGED,
    UNKNOWN_JOB,
    Accepted,
    EngineRefused,
    EngineUnavailable,
    JobStatus,
    Pause,
    WaitingFor,
)
from surescale.engines.ports.requirement import covers, in_words
from surescale.engines.settings import ClusterSettings
from surescale.runtime.kafka_clock import wall_ms

AMBIGUOUS_NAME = "AMBIGUOUS_NAME"
"""Several jobs of the cluster have the name."""
FLINK_REFUSED = "FLINK_REFUSED"
"""Flink itself refused, for a reason that was not known beforehand."""
CONFIGURATION_MS = 60_000
"""How long the cluster's configuration is believed."""
CHECKPOINT_DELAY_S = 0.2
"""From the requirements to the requested checkpoint: Flink has the slots by then, and rescales as the checkpoint completes."""
CHECKPOINT_EVERY_MS = 5_000
"""Least time between two requested checkpoints of a job."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Remembered:
    """What is kept of a live job. Nothing is lost without it but some speed, and the last figures of a job that does not run.

    Attributes:
        running: parallelism that last ran.
        targets: what we asked for and Flink does not run yet; empty if there is nothing.
        checkpoint_at_ms: when the last checkpoint for it was requested.
    """

    running: Mapping[str, int] = field(default_factory=dict)
    targets: Mapping[str, int] = field(default_factory=dict)
    checkpoint_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class _Known:
    """What of the cluster is believed for a while."""

    at_ms: int
    overview: Overview
    configuration: Mapping[str, str]


@dataclass(slots=True)
class FlinkEngine:
    """``EngineApi`` on one Flink cluster. Keeps nothing that is needed after a restart.

    Attributes:
        client: of the cluster's REST API.
        cluster: its name in the settings, the part before the slash of a job's id.
        now_ms: wall time.
        sleep: waits for so many seconds.
    """

    client: FlinkClient
    cluster: str
    now_ms: Callable[[], int] = wall_ms
    sleep: Callable[[float], object] = time.sleep
    _known: _Known | None = None
    _jobs: dict[str, _Remembered] = field(default_factory=dict)
    """By Flink's job id."""
    _directory: JobDirectory = field(init=False)

    def __post_init__(self) -> None:
        """Make the directory of jobs."""
        self._directory = JobDirectory(self.client, self.cluster)

    @classmethod
    def of(cls, settings: ClusterSettings, timeout_s: float) -> Self:
        """Return the one of a role's settings.

        Raises:
            SettingsError: a certificate cannot be used.
        """
        return cls(FlinkClient(settings.engine_url, settings.access, timeout_s=timeout_s), settings.cluster)

    # The port

    def capabilities(self) -> Capabilities:
        """Return what the cluster can do."""
        with _answers_of_the_port():
            known = self._cluster()
        return capabilities_of(known.overview, known.configuration)

    def request(self, command: RescheduleCommand) -> Accepted:
        """Ask for the command's parallelism, and for a checkpoint so that it takes effect soon."""
        with _answers_of_the_port():
            job = self._addressed(command)
            targets = command.targets
            detail = self.client.job(job.flink_job)
            required = self._required(job, detail)
            if not covers(wanted(required), targets):
                self._check_unchanged(required, command.expected or Expected())
                _raise(refusal_of_cluster(self._cluster().configuration))
                self._check(job, detail, required, command)
                self._write(job, required, targets)
            if not covers(_shown(detail), targets):
                self._hurry(job.flink_job, targets)
        return Accepted()

    def look(self, job: str) -> JobStatus:
        """Return what is required and what runs. Flink is hurried if it only waits for a checkpoint to run what we asked for."""
        with _answers_of_the_port():
            return self._status(self._live_job(job))

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Ask for something else, if the command is what is required now."""
        with _answers_of_the_port():
            job = self._addressed(command)
            required = self.client.requirements(job.flink_job)
            self._jobs[job.flink_job].targets = {}
            if covers(wanted(required), put_back):
                return
            if not covers(wanted(required), command.targets):
                raise EngineRefused(REQUIREMENT_CHANGED, f"Flink is asked for {in_words(wanted(required))} now")
            self._write(job, required, put_back)

    # Asked through somebody else: the Flink operator

    def check(self, command: RescheduleCommand) -> None:
        """Refuse what `request` would refuse of the job and its tasks; nothing is changed.

        What Flink is asked for now is not compared: it follows what stands elsewhere.

        Raises:
            EngineRefused: with the reason.
            EngineUnavailable: no answer.
        """
        with _answers_of_the_port():
            job = self._addressed(command)
            detail = self.client.job(job.flink_job)
            self._check(job, detail, self._required(job, detail), command)

    def check_upgrade(self, command: RescheduleCommand, *, needs_checkpoint: bool) -> None:
        """Refuse what could not be upgraded with its state, or would come up otherwise; nothing is changed.

        ``needs_checkpoint``: it is restored from its last one, and no savepoint is taken.

        Raises:
            EngineRefused: with the reason.
            EngineUnavailable: no answer.
        """
        with _answers_of_the_port():
            job = self._addressed(command)
            detail = self.client.job(job.flink_job)
            config, checkpoints = self.client.checkpoint_config(job.flink_job), self.client.checkpoints(job.flink_job)
            _raise(refusal_of_upgrade(detail, config, checkpoints, needs_checkpoint=needs_checkpoint))
            _raise(refusal(command.targets, tasks_of(detail), Cluster(0, grows=True)))

    def shown(self, job: str) -> dict[str, int]:
        """Return the parallelism that Flink shows of a job's vertices; none while it does not answer, or has no such job."""
        try:
            with _answers_of_the_port():
                return _shown(self.client.job(self._live_job(job).flink_job))
        except (EngineRefused, EngineUnavailable):
            return {}

    def expect(self, job: str, targets: Mapping[str, int]) -> None:
        """Have looks request a checkpoint while Flink waits for one to run this; somebody else asks Flink for it.

        Raises:
            EngineRefused: there is no such job.
            EngineUnavailable: no answer.
        """
        with _answers_of_the_port():
            self._jobs[self._live_job(job).flink_job].targets = targets

    # Which job

    def _addressed(self, command: RescheduleCommand) -> Identity:
        """Return the job of a command, if it is the submission that the command was made for.

        Raises:
            EngineRefused: it is not, or there is none.
        """
        job = self._live_job(command.job)
        epoch = command.expected.epoch if command.expected is not None else ""
        if epoch and epoch != job.flink_job:
            raise EngineRefused(EPOCH_CHANGED, f"it was submitted again, as {job.flink_job}")
        return job

    def _live_job(self, job: str) -> Identity:
        """Return a live job.

        Raises:
            EngineRefused: there is none of this name, or several.
            EngineUnavailable: a job that starts may turn out to be it, as after another JobManager has taken over.
        """
        live = self._directory.live()
        self._jobs = {flink_job: self._jobs.get(flink_job, _Remembered()) for flink_job in live}
        found = next((each for each in live.values() if each.job == job), None)
        if found is not None:
            return found
        same_name = next((each for each in live.values() if each.ambiguous and each.job.startswith(f"{job}~")), None)
        if same_name is not None:
            raise EngineRefused(AMBIGUOUS_NAME, same_name.ambiguous)
        if self._directory.is_settling:
            raise EngineUnavailable(f"Flink runs no job {job!r}, and does not tell the labels of a job that starts yet")
        raise EngineRefused(UNKNOWN_JOB, f"Flink runs no job {job!r}")

    # Checked, then written

    def _check(self, job: Identity, detail: JobDetail, required: Requirements, command: RescheduleCommand) -> None:
        self._check_job(job, detail)
        _raise(refusal(command.targets, tasks_of(detail, required), self._room()))

    def _check_job(self, job: Identity, detail: JobDetail) -> None:
        if job.ambiguous:
            raise EngineRefused(AMBIGUOUS_NAME, job.ambiguous)
        config, checkpoints = self.client.checkpoint_config(job.flink_job), self.client.checkpoints(job.flink_job)
        _raise(refusal_of_job(detail, config, checkpoints, is_reactive(self._cluster().configuration)))

    def _required(self, job: Identity, detail: JobDetail) -> Requirements:
        """Return what Flink is asked for.

        Raises:
            EngineRefused: it cannot be asked for anything; names the best reason.
        """
        try:
            return self.client.requirements(job.flink_job)
        except NotAdaptive:
            self._check_job(job, detail)
            raise

    def _check_unchanged(self, required: Requirements, expected: Expected) -> None:
        now = wanted(required)
        changed = differences(expected.required, {task: now[task] for task in expected.required if task in now})
        if changed:
            said = ", ".join(f"{task}: {before} -> {after}" for task, (before, after) in changed.items())
            raise EngineRefused(REQUIREMENT_CHANGED, f"somebody else has changed what Flink is asked for: {said}")

    def _write(self, job: Identity, read: Requirements, targets: Mapping[str, int]) -> None:
        """Ask for a map, unless it has changed since it was read. Flink compares nothing, so we do, as late as possible."""
        if self.client.requirements(job.flink_job) != read:
            raise EngineRefused(REQUIREMENT_CHANGED, "somebody else is changing what Flink is asked for")
        self.client.require(job.flink_job, merged(read, targets))

    def _room(self) -> Cluster:
        return Cluster(self.client.overview().slots_available, grows=self.capabilities().grows_hosts)

    def _cluster(self) -> _Known:
        if self._known is None or self.now_ms() - self._known.at_ms > CONFIGURATION_MS:
            self._known = _Known(self.now_ms(), self.client.overview(), self.client.configuration())
        return self._known

    # What is seen

    def _status(self, job: Identity) -> JobStatus:
        detail = self.client.job(job.flink_job)
        required = self.client.requirements(job.flink_job)
        remembered = self._jobs[job.flink_job]
        tasks = tasks_of(detail, required, last=remembered.running)
        running = {task.task: task.parallelism for task in tasks}
        if runs(detail):
            remembered.running = running
        waiting_for = self._waiting_for(detail, tasks, wanted(required)) if runs(detail) else ""
        self._hurry_again(job.flink_job, running, waiting_for)
        return JobStatus(
            epoch=job.flink_job,
            requirement_id=requirement_id(required),
            required=wanted(required),
            running=running,
            state=_state(detail),
            waiting_for=waiting_for,
            pause=self._pause(detail) if running == wanted(required) and runs(detail) else None,
        )

    def _waiting_for(self, detail: JobDetail, tasks: tuple[TaskSpec, ...], required: Mapping[str, int]) -> WaitingFor:
        """Say what Flink waits for before it runs what is required."""
        if covers(_shown(detail), required):
            return ""
        room = self._room()
        if slots_needed(tasks, required) - slots_needed(tasks) > room.free_slots:
            return "slots"
        can = self.capabilities()
        if detail.now - detail.timestamps.get("RUNNING", 0) < (can.cooldown_ms or 0):
            return "cooldown"
        return "checkpoint" if can.takes_effect == "checkpoint" else ""

    def _pause(self, detail: JobDetail) -> Pause | None:
        """Return how long the last restart kept the job from processing, on our clock; None before the first."""
        newest = next(iter(self.client.rescales(detail.jid)), None)
        if newest is None:
            found = last_interruption(detail, self.client.checkpoints(detail.jid))
        else:
            described = self.client.rescale(detail.jid, newest.rescale_uuid)
            found = interruption_of(described) if described is not None else None
        if found is None:
            return None
        ahead_ms = self.now_ms() - detail.now
        return Pause(found.stopped_at_ms + ahead_ms, found.running_at_ms + ahead_ms)

    # Checkpoints on request

    def _hurry(self, flink_job: str, targets: Mapping[str, int]) -> None:
        """Request a checkpoint a moment after the requirement, as Flink rescales when one completes."""
        if self.capabilities().takes_effect != "checkpoint":
            return
        self.sleep(CHECKPOINT_DELAY_S)
        self._jobs[flink_job].targets = targets
        self._request_checkpoint(flink_job)

    def _hurry_again(self, flink_job: str, running: Mapping[str, int], waiting_for: WaitingFor) -> None:
        """Request another checkpoint where the first came too early, as during Flink's own cooldown."""
        remembered = self._jobs[flink_job]
        if covers(running, remembered.targets):
            remembered.targets = {}
        elif waiting_for == "checkpoint" and self.now_ms() - remembered.checkpoint_at_ms >= CHECKPOINT_EVERY_MS:
            self._request_checkpoint(flink_job)

    def _request_checkpoint(self, flink_job: str) -> None:
        self._jobs[flink_job].checkpoint_at_ms = self.now_ms()
        try:
            self.client.take_checkpoint(flink_job)
        except FlinkError as problem:  # it only takes longer without
            log.info("no checkpoint on request: %s", problem)


def _shown(detail: JobDetail) -> dict[str, int]:
    return {vertex.id: vertex.parallelism for vertex in detail.vertices}


def _state(detail: JobDetail) -> JobState:
    state = state_of(detail.state)
    return "restarting" if state == "running" and not runs(detail) else state


def _raise(found: Refusal | None) -> None:
    if found is not None:
        raise EngineRefused(found.code, found.sentence)


@contextmanager
def _answers_of_the_port() -> Iterator[None]:
    """Turn Flink's problems into the port's. What may pass by itself, or by a correction of the settings, is no refusal."""
    try:
        yield
    except NotAdaptive as problem:
        raise EngineRefused(NOT_ADAPTIVE, str(problem)) from None
    except FlinkRefused as problem:
        raise EngineRefused(FLINK_REFUSED, str(problem)) from None
    except NoSuchPath as problem:
        raise EngineUnavailable(str(problem)) from None
    except NotFound as problem:
        raise EngineRefused(UNKNOWN_JOB, str(problem)) from None
    except FlinkError as problem:
        raise EngineUnavailable(str(problem)) from None
