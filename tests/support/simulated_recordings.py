"""Windows of simulated jobs in known worlds, as a recording holds them."""

import msgspec
import numpy as np

from benchmarks.archive import load_job
from surescale.contracts.messages import JobTopology
from surescale.contracts.windows import Window, unknown_hours
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import load_workload
from surescale.simulation.loops.rows import LoopRows
from surescale.simulation.loops.terms import Terms
from surescale.simulation.model.worlds import World

WORKLOAD = load_workload("clarknet")
FIRST_MINUTE = 3_000
RESCALED_EVERY_HOURS = 3


def sized(name: str) -> SizedJob:
    """Return a shipped job that has room for what varies."""
    return load_job(name, WORKLOAD, 5.0)


def windows_of(
    job: SizedJob, world: World, hours: int, *, seed: int = 0, pipeline: bool = False, widths: tuple[int, ...] = ()
) -> list[Window]:
    """Return a window an hour; the job is rescaled every three hours, to random sizes of 5 to 10 or to ``widths`` in turn.

    ``pipeline``: by the simulated engine's own steps and whole-numbered counters, many times slower.
    """
    terms = Terms(world=world, restart_ms=world.restart_ms, span_minutes=60, engine_steps=pipeline)
    rows = LoopRows(job, WORKLOAD, np.array([FIRST_MINUTE]), job.start_parallelism[None], terms)
    generator, made = np.random.default_rng(seed), []
    for hour in range(hours):
        if hour % RESCALED_EVERY_HOURS == 0:
            turn = hour // RESCALED_EVERY_HOURS
            drawn = np.full((1, job.size), widths[turn % len(widths)]) if widths else generator.integers(5, 11, (1, job.size))
            sizes = rows.job.within_limits(drawn)
        rows.step(sizes)
        seen = rows.observe()
        tasks = (
            msgspec.structs.replace(spec, parallelism=size)
            for spec, size in zip(rows.job.specs(), seen.current[0].tolist(), strict=True)
        )
        made.append(
            Window(
                job=f"sim/{job.name}",
                window_end_ms=int(seen.ends_ms[0]),
                figures=seen.figures[0],
                topology=JobTopology(job=f"sim/{job.name}", version=hour, at_ms=0, tasks=tuple(tasks)),
                hourly_load=unknown_hours(),
            )
        )
    return made
