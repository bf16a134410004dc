"""Policies in the closed loop as in the pipeline: windows in, ``policies.decide`` with its guardrails, restarts paid for.

Every policy is judged as the pipeline serves it, and calibrated so too: with the limits that jobs on this kind of engine have,
with emergencies between spans where that engine answers them, and with the rescaler's own limits and waits
(``simulation.loops.rescaler``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from msgspec import structs

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import answers_emergencies, is_simulated
from surescale.contracts.job_settings import JobSettings, LatencyBound, Objective
from surescale.contracts.messages import JobTopology, Saturation
from surescale.contracts.restarts import Look, RestartMeter
from surescale.contracts.saturation import SEEN_MINUTES, remembered
from surescale.contracts.summing_up import RUNNING
from surescale.contracts.waits import counted_waits
from surescale.contracts.windows import FIGURE, Float32, Window, of_all_subtasks
from surescale.policies.decide import decide_if_due
from surescale.policies.emergency import may_gather
from surescale.policies.graph import Int64
from surescale.policies.policy import Policy, is_span_end
from surescale.simulation.evaluation.hours import HOUR_MINUTES, Hours, hours_of
from surescale.simulation.load.jobs import PARALLELISM_MAX, SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.rescaler import Rescaler, busy_minutes
from surescale.simulation.loops.rows import LoopRows, Observed
from surescale.simulation.loops.terms import Span, Terms


@dataclass(frozen=True, slots=True)
class Trial:
    """Where and how to run: R runs of ``hours`` scored hours, each with its first decision at ``first_minutes`` [R]."""

    job: SizedJob
    workload: Workload
    terms: Terms
    first_minutes: Int64
    seeds: tuple[int, ...]
    hours: int
    span_minutes: int | None = None  # for all policies, instead of their own
    objective: Objective | None = None  # of the job's owner, as policies are told

    def at_span(self, own_minutes: int) -> "Trial":
        """Return the trial with a policy's own time between decisions, unless one is set for all."""
        return self.every_minutes(self.span_minutes or own_minutes)

    def every_minutes(self, minutes: int) -> "Trial":
        """Return the trial with this many minutes between decisions."""
        return replace(self, terms=replace(self.terms, span_minutes=minutes))

    def rows(self, copies: int = 1) -> LoopRows:
        """Return the runs at their start, each repeated ``copies`` times."""
        first = np.repeat(self.first_minutes, copies)
        return LoopRows(self.job, self.workload, first, np.tile(self.job.start_parallelism, (len(first), 1)), self.terms)


@dataclass(slots=True)
class Topologies:
    """What the pipeline would say of the rows of a job beside their figures: topologies, and what it remembers of tasks."""

    job: SizedJob
    name: str
    terms: Terms
    _saturations: dict[int, tuple[Saturation, ...]] = field(default_factory=dict)
    _asked_ms: dict[tuple[str, int], int] = field(default_factory=dict)  # what of each row was asked for when
    _restarts: dict[int, RestartMeter] = field(default_factory=dict)
    _attempts: dict[int, Look] = field(default_factory=dict)  # the newest look at each row

    def of(self, current: Int64) -> JobTopology:
        """Return the topology at parallelism ``current`` [N]."""
        sizes = zip(self.job.specs(), current.tolist(), strict=True)
        tasks = tuple(structs.replace(spec, parallelism=size) for spec, size in sizes)
        engine, restart_ms = self.terms.engine, self.terms.told_restart_ms
        return JobTopology(job=self.name, version=0, at_ms=0, tasks=tasks, engine=engine, restart_ms=restart_ms)

    def restart_ms(self, seen: Observed, row: int) -> int | None:
        """Return what a row's rescales took as far as policies know; to be asked at least once a window."""
        if self.terms.served != "measured":
            return self.terms.told_restart_ms
        meter = self._restarts.setdefault(row, RestartMeter())
        lately = seen.figures[row][-self._passed("restarts", seen, row) :]
        for later, figures in zip(range(len(lately) - 1, -1, -1), lately, strict=True):
            meter.note(int(seen.ends_ms[row]) - later * MINUTE_MS, self._look(row, figures))
        return meter.restart_ms

    def _passed(self, what: str, seen: Observed, row: int) -> int:
        """Return how many minutes have passed since this was asked of a row; a span before it is asked at first."""
        now_ms = int(seen.ends_ms[row])
        before_ms = self._asked_ms.get((what, row), now_ms - self.terms.span_minutes * MINUTE_MS)
        self._asked_ms[what, row] = now_ms
        return (now_ms - before_ms) // MINUTE_MS

    def _look(self, row: int, figures: Float32) -> Look | None:
        """Return what a minute's figures [N, F] show of a row; None if nobody reported."""
        reported = figures[~np.isnan(figures[:, FIGURE["coverage"]])].astype(np.float64)
        if not len(reported):
            return None
        began = int(np.nanmax(reported[:, FIGURE["restarts"]], initial=0.0))
        ran = np.sort(reported[:, RUNNING].sum(axis=1) / np.maximum(reported[:, FIGURE["parallelism"]], 1.0))  # NaN last
        known = int((~np.isnan(ran)).sum())
        ran_ms = float(ran[(known - 1) // 2]) if known else None
        before = self._attempts.get(row)
        attempt = (before.attempt if before is not None else 0) + began
        if before is not None and not began and ran_ms is not None:
            ran_ms += before.ran_ms or 0.0
        found = Look("", attempt, tuple(np.nan_to_num(figures[:, FIGURE["parallelism"]]).astype(np.int64).tolist()), ran_ms)
        self._attempts[row] = found
        return found

    def saturations(self, seen: Observed, row: int, topology: JobTopology) -> tuple[Saturation, ...]:
        """Return what is remembered of a row's tasks; to be asked at least once a window."""
        kept = self._saturations.get(row, ())
        if is_simulated(topology.engine):
            return kept
        figures, ends_ms = of_all_subtasks(seen.figures[row]), int(seen.ends_ms[row])
        for later in range(self._passed("saturations", seen, row) - 1, -1, -1):
            until = len(figures) - later
            kept = remembered(kept, figures[max(until - SEEN_MINUTES, 0) : until], topology, ends_ms - later * MINUTE_MS)
        self._saturations[row] = kept
        return kept


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """A policy's result in all runs: its hours, decisions per run, and how many came from a stand-in, with one reason."""

    hours: Hours
    decisions: int
    stand_ins: int = 0
    stand_in_reason: str = ""


def drive(rows: LoopRows, hours: int, choose: Callable[[LoopRows], Int64], told: Callable[[float], None]) -> list[Span]:
    """Step rows through hours as ``choose`` decides; ``told`` receives the share that is done."""
    spans: list[Span] = []
    count = hours * HOUR_MINUTES // rows.terms.span_minutes
    for done in range(count):
        spans.append(rows.step(choose(rows)))
        told((done + 1) / count)
    return spans


def follow(policy: Policy, trial: Trial, told: Callable[[float], None]) -> LoopOutcome:
    """Run a policy through the code that serves it in the pipeline and return its result."""
    trial = trial.at_span(policy.span_minutes)
    settings = settings_of(trial.job, trial.terms.latency_bound or trial.objective)
    serving = Serving([policy] * len(trial.seeds), settings, trial.job, trial.terms, trial.seeds)
    trial = trial.every_minutes(serving.step_minutes)
    spans = drive(trial.rows(), trial.hours, serving.sizes, told)
    return LoopOutcome(
        hours=hours_of(spans, trial.terms, trial.first_minutes, trial.job),
        decisions=round(serving.decided / len(trial.seeds)),
        stand_ins=len(serving.stand_in_reasons),
        stand_in_reason=serving.stand_in_reasons[0] if serving.stand_in_reasons else "",
    )


def settings_of(job: SizedJob, objective: Objective | LatencyBound | None = None) -> JobSettings:
    """Return the settings of a job that is judged."""
    return JobSettings(job=f"sim/{job.name}", parallelism_max=PARALLELISM_MAX, total_limit=job.total_limit, objective=objective)


class Serving:
    """Serves rows of one job, each by a policy of its own, as agent and rescaler do.

    Attributes:
        step_minutes: how often rows are to be looked at: every minute where something may be done between the ends of spans.
        decided: how many decisions were made.
        stand_in_reasons: why the rule stood in for a policy, once for each time.
    """

    def __init__(
        self, policies: Sequence[Policy], settings: JobSettings, job: SizedJob, terms: Terms, seeds: Sequence[int]
    ) -> None:
        """``terms``: with the minutes between two decisions; ``policies`` and ``seeds``: one for each row."""
        self._policies, self._settings, self._seeds, self._span_minutes = policies, settings, seeds, terms.span_minutes
        busy = busy_minutes(terms.restart_ms, terms.delay_minutes)
        is_urgent = answers_emergencies(settings, terms.engine) and any(policy.floor_applies for policy in policies)
        self.step_minutes = 1 if is_urgent or (terms.mode == "clean" and busy > terms.span_minutes) else terms.span_minutes
        self._topologies = Topologies(job, settings.job, replace(terms, span_minutes=self.step_minutes))
        self._rescalers = [Rescaler(settings, busy) for _ in policies]
        self._is_urgent = is_urgent
        self.decided = 0
        self.stand_in_reasons: list[str] = []

    def sizes(self, rows: LoopRows) -> Int64:
        """Return the sizes [B, N] that rows get now."""
        seen = rows.observe()
        sizes = seen.current.copy()
        for row, (policy, rescaler) in enumerate(zip(self._policies, self._rescalers, strict=True)):
            now_ms, made = int(seen.ends_ms[row]), None
            is_asked = is_span_end(now_ms, self._span_minutes) or (self._is_urgent and may_gather(seen.figures[row]))
            if not is_asked and not rescaler.waits:
                continue
            topology = self._topologies.of(seen.current[row])
            if is_asked:
                window = self._window(seen, row, topology)
                made = decide_if_due(window, policy, self._settings, seed=self._seeds[row], span_minutes=self._span_minutes)
            if made is not None:
                self.decided += 1
                if made.policy.fallback_reason:
                    self.stand_in_reasons.append(made.policy.fallback_reason)
            wanted = rescaler.wanted(made, topology, now_ms)
            if wanted:
                sizes[row] = [wanted.get(spec.task, spec.parallelism) for spec in topology.tasks]
        return sizes

    def _window(self, seen: Observed, row: int, topology: JobTopology) -> Window:
        """Return the window that the pipeline would send."""
        return Window(
            job=topology.job,
            window_end_ms=int(seen.ends_ms[row]),
            figures=seen.figures[row],
            topology=structs.replace(topology, restart_ms=self._topologies.restart_ms(seen, row)),
            hourly_load=seen.hourly_load[row].astype(np.float32),
            hourly_peak=seen.hourly_peak[row].astype(np.float32),
            saturations=self._topologies.saturations(seen, row, topology),
            waits=() if seen.waits_s is None else counted_waits(seen.waits_s[row]),
            load_codes=seen.load_codes[row],
        )
