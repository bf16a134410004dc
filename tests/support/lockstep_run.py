"""A pipeline's clock in lockstep for tests, and the records that let it go on; times in minutes."""

from surescale.contracts.commands import Balance, Outcome, Progress, RescheduleCommand
from surescale.services.engine.pace import Lockstep

MINUTE = 60_000
JOBS = ["sim/a", "sim/b"]


def lockstep(minutes: int = 60, span: int = 10, start: int = 0) -> Lockstep:
    """Return a lockstep whose run begins at a minute."""
    return Lockstep(start * MINUTE, (start + minutes) * MINUTE, span)


def outcome(job: str = "sim/a", span_end: int = 10, status: str = "held", sequence: int = 0, **changes: object) -> Outcome:
    """Return an outcome; times in minutes."""
    base: dict[str, object] = {
        "cluster": "sim",
        "job": job,
        "decision_id": f"{job}@{span_end}",
        "span_end_ms": span_end * MINUTE,
        "status": status,
        "reason": "some_reason",
        "at_ms": span_end * MINUTE,
        "sequence": sequence,
    }
    return Outcome(**(base | changes))  # type: ignore[arg-type]


def pending(until: int, job: str = "sim/a", span_end: int = 10, sequence: int = 0) -> Outcome:
    """Return a promise of a further outcome at a minute."""
    return outcome(job, span_end, "pending", sequence, until_ms=until * MINUTE)


def commanded(command: str = "sim/a#1.0", **changes: object) -> Outcome:
    """Return the outcome that names a command."""
    return outcome(status="commanded", command_id=command, **changes)


def progress(status: str = "applied", command: str = "sim/a#1.0") -> Progress:
    """Return an actuator's report."""
    return Progress(cluster="sim", job="sim/a", command_id=command, desired_generation=1, status=status, at_ms=0)  # type: ignore[arg-type]


def command(action: str = "commit", step: int = 0) -> RescheduleCommand:
    """Return a command of job a's first generation."""
    return RescheduleCommand(
        command_id=f"sim/a#1.{step}",
        cluster="sim",
        job="sim/a",
        desired_generation=1,
        step=step,
        steps=2,
        action=action,  # type: ignore[arg-type]
        base_placement_generation=0,
        decision_id="sim/a@10",
        gate_reason="desired",
        gate_cause="max_delay",
        issued_at_ms=0,
        changes=(),
    )


def arrived(pace: Lockstep, done_at_ms: int | None, asked: RescheduleCommand | None = None) -> None:
    """Let the engine accept a command that will be over at a time, or (None) when its learners are ready."""
    of = asked or command()
    pace.on_command(of)
    pace.on_rescale(of.command_id, done_at_ms)
    pace.on_progress(progress("accepted", of.command_id))


def at_first_span_end(pace: Lockstep) -> Lockstep:
    """Move to minute 10 with every job's outcome but those of job a."""
    assert pace.move_on() == 10 * MINUTE
    pace.on_outcome(outcome("sim/b"))
    return pace


def stops(pace: Lockstep, count: int) -> list[int]:
    """Return the next stops in minutes."""
    return [pace.move_on() // MINUTE for _ in range(count)]


def balance(at: int, *, version: int = 7, sequence: int = 0, status: str = "settled", until: int | None = None) -> Balance:
    """Return a look of the rescaler at the hosts; times in minutes."""
    return Balance(
        cluster="sim",
        generation=2,
        sequence=sequence,
        status=status,  # type: ignore[arg-type]
        reason="balanced",
        at_ms=at * MINUTE,
        hosts_version=version,
        until_ms=None if until is None else until * MINUTE,
    )
