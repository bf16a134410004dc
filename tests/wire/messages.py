"""One message of every kind, or more, and two windows; ``releases`` holds the bytes of each under its name."""

import msgspec
from msgspec.structs import replace

from surescale.contracts import commands as c
from surescale.contracts import decisions as d
from surescale.contracts import messages as m
from surescale.contracts import rescaler_state as r
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Comparison, ServedDecision, ShadowDecision, TaskDifference, Verdict
from surescale.contracts.job_settings import Approval, JobSettings, Pause
from surescale.contracts.messages import Message
from surescale.contracts.releases import Expectation, Release, TournamentResult
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import encode_window
from tests.support.builders import JOB, row, sample, topology

LIMITS = {"parallelism_max": 10, "total_limit": 200, "scale_down_after_minutes": 0}
"""What records of settings named while these limits had no engine's default."""


def _with_memory(known: m.JobTopology) -> m.JobTopology:
    memory = m.TaskMemory(gc_share=0.42, heap_share=0.97, managed_share=0.0)
    return replace(known, tasks=tuple(replace(spec, memory=memory) for spec in known.tasks))


def _with_unequal_partitions(known: m.JobTopology) -> m.JobTopology:
    carries = ((1, 1.0), (2, 1.25), (5, 2.5))
    return replace(known, tasks=tuple(replace(spec, carries=carries, useful_max=6) for spec in known.tasks))


CANDIDATES = d.Candidates(subtasks=(2, 3), late_minutes=(1.5, 0.25), minutes=60, late_seconds=30.0)
SCORES = d.ChangeScore(
    subtasks=3,
    score=-4.5,
    present_subtasks=2,
    present_score=-4.25,
    gain_needed=0.5,
    unit="dollars",
    candidates=CANDIDATES,
)
COMPARED = d.Decision(
    decision_id=f"{JOB}@120000/sure",
    job=JOB,
    span_end_ms=120_000,
    window_id=f"{JOB}@120000/60m/v1",
    policy=d.PolicyUsed(name="sure", sha256="ab" * 32, asked="sure"),
    seed=1,
    settings_version=2,
    topology_version=1,
    action="hold",
    reason="map is 50% busy, no record waits, 200 records come a minute: 2 subtasks stay.",
    completeness=0.5,
    minutes_known=30,
    tasks=(d.TaskDecision(task="map", current=2, ratio=1.0, proposed=2, desired=2),),
    compared=SCORES,
    figures_until_ms=60_000,
)

BUDGET = d.LatencyBudget(seconds=30.0, allowed_minutes=14.4, used_minutes=3, known_minutes=1_380)

MESSAGES: dict[str, Message] = {
    "sample": sample(),
    "topology": topology(),
    "minute": m.MinuteMarker(
        job=JOB,
        minute_end_ms=60_000,
        topology=topology(),
        reached_wall_ms=7,
        load_history=(m.HourlyLoad(hour_start_ms=0, records=600, minutes=60),),
    ),
    "minute-peaks": m.MinuteMarker(
        job=JOB,
        minute_end_ms=60_000,
        topology=topology(),
        load_history=(m.HourlyLoad(hour_start_ms=0, records=600, minutes=60, peak_records=90),),
    ),
    "cluster": m.ClusterTopology(
        cluster="sim", version=1, at_ms=0, hosts=(m.Host(host="m1", units=(1, 2), price_per_s=0.0024, zone="a"),)
    ),
    "cluster-prices": m.ClusterTopology(
        cluster="sim",
        version=2,
        at_ms=9,
        hosts=(),
        slot_prices=(m.SlotPrice(at_ms=5, per_s=0.0001), m.SlotPrice(at_ms=9, per_s=0.5)),
    ),
    "engine-event": m.EngineEvent(cluster="sim", sequence=4, event_id="9.4", at_ms=9, kind="host_lost", host="m1"),
    "job-settings": JobSettings(job=JOB, version=2, mode="advise", policy="static", set_by="ana", set_at_ms=5, **LIMITS),
    "job-settings-memory": JobSettings(job=JOB, version=3, gc_pressure_max=0.5, heap_usage_max=0.9, set_by="ana", **LIMITS),
    "minute-memory": m.MinuteMarker(job=JOB, minute_end_ms=60_000, topology=_with_memory(topology())),
    "minute-carries": m.MinuteMarker(job=JOB, minute_end_ms=60_000, topology=_with_unequal_partitions(topology())),
    "job-settings-pause": JobSettings(
        job=JOB,
        version=3,
        pause=Pause(direction="up", until_ms=120_000, why="release day", by="ana", at_ms=5),
        set_by="ana",
        **LIMITS,
    ),
    "job-settings-approval": JobSettings(
        job=JOB, version=4, approval=Approval(decision_id=f"{JOB}@60000/sure", by="ana", at_ms=5), set_by="ana", **LIMITS
    ),
    "policy-release": Release(cluster="sim", policy="sure", sha256="ab" * 32, valid_from_ms=60_000, set_by="ana"),
    "policy-release-canary": Release(
        cluster="sim",
        policy="sure",
        sha256="ab" * 32,
        valid_from_ms=60_000,
        share_permille=100,
        set_by="ana",
        set_at_ms=5,
        note="Promoted from the shadow.",
    ),
    "policy-release-shadow": Release(
        cluster="sim", policy="ds2", sha256="", valid_from_ms=60_000, role="shadow", job=JOB, withdrawn=True, set_by="ana"
    ),
    "policy-release-tournament": Release(
        cluster="sim",
        policy="ds2-gate",
        sha256="",
        valid_from_ms=60_000,
        job=JOB,
        set_by="tournament (set by ana)",
        set_at_ms=5,
        note="ds2-gate is ahead of sure by 0.02.",
        tuned=m.Tuning(constants={"utilisation": 0.62, "estimate": "p90"}),
        expected=Expectation(work_least=1.5, work_most=4.0, waiting_most=0.25),
        tournament=TournamentResult(
            from_ms=0,
            until_ms=60_000,
            policies=8,
            draws=4,
            reward=0.27,
            against="sure",
            against_reward=0.25,
            difference=0.02,
            difference_low=0.01,
            twin_error=0.002,
            why="ds2-gate is ahead of sure by 0.02.",
        ),
    ),
    "shadow-decision": ShadowDecision(
        shadow_id=f"{JOB}@60000/ds2~",
        job=JOB,
        span_end_ms=60_000,
        policy="ds2",
        sha256="",
        served=ServedDecision(decision_id=f"{JOB}@60000/sure", policy="sure", sha256="ab" * 32, took_ms=21.5),
        status="answered",
        reason="map needs 4 of 2",
        comparison=Comparison(
            served=Verdict(action="act", subtasks=3, utilisation=0.5),
            shadow=Verdict(action="act", subtasks=4, utilisation=0.375),
            took_ms=4.25,
            tasks=1,
            differences=(TaskDifference(task="map", current=2, served=3, shadow=4),),
        ),
    ),
    "shadow-decision-late": ShadowDecision(
        shadow_id=f"{JOB}@60000/sure~{'cd' * 6}",
        job=JOB,
        span_end_ms=60_000,
        policy="sure",
        sha256="cd" * 32,
        served=ServedDecision(decision_id=f"{JOB}@60000/ds2", policy="ds2", took_ms=3.0),
        status="late",
        reason="It took more than 10 s and was stopped.",
    ),
    "clock": m.ClockSegment(pipeline="main", sequence=1, e0_ms=0, w0_ms=5, speed=60.0, until_ms=60_000, end_ms=120_000),
    "decision": d.Decision(
        decision_id=f"{JOB}@60000/sure",
        job=JOB,
        span_end_ms=60_000,
        window_id=f"{JOB}@60000/60m/v1",
        policy=d.PolicyUsed(name="target-utilisation", asked="sure", fallback_reason="the model answered NaN"),
        seed=1,
        settings_version=2,
        topology_version=1,
        action="act",
        reason="map needs 3 of 2",
        completeness=0.5,
        minutes_known=30,
        tasks=(
            d.TaskDecision(
                task="map",
                current=2,
                ratio=1.9,
                proposed=4,
                desired=3,
                floor=3,
                amendments=(d.Amendment(rule="bounds", before=4, after=3),),
                looked_at=(d.SampledMinute(minute_end_ms=60_000, weight=0.75, neighbours=("sink",), neighbour_weights=(1.0,)),),
            ),
        ),
        load_records_per_minute=200.5,
        closed_append_ms=11,
        reached_wall_ms=10,
    ),
    "decision-budget": replace(COMPARED, budget=BUDGET),
    "decision-candidates": COMPARED,
    "decision-candidates-slots": replace(COMPARED, compared=replace(SCORES, candidates=replace(CANDIDATES, slots=(1, 2)))),
    "command": c.RescheduleCommand(
        command_id=f"{JOB}#3.0",
        cluster="sim",
        job=JOB,
        desired_generation=3,
        step=0,
        base_placement_generation=8,
        decision_id=f"{JOB}@60000/sure",
        gate_reason="desired",
        gate_cause="max_delay",
        issued_at_ms=60_000,
        changes=(c.TaskChange(task="map", before=2, after=3, added_units=(4,), units=(1, 2, 4), vnodes_moved=85),),
        placement=c.Placement(
            algorithm="cetsa",
            hosts=("m1",),
            rent_per_s=0.0024,
            rent_before_per_s=0.0048,
            rent_round_robin_per_s=0.0072,
            rent_default_per_s=0.0064,
        ),
    ),
    "outcome": c.Outcome(
        cluster="sim",
        job=JOB,
        decision_id=f"{JOB}@60000/sure",
        span_end_ms=60_000,
        status="pending",
        reason="cooldown",
        at_ms=60_000,
        until_ms=90_000,
    ),
    "progress": c.Progress(
        cluster="sim", job=JOB, command_id=f"{JOB}#3.0", desired_generation=3, status="applied", at_ms=9, duration_ms=60_000
    ),
    "balance": c.Balance(
        cluster="sim",
        generation=2,
        sequence=0,
        status="moving",
        reason="out_of_band",
        at_ms=120_000,
        hosts_version=5,
        until_ms=180_000,
        moves=(c.SlotMove(job=JOB, unit=1, host="m1", to_unit=9, to_host="m2"),),
    ),
    "drift": c.Drift(
        cluster="prod",
        job="prod/orders",
        status="changed",
        at_ms=180_000,
        epoch="6dffe27c",
        ours={"parse": 4},
        theirs={"parse": 2},
        returned=1,
    ),
    "standby": c.RescheduleCommand(
        command_id=f"{JOB}#4.0",
        cluster="sim",
        job=JOB,
        desired_generation=4,
        step=0,
        action="standby",
        base_placement_generation=9,
        decision_id=f"{JOB}@120000/standby",
        gate_reason="desired",
        gate_cause="standby",
        issued_at_ms=120_000,
        changes=(),
        standbys=(c.SlotStandbys(unit=1, hosts=("m2",)),),
    ),
    "clock-told": m.ClockSegment(
        pipeline="main",
        sequence=2,
        e0_ms=60_000,
        w0_ms=5,
        speed=60.0,
        until_ms=60_000,
        told=m.ClockPrerequisites(hosts=1, events=2, jobs={JOB: 1}),
    ),
    "rescaler-state": r.RescalerRecord(
        cluster="sim",
        kind="job",
        id=JOB,
        at_ms=1,
        body=msgspec.Raw(b'{"a":1}'),
        summary=r.JobSummary(
            phase="Transitioning",
            mode="executing",
            pending=r.WaitingAct(decision_id=f"{JOB}@60000/sure", reason="rescale_in_progress", until_ms=60_000),
            underway=r.CommandUnderway(decision_id=f"{JOB}@0/sure", command_id=f"{JOB}#2.0", step="prepare"),
            wake_at_ms=60_000,
            desired_generation=2,
            applied_generation=1,
            observed_generation=1,
            conditions=(
                r.Condition(
                    type="Available",
                    status=True,
                    reason="Running",
                    message="the job runs on 2 parallel units",
                    last_transition_ms=0,
                    observed_generation=1,
                ),
            ),
            standbys=(c.SlotStandbys(unit=1, hosts=("m2",)),),
            mappings={"map": (1, 2)},
        ),
    ),
    "dead-letter": m.DeadLetter(
        topic="task-metrics",
        partition=1,
        offset=7,
        reason="not_json",
        field="",
        message="not a JSON document",
        refused_by="spark",
    ),
}


def window_bytes() -> bytes:
    """Return the bytes of a small window with a masked minute."""
    history = WindowHistory(job=JOB, window_minutes=3)
    history.close(MINUTE_MS, {"map": row(records_in=1.5)}, topology())
    return encode_window(history.close(3 * MINUTE_MS, {"source": row(records_in=2)}, topology(), closed_append_ms=9))


def window_bytes_with_peaks() -> bytes:
    """Return the bytes of a small window after five minutes, the fewest for which an hour's peak is known."""
    history = WindowHistory(job=JOB, window_minutes=1)
    windows = [history.close(end * MINUTE_MS, {"source": row(records_in=3 * end)}, topology()) for end in range(1, 6)]
    return encode_window(windows[-1])


def window_bytes_with_blocks() -> bytes:
    """Return the bytes of a small window after ten minutes, of which the second five brought more."""
    history = WindowHistory(job=JOB, window_minutes=1)
    windows = [
        history.close(end * MINUTE_MS, {"source": row(records_in=60 * (1 + end // 6))}, topology()) for end in range(1, 11)
    ]
    return encode_window(windows[-1])


def window_bytes_with_waits() -> bytes:
    """Return the bytes of a small window in whose minutes 30 and 90 of 60 records a minute waited."""
    history = WindowHistory(job=JOB, window_minutes=2)
    rows = [{"source": row(records_in=60, arrived=60, queued_records_last=waiting)} for waiting in (30, 90)]
    windows = [history.close(end * MINUTE_MS, each, topology()) for end, each in enumerate(rows, 1)]
    return encode_window(windows[-1])
