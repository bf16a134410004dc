"""Why more members would not help a group: a record that cannot be processed, or work that a few partitions have. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from surescale.contracts.clock import MINUTE_MS
from surescale.engines.groups.members import Member
from surescale.engines.kafka.positions import STILL_MS, Log, Partition, Positions, named

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


@dataclass(frozen=True, slots=True)
class _Standing:
    """What all partitions of one reader say, found once for all of them: there may be tens of thousands.

    ``count`` of them have records waiting, each has stood for ``least_ms`` at least, and ``others_move`` meanwhile.
    """

    count: int
    least_ms: int
    others_move: bool


def _standing(member: Member, positions: Positions, waiting: Mapping[Partition, int], moving: int, now_ms: int) -> _Standing:
    stood = [_stood_ms(each, positions, now_ms) for each in member.partitions if each in waiting]
    own = sum(bool(positions.moved.get(each)) for each in member.partitions)
    return _Standing(len(stood), min(stood, default=0), moving > own)


def _stuck(
    positions: Positions, waiting: Mapping[Partition, int], reader: Mapping[Partition, Member], now_ms: int
) -> Hindrance | None:
    moving = sum(map(bool, positions.moved.values()))
    standing = {
        member.id: _standing(member, positions, waiting, moving, now_ms)
        for member in {reader[each].id: reader[each] for each in waiting if each in reader}.values()
    }
    # Of a partition that was never seen to move, the other partitions' readers show how often they commit.
    usual_ms = max((max(each.intervals) for each in positions.logs.values() if each.intervals), default=None)
    still = {
        each
        for each in waiting
        if each in reader and _is_still(positions.logs[each], standing[reader[each].id], usual_ms, now_ms)
    }
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
    if _stands_everywhere(_stood_ms(worst, positions, now_ms), standing[who.id]):
        count = sum(waiting.get(each, 0) for each in who.partitions)
        words = (
            f"reader {who.client_id} has committed nothing for {minutes} minutes, though others have, while {count} records wait "
            f"in its {len(who.partitions)} partitions: look at it and at the records it stands at; more members cannot help there"
        )
    others_move = any(moved for each, moved in positions.moved.items() if each not in still)
    return Hindrance(words, caps=others_move and sum(waiting[each] for each in still) >= NEARLY_ALL * sum(waiting.values()))


def _is_still(log: Log, reader: _Standing, usual_ms: int | None, now_ms: int) -> bool:
    """Return whether a reader is stuck at a record: by its own habit, and if nothing says that it only commits seldom."""
    if log.stands_since_ms is None:
        return False
    stood_ms = now_ms - log.stands_since_ms
    if _stands_everywhere(stood_ms, reader) and not (log.intervals and reader.others_move):
        return False  # it commits nothing anywhere: seldom, as far as is known, or like everybody
    habit_ms = max(log.intervals, default=usual_ms)
    return habit_ms is not None and stood_ms >= max(STILL_MS, INTERVALS_STILL * habit_ms)


def _stands_everywhere(stood_ms: int, reader: _Standing) -> bool:
    """Return whether a reader commits nothing in any of several partitions in which records wait for it."""
    return reader.count > 1 and reader.least_ms >= min(stood_ms, STILL_MS)


def _stood_ms(partition: Partition, positions: Positions, now_ms: int) -> int:
    since_ms = positions.logs[partition].stands_since_ms
    return 0 if since_ms is None else now_ms - since_ms
