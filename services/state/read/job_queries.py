"""Queries on jobs: one line each, or all about one of them. Writes nothing."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from surescale.contracts.commands import Outcome, Progress, RescheduleCommand
from surescale.contracts.ids import cluster_of, command_id
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, EngineEvent, JobTopology
from surescale.contracts.modes import mode_in_force
from surescale.contracts.own_acts import WHY, own_act_of
from surescale.contracts.rescaler_state import JobControl
from surescale.contracts.summaries import TaskMinutes
from surescale.services.state import keys
from surescale.services.state.documents import HistoryDocument, JobDocument, JobOverview, JobRent, TaskMinuteDocument
from surescale.services.state.read.conditions import conditions_of
from surescale.services.state.read.history import MarkedDecision, history
from surescale.services.state.read.next_decision import next_decision
from surescale.services.state.read.rent import Prices, job_rent
from surescale.services.state.read.staleness import stale_of
from surescale.services.state.read.status import status_of
from surescale.services.state.read.stored import Documents, decoded
from surescale.services.state.read.task_figures import DecidedTasks, TaskFigures, task_figures
from surescale.services.state.read.view import NotFound, View, near
from surescale.services.state.record_documents import (
    Appended,
    CommandDocument,
    DecisionDocument,
    NewestMinute,
    OwnActDocument,
    WindowDocument,
    record_in,
)
from surescale.services.state.write.projections import EVENTS_KEPT

STEPS_MAX = 16  # of one rescale: the last one commanded is the one that was carried out
DISTURBING = ("host_joined", "host_leaving", "host_lost", "job_restarted", "job_stopped", "job_failed")
RESCALED = "generation "  # how the simulated engine begins what it says of a restart that a command of ours caused
_STATUSES = ("accepted", "warming", "applied", "failed")


class JobQueries(View):
    """Queries on jobs."""

    def jobs(self, *, after: str = "", limit: int | None = None) -> list[JobOverview]:
        """Return an overview of every job, in the order of their ids; with ``after`` or ``limit``, of a part of them."""
        ids = self.job_ids()
        ids = ids[bisect_right(ids, after) :]
        return self._overviews.of(ids if limit is None else ids[:limit], self._now(), self.span_minutes)

    def job(self, job: str) -> JobDocument:
        """Return everything known of a job.

        Raises:
            NotFound: no topic has named it.
        """
        self._require_job(job)
        read = Documents()
        fields = self._client.hmget(self._key(keys.job(job)), ("topology", "settings", "gate", "minute"))
        topology = read.one("topology", fields[0], Appended[JobTopology])
        settings = read.one("settings", fields[1], Appended[JobSettings])
        hosts = self._hosts_of(job, read)
        ran, wanted = record_in(topology), record_in(settings)
        mode = mode_in_force(wanted, ran, hosts.engine if hosts else None)
        window = read.one("window", self._newest("windows", job), WindowDocument)
        decision = read.one("decision", self._newest("decisions", job), DecisionDocument)
        command = read.one("command", self._newest("commands", job), CommandDocument)
        gate = read.one("gate", fields[2], Appended[JobControl])
        minute = read.part("minute", fields[3], NewestMinute)
        now = self._now()
        seen, control = record_in(window), record_in(gate)
        signs = self._overviews.signs(job)
        stale = stale_of(ran, signs, now, self.span_minutes)
        due = next_decision(ran, wanted, seen, signs.decided_ms, self.span_minutes)
        return JobDocument(
            job=job,
            topology=topology,
            settings=settings,
            mode=mode.mode,
            mode_set_by=mode.source,
            window=None if window is None else replace(window, freshness_ms=_freshness(window)),
            age_minutes=now.minutes_since(seen.window_end_ms) if seen else None,
            decision=None if decision is None else self._followed(job, [_listed(decision)])[0],
            gate=gate,
            command=None if command is None else self._with_progress(job, [(command, read)])[0],
            rent=self._rent(ran, hosts, read) if ran and hosts and hosts.engine.places == "commanded" else None,
            status=status_of(ran, control, seen, mode=mode.mode, stale=stale),
            minute_by_task=_by_task(minute.tasks) if minute else (),
            conditions=conditions_of(ran, control, seen, stale),
            stale=stale,
            next_decision=None if stale else due,
            unreadable=read.unreadable,
        )

    def history(self, job: str, minutes: int) -> HistoryDocument:
        """Return the job's last minutes as columns, with its decisions as marks.

        Raises:
            NotFound: no topic has named the job.
        """
        self._require_job(job)
        read = Documents()
        windows = read.each("windows", self._latest("windows", job, minutes), WindowDocument)[::-1]
        # A span has at least one minute, so there are no more decisions than minutes.
        ids = self._client.zrevrange(self._key(keys.timeline("decisions", job)), 0, minutes - 1)[::-1]
        bodies = zip(self._bodies("decisions", job, ids), self._bodies("outcomes", job, ids), strict=True)
        marks = []
        for body, outcome_body in bodies:
            decision = read.part("decisions", body, MarkedDecision)
            outcome = read.part("outcomes", outcome_body, Outcome)
            if decision is not None:
                marks.append((decision, outcome))
        commands = self._commands(job, "", minutes, read)[::-1]
        topology = read.part("topology", self._client.hget(self._key(keys.job(job)), "topology"), JobTopology)
        hosts = self._hosts_of(job, read)
        rent = Prices(hosts.hosts).per_day(topology) if topology and hosts and hosts.engine.places == "commanded" else None
        fixed = frozenset(task.task for task in topology.tasks if not task.scalable) if topology else frozenset()
        return history(job, (window.record for window in windows), marks, commands, rent, fixed=fixed, unreadable=read.unreadable)

    def commands(self, job: str, limit: int, *, after: str = "") -> list[CommandDocument]:
        """Return the job's latest commands, newest first, each with its progress; with ``after``, those before that one.

        Raises:
            NotFound: no topic has named the job.
            StaleCursor: the command ``after`` is no longer in the view.
        """
        self._require_job(job)
        return self._commands(job, after, limit, Documents())

    def decisions(self, job: str, limit: int, *, after: str = "") -> list[DecisionDocument]:
        """Return the job's latest decisions, newest first, each with its last outcome and its command.

        With ``after``, those before that one.

        Raises:
            NotFound: no topic has named the job.
            StaleCursor: the decision ``after`` is no longer in the view.
        """
        self._require_job(job)
        ids = self._page("decisions", job, after, limit)
        found = Documents().each("decision", self._bodies("decisions", job, ids), DecisionDocument)
        return self._followed(job, [_listed(decision) for decision in found])

    def own_acts(self, job: str, limit: int) -> list[OwnActDocument]:
        """Return the latest acts on the job that no policy decided, newest first.

        Raises:
            NotFound: no topic has named the job.
        """
        self._require_job(job)
        ids = self._client.zrevrange(self._key(keys.timeline("outcomes", job)), 0, -1)
        kinds = {of: own for of in ids if (own := own_act_of(of))}
        outcomes = Documents().each("outcome", self._bodies("outcomes", job, list(kinds)[:limit]), Appended[Outcome])
        begun = [(outcome, Documents()) for outcome in outcomes]
        last = self._last_steps(job, begun)
        return [
            OwnActDocument(
                decision_id=outcome.record.decision_id,
                job=job,
                own_act=kinds[outcome.record.decision_id],
                why=WHY[kinds[outcome.record.decision_id]],
                outcome=outcome,
                command=last.get(outcome.record.decision_id),
                unreadable=read.unreadable,
            )
            for outcome, read in begun
        ]

    def disturbances(self, job: str, limit: int) -> list[Appended[EngineEvent]]:
        """Return the latest events that the job suffered: of its hosts, and of its own that no rescale of ours explains."""
        bodies = self._latest("events", cluster_of(job), EVENTS_KEPT)
        events = Documents().each("events", bodies, Appended[EngineEvent])
        return [
            event
            for event in events
            if event.record.kind in DISTURBING
            and event.record.job in (None, job)
            and not event.record.detail.startswith(RESCALED)
        ][:limit]

    def task_figures(self, jobs: Iterable[str]) -> tuple[list[TaskFigures], int]:
        """Return the figures of each task of some jobs by their latest decisions, and how many tasks are left out."""
        wanted, read = sorted(jobs), Documents()
        decisions = {job: read.part(job, body, DecidedTasks) for job, body in self._newest_of_each("decisions", wanted)}
        topologies = ((job, read.part(job, body, JobTopology)) for job, (body,) in self._fields_of(wanted, "topology"))
        return task_figures(
            (job, topology, decisions.get(job) or DecidedTasks()) for job, topology in topologies if topology is not None
        )

    def labels(self, job: str) -> dict[str, str]:
        """Return the name that people know each of the job's tasks by; tasks without one are left out."""
        body = self._client.hget(self._key(keys.job(job)), "topology")
        topology = Documents().part("topology", body, JobTopology)
        return {task.task: task.label for task in topology.tasks if task.label} if topology else {}

    def decision(self, of: str) -> DecisionDocument:
        """Return one decision in full.

        Raises:
            NotFound: it is not, or no longer, in the view.
        """
        job = of.rpartition("@")[0]
        return self._followed(job, [decoded(self._required("decision", job, of), DecisionDocument)])[0]

    def command(self, of: str) -> CommandDocument:
        """Return one command with its progress.

        Raises:
            NotFound: it is not, or no longer, in the view.
        """
        job = of.rpartition("#")[0]
        return self._with_progress(job, [(decoded(self._required("command", job, of), CommandDocument), Documents())])[0]

    def _hosts_of(self, job: str, read: Documents) -> ClusterTopology | None:
        return read.part("hosts", self._client.hget(self._key(keys.cluster(cluster_of(job))), "topology"), ClusterTopology)

    def _commands(self, job: str, after: str, limit: int, read: Documents) -> list[CommandDocument]:
        ids = self._page("commands", job, after, limit)
        found = read.each("command", self._bodies("commands", job, ids), CommandDocument)
        return self._with_progress(job, [(command, read) for command in found])

    def _rent(self, topology: JobTopology, hosts: ClusterTopology, read: Documents) -> JobRent:
        """What the job costs now; its savings are known if its generation came from a command with a placement."""
        steps = [command_id(topology.job, topology.generation, step) for step in range(STEPS_MAX)]
        commands = read.each("command", self._bodies("commands", topology.job, steps), Appended[RescheduleCommand])
        return job_rent(topology, hosts, commands[-1].record if commands else None)

    def _required(self, kind: str, job: str, of: str) -> str:
        """Return a decision or a command; NotFound names what there is instead."""
        body = self._body(f"{kind}s", job, of)
        if body is None:
            raise NotFound(kind, of, near(of, self._client.zrange(self._key(keys.timeline(f"{kind}s", job)), 0, -1)))
        return body

    def _followed(self, job: str, decisions: Sequence[DecisionDocument]) -> list[DecisionDocument]:
        """Return decisions of one job, each with its freshness, its last outcome and its command."""
        bodies = self._bodies("outcomes", job, [decision.record.decision_id for decision in decisions])
        reads = [Documents() for _ in decisions]
        outcomes = [read.one("outcome", body, Appended[Outcome]) for read, body in zip(reads, bodies, strict=True)]
        last = self._last_steps(job, [(outcome, read) for outcome, read in zip(outcomes, reads, strict=True) if outcome])
        return [
            replace(
                decision,
                freshness_ms=_freshness(decision),
                outcome=outcome,
                command=last.get(decision.record.decision_id),
                unreadable=read.unreadable,
            )
            for decision, outcome, read in zip(decisions, outcomes, reads, strict=True)
        ]

    def _last_steps(self, job: str, outcomes: Iterable[tuple[Appended[Outcome], Documents]]) -> dict[str, CommandDocument]:
        """Return the last step of the rescale that each outcome began, with its progress, by decision; none if it began none."""
        said = ((each.record.decision_id, each.record.command_id, read) for each, read in outcomes)
        begun = [(decision_id, of.rpartition(".")[0], read) for decision_id, of, read in said if of]
        bodies = iter(self._bodies("commands", job, [f"{of}.{step}" for _, of, _ in begun for step in range(STEPS_MAX)]))
        last = {}
        for decision_id, _, read in begun:
            steps = read.each("command", islice(bodies, STEPS_MAX), CommandDocument)
            if steps:
                last[decision_id] = steps[-1], read
        return dict(zip(last, self._with_progress(job, list(last.values())), strict=True))

    def _with_progress(self, job: str, commands: Sequence[tuple[CommandDocument, Documents]]) -> list[CommandDocument]:
        """Return commands of one job with their progress, all read in one round trip."""
        ids = [f"{command.record.command_id}/{status}" for command, _ in commands for status in _STATUSES]
        bodies = iter(self._bodies("progress", job, ids))
        return [
            replace(command, progress=read.each("progress", islice(bodies, len(_STATUSES)), Appended[Progress]))
            for command, read in commands
        ]


def _by_task(minute: TaskMinutes) -> tuple[TaskMinuteDocument, ...]:
    """Return the columns as one document a task."""
    columns = (minute.parallelism, minute.utilisation, minute.backpressured, minute.records, minute.backlog, minute.latency_ms)
    names = ("parallelism", "utilisation", "backpressured", "records", "backlog", "latency_ms")
    rows = zip(minute.tasks, *columns, strict=True)
    return tuple(TaskMinuteDocument(task=task, **dict(zip(names, row, strict=True))) for task, *row in rows)


def _listed(decision: DecisionDocument) -> DecisionDocument:
    """Return a decision as lists show it: without what its tasks looked at."""
    tasks = tuple(replace(task, looked_at=()) for task in decision.record.tasks)
    return replace(decision, record=replace(decision.record, tasks=tasks))


def _freshness(document: WindowDocument | DecisionDocument) -> int | msgspec.UnsetType:
    """Return the time from the append of the record that closed the minute to the append of this one."""
    closed_ms = document.record.closed_append_ms
    return UNSET if closed_ms is None else document.appended_ms - closed_ms
