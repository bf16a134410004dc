"""The values of placement: hosts, tasks, edges, options, one request.

Plain and frozen. `request.parse_request` checks them where they enter.
Units: CPU in cores, memory in GB (1e9 bytes), prices in $ per second, rates in records per second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Algorithm = Literal["cetsa", "lba-ce", "default", "rr", "gs-bfd", "ff", "gio"]
ALGORITHMS: tuple[Algorithm, ...] = ("cetsa", "lba-ce", "default", "rr", "gs-bfd", "ff", "gio")

TOLERANCE = 1e-9
"""How far a sum of demands may exceed a limit and still fit (cores, GB): room for rounding, nothing else."""


Pattern = Literal["all", "forward"]
Mode = Literal["fresh", "incremental"]


@dataclass(frozen=True, slots=True, order=True)
class Subtask:
    """One parallel subtask of a task; written `task/index` on the wire."""

    task: str
    index: int

    def __str__(self) -> str:
        return f"{self.task}/{self.index}"


class Sub(NamedTuple):
    """The same inside the algorithms, with the task as its position in the job's list."""

    task: int
    ordinal: int


@dataclass(frozen=True, slots=True)
class History:
    """What a host cost and did in past windows."""

    cost: float | None = None
    """Rent of the host plus what it paid for sending, in the window [$]."""
    tuples: float | None = None
    """Records it processed in the same window."""
    busy: tuple[float, ...] = ()
    """Per window, the share of time its CPU was above the cluster's average (the paper's EP), 0 to 1."""

    @property
    def efficiency(self) -> float | None:
        """Observed cost efficiency = cost / records (eq. 22), in $ per record; None without data."""
        if self.cost is None or not self.tuples:
            return None
        return self.cost / self.tuples


@dataclass(frozen=True, slots=True)
class Host:
    """A machine or container that runs subtasks, one per slot."""

    id: str
    cpu: float
    """Capacity in cores."""
    memory: float
    """Capacity in GB."""
    slots: int
    price: float
    """Rent in $ per second while the job uses it."""
    type: str = ""
    zone: str = ""
    used_cpu: float = 0.0
    """Cores taken by others (background)."""
    used_memory: float = 0.0
    used_slots: int = 0
    history: History = History()


@dataclass(frozen=True, slots=True)
class Network:
    """What sending costs: $ per GB, times a factor by distance (same host: 0)."""

    price_per_gb: float = 0.0
    same_zone: float = 1.0
    cross_zone: float = 2.0


@dataclass(frozen=True, slots=True)
class Task:
    """One vertex of the job; all its subtasks need the same."""

    id: str
    parallelism: int
    cpu: float
    """Cores per subtask."""
    memory: float
    """GB per subtask."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream between two tasks. `all` spreads it over every pair, `forward` over the pairs (i, i)."""

    source: str
    target: str
    records_per_s: float = 0.0
    bytes_per_record: float = 100.0
    pattern: Pattern = "all"


@dataclass(frozen=True, slots=True)
class Params:
    """Options of the algorithms; the defaults are the contract's."""

    threshold: float = 0.8
    """delta of eq. 17: the share of a host LBA-CE may fill."""
    threshold_scope: Literal["lba-ce", "all"] = "lba-ce"
    alpha: float = 0.8
    """Weight of CPU in the load (eq. 28)."""
    beta: float = 0.2
    """Weight of memory in the load."""
    wec_weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)
    """Weights of rent, communication and scheduling in the weighted cost (eq. 15)."""
    order: Literal["interleaved", "topological"] = "interleaved"
    lba_pick: Literal["first", "spread"] = "first"
    cold_start: Literal["estimate", "rr"] = "estimate"
    busy_floor: float = 0.01
    """Smallest B of eq. 24, so that an idle host's efficiency stays finite."""
    mode: Mode | None = None
    """None: incremental if a current placement is given, else fresh."""
    exec_time_s: float | None = None
    sched_time_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PlaceRequest:
    """Everything one placement depends on: equal requests give equal answers, byte for byte."""

    algorithm: Algorithm
    hosts: tuple[Host, ...]
    tasks: tuple[Task, ...]
    edges: tuple[Edge, ...] = ()
    network: Network = Network()
    seed: int = 0
    """Seed of `default`; no other algorithm is random."""
    params: Params = Params()
    placement: Mapping[Subtask, str] = field(default_factory=dict)
    """Where subtasks run now, by host id. May name hosts that are gone, and indices beyond the parallelism."""

    @property
    def incremental(self) -> bool:
        """Whether subtasks on live hosts stay there."""
        return self.params.mode == "incremental" if self.params.mode else bool(self.placement)

    @property
    def delta(self) -> float:
        """Share of a host this algorithm may fill: eqs. 17-19 belong to LBA-CE, eqs. 3-4 to the others."""
        everywhere = self.params.threshold_scope == "all" or self.algorithm == "lba-ce"
        return self.params.threshold if everywhere else 1.0
