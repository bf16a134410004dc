"""The worlds that the simulator can play, by name. Values only.

A world says what happens to records that a task cannot take, what a change of parallelism costs, and how far a task's real
capacity varies from what its mean busy time says. Policies shipped today were trained in ``calm``. Names joined by ``+`` are
combined.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from surescale.contracts.capabilities import SIMULATED
from surescale.contracts.clock import MINUTE_MS
from surescale.simulation.errors import RunError

SEED_MAX = 2**31
RESTART_S_MAX = 3_600.0
DRIFT_MINUTES = 180.0
REAL_ENGINE = "flink"


@dataclass(frozen=True, slots=True)
class TaskVariation:
    """How one task of a job varies in a world that was fitted to that job; the fields are those of ``World``, for this task.

    ``dealt``: how many partitions or key groups are dealt out to its subtasks; 0: its work divides.
    """

    drift: float = 0.0
    jitter: float = 0.0
    hot_share: float = 0.0
    dealt: int = 0


@dataclass(frozen=True, slots=True)
class World:
    """What is true in one world.

    Attributes:
        name: as on the command line.
        has_pressure: buffers between tasks are bounded (``simulation.model.pressure``): a slow task holds up those before it, the
            backlog waits in the broker, and a change waits for a checkpoint. Otherwise every task has a queue without bound.
        restart_ms: how long a change stops a job.
        why: one sentence for people.
        drift: standard deviation of the log of a task's service time, which wanders.
        drift_minutes: time constant of that: after so long a third of a deviation is left.
        jitter: standard deviation of the log of a task's service time from minute to minute, without memory.
        slow: factor on the service times of all tasks of a host while the host is slow; 1: never.
        throttle: largest factor on the service time of a single task while something outside holds it up; 1: never.
        hot_share: largest share of a task's records that belongs to its hottest key and so to one subtask.
        state_spread: standard deviation of the log of a restart's length, which follows the size of the state.
        redone_s: seconds of work that a restart does again, since the last checkpoint.
        is_dealt: records travel in partitions and key groups, which no two subtasks share: the fullest subtask is the limit.
        has_slo: latency counts beyond an SLO, a batch a minute (mode ``slo``).
        is_blind: what is seen of a job differs from what happens (``simulation.model.blindness``).
        has_nights: no record comes at all in the hours of a night, and perhaps at weekends; that is known, and no gap.
        has_waves: how many records reach a task changes with its sources, selectivities and timers (``simulation.load.waves``).
        seed: draws all of the above.
        own: per task of one job, source and sink included, in place of ``drift``, ``jitter`` and ``hot_share``, which then hold
            the largest of the tasks, and of what would be drawn for ``is_dealt``; empty: the same for all tasks, and shares drawn
            up to ``hot_share``.
    """

    name: str
    has_pressure: bool
    restart_ms: int
    why: str
    drift: float = 0.0
    slow: float = 1.0
    throttle: float = 1.0
    hot_share: float = 0.0
    state_spread: float = 0.0
    redone_s: float = 0.0
    is_dealt: bool = False
    has_slo: bool = False
    has_nights: bool = False
    has_waves: bool = False
    is_blind: bool = False
    seed: int = 0
    drift_minutes: float = DRIFT_MINUTES
    jitter: float = 0.0
    own: tuple[TaskVariation, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no world can be.

        Raises:
            RunError: names the field.
        """
        for field in ("drift", "jitter", "state_spread", "redone_s", "hot_share"):
            value = getattr(self, field)
            if not (math.isfinite(value) and value >= 0.0):
                raise RunError(f"world {self.name}: {field} must be 0 or more, not {value}")
        for field in ("slow", "throttle"):
            value = getattr(self, field)
            if not (math.isfinite(value) and value >= 1.0):
                raise RunError(f"world {self.name}: {field} is a factor on service times and must be 1 or more, not {value}")
        if self.hot_share >= 1.0:
            raise RunError(f"world {self.name}: hot_share must be below 1, not {self.hot_share}")
        if not self.drift_minutes > 0.0:
            raise RunError(f"world {self.name}: drift_minutes must be above 0, not {self.drift_minutes}")
        if self.restart_ms < 0:
            raise RunError(f"world {self.name}: a restart cannot last {self.restart_ms / 1000:g} s")

    @property
    def varies(self) -> bool:
        """Return whether capacity or restarts differ from what is announced, so that a ``Course`` must be played."""
        lasting = self.hot_share > 0.0 or self.state_spread > 0.0 or self.redone_s > 0.0 or self.is_dealt
        return self.varies_in_time or lasting or self.has_waves

    @property
    def engine(self) -> str:
        """Return the kind of engine whose figures policies are shown: those of the simulated one are exact, and are believed."""
        return REAL_ENGINE if self.is_blind else SIMULATED.engine

    @property
    def varies_in_time(self) -> bool:
        """Return whether service times change from minute to minute."""
        return self.drift > 0.0 or self.jitter > 0.0 or self.slow > 1.0 or self.throttle > 1.0


CALM = World("calm", has_pressure=False, restart_ms=MINUTE_MS, why="queues without bound, a restart takes a minute")
PRESSURE = World(
    "pressure",
    has_pressure=True,
    restart_ms=1_000,  # the longest gap in the output of eight rescales of a small Flink job: 0.2 to 1.0 s
    why="bounded buffers, the backlog in the broker, a rescale waits for a checkpoint and then takes a second",
)
_EFFECTS: dict[str, tuple[dict[str, Any], str]] = {
    "drift": ({"drift": 0.25}, "service times wander"),
    "slow": ({"slow": 1.8}, "hosts are slow at times, and with them all of their tasks"),
    "skew": ({"hot_share": 0.05}, "a hot key makes one subtask the limit, the more so the wider the task"),
    "restart": ({"restart_ms": 3 * MINUTE_MS, "state_spread": 0.25, "redone_s": 30.0}, "restarts are long and redo work"),
    "starved": (
        {"has_pressure": True, "restart_ms": MINUTE_MS, "throttle": 2.5},
        "bounded buffers; one throttled task hides what those behind it could do",
    ),
    "slo": ({"has_slo": True}, "a batch a minute; only what is later than an SLO counts"),
    "dealt": ({"is_dealt": True}, "partitions and key groups are dealt out; the fullest subtask is the limit"),
    "nights": ({"has_nights": True}, "at night no record comes at all, in some jobs at weekends neither"),
    "waves": ({"has_waves": True}, "sources, selectivities and timers go their own ways, so one load does not drive all tasks"),
    "blind": ({"is_blind": True}, "backlogs, subtasks and busy time are not all seen, and positions jump"),
}
WORLDS = {
    CALM.name: CALM,
    PRESSURE.name: PRESSURE,
    **{name: replace(CALM, name=name, why=why, **fields) for name, (fields, why) in _EFFECTS.items()},
}


def world_named(name: str, *, seed: int = 0, restart_s: float | None = None) -> World:
    """Return a world by name, or several joined by ``+``; ``restart@300`` sets the seconds of a restart as well.

    Args:
        name: of the world; a name that is repeated counts once.
        seed: of what it draws.
        restart_s: how long a change stops a job; None: as the world has it.

    Raises:
        RunError: there is no such world (names those that there are), or the numbers are not valid for a world.
    """
    if not 0 <= seed < SEED_MAX:
        raise RunError(f"--world-seed: {seed} is not between 0 and {SEED_MAX - 1}")
    joined, at, seconds = name.partition("@")
    if at and restart_s is not None:
        raise RunError(f"--world, --restart-s: {name[:40]!r} gives the seconds of a restart as well; give them once")
    if at:
        restart_s = _seconds(name, seconds)
    if restart_s is not None and not 0.0 <= restart_s <= RESTART_S_MAX:
        raise RunError(f"--restart-s: {restart_s:g} is not between 0 and {RESTART_S_MAX:g} seconds")
    parts = joined.split("+")
    for part in parts:
        if part not in WORLDS:
            raise RunError(f"--world: {part[:40]!r} is not a world; known: {', '.join(WORLDS)}, or several joined by +")
    parts = sorted(set(parts), key=list(WORLDS).index)
    if CALM.name in parts and len(parts) > 1:
        raise RunError("--world: calm cannot be joined with another world; leave it out")
    found = WORLDS[parts[0]]
    for part in parts[1:]:
        found = replace(found, **_EFFECTS[part][0])
    if PRESSURE.name in parts and "restart" not in parts:
        found = replace(found, restart_ms=PRESSURE.restart_ms)
    if len(parts) > 1:
        found = replace(found, name="+".join(parts), why="; ".join(WORLDS[part].why for part in parts))
    if found.has_slo and (found.has_pressure or replace(found, state_spread=0.0, redone_s=0.0).varies):
        raise RunError("--world: slo runs batches, which know only restarts and nights; join it with these or with nothing")
    restart_ms = found.restart_ms if restart_s is None else round(restart_s * 1000)
    return replace(found, restart_ms=restart_ms, seed=seed)


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.0 <= seconds <= RESTART_S_MAX:
        raise RunError(
            f"--world: {name[:40]!r}: give the seconds of a restart after @, 0 to {RESTART_S_MAX:g}, as in restart@300"
        )
    return seconds


def cluster_world(name: str, seed: int) -> World:
    """Return a world for the simulated engine and its twins.

    Raises:
        RunError: as ``world_named``; or the world runs batches, which an engine does not.
    """
    world = world_named(name, seed=seed)
    if world.has_slo:
        raise RunError("--world: slo runs batches, not an engine; judge it with surescale policy evaluate --world slo")
    return world
