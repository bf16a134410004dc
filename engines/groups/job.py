"""Looks at one job: the groups of a chain, what waits for each, who reads what, what each member has got through."""

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import RecordRejected
from surescale.contracts.figures import known_count
from surescale.contracts.messages import (
    Carries,
    ConsumerGroup,
    EventKind,
    GroupWorker,
    Input,
    JobState,
    JobTopology,
    Quiet,
    ReceivedRecords,
    TaskSample,
    TaskSpec,
)
from surescale.contracts.topology import RESTING, check_topology, under_lasting_version
from surescale.engines.groups.broker import GroupDescription, GroupReader, GroupsUnavailable
from surescale.engines.groups.busy import Busy, busy_of
from surescale.engines.groups.chains import Chain
from surescale.engines.groups.hindrance import Hindrance, Hindrances
from surescale.engines.groups.shown import SHOWN_MAX, shown
from surescale.engines.groups.workers import HINDRANCE_LETTERS_MAX, MembersEach
from surescale.engines.kafka.deals import Rates, shared
from surescale.engines.kafka.offsets import OffsetsUnavailable, TopicOffsets
from surescale.engines.kafka.positions import Answer, Partition, Positions, in_words
from surescale.engines.ports.event_log import EventLog, changes
from surescale.engines.ports.minutes import Clock, JobSnapshot
from surescale.engines.ports.requirement import Required
from surescale.engines.ports.source import HELD, SourceUnavailable, UnknownJob
from surescale.runtime.backoff import Throttle
from surescale.runtime.printable import printable

ENGINE = "kafka"
MEMBERS_MAX = 10_000
REBALANCE_MS = 5_000
"""A group that rebalances is asked again for so long; then what its commits have done meanwhile says whether it is at work."""
BUSY_MOST = 4.0
"""A counter that grew by so many times the time since it last moved counts no time of one member, or has gone on from before."""
IDLE_COVERS_S = 90.0
"""A Java client's poll idle ratio is a mean over the last 30 to 60 s (its two samples of half a minute). It says nothing of a
longer span, so that is unknown; half a minute is left for looks that come late."""
SAY_EVERY_S = 600.0
START_MS = 2 * MINUTE_MS
"""A group that was at rest is said to lack members only after so long."""
_WORDS_MAX = 512
_BOOKKEEPING = ("-changelog", "-__assignor-__leader")
"""Ends of the names of topics that an application has assigned to its members and reads no work from."""
_CO_PARTITIONED = re.compile(r"^streams?\Z|faust|streamspartitionassignor|co-?partition", re.IGNORECASE)
"""Assignors that give the partitions of one number of all topics to one member."""
_log = logging.getLogger("surescale.monitor")


@dataclass(slots=True)
class _Counted:
    """What one member has done since the attempt began. ``busy_s``: its own counter when last asked; it moved at ``moved_ms``."""

    records_in: int = 0
    busy_ms: int | None = None
    busy_s: float | None = None
    moved_ms: int = 0
    received: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Task:
    """What is remembered of one group."""

    positions: Positions = field(default_factory=Positions)
    rates: Rates = field(default_factory=Rates)
    members: dict[str, _Counted] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    """That counted when it last had members at rest."""
    written: int = 0
    """Records that came into its output topics since the attempt began."""
    outputs: Positions = field(default_factory=Positions)
    hindrances: Hindrances = field(default_factory=Hindrances)
    hindrance: Hindrance | None = None
    told_unknown: str = ""
    each: MembersEach = field(default_factory=MembersEach)
    settled: GroupDescription | None = None
    """The group when it was last at rest."""
    last_members: int = 1
    seldom: Throttle = field(default_factory=lambda: Throttle(SAY_EVERY_S))


class ChainJob:
    """Looks at one job, for one thread. The first look only notes where everything stands.

    An attempt is a set of members: when one joins or leaves, partitions move and all counters begin again.
    """

    def __init__(
        self,
        job: str,
        chain: Chain,
        groups: GroupReader,
        broker: TopicOffsets,
        requirement: Callable[[str], Required | None],
        failing: Callable[[str, str], str],
        workers: Callable[[str, str], tuple[GroupWorker, ...]],
        events: EventLog,
        clock: Clock,
        speed: float,
    ) -> None:
        """Look at nothing yet.

        Args:
            job: its id.
            chain: its groups.
            groups: asks the broker for groups.
            broker: asks the broker for the ends of topics.
            requirement: what the actuator was asked for, None where it is not known.
            failing: how the workers of a task fail to start.
            workers: those of a task.
            events: what happened.
            clock: of the pipeline.
            speed: milliseconds of that clock in one of the wall's.
        """
        self._job, self._chain, self._groups, self._broker = job, chain, groups, broker
        self._requirement, self._failing, self._workers = requirement, failing, workers
        self._events, self._clock, self._speed = events, clock, speed
        self._tasks = {task: _Task() for task in chain.groups}
        self._attempt = self._last_ms = self._began_ms = 0
        self._unsettled_ms: int | None = None
        self._was_settled = False
        self._stood: tuple[int, dict[str, GroupDescription]] = (0, {})  # how far unsettled groups had come, and when
        self._moving: frozenset[str] = frozenset()  # tasks whose unsettled groups are at work
        self._topology: JobTopology | None = None
        self._missing: frozenset[str] = frozenset()  # topics that the file names and the broker does not have
        self._rests = False  # nobody is asked for
        self._rested_ms: int | None = None  # when that was last so
        self._quiet_ms: int | None = None  # since which look everything is committed

    def look(self) -> JobSnapshot:
        """Look at the job; takes two requests a group and three for all topics.

        Raises:
            SourceUnavailable: no usable answer, or a group rebalances.
            UnknownJob: no file names the job, and there is no such group any more.
        """
        try:
            required = self._requirement(self._chain.name)
            self._rests = required is not None and all(required.counts.get(task) == 0 for task in self._tasks)
            asked = self._groups.look([self._chain.group_of(task) for task in self._tasks])
            told = {task: asked[self._chain.group_of(task)] for task in self._tasks}
            seen = self._settled(told)
            reads = {task: self._reads(task, seen[task]) for task in self._tasks}
            answer = self._ask(reads)
            workers = {task: self._workers(self._chain.name, task) for task in self._tasks}
        except (GroupsUnavailable, OffsetsUnavailable) as problem:
            raise SourceUnavailable(f"{self._job}: {problem}; {HELD}") from None
        now_ms = self._clock.now_ms()
        self._rested_ms = now_ms if self._rests else self._rested_ms
        is_settled = all(group.state == "stable" for group in seen.values())
        upstream = {task: self._chain.upstream(task, topics) for task, topics in reads.items()}
        for task, topics in reads.items():
            self._tasks[task].positions.look(answer, topics, now_ms)
            self._tasks[task].rates.add(self._tasks[task].positions.arrived, now_ms, self._tasks[task].positions.unknown)
            self._tasks[task].outputs.look(answer, self._chain.groups[task].writes, now_ms)
        samples = self._samples(seen, upstream, now_ms) if is_settled and not self._missing else self._none(seen, now_ms)
        for task, group in seen.items():
            self._note(task, group, now_ms)
        specs = tuple(self._spec(task, seen[task], upstream[task], required, now_ms) for task in self._tasks)
        topology = self._topology_of(specs, seen, required, now_ms)
        groups = tuple(
            self._shown(task, replace(seen[task], state=group.state), workers[task], now_ms) for task, group in told.items()
        )
        quiet = self._quiet(seen, reads, now_ms)
        return JobSnapshot(msgspec.structs.replace(topology, groups=groups, quiet=quiet), samples)

    # What is asked

    def _settled(self, seen: dict[str, GroupDescription]) -> dict[str, GroupDescription]:
        """Return the groups as they count now. Refuse a look at those that are gone or just begin to deal out partitions.

        A group of the file that has never been there is no reason: its job is shown as one that starts, with what is missing. Nor
        is one at rest whose offsets Kafka has forgotten.

        A group that goes on committing while it deals them out is at work: with cooperative protocols and KIP-848 one member that
        is slow to join again holds up only what it has to give away. One whose commits stand still, such as a whole group that
        stopped to wait for that member, is not.
        """
        for task, group in seen.items():
            is_missing = group.state == "dead" and not self._rests
            if is_missing and not self._chain.is_named:
                raise UnknownJob(group.absence)
            if is_missing and self._attempt:
                raise SourceUnavailable(
                    f"{self._job}: {group.absence} ({task}); {self._remedy(task)}; until then its figures are "
                    "unknown and it is held"
                )
            if len(group.members) > MEMBERS_MAX:
                raise SourceUnavailable(
                    f"{self._job}: group {group.group} has {len(group.members)} members; {MEMBERS_MAX} is the most"
                )
        for task, group in seen.items():
            if group.state == "stable":
                self._tasks[task].settled = group
        unsettled = {task: group for task, group in seen.items() if group.state == "rebalancing"}
        now_ms = self._clock.now_ms()
        if not unsettled:
            self._unsettled_ms, self._moving = None, frozenset()
            return seen
        if self._unsettled_ms is None:
            self._unsettled_ms, self._stood = now_ms, (now_ms, unsettled)
        if now_ms - self._unsettled_ms < REBALANCE_MS:
            raise SourceUnavailable(f"{self._job}: group {next(iter(unsettled.values())).group} is rebalancing")
        if now_ms - self._stood[0] >= REBALANCE_MS:
            before = self._stood[1]
            self._moving = frozenset(task for task in unsettled if task in before and _moved(before[task], unsettled[task]))
            self._stood = (now_ms, unsettled)
        return seen | {task: _at_work(seen[task], self._tasks[task].settled) for task in self._moving & unsettled.keys()}

    def _remedy(self, task: str) -> str:
        """Return what brings a group that is not there: workers that crash at their start never join it."""
        return self._failing(self._chain.name, task) or "start its consumers, or correct its name in SURESCALE_GROUPS_FILE"

    def _reads(self, task: str, group: GroupDescription) -> frozenset[str]:
        """Return the topics that count for a group: those of the file, else what its members are assigned.

        A group without members has only what it committed. While one deals out its partitions, the topics from before count.
        """
        named, remembered = frozenset(self._chain.groups[task].reads), self._tasks[task]
        if named:
            return named
        if group.state == "stable" and any(member.partitions for member in group.members):
            # What a group at work deals out just now may be nobody's for a moment.
            remembered.topics = group.topics | remembered.topics if task in self._moving else group.topics
            return remembered.topics
        return remembered.topics or group.topics

    def _ask(self, reads: dict[str, frozenset[str]]) -> Answer:
        """Return what the topics hold.

        A job of which the file names a topic that has never been there is shown as one that starts, with what is missing. Later
        one may vanish, but not all of them.
        """
        named = {topic for task in self._tasks for topic in self._named(task)}
        answer = self._broker.look(sorted(named.union(*reads.values())))
        known = {topic for task in self._tasks.values() for each in (task.positions, task.outputs) for topic, _ in each.logs}
        self._missing = answer.missing & named - known
        is_new = self._missing and not (self._attempt or self._rests)
        missing = sorted(answer.missing if not answer.extents else self._missing)
        if missing and not is_new:
            raise self._broker.missing(missing)
        return answer

    def _named(self, task: str) -> frozenset[str]:
        """Return the topics that the file names of a task."""
        group = self._chain.groups[task]
        return frozenset((*group.reads, *group.writes))

    def _note(self, task: str, group: GroupDescription, now_ms: int) -> None:
        remembered = self._tasks[task]
        positions = remembered.positions
        # Members of a share group take records of one partition in turn, so none of them is its reader.
        can_show = group.state == "stable" and group.type != "share"
        found = remembered.hindrances.look(positions, group.members, now_ms) if can_show else None
        is_expected = self._rests or self._starts(now_ms)
        if group.state == "dead" and not is_expected:
            found = Hindrance(f"{group.absence}; {self._remedy(task)}", caps=False)
        if group.state == "empty" and not is_expected:
            found = Hindrance(f"group {group.group} has no members; start its consumers", caps=False)
        if lacks := sorted(self._missing & self._named(task)):
            remedy = "create what is missing, or correct its name in SURESCALE_GROUPS_FILE"
            found = Hindrance(f"{self._broker.missing(lacks)}; {remedy}", caps=False)
        if found is not None and remembered.hindrance is None:
            self._tell("hindered", task, found.words, now_ms)
        remembered.hindrance = found
        for number, words in enumerate(positions.notes):
            self._tell(f"offsets{number}", task, words, now_ms)
        unknown = in_words(positions.unknown)
        if unknown and not remembered.told_unknown:
            self._tell("unknown", task, unknown, now_ms)
        remembered.told_unknown = unknown

    def _starts(self, now_ms: int) -> bool:
        """Return whether the job was at rest a moment ago, so that members may be on their way."""
        return not self._rests and self._rested_ms is not None and now_ms - self._rested_ms < START_MS

    def _tell(self, what: str, task: str, words: str, now_ms: int) -> None:
        _log.warning("%s: %s: %s", self._job, task, words, extra={"job": self._job})
        event_id = f"{what}:{self._job}:{task}:{now_ms}"
        self._events.add("exception", event_id, now_ms, job=self._job, detail=f"{task}: {words}")

    # Figures

    def _samples(
        self,
        seen: dict[str, GroupDescription],
        upstream: dict[str, tuple[str, ...]],
        now_ms: int,
    ) -> tuple[TaskSample, ...]:
        is_first, was_settled = not self._last_ms, self._was_settled
        before = {task: self._tasks[task].members.keys() for task in seen}
        self._note_members(seen, now_ms)
        busy = busy_of({task: (self._chain.groups[task], group.members) for task, group in seen.items()})
        found: list[TaskSample] = []
        for task, group in seen.items():
            self._say_unknown(task, busy[task])
            spent_ms = self._count_busy(task, group, busy[task], now_ms)
            are_new = was_settled and bool(before[task]) and not before[task] & {each.id for each in group.members}
            self._tasks[task].positions.read(group.committed, now_ms, are_new=are_new, busy_ms=spent_ms)
            found += self._of_group(task, group, upstream[task], now_ms)
        self._last_ms, self._was_settled = now_ms, True
        return () if is_first else tuple(found)

    def _say_unknown(self, task: str, busy: Sequence[Busy]) -> None:
        """Name the first member whose busy time is unknown, which makes the task's unknown; seldom."""
        silent = [each.problem for each in busy if each.problem]
        if silent and self._tasks[task].seldom.is_time():
            more = f"; {len(silent) - 1} more members do not tell either" if len(silent) > 1 else ""
            words = "%s: the busy time of %s is unknown: %s%s; correct metrics and busy in SURESCALE_GROUPS_FILE"
            _log.warning(words, self._job, task, silent[0], more, extra={"job": self._job})

    def _none(self, seen: dict[str, GroupDescription], now_ms: int) -> tuple[TaskSample, ...]:
        """Return no samples of groups that are not at rest, but keep in mind how far they are and what was written."""
        self._was_settled = False
        if self._rests:  # the next members begin after this
            self._last_ms = now_ms
        for task, group in seen.items():
            remembered = self._tasks[task]
            remembered.positions.read(group.committed, now_ms, are_new=group.state in ("empty", "dead"))
            remembered.written += sum(remembered.outputs.arrived.values())
        return ()

    def _note_members(self, seen: dict[str, GroupDescription], now_ms: int) -> None:
        """Begin a new attempt if somebody joined or left."""
        if all(self._tasks[task].members.keys() == {each.id for each in group.members} for task, group in seen.items()):
            return
        words = changes(
            [(task, len(self._tasks[task].members)) for task in seen], [(task, len(seen[task].members)) for task in seen]
        )
        if self._attempt:
            kind: EventKind = "rescaled" if words else "job_restarted"
            detail = words or "other members, as many as before"
            self._events.add(kind, f"members:{self._job}:{now_ms}", now_ms, job=self._job, detail=detail)
        else:
            self._events.add("job_started", f"watched:{self._job}:{now_ms}", now_ms, job=self._job, detail="watched from now on")
        was_watched, self._attempt, self._began_ms = bool(self._attempt), now_ms, self._last_ms or now_ms
        for task, group in seen.items():
            remembered = self._tasks[task]
            remembered.written = 0
            known, fresh = remembered.members, 0.0 if was_watched else None  # what it did before we watched is not counted
            remembered.members = {
                each.id: _Counted(busy_s=known[each.id].busy_s, moved_ms=known[each.id].moved_ms)
                if each.id in known
                else _Counted(busy_s=fresh, moved_ms=self._began_ms)
                for each in group.members
            }

    def _of_group(self, task: str, group: GroupDescription, upstream: Sequence[str], now_ms: int) -> list[TaskSample]:
        remembered = self._tasks[task]
        positions = remembered.positions
        remembered.written += sum(remembered.outputs.arrived.values())
        # Time without the records that it was spent on would make each record seem dear.
        are_told = positions.lag.keys() <= positions.arrived.keys()
        samples = []
        moved = _by_member(group, {each: positions.moved.get(each, 0) for each in positions.lag})
        waiting = _by_member(group, {each: lag or 0 for each, lag in positions.lag.items()})
        for subtask, member in enumerate(group.members):
            counted = remembered.members[member.id]
            self._count(counted, moved[subtask], upstream)
            busy_ms = counted.busy_ms if are_told else None
            samples.append(
                TaskSample(
                    job=self._job,
                    task=task,
                    subtask=subtask,
                    attempt=self._attempt,
                    sampled_at_ms=now_ms,
                    records_in=counted.records_in,
                    # The broker does not know which member wrote a record; only the sum over a task is used.
                    records_out=remembered.written if not subtask else 0,
                    bytes_in=0,
                    bytes_out=0,
                    busy_ms=busy_ms,
                    idle_ms=None if busy_ms is None else max(0, now_ms - self._began_ms - busy_ms),
                    backpressured_ms=0,  # a topic in between holds nobody back
                    # What is known of it; the topology says what is not.
                    queued_records=None if positions.known is None else sum(waiting[subtask].values()),
                    parallelism=len(group.members),
                    # Of the whole group, since partitions move between its members.
                    arrived_records=None if upstream or positions.counted is None else 0 if subtask else positions.counted,
                    received=tuple(ReceivedRecords(task=each, records=counted.received.get(each, 0)) for each in upstream),
                    watermark_lag_ms=positions.lag_ms,
                    as_of_ms=now_ms,
                )
            )
        return samples

    def _count(self, counted: _Counted, moved: Mapping[Partition, int], upstream: Sequence[str]) -> None:
        counted.records_in += sum(moved.values())
        for other in upstream:
            writes = self._chain.groups[other].writes
            received = sum(records for (topic, _), records in moved.items() if topic in writes)
            counted.received[other] = counted.received.get(other, 0) + received

    def _count_busy(self, task: str, group: GroupDescription, busy: Sequence[Busy], now_ms: int) -> float | None:
        """Count how long the members were busy, and return how long since the look before; None if one does not tell."""
        spent_ms: float | None = 0.0
        for member, told in zip(group.members, busy, strict=True):
            counted = self._tasks[task].members[member.id]
            before_ms = counted.busy_ms or 0
            if not self._chain.groups[task].busy:
                _add_share(counted, told.share, now_ms - (self._last_ms or now_ms), self._speed)
            elif not _add_busy(counted, told.seconds, self._speed, now_ms) and self._tasks[task].seldom.is_time():
                words = "%s: the busy time of %s is unknown for now: the counter of member %s grew by more "
                words += "than the time that passed; it must count seconds, and of that member only"
                _log.warning(words, self._job, task, printable(member.client_id), extra={"job": self._job})
            spent_ms = None if spent_ms is None or counted.busy_ms is None else spent_ms + counted.busy_ms - before_ms
        return spent_ms

    # Topology

    def _spec(
        self, task: str, group: GroupDescription, upstream: tuple[str, ...], required: Required | None, now_ms: int
    ) -> TaskSpec:
        remembered = self._tasks[task]
        asked = required.counts.get(task) if required is not None else None
        if group.members:
            remembered.last_members = len(group.members)
        hindrance = remembered.hindrance
        words = printable(hindrance.words)[:HINDRANCE_LETTERS_MAX] if hindrance is not None else ""
        most = remembered.last_members if hindrance is not None and hindrance.caps else _useful(group, remembered.positions)
        return TaskSpec(
            task=task,
            upstream=upstream,
            parallelism=remembered.last_members,
            max_parallelism=MEMBERS_MAX,
            sharing_group=task,
            inputs=tuple(Input(task=each, ship="hash") for each in upstream),
            required=asked,
            useful_max=most,
            carries=_carries(group, remembered) if most is not None else (),
            hindrance=self._failing(self._chain.name, task) or words,
            fixed=remembered.each.look([member.id for member in group.members], asked, now_ms),
            backlog_partly_unknown=remembered.positions.partly_unknown,
        )

    def _quiet(self, seen: dict[str, GroupDescription], reads: dict[str, frozenset[str]], now_ms: int) -> Quiet:
        """Return whether there is nothing to do: no record comes, and every group has committed all of what it reads."""
        waiting, why = 0, ""
        for task, group in seen.items():
            count, unknown = self._tasks[task].positions.behind(group.committed)
            others = {topic for member in group.members for topic, _ in member.partitions} - reads[task]
            others = {topic for topic in others if not topic.endswith(_BOOKKEEPING)}
            if others:
                unknown = unknown or f"its members also read {min(others)}, which is not looked at"
            waiting, why = waiting + count, why or (unknown and f"{task}: {unknown}")
        is_moving = any(group.state == "rebalancing" for group in seen.values())
        is_quiet = not (waiting or why or is_moving)
        self._quiet_ms = (now_ms if self._quiet_ms is None else self._quiet_ms) if is_quiet else None
        came_ms = max(task.positions.came_ms for task in self._tasks.values())
        since_ms = None if self._quiet_ms is None else max(self._quiet_ms, came_ms)
        return Quiet(since_ms=since_ms, waiting=known_count(waiting) or 0, why=printable(why)[:_WORDS_MAX])

    def _shown(self, task: str, group: GroupDescription, workers: Sequence[GroupWorker], now_ms: int) -> ConsumerGroup:
        most = max(1, SHOWN_MAX // len(self._tasks))
        return shown(task, group, self._tasks[task].positions, workers, now_ms, most)

    def _topology_of(
        self, specs: tuple[TaskSpec, ...], seen: dict[str, GroupDescription], required: Required | None, now_ms: int
    ) -> JobTopology:
        topology = JobTopology(
            job=self._job,
            version=now_ms,
            at_ms=now_ms,
            tasks=specs,
            attempt=self._attempt,
            state="created" if self._missing else _state(seen, rests=self._rests, starts=self._starts(now_ms)),
            engine=ENGINE,
            epoch=required.epoch if required is not None else "",
            requirement_id=required.id if required is not None else "",
            engine_name=self._chain.name,
            labels=dict(self._chain.labels),
        )
        try:
            check_topology(topology)
        except RecordRejected as rejected:
            raise SourceUnavailable(f"{self._job}: {rejected}; correct reads and writes in SURESCALE_GROUPS_FILE") from None
        self._topology = under_lasting_version(topology, self._topology)
        return self._topology


def _state(seen: dict[str, GroupDescription], *, rests: bool, starts: bool) -> JobState:
    states = {group.state for group in seen.values()}
    if rests and states <= {"empty", "dead"}:
        return RESTING
    if starts and "empty" in states:
        return "created"
    if "dead" in states:
        return "created"
    return "restarting" if "rebalancing" in states else "suspended" if "empty" in states else "running"


def _moved(before: GroupDescription, now: GroupDescription) -> bool:
    return any(at > before.committed.get(each, -1) for each, at in now.committed.items())


def _at_work(group: GroupDescription, settled: GroupDescription | None) -> GroupDescription:
    """Return a group that deals out its partitions and reads meanwhile as if it were at rest.

    A partition that is told to be nobody's counts for who had it before. Of classic groups the broker tells no partition until
    all are dealt out.
    """
    told = {each for member in group.members for each in member.partitions}
    had = {member.id: member.partitions - told for member in settled.members} if settled is not None else {}
    members = tuple(replace(each, partitions=each.partitions | had.get(each.id, frozenset())) for each in group.members)
    assignor = group.assignor or (settled.assignor if settled is not None else "")
    return replace(group, state="stable", members=members, assignor=assignor)


def _add_busy(counted: _Counted, busy_s: float | None, speed: float, now_ms: int) -> bool:
    """Add what a member's counter grew by (None: it does not tell), and return whether that is possible.

    It is unknown if not, as of a process that goes on under a new id, and has counted since it began.
    """
    before_s, passed_ms = counted.busy_s, now_ms - counted.moved_ms
    if busy_s != before_s:
        counted.busy_s, counted.moved_ms = busy_s, now_ms
    if busy_s is None or before_s is None:
        counted.busy_ms = None
        return True
    # A counter that fell belongs to a process that started over.
    spent_ms = (busy_s - before_s if busy_s >= before_s else busy_s) * 1_000 * speed
    is_possible = not 0 < passed_ms * BUSY_MOST < spent_ms  # a clock that was set back tells nothing
    counted.busy_ms = known_count(round((counted.busy_ms or 0) + spent_ms)) if is_possible else None
    return is_possible


def _add_share(counted: _Counted, share: float | None, passed_ms: int, speed: float) -> None:
    """Add a share of the time since the last look, whose mean it is; unknown if the share is, or covers too little of that."""
    is_covered = 0 <= passed_ms <= IDLE_COVERS_S * 1_000 * speed
    counted.busy_ms = known_count(round((counted.busy_ms or 0) + share * passed_ms)) if share is not None and is_covered else None


def _by_member(group: GroupDescription, records: Mapping[Partition, int]) -> list[dict[Partition, int]]:
    """Return the records that count for each member: of its own partitions, and for the first one of those that nobody has.

    Each counts once: the first member that has a partition has all of it. In a share group members take the records of a
    partition in turn, and the broker does not tell who took which: there each one that has it has an equal part, and what is left
    over goes to another member with each partition.
    """
    readers: dict[Partition, list[int]] = {}
    for index, member in enumerate(group.members):
        for each in member.partitions:
            readers.setdefault(each, []).append(index)
    found: list[dict[Partition, int]] = [{} for _ in group.members]
    for number, (each, count) in enumerate(sorted(records.items()) if found else ()):
        who = readers.get(each, [0])
        who = who if group.type == "share" else who[:1]
        for place, index in enumerate(who):
            part = (place + number) % len(who)
            found[index][each] = count * (part + 1) // len(who) - count * part // len(who)
    return found


def _carries(group: GroupDescription, remembered: _Task) -> tuple[Carries, ...]:
    """Return what sizes carry by how unequal the partitions are."""
    useful = _useful(group, remembered.positions)
    if useful is None:
        return ()
    if group.type == "share":
        return shared(len(remembered.positions.lag), useful)
    together = bool(_CO_PARTITIONED.search(group.assignor))
    return remembered.rates.carries(group.assignor, useful, [each.partitions for each in group.members], together=together)


def _useful(group: GroupDescription, positions: Positions) -> int | None:
    """Return how many members can have a partition; None where nothing tells. Any number can share one in a share group.

    Range deals out each topic by itself, and an assignor that keeps partitions of one number together deals out numbers: the
    widest topic counts. The other assignors deal out all partitions together. As many as have one now can have one: members may
    read different topics, and parts of a Streams application have numbers of their own.
    """
    if not positions.lag:
        return None
    if group.type == "share":
        return MEMBERS_MAX
    if group.assignor == "range":
        most = max(Counter(topic for topic, _ in positions.lag).values())
    elif _CO_PARTITIONED.search(group.assignor):
        assigned = {each for member in group.members for each in member.partitions}
        most = max(Counter(topic for topic, _ in positions.lag.keys() | assigned).values())
    else:
        return len(positions.lag)
    followed = {topic for topic, _ in positions.lag}
    has_work = (any(_is_work(each, followed, positions) for each in member.partitions) for member in group.members)
    return max(most, sum(has_work))


def _is_work(each: Partition, followed: Collection[str], positions: Positions) -> bool:
    """Return whether records are read from a partition: it exists, as far as that is followed, and is not for bookkeeping."""
    return each in positions.lag or not (each[0] in followed or each[0].endswith(_BOOKKEEPING))
