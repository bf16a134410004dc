"""What a change of a job's size waited for, taken apart."""

from surescale.contracts.commands import Outcome, Progress, RescheduleCommand, TaskChange
from surescale.contracts.decisions import Decision, Overload, PolicyUsed
from surescale.services.local_stack.comparison.phases import ScalingDelays

JOB, BEGAN_MS = "flink/sure", 1_000_000
COMMAND = f"{JOB}#1.0"


def decision(span_end_ms: int, action: str, **fields: object) -> Decision:
    """Return a decision on the minute that ended then."""
    given = {"closed_append_ms": span_end_ms + 14, **fields}
    return Decision(
        decision_id=f"{JOB}@{span_end_ms}/sure", job=JOB, span_end_ms=span_end_ms, window_id="w", policy=PolicyUsed(name="sure"),
        seed=0, settings_version=0, topology_version=1, action=action, reason="Because.", completeness=1.0, minutes_known=9,
        tasks=(), **given,  # type: ignore[arg-type]  # as a test gives them
    )  # fmt: skip


def command(decided: Decision, issued_at_ms: int, **fields: object) -> RescheduleCommand:
    """Return the command of a decision."""
    return RescheduleCommand(
        command_id=COMMAND, cluster="flink", job=JOB, desired_generation=1, step=0, base_placement_generation=0,
        decision_id=decided.decision_id, gate_reason="desired", gate_cause="max_delay", issued_at_ms=issued_at_ms,
        changes=(TaskChange(task="parse", before=1, after=2),), **fields,  # type: ignore[arg-type]  # as a test gives them
    )  # fmt: skip


def progress(status: str, at_ms: int, **fields: object) -> Progress:
    """Return a report of the command."""
    return Progress(cluster="flink", job=JOB, command_id=COMMAND, desired_generation=1, status=status, at_ms=at_ms, **fields)  # type: ignore[arg-type]


def pending(decided: Decision, reason: str, sequence: int = 0) -> Outcome:
    """Return an outcome that makes an act wait."""
    return Outcome(
        cluster="flink", job=JOB, decision_id=decided.decision_id, span_end_ms=decided.span_end_ms, status="pending",
        reason=reason, at_ms=0, sequence=sequence,
    )  # fmt: skip


def test_every_part_of_the_way_is_told_apart() -> None:
    """A step at second 40 after the begin, one span that held, then an act, a cooldown, a checkpoint, and half a second still."""
    held, act = decision(1_060_000, "hold"), decision(1_120_000, "act")
    waits = ScalingDelays()
    waits.take(held, 1_061_000)
    waits.take(act, 1_120_837)
    waits.take(pending(act, "cooldown"), 1_120_840)
    waits.take(pending(act, "cooldown", 1), 1_130_840)
    waits.take(command(act, 1_149_841), 1_149_889)
    waits.take(progress("accepted", 1_149_895), 1_150_100)
    waits.take(progress("applied", 1_165_020, waited_ms=14_849, still_ms=276), 1_168_000)
    (found,) = waits.found(BEGAN_MS, [40.0, 130.0])
    assert (found.step_s, found.spans_held, found.minute_s, found.marker_s) == (40.0, 1, 80.0, 0.014)
    assert (found.decision_s, found.gate_s, found.gate_reasons) == (0.823, 29.004, ("cooldown",))
    assert (found.request_s, found.engine_s, found.still_s, found.status) == (0.054, 14.849, 0.276, "applied")
    assert not found.emergency


def test_what_no_record_says_is_left_open() -> None:
    """No step before it, no marker, nothing reported; and a repeated record changes nothing."""
    act = decision(
        1_020_000, "act", closed_append_ms=None, emergency=Overload(task="a", load_records_per_minute=1, grown_records=1)
    )
    waits = ScalingDelays()
    for _ in range(2):
        waits.take(act, 1_021_000)
        waits.take(command(act, 1_021_000), 1_021_001)
    (found,) = waits.found(BEGAN_MS, [40.0])
    assert (found.step_s, found.minute_s, found.marker_s, found.decision_s) == (None, None, None, 1.0)
    assert (found.request_s, found.engine_s, found.status, found.emergency) == (None, None, "", True)


def test_advice_is_no_rescale() -> None:
    """Nobody carries it out."""
    act, waits = decision(1_060_000, "act"), ScalingDelays()
    waits.take(act, 1_061_000)
    waits.take(command(act, 1_061_000, advice=True), 1_061_001)
    assert waits.found(BEGAN_MS, []) == ()
