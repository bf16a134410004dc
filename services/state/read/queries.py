"""All queries on the view: they return the documents that the HTTP API answers with and the commands print. Writes nothing."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Balance, Outcome, Progress, RescheduleCommand
from surescale.contracts.figures import known_count
from surescale.contracts.ids import cluster_of, command_id
from surescale.contracts.job_labels import in_force
from surescale.contracts.job_limits import all_bounds, at_time, minimum_within, most_in_words, total_limit
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import SLOT_PRICES_MAX, ClusterTopology, DeadLetter, EngineEvent, JobTopology, SlotPrice
from surescale.contracts.modes import mode_in_force
from surescale.contracts.own_acts import WHY, own_act_of
from surescale.contracts.releases import Release
from surescale.contracts.rescaler_state import BalanceMemory, ClusterMemory, JobControl
from surescale.contracts.suggestions import near
from surescale.contracts.summaries import TaskMinutes, WindowSummary
from surescale.contracts.topology import RESTING
from surescale.runtime.kafka_clock import KAFKA_CLOCK
from surescale.services.state import keys
from surescale.services.state.documents import (
    HistoryDocument,
    JobDocument,
    JobOverview,
    JobRent,
    TaskBoundsDocument,
    TaskHistoryDocument,
    TaskMinuteDocument,
)
from surescale.services.state.fleet_documents import (
    ClusterDocument,
    ClusterInfo,
    ClusterOverview,
    Counts,
    PipelineDocument,
    PoliciesDocument,
    ShadowSummary,
    StoredAnswer,
)
from surescale.services.state.read.fleet import (
    DecidedBy,
    JobUnits,
    Newest,
    cluster_info,
    cluster_overview,
    dated_ahead,
    pipeline,
    policies,
)
from surescale.services.state.read.history import MarkedDecision, history
from surescale.services.state.read.rent import Prices, cluster_rent, job_rent
from surescale.services.state.read.shadows import dollars_per_unit_minute, summaries
from surescale.services.state.read.staleness import (
    FRESH_MINUTES,
    Present,
    at_fault,
    next_decision,
    next_in_words,
    single,
    stale_of,
    unkept_in_words,
)
from surescale.services.state.read.status import conditions_of, status_of
from surescale.services.state.read.stored import Documents, decoded, record_of
from surescale.services.state.read.task_figures import DecidedTasks, TaskFigures, task_figures
from surescale.services.state.read.view import NotFound, StaleCursor, View
from surescale.services.state.record_documents import (
    Appended,
    CommandDocument,
    DecisionDocument,
    OwnActDocument,
    TaskMinutesAt,
    WindowDocument,
    record_in,
)

D = TypeVar("D", bound=msgspec.Struct)

LOOKS_SHOWN = 20  # the newest looks at the hosts
ENDED_SHOWN_MINUTES = 24 * 60
NO_VIEW = "no state service has kept a view under this prefix on this Redis; correct the prefix, or start its state service"
_NO_MAPPINGS = '{"appended_ms":0,"partition":0,"offset":0,"record":{}}'
STEPS_MAX = 16  # of one rescale: the last one commanded is the one that was carried out
DISTURBING = ("host_joined", "host_leaving", "host_lost", "job_restarted", "job_stopped", "job_failed")
RESCALED = "generation "  # how the simulated engine begins what it says of a restart that a command of ours caused
_TASK_FIGURES = ("parallelism", "utilisation", "backpressured", "records", "backlog", "latency_ms")
_STATUSES = ("accepted", "warming", "applied", "failed")


class Queries(View):
    """Queries on the view of one pipeline."""

    policy_folder = ""  # of the packages whose scores are shown; empty: those that ship
    clock_apart: Callable[[], str] = staticmethod(KAFKA_CLOCK.apart_in_words)
    """Says whose clock is wrong, by which nobody can say what is new; empty: nobody's that is known of."""

    # Jobs

    def jobs(self, *, after: str = "", limit: int | None = None) -> list[JobOverview]:
        """Return an overview of every job, in the order of their ids; with ``after`` or ``limit``, of a part of them.

        Jobs that ended more than a day ago are left out: one that got another name would stay for ever.
        """
        ids, now, found = self.job_ids(), self._now(), list[JobOverview]()
        ids = ids[bisect_right(ids, after) :]
        while ids and (limit is None or len(found) < limit):
            few = ids if limit is None else ids[: limit - len(found)]
            ids = ids[len(few) :]
            found += (each for each in self._overviews.of(few, now, self.span_minutes) if not _ended_long_ago(each, now))
        return found

    def overview(self, job: str) -> JobOverview:
        """Return a job in one line.

        Raises:
            NotFound: no topic has named it.
        """
        self._require_job(job)
        return self._overviews.of([job], self._now(), self.span_minutes)[0]

    def why_empty(self) -> str:
        """Return why no job is shown, where more is wrong than that none is known yet; empty: nothing is."""
        return unkept_in_words(self._now()) or ("" if self.positions() else NO_VIEW)

    def is_at_rest(self, job: str) -> bool:
        """Say whether surescale has a job at rest, and its source has seen just now that nothing waits for it.

        Raises:
            NotFound: no topic has named it.
        """
        seen = self.overview(job)
        # Whoever scales it can wake it without the rescaler, too.
        if seen.state != RESTING or seen.status not in ("resting", "stalled"):
            return False
        topology = self._topology(job, Documents())
        if topology is None or topology.quiet is None or self._now().minutes_since(topology.at_ms) > FRESH_MINUTES:
            return False
        return not topology.quiet.waiting and not topology.quiet.why

    def job(self, job: str) -> JobDocument:
        """Return everything known of a job.

        Raises:
            NotFound: no topic has named it.
        """
        self._require_job(job)
        read = Documents()
        fields = self._client.hmget(self._key(keys.job(job)), ("topology", "settings", "gate"))
        topology = read.one("topology", fields[0], Appended[JobTopology])
        settings = read.one("settings", fields[1], Appended[JobSettings])
        hosts = self._hosts_of(job, read)
        ran, wanted = record_in(topology), record_in(settings)
        mode = mode_in_force(wanted, ran, hosts.engine if hosts else None)
        window = read.one("window", self._newest("windows", job), WindowDocument)
        decision = read.one("decision", self._newest("decisions", job), DecisionDocument)
        command = read.one("command", self._newest("commands", job), CommandDocument)
        gate = read.one("gate", fields[2], Appended[JobControl])
        now = self._now()
        seen, control = record_in(window), record_in(gate)
        minutes = self._task_minutes(job, seen, 1, read) if seen else []
        allowed = in_force(wanted or JobSettings(job=job), ran.labels) if ran else None
        signs = self._overviews.signs(job)
        stale = stale_of(ran, signs, now, self.span_minutes, control)
        until_ms, known = (seen.window_end_ms, seen.minutes_known) if seen else (None, 0)
        due = next_decision(ran, wanted, until_ms, known, signs.decided_ms, self.span_minutes)
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
            rent=self._rent(ran, hosts, read) if ran and hosts else None,
            status=status_of(ran, control, seen, mode=mode.mode, stale=stale),
            minute_by_task=_by_task(minutes[-1].tasks) if minutes else (),
            engine=hosts.engine if hosts else None,
            bounds=tuple(_bounds(ran, allowed, seen.window_end_ms if seen else None)) if ran and allowed else (),
            total_most=total_limit(allowed, ran.engine) if ran and allowed else None,
            conditions=conditions_of(ran, control, seen, stale),
            stale=stale,
            next_decision=None if stale else due,
            next_in_words=next_in_words(ran, stale, due),
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
        topology = self._topology(job, read)
        hosts = self._hosts_of(job, read)
        # Where the engine places, nobody remembers what former sizes cost.
        rent = Prices(hosts).per_day(topology) if topology and hosts and hosts.engine.places == "commanded" else None
        fixed = frozenset(task.task for task in topology.tasks if not task.scalable) if topology else frozenset()
        return history(job, (window.record for window in windows), marks, commands, rent, fixed=fixed, unreadable=read.unreadable)

    def task_history(self, job: str, task: str, minutes: int) -> TaskHistoryDocument:
        """Return one task's last minutes as columns.

        Raises:
            NotFound: no topic has named the job, or it has no such task.
        """
        self._require_job(job)
        read = Documents()
        newest = read.part("window", self._newest("windows", job), WindowSummary)
        rows = [
            (each.version, row)
            for each in (self._task_minutes(job, newest, minutes, read) if newest else ())
            for row in _by_task(each.tasks)
            if row.task == task
        ]
        topology = self._topology(job, read)
        known = [spec.task for spec in topology.tasks] if topology else []
        if not rows and task not in known:
            raise NotFound("task", task, near(task, known))
        return TaskHistoryDocument(
            job=job,
            task=task,
            window_end_ms=tuple(end_ms for end_ms, _ in rows),
            figures={name: tuple(getattr(row, name) for _, row in rows) for name in _TASK_FIGURES},
            unreadable=read.unreadable,
        )

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
        bodies = self._latest("events", cluster_of(job), keys.EVENTS_KEPT)
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
        topology = self._topology(job, Documents())
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

    def _task_minutes(self, job: str, newest: WindowSummary, minutes: int, read: Documents) -> list[TaskMinutesAt]:
        """Return a job's last minutes up to its newest window's, task by task, oldest first."""
        ends = range(newest.window_end_ms, newest.window_end_ms - minutes * MINUTE_MS, -MINUTE_MS)
        places = dict.fromkeys(keys.minute_place(end_ms, newest.tasks) for end_ms in ends)
        bodies = self._client.hmget(self._key(keys.minutes(job)), places)
        found = (read.part("minutes", body, TaskMinutesAt) for body in bodies)
        return sorted((each for each in found if each and each.version in ends), key=lambda each: each.version)

    def _topology(self, job: str, read: Documents) -> JobTopology | None:
        return read.part("topology", self._client.hget(self._key(keys.job(job)), "topology"), JobTopology)

    def _hosts_of(self, job: str, read: Documents) -> ClusterTopology | None:
        return read.part("hosts", self._client.hget(self._key(keys.cluster(cluster_of(job))), "topology"), ClusterTopology)

    def _commands(self, job: str, after: str, limit: int, read: Documents) -> list[CommandDocument]:
        ids = self._page("commands", job, after, limit)
        found = read.each("command", self._bodies("commands", job, ids), CommandDocument)
        return self._with_progress(job, [(command, read) for command in found])

    def _rent(self, topology: JobTopology, hosts: ClusterTopology, read: Documents) -> JobRent | None:
        """What the job costs now; its savings are known if its generation came from a command with a placement."""
        steps = [command_id(topology.job, topology.generation, step) for step in range(STEPS_MAX)]
        commands = read.each("command", self._bodies("commands", topology.job, steps), Appended[RescheduleCommand])
        sums = self._client.hgetall(self._key(keys.days(topology.job)))
        told = self._latest("prices", hosts.cluster, SLOT_PRICES_MAX)
        prices = [each.record for each in read.each("prices", told, Appended[SlotPrice])]
        return job_rent(topology, hosts, commands[-1].record if commands else None, sums, prices)

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

    # Everything together

    def cluster(self, cluster: str) -> ClusterDocument:
        """Return a cluster's hosts, jobs, placement and latest events.

        Raises:
            NotFound: no topic has named it.
        """
        self._require_cluster(cluster)
        fields = self._client.hgetall(self._key(keys.cluster(cluster)))
        read = Documents()
        hosts = read.one("topology", fields.get("topology"), Appended[ClusterTopology])
        jobs = self._jobs_of(cluster)
        topologies = [each.record for each in self._topologies(jobs, read)]
        settings = read.part("settings", fields.get("settings"), JobSettings)
        return ClusterDocument(
            cluster=cluster,
            topology=hosts,
            placement=read.one("placement", fields.get("placement"), Appended[ClusterMemory]),
            balance=read.one("balance", fields.get("balance"), Appended[BalanceMemory]),
            balances=read.each("balances", self._latest("balances", cluster, LOOKS_SHOWN), Appended[Balance]),
            policy_release=read.one("policy_release", fields.get("policy_release"), Appended[Release]),
            pause=settings.pause if settings else None,
            jobs=tuple(jobs),
            rent=cluster_rent(topologies, hosts.record) if hosts else None,
            events=read.each("events", self._latest("events", cluster, keys.EVENTS_KEPT), Appended[EngineEvent]),
            unreadable=read.unreadable,
        )

    def clusters(self) -> list[ClusterOverview]:
        """Return every cluster in one line."""
        jobs: dict[str, list[str]] = {cluster: [] for cluster in self._clusters()}
        for job in self.job_ids():
            jobs.setdefault(cluster_of(job), []).append(job)
        return [self._cluster_overview(cluster, of) for cluster, of in jobs.items()]

    def only_cluster(self) -> str:
        """Return the name of the only cluster.

        Raises:
            NotFound: there is none, or more than one.
        """
        clusters = self._clusters()
        if len(clusters) != 1:
            raise NotFound("cluster", "that is the only one", clusters)
        return clusters[0]

    def cluster_info(self, cluster: str) -> ClusterInfo:
        """Return workers with their units and the fragments on them (`services.state.read.fleet`).

        Raises:
            NotFound: no topic has named the cluster, or its hosts are not known yet.
        """
        self._require_cluster(cluster)
        body, placed = self._client.hmget(self._key(keys.cluster(cluster)), ("topology", "placement"))
        if body is None:
            raise NotFound("topology of cluster", cluster)
        placement = None if placed is None else record_of(placed, ClusterMemory)
        read = Documents()
        jobs = []
        for job, (topology, mappings) in self._fields_of(self._jobs_of(cluster), "topology", "mappings"):
            known = read.part(job, topology, JobTopology)
            moved = read.part(job, mappings or _NO_MAPPINGS, dict[str, tuple[int, ...]])
            if known is not None and moved is not None:
                jobs.append(JobUnits(known, moved))
        info = cluster_info(record_of(body, ClusterTopology), jobs, placement.placement_generation if placement else 0)
        return replace(info, unreadable_jobs=read.unreadable)

    def policies(self) -> PoliciesDocument:
        """Return which policy made each job's latest decision, the releases, and the record of shadow policies."""
        from surescale.policies.scores import judged_line  # reads packages: a list of jobs need not wait for it

        read = Documents()
        latest = self._newest_documents("decisions", Appended[DecidedBy], read)
        found = [self._client.hgetall(self._key(keys.releases(cluster))) for cluster in self._clusters()]
        bodies = [fields[place] for fields in found for place in sorted(fields)]
        releases = read.each("policy releases", bodies, Appended[Release])
        return policies((each.record for each in latest), releases, self.shadows(), partial(judged_line, self.policy_folder))

    def shadows(self) -> tuple[ShadowSummary, ...]:
        """Return how each shadow policy compares with the decisions that were made."""
        read, answers, clusters = Documents(), list[StoredAnswer](), set[str]()
        for job, body in self._all_of_each("shadows"):
            if (answer := read.part(job, body, StoredAnswer)) is not None:
                answers.append(answer)
                clusters.add(cluster_of(job))
        return summaries(answers, {cluster: self._unit_minute(cluster, read) for cluster in clusters}) if answers else ()

    def shadow_answers(self, job: str, limit: int, *, after: str = "") -> list[Appended[StoredAnswer]]:
        """Return the latest answers of shadow policies on a job, newest first; with ``after``, those before that one.

        Raises:
            NotFound: no topic has named the job.
            StaleCursor: the answer of that identity is no longer in the view.
        """
        self._require_job(job)
        bodies = self._bodies("shadows", job, self._page("shadows", job, after, limit))
        return list(Documents().each("shadows", bodies, Appended[StoredAnswer]))

    def _unit_minute(self, cluster: str, read: Documents) -> float | None:
        hosts = read.part("topology", self._client.hget(self._key(keys.cluster(cluster)), "topology"), ClusterTopology)
        return dollars_per_unit_minute(hosts.hosts) if hosts else None

    def positions(self) -> dict[str, int]:
        """Return the offsets that the view stands for, by ``topic/partition``."""
        stored = self._client.hgetall(self._key(keys.POSITIONS))
        return {place: at for place, offset in sorted(stored.items()) if (at := known_count(offset)) is not None}

    def all_positions(self) -> Mapping[str, int]:
        """Return the offsets of all views that are read, which are those of one."""
        return self.positions()

    def pipeline(self) -> PipelineDocument:
        """Return the pipeline as the view sees it."""
        read = Documents()
        decided = self._newest_documents("decisions", Appended[DecidedBy], read)
        windows = self._newest_documents("windows", Appended[WindowSummary], read)
        commands = self._newest_documents("commands", Appended[RescheduleCommand], read)
        progress = self._newest_documents("progress", Appended[Progress], read)
        newest: dict[str, Newest] = {
            "agent": _newest_of((each.record.span_end_ms, each.appended_ms) for each in decided),
            "spark": _newest_of((each.record.window_end_ms, each.appended_ms) for each in windows),
            "rescaler": _newest_of((each.record.issued_at_ms, each.appended_ms) for each in commands),
            "actuators": _newest_of((each.record.at_ms, each.appended_ms) for each in progress),
            "monitor": _newest_of((each.record.at_ms, each.appended_ms) for each in self._topologies(self.job_ids(), read)),
        }
        clocks = self.clocks()
        if clocks:
            newest["engine"] = _newest_of((clock.record.until_ms, clock.appended_ms) for clock in clocks.values())
        fresh = [each.appended_ms - closed_ms for each in decided if (closed_ms := each.record.closed_append_ms) is not None]
        newest["state"] = max(newest.values(), key=lambda each: each[1] or 0)
        problems: dict[str, str] = {} if clocks else dated_ahead(newest)
        if words := self.clock_apart():
            problems["state"] = words
        now = self._now()
        if (unkept := unkept_in_words(now)) and "state" not in problems:
            problems["state"] = unkept
        notes: defaultdict[str, list[str]] = defaultdict(list)
        for cluster in self._clusters():
            hosts = read.part("topology", self._client.hget(self._key(keys.cluster(cluster)), "topology"), ClusterTopology)
            if hosts is not None and hosts.monitor:
                notes["monitor"].append(f"{hosts.monitor} watches {cluster}")
        overviews = self._overviews.of(self.job_ids(), now, self.span_minutes)
        for stale in single(overviews):
            notes[stale.role].append(stale.words)
        for _, stale in at_fault(overviews):
            if unkept and stale.role == "state":
                continue  # of the whole view, and said once
            problems[stale.role] = f"{problems[stale.role]}; {stale.words}" if stale.role in problems else stale.words
        return pipeline(self.positions(), newest, self.counts(), clocks, fresh, problems, notes)

    def dead_letters(self, limit: int, *, after: str = "") -> list[Appended[DeadLetter]]:
        """Return the latest refused records, newest first; with ``after``, those before the one of that place.

        Raises:
            StaleCursor: that one is no longer in the view.
        """
        # A scan may name a key twice.
        found = set(self._client.scan_iter(match=self._key.pattern(keys.bodies("dead-letters", "*")), count=1000))
        bodies = [body for key in found for body in self._client.hvals(key)]
        letters = list(Documents().each("dead letters", bodies, Appended[DeadLetter]))
        letters.sort(key=lambda letter: (letter.appended_ms, place_of(letter)), reverse=True)
        if not after:
            return letters[:limit]
        places = [place_of(letter) for letter in letters]
        if after not in places:
            raise StaleCursor(after)
        return letters[places.index(after) + 1 :][:limit]

    def counts(self) -> Counts:
        """Return how many distinct records there were, by kind and, within it, by what tells them apart."""
        stored = {name: int(count) for name, count in self._client.hgetall(self._key(keys.COUNTS)).items()}
        return _nested({name: count for name, count in stored.items() if count})

    def _cluster_overview(self, cluster: str, jobs: Sequence[str]) -> ClusterOverview:
        read = Documents()
        topology, release = self._client.hmget(self._key(keys.cluster(cluster)), ("topology", "policy_release"))
        hosts = read.part("topology", topology, ClusterTopology)
        rent = cluster_rent((each.record for each in self._topologies(jobs, read)), hosts) if hosts else None
        return cluster_overview(
            cluster, hosts, len(jobs), rent.per_day if rent else None, read.part("policy_release", release, Release)
        )

    def _topologies(self, jobs: Sequence[str], read: Documents) -> list[Appended[JobTopology]]:
        """Return the topology of each job that has one."""
        found = (read.one(job, body, Appended[JobTopology]) for job, (body,) in self._fields_of(jobs, "topology"))
        return [topology for topology in found if topology is not None]

    def _newest_documents(self, timeline: str, kind: type[D], read: Documents) -> list[D]:
        """Return the newest document of each job that has one."""
        found = (read.one(job, body, kind) for job, body in self._newest_of_each(timeline))
        return [document for document in found if document is not None]


def _by_task(minute: TaskMinutes) -> tuple[TaskMinuteDocument, ...]:
    """Return the columns as one document a task."""
    rows = zip(minute.tasks, *(getattr(minute, name) for name in _TASK_FIGURES), strict=True)
    return tuple(TaskMinuteDocument(task=task, **dict(zip(_TASK_FIGURES, row, strict=True))) for task, *row in rows)


def _ended_long_ago(job: JobOverview, now: Present) -> bool:
    return job.state == "finished" and job.seen_ms is not None and now.minutes_since(job.seen_ms) > ENDED_SHOWN_MINUTES


def _bounds(topology: JobTopology, settings: JobSettings, at_ms: int | None) -> Iterator[TaskBoundsDocument]:
    """Yield what is in force for each scalable task at a time; None: whatever its periods say."""
    within = 0
    if at_ms is not None:
        within, settings = minimum_within(settings, at_ms), at_time(settings, topology.engine, at_ms)
    specs = [spec for spec in topology.tasks if spec.scalable]
    for spec, bounds in zip(specs, all_bounds(settings, specs, topology.engine, within), strict=True):
        yield TaskBoundsDocument(
            task=spec.task,
            least=bounds.least,
            most=bounds.most,
            most_in_words=most_in_words(settings, spec, topology.engine),
            pinned=bounds.pinned,
        )


def _listed(decision: DecisionDocument) -> DecisionDocument:
    """Return a decision as lists show it: without what its tasks looked at."""
    tasks = tuple(replace(task, looked_at=()) for task in decision.record.tasks)
    return replace(decision, record=replace(decision.record, tasks=tasks))


def _freshness(document: WindowDocument | DecisionDocument) -> int | msgspec.UnsetType:
    """Return the time from the append of the record that closed the minute to the append of this one."""
    closed_ms = document.record.closed_append_ms
    return UNSET if closed_ms is None else document.appended_ms - closed_ms


def place_of(letter: Appended[DeadLetter]) -> str:
    """Return the place of a refused record, ``topic/partition/offset``: its identity."""
    refused = letter.record
    return f"{refused.topic}/{refused.partition}/{refused.offset}"


def _newest_of(times: Iterable[tuple[int, int]]) -> Newest:
    return max(times, key=lambda pair: pair[1], default=(None, None))


def _nested(flat: dict[str, int]) -> Counts:
    """Return counts in groups: ``decisions.act`` stands under ``decisions``."""
    nested: Counts = {}
    for name in sorted(flat):
        whole, _, part = name.partition(".")
        group = nested.setdefault(whole, {}) if part else None
        if isinstance(group, dict):
            group[part] = flat[name]
        else:
            nested[whole] = flat[name]
    return nested
