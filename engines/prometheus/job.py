"""Looks at one job: asks Prometheus for each of its figures, for all tasks at once, as they were at the end of the minute."""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import EventKind, Input, JobTopology, ReceivedRecords, TaskSample, TaskSpec
from surescale.contracts.topology import check_topology, under_lasting_version
from surescale.engines.groups.workers import MembersEach
from surescale.engines.ports.event_log import EventLog, changes
from surescale.engines.ports.minutes import LEAD_MS, Clock, JobSnapshot
from surescale.engines.ports.requirement import Required
from surescale.engines.ports.source import HELD, SourceUnavailable
from surescale.engines.prometheus.client import PrometheusClient, PrometheusUnavailable, QueryRefused
from surescale.engines.prometheus.jobs import SETTING, WatchedJob
from surescale.engines.prometheus.ledger import Ledger, SubtaskRoster
from surescale.engines.prometheus.mappings import FigureName
from surescale.engines.prometheus.readings import Key, Reading, ReadResult, Subtask, read

BEHIND_MINUTES = (10, 60)
"""How far back to look for series that are not there now, to tell figures that come late from ones that never come."""
NUMBERED = ("subtask_index",)
"""Labels that number the subtasks from 0, as Flink's do."""
_NUMBER = re.compile(r"[0-9]{1,9}")
SUBTASKS_MAX = 100_000
TOLD_MAX = 100
_log = logging.getLogger("surescale.monitor")


@dataclass(slots=True)
class _Answers:
    readings: dict[FigureName, dict[Key, Reading]] = field(default_factory=dict)
    replica: int = 0


class PrometheusJob:
    """Looks at one job, for one thread. The first look only notes where the counters stand.

    An attempt is a set of subtasks whose counters go on: when one joins, leaves or starts over, all totals begin again.
    """

    def __init__(
        self,
        job: str,
        watched: WatchedJob,
        replicas: Sequence[PrometheusClient],
        engine: str,
        requirement: Callable[[str], Required | None],
        failing: Callable[[str, str], str],
        events: EventLog,
        clock: Clock,
    ) -> None:
        """Look at nothing yet.

        Args:
            job: its id.
            watched: its tasks and figures.
            replicas: of Prometheus, in the order in which they are asked.
            engine: kind of engine that runs the job.
            requirement: what the actuator was asked for, None where it is not known.
            failing: how the workers of a task fail to start.
            events: what happened.
            clock: of the wall.
        """
        self._job, self._watched, self._replicas, self._engine = job, watched, tuple(replicas), engine
        self._requirement, self._failing, self._events, self._clock = requirement, failing, events, clock
        self._ledger = Ledger(watched)
        # Flink runs what it is asked for, in whatever pods.
        self._each = {task: MembersEach() for task in watched.tasks} if engine == "kafka" else {}
        self._rosters = {task: SubtaskRoster() for task in watched.tasks}
        self._replica = 0
        self._attempt = 0
        self._told: set[str] = set()
        self._topology: JobTopology | None = None

    def look(self) -> JobSnapshot:
        """Look at the job at the end of the minute; takes a request a figure and two or three more.

        Raises:
            SourceUnavailable: no replica gives a usable answer.
        """
        at_ms = (self._clock.now_ms() + LEAD_MS) // MINUTE_MS * MINUTE_MS
        try:
            answers = self._from_one_replica(at_ms)
            present = self._present(answers.readings)
            down = self._down(answers.replica, present, at_ms)
            required = self._requirement(self._watched.name)
        except (PrometheusUnavailable, QueryRefused) as problem:
            raise SourceUnavailable(f"{self._job}: {problem}; {HELD}") from None
        is_first = not self._attempt
        self._ledger.note(answers.readings, at_ms, is_other=answers.replica != self._replica)
        self._replica = answers.replica
        for number, words in enumerate(self._ledger.notes):
            _log.warning("%s: %s", self._job, words, extra={"job": self._job})
            self._events.add("exception", f"offsets{number}:{self._job}:{at_ms}", at_ms, job=self._job, detail=words)
        before = [(task, len(roster.members)) for task, roster in self._rosters.items()]
        has_changed = [roster.note(present[task], down) for task, roster in self._rosters.items()]
        if is_first or any(has_changed) or self._ledger.started_over:
            self._begin_attempt(before, at_ms)
        samples = [sample for task in self._watched.tasks for sample in self._samples_of(task, present[task], at_ms)]
        return JobSnapshot(self._topology_of(required, at_ms), () if is_first else tuple(samples))

    # What is asked

    def _from_one_replica(self, at_ms: int) -> _Answers:
        """Return what one replica answers, the last good one if it does: two are never mixed in one look."""
        order = sorted(range(len(self._replicas)), key=lambda each: each != self._replica)
        problems = []
        for replica in order:
            try:
                return _Answers(self._ask(self._replicas[replica], at_ms), replica)
            except PrometheusUnavailable as problem:
                problems.append(problem)
        raise problems[0]

    def _ask(self, prometheus: PrometheusClient, at_ms: int) -> dict[FigureName, dict[Key, Reading]]:
        ahead_ms = prometheus.now_ms() - self._clock.now_ms()
        if abs(ahead_ms) > self._watched.fresh_ms:
            which = "ahead of" if ahead_ms > 0 else "behind"
            raise PrometheusUnavailable(
                f"the clock of {prometheus.url} is {abs(ahead_ms) // 1000} s {which} this machine's; set both by the same time "
                "server"
            )
        found: dict[FigureName, dict[Key, Reading]] = {}
        for name in self._watched.figures:
            try:
                answer = self._read(prometheus, name, at_ms)
            except QueryRefused as refused:
                raise QueryRefused(f"{SETTING}: {self._watched.name}.figures.{name}: {refused}") from None
            found[name] = answer.readings
            if not answer.readings:
                self._tell(f"figures.{name} gives no series: it stays unknown; correct its query, or leave it out")
            for other in sorted(answer.unknown) if name == "records_in" else ():
                self._tell(f"Prometheus has series of {other!r}, which is not a task of the job; name it in {SETTING}")
        self._check_records(prometheus, found, at_ms)
        return found

    def _read(self, prometheus: PrometheusClient, name: FigureName, at_ms: int) -> ReadResult:
        with prometheus.keeping_place() as place:
            return read(self._watched, name, prometheus.dated(self._watched.figures[name].query, at_ms, place), at_ms)

    def _check_records(self, prometheus: PrometheusClient, found: dict[FigureName, dict[Key, Reading]], at_ms: int) -> None:
        """Refuse answers without fresh records of every task, and say why there are none."""
        of_task: dict[str, list[Reading]] = {task: [] for task in self._watched.tasks}
        for key, reading in found["records_in"].items():
            of_task[key.task].append(reading)
        for task, readings in of_task.items():
            if not readings:
                raise PrometheusUnavailable(
                    f"{prometheus.url} has no series of {self._named(task)}{self._why_none(prometheus, task, at_ms)}"
                )
            newest_ms = max(reading.at_ms for reading in readings)
            if at_ms - newest_ms > self._watched.fresh_ms:
                raise PrometheusUnavailable(
                    f"{prometheus.url} last scraped {self._named(task)} {(at_ms - newest_ms) // 1000} s ago; let it scrape every "
                    f"minute or more often, or raise {self._watched.name}.fresh_s in {SETTING}"
                )

    def _why_none(self, prometheus: PrometheusClient, task: str, at_ms: int) -> str:
        for minutes in BEHIND_MINUTES:
            earlier = self._read(prometheus, "records_in", at_ms - minutes * MINUTE_MS)
            if any(key.task == task for key in earlier.readings):
                return f" now, but {minutes} minutes ago it had: look at its targets, its clock and its remote write"
        return f"; start it, or correct series, select or figures.records_in in {SETTING}"

    def _named(self, task: str) -> str:
        label, series = self._watched.figures["records_in"].task, self._watched.series_of(task)
        return f"task {task} ({label}={series!r})"

    def _present(self, readings: dict[FigureName, dict[Key, Reading]]) -> dict[str, dict[Subtask, tuple[str, str]]]:
        """Return the subtasks of each task that show figures, and what was scraped for each."""
        found: dict[str, dict[Subtask, tuple[str, str]]] = {task: {} for task in self._watched.tasks}
        if "parallelism" in self._watched.figures:
            counts = {key.task: reading.value for key, reading in readings["parallelism"].items()}
            for task, subtasks in found.items():
                count = counts.get(task)
                if count is None:
                    raise PrometheusUnavailable(
                        f"figures.parallelism gives nothing fresh for task {task}; correct it in {SETTING}"
                    )
                if count > SUBTASKS_MAX:
                    raise QueryRefused(f"figures.parallelism gives {count:.0f} for task {task}; {SUBTASKS_MAX} is the most")
                subtasks.update({(str(index),): ("", "") for index in range(int(count))})
            return found
        for key, reading in readings["records_in"].items():
            if reading.value is not None:
                found[key.task][key.subtask] = reading.target
        if self._watched.figures["records_in"].subtask == NUMBERED:
            for task, subtasks in found.items():
                _check_numbers(task, subtasks)
        return found

    def _down(self, replica: int, present: dict[str, dict[Subtask, tuple[str, str]]], at_ms: int) -> frozenset[tuple[str, str]]:
        """Return what cannot be scraped, if somebody is missing; else nothing is asked."""
        missing = {each for task, roster in self._rosters.items() for each in roster.missing(present[task])}
        if not missing - {("", "")}:
            return frozenset()
        with self._replicas[replica].keeping_place() as place:
            found = self._replicas[replica].vector("up == 0", at_ms, place)
            return frozenset((labels.get("job", ""), labels.get("instance", "")) for labels, _ in found)

    # Figures

    def _begin_attempt(self, before: list[tuple[str, int]], at_ms: int) -> None:
        self._ledger.begin_attempt()
        now = [(task, len(roster.members)) for task, roster in self._rosters.items()]
        kind: EventKind
        if not self._attempt:
            kind, event_id, detail = "job_started", f"watched:{self._job}:{at_ms}", "watched from now on"
        elif words := changes(before, now):
            kind, event_id, detail = "rescaled", f"subtasks:{self._job}:{at_ms}", words
        else:
            kind, event_id, detail = "job_restarted", f"subtasks:{self._job}:{at_ms}", "subtasks started over, as many as before"
        self._events.add(kind, event_id, at_ms, job=self._job, detail=detail)
        self._attempt = max(at_ms, self._attempt + 1)

    def _samples_of(self, task: str, present: dict[Subtask, tuple[str, str]], at_ms: int) -> list[TaskSample]:
        members, upstream = self._rosters[task].members, self._watched.upstream(task)
        is_counted = "parallelism" in self._watched.figures
        found = []
        for index, subtask in enumerate(members):
            if subtask not in present:
                continue  # it may come back
            sample = self._sample(task, () if is_counted else subtask, index, upstream, at_ms)
            if sample is not None:
                found.append(sample)
        return found

    def _sample(self, task: str, subtask: Subtask, index: int, upstream: tuple[str, ...], at_ms: int) -> TaskSample | None:
        """Return a sample, None if it is not known how many records there were: no sample says so."""
        count, watched = len(self._rosters[task].members), self._watched

        def of(name: FigureName) -> int | None:
            return self._ledger.of(name, task, subtask, index, count)

        records_in, records_out = of("records_in"), of("records_out")
        if records_out is None and watched.is_last(task):
            records_out = 0  # nobody comes after it
        if records_in is None or records_out is None:
            return None
        if not upstream and not records_in and watched.joined_by == "buffers":
            records_in = records_out  # some sources do not count what they let in
        return TaskSample(
            job=self._job,
            task=task,
            subtask=index,
            attempt=self._attempt,
            sampled_at_ms=at_ms,
            records_in=records_in,
            records_out=records_out,
            bytes_in=of("bytes_in") or 0,
            bytes_out=of("bytes_out") or 0,
            busy_ms=of("busy"),
            idle_ms=of("idle"),
            backpressured_ms=0 if watched.joined_by == "topics" else of("backpressured"),  # a topic holds nobody back
            queued_records=of("queued"),
            parallelism=count,
            state_bytes=of("state_bytes") or 0,
            arrived_records=None if upstream else of("arrived"),
            received=(ReceivedRecords(task=upstream[0], records=records_in),) if len(upstream) == 1 else (),
            in_pool_permille=_permille(self._ledger.share("in_pool", task, subtask)),
            out_pool_permille=_permille(self._ledger.share("out_pool", task, subtask)),
            watermark_lag_ms=of("watermark_lag"),
            as_of_ms=self._ledger.as_of_ms(task, subtask),
        )

    # Topology

    def _topology_of(self, required: Required | None, at_ms: int) -> JobTopology:
        is_empty = any(not roster.members for roster in self._rosters.values())
        topology = JobTopology(
            job=self._job,
            version=at_ms,
            at_ms=at_ms,
            tasks=tuple(self._spec(task, required, at_ms) for task in self._watched.tasks),
            attempt=self._attempt,
            state="suspended" if is_empty else "running",
            engine=self._engine,
            epoch=required.epoch if required is not None else "",
            requirement_id=required.id if required is not None else "",
            engine_name=self._watched.name,
            labels=self._watched.labels,
        )
        try:
            check_topology(topology)
        except RecordRejected as rejected:
            raise SourceUnavailable(f"{self._job}: {rejected}; correct {SETTING}") from None
        self._topology = under_lasting_version(topology, self._topology)
        return self._topology

    def _spec(self, task: str, required: Required | None, at_ms: int) -> TaskSpec:
        spec, count, upstream = self._watched.tasks[task], len(self._rosters[task].members), self._watched.upstream(task)
        asked = (required.counts.get(task) or None) if required is not None else None
        by_topics = self._watched.joined_by == "topics"
        before = {each.task: each.parallelism for each in self._topology.tasks} if self._topology is not None else {}
        silent = "" if count else f"{self._named(task)} has no subtasks; start its workers"
        return TaskSpec(
            task=task,
            upstream=upstream,
            parallelism=count or before.get(task, 1),
            max_parallelism=max(spec.max_parallelism, count),
            scalable=spec.scalable,
            stateful=spec.stateful,
            sharing_group=spec.sharing_group or (task if by_topics else "default"),
            inputs=tuple(Input(task=each, ship="hash") for each in upstream) if by_topics else (),
            required=asked,
            fixed=self._each[task].look(self._rosters[task].members, asked, at_ms) if task in self._each else "",
            backlog_partly_unknown=self._ledger.partly_unknown(task),
            useful_max=spec.useful_max,
            hindrance=self._failing(self._watched.name, task) or silent,
        )

    def _tell(self, words: str) -> None:
        """Say something once."""
        if words not in self._told and len(self._told) < TOLD_MAX:
            self._told.add(words)
            _log.warning("%s: %s", self._job, words, extra={"job": self._job})


def _check_numbers(task: str, subtasks: Iterable[Subtask]) -> None:
    """Refuse subtasks that are numbered with gaps: what is not scraped must not look as if it did not run."""
    numbers = {int(number) for (number,) in (each for each in subtasks if len(each) == 1) if _NUMBER.fullmatch(number)}
    gap = next((number for number in range(len(numbers)) if number not in numbers), None)
    if gap is not None:
        raise PrometheusUnavailable(
            f"task {task} has fresh series of subtask {max(numbers)} and none of subtask {gap}; let Prometheus scrape every "
            "process of the job"
        )


def _permille(share: float | None) -> int | None:
    return None if share is None else min(1000, round(1000 * share))
