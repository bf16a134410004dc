"""The values of learner assignment: hosts, stateful tasks, their replicas, moves and rounds.

A task is a stateful shard with one active owner. Standbys are replicas kept for failures. A learner restores state on the host
that is to become the owner (Kafka's warm-up replica: KIP-429, KIP-441).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from fractions import Fraction

import msgspec

from surescale.rescaler.refusals import Refused


class AssignRefusal(StrEnum):
    """Why a round was refused."""

    INVALID_VERSION = "INVALID_VERSION"
    INVALID_FACTOR = "INVALID_FACTOR"
    INVALID_PARAM = "INVALID_PARAM"
    DUPLICATE_HOST = "DUPLICATE_HOST"
    DUPLICATE_TASK = "DUPLICATE_TASK"
    INVALID_CAPACITY = "INVALID_CAPACITY"
    INVALID_LAG = "INVALID_LAG"
    REPLICA_CONFLICT = "REPLICA_CONFLICT"
    NO_ELIGIBLE_HOST = "NO_ELIGIBLE_HOST"


class LearnerVersion(StrEnum):
    """How far balancing goes."""

    V1 = "V1"
    """Serves new hosts only."""
    V2 = "V2"
    """Brings every host into its band."""


class HostState(StrEnum):
    """Whether a host may receive tasks."""

    RUNNING = "running"
    LEAVING = "leaving"
    """It drains, then goes; its replicas cannot take over."""


class MoveKind(StrEnum):
    """One difference between a round's input and its output."""

    PROMOTE = "promote"
    """A ready learner took over from a live owner."""
    RECOVER = "recover"
    """A task without a live owner was placed."""
    LEARN = "learn"
    """A learner started, perhaps from a standby."""
    ADD_STANDBY = "add_standby"
    DROP_LEARNER = "drop_learner"
    DROP_STANDBY = "drop_standby"


@dataclass(frozen=True, slots=True)
class LearnerHost:
    """A live host; a host that is not listed is dead."""

    id: str
    capacity: int = 1
    """Integer weight, at least 1."""
    state: HostState = HostState.RUNNING
    new: bool = False
    """It has just joined; V1 fills only such hosts."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A copy of a task's state on a host."""

    host: str
    lag: int
    """How far it is behind its owner, in the state's own unit (Kafka: records)."""


@dataclass(frozen=True, slots=True)
class StatefulTask:
    """A task as observed."""

    id: str
    active: str | None
    """Its owner. None, or a host that is not listed: the task is an orphan."""
    learners: tuple[Replica, ...] = ()
    standbys: tuple[Replica, ...] = ()


@dataclass(frozen=True, slots=True)
class LearnerLimits:
    """What one round may do."""

    acceptable_lag: int = 10_000
    """A replica with at most this lag is ready."""
    num_standbys: int = 0
    """Replicas to keep per task, including a learner."""
    max_learners: int | None = None
    """Learners in flight over all tasks; None: no limit."""

    def __post_init__(self) -> None:
        for name, value, minimum in (
            ("acceptable_lag", self.acceptable_lag, 0),
            ("num_standbys", self.num_standbys, 0),
            ("max_learners", self.max_learners, 1),
        ):
            if value is None and name == "max_learners":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
                message = f"{name} must be an integer of at least {minimum}, not {value!r}"
                raise Refused(AssignRefusal.INVALID_PARAM, message, {"field": name})


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """Where a task's replicas will be after the round. A struct, not a dataclass: a round makes hundreds of thousands."""

    id: str
    active: str
    learners: tuple[str, ...]
    """At most one."""
    standbys: tuple[str, ...]


class Move(msgspec.Struct, frozen=True, gc=False):
    """One difference between input and output; as many as `Assignment`."""

    kind: MoveKind
    task: str
    source: str | None
    """The owner before (promote, recover) or now (learn); the host itself where the previous owner stays on as standby
    (add_standby, else None); the host whose replica goes."""
    destination: str | None


@dataclass(frozen=True, slots=True)
class Band:
    """How many tasks a host should hold."""

    low: int
    share: int
    """The fair share, rounded down."""
    high: int


@dataclass(frozen=True, slots=True)
class HostLoad:
    """A host's load after the round."""

    active: int
    """Tasks it owns."""
    projected: int
    """Tasks it owns or will own: a task counts at its learner, else at its owner."""
    low: int
    high: int

    @property
    def is_in_band(self) -> bool:
        """Whether the projected load is within the host's band."""
        return self.low <= self.projected <= self.high


@dataclass(frozen=True, slots=True)
class Round:
    """What one round decided."""

    tasks: tuple[Assignment, ...]
    """In the order of their ids."""
    moves: tuple[Move, ...]
    converged: bool
    """Nothing is left to do: a round on this outcome would make no moves."""
    balanced: bool
    """Every host's projected load is in its band, and standbys have settled."""
    standbys_settled: bool
    """None is on its way to another host, and none could bring two hosts' replicas per capacity nearer to each other."""
    under_replicated: int
    """Tasks that lack standbys because no host is left for them."""
    learners_in_flight: int
    lagging_actives: tuple[str, ...]
    """Tasks this round placed on a replica that is not ready, or on no replica."""
    undrained: tuple[str, ...]
    """Leaving hosts that still own tasks; other leaving hosts may go."""
    load: dict[str, HostLoad]
    """By host id, in order."""


_EXPONENT_MAX = 400


def exact_factor(value: object) -> Fraction:
    """Return the balancing factor as an exact decimal: 0.1 is one tenth, even as a float.

    Raises `Refused` with INVALID_FACTOR for anything but a finite number of at least 0 (with an exponent within ±400).
    """
    if isinstance(value, Fraction) and value >= 0:
        return value
    if isinstance(value, int | float | Decimal | str) and not isinstance(value, bool):
        try:
            number = Decimal(str(value))
        except InvalidOperation:
            number = Decimal("NaN")
        if number.is_finite() and number >= 0 and abs(number.adjusted()) <= _EXPONENT_MAX:
            return Fraction(number)
    message = f"balancing_factor must be a number of at least 0, not {str(value)[:40]}"
    raise Refused(AssignRefusal.INVALID_FACTOR, message, {"field": "balancing_factor"})


def bands(hosts: Mapping[str, LearnerHost], task_count: int, factor: Fraction) -> dict[str, Band]:
    """Return each host's band, ``floor(e / (1 + r))`` to ``ceil(e * (1 + r))`` with ``e = tasks * capacity / running capacity``.

    A leaving host's share is 0. Integer arithmetic; nothing is rounded on the way.
    """
    total = sum(host.capacity for host in hosts.values() if host.state is HostState.RUNNING)
    p, q = (1 + factor).as_integer_ratio()
    result = {}
    for name, host in hosts.items():
        weight = task_count * host.capacity if host.state is HostState.RUNNING else 0
        result[name] = Band(weight * q // (total * p), weight // total, -(-weight * p // (total * q)))
    return result


def check(hosts: tuple[LearnerHost, ...] | list[LearnerHost], tasks: tuple[StatefulTask, ...] | list[StatefulTask]) -> None:
    """Refuse an impossible cluster; see `AssignRefusal`."""
    _check_hosts(hosts)
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise Refused(AssignRefusal.DUPLICATE_TASK, f"task {task.id!r} is listed twice", {"task": task.id})
        seen.add(task.id)
        if task.learners or task.standbys:
            _check_replicas(task)
    if not any(host.state is HostState.RUNNING for host in hosts):
        raise Refused(AssignRefusal.NO_ELIGIBLE_HOST, "no host is running; tasks have nowhere to go")


def _check_hosts(hosts: tuple[LearnerHost, ...] | list[LearnerHost]) -> None:
    names: set[str] = set()
    for host in hosts:
        if host.id in names:
            raise Refused(AssignRefusal.DUPLICATE_HOST, f"host {host.id!r} is listed twice", {"host": host.id})
        names.add(host.id)
        if host.capacity < 1:
            message = f"host {host.id!r} needs a capacity of at least 1, not {host.capacity}"
            raise Refused(AssignRefusal.INVALID_CAPACITY, message, {"host": host.id})


def _check_replicas(task: StatefulTask) -> None:
    used = {task.active}
    for replica in task.learners + task.standbys:
        if replica.lag >= 0 and replica.host not in used:
            used.add(replica.host)
            continue
        place = {"task": task.id, "host": replica.host}
        if replica.lag < 0:
            raise Refused(AssignRefusal.INVALID_LAG, f"task {task.id!r} has a negative lag on {replica.host!r}", place)
        message = f"task {task.id!r} has two replicas on host {replica.host!r}"
        raise Refused(AssignRefusal.REPLICA_CONFLICT, message, place)
