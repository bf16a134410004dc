"""How far a group has come in the topics it reads: what waits, since when, and what more members cannot help. Pure.

All figures follow from committed and end offsets. A group that commits every few seconds seems that much behind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from contracts.clock import MINUTE_MS
from engines.groups.broker import GroupDescription, Member
from engines.kafka.offsets import EndLog, Partition

STUCK_MS = 3 * MINUTE_MS
"""A partition with records waiting that has not moved for so long, though it has a reader, is stuck."""
ONE_PARTITION = 0.9
"""Share of all waiting records from which on they count as being in one partition."""
LAG_LEAST = 100
"""Fewer waiting records say nothing about their distribution."""


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why more members would not help. ``caps``: none should be added; otherwise only a part of the work is concerned."""

    words: str
    caps: bool


@dataclass(slots=True)
class _Standstill:
    offset: int
    since_ms: int


@dataclass(slots=True)
class Positions:
    """Follows one group from look to look.

    Attributes:
        lag: records waiting by partition, None where it is not known how far the group is.
        grown: records that the group got through since the look before, by partition.
        lag_ms: age of the oldest waiting record, by the time at which the end of its partition passed it; None if that was before
            the first look, or the lag is unknown.
    """

    lag: dict[Partition, int | None] = field(default_factory=dict)
    grown: dict[Partition, int] = field(default_factory=dict)
    lag_ms: int | None = None
    _committed: dict[Partition, int] = field(default_factory=dict)
    _counted_to: dict[Partition, int] = field(default_factory=dict)
    _ends: EndLog = field(default_factory=EndLog)
    _still: dict[Partition, _Standstill] = field(default_factory=dict)
    _is_hot_since: tuple[Partition, int] | None = None

    def look(self, seen: GroupDescription, ends: Mapping[Partition, int], now_ms: int) -> None:
        """Take a look at a group and the ends of the topics it reads into account."""
        self._committed = {each: at for each, at in seen.committed.items() if each in ends}
        # An offset may go back: somebody has reset it, and nothing was got through.
        counted = self._counted_to
        self.grown = {each: max(0, at - counted[each]) for each, at in self._committed.items() if each in counted}
        # What is in a partition when it is first seen without a commit may never be read. All that comes after it will be.
        begins = {each: counted.get(each, end) for each, end in ends.items()}
        self._counted_to = {**begins, **self._committed}
        self.lag = {each: self._lag(each, end) for each, end in ends.items()}
        self._ends.add(now_ms, ends)
        self.lag_ms = self._age_ms(ends, now_ms)
        self._note_standstills(now_ms)

    def hindrance(self, members: tuple[Member, ...], now_ms: int) -> Hindrance | None:
        """Return why more members would not help, None if they would, or if nothing waits."""
        waiting = {each: lag for each, lag in self.lag.items() if lag}
        total = sum(waiting.values())
        reader = {each: member for member in members for each in member.partitions}
        stuck = {each: at for each, at in self._still.items() if each in reader and now_ms - at.since_ms >= STUCK_MS}
        if stuck:
            worst = max(stuck, key=lambda each: (waiting[each], each))
            minutes = (now_ms - stuck[worst].since_ms) // MINUTE_MS
            words = (
                f"partition {worst[0]}[{worst[1]}] has not moved from offset {stuck[worst].offset} for {minutes} minutes while "
                f"{waiting[worst]} records wait: look at that record and at its reader {reader[worst].client_id}; more members "
                "cannot help there"
            )
            return Hindrance(words, caps=sum(waiting[each] for each in stuck) >= ONE_PARTITION * total)
        return self._hot(waiting, total, reader, now_ms)

    def _hot(
        self, waiting: Mapping[Partition, int], total: int, reader: Mapping[Partition, Member], now_ms: int
    ) -> Hindrance | None:
        before, self._is_hot_since = self._is_hot_since, None
        hottest = max(waiting, key=lambda each: (waiting[each], each), default=None)
        if (
            hottest is None
            or hottest not in reader
            or len(self.lag) < 2
            or not self.grown
            or total < max(LAG_LEAST, sum(self.grown.values()))
        ):
            return None
        own = {each: self.grown.get(each, 0) for each in reader[hottest].partitions}
        # A reader with other work to give away would be helped by another member.
        is_alone = sum(own.values()) - own[hottest] <= (1 - ONE_PARTITION) * sum(own.values())
        if waiting[hottest] < ONE_PARTITION * total or not is_alone:
            return None
        self._is_hot_since = (hottest, before[1] if before is not None and before[0] == hottest else now_ms)
        if self._is_hot_since[1] == now_ms:
            return None  # once may be chance
        share = round(100 * waiting[hottest] / total)
        words = (
            f"{share} % of the waiting records are in partition {hottest[0]}[{hottest[1]}], which has a reader of its own: more "
            "members cannot help; look for a key with most of the records, or add partitions"
        )
        return Hindrance(words, caps=True)

    def _lag(self, partition: Partition, end: int) -> int | None:
        if end == 0:
            return 0
        at = self._committed.get(partition)
        return None if at is None else max(0, end - at)

    def _age_ms(self, ends: Mapping[Partition, int], now_ms: int) -> int | None:
        if any(lag is None for lag in self.lag.values()):
            return None
        ages = [self._ends.age_ms(each, self._committed[each], now_ms) for each, lag in self.lag.items() if lag]
        known = [age for age in ages if age is not None]
        return max(known, default=0) if len(known) == len(ages) else None

    def _note_standstills(self, now_ms: int) -> None:
        still = {}
        for each, lag in self.lag.items():
            if lag:
                at, before = self._committed[each], self._still.get(each)
                still[each] = before if before is not None and before.offset == at else _Standstill(at, now_ms)
        self._still = still
