"""What rules read from a window, and the frame in which each of them answers. Knows no rule.

A rule is arithmetic on a ``Reading``: load, service times, backlog and utilisation. Leading batch axes are allowed everywhere, so
calibration can run one rule over many closed loops at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self, TypeVar, runtime_checkable

import msgspec
import numpy as np
import numpy.typing as npt

from surescale.contracts.job_limits import is_simulated
from surescale.contracts.job_settings import LatencyBound
from surescale.contracts.plurals import records
from surescale.contracts.windows import FIGURE, Float32
from surescale.policies.answer import Answer, Float64, RawAnswer
from surescale.policies.dealt import carried
from surescale.policies.fullest import behind_of, coarse_of, full_of, short_of
from surescale.policies.graph import Bool, Int64, JobGraph
from surescale.policies.latency_bound import busy_most
from surescale.policies.measure import Measured, began_in, completed, mean_of_last, measured_of
from surescale.policies.policy import WithoutModel
from surescale.policies.question import Question
from surescale.policies.sizing import Constants, Sizing, SizingRows, target_size, worth_a_restart

Estimate = Literal["mean-60", "mean-15", "mean-10", "p90", "peak", "quick-up"]
ESTIMATES: tuple[Estimate, ...] = ("mean-60", "mean-15", "mean-10", "p90", "peak", "quick-up")
_MEAN_MINUTES = {"mean-60": 60, "mean-15": 15, "mean-10": 10}
_ORDER_IN_WORDS = {"p90": "nine of ten minutes have no more", "peak": "the busiest minute"}
AFTER_RESTART_MINUTES = 30  # in which a job works off what a restart left waiting
RECOVERING_MOST = 0.1  # minutes of its load by which more may wait than a minute before, or noise would count
QUICK_UP_MINUTES = 10  # or a shorter span; of its mean and that of three times as long the larger counts: quick up, slow down


@dataclass(frozen=True, slots=True)
class SizedFor:
    """The load [..] that a rule sizes for, and the one above which a shrink leaves room for noise; None: that is the same."""

    load: Float64
    steady: Float64 | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A job at the end of a span; leading batch axes stand for ``..``.

    Attributes:
        graph: the job's index tables.
        measured: load [.., L], service times, visits and backlog [.., N].
        current: int64 [.., N], present parallelism.
        figures: float32 [.., L, N, F], as ``contracts.windows.FIGURES``.
        hourly_load: float64 [.., 192], as ``Window.hourly_load``.
        ends_ms: int64 [..], end of the last minute.
        catch_up_minutes: in which the job's owner wants a backlog worked off; None: as the rule has it.
        latency_bound: that the job's owner wants kept; None: there is none.
        owners_utilisation: how busy the job's owner wants tasks to be; None: as the rule has it.
        restart_minutes: that a rescale stops this job; None: as the rule has it.
        is_recovering: the job runs on a real engine, and works off what a restart left waiting.
    """

    graph: JobGraph
    measured: Measured
    current: Int64
    figures: Float32
    hourly_load: Float64
    ends_ms: Int64
    catch_up_minutes: float | None = None
    restart_minutes: float | None = None
    latency_bound: LatencyBound | None = None
    owners_utilisation: float | None = None
    is_recovering: bool = False

    @classmethod
    def of(cls, question: Question) -> "Reading":
        """Return the reading of one window."""
        window, seconds = question.window, question.restart_seconds
        return cls(
            graph=question.graph,
            measured=question.measured,
            current=question.current,
            figures=question.figures,
            hourly_load=window.hourly_load.astype(np.float64),
            ends_ms=np.array(window.window_end_ms, dtype=np.int64),
            catch_up_minutes=question.settings.catch_up_minutes,
            restart_minutes=None if seconds is None else seconds / 60.0,
            latency_bound=question.latency_bound,
            owners_utilisation=question.limits.utilisation,
            is_recovering=not is_simulated(window.topology.engine) and _is_recovering(question),
        )

    def rate(self, estimate: Estimate, span_minutes: int = QUICK_UP_MINUTES) -> Float64:
        """Return the records per minute [..] that entered the job, NaN if unknown.

        Who decides more often than every ten minutes wants a quicker ``quick-up`` too: its means take one span and three.
        """
        load = self.measured.load
        if estimate in _MEAN_MINUTES:
            return mean_of_last(load, _MEAN_MINUTES[estimate])
        if estimate == "quick-up":
            minutes = min(span_minutes, QUICK_UP_MINUTES)
            return np.maximum(mean_of_last(load, minutes), mean_of_last(load, 3 * minutes))
        return _order_statistic(load, 0.9 if estimate == "p90" else 1.0)

    def rate_in_words(self, estimate: Estimate, span_minutes: int = QUICK_UP_MINUTES) -> str:
        """Return a rate with what it is: the load beside it in a decision is another mean, of five minutes."""
        rate = float(self.rate(estimate, span_minutes))
        if estimate == "quick-up":
            short = min(span_minutes, QUICK_UP_MINUTES)
            minutes = short if float(mean_of_last(self.measured.load, short)) == rate else 3 * short
        else:
            minutes = _MEAN_MINUTES.get(estimate, 0)
        return f"{records(rate)} a minute ({mean_in_words(minutes) if minutes else _ORDER_IN_WORDS[estimate]})"

    def sized_for(self, estimate: Estimate, span_minutes: int) -> SizedFor:
        """Return what ``rate`` says and, where that is for few minutes and has much noise, the load without.

        A lower need has to last for half an hour. Of one minute's load some value within that time exceeds any room, so a job
        under a constant load whose even sizes lie far apart would keep twice what it needs.
        """
        load = self.rate(estimate, span_minutes)
        if estimate != "quick-up" or span_minutes >= QUICK_UP_MINUTES:
            return SizedFor(load)
        return SizedFor(load, np.fmin(load, self.rate(estimate)))

    def demand(self, rate: Float64) -> Float64:
        """Return the busy subtasks [.., N] that a rate [..] needs (DS2); NaN for virtual tasks and where unknown."""
        return np.where(self.graph.scalable, self.measured.demand(rate), np.nan)

    def utilisation(self, minutes: int) -> Float64:
        """Return busy over busy, idle and backpressured time [.., N] in the last minutes; restarts count as none of these.

        NaN for a task that never ran, and for one whose times are unknown; 0 if it is known to have had nothing to do.
        """
        last = self.figures[..., -minutes:, :, :]
        names = ("busy_ms", "idle_ms", "backpressured_ms")
        busy, *others = (last[..., FIGURE[name]].astype(np.float64) for name in names)
        offered = busy + others[0] + others[1]
        known = ~np.isnan(offered)
        worked, available = (np.where(known, values, 0.0).sum(axis=-2) for values in (busy, offered))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(available > 0, worked / available, np.nan)
        has_nothing = self.graph.scalable & (self.measured.service_minutes == 0.0)
        used: Float64 = np.where(np.isnan(share) & has_nothing, 0.0, share)
        return used

    def rows(self, chosen: slice) -> "Reading":
        """Return some rows of a reading whose first axis is the batch."""
        return replace(
            self,
            measured=self.measured.rows(chosen),
            current=self.current[chosen],
            figures=self.figures[chosen],
            hourly_load=self.hourly_load[chosen],
            ends_ms=self.ends_ms[chosen],
        )

    def sizing(self, shipped: Sizing) -> Sizing:
        """Return the constants of a sizing with the utilisation and the catch-up time that the job's owner wants."""
        minutes, busy = self.catch_up(shipped.catch_up_minutes), self.aim(shipped.utilisation)
        return msgspec.structs.replace(shipped, catch_up_minutes=minutes, utilisation=busy)

    def aim(self, shipped: float) -> float:
        """Return how busy tasks should be: as the job's owner wants, else as the rule has it."""
        return shipped if self.owners_utilisation is None else self.owners_utilisation

    def catch_up(self, shipped: float) -> float:
        """Return the minutes in which a backlog is worked off: as the job's owner wants, and within a bound on latency."""
        minutes = shipped if self.catch_up_minutes is None else self.catch_up_minutes
        if self.latency_bound is None:
            return minutes
        return min(minutes, max(1.0, self.latency_bound.seconds / 60.0))

    def target(self, utilisation: Float64 | float) -> Float64 | float:
        """Return how busy tasks [.., 1] should be: what the rule aims at, or less if a bound on latency asks for more room."""
        if self.latency_bound is None:
            return utilisation
        return np.fmin(utilisation, busy_most(self.measured.load, self.latency_bound)[..., None])

    def whole(self, exact: Float64) -> Int64:
        """Return the whole subtasks [.., N] that carry ``exact``, at least one; the present parallelism where it is NaN."""
        return target_size(exact, self.current, self.graph).wanted

    def whole_if_worth_it(self, exact: Float64, sizing: Constants, steady: Float64 | None = None) -> Int64:
        """Return the whole subtasks [.., N] that carry ``exact`` if that is worth a restart of the job, else the present ones.

        ``steady`` as of ``policies.sizing.target_size``.
        """
        asked = target_size(exact, self.current, self.graph, steady)
        opened = worth_a_restart(asked, self.measured, self.current, self.graph, sizing, is_patient=self.is_recovering)
        return changed_where(opened, asked.wanted, self.current)

    @property
    def carried(self) -> Float64 | Int64:
        """Return how many even subtasks [.., N] the present ones are as fast as (``policies.dealt.carried``)."""
        return carried(self.current, self.graph.deal)


class Rule(Protocol):
    """The arithmetic of a rule; ``answer_of`` turns it into a policy's answer."""

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism int64 [.., N], before guardrails; the present one where nothing should change."""
        ...

    def sentence(self, reading: Reading) -> str:
        """Return one sentence for people about the change wanted; for a reading without batch axes."""
        ...


class RuleWithoutModel(WithoutModel):
    """A rule that is a policy by itself."""

    __slots__ = ()

    def answer(self: Rule, question: Question) -> Answer:
        """Return the sizes that the rule wants, or the present ones and why they stay."""
        return answer_of(self, question)


@runtime_checkable
class SizingRule(Rule, Protocol):
    """A rule that expects a load, sizes for it, and makes the change if that is worth a restart, by the constants of a sizing."""

    def expected_by(self, rules: Sequence[Self], reading: Reading) -> SizedFor:
        """Return the load [B] that rules like this one size for; each has its part of the rows, one after another."""
        ...

    def constants(self, reading: Reading) -> Sizing:
        """Return the constants for a job."""
        ...

    def sized(self, reading: Reading, expected: SizedFor, constants: Constants) -> Int64:
        """Return wanted parallelism [.., N] for a load [..]; the present one while the gate is closed."""
        ...


OneKind = TypeVar("OneKind", bound=SizingRule)


def wanted_by(rules: Sequence[OneKind], reading: Reading) -> Int64:
    """Return what rules of one class want, [B, N]: each has its part of the rows, one after another, and the same size of it.

    It is what each would want by itself. Together they read the load once, and a calculation takes all rows at once.
    """
    sizings = SizingRows.of([rule.constants(reading) for rule in rules], len(reading.current) // len(rules))
    return rules[0].sized(reading, rules[0].expected_by(rules, reading), sizings)


def sized_for_each(estimates: Sequence[tuple[Estimate, int]], reading: Reading) -> SizedFor:
    """Return ``Reading.sized_for`` [B] by several estimates and spans; each has its part of the rows, one after another."""
    found = {each: reading.sized_for(*each) for each in set(estimates)}
    parts = [(found[each], part) for each, part in zip(estimates, parts_of(reading, len(estimates)), strict=True)]
    load = np.concatenate([each.load[part] for each, part in parts])
    if all(each.steady is None for each in found.values()):
        return SizedFor(load)
    return SizedFor(load, np.concatenate([(each.load if each.steady is None else each.steady)[part] for each, part in parts]))


def parts_of(reading: Reading, number: int) -> list[slice]:
    """Return so many parts of a reading's rows, of the same size, one after another."""
    rows = len(reading.current) // number
    return [slice(at * rows, (at + 1) * rows) for at in range(number)]


def read_figures(
    figures: Float32, graph: JobGraph, current: Int64, hourly_load: npt.NDArray[np.floating], ends_ms: Int64
) -> Reading:
    """Return the reading of figures [.., L, N, F]."""
    known = completed(figures, graph)
    return Reading(
        graph=graph,
        measured=measured_of(known, graph),
        current=current,
        figures=known,
        hourly_load=hourly_load.astype(np.float64),
        ends_ms=ends_ms,
    )


def answer_of(rule: Rule, question: Question) -> Answer:
    """Return a rule's answer: no load known, no change, or the sizes it wants."""
    reading = Reading.of(question)
    if not reading.measured.reported[:, reading.graph.by_level[0]].any():
        return RawAnswer(reading.current, "No source has reported, so the load is unknown.")
    wanted = rule.wanted(reading)
    if not np.array_equal(wanted, reading.current):
        return RawAnswer(wanted, rule.sentence(reading))
    if np.isnan(reading.measured.load).all():
        return RawAnswer(reading.current, "The load is unknown, so sizes stay as they are.")
    needs = reading.measured.demand(np.array(1.0))[reading.graph.scalable]
    if np.isnan(needs).any():
        return RawAnswer(reading.current, f"{rule.sentence(reading)} What some tasks need is unknown; sizes stay as they are.")
    is_told = (full_of(question) | short_of(question) | behind_of(question) | coarse_of(question)).any()
    fits = "" if is_told else " The present sizes are close enough to that."
    return RawAnswer(reading.current, f"{rule.sentence(reading)}{fits}")


def changed_where(opened: Bool, wanted: Int64, current: Int64) -> Int64:
    """Return wanted parallelism [.., N] where a job-level gate [..] is open, the present one elsewhere."""
    chosen: Int64 = np.where(opened[..., None], wanted, current)
    return chosen


def _is_recovering(question: Question) -> bool:
    """Return whether an attempt of the job began within ``AFTER_RESTART_MINUTES``, and what waits has only fallen since."""
    began = np.flatnonzero(began_in(question.figures[-AFTER_RESTART_MINUTES:]))
    if not len(began):
        return False
    since = min(AFTER_RESTART_MINUTES, len(question.figures)) - int(began[-1])
    queued = question.figures[-since:, question.graph.by_level[0], FIGURE["queued_records_last"]].sum(axis=-1)
    grows = np.diff(queued) > RECOVERING_MOST * question.measured.load[len(question.figures) - since + 1 :]  # False where unknown
    return not grows.any()


def mean_in_words(minutes: int) -> str:
    """Return which minutes a load is the mean of.

    >>> mean_in_words(1), mean_in_words(3)
    ('the last minute', 'mean of 3 minutes')
    """
    return "the last minute" if minutes == 1 else f"mean of {minutes} minutes"


def _order_statistic(load: Float64, share: float) -> Float64:
    """Return the value [..] that this share of the known minutes of load [.., L] does not exceed (nearest rank)."""
    ordered = np.sort(load, axis=-1)  # NaN last
    known = (~np.isnan(load)).sum(axis=-1)
    at = np.clip(np.ceil(share * known).astype(np.int64) - 1, 0, None)
    value: Float64 = np.take_along_axis(ordered, at[..., None], axis=-1)[..., 0]
    return value
