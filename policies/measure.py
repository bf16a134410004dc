"""Measures load, demand and backlog in a window, without any model. Works on any number of leading batch axes.

The demand of a task follows DS2 (Kalavri et al., OSDI 2018): the true service time is busy time over records processed, and rates
propagate along the graph by selectivity, so a slow task does not hide the demand of the tasks after it.

Where an engine holds sources back (back pressure), what they let in is not the demand either: it is what arrived, and the work of
a slow task waits at the source. So load counts arrivals, and the lag of the sources counts as work waiting for every task that
its records will reach. What an engine does not know stays unknown (NaN) here and never becomes 0.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.saturation import NEVER_RESTS
from surescale.contracts.source_load import BUSY_LEAST, WHOLE_LEAST, demanded, is_guessed, read_or_emitted
from surescale.contracts.windows import FIGURE, Float32, of_all_subtasks
from surescale.policies.answer import Float64
from surescale.policies.capacity import level_of
from surescale.policies.dealt import carried
from surescale.policies.flows import Counted, Flows, Undivided
from surescale.policies.graph import Bool, Int64, JobGraph
from surescale.policies.observed import observed_service
from surescale.policies.stalled import stalled

WARM_UP_MINUTES = 2  # from a restart on: a record costs more in them, since code and caches are cold
SKEW_MINUTES = 15  # over which the busiest subtask is compared with the mean
SKEW_LEAST = 1.1  # less is ordinary unevenness, and counts less and less from here down to half of it
SKEW_MOST = 2.0  # more subtasks do not divide a single hot key, so a wish that grew with it would never end
VISITS_MINUTES = 15  # the newest ones, which say how many records reach a task where that has moved
VISITS_MOVED = 0.05  # of the log: less is no move
VISITS_CHANCE = 2.0  # standard deviations by which as many records may differ by chance
NOTHING_MINUTES = 10  # known ones without a record, for a load of zero: fewer may be a pause
_COUNTERS = ("records_in", "records_out", "busy_ms")


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of a job over its window; leading batch axes stand for ``..``.

    Attributes:
        reported: bool [.., L, N], task-minutes with figures.
        load: float64 [.., L], records that came to the job per minute, let in or still waiting; NaN where a source is silent that
            reported at other times, or does not know.
        service_minutes: float64 [.., N], busy subtask-minutes per record; NaN for a task that has processed nothing, and for one
            whose busy time is unknown; 0 for one that is known to have had nothing to do.
        visits: float64 [.., N], records that reach a task per record that enters the job, now. Where parents never told what they
            send, by the task's own count; NaN where that is unknown too.
        backlog_records: float64 [.., N], records in the task's own queue at the last minute that has it; 0 where it never is.
        lag_records: float64 [.., N], records waiting at the sources before the task, as many as will reach it.
        flows: how many records reach each task for each one that its parents process.
        hot_share: float64 [.., N], share of a task's work that belongs to its hottest key, so to one subtask; 0 where unknown.
        spread: float64 [.., N], standard deviation of the log of the coming service time (``policies.capacity``).
        undivided: the work that each subtask has to do, of tasks with broadcast edges; None: there are none.
        queues_told: bool [..], whether each source told in some minute what waits for it; None: all of them did.
    """

    reported: Bool
    load: Float64
    service_minutes: Float64
    visits: Float64
    backlog_records: Float64
    lag_records: Float64
    flows: Flows
    hot_share: Float64
    spread: Float64
    undivided: Undivided | None = None
    queues_told: Bool | None = None

    def demand(self, load: Float64) -> Float64:
        """Return the busy subtasks [.., N] that a load [..] in records per minute needs; NaN where a factor is unknown."""
        return load[..., None] * self.visits * self.service_minutes

    def busiest(self, subtasks: Float64 | Int64) -> Float64:
        """Return the work of the busiest of subtasks [.., N] over the mean, from 1 to ``SKEW_MOST``."""
        return busiest_of(self.hot_share, subtasks)

    def widened(self, exact: Float64) -> Float64:
        """Return the subtasks [.., N] at which the busiest one has no more to do than each of ``exact`` [.., N] even ones.

        NaN where no size helps (``divided``).
        """
        return self.divided(widened_by(self.hot_share, exact))

    def divided(self, exact: Float64) -> Float64:
        """Return the subtasks [.., N] that ``exact`` [.., N] ones' work needs once all subtasks do their broadcast records.

        NaN where no size helps: where all work is broadcast, or this part alone is too much for a subtask.
        """
        if self.undivided is None:
            return exact
        share, sizes = self.undivided.share, self.undivided.needed(exact)
        return np.where((share > 0.0) & ((share >= 1.0) | np.isinf(sizes)), np.nan, sizes)

    def alone(self) -> "Measured":
        """Return a measurement without batch axes as a batch of one."""
        return self.rows(None)

    def rows(self, chosen: slice | Int64 | None) -> "Measured":
        """Return some rows of a measurement whose first axis is the batch; None adds that axis."""
        return Measured(
            reported=self.reported[chosen],
            load=self.load[chosen],
            service_minutes=self.service_minutes[chosen],
            visits=self.visits[chosen],
            backlog_records=self.backlog_records[chosen],
            lag_records=self.lag_records[chosen],
            flows=self.flows.rows(chosen),
            hot_share=self.hot_share[chosen],
            spread=self.spread[chosen],
            undivided=self.undivided.rows(chosen) if self.undivided is not None else None,
            queues_told=None if self.queues_told is None else np.asarray(self.queues_told)[chosen],
        )

    @property
    def silent_minutes(self) -> int:
        """Return how many minutes at the window's end passed without a report from any task; without batch axes."""
        newest_first = np.flip(self.reported.any(axis=-1))
        return int(np.argmax(newest_first)) if newest_first.any() else len(newest_first)

    @property
    def waiting_records(self) -> Float64:
        """Return [.., N] the records that wait for a task: in its own queue, and at the sources before it."""
        waiting: Float64 = self.backlog_records + self.lag_records
        return waiting

    def backlog_minutes(self, parallelism: Int64) -> Float64:
        """Return the minutes that parallelism [.., N] needs for all that waits for a task if nothing arrives; 0 where unknown."""
        drain: Float64 = or_zero(self.waiting_records * self.service_minutes) / carried(parallelism, self.flows.graph.deal)
        return drain


def measure(figures: Float32, graph: JobGraph) -> Measured:
    """Return what figures [.., L, N, F] say; the last axis as ``contracts.windows.FIGURES``."""
    return measured_of(completed(figures, graph), graph)


def measured_of(figures: Float32, graph: JobGraph) -> Measured:
    """Return what figures [.., L, N, F] say that are ``completed`` already."""
    reported = ~np.isnan(figures[..., FIGURE["coverage"]])
    sources = graph.by_level[0]
    reports = _SourceReports.of(reported, graph)
    warming = _warming(figures, sources)
    came = _came(figures, sources, warming)
    load = np.where(reports.minutes, np.where(reports.reported, came, 0.0).sum(axis=-1), np.nan)
    backlog = _at_known(figures[..., FIGURE["queued_records_last"]], -1)
    counters = [_counter(figures, name) for name in _COUNTERS]
    into, out, busy = counters
    if (stall := stalled(into, out, busy, _counter(figures, "parallelism"))) is not None:
        counters[2] = np.where(stall, np.nan, busy)
    each = _Counters.of(counters, warming)
    flows = _flows(figures, each, backlog, graph)
    lag = np.zeros_like(backlog)
    lag[..., sources] = backlog[..., sources]
    service, spread = _present_service(figures, counters, _service(figures, each, graph), warming, sources)
    shares = _shares(came, load, reports, graph)
    told = np.asarray((~np.isnan(figures[..., sources, FIGURE["queued_records_last"]])).any(axis=-2).all(axis=-1))
    lag = flows.carried(lag) - lag if lag.any() else lag
    resting = np.isnan(service) & graph.scalable & (backlog + lag == 0)
    if resting.any():
        service = np.where(resting & _had_nothing_to_do(figures, load, graph), 0.0, service)
    reached = flows.carried(shares if flows.beside is None else shares + flows.beside)
    if flows.beside is None and load.shape[-1] > VISITS_MINUTES:
        reached = _present_visits(figures, counters, warming, reached, graph)
    return Measured(
        reported=reported,
        load=load,
        service_minutes=np.where(graph.scalable, service, 0.0),
        visits=reached,
        backlog_records=backlog,
        lag_records=lag,
        flows=flows,
        hot_share=_hot_share(figures[..., -SKEW_MINUTES:, :, :], graph),
        spread=np.where(graph.scalable, spread, 0.0),
        undivided=flows.undivided(reached),
        queues_told=None if told.all() else told,
    )


def busiest_of(hot_share: Float64, subtasks: Float64 | Int64) -> Float64:
    """Return the work of the busiest of subtasks over the mean: with a share h on one key, 1 + h (p - 1)."""
    ratio: Float64 = np.minimum(1.0 + hot_share * (np.asarray(subtasks) - 1.0), SKEW_MOST)
    return ratio


def widened_by(hot_share: Float64, exact: Float64) -> Float64:
    """Return the p with p / (1 + h (p - 1)) = exact, at most ``SKEW_MOST`` times exact: a single hot key cannot be divided."""
    if not hot_share.any():
        return exact
    room = 1.0 - exact * hot_share
    with np.errstate(divide="ignore", invalid="ignore"):
        wider = np.where(room > 0, exact * (1.0 - hot_share) / room, np.inf)
    widened: Float64 = np.where(exact > 1.0, np.minimum(np.maximum(wider, exact), SKEW_MOST * exact), exact)
    return np.where(np.isnan(exact), exact, widened)


@dataclass(frozen=True, slots=True)
class _Counters:
    """Sums of each task's counters over minutes, float64 [.., N].

    Attributes:
        into, out: records, over the minutes in which each is known.
        timed: records in and out and busy time, over the minutes in which all three are known.
        settled: the same without the minutes after a restart.
        known: bool [.., L, N], whether records in and out are both known; None if all of them are, and busy times too.
    """

    into: Float64
    out: Float64
    timed: tuple[Float64, ...]
    settled: tuple[Float64, ...]
    known: Bool | None

    @classmethod
    def of(cls, counters: list[Float64], warming: Bool) -> "_Counters":
        """Return them for records in and out and busy times [.., L, N] with warming minutes [.., L]."""
        sums = [_sums(values, warming) for values in counters]
        timed, settled = tuple(whole for whole, _ in sums), tuple(later for _, later in sums)
        if np.isfinite(timed[0] + timed[1] + timed[2]).all():
            return cls(timed[0], timed[1], timed, settled, None)
        records_in, records_out, busy_ms = counters
        into, out = (or_zero(values).sum(axis=-2) for values in (records_in, records_out))
        known = ~np.isnan(records_in) & ~np.isnan(records_out)
        is_timed = known & ~np.isnan(busy_ms)
        sums = [_sums(np.where(is_timed, values, 0.0), warming) for values in counters]
        return cls(into, out, tuple(whole for whole, _ in sums), tuple(later for _, later in sums), known)


@dataclass(frozen=True, slots=True)
class _SourceReports:
    """Which sources reported, and when; leading batch axes stand for ``..``.

    Attributes:
        reported: bool [.., L, S], reported source-minutes.
        ever: bool [.., S], sources that reported at all. The others count as absent: a job may be scaled without them.
        minutes: bool [.., L], minutes in which all of these reported.
    """

    reported: Bool
    ever: Bool
    minutes: Bool

    @classmethod
    def of(cls, reported: Bool, graph: JobGraph) -> "_SourceReports":
        """Return it for the reported task-minutes [.., L, N]."""
        sources = reported[..., graph.by_level[0]]
        ever: Bool = np.asarray(sources.any(axis=-2))
        minutes = np.asarray((sources | ~ever[..., None, :]).all(axis=-1))
        return cls(sources, ever, minutes & sources.any(axis=-1))


def restarts_seen(figures: Float32) -> Int64:
    """Return [..] in how many minutes of figures [.., L, N, F] an attempt of the job began."""
    seen: Int64 = began_in(figures).sum(axis=-1)
    return seen


def began_in(figures: Float32) -> Bool:
    """Return [.., L] the minutes of figures [.., L, N, F] in which an attempt of the job began."""
    return np.asarray((figures[..., FIGURE["restarts"]] > 0).any(axis=-1))  # False where unknown


def waiting_told(figures: Float32, graph: JobGraph) -> Bool:
    """Return [.., N] whether figures [.., L, N, F] tell in any minute what waits for a task, in its queue or at a source."""
    told = np.asarray((~np.isnan(figures[..., FIGURE["queued_records_last"]])).any(axis=-2))
    known: Bool = told | told[..., graph.by_level[0]].any(axis=-1, keepdims=True)
    return known


def or_zero(values: Float64) -> Float64:
    """Return values with 0 where they are unknown (NaN), and finite ones for infinity; do not write to it.

    Where all are finite already it is the caller's array: ``numpy.nan_to_num`` would spend five times as long on a copy of it.
    """
    return values if np.isfinite(values).all() else np.nan_to_num(values)


def mean_of_last(load: Float64, minutes: int) -> Float64:
    """Return the mean [..] of the last ``minutes`` known minutes of load [.., L]; NaN when none is known."""
    known = ~np.isnan(load)
    if known.all():
        newest = np.empty_like(load)
        newest[..., :-minutes] = 0.0  # for the older minutes, as below, so that both branches round alike
        newest[..., -minutes:] = load[..., -minutes:]
        whole: Float64 = newest.sum(axis=-1) / min(minutes, load.shape[-1])
        return whole
    from_end = np.cumsum(known[..., ::-1], axis=-1)[..., ::-1]
    taken = known & (from_end <= minutes)
    count = taken.sum(axis=-1)
    total = np.where(taken, load, 0.0).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: Float64 = np.where(count > 0, total / count, np.nan)
    return mean


def _came(figures: Float32, sources: Int64, warming: Bool) -> Float64:
    """Return the records [.., L, S] that came to each source per minute, NaN where unknown.

    Once a source's arrivals are known, a minute without them says only what was let in. That may be far less, or more, and what
    is known of its queue may be a part of it. So it is unknown. So is what was let in after a restart, unless the queue tells the
    difference or is empty: some of it came before.
    """
    mine = figures[..., sources, :]
    queued, arrived = mine[..., FIGURE["queued_records_last"]], mine[..., FIGURE["arrived"]]
    before = np.full_like(queued, np.nan)
    before[..., 1:, :] = queued[..., :-1, :]
    came = demanded(mine, before)
    untold = np.isnan(arrived)
    if untold.any():
        is_told_else = (~untold).any(axis=-2, keepdims=True)
        came[untold & (is_told_else | (warming[..., None] & is_guessed(queued, before)))] = np.nan
    return came


def completed(figures: Float32, graph: JobGraph) -> Float32:
    """Return figures [.., L, N, F] with counters of all subtasks, and with what waits at least; the same array if both are told.

    A source may know what arrives, but not what waits. What more arrived than it got through waits; of a minute in which it
    rested nothing does, as far as that shows.
    """
    figures, sources = of_all_subtasks(figures), graph.by_level[0]
    queued, arrived = (figures[..., sources, FIGURE[name]] for name in ("queued_records_last", "arrived"))
    unknown = np.isnan(queued) & ~np.isnan(arrived)
    if not unknown.any():
        return figures
    mine = figures[..., sources, :].astype(np.float64)
    offered = mine[..., FIGURE["parallelism"]] * MINUTE_MS
    rested = mine[..., FIGURE["busy_ms"]] + or_zero(mine[..., FIGURE["backpressured_ms"]]) < NEVER_RESTS * offered
    more = arrived - read_or_emitted(mine[..., FIGURE["records_in"]], mine[..., FIGURE["records_out"]])
    more = np.where(rested | np.isnan(more), -np.inf, more)
    waits, filled = np.zeros(more[..., 0, :].shape), figures.copy()
    for minute in range(figures.shape[-3]):
        waits = np.where(np.isnan(queued[..., minute, :]), np.maximum(waits + more[..., minute, :], 0.0), queued[..., minute, :])
        told = np.where(unknown[..., minute, :] & (waits > 0), waits, queued[..., minute, :])
        filled[..., minute, sources, FIGURE["queued_records_last"]] = told
    return filled


def _had_nothing_to_do(figures: Float32, load: Float64, graph: JobGraph) -> Bool:
    """Return [.., N] the tasks that are known to have rested in the last ``NOTHING_MINUTES`` in which they reported.

    A minute counts in which a task counted no record and, with all its subtasks, did not work. If its times are unknown, nothing
    may have come to the job.
    """
    names = ("records_in", "records_out", "busy_ms", "idle_ms", "backpressured_ms", "parallelism")
    into, out, busy, idle, held, subtasks = (_counter(figures, name) for name in names)
    offered = subtasks * MINUTE_MS
    at_rest = (busy + or_zero(held) <= BUSY_LEAST * offered) & ~(busy + idle + or_zero(held) < WHOLE_LEAST * offered)
    nothing_came = (load == 0)[..., None] & np.isnan(busy)
    rests = (into == 0) & (out == 0) & (at_rest | nothing_came)
    known = ~np.isnan(figures[..., FIGURE["coverage"]])
    from_end = np.cumsum(known[..., ::-1, :], axis=-2)[..., ::-1, :]
    taken = known & (from_end <= NOTHING_MINUTES)
    nothing: Bool = (rests | ~taken).all(axis=-2) & (taken.sum(axis=-2) == NOTHING_MINUTES)
    return nothing


def _shares(came: Float64, load: Float64, reports: _SourceReports, graph: JobGraph) -> Float64:
    """Return each source's share [.., N] of what came while all of them reported, 1 if nothing did; 0 for other tasks."""
    known = ~np.isnan(load)[..., None] & reports.reported
    each = np.where(known, came, 0.0).sum(axis=-2)
    total = each.sum(axis=-1, keepdims=True)
    shares: Float64 = np.zeros((*each.shape[:-1], len(graph.tasks)))
    shares[..., graph.by_level[0]] = np.where(total > 0, each / np.where(total > 0, total, 1.0), 1.0)
    return shares


def _present_visits(figures: Float32, counters: list[Float64], warming: Bool, reached: Float64, graph: JobGraph) -> Float64:
    """Return visits [.., N]: those of the whole window, or where they have moved since, those of the newest minutes."""
    newest = figures[..., -VISITS_MINUTES:, :, :]
    reported = ~np.isnan(newest[..., FIGURE["coverage"]])
    late = warming[..., -VISITS_MINUTES:]
    each = _Counters.of([values[..., -VISITS_MINUTES:, :] for values in counters], late)
    flows = _flows(newest, each, _at_known(newest[..., FIGURE["queued_records_last"]], -1), graph)
    if flows.beside is not None:
        return reached
    reports = _SourceReports.of(reported, graph)
    came = _came(newest, graph.by_level[0], late)
    load = np.where(reports.minutes, np.where(reports.reported, came, 0.0).sum(axis=-1), np.nan)
    now = flows.carried(_shares(came, load, reports, graph))
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.abs(np.log(now / reached)) > np.maximum(VISITS_MOVED, VISITS_CHANCE / np.sqrt(each.into))
    return np.where(moved & np.isfinite(now) & (each.into > 0) & (reached > 0) & (now > 0), now, reached)


def _flows(figures: Float32, each: _Counters, backlog: Float64, graph: JobGraph) -> Flows:
    """Return the flows between tasks: selectivities over each task's own minutes, counts over minutes that all tasks share.

    The first minute has no growth of the queue, so it does not count.
    """
    waiting, sources = figures[..., FIGURE["queued_records_last"]], graph.by_level[0]
    # The visits of a source already count entering records, which it may report as out only: do not multiply them twice.
    entered = _entered(each.into, each.out, sources)
    with np.errstate(divide="ignore", invalid="ignore"):
        passed = np.where(entered > 0, each.out / entered, 1.0)
    if each.known is None:
        processed = each.into - figures[..., 0, :, FIGURE["records_in"]]
        emitted = each.out - figures[..., 0, :, FIGURE["records_out"]]
        arrived = processed + backlog - _at_known(waiting, 0)
    else:
        shared = np.asarray((each.known | ~each.known.any(axis=-2, keepdims=True)).all(axis=-1))
        pairs = (shared[..., 1:] & shared[..., :-1])[..., None]
        later = [_counter(figures, name)[..., 1:, :] for name in ("records_in", "records_out")]
        queues = np.diff(waiting.astype(np.float64), axis=-2)
        processed, emitted, grown = (np.where(pairs, or_zero(values), 0.0).sum(axis=-2) for values in (*later, queues))
        arrived = processed + grown
    processed = _entered(processed, emitted, sources)
    parallelism = np.maximum(_at_known(figures[..., FIGURE["parallelism"]], -1), 1.0)
    counted = Counted(processed, emitted, arrived)
    if each.known is not None and not (tells := each.known.any(axis=-2)).all():
        counted = Counted(*(np.where(tells, values, np.nan) for values in (processed, emitted, arrived)))
    return Flows.of(passed, counted, parallelism, graph)


def _service(figures: Float32, each: _Counters, graph: JobGraph) -> Float64:
    """Return busy subtask-minutes per record [.., N]; without the minutes after a restart, if others are known.

    For a task without busy time, ``observed_service`` gives it where its queue never lets it rest.
    """
    (into, out, spent), (later_into, later_out, later_spent) = each.timed, each.settled
    records, later = (_entered(*pair, graph.by_level[0]) for pair in ((into, out), (later_into, later_out)))
    spent, records = np.where(later > 0, later_spent, spent), np.where(later > 0, later, records)
    with np.errstate(divide="ignore", invalid="ignore"):
        service = np.where(records > 0, spent / records / MINUTE_MS, np.nan)
    unknown = np.isnan(service) & graph.scalable & (each.into + each.out > 0)
    return np.where(unknown, observed_service(figures), service) if unknown.any() else service


def _entered(into: Float64, out: Float64, sources: Int64) -> Float64:
    """Return the records [.., N] taken in; a source may not count what it reads (``contracts.source_load.read_or_emitted``)."""
    taken = into.copy()
    taken[..., sources] = read_or_emitted(into[..., sources], out[..., sources])
    return taken


def _counter(figures: Float32, name: str) -> Float64:
    """Return one counter, float64 [.., L, N]; it keeps the caller's memory layout, and so the order of sums."""
    return figures[..., FIGURE[name]].astype(np.float64)


def _sums(values: Float64, warming: Bool) -> tuple[Float64, Float64]:
    """Return the sums [.., N] of values [.., L, N] over all minutes, and over those that are not warming."""
    whole: Float64 = values.sum(axis=-2)
    if not warming.any():
        return whole, whole
    settled = values.copy(order="K")
    settled[warming] = 0.0
    later: Float64 = settled.sum(axis=-2)
    return whole, later


def _warming(figures: Float32, sources: Int64) -> Bool:
    """Return bool [.., L], the minutes in which an attempt of the job began, and those after it up to ``WARM_UP_MINUTES``."""
    began = np.asarray((figures[..., sources, FIGURE["restarts"]] > 0).any(axis=-1))
    warming = began.copy()
    for back in range(1, WARM_UP_MINUTES):
        warming[..., back:] |= began[..., :-back]
    return warming


def _hot_share(figures: Float32, graph: JobGraph) -> Float64:
    """Return [.., N] ``Measured.hot_share`` over figures [.., m, N, F]; without minutes in which parallelism may have changed.

    Where work is dealt out the busiest of even keys has more than the mean. Only what is beyond that is a hot key.
    """
    busiest, busy, subtasks = (figures[..., FIGURE[name]] for name in ("busy_ms_max", "busy_ms", "parallelism"))
    peaks = busiest * subtasks
    if not (peaks > (1.0 + SKEW_LEAST) / 2.0 * busy).any():  # False where unknown
        return np.zeros(peaks.shape[:-2] + peaks.shape[-1:])
    fair = np.ones(1, dtype=np.float32)
    if graph.deal.any():
        fair = (subtasks / carried(subtasks.astype(np.float64), graph.deal)).astype(np.float32)
    usual = busy * fair
    known = ~np.isnan(peaks) & ~np.isnan(usual) & ~_warming(figures, graph.by_level[0])[..., None]
    peak, total, offered, beside = (
        np.where(known, each, 0.0).sum(axis=-2, dtype=np.float64) for each in (peaks, usual, subtasks, busy * (subtasks - fair))
    )
    is_busy = (total > BUSY_LEAST * MINUTE_MS * offered) & (beside > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(is_busy, peak / total - 1.0, 0.0)
        share = np.where(is_busy, (peak - total) / beside, 0.0)
    ordinary = SKEW_LEAST - 1.0
    counts: Float64 = np.clip(2.0 * above / ordinary - 1.0, 0.0, 1.0)
    return np.clip(share * counts, 0.0, 1.0)


def _present_service(
    figures: Float32, counters: list[Float64], service: Float64, warming: Bool, sources: Int64
) -> tuple[Float64, Float64]:
    """Return service times and their spread [.., N]: the window's mean, or where that walks its level (``policies.capacity``)."""
    into, out, busy = counters
    idle, held = (_counter(figures, name) for name in ("idle_ms", "backpressured_ms"))
    records = _entered(into, out, sources)
    offered = busy + or_zero(idle) + or_zero(held)
    known = (records > 0) & (busy > BUSY_LEAST * offered) & ~warming[..., None]
    level = level_of(busy / MINUTE_MS, records, known)
    if level is None:
        return service, np.zeros_like(service)
    walks = ~np.isnan(level.service_minutes) & ~np.isnan(service)
    return np.where(walks, level.service_minutes, service), np.where(walks, level.spread, 0.0)


def _at_known(values: Float32, which: Literal[0, -1]) -> Float64:
    """Return values [.., N] at each task's first (0) or last (-1) minute that has one, 0 if none does."""
    ends: Float64 = values[..., which, :].astype(np.float64)
    if not np.isnan(ends).any():
        return ends
    forward = slice(None, None, 1 if which == 0 else -1)
    at = np.argmax(~np.isnan(values[..., forward, :]), axis=-2)
    found: Float64 = np.take_along_axis(values[..., forward, :], at[..., None, :], axis=-2)[..., 0, :].astype(np.float64)
    return or_zero(found)
