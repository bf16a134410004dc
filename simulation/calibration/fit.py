"""Fits a world to a recording, and says how well its earlier part predicts its last one. Pure.

A task that runs is busy, idle or held up; what is missing to its subtasks' time, it stood still. So a restart's length is the
missing share of the minutes around it, and no reporting at all counts as standing still.

How service times wander (``fit_drift``) is an Ornstein-Uhlenbeck process seen through noise, fitted by restricted maximum
likelihood. The log of a task's service time is mu + x(t) + e(t). x wanders with standard deviation s and time constant tau, e
has standard deviation n and no memory. A Kalman filter gives the likelihood exactly, also with minutes missing (Harvey 1989,
chapter 3). mu and s have closed forms, so the likelihood is taken on a grid of tau and of n/s only. Tasks share tau: one task
alone hardly tells it from s, since only s^2 / tau shows in a stretch of a few tau. A jump that lasts, such as a slow host, is
fitted as wandering.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.policies.dealt import carried
from surescale.policies.measure import measure
from surescale.simulation.calibration.recorded import BUSY_LEAST, CalibrationError, Float64, Recorded
from surescale.simulation.load.graphs import SINK, SOURCE
from surescale.simulation.model.world_file import DEALT_MOST, FORMAT, FittedRestart, FittedTask, HoldoutErrors, WorldFile
from surescale.simulation.model.world_file import Recorded as RecordedStretch
from surescale.simulation.model.worlds import DRIFT_MINUTES, RESTART_S_MAX

MINUTES_LEAST = 30  # known ones, of a task that is fitted
GAIN_LEAST = 3.0  # in the log of the likelihood, before scatter counts as wandering
SPREAD_LEAST = 0.01  # less is rounding, and counts as none
_TAU_MINUTES = np.geomspace(20.0, 1_440.0, 13)
_TAU_SHARE = 0.5  # of the recording; a longer memory cannot be told
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 19)])  # (n / s)^2


@dataclass(frozen=True, slots=True)
class ServiceDrift:
    """How the service times of N tasks wander.

    Attributes:
        level: float64 [N], mu; NaN for a task with too few known minutes.
        drift: float64 [N], s; 0 where nothing wanders.
        jitter: float64 [N], n.
        minutes: tau, NaN if nothing wanders.
    """

    level: Float64
    drift: Float64
    jitter: Float64
    minutes: float

    @property
    def scatter(self) -> Float64:
        """Return the standard deviation [N] of the log around its level."""
        return np.hypot(self.drift, self.jitter)


def fit_drift(logs: Float64) -> ServiceDrift:
    """Return the fit for logs of service times [T, N], NaN where unknown."""
    known = ~np.isnan(logs)
    count = known.sum(axis=0)
    fitted = np.flatnonzero(count >= MINUTES_LEAST)
    tasks = logs.shape[1]
    level, drift, jitter = np.full(tasks, np.nan), np.zeros(tasks), np.zeros(tasks)
    if not len(fitted):
        return ServiceDrift(level, drift, jitter, np.nan)
    logs, known, count = logs[:, fitted], known[:, fitted], count[fitted]
    centre = np.nanmean(logs, axis=0)
    logs = np.where(known, logs - centre, 0.0)
    white = np.sqrt(np.square(logs).sum(axis=0) / (count - 1))
    level[fitted], jitter[fitted] = centre, white
    scatters = white >= SPREAD_LEAST
    taus = _TAU_MINUTES[max(_TAU_SHARE * len(logs), _TAU_MINUTES[0]) >= _TAU_MINUTES]
    likelihood, mean, spread = _likelihood(logs, known, taus)  # [G, R, n]
    gain = likelihood - _white_likelihood(white, count)
    wanders = scatters & (gain.max(axis=(0, 1)) > GAIN_LEAST)
    jitter[fitted[~scatters]] = 0.0
    if not wanders.any():
        return ServiceDrift(level, drift, jitter, np.nan)
    best = int(gain[:, :, wanders].max(axis=1).sum(axis=1).argmax())
    at_ratio = gain[best].argmax(axis=0)
    for place, task in enumerate(fitted.tolist()):
        ratio, deviation = at_ratio[place], spread[best, at_ratio[place], place]
        noise = deviation * np.sqrt(_RATIOS[ratio])
        if wanders[place] and deviation >= SPREAD_LEAST:
            level[task] = centre[place] + mean[best, ratio, place]
            drift[task], jitter[task] = deviation, noise if noise >= SPREAD_LEAST else 0.0
    return ServiceDrift(level, drift, jitter, float(taus[best]) if drift.any() else np.nan)


def _likelihood(logs: Float64, known: npt.NDArray[np.bool_], taus: Float64) -> tuple[Float64, Float64, Float64]:
    """Return the restricted log likelihood, mu and s, each [G, R, n], for logs [T, n] of which some are known."""
    keeps = np.exp(-1.0 / taus)[:, None, None]
    noise = _RATIOS[None, :, None]
    shape = (len(taus), len(_RATIOS), logs.shape[1])
    state, ones, variance = np.zeros(shape), np.zeros(shape), np.ones(shape)
    yy, y1, oo, total = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for value, is_known in zip(logs, known, strict=True):
        here = variance + noise
        surprise, unit = value - state, 1.0 - ones
        seen = is_known / here
        yy += surprise * surprise * seen
        y1 += surprise * unit * seen
        oo += unit * unit * seen
        total += np.log(here) * is_known
        gain = variance * seen
        state, ones = keeps * (state + gain * surprise), keeps * (ones + gain * unit)
        variance = keeps**2 * (variance - gain * variance) + (1.0 - keeps**2)
    count = known.sum(axis=0) - 1.0
    mean = y1 / oo
    square = np.maximum(yy - y1 * mean, 1e-300) / count
    likelihood = -0.5 * (count * np.log(square) + total + np.log(oo))
    return likelihood, mean, np.sqrt(square)


def _white_likelihood(deviation: Float64, count: npt.NDArray[np.int64]) -> Float64:
    """Return the same [n] for scatter without memory."""
    known = count.astype(np.float64)
    likelihood: Float64 = -0.5 * ((known - 1.0) * 2.0 * np.log(np.maximum(deviation, 1e-150)) + np.log(known))
    return likelihood


UNEVEN_LEAST = 1.05  # the busiest subtask over the mean; less is ordinary unevenness
_ATTEMPT_MINUTES_LEAST = 5  # telling ones, of an attempt that says how keys fall


@dataclass(frozen=True, slots=True)
class TaskEstimate:
    """Figures of N tasks.

    Attributes:
        level: float64 [N], log of the busy minutes per record, its median over minutes; -inf for a task that takes no time.
        drift: how that log varies from its level.
        visits: float64 [N], records that reach the task per record that comes to the job.
        hot_share: float64 [N], share of its work on its hottest key.
        load: float64 [T], records that came to the job per minute.
    """

    level: Float64
    drift: ServiceDrift
    visits: Float64
    hot_share: Float64
    load: Float64


def task_figures(recorded: Recorded) -> TaskEstimate:
    """Return the figures of a stretch.

    Raises:
        CalibrationError: a task that works has no busy time, or what reaches it is unknown.
    """
    wanders = fit_drift(service_logs(recorded))
    level = np.where(np.isnan(wanders.level), _coarse_level(recorded), wanders.level)
    measured = measure(recorded.figures, recorded.graph)
    unknown = np.isnan(measured.visits) & np.isfinite(level)
    if unknown.any():
        raise CalibrationError(
            f"{recorded.job}: it is unknown how many records reach task {recorded.topology.tasks[int(unknown.argmax())].task!r}, "
            "since a source before it never reported; record while all sources report"
        )
    return TaskEstimate(level, wanders, np.nan_to_num(measured.visits), hot_shares(recorded), measured.load)


def service_logs(recorded: Recorded) -> Float64:
    """Return the log of busy minutes per record [T, N], NaN in minutes that do not tell it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(recorded.figure("busy_ms") / MINUTE_MS / recorded.processed())
    told: Float64 = np.where(recorded.telling(), logs, np.nan)
    return told


def hot_shares(recorded: Recorded) -> Float64:
    """Return the share [N] of each task's work on its hottest key; at p subtasks the busiest has 1 + h (p - 1) times the mean.

    Where partitions or key groups are dealt out, the fullest subtask has more than the mean without any hot key: only what is
    beyond that counts.
    Wide attempts tell more than narrow ones, and weigh more. A share that would make no more than ordinary unevenness at the
    widest one counts as none.
    """
    parts = uneven_parts(recorded)
    peak, usual, beside = parts.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(beside > 0, (peak - usual) / beside, 0.0)
        others = np.where(parts[:, 1] > 0, parts[:, 2] / parts[:, 1], 0.0).max(axis=0)  # p - 1 where work divides
    found: Float64 = np.where(1.0 + share * others >= UNEVEN_LEAST, np.clip(share, 0.0, 0.999), 0.0)
    return found


def uneven_parts(recorded: Recorded) -> Float64:
    """Return [A, 3, N] per attempt: p times the busy time of the busiest subtask, that of the fullest by the deal, and the rest.

    Where work divides, the second is the busy time. The rest is up to p times the busy time: what a hot key can add.
    """
    busy, subtasks = recorded.figure("busy_ms"), recorded.figure("parallelism")
    peak = recorded.figure("busy_ms_max") * subtasks
    with np.errstate(divide="ignore", invalid="ignore"):
        fair = subtasks / carried(subtasks, recorded.graph.dealt)
    told = recorded.telling() & ~np.isnan(peak) & (subtasks > 1)
    attempts = np.cumsum(recorded.began())
    parts = []
    for attempt in np.unique(attempts).tolist():
        counted = told & (attempts == attempt)[:, None]
        counted &= counted.sum(axis=0) >= _ATTEMPT_MINUTES_LEAST
        each = (peak, busy * fair, busy * (subtasks - fair))
        parts.append([np.where(counted, values, 0.0).sum(axis=0) for values in each])
    return np.array(parts)


def _coarse_level(recorded: Recorded) -> Float64:
    """Return the log of busy minutes per record [N] over all minutes together, for tasks that are hardly ever busy."""
    busy, records = recorded.figure("busy_ms"), recorded.processed()
    known = ~np.isnan(busy) & ~np.isnan(records) & recorded.warm()[:, None]
    silent = (np.nan_to_num(records).sum(axis=0) > 0) & recorded.graph.scalable & ~known.any(axis=0)
    if silent.any():
        raise CalibrationError(
            f"{recorded.job}: task {recorded.topology.tasks[int(silent.argmax())].task!r} has records but no busy time; "
            "without it there is no service time to fit"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        spent, done = (np.where(known, values, 0.0).sum(axis=0) for values in (busy, records))
        level: Float64 = np.where((spent > 0) & (done > 0), np.log(spent / done / MINUTE_MS), -np.inf)
    return level


MINUTES_MOST = 60  # of one restart
_STILL_LEAST = 0.02  # of a minute; less is rounding
_SPREAD_FROM = 3  # restarts, before their scatter is told


@dataclass(frozen=True, slots=True)
class Restarts:
    """Restarts that were seen.

    Attributes:
        seconds: float64 [k], how long each stopped the job.
    """

    seconds: Float64

    @property
    def median(self) -> float:
        """Return the usual length in seconds; NaN if none was seen."""
        return float(np.median(self.seconds)) if len(self.seconds) else np.nan

    @property
    def spread(self) -> float:
        """Return the standard deviation of the log of the lengths; 0 with fewer than three."""
        lasting = self.seconds[self.seconds > 0]
        return float(np.log(lasting).std(ddof=1)) if len(lasting) >= _SPREAD_FROM else 0.0


def restarts(recorded: Recorded) -> Restarts:
    """Return the restarts of the recording, without one in its first minute, whose beginning is not known.

    Of a job whose engine does not say what tasks do with their time, no length can be told.
    """
    still = _still(recorded)
    began = np.flatnonzero(recorded.began()).tolist()
    lengths = []
    for at, after in zip(began, [*began, recorded.minutes][1:], strict=True):
        if at == 0 or after == at + 1 < recorded.minutes:  # two attempts in a row are one restart, told by the second
            continue
        end = at
        while end < min(after, at + MINUTES_MOST) and (end == at or still[end] > _STILL_LEAST):
            end += 1
        stretch = still[at:end]
        before = at
        while before > 0 and np.isnan(recorded.figures[before - 1]).all() and at - before < MINUTES_MOST:
            before -= 1
        ended = still[before - 1] if before > 0 else 0.0  # the last minute of the attempt before
        total = float(np.concatenate([[ended if ended > _STILL_LEAST else 0.0], np.ones(at - before), stretch]).sum())
        if np.isfinite(total):
            lengths.append(60.0 * total)
    return Restarts(np.array(lengths))


def _still(recorded: Recorded) -> Float64:
    """Return the share [T] of each minute in which the job stood still; 1 in a minute without figures, NaN where unknown."""
    spent = recorded.figure("busy_ms") + recorded.figure("idle_ms") + np.nan_to_num(recorded.figure("backpressured_ms"))
    ran = spent / (MINUTE_MS * np.maximum(recorded.figure("parallelism"), 1.0))
    silent = np.isnan(recorded.figures).all(axis=(1, 2))
    known = ~np.isnan(ran)
    ordered = np.sort(ran, axis=1)
    middle = np.take_along_axis(ordered, np.maximum(known.sum(axis=1) - 1, 0)[:, None] // 2, axis=1)[:, 0]
    still: Float64 = np.where(silent, 1.0, np.clip(1.0 - middle, 0.0, 1.0))
    return still


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


def _service_errors(predicted: TaskEstimate, logs: Float64) -> tuple[Float64, Float64]:
    """Return the errors [N] of service times and of their scatter, NaN where fewer than ``MINUTES_LEAST`` minutes tell it."""
    tells = ((~np.isnan(logs)).sum(axis=0) >= MINUTES_LEAST) & np.isfinite(predicted.level)
    level = np.where(tells, predicted.level, np.nan)
    off = np.where(tells, logs - level, 0.0)
    with np.errstate(invalid="ignore"):
        middle = np.where(tells, np.nanmedian(np.where(tells, off, 0.0), axis=0), np.nan)
        scatter = np.where(tells, np.sqrt(np.nanmean(np.square(off), axis=0)), np.nan)
    service: Float64 = np.abs(np.exp(-middle) - 1.0)
    return service, np.abs(scatter - predicted.drift.scatter)


def _busiest_errors(predicted: TaskEstimate, late: Recorded) -> Float64:
    parts = uneven_parts(late)
    peak, usual, beside = parts.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = 1.0 + predicted.hot_share * beside / usual
        errors: Float64 = np.abs(expected / (peak / usual) - 1.0)
    return errors


def _busy_error(predicted: TaskEstimate, load: Float64, late: Recorded) -> float:
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


def _notes(recorded: Recorded, whole: TaskEstimate, kept: list[int]) -> list[str]:
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


def _kept(recorded: Recorded, figures: TaskEstimate) -> list[int]:
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
