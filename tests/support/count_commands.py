"""Commands by counts for a job, as a rescaler would write them."""

from collections.abc import Mapping

from surescale.contracts.commands import Expected, RescheduleCommand, TaskChange
from surescale.contracts.ids import cluster_of
from surescale.engines.ports.actuator import EngineApi


def command_for(
    engine: EngineApi, job: str, after: Mapping[str, int], *, generation: int, now_ms: int, within_ms: int
) -> RescheduleCommand:
    """Return a command that asks for counts by task, as decided on what is required now; ``within_ms`` is its time."""
    seen = engine.look(job)
    return RescheduleCommand(
        command_id=f"{job}#{generation}.0",
        cluster=cluster_of(job),
        job=job,
        desired_generation=generation,
        step=0,
        base_placement_generation=0,
        decision_id="as the test wants",
        gate_reason="desired",
        gate_cause="max_delay",
        issued_at_ms=now_ms,
        deadline_ms=now_ms + within_ms,
        changes=tuple(
            TaskChange(task=task, before=seen.required[task], after=count)
            for task, count in after.items()
            if seen.required[task] != count
        ),
        expected=Expected(epoch=seen.epoch, requirement_id=seen.requirement_id, required=dict(seen.required)),
    )
