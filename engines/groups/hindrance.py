"""Why more members would not help a group: a record that cannot be processed, or work that a few partitions have. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from surescale.contracts.clock import MINUTE_MS
from surescale.engines.groups.members import Member
from surescale.engines.kafka.positions import STILL_MS, Partition, Positions, named

INTERVALS_STILL = 3
"""A partition with records waiting is stuck after so many of its reader's commit intervals, and not before ``STILL_MS``."""
NEARLY_ALL = 0.9
"""Share of all waiting records, or of a reader's work, that counts as all of it."""
LAG_LEAST = 100
"""Fewer waiting records say nothing about their distribution."""


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why more members would not help. ``caps``: none should be added; otherwise only a part of the work is concerned."""

    words: str
    caps: bool


@dataclass(slots=True)
class Hindrances:
    """Follows one group from look to look."""

    _hot_since: tuple[frozenset[Partition], int] | None = None

    def look(self, positions: Positions, members: tuple[Member, ...], now_ms: int) -> Hindrance | None:
        """Return why more members would not help, None if they would, or if nothing waits."""
        waiting = {each: lag for each, lag in positions.lag.items() if lag}
        reader = {each: member for member in reversed(members) for each in member.partitions}
        found = _stuck(positions, waiting, reader, now_ms)
        return found if found is not None else self._hot(positions, waiting, reader, now_ms)

    def _hot(
        self, positions: Positions, waiting: Mapping[Partition, int], reader: Mapping[Partition, Member], now_ms: int
    ) -> Hindrance | None:
        before, self._hot_since = self._hot_since, None
        total, moved = sum(waiting.values()), positions.moved
        hot = _hottest(waiting, total)
        if not hot or len(hot) > len(positions.lag) / 2 or not moved or total < max(LAG_LEAST, sum(moved.values())):
            return None
        if not all(each in reader and _is_alone(each, reader[each], positions) for each in hot):
            return None
        if len({reader[each].id for each in hot}) < len(hot):
            return None  # another member would take one of them
        self._hot_since = (hot, before[1] if before is not None and before[0] == hot else now_ms)
        if self._hot_since[1] == now_ms:
            return None  # once may be chance
        share, first = round(100 * sum(waiting[each] for each in hot) / total), named(min(hot))
        where = f"{len(hot)} partitions such as {first}, each of" if len(hot) > 1 else f"partition {first},"
        words = (
            f"{share} % of the waiting records are in {where} which has a reader of its own: more members cannot help; look for "
            "a key with most of the records, or add partitions"
        )
        return Hindrance(words, caps=True)


def _hottest(waiting: Mapping[Partition, int], total: int) -> frozenset[Partition]:
    """Return the fewest partitions that have nearly all waiting records."""
    found: set[Partition] = set()
    held = 0
    for each in sorted(waiting, key=lambda each: (-waiting[each], each)):
        if held >= NEARLY_ALL * total:
            break
        found.add(each)
        held += waiting[each]
    return frozenset(found)


def _is_alone(partition: Partition, member: Member, positions: Positions) -> bool:
    """Return whether a reader has no other work to give away, in which another member could help it."""
    own = {each: positions.moved.get(each, 0) for each in member.partitions}
    work = sum(own.values())
    return work > 0 and work - own[partition] <= (1 - NEARLY_ALL) * work


def _stuck(
    positions: Positions, waiting: Mapping[Partition, int], reader: Mapping[Partition, Member], now_ms: int
) -> Hindrance | None:
    still = {each for each in waiting if each in reader and _is_still(each, positions, waiting, reader[each], now_ms)}
    if not still:
        return None
    worst = max(still, key=lambda each: (waiting[each], each))
    log = positions.logs[worst]
    minutes = (now_ms - (log.stands_since_ms or 0)) // MINUTE_MS
    who = reader[worst]
    words = (
        f"partition {named(worst)} has not moved from offset {log.committed} for {minutes} minutes while "
        f"{waiting[worst]} records wait: look at that record and at its reader {who.client_id}; more members "
        "cannot help there"
    )
    if _stands_everywhere(worst, positions, waiting, who, now_ms):
        count = sum(waiting.get(each, 0) for each in who.partitions)
        words = (
            f"reader {who.client_id} has committed nothing for {minutes} minutes, though others have, while {count} records wait "
            f"in its {len(who.partitions)} partitions: look at it and at the records it stands at; more members cannot help there"
        )
    others_move = any(moved for each, moved in positions.moved.items() if each not in still)
    return Hindrance(words, caps=others_move and sum(waiting[each] for each in still) >= NEARLY_ALL * sum(waiting.values()))


def _is_still(partition: Partition, positions: Positions, waiting: Mapping[Partition, int], member: Member, now_ms: int) -> bool:
    """Return whether a reader is stuck at a record: by its own habit, and if nothing says that it only commits seldom."""
    log = positions.logs[partition]
    if log.stands_since_ms is None:
        return False
    stood_ms = now_ms - log.stands_since_ms
    if _stands_everywhere(partition, positions, waiting, member, now_ms) and not (
        log.intervals and any(moved for each, moved in positions.moved.items() if each not in member.partitions)
    ):
        return False  # it commits nothing anywhere: seldom, as far as is known, or like everybody
    # Of a partition that was never seen to move, the other partitions' readers show how often they commit.
    habits = log.intervals or [each for other in positions.logs.values() for each in other.intervals]
    return bool(habits) and stood_ms >= max(STILL_MS, INTERVALS_STILL * max(habits))


def _stands_everywhere(
    partition: Partition, positions: Positions, waiting: Mapping[Partition, int], member: Member, now_ms: int
) -> bool:
    """Return whether a reader commits nothing in any of several partitions in which records wait for it."""
    stood_ms = _stood_ms(partition, positions, now_ms)
    others = [each for each in member.partitions if each != partition and each in waiting]
    return bool(others) and all(_stood_ms(each, positions, now_ms) >= min(stood_ms, STILL_MS) for each in others)


def _stood_ms(partition: Partition, positions: Positions, now_ms: int) -> int:
    since_ms = positions.logs[partition].stands_since_ms
    return 0 if since_ms is None else now_ms - since_ms
