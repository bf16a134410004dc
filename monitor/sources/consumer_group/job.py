"""Looks at one job: the groups of a chain, what waits for each, who reads what, what each member has got through."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from contracts.errors import RecordRejected
from contracts.figures import known_count
from contracts.messages import EventKind, Input, JobState, JobTopology, ReceivedRecords, TaskSample, TaskSpec
from contracts.modes import MODE_LABEL
from contracts.topology import check_topology, under_lasting_version
from engines.groups.broker import GroupDescription, GroupReader, GroupsUnavailable, Member
from engines.groups.busy import Busy, busy_of
from engines.groups.chains import Chain
from engines.groups.requirement import Required
from engines.kafka.offsets import OffsetsUnavailable, Partition, TopicOffsets
from monitor.event_log import EventLog, changes
from monitor.minutes import Clock, JobSnapshot
from monitor.sources.base import HELD, SourceUnavailable
from monitor.sources.consumer_group.positions import Hindrance, Positions
from runtime.backoff import Throttle

ENGINE = "kafka"
MEMBERS_MAX = 10_000
REBALANCE_MS = 5_000
"""A group that rebalances is asked again for so long; then the minute has no figures and the job is not running."""
SAY_EVERY_S = 600.0
_log = logging.getLogger("surescale.monitor")


@dataclass(slots=True)
class _Counted:
    """What one member has done since the attempt began. ``busy_s``: its own counter when last asked."""

    records_in: int = 0
    busy_ms: int | None = None
    busy_s: float | None = None
    received: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Task:
    """What is remembered of one group."""

    positions: Positions = field(default_factory=Positions)
    members: dict[str, _Counted] = field(default_factory=dict)
    written: int = 0
    """Records that came into its output topics since the attempt began."""
    outputs: dict[Partition, int] = field(default_factory=dict)
    hindrance: Hindrance | None = None
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
            events: what happened.
            clock: of the pipeline.
            speed: milliseconds of that clock in one of the wall's.
        """
        self._job, self._chain, self._groups, self._broker = job, chain, groups, broker
        self._requirement, self._events, self._clock, self._speed = requirement, events, clock, speed
        self._tasks = {task: _Task() for task in chain.groups}
        self._attempt = self._last_ms = self._began_ms = 0
        self._unsettled_ms: int | None = None
        self._topology: JobTopology | None = None

    def look(self) -> JobSnapshot:
        """Look at the job; takes two requests a group and two for all topics.

        Raises:
            SourceUnavailable: no usable answer, or a group rebalances.
        """
        try:
            asked = self._groups.look([self._chain.group_of(task) for task in self._tasks])
            seen = {task: asked[self._chain.group_of(task)] for task in self._tasks}
            self._check(seen)
            reads = {task: frozenset(self._chain.groups[task].reads) or seen[task].topics for task in self._tasks}
            ends = self._ends(reads)
            required = self._requirement(self._chain.name)
        except (GroupsUnavailable, OffsetsUnavailable) as problem:
            raise SourceUnavailable(f"{self._job}: {problem}; {HELD}") from None
        now_ms = self._clock.now_ms()
        is_settled = all(group.state == "stable" for group in seen.values())
        upstream = {task: self._chain.upstream(task, topics) for task, topics in reads.items()}
        own = {task: {each: end for each, end in ends.items() if each[0] in topics} for task, topics in reads.items()}
        for task, group in seen.items():
            self._note(task, group, own[task], now_ms)
        samples = self._samples(seen, own, upstream, ends, now_ms) if is_settled else ()
        specs = tuple(self._spec(task, seen[task], upstream[task], required) for task in self._tasks)
        return JobSnapshot(self._topology_of(specs, seen, required, now_ms), samples)

    # What is asked

    def _check(self, seen: dict[str, GroupDescription]) -> None:
        """Refuse a look at groups that are not there or are just dealing out their partitions."""
        for task, group in seen.items():
            if group.state == "dead":
                raise SourceUnavailable(
                    f"{self._job}: there is no group {group.group} ({task}); start its consumers, or correct its name in "
                    "SURESCALE_GROUPS_FILE; until then its figures are unknown and it is held"
                )
            if len(group.members) > MEMBERS_MAX:
                raise SourceUnavailable(
                    f"{self._job}: group {group.group} has {len(group.members)} members; {MEMBERS_MAX} is the most"
                )
        unsettled = [group.group for group in seen.values() if group.state == "rebalancing"]
        now_ms = self._clock.now_ms()
        if not unsettled:
            self._unsettled_ms = None
            return
        if self._unsettled_ms is None:
            self._unsettled_ms = now_ms
        if now_ms - self._unsettled_ms < REBALANCE_MS:
            raise SourceUnavailable(f"{self._job}: group {unsettled[0]} is rebalancing")

    def _ends(self, reads: dict[str, frozenset[str]]) -> dict[Partition, int]:
        written = {topic for group in self._chain.groups.values() for topic in group.writes}
        topics = sorted(written.union(*reads.values()))
        return self._broker.ends(topics) if topics else {}

    def _note(self, task: str, group: GroupDescription, ends: dict[Partition, int], now_ms: int) -> None:
        remembered = self._tasks[task]
        remembered.positions.look(group, ends, now_ms)
        found = remembered.positions.hindrance(group.members, now_ms) if group.state == "stable" else None
        if group.state == "empty":
            found = Hindrance(f"group {group.group} has no members; start its consumers", caps=False)
        if found is not None and remembered.hindrance is None:
            _log.warning("%s: %s: %s", self._job, task, found.words, extra={"job": self._job})
            event_id, detail = f"hindered:{self._job}:{task}:{now_ms}", f"{task}: {found.words}"
            self._events.add("exception", event_id, now_ms, job=self._job, detail=detail)
        remembered.hindrance = found

    # Figures

    def _samples(
        self,
        seen: dict[str, GroupDescription],
        own: dict[str, dict[Partition, int]],
        upstream: dict[str, tuple[str, ...]],
        ends: dict[Partition, int],
        now_ms: int,
    ) -> tuple[TaskSample, ...]:
        is_first = not self._last_ms
        self._note_members(seen, now_ms)
        busy = busy_of({task: (self._chain.groups[task], group.members) for task, group in seen.items()})
        found: list[TaskSample] = []
        for task, group in seen.items():
            self._say_unknown(task, busy[task])
            found += self._of_group(task, group, own[task], upstream[task], busy[task], ends, now_ms)
        self._last_ms = now_ms
        return () if is_first else tuple(found)

    def _say_unknown(self, task: str, busy: Sequence[Busy]) -> None:
        """Name the first member whose busy time is unknown, which makes the task's unknown; seldom."""
        silent = [each.problem for each in busy if each.problem]
        if silent and self._tasks[task].seldom.is_time():
            more = f"; {len(silent) - 1} more members do not tell either" if len(silent) > 1 else ""
            words = "%s: the busy time of %s is unknown: %s%s; correct metrics and busy in SURESCALE_GROUPS_FILE"
            _log.warning(words, self._job, task, silent[0], more, extra={"job": self._job})

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
                each.id: _Counted(busy_s=known[each.id].busy_s if each.id in known else fresh) for each in group.members
            }

    def _of_group(
        self,
        task: str,
        group: GroupDescription,
        own: dict[Partition, int],
        upstream: Sequence[str],
        busy: list[Busy],
        ends: dict[Partition, int],
        now_ms: int,
    ) -> list[TaskSample]:
        remembered = self._tasks[task]
        outputs = {each: end for each, end in ends.items() if each[0] in self._chain.groups[task].writes}
        remembered.written += sum(end - remembered.outputs.get(each, end) for each, end in outputs.items())
        remembered.outputs = outputs
        samples = []
        for subtask, (member, told) in enumerate(zip(group.members, busy, strict=True)):
            counted, mine = remembered.members[member.id], _partitions(group, member, subtask, own)
            self._count(counted, mine, remembered.positions, told.seconds, upstream)
            lags = [remembered.positions.lag.get(each) for each in mine]
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
                    busy_ms=counted.busy_ms,
                    idle_ms=None if counted.busy_ms is None else max(0, now_ms - self._began_ms - counted.busy_ms),
                    backpressured_ms=0,  # a topic in between holds nobody back
                    queued_records=None if None in lags else sum(lag for lag in lags if lag is not None),
                    parallelism=len(group.members),
                    arrived_records=None if upstream else sum(own[each] for each in mine),
                    received=tuple(ReceivedRecords(task=each, records=counted.received.get(each, 0)) for each in upstream),
                    watermark_lag_ms=remembered.positions.lag_ms,
                    as_of_ms=now_ms,
                )
            )
        return samples

    def _count(
        self, counted: _Counted, mine: list[Partition], positions: Positions, busy_s: float | None, upstream: Sequence[str]
    ) -> None:
        counted.records_in += sum(positions.grown.get(each, 0) for each in mine)
        for other in upstream:
            writes = self._chain.groups[other].writes
            grown = sum(positions.grown.get(each, 0) for each in mine if each[0] in writes)
            counted.received[other] = counted.received.get(other, 0) + grown
        if busy_s is None or counted.busy_s is None:
            counted.busy_ms, counted.busy_s = None, busy_s
            return
        # A counter that fell belongs to a process that started over.
        spent_s = busy_s - counted.busy_s if busy_s >= counted.busy_s else busy_s
        counted.busy_ms = known_count(round((counted.busy_ms or 0) + spent_s * 1_000 * self._speed))
        counted.busy_s = busy_s

    # Topology

    def _spec(self, task: str, group: GroupDescription, upstream: tuple[str, ...], required: Required | None) -> TaskSpec:
        remembered = self._tasks[task]
        if group.members:
            remembered.last_members = len(group.members)
        hindrance = remembered.hindrance
        most = remembered.last_members if hindrance is not None and hindrance.caps else _useful(group, remembered.positions)
        return TaskSpec(
            task=task,
            upstream=upstream,
            parallelism=remembered.last_members,
            max_parallelism=MEMBERS_MAX,
            sharing_group=task,
            inputs=tuple(Input(task=each, ship="hash") for each in upstream),
            required=(required.counts.get(task) or None) if required is not None else None,
            useful_max=most,
            hindrance=hindrance.words if hindrance is not None else "",
        )

    def _topology_of(
        self, specs: tuple[TaskSpec, ...], seen: dict[str, GroupDescription], required: Required | None, now_ms: int
    ) -> JobTopology:
        topology = JobTopology(
            job=self._job,
            version=now_ms,
            at_ms=now_ms,
            tasks=specs,
            attempt=self._attempt,
            state=_state(seen),
            engine=ENGINE,
            epoch=required.epoch if required is not None else "",
            requirement_id=required.id if required is not None else "",
            engine_name=self._chain.name,
            labels={MODE_LABEL: self._chain.mode} if self._chain.mode else {},
        )
        try:
            check_topology(topology)
        except RecordRejected as rejected:
            raise SourceUnavailable(f"{self._job}: {rejected}; correct reads and writes in SURESCALE_GROUPS_FILE") from None
        self._topology = under_lasting_version(topology, self._topology)
        return self._topology


def _state(seen: dict[str, GroupDescription]) -> JobState:
    states = {group.state for group in seen.values()}
    return "restarting" if "rebalancing" in states else "suspended" if "empty" in states else "running"


def _partitions(group: GroupDescription, member: Member, subtask: int, ends: dict[Partition, int]) -> list[Partition]:
    """Return the partitions that count for a member: its own, and for the first one those that nobody has."""
    mine = [each for each in ends if each in member.partitions]
    if subtask == 0:
        assigned = {each for other in group.members for each in other.partitions}
        mine += [each for each in ends if each not in assigned]
    return mine


def _useful(group: GroupDescription, positions: Positions) -> int | None:
    """Return how many members can have a partition: range deals out each topic by itself, the other assignors all together."""
    partitions = list(positions.lag)
    if not partitions:
        return None
    topics = {topic for topic, _ in partitions}
    if group.assignor == "range":
        return max(sum(each == topic for each, _ in partitions) for topic in topics)
    return len(partitions)
