"""Commands for a job on a real Flink, as a rescaler would write them."""

import time

from surescale.contracts.commands import Progress, RescheduleCommand
from surescale.engines.flink.actuator import FlinkEngine
from surescale.rescaler.execution import RequirementExecution
from tests.support.count_commands import command_for
from tests.support.live_flink import LiveJob
from tests.support.waiting import wait_until

CLUSTER = "live"
APPLIED_S = 120.0


def now_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


def command(
    engine: FlinkEngine, job: LiveJob, generation: int, *, within_s: float = APPLIED_S, **after: int
) -> RescheduleCommand:
    """Ask for a parallelism by what a vertex does, as decided on what is required now."""
    ids = job.vertices()
    wanted = {ids[role]: count for role, count in after.items()}
    within_ms = int(within_s * 1_000)
    return command_for(engine, f"{CLUSTER}/{job.known_as}", wanted, generation=generation, now_ms=now_ms(), within_ms=within_ms)


def carry_out(engine: FlinkEngine, wanted: RescheduleCommand) -> list[Progress]:
    """Let an actuator carry a command out to its end."""
    work, reports = RequirementExecution(wanted), list[Progress]()

    def ended() -> bool:
        reports.extend(work.step(engine, now_ms=now_ms(), wall_ms=now_ms()))
        return work.ended

    wait_until(ended, APPLIED_S + 30, "the end of the command")
    return reports
