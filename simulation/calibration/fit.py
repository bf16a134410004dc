"""Fits a world to a recording, and says how well its earlier part predicts its last one. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from contracts.clock import MINUTE_MS
from simulation.calibration.drift import MINUTES_LEAST
from simulation.calibration.recorded import BUSY_LEAST, CalibrationError, Float64, Recorded
from simulation.calibration.restarts import restarts
from simulation.calibration.tasks import TaskFigures, service_logs, task_figures, uneven_parts
from simulation.load.graphs import SINK, SOURCE
from simulation.model.world_file import DEALT_MOST, FORMAT, FittedRestart, FittedTask, HoldoutErrors, WorldFile
from simulation.model.world_file import Recorded as RecordedStretch
from simulation.model.worlds import DRIFT_MINUTES, RESTART_S_MAX

RECORDED_MINUTES_LEAST = 120
HELD_SHARE = 0.25
PRIOR_RESTART_S = 60.0
_SPREAD_MOST = 2.0


@dataclass(frozen=True, slots=True)
class TaskErrors:
    """Errors of the forecast for one task; NaN where they could not be told.

    Attributes:
        service: relative, of the median service time.
        scatter: of the deviation of its log around the predicted level, as a difference.
        visits: relative, of the records that reach the task per record that comes to the job.
        busiest: relative, of the busiest subtask's work over the mean.
    """

    service: float
    scatter: float
    visits: float
    busiest: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fitted world.

    Attributes:
        world: as it goes into the file, fitted to the whole recording.
        errors: per task of the world, how well the earlier part predicted the last one.
        notes: sentences for people about what could not be told.
        kept: per task of the world, its position in the recording's topology.
    """

    world: WorldFile
    errors: tuple[TaskErrors, ...]
    notes: tuple[str, ...]
    kept: tuple[int, ...]


def fit(recorded: Recorded, prior_restart_s: float = PRIOR_RESTART_S) -> Fitted:
    """Return the world of a recording; ``prior_restart_s`` is taken where no restart was seen.

    Raises:
        CalibrationError: the recording is too short, or says too little about a task.
    """
    if recorded.known_minutes < RECORDED_MINUTES_LEAST:
        raise CalibrationError(
            f"{recorded.job}: {recorded.known_minutes} minutes with figures are too few to fit a world; "
            f"record at least {RECORDED_MINUTES_LEAST}, better a day with some rescales"
        )
    whole = task_figures(recorded)
    names, kept = _names(recorded), _kept(recorded, whole)
    if not np.isfinite(whole.level).any():
        raise CalibrationError(f"{recorded.job}: no task was busy in {recorded.known_minutes} minutes; record it under load")
    restart, seen_note = _restart(recorded, prior_restart_s)
    tasks = tuple(
        FittedTask(
            task=names[at],
            upstream=_upstream(recorded, at, kept, names),
            stateful=recorded.topology.tasks[at].stateful,
            service_ms=_rounded(float(np.exp(whole.level[at])) * MINUTE_MS),
            visits=_rounded(float(whole.visits[at])),
            drift=_rounded(min(float(whole.drift.drift[at]), _SPREAD_MOST)),
            jitter=_rounded(min(float(whole.drift.jitter[at]), _SPREAD_MOST)),
            hot_share=_rounded(float(whole.hot_share[at])),
            dealt=min(int(recorded.graph.dealt[at]), DEALT_MOST),
        )
        for at in kept
    )
    held_back, errors = _held_back(recorded, kept)
    minutes = whole.drift.minutes
    world = WorldFile(
        format=FORMAT,
        job=recorded.job,
        tasks=tasks,
        restart=restart,
        drift_minutes=DRIFT_MINUTES if np.isnan(minutes) else _rounded(minutes),
        pressure=_was_held_up(recorded),
        recorded=RecordedStretch(
            first=_instant(recorded.first_ms - MINUTE_MS),
            last=_instant(recorded.last_ms),
            minutes=recorded.known_minutes,
            rescales=int(recorded.began()[1:].sum()),
        ),
        held_back=held_back,
    )
    return Fitted(world, errors, tuple(note for note in (seen_note, *_notes(recorded, whole, kept)) if note), tuple(kept))


def _held_back(recorded: Recorded, kept: list[int]) -> tuple[HoldoutErrors, tuple[TaskErrors, ...]]:
    """Fit the earlier part alone and compare it with the last one."""
    cut = round(recorded.minutes * (1.0 - HELD_SHARE))
    early, late = recorded.part(slice(0, cut)), recorded.part(slice(cut, recorded.minutes))
    if min(early.known_minutes, late.known_minutes) < MINUTES_LEAST:
        raise CalibrationError(
            f"{recorded.job}: one of the two parts of the recording, before and after {_instant(early.last_ms)}, has fewer than "
            f"{MINUTES_LEAST} minutes with figures; record without a gap"
        )
    predicted, found = task_figures(early), task_figures(late)
    service, scatter = _service_errors(predicted, service_logs(late))
    with np.errstate(divide="ignore", invalid="ignore"):
        visits = np.abs(predicted.visits / found.visits - 1.0)
    busiest = _busiest_errors(predicted, late)
    errors = tuple(TaskErrors(*(float(each[at]) for each in (service, scatter, visits, busiest))) for at in kept)
    before, after = restarts(early).median, restarts(late).median
    return HoldoutErrors(
        minutes=late.known_minutes,
        busy_time=_round_or_none(_busy_error(predicted, found.load, late)),
        service=_median(service[kept]),
        scatter=_median(scatter[kept]),
        visits=_median(visits[kept]),
        busiest=_median(busiest[kept]),
        restart=_round_or_none(abs(before / after - 1.0) if after > 0 else np.nan),
    ), errors


def _service_errors(predicted: TaskFigures, logs: Float64) -> tuple[Float64, Float64]:
    """Return the errors [N] of service times and of their scatter, NaN where fewer than ``MINUTES_LEAST`` minutes tell it."""
    tells = ((~np.isnan(logs)).sum(axis=0) >= MINUTES_LEAST) & np.isfinite(predicted.level)
    level = np.where(tells, predicted.level, np.nan)
    off = np.where(tells, logs - level, 0.0)
    with np.errstate(invalid="ignore"):
        middle = np.where(tells, np.nanmedian(np.where(tells, off, 0.0), axis=0), np.nan)
        scatter = np.where(tells, np.sqrt(np.nanmean(np.square(off), axis=0)), np.nan)
    service: Float64 = np.abs(np.exp(-middle) - 1.0)
    return service, np.abs(scatter - predicted.drift.scatter)


def _busiest_errors(predicted: TaskFigures, late: Recorded) -> Float64:
    parts = uneven_parts(late)
    peak, usual, beside = parts.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = 1.0 + predicted.hot_share * beside / usual
        errors: Float64 = np.abs(expected / (peak / usual) - 1.0)
    return errors


def _busy_error(predicted: TaskFigures, load: Float64, late: Recorded) -> float:
    """Return the relative error of the busy time that the late part's load leads to expect, all tasks together."""
    per_record = predicted.visits * np.exp(predicted.level + np.square(predicted.drift.scatter) / 2.0)
    busy = np.nansum(np.where(np.isnan(load)[:, None], np.nan, late.figure("busy_ms")))
    expected = np.nansum(load) * per_record.sum() * MINUTE_MS
    return float(abs(expected / busy - 1.0)) if busy > 0 else np.nan


def _restart(recorded: Recorded, prior_s: float) -> tuple[FittedRestart, str]:
    seen, engine_ms = restarts(recorded), recorded.topology.restart_ms
    if engine_ms is None and not len(seen.seconds):
        return FittedRestart(seconds=prior_s), (
            f"no restart was seen in {recorded.known_minutes} minutes, so {prior_s:g} s are assumed: record a rescale, "
            "or state the seconds with --restart-s"
        )
    seconds = seen.median if engine_ms is None else engine_ms / 1_000.0
    spread = min(seen.spread, _SPREAD_MOST)
    count = max(len(seen.seconds), 1)
    return FittedRestart(seconds=_rounded(min(seconds, RESTART_S_MAX)), spread=_rounded(spread), seen=count), ""


def _notes(recorded: Recorded, whole: TaskFigures, kept: list[int]) -> list[str]:
    names = _names(recorded)
    idle = [names[at] for at in kept if not np.isfinite(whole.level[at])]
    notes = [f"{', '.join(idle)}: no record was processed, so no time is taken there in this world"] if idle else []
    with np.errstate(invalid="ignore"):
        uneven = recorded.figure("busy_ms_max")[:, kept]
    if np.isnan(uneven).all():
        notes.append("the engine does not tell the busiest subtask, so keys are taken as even")
    if not _was_held_up(recorded):
        notes.append('no task was ever held up, so queues without bound are assumed ("pressure": false)')
    return notes


def _was_held_up(recorded: Recorded) -> bool:
    held = recorded.figure("backpressured_ms") > BUSY_LEAST * MINUTE_MS * recorded.figure("parallelism")
    return bool(held.any())


def _kept(recorded: Recorded, figures: TaskFigures) -> list[int]:
    """Return the tasks that are part of the world: not those that take no time and cannot be scaled, such as a virtual source."""
    return [at for at in range(len(figures.level)) if recorded.graph.scalable[at] or np.isfinite(figures.level[at])]


def _upstream(recorded: Recorded, task: int, kept: list[int], names: list[str]) -> tuple[str, ...]:
    """Return the tasks of the world that a task takes records from, also through tasks that are left out."""
    index = {spec.task: at for at, spec in enumerate(recorded.topology.tasks)}
    found: dict[int, None] = {}
    waiting = [index[name] for name in recorded.topology.tasks[task].upstream]
    while waiting:
        parent = waiting.pop()
        if parent in kept:
            found[parent] = None
        else:
            waiting.extend(index[name] for name in recorded.topology.tasks[parent].upstream)
    return tuple(names[at] for at in sorted(found))


def _names(recorded: Recorded) -> list[str]:
    """Return the tasks' names for people where these are unique, else the engine's; never those of the virtual ends."""
    labels = [spec.label or spec.task for spec in recorded.topology.tasks]
    names = labels if len(set(labels)) == len(labels) else [spec.task for spec in recorded.topology.tasks]
    return [f"{name} of the job" if name in (SOURCE, SINK) else name for name in names]


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M")


def _rounded(value: float) -> float:
    """Return a value with six significant digits."""
    return float(f"{value:.6g}")


def _round_or_none(value: float) -> float | None:
    return _rounded(float(value)) if np.isfinite(value) else None


def _median(values: Float64) -> float | None:
    known = values[np.isfinite(values)]
    return _round_or_none(float(np.median(known))) if len(known) else None
