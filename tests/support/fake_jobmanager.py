"""A fake JobManager: Flink's REST API as far as it is used, over a real socket, on a clock that the test moves.

It behaves as the adaptive scheduler was seen to behave: a changed requirement takes effect at the next completed checkpoint,
after the cooldown; with too few slots after the stabilization, as far as slots reach; more slots are used as they come. What goes
wrong is set by the test.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tests.support.stub_server import StubRequest, StubResponse, StubServer, answering

CHECKPOINT_TAKES_MS = 1_000
RESTART_TAKES_MS = 600
CREATING_TAKES_MS = 300
STABILIZATION_MS = 60_000
KEY_GROUPS = 64
NEVER_MS = 2**63 - 1
NOT_SUPPORTED = "java.lang.UnsupportedOperationException: The DefaultScheduler does not support changing the parallelism."
INITIALIZING = "org.apache.flink.runtime.dispatcher.UnavailableDispatcherOperationException: Unable to get JobMasterGateway."
Document = Any


@dataclass(slots=True)
class FakeJob:
    """One submission. All its vertices share slots, so it takes as many as its widest vertex."""

    jid: str
    name: str
    required: dict[str, int]
    running: dict[str, int]
    created_at_ms: int
    labels: dict[str, str] = field(default_factory=dict)
    state: str = "RUNNING"
    forward: tuple[tuple[str, str], ...] = ()
    """Forward edges, from and to; the others are hash edges, in the order of the vertices."""
    checkpoint_interval_ms: int = 10_000
    checkpoint_done_at_ms: int | None = None
    """When the checkpoint that was requested completes."""
    changed_at_ms: int = 0
    rescaled_at_ms: int = -(10**9)
    restart_until_ms: int | None = None
    requirement: int = 1
    rescales: list[dict[str, Document]] = field(default_factory=list)
    job_type: str = "STREAMING"
    has_checkpoint: bool = True
    later_checkpoints: list[dict[str, Document]] = field(default_factory=list)


@dataclass(slots=True)
class FakeJobManager:
    """One cluster.

    Attributes:
        now_ms: the clock.
        slots: of the cluster, all of them for one job.
        version: of Flink; from 2.3 on it remembers rescales.
        configuration: as ``/jobmanager/config`` shows it.
        never_applies: requirements are accepted, and nothing follows.
        breaks: after the next rescale the job restarts for ever.
        is_away: nobody answers.
        before: called with every request before it is handled, so that something may happen in between.
    """

    now_ms: int = 10**12
    slots: int = 8
    version: str = "2.3.0"
    configuration: dict[str, str] = field(default_factory=lambda: {"jobmanager.scheduler": "adaptive"})
    never_applies: bool = False
    breaks: bool = False
    is_away: bool = False
    before: Callable[[StubRequest], None] = lambda asked: None
    jobs: list[FakeJob] = field(default_factory=list)
    puts: list[dict[str, int]] = field(default_factory=list)
    """Every accepted requirement, by vertex."""
    checkpoints_requested: int = 0

    # What a test does

    def submit(self, name: str, parallelism: Mapping[str, int], **more: Any) -> FakeJob:
        """Submit a job; an earlier one of the name that runs is cancelled, as in an upgrade."""
        for job in self.jobs:
            if job.name == name:
                job.state = "CANCELED"
        return self.submit_beside(name, parallelism, **more)

    def submit_beside(self, name: str, parallelism: Mapping[str, int], **more: Any) -> FakeJob:
        """Submit a job, also beside one of its name."""
        jid = f"{len(self.jobs) + 1:032x}"
        self.jobs.append(FakeJob(jid, name, dict(parallelism), dict(parallelism), self.now_ms, **more))
        return self.jobs[-1]

    def require(self, job: FakeJob, parallelism: Mapping[str, int]) -> None:
        """Let somebody else change the requirement."""
        self._require(job, job.required | dict(parallelism))

    def fail_over(self) -> None:
        """Let another JobManager take the jobs over: for a while it only reads them in. ``recover`` ends that."""
        for job in self.jobs:
            job.state = "INITIALIZING" if job.state == "RUNNING" else job.state

    def recover(self) -> None:
        """Let the jobs that were taken over run again, with all that is asked for, as after any restart."""
        for job in self.jobs:
            if job.state == "INITIALIZING":
                job.state, job.running, job.created_at_ms = "RUNNING", dict(job.required), self.now_ms
                job.rescales.clear()

    @contextmanager
    def serving(self) -> Iterator[StubServer]:
        """Answer until the block is left."""
        with answering(self._answer) as server:
            yield server

    # The clock

    def _settle(self) -> None:
        for job in self.jobs:
            if job.state in ("RUNNING", "RESTARTING") and not self.never_applies:
                self._settle_job(job)

    def _settle_job(self, job: FakeJob) -> None:
        if job.restart_until_ms is not None:
            if self.now_ms < job.restart_until_ms or job.state == "RESTARTING":
                return
            job.restart_until_ms = None
        fits = {vertex: min(count, self.slots) for vertex, count in job.required.items()}
        if fits == job.running:
            return
        due_ms = self._due_ms(job, is_whole=fits == job.required)
        if self.now_ms >= due_ms:
            self._rescale(job, fits, due_ms)

    def _due_ms(self, job: FakeJob, *, is_whole: bool) -> int:
        """Return when Flink rescales: as a checkpoint completes, once the cooldown is over and slots are steady."""
        earliest_ms = max(job.changed_at_ms, job.rescaled_at_ms + self._configured_ms("executing.cooldown-after-rescaling", 0))
        if not is_whole:
            earliest_ms = max(earliest_ms, job.changed_at_ms + STABILIZATION_MS)
        requested_ms = job.checkpoint_done_at_ms
        if requested_ms is not None and requested_ms >= earliest_ms:
            return requested_ms
        interval_ms = job.checkpoint_interval_ms
        return job.created_at_ms + -(-(earliest_ms - job.created_at_ms) // interval_ms) * interval_ms

    def _rescale(self, job: FakeJob, fits: dict[str, int], at_ms: int) -> None:
        job.running, job.rescaled_at_ms, job.created_at_ms = fits, at_ms + RESTART_TAKES_MS, at_ms + CREATING_TAKES_MS
        job.restart_until_ms = at_ms + RESTART_TAKES_MS
        if self.breaks:
            job.state = "RESTARTING"
        states = (
            ("Executing", 0, at_ms),
            ("Restarting", at_ms, at_ms + CREATING_TAKES_MS),
            ("Executing", job.restart_until_ms, None),
        )
        described = [
            {"state": name, "enterTimestampInMillis": enter, "leaveTimestampInMillis": end} for name, enter, end in states
        ]
        job.rescales.append(
            {
                "rescaleUuid": f"{len(job.rescales) + 1:032x}",
                "resourceRequirementsUuid": f"{job.requirement:032x}",
                "schedulerStates": described,
                "terminalState": "COMPLETED",
                "triggerCause": "UPDATE_REQUIREMENT",
            }
        )

    def _configured_ms(self, key: str, default_ms: int) -> int:
        return int(self.configuration.get(f"jobmanager.adaptive-scheduler.{key}", default_ms))

    def _require(self, job: FakeJob, required: dict[str, int]) -> None:
        self._settle()
        job.required, job.changed_at_ms, job.checkpoint_done_at_ms = required, self.now_ms, None
        job.requirement += 1
        if self.breaks and job.state == "RESTARTING":  # what is put back comes up
            job.state, self.breaks = "RUNNING", False
            self._rescale(job, dict(required), self.now_ms)

    # The API

    def _answer(self, asked: StubRequest) -> StubResponse:
        self.before(asked)
        if self.is_away:
            return StubResponse(503, b'{"errors": ["Service temporarily unavailable due to an ongoing leader election."]}')
        self._settle()
        status, document = self._route(asked)
        return StubResponse(status, json.dumps(document).encode())

    def _route(self, asked: StubRequest) -> tuple[int, Document]:
        path = asked.path.partition("?")[0]
        whole = {"/overview": self._overview, "/jobs/overview": self._listed, "/jobmanager/config": self._configured}
        if path in whole:
            return 200, whole[path]()
        found = re.fullmatch(r"/jobs/(\w+)(/.*)?", path)
        job = next((each for each in self.jobs if found and each.jid == found[1]), None)
        if found is None:
            return 404, {"errors": [f"Unable to load requested file {path}."]}
        if job is None:
            return 404, {"errors": [f"org.apache.flink.runtime.rest.NotFoundException: Job {found[1]} not found\n\tat ..."]}
        return self._of_job(job, found[2] or "", asked)

    def _of_job(self, job: FakeJob, part: str, asked: StubRequest) -> tuple[int, Document]:
        if part == "":
            return 200, self._detail(job)
        if part == "/config":
            return 200, {"execution-config": {"user-config": {} if job.state == "INITIALIZING" else job.labels}}
        if job.state == "INITIALIZING" and part in ("/resource-requirements", "/checkpoints"):
            return 500, {"errors": ["Internal server error.", f"<Exception on server side:\n{INITIALIZING}\n\tat ...\n"]}
        if part == "/checkpoints/config":
            return 200, {"mode": "exactly_once", "interval": job.checkpoint_interval_ms}
        if part == "/checkpoints" and asked.method == "POST":
            self.checkpoints_requested += 1
            job.checkpoint_done_at_ms = self.now_ms + CHECKPOINT_TAKES_MS
            return 202, {"request-id": "1" * 32}
        if part == "/checkpoints":
            return 200, self._checkpoints(job)
        if part == "/resource-requirements":
            return self._requirements(job, asked)
        if part.startswith("/rescales") and self.version >= "2.3":
            return self._rescales(job, part)
        return 404, {"errors": [f"Unable to load requested file {asked.path}."]}

    def _checkpoints(self, job: FakeJob) -> Document:
        """Return one completed checkpoint, and those that the test has put before it."""
        acknowledged_ms = job.created_at_ms - CREATING_TAKES_MS  # of the one that the graph was restored from
        done = {"id": 1, "status": "COMPLETED", "trigger_timestamp": job.created_at_ms, "latest_ack_timestamp": acknowledged_ms}
        latest = {"completed": done if job.has_checkpoint else None, "restored": {"id": 1} if job.requirement > 1 else None}
        return {"latest": latest, "history": [*job.later_checkpoints, done]}

    def _requirements(self, job: FakeJob, asked: StubRequest) -> tuple[int, Document]:
        if self.configuration.get("jobmanager.scheduler") != "adaptive":
            said = f"<Exception on server side:\n{NOT_SUPPORTED}\n\tat ...\n\nEnd of exception on server side>"
            return 500, {"errors": ["Internal server error.", said]}
        if asked.method == "GET":
            return 200, {
                vertex: {"parallelism": {"lowerBound": 1, "upperBound": count}} for vertex, count in job.required.items()
            }
        wanted = {vertex: each["parallelism"]["upperBound"] for vertex, each in json.loads(asked.body).items()}
        if wanted.keys() != job.required.keys():
            return 400, {"errors": ["org.apache.flink.runtime.rest.handler.RestHandlerException: The request is incomplete."]}
        if max(wanted.values()) > KEY_GROUPS:
            return 400, {
                "errors": ["org.apache.flink.runtime.rest.handler.RestHandlerException: exceeds its maximum parallelism."]
            }
        self.puts.append(wanted)
        self._require(job, wanted)
        return 200, {}

    def _rescales(self, job: FakeJob, part: str) -> tuple[int, Document]:
        if part == "/rescales/history":
            return 200, [each | {"schedulerStates": []} for each in reversed(job.rescales)]
        uuid = part.rpartition("/")[2]
        return 200, next(each for each in job.rescales if each["rescaleUuid"] == uuid)

    def _overview(self) -> Document:
        taken = sum(max(job.running.values()) for job in self.jobs if job.state in ("RUNNING", "RESTARTING"))
        slots = {"slots-total": self.slots, "slots-available": max(0, self.slots - taken)}
        return {"flink-version": self.version, "taskmanagers": 1} | slots

    def _listed(self) -> Document:
        listed = [{"jid": job.jid, "name": job.name, "state": job.state, "start-time": job.created_at_ms} for job in self.jobs]
        return {"jobs": listed}

    def _configured(self) -> Document:
        return [{"key": key, "value": value} for key, value in self.configuration.items()]

    def _detail(self, job: FakeJob) -> Document:
        restarts = job.restart_until_ms is not None and self.now_ms < job.restart_until_ms
        vertices = [
            {
                "id": vertex,
                "name": f"the {vertex}",
                "parallelism": count,
                "maxParallelism": KEY_GROUPS,
                "slotSharingGroupId": "one",
                "status": "INITIALIZING" if restarts or job.state != "RUNNING" else "RUNNING",
            }
            for vertex, count in job.running.items()
            if job.state != "INITIALIZING"
        ]
        return {
            "jid": job.jid,
            "name": job.name,
            "state": job.state,
            "start-time": 0,
            "now": self.now_ms,
            "job-type": job.job_type,
            "timestamps": {"CREATED": job.created_at_ms, "RUNNING": max(0, job.rescaled_at_ms)},
            "vertices": vertices,
            "plan": {"nodes": self._nodes(job)},
        }

    def _nodes(self, job: FakeJob) -> Document:
        names = list(job.running)
        edges = set(pairwise(names)) | set(job.forward)
        return [
            {
                "id": vertex,
                "inputs": [
                    {"id": start, "ship_strategy": "FORWARD" if (start, end) in job.forward else "HASH"}
                    for start, end in sorted(edges)
                    if end == vertex
                ],
            }
            for vertex in names
        ]
