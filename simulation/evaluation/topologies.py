"""What the pipeline would say of the rows of a closed loop beside their figures: topologies, and what it remembers of tasks."""

from dataclasses import dataclass, field

from msgspec import structs

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import is_simulated
from surescale.contracts.messages import JobTopology, Saturation
from surescale.contracts.saturation import SEEN_MINUTES, remembered
from surescale.contracts.windows import of_all_subtasks
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

    def of(self, current: Int64) -> JobTopology:
        """Return the topology at parallelism ``current`` [N]."""
        sizes = zip(self.job.specs(), current.tolist(), strict=True)
        tasks = tuple(structs.replace(spec, parallelism=size) for spec, size in sizes)
        engine, restart_ms = self.terms.world.engine, self.terms.told_restart_ms
        return JobTopology(job=self.name, version=0, at_ms=0, tasks=tasks, engine=engine, restart_ms=restart_ms)

    def saturations(self, seen: Observed, row: int, topology: JobTopology) -> tuple[Saturation, ...]:
        """Return what is remembered of a row's tasks at the end of a span; to be asked once at each."""
        kept = self._saturations.get(row, ())
        if is_simulated(topology.engine):
            return kept
        figures, ends_ms = of_all_subtasks(seen.figures[row]), int(seen.ends_ms[row])
        for later in range(self.terms.span_minutes - 1, -1, -1):
            until = len(figures) - later
            kept = remembered(kept, figures[max(until - SEEN_MINUTES, 0) : until], topology, ends_ms - later * MINUTE_MS)
        self._saturations[row] = kept
        return kept
