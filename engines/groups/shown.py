"""What people are shown of a consumer group: its partitions, members and workers. Nothing is decided on it."""

from collections.abc import Sequence

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.figures import known_count
from surescale.contracts.messages import ConsumerGroup, GroupMember, GroupPartition, GroupWorker
from surescale.engines.groups.broker import GroupDescription
from surescale.engines.kafka.positions import Partition, Positions
from surescale.runtime.printable import printable

SHOWN_MAX = 100
"""Partitions, members, and workers of one job, so that a minute of it stays small: the groups of the job share them."""
_PROBLEM_LETTERS_MAX = 512
_NAME_LETTERS_MAX = 256


def shown(
    task: str,
    group: GroupDescription,
    positions: Positions,
    workers: Sequence[GroupWorker],
    now_ms: int,
    most: int = SHOWN_MAX,
) -> ConsumerGroup:
    """Return what is shown of one group.

    Args:
        task: that the group is.
        group: as the broker told it.
        positions: of the group, after the same look.
        workers: that are kept running for it.
        now_ms: the time of the look.
        most: partitions, members and workers that are shown at most, of each.
    """
    # Of a share group nobody knows who takes what.
    is_owned = group.type != "share"
    owner = {each: subtask for subtask, member in enumerate(group.members) for each in member.partitions if is_owned}
    known = [lag for lag in positions.lag.values() if lag is not None]
    partitions = _first(positions, most)
    topics = sorted({topic for topic, _ in positions.lag})
    return ConsumerGroup(
        task=task,
        group=printable(group.group)[:_NAME_LETTERS_MAX],
        state=group.state,
        assignor=printable(group.assignor)[:_NAME_LETTERS_MAX],
        topics=tuple(topics[:most]),
        lag=sum(known) if known else None,
        lag_unknown=len(positions.lag) - len(known),
        oldest_ms=positions.lag_ms,
        partitions=tuple(
            _partition(each, owner.get(each), group.committed.get(each), positions, positions.unknown.get(each, ""), now_ms)
            for each in partitions
        ),
        partitions_left_out=len(positions.lag) - len(partitions),
        members=tuple(_member(subtask, group, positions) for subtask in range(min(most, len(group.members)))),
        members_left_out=max(0, len(group.members) - most),
        workers=tuple(sorted(workers, key=lambda each: not each.failure)[:most]),
        workers_left_out=max(0, len(workers) - most),
    )


def _first(positions: Positions, most: int) -> list[Partition]:
    """Return the partitions that are shown, in order: where there are too many, those with a problem, then where most waits."""

    def rank(each: Partition) -> tuple[bool, int]:
        lag = positions.lag[each]
        return lag is not None, -(lag or 0)

    every = sorted(positions.lag)
    return sorted(sorted(every, key=rank)[:most])


def _partition(
    each: Partition, subtask: int | None, at: int | None, positions: Positions, problem: str, now_ms: int
) -> GroupPartition:
    log, lag = positions.logs.get(each), positions.lag[each]
    arrived = positions.arrived.get(each)
    if log is not None and log.end_moved_ms == now_ms and not arrived:  # seen for the first time, or made anew: nobody knows
        arrived = None
    return GroupPartition(
        topic=each[0],
        partition=each[1],
        subtask=subtask,
        end=known_count(log.extent.end) if log is not None else None,
        committed=known_count(at),  # a member may commit any number
        lag=lag,
        problem=problem[:_PROBLEM_LETTERS_MAX],
        arrived_per_minute=_a_minute(arrived, positions),
        read_per_minute=_a_minute(positions.moved.get(each), positions),
        stands_since_ms=log.stands_since_ms if log is not None and lag else None,
    )


def _member(subtask: int, group: GroupDescription, positions: Positions) -> GroupMember:
    member = group.members[subtask]
    mine = sorted(member.partitions & positions.lag.keys())
    is_owned = group.type != "share"
    lags = [positions.lag[each] if is_owned else None for each in mine]
    moved = [positions.moved.get(each) if is_owned else None for each in mine]
    return GroupMember(
        subtask=subtask,
        client_id=member.client_id[:_NAME_LETTERS_MAX],
        host=printable(member.host)[:_NAME_LETTERS_MAX],
        partitions=len(mine),
        lag=_sum(lags),
        read_per_minute=_a_minute(_sum(moved), positions),
    )


def _sum(figures: Sequence[int | None]) -> int | None:
    known = [each for each in figures if each is not None]
    return sum(known) if len(known) == len(figures) else None


def _a_minute(records: int | None, positions: Positions) -> float | None:
    if records is None or positions.passed_ms <= 0:
        return None
    return round(records * MINUTE_MS / positions.passed_ms, 1)
