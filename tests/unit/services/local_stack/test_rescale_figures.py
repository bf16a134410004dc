"""How rescales went, counted from records: learners, pauses, failures by code, and what happened to hosts."""

import msgspec

from surescale.contracts.commands import Outcome, Progress, RescheduleCommand
from surescale.contracts.messages import EngineEvent
from surescale.services.local_stack.demo_report import incident_lines
from surescale.services.local_stack.pipeline_figures import Counts, JobRescales, RescaleFigures, Spread

MINUTE = 60_000
JOB = "sim/clicks"


def command(step: int, action: str, *, advice: bool = False) -> RescheduleCommand:
    """Return a step of the job's first rescale."""
    return RescheduleCommand(
        command_id=f"{JOB}#1.{step}",
        cluster="sim",
        job=JOB,
        desired_generation=1,
        step=step,
        steps=2,
        action=action,  # type: ignore[arg-type]
        base_placement_generation=0,
        decision_id="d",
        gate_reason="desired",
        gate_cause="max_delay",
        issued_at_ms=0,
        changes=(),
        advice=advice,
    )


def progress(step: int, status: str, duration_ms: int = 0, **changes: object) -> Progress:
    """Return a report on a step."""
    base: dict[str, object] = {
        "cluster": "sim",
        "job": JOB,
        "command_id": f"{JOB}#1.{step}",
        "desired_generation": 1,
        "status": status,
        "at_ms": 0,
        "duration_ms": duration_ms,
    }
    return Progress(**(base | changes))  # type: ignore[arg-type]


def event(sequence: int, kind: str, minute: int, **changes: object) -> EngineEvent:
    """Return something that happened in the engine at a minute."""
    return EngineEvent(cluster="sim", sequence=sequence, at_ms=minute * MINUTE, kind=kind, **changes)  # type: ignore[arg-type]


def figures() -> RescaleFigures:
    """Return a rescale with a preparation that failed and one that did not, and a host that died."""
    found = RescaleFigures()
    waiting = Outcome(
        cluster="sim", job=JOB, decision_id="d", span_end_ms=0, status="pending", reason="cooldown", at_ms=0, until_ms=1
    )
    for record in (
        command(0, "prepare"),
        progress(0, "failed", code="LEARNER_LOST", learners=2),
        command(1, "prepare"),
        progress(1, "accepted", 2 * MINUTE),
        progress(1, "applied", 2 * MINUTE, learners=3),
        command(2, "commit"),
        progress(2, "applied", 1_000),
        command(3, "commit", advice=True),
        waiting,
        waiting,
        event(1, "checkpoint_completed", 1, job=JOB),
        event(2, "host_lost", 2, host="m1"),
        event(3, "job_restarted", 2, job=JOB, detail="host m1 lost; restored from a checkpoint on 3 units within 150 s"),
        event(4, "job_restarted", 5, job=JOB, detail="generation 1"),
    ):
        found.take(record)
    return found


def test_rescales_are_counted_with_their_learners_pauses_and_failures() -> None:
    """Advice is none, a report read twice counts once."""
    found = figures().rescaling(0)
    spent = JobRescales(
        rescales=1, learners=3, warm_up_s=Spread(120.0, 120.0), pause_s=Spread(1.0, 1.0), failed={"LEARNER_LOST": 1}
    )
    assert found.jobs == {JOB: spent}
    assert (found.waits, found.checkpoints) == ({"cooldown": 1}, 1)


def test_a_rescale_that_went_as_planned_is_no_incident() -> None:
    """A host's death and what it did to a job are."""
    assert [(each.minute, each.kind) for each in figures().rescaling(0).incidents] == [
        (2, "host_lost"),
        (2, "job_restarted"),
    ]


def test_what_did_not_go_as_usual_is_said_in_words() -> None:
    """Hosts, jobs, rescales given up, acts that waited, records that were not used; where nothing was, no line."""
    counts = Counts(metrics=9, windows=2, decisions={}, outcomes={}, commands=1, events=0, late=3, duplicates=0, dead_letters=1)
    assert incident_lines(figures().rescaling(0), counts) == [
        "minute 2: m1 lost",
        "minute 2: sim/clicks restarted (host m1 lost; restored from a checkpoint on 3 units within 150 s)",
        "sim/clicks: rescales given up: LEARNER_LOST 1",
        "gates made acts wait: cooldown 1",
        "records not used: late 3, dead letters 1",
    ]
    assert incident_lines(RescaleFigures().rescaling(0), msgspec.structs.replace(counts, late=0, dead_letters=0)) == []
