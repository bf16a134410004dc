"""Looks at one Flink job: its graph and state, the counters of each subtask, what waits in Kafka, what happened to it."""

import logging
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from surescale.contracts.messages import EventKind, JobTopology, TaskSample, TaskSpec
from surescale.engines.flink.answers import (
    Checkpoint,
    CheckpointConfig,
    Checkpoints,
    Exceptions,
    JobDetail,
    Metric,
    Plan,
    Requirements,
)
from surescale.engines.flink.backlog import Backlog, SourceBacklog, check_one_cluster, partitions_named, positions_named
from surescale.engines.flink.client import PRIMING_S, FlinkClient
from surescale.engines.flink.errors import FlinkError, NotAdaptive
from surescale.engines.flink.graph import checkpointing_of, is_over, runs, state_of, tasks_of
from surescale.engines.flink.identity import Identity, attempt_of, began_of
from surescale.engines.flink.memory import TaskManagerMemory
from surescale.engines.flink.requirements import requirement_id as flinks_id
from surescale.engines.flink.requirements import wanted
from surescale.engines.flink.rescales import Rescales
from surescale.engines.flink.samples import (
    Restored,
    Starts,
    entered_through,
    has_counted,
    is_whole,
    operators_named,
    samples_of,
    says_nothing,
    with_entered,
    with_queues,
)
from surescale.engines.flink_operator.requirement import Requirement, requirement_id
from surescale.engines.kafka.offsets import OffsetsUnavailable, TopicOffsets
from surescale.engines.ports.event_log import EventLog, changes
from surescale.engines.ports.minutes import Clock, JobSnapshot
from surescale.engines.ports.source import SourceUnavailable, UnknownJob
from surescale.runtime.backoff import Throttle


class FlinkEvents(EventLog):
    """The newest events of one cluster.

    An id follows from Flink's own ids and times: a monitor that restarts gives the same event the same id. Only what Flink does
    not remember (requirements that changed, TaskManagers that came and went) is seen by comparing two looks.
    """

    def add_checkpoints(self, job: str, epoch: str, checkpoints: Checkpoints) -> None:
        """Note a job's finished checkpoints."""
        for each in sorted(checkpoints.history, key=lambda checkpoint: checkpoint.id):
            for kind, at_ms, detail in _ended(each):
                self.add(kind, f"checkpoint:{epoch}:{each.id}", at_ms, job=job, detail=detail)

    def add_exceptions(self, job: str, epoch: str, exceptions: Exceptions) -> None:
        """Note what made a job restart."""
        for each in sorted(exceptions.exception_history.entries, key=lambda entry: entry.timestamp):
            if each.timestamp >= 0:
                self.add(
                    "exception", f"exception:{epoch}:{each.timestamp}", each.timestamp, job=job, detail=_words(each.stacktrace)
                )


def _ended(checkpoint: Checkpoint) -> Iterator[tuple[EventKind, int, str]]:
    kind = "savepoint" if checkpoint.is_savepoint else "checkpoint"
    if checkpoint.status == "COMPLETED" and checkpoint.latest_ack_timestamp >= 0:
        size, took_ms = max(0, checkpoint.state_size), max(0, checkpoint.end_to_end_duration)
        yield "checkpoint_completed", checkpoint.latest_ack_timestamp, f"{kind} {checkpoint.id}: {size} bytes in {took_ms} ms"
    elif checkpoint.status == "FAILED":
        at_ms = max(checkpoint.failure_timestamp, checkpoint.trigger_timestamp, 0)
        told = f"{kind} {checkpoint.id}: {checkpoint.failure_message or 'no reason given'}"
        # Failed checkpoints release a rescale that waits for one, as in Flink; those that never began say nothing about the job.
        yield ("checkpoint_failed", at_ms, told) if checkpoint.has_failed else ("exception", at_ms, f"{told} (it does not count)")


def _words(stacktrace: str) -> str:
    """Return the first line of an exception and its deepest cause."""
    lines = [line.strip() for line in stacktrace.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return "; ".join([*lines[:1], *causes[-1:]])


ENGINE = "flink"
MEASURED_MAX = 5
"""So many past rescales say how long the next one will stop the job."""
CHECKPOINTS_TOLD_WITHIN_MS = 10_000
"""After so long a graph of which Flink tells no checkpoint began without one."""
NAMES_KEPT_MS = 600_000
"""After so long it is asked anew which metrics there are: a source that reads all topics of a pattern finds new ones."""
_log = logging.getLogger("surescale.monitor")


@dataclass(slots=True)
class _Epoch:
    """What is remembered of one submission of the job, by Flink's id of it."""

    identity: Identity
    rescales: Rescales
    checkpoint_config: CheckpointConfig | None = None
    plan: Plan = field(default_factory=Plan)  # that was told last
    attempt: int = 0
    parallelism: dict[str, int] = field(default_factory=dict)  # that ran last
    required: dict[str, int] = field(default_factory=dict)
    starts: Starts = field(default_factory=Starts)
    restored: Restored = field(default_factory=Restored)
    names: dict[tuple[str, str], tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    """Metrics asked for, by source vertex and kind, and since when they are known."""
    by_operators: dict[str, bool] = field(default_factory=dict)  # whose counters tell what a source vertex lets in
    backlogs: dict[str, SourceBacklog] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)  # what of a source's backlog is unknown, by source vertex
    runs_on: dict[str, frozenset[str]] = field(default_factory=dict)  # TaskManagers of the newest look, by vertex


class FlinkJob:
    """Looks at one job, through upgrades: a new submission under the same name is a new epoch. For one thread."""

    def __init__(
        self,
        job: str,
        find: Callable[[str], Identity | None],
        client: FlinkClient,
        broker: TopicOffsets,
        events: FlinkEvents,
        clock: Clock,
        operated: Callable[[str], Requirement | None] = lambda job: None,
        memory: TaskManagerMemory | None = None,
    ) -> None:
        """Look at nothing yet.

        Args:
            job: its id.
            find: returns the live job of a name.
            client: of Flink's REST API.
            broker: is asked for the topics that sources read.
            events: what happened.
            clock: of the collector.
            operated: returns what the resource of the Flink operator asks for; None where there is none.
            memory: of the cluster's TaskManagers; None: this job's own.
        """
        self._memory = memory or TaskManagerMemory(client)
        self._operated = operated
        self._job, self._find = job, find
        self._client, self._broker, self._events, self._clock = client, broker, events, clock
        self._epoch: _Epoch | None = None
        self._topology: JobTopology | None = None
        self._is_upgraded = False
        self._still_ms: deque[int] = deque(maxlen=MEASURED_MAX)
        self._seldom = Throttle()

    def look(self) -> JobSnapshot:
        """Look at the job; takes as many requests as it has vertices, and about six more.

        Raises:
            SourceUnavailable: no usable answer, or the job restarted during the look.
            UnknownJob: there is no such live job.
        """
        try:
            identity = self._find(self._job)
            if identity is None:
                self._note_end()
                raise UnknownJob(f"Flink has no live job {self._job!r}")
            if self._epoch is None or self._epoch.identity.flink_job != identity.flink_job:
                flink_job = identity.flink_job
                self._epoch = _Epoch(identity, Rescales(self._job, flink_job, self._client, self._events, self._still_ms))
            self._epoch.identity = identity
            return self._look_at(self._epoch)
        except FlinkError as problem:
            raise SourceUnavailable(str(problem)) from None

    def _look_at(self, epoch: _Epoch) -> JobSnapshot:
        flink_job = epoch.identity.flink_job
        detail = self._client.job(flink_job)  # makes Flink fetch the figures
        primed_s = time.monotonic()
        if detail.plan.nodes:
            epoch.plan = detail.plan
        else:  # while it waits for slots Flink tells no edges
            detail = msgspec.structs.replace(detail, plan=epoch.plan)
        if is_over(detail.state):
            raise SourceUnavailable(f"job {self._job} is {detail.state}")
        requirements = self._requirements(flink_job)
        checkpoints = self._checkpoints(epoch)
        self._note_ends(epoch)
        # In the wall's time, whatever the clock: Flink takes as long. Nobody waits for this thread at shutdown.
        time.sleep(max(0.0, PRIMING_S - (time.monotonic() - primed_s)))
        tasks = tasks_of(detail, requirements, last=epoch.parallelism, partitions=epoch.partitions)
        epoch.runs_on.clear()
        samples = self._samples(epoch, detail, tasks) if detail.state == "RUNNING" else []
        tasks = tuple(
            msgspec.structs.replace(
                each,
                backlog_partly_unknown=epoch.unknown.get(each.task, ""),
                memory=self._memory.of(epoch.runs_on.get(each.task, ())),
            )
            for each in tasks
        )
        self._note_changes(epoch, detail, tasks, requirements, checkpoints)
        topology = self._under_the_operator(self._topology_of(epoch, detail, tasks, requirements, checkpoints))
        return JobSnapshot(topology, tuple(samples))

    # --- figures

    def _samples(self, epoch: _Epoch, detail: JobDetail, tasks: tuple[TaskSpec, ...]) -> list[TaskSample]:
        attempt = attempt_of(detail) or 0
        found: dict[str, list[TaskSample]] = {}
        for spec in tasks:
            if spec.state == "finished":  # the topology says so, and with it that nothing comes any more
                continue
            vertex = self._client.vertex(detail.jid, spec.task)
            now_ms = self._clock.now_ms()
            epoch.runs_on[spec.task] = frozenset(each.taskmanager_id for each in vertex.subtasks)
            own = samples_of(self._job, attempt, spec, vertex, epoch.starts, now_ms)
            if not spec.upstream:
                own = _with_backlog(
                    self._with_entered(epoch, spec.task, own), self._backlog(epoch, spec.task, _as_of_ms(own, now_ms))
                )
            found[spec.task] = own
        if attempt_of(self._client.job(detail.jid)) != attempt:
            raise SourceUnavailable(f"job {self._job} restarted during the look")
        is_unaligned = self._checkpoint_config(epoch).unaligned_checkpoints
        return with_queues(found, tasks, epoch.restored if is_unaligned else None)

    def _with_entered(self, epoch: _Epoch, vertex: str, own: list[TaskSample]) -> list[TaskSample]:
        """Return a source's samples with what entered through its operators, where the vertex counts nothing.

        Whose counters they are stays as it is while the submission lives: two of them need not agree, and a fall looks like a
        restart. While operators that are to tell do not, nothing is known of the vertex.
        """
        by_operators = epoch.by_operators.get(vertex)
        if by_operators is None and has_counted(own):
            by_operators = epoch.by_operators[vertex] = False
        if by_operators is False or not (by_operators or says_nothing(own)):
            return own
        metrics = self._metrics(epoch, vertex, "operators", operators_named)
        entered = entered_through(metrics)
        if by_operators is None:
            if not entered:
                return own
            epoch.by_operators[vertex] = True
        return with_entered(own, entered) if metrics and entered is not None and is_whole(own) else []

    def _backlog(self, epoch: _Epoch, vertex: str, as_of_ms: int) -> Backlog | None:
        """Return what arrived and what waits at a source; None if it does not read Kafka, or its broker does not tell."""
        metrics = self._metrics(epoch, vertex, "positions", positions_named)
        if not metrics:
            return None
        topics = {topic for topic, _, _ in positions_named(metrics).values()}
        backlog = epoch.backlogs.setdefault(vertex, SourceBacklog(self._broker))
        epoch.unknown.pop(vertex, None)
        try:
            check_one_cluster(metrics)
        except OffsetsUnavailable as problem:
            epoch.partitions[vertex] = partitions_named(metrics)
            self._say(problem)
            return None
        try:
            if not topics <= backlog.topics:
                backlog.note_ends(topics, self._clock.now_ms())
            found = backlog.look(metrics, as_of_ms)
        except OffsetsUnavailable as problem:
            self._say(problem)
            return None
        epoch.partitions[vertex], epoch.unknown[vertex] = max(1, found.partitions), found.partly_unknown
        now_ms = self._clock.now_ms()
        for number, words in enumerate(found.notes):
            _log.warning("%s: %s", self._job, words, extra={"job": self._job})
            event_id = f"offsets{number}:{epoch.identity.flink_job}:{now_ms}"
            self._events.add("exception", event_id, now_ms, job=self._job, detail=words)
        if sum(kind == "current" for _, _, kind in positions_named(metrics).values()) < found.partitions:
            epoch.names.pop((vertex, "positions"), None)  # a partition was added, or its reader has read nothing yet
        return found

    def _metrics(
        self, epoch: _Epoch, vertex: str, kind: str, named: Callable[[Iterable[str]], Mapping[str, object]]
    ) -> Mapping[str, Metric]:
        """Return the metrics of a vertex that ``named`` chooses by their names; empty if it has none."""
        flink_job, of = epoch.identity.flink_job, (vertex, kind)
        for _ in range(2):
            since_ms, names = epoch.names.get(of, (0, ()))
            if self._clock.now_ms() - since_ms >= NAMES_KEPT_MS:
                since_ms, names = self._clock.now_ms(), tuple(sorted(named(self._client.metric_names(flink_job, vertex))))
            if not names:
                return {}
            metrics = self._client.metrics(flink_job, vertex, names)
            if metrics:
                epoch.names[of] = since_ms, names
                return metrics
            epoch.names.pop(of, None)  # one of the names is gone, and with it the whole answer
        return {}

    def _note_ends(self, epoch: _Epoch) -> None:
        """Ask for the ends at the time at which Flink fetches its figures."""
        for backlog in epoch.backlogs.values():
            if not backlog.topics:
                continue
            try:
                backlog.note_ends(backlog.topics, self._clock.now_ms())
            except OffsetsUnavailable as problem:
                self._say(problem)

    def _say(self, problem: OffsetsUnavailable) -> None:
        if self._seldom.is_time():
            _log.warning("%s: demand is unknown, so the job is held: %s", self._job, problem, extra={"job": self._job})

    # --- topology

    def _topology_of(
        self,
        epoch: _Epoch,
        detail: JobDetail,
        tasks: tuple[TaskSpec, ...],
        requirements: Requirements | None,
        checkpoints: Checkpoints,
    ) -> JobTopology:
        if not tasks:
            raise SourceUnavailable(f"job {self._job} has no graph yet")
        now_ms, identity = self._clock.now_ms(), epoch.identity
        return JobTopology(
            job=self._job,
            version=now_ms,
            at_ms=now_ms,
            tasks=tasks,
            attempt=attempt_of(detail) or epoch.attempt,
            state=state_of(detail.state),
            engine=ENGINE,
            epoch=identity.flink_job,
            requirement_id=flinks_id(requirements) if requirements is not None else "",
            engine_name=identity.engine_name,
            labels=dict(identity.labels),
            checkpointing=checkpointing_of(self._checkpoint_config(epoch), checkpoints),
            restart_ms=round(statistics.median(self._still_ms)) if self._still_ms else None,
            began_ms=began_of(detail),
        )

    def _under_the_operator(self, topology: JobTopology) -> JobTopology:
        """Return a topology with what the operator's resource asks for: Flink is asked for it a moment later."""
        asked = self._operated(self._job)
        self._is_upgraded = asked is not None and asked.upgrades
        if asked is not None:
            tasks = tuple(_as_asked(spec, asked) for spec in topology.tasks)
            counts = {spec.task: spec.required for spec in tasks if spec.required is not None}
            named = requirement_id(asked.resource.metadata.uid, counts)
            topology = msgspec.structs.replace(topology, tasks=tasks, requirement_id=named)
        before = self._topology
        if before is not None and _lasting(before) == _lasting(topology):
            topology = msgspec.structs.replace(topology, version=before.version)
        self._topology = topology
        return topology

    def _requirements(self, flink_job: str) -> Requirements | None:
        try:
            return self._client.requirements(flink_job)
        except NotAdaptive:
            return None

    def _checkpoint_config(self, epoch: _Epoch) -> CheckpointConfig:
        if epoch.checkpoint_config is None:
            epoch.checkpoint_config = self._client.checkpoint_config(epoch.identity.flink_job)
        return epoch.checkpoint_config

    # --- events

    def _checkpoints(self, epoch: _Epoch) -> Checkpoints:
        found = self._client.checkpoints(epoch.identity.flink_job)
        self._events.add_checkpoints(self._job, epoch.identity.flink_job, found)
        return found

    def _note_changes(
        self,
        epoch: _Epoch,
        detail: JobDetail,
        tasks: tuple[TaskSpec, ...],
        requirements: Requirements | None,
        checkpoints: Checkpoints,
    ) -> None:
        labels = {spec.task: spec.label for spec in tasks}
        flink_job = epoch.identity.flink_job
        self._events.add("job_started", f"started:{flink_job}", max(0, detail.start_time), job=self._job, detail=flink_job)
        self._events.add_exceptions(self._job, flink_job, self._client.exceptions(flink_job))
        required = wanted(requirements or {})
        if epoch.required and required != epoch.required:
            now_ms, what = self._clock.now_ms(), changes(_named(epoch.required, labels), _named(required, labels))
            self._events.add("requirement_changed", f"required:{flink_job}:{now_ms}", now_ms, job=self._job, detail=what)
        epoch.required = required
        if not runs(detail):
            return
        running, attempt = {spec.task: spec.parallelism for spec in tasks}, attempt_of(detail) or 0
        if attempt != epoch.attempt:
            if _are_from_before(checkpoints, detail):
                return  # until the next look
            self._note_graph(epoch, detail, labels, running, checkpoints)
        epoch.attempt, epoch.parallelism = attempt, running

    def _note_graph(
        self,
        epoch: _Epoch,
        detail: JobDetail,
        labels: Mapping[str, str],
        running: Mapping[str, int],
        checkpoints: Checkpoints,
    ) -> None:
        """Note what has made a new graph: a rescale, as Flink remembers it or as it shows, or a restart."""
        restored = checkpoints.latest.restored
        since = f"from checkpoint {restored.id}" if restored is not None else "without a checkpoint"
        if epoch.rescales.ask(labels, since) or not epoch.attempt:
            return
        what = changes(_named(epoch.parallelism, labels), _named(running, labels))
        if what and not self._is_upgraded:  # else the JobManager that has come says nothing of the time before it
            epoch.rescales.measure(detail, checkpoints)
        flink_job, attempt = epoch.identity.flink_job, attempt_of(detail) or 0
        kind: EventKind = "rescaled" if what else "job_restarted"
        told = f"{what or 'restarted'}, {since}"
        self._events.add(kind, f"graph:{flink_job}:{attempt}", attempt, job=self._job, detail=told)

    def _note_end(self) -> None:
        """Note how the job's last submission ended, if Flink still remembers it."""
        if self._epoch is None:
            return
        flink_job, self._epoch = self._epoch.identity.flink_job, None
        # Asked of the list: Flink keeps the answer on a single job for a while, so there it may still run.
        ended = next((entry for entry in self._client.jobs() if entry.jid == flink_job and is_over(entry.state)), None)
        if ended is not None:
            kind: EventKind = "job_failed" if state_of(ended.state) == "failed" else "job_stopped"
            self._events.add(kind, f"ended:{flink_job}", max(0, ended.end_time), job=self._job, detail=ended.state)


def _as_asked(spec: TaskSpec, asked: Requirement) -> TaskSpec:
    """Return a task with what the resource asks for; one whose job is upgraded can be sized under any scheduler."""
    if not asked.upgrades:
        return msgspec.structs.replace(spec, required=asked.counts.get(spec.task, spec.required))
    required = asked.counts.get(spec.task, spec.parallelism)
    return msgspec.structs.replace(spec, required=required, scalable=spec.state != "finished")


def _are_from_before(checkpoints: Checkpoints, detail: JobDetail) -> bool:
    """Return whether Flink may not have told yet which checkpoint the present graph began from.

    It keeps its answer on checkpoints for a while, apart from that on the job (``web.refresh-interval``, three seconds).
    """
    made_ms, restored = attempt_of(detail) or 0, checkpoints.latest.restored
    is_told = restored is not None and restored.restore_timestamp >= made_ms
    return checkpoints.counts.completed > 0 and not is_told and detail.now - made_ms < CHECKPOINTS_TOLD_WITHIN_MS


def _with_backlog(samples: list[TaskSample], backlog: Backlog | None) -> list[TaskSample]:
    """Put a source's backlog into the first of its samples; the others have none of it, so that the sum is right."""
    if backlog is None:
        return samples
    return [
        msgspec.structs.replace(
            sample,
            arrived_records=None if backlog.arrived is None else backlog.arrived if not at else 0,
            queued_records=None if backlog.waiting is None else backlog.waiting if not at else 0,
        )
        for at, sample in enumerate(samples)
    ]


def _as_of_ms(samples: list[TaskSample], now_ms: int) -> int:
    return min((each.as_of_ms for each in samples if each.as_of_ms is not None), default=now_ms)


def _named(parallelism: Mapping[str, int], labels: Mapping[str, str]) -> list[tuple[str, int]]:
    return [(labels.get(task, task), count) for task, count in parallelism.items()]


def _lasting(topology: JobTopology) -> JobTopology:
    """Return a topology without what changes all the time."""
    tasks = tuple(msgspec.structs.replace(each, memory=None) for each in topology.tasks)
    return msgspec.structs.replace(topology, version=0, at_ms=0, checkpointing=None, tasks=tasks)
