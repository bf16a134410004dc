"""What the pipeline would say of the rows of a closed loop beside their figures: topologies, and what it remembers of tasks."""

from dataclasses import dataclass, field

import numpy as np
from msgspec import structs

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import is_simulated
from surescale.contracts.messages import JobTopology, Saturation
from surescale.contracts.restarts import Look, RestartMeter
from surescale.contracts.saturation import SEEN_MINUTES, remembered
from surescale.contracts.summing_up import RUNNING
from surescale.contracts.windows import FIGURE, Float32, of_all_subtasks
from surescale.policies.graph import Int64
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.loops.rows import Observed
from surescale.simulation.loops.terms import Terms


@dataclass(slots=True)
class Topologies:
    """The topologies of a job's rows, by what each of them has gone through so far."""

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
