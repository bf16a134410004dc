"""A world fitted to a job, as a file that `surescale recording calibrate` writes and `surescale policy evaluate --world` plays.

JSON, so that people can read and change it. Everything in it is checked when it is read.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import PATH_SHOWN_MAX, UNREADABLE, reason_of
from surescale.simulation.errors import RunError
from surescale.simulation.load.graphs import SINK, SOURCE, JobError, JobGraph, graph_of_tasks
from surescale.simulation.model.worlds import DRIFT_MINUTES, RESTART_S_MAX, SEED_MAX, TaskVariation, World

FORMAT: Literal["surescale-world/1"] = "surescale-world/1"
SUFFIX = ".json"
SECOND_MINUTES = 1.0 / 60.0  # the durations of the graph are the job's own seconds a record
BYTES_MAX = 2**24
DEALT_MOST = 65_536

_Spread = Annotated[float, Meta(ge=0.0, le=2.0)]
_Name = Annotated[str, Meta(min_length=1, max_length=1_024)]


class FittedTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task of the job."""

    task: _Name
    upstream: tuple[_Name, ...] = ()
    stateful: bool = False
    service_ms: Annotated[float, Meta(ge=0.0, le=1e9)]  # busy milliseconds of one subtask per record, the median over minutes
    visits: Annotated[float, Meta(ge=0.0, le=1e9)] = 1.0  # records that reach the task per record that comes to the job
    drift: _Spread = 0.0  # standard deviation of the log of the service time that wanders within ``drift_minutes``
    jitter: _Spread = 0.0  # the same from minute to minute, without memory
    hot_share: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.0  # of the task's work that belongs to its hottest key
    dealt: Annotated[int, Meta(ge=0, le=DEALT_MOST)] = (
        0  # partitions or key groups dealt out to its subtasks; 0: its work divides
    )

    @property
    def seconds(self) -> float:
        """Return the busy seconds per record that comes to the job."""
        return self.service_ms * self.visits / 1_000.0


class FittedRestart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a rescale stops the job. ``seen`` restarts were measured; 0: the seconds are a prior."""

    seconds: Annotated[float, Meta(ge=0.0, le=RESTART_S_MAX)]
    spread: _Spread = 0.0  # standard deviation of the log of the seconds
    seen: Annotated[int, Meta(ge=0)] = 0


class Recorded(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the world was fitted to: event times in UTC, minutes with figures, and rescales."""

    first: str
    last: str
    minutes: Annotated[int, Meta(ge=0)]
    rescales: Annotated[int, Meta(ge=0)] = 0


class HoldoutErrors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Relative errors with which the earlier part of the recording predicted its last part; null where it could not be told.

    Those of tasks are medians over the tasks that work.
    """

    minutes: Annotated[int, Meta(ge=0)]
    busy_time: float | None = None
    service: float | None = None
    scatter: float | None = None
    visits: float | None = None
    busiest: float | None = None
    restart: float | None = None


class WorldFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job and the world it lives in."""

    format: Literal["surescale-world/1"]
    job: _Name
    tasks: Annotated[tuple[FittedTask, ...], Meta(min_length=1, max_length=2_000)]
    restart: FittedRestart
    drift_minutes: Annotated[float, Meta(gt=0.0, le=100_000.0)] = DRIFT_MINUTES
    pressure: bool = False  # buffers between tasks are bounded, and the backlog waits in the broker
    recorded: Recorded | None = None
    held_back: HoldoutErrors | None = None

    def graph(self) -> JobGraph:
        """Return the job's graph; its durations are seconds per record that comes to the job.

        Raises:
            JobError: the tasks are no graph, or none of them takes any time.
        """
        name = self.job.rpartition("/")[2] or self.job
        return graph_of_tasks(name, ((each.task, each.upstream, each.seconds, each.stateful) for each in self.tasks))

    def world(self, name: str, *, seed: int = 0, restart_s: float | None = None) -> World:
        """Return the world under a name for reports; ``restart_s`` replaces the fitted length of a restart.

        Raises:
            RunError: the numbers are not valid for a world.
        """
        if not 0 <= seed < SEED_MAX:
            raise RunError(f"--world-seed: {seed} is not between 0 and {SEED_MAX - 1}")
        if restart_s is not None and not 0.0 <= restart_s <= RESTART_S_MAX:
            raise RunError(f"--restart-s: {restart_s:g} is not between 0 and {RESTART_S_MAX:g} seconds")
        seconds = self.restart.seconds if restart_s is None else restart_s
        ends = TaskVariation()
        own = (ends, *(TaskVariation(each.drift, each.jitter, each.hot_share, each.dealt) for each in self.tasks), ends)
        return World(
            name=name,
            has_pressure=self.pressure,
            restart_ms=round(seconds * MINUTE_MS / 60.0),
            why=f"fitted to a recording of {self.job}",
            drift=max(each.drift for each in own),
            jitter=max(each.jitter for each in own),
            hot_share=max(each.hot_share for each in own),
            state_spread=self.restart.spread,
            is_dealt=any(each.dealt for each in own),
            seed=seed,
            drift_minutes=self.drift_minutes,
            own=own,
        )


def is_world_file(name: str) -> bool:
    """Return whether the value of ``--world`` names a file and not a world.

    >>> is_world_file("shop.json"), is_world_file("skew+drift")
    (True, False)
    """
    return name.endswith(SUFFIX)


def read_world(path: Path) -> WorldFile:
    """Return the world of a file.

    Raises:
        RunError: it cannot be read or is no world; names the file, the field and the fix.
    """
    told = f"--world: {str(path)[:PATH_SHOWN_MAX]}"
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise RunError(f"{told} cannot be read ({reason_of(error)}); name a file of surescale recording calibrate") from None
    if len(raw) > BYTES_MAX:
        raise RunError(f"{told} has more than {BYTES_MAX:,} bytes; name a file of surescale recording calibrate")
    try:
        found = msgspec.json.decode(raw, type=WorldFile)
    except UNREADABLE as error:
        raise RunError(f"{told} is not a world: {_in_one_line(error)}; write one with surescale recording calibrate") from None
    return _checked(found, told)


def encoded(world: WorldFile) -> str:
    """Return the text of a file."""
    return msgspec.json.format(msgspec.json.encode(world), indent=2).decode() + "\n"


def _checked(found: WorldFile, told: str) -> WorldFile:
    reserved = [each.task for each in found.tasks if each.task in (SOURCE, SINK)]
    if reserved:
        raise RunError(f"{told}: tasks: the name {reserved[0]!r} is reserved; give the task another")
    try:
        found.graph()
    except JobError as error:
        raise RunError(f"{told}: {error}") from None
    return found


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())
