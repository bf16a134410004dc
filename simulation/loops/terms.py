"""The terms of a closed loop, the figures of one span, and the core that a loop drives: B rows of one job. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import is_simulated
from surescale.contracts.job_settings import LATE_SECONDS, LatencyBound
from surescale.contracts.windows import FIGURE, Float32
from surescale.simulation.model.reward import LATENCY_MINUTES_MAX, REWARD_LAMBDA, latency_minutes
from surescale.simulation.model.worlds import CALM, REAL_ENGINE, World

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

Mode = Literal["clean", "slo", "compat"]
MODES: tuple[Mode, ...] = ("clean", "slo", "compat")
Served = Literal["world", "told", "measured"]


@dataclass(frozen=True, slots=True)
class Terms:
    """How a loop runs and is rewarded: r = -latency_weight x latency + (1 - latency_weight) x utilisation.

    Attributes:
        mode: ``clean``: records flow, latency in minutes. ``slo``: one batch a minute, latency beyond an SLO. ``compat``: the
            same batches under the rules of the SURE paper's code (all tasks restart at every decision, sampled figures).
        latency_weight: lambda.
        restart_ms: how long a restart stops the job.
        span_minutes: from one decision to the next.
        window_minutes: snapshots of an observation; ``compat`` shows one less, without the minute of the restart.
        effect_minutes: from a decision to its restart; 1 as in the pipeline. ``compat`` restarts at once.
        engine_steps: in ``clean``, use the pipeline's quarter-minute steps and whole-numbered counters, bit for bit, instead of
            whole minutes. Many times slower. Restarts that are not whole minutes always use it in the world ``calm``.
        latency_bound: of the job's owner, which policies are told of and its day's budget is kept for, in mode ``clean``; None:
            there is none.
        late_seconds: minutes with a latency above this are counted as late; None: above the bound, or ``LATE_SECONDS``.
        world: ``simulation.model.worlds``; what varies, and back pressure, is played in mode ``clean`` only. ``restart_ms`` is
            not taken from it.
        served: whose defaults jobs have and what policies know of ``restart_ms``: as in the ``world``; as on a real engine that
            has ``told`` it; or as on one where it has to be ``measured`` in the minutes that policies see.
    """

    mode: Mode = "clean"
    latency_weight: float = REWARD_LAMBDA
    restart_ms: int = MINUTE_MS
    span_minutes: int = 10
    window_minutes: int = 60
    effect_minutes: int = 1
    engine_steps: bool = False
    latency_bound: LatencyBound | None = None
    late_seconds: float | None = None
    world: World = CALM
    served: Served = "world"

    def __post_init__(self) -> None:
        """Check the assumptions of the cores."""
        assert self.mode in MODES, self.mode
        assert self.mode == "clean" or not self.world.has_pressure, "back pressure is played in mode clean only"
        assert self.mode == "clean" or self.world.has_slo or not self.world.varies, "what varies is played in mode clean only"
        assert self.mode == "clean" or self.latency_bound is None, "minutes above a bound are counted in mode clean only"
        assert 0.0 <= self.latency_weight <= 1.0, self.latency_weight
        down_minutes = self.restart_ms / MINUTE_MS
        assert self.mode == "clean" or down_minutes + self.delay_minutes <= self.span_minutes, "a restart must end in its span"

    @property
    def engine(self) -> str:
        """Return the kind of engine whose defaults jobs have, and whose figures policies take these for."""
        return self.world.engine if self.served == "world" else REAL_ENGINE

    @property
    def told_restart_ms(self) -> int | None:
        """Return what policies know of a restart's length, as measured in the pipeline; None: what they ship with.

        In worlds of the simulated engine with the shipped minute, or with less, they keep it. A real engine's is measured.
        """
        if self.served == "measured":
            return None
        return self.restart_ms if self.restart_ms > MINUTE_MS or not is_simulated(self.engine) else None

    @property
    def late_after_seconds(self) -> float:
        """Return above which latency a minute is late."""
        if self.late_seconds is not None:
            return self.late_seconds
        return LATE_SECONDS if self.latency_bound is None else self.latency_bound.seconds

    @property
    def delay_minutes(self) -> int:
        """Return the minutes from a decision to its restart in this mode."""
        return 0 if self.mode == "compat" else self.effect_minutes

    @property
    def snapshots(self) -> int:
        """Return L, the minutes of an observation."""
        return self.window_minutes - (self.mode == "compat")


@dataclass(frozen=True, slots=True)
class Span:
    """One span of B rows; all [B]. Minutes that do not count (``Workload.masked``) are in no sum.

    Attributes:
        latency: as in the reward. ``clean``: minutes, at most 10. ``slo``: minutes beyond the SLO, at most 10, over the
            SLO. ``compat``: minutes per request (see ``simulation.loops.batches_core``).
        full_latency: the same without the cap of ten minutes, for what arrived in the span. ``compat`` charges a batch when it
            leaves; here it is charged on arrival, at the departure time expected if parallelism does not change.
        utilisation: as in the reward.
        counted_minutes: minutes (``compat``: snapshots) that count; if 0, latency and utilisation are 0 and meaningless.
        arrivals: records that entered.
        backlog_minutes: record-minutes spent inside.
        busy_minutes: busy subtask-minutes of the real tasks.
        allocated_minutes: subtask-minutes of the real tasks.
        rescaled: bool, the parallelism of some task changed.
        restarted: bool, the job restarted; in ``compat`` always.
        inside: float64 [B, m], records inside the job at the end of each minute; None: the core does not tell.
        late_minutes: minutes that count and at whose end a record left, or should have left, that came longer ago than
            ``Terms.late_after_seconds`` (``simulation.loops.rows``); None: batches, whose latency is another.
    """

    latency: Float64
    full_latency: Float64
    utilisation: Float64
    counted_minutes: Float64
    arrivals: Float64
    backlog_minutes: Float64
    busy_minutes: Float64
    allocated_minutes: Float64
    rescaled: Bool
    restarted: Bool
    inside: Float64 | None = None
    late_minutes: Float64 | None = None


class Core(Protocol):
    """B rows of one job. Time passes only in calls; returned arrays are never written to again."""

    @property
    def parallelism(self) -> Int64:
        """Return int64 [B, N]."""
        ...

    def pass_time(self, requests: Float64, counted: Bool | None, desired: Int64 | None) -> Span:
        """Let m minutes pass with requests [B, m].

        ``counted`` [B, m] are the minutes that count; None if all do. ``desired`` [B, N] is carried out; None changes nothing.
        """
        ...

    def figures(self) -> Float32:
        """Return the last window, float32 [B, L, N, F] as ``contracts.windows.FIGURES``; minutes that do not count are NaN."""
        ...

    def copy(self) -> "Core":
        """Return independent rows in the same state."""
        ...


def flow_span(
    sums: tuple[Float64, Float64, Float64, Float64],
    counted_minutes: Float64,
    changed: Bool,
    path_minutes: float,
    inside: Float64 | None = None,
) -> Span:
    """Return the span of flowing records from arrivals, backlog, busy and allocated minutes [B]; ``inside`` as in ``Span``."""
    arrivals, backlog, busy, allocated = sums
    full_latency = np.where(counted_minutes > 0, latency_minutes(backlog, arrivals, path_minutes), 0.0)
    return Span(
        latency=np.minimum(full_latency, LATENCY_MINUTES_MAX),
        full_latency=full_latency,
        utilisation=busy / np.maximum(allocated, 1e-9),
        counted_minutes=counted_minutes,
        arrivals=arrivals,
        backlog_minutes=backlog,
        busy_minutes=busy,
        allocated_minutes=allocated,
        rescaled=changed,
        restarted=changed,
        inside=inside,
    )


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive minutes without built figures.

    Attributes:
        minutes: m, the visible ones.
        fill: writes the figures into float32 [F, N, B, h + m].
        hidden: h, earlier minutes that ``fill`` writes too, so that it fills whole planes in one run; they are never shown.
    """

    minutes: int
    fill: Callable[[Float32], None]
    hidden: int


@dataclass(frozen=True, slots=True)
class Recent:
    """The last ``keep`` minutes of B rows: built figures, then minutes without figures.

    Attributes:
        keep: minutes.
        built: float32 [F, N, B, m], oldest first.
        waiting: later stretches of time.
    """

    keep: int
    built: Float32
    waiting: tuple[Stretch, ...] = ()

    @classmethod
    def empty(cls, keep: int, shape: tuple[int, int, int]) -> "Recent":
        """Return no minutes yet, of shape (F, N, B)."""
        return cls(keep, np.empty((*shape, 0), dtype=np.float32))

    def then(self, minutes: int, fill: Callable[[Float32], None], hidden: int = 0) -> "Recent":
        """Return the recent minutes after another ``Stretch``; minutes older than ``keep`` are dropped without being built."""
        waiting, known = [Stretch(minutes, fill, hidden)], minutes
        for stretch in reversed(self.waiting):
            if known >= self.keep:
                break
            waiting.append(stretch)
            known += stretch.minutes
        built = self.built if known < self.keep else self.built[..., :0].copy()  # a view would keep the old minutes in memory
        return Recent(self.keep, built, tuple(reversed(waiting)))

    def emptied(self, rows: int) -> "Recent":
        """Return empty recent minutes for this many rows."""
        figures, tasks, _, _ = self.built.shape
        return Recent.empty(self.keep, (figures, tasks, rows))

    def seen(self) -> "Recent":
        """Return the same with all figures built."""
        if not self.waiting:
            return self
        fresh = sum(stretch.minutes for stretch in self.waiting)
        known = self.built.shape[-1]
        old = max(0, min(known, self.keep - fresh))
        lead = max(0, self.waiting[0].hidden - old)
        whole = np.empty((*self.built.shape[:-1], lead + old + fresh), dtype=np.float32)
        end = whole.shape[-1]
        for stretch in reversed(self.waiting):  # newest first: earlier stretches overwrite the hidden minutes
            stretch.fill(whole[..., end - stretch.minutes - stretch.hidden : end])
            end -= stretch.minutes
        whole[..., lead : lead + old] = self.built[..., known - old :]
        return Recent(self.keep, whole[..., lead:][..., -self.keep :])


def as_figures(planes: Float32) -> Float32:
    """Return planes [F, N, B, L] as figures [B, L, N, F], without moving a byte: each figure stays contiguous."""
    return planes.transpose(2, 3, 1, 0)


def fill_usual(planes: Float32) -> None:
    """Write into planes [F, N, B, m] what holds unless a core knows better: nobody is held up, restarts, or keeps state.

    Figures that only some engines have are unknown, except the time that a minute covers.
    """
    for name in ("backpressured_ms", "state_bytes", "restarts"):
        planes[FIGURE[name]] = 0.0
    planes[FIGURE["coverage"]] = 1.0
    planes[FIGURE["arrived"] :] = np.nan
    planes[FIGURE["covered_ms"]] = MINUTE_MS
