"""Projections: one record of Kafka in, operations on the view out."""

import json
from dataclasses import replace
from typing import Literal

import msgspec
import pytest

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Balance, Outcome, Progress, SlotStandbys
from surescale.contracts.decisions import Decision, PolicyUsed, SampledMinute, TaskDecision
from surescale.contracts.errors import RecordRejected
from surescale.contracts.job_settings import JobSettings, Pause
from surescale.contracts.messages import DeadLetter
from surescale.contracts.rescaler_state import CommandUnderway, Condition, JobSummary, RescalerRecord, WaitingAct
from surescale.contracts.summaries import JobMinute, encode_header
from surescale.contracts.summing_up import header_of
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import WindowCounts, decode_window, encode_window
from surescale.contracts.wire import encode
from surescale.services.state.write.operations import AddMember, DropField, Operation, Remember, SetField
from surescale.services.state.write.projections import PROJECTED, Record, _sums, project
from tests.support.builders import JOB, row, topology


def record(topic: str, message: msgspec.Struct | bytes | None, *, key: str = JOB, partition: int = 0) -> Record:
    """Return a record that was appended at 1000 ms."""
    value = encode(message) if isinstance(message, msgspec.Struct) else message
    return Record(topic, partition, 7, key.encode(), value, appended_ms=1_000)


def remembered(operations: tuple[Operation, ...]) -> Remember:
    """Return the one operation on a timeline."""
    found = [operation for operation in operations if isinstance(operation, Remember)]
    assert len(found) == 1
    return found[0]


def decision(**changes: object) -> Decision:
    """Return a hold on the span that ends at minute 10, changed as asked."""
    base: dict[str, object] = {
        "decision_id": f"{JOB}@600000/hold",
        "job": JOB,
        "span_end_ms": 600_000,
        "window_id": "w",
        "policy": PolicyUsed(name="hold"),
        "seed": 0,
        "settings_version": 0,
        "topology_version": 1,
        "action": "hold",
        "reason": "nothing changes",
        "completeness": 1.0,
        "minutes_known": 60,
        "tasks": (),
    }
    return Decision(**(base | changes))  # type: ignore[arg-type]


def window_bytes() -> bytes:
    """Return a window of one known minute with 12 samples, 2 late and 3 repeated ones."""
    window = WindowHistory(JOB, 60).close(
        MINUTE_MS, {"source": row(records_in=600)}, topology(), counts=WindowCounts(samples=12, late=2, duplicates=3)
    )
    return encode_window(window)


def test_a_window_is_remembered_by_its_summary() -> None:
    """The view keeps a window's job, time, completeness and load, but not its figures."""
    item = remembered(project(record(topics.SNAPSHOTS, window_bytes())))
    body = json.loads(item.body)
    assert (item.id, item.score, body["appended_ms"]) == (f"{JOB}@60000/60m/v1", MINUTE_MS, 1_000)
    assert body["record"]["load_records_per_minute"] == 600
    assert body["record"]["minutes_known"] == 1
    assert "figures" not in body["record"]


def test_a_window_adds_the_samples_of_its_minute_to_the_counts() -> None:
    """The windows that carry samples count them: distinct, late and repeated ones separately."""
    item = remembered(project(record(topics.SNAPSHOTS, window_bytes())))
    assert dict(item.adds) == {"metrics": 12, "late": 2, "duplicates.metrics": 3}


def test_a_window_adds_the_slots_of_its_minute_to_its_day() -> None:
    """The minute that ends at midnight is the last of its day; what is unknown adds nothing."""
    assert _sums(JobMinute(slots=3, slots_configured=8)) == (("minutes", 1), ("slots", 3), ("compared", 1), ("saved", 5))
    assert _sums(JobMinute(slots=3)) == (("minutes", 1), ("slots", 3), ("compared", 0), ("saved", 0))
    assert _sums(JobMinute(slots_configured=8)) == ()
    assert remembered(project(record(topics.SNAPSHOTS, window_bytes()))).day == 0


def test_a_window_with_its_summary_beside_it_is_not_unpacked() -> None:
    """The header gives the same operations; the figures are not read."""
    plain = record(topics.SNAPSHOTS, window_bytes())
    header = encode_header(header_of(decode_window(window_bytes())))
    assert project(replace(plain, value=b"not looked at", summary=header)) == project(plain)


def test_a_decision_keeps_the_heaviest_of_what_it_looked_at() -> None:
    """Three snapshots per task, in the decision's order."""
    looked_at = tuple(
        SampledMinute(minute_end_ms=minute, weight=weight) for minute, weight in enumerate((0.1, 0.3, 0.2, 0.05, 0.35))
    )
    task = TaskDecision(task="map", current=1, ratio=1.0, proposed=1, desired=1, looked_at=looked_at)
    item = remembered(project(record(topics.DECISIONS, decision(tasks=(task,)))))
    shown = json.loads(item.body)["record"]["tasks"][0]["looked_at"]
    assert [each["minute_end_ms"] for each in shown] == [1, 2, 4]


def test_a_decision_is_counted_by_its_action() -> None:
    """Act and hold are counted separately, by the decision's identity."""
    item = remembered(project(record(topics.DECISIONS, decision(action="act"), key="sim")))
    assert (item.timeline, item.owner, item.id, item.group) == ("decisions", JOB, f"{JOB}@600000/hold", "decisions.act")
    assert not item.latest_wins


def test_the_last_outcome_of_a_decision_takes_the_place_of_earlier_ones() -> None:
    """Outcomes stand under their decision's id, and the latest counts."""
    outcome = Outcome(
        cluster="sim", job=JOB, decision_id="d", span_end_ms=600_000, status="pending", reason="cooldown", at_ms=600_001
    )
    item = remembered(project(record(topics.RESCHEDULE_EVENTS, outcome, key="sim")))
    assert (item.timeline, item.id, item.group, item.latest_wins) == ("outcomes", "d", "outcomes.pending", True)


def test_progress_is_known_by_command_and_status() -> None:
    """The same status of the same command is one event, however many times it is reported."""
    progress = Progress(cluster="sim", job=JOB, command_id="c#1.0", desired_generation=1, status="applied", at_ms=5)
    assert remembered(project(record(topics.RESCHEDULE_EVENTS, progress, key="sim"))).id == "c#1.0/applied"


def test_a_topology_sets_one_field_and_a_tombstone_drops_it() -> None:
    """The job's hash has the topology while Kafka has it."""
    written = project(record(topics.JOB_TOPOLOGY, topology()))
    assert AddMember("jobs", JOB) in written
    assert any(isinstance(operation, SetField) and operation.field == "topology" for operation in written)
    assert project(record(topics.JOB_TOPOLOGY, None)) == (DropField(f"job:{JOB}", "topology"),)


def summarised(summary: JobSummary) -> tuple[Operation, ...]:
    """Return what a job's record of the rescaler's memory with this summary changes."""
    memory = RescalerRecord(cluster="sim", kind="job", id=JOB, at_ms=5, body=msgspec.Raw(b"{}"), summary=summary)
    return project(record(topics.RESCALER_STATE, memory, key=f"sim/job/{JOB}"))


def test_the_rescalers_memory_becomes_phase_and_wake_up() -> None:
    """The view shows the gate's phase, what a pending act waits for and until when."""
    waiting = WaitingAct(decision_id="d", reason="cooldown", until_ms=9)
    operations = summarised(JobSummary(phase="Cooldown", pending=waiting, wake_at_ms=7, mappings={"map": (1,)}))
    field = next(operation for operation in operations if isinstance(operation, SetField))
    gate = json.loads(field.value)["record"]
    assert (gate["phase"], gate["pending"]["reason"], gate["pending"]["until_ms"]) == ("Cooldown", "cooldown", 9)
    assert "mappings" not in gate


@pytest.mark.parametrize("step", ["prepare", None])
def test_a_rescale_under_way_shows_its_step(step: Literal["prepare"] | None) -> None:
    """A change of standbys has none."""
    underway = CommandUnderway(decision_id="d", command_id="c#1.0", step=step)
    field = next(each for each in summarised(JobSummary(underway=underway)) if isinstance(each, SetField))
    gate = json.loads(field.value)["record"]
    assert gate["underway"] == {"decision_id": "d", "command_id": "c#1.0", "step": step, "given_up": ""}


def test_the_rescalers_mappings_stand_beside_the_gate() -> None:
    """The unit of each vnode has a field of its own; it is too much for everyone who asks for the gate."""
    field = summarised(JobSummary(mappings={"map": (1, 2)}))[-1]
    assert isinstance(field, SetField)
    assert (field.key, field.field) == (f"job:{JOB}", "mappings")
    assert json.loads(field.value)["record"] == {"map": [1, 2]}


def test_the_conditions_of_a_job_are_shown_with_the_generation_they_speak_for() -> None:
    """As the summary has them; the standbys that the rescaler asked for beside them."""
    condition = Condition(
        type="Available", status=True, reason="Running", message="it runs", last_transition_ms=0, observed_generation=3
    )
    standbys = (SlotStandbys(unit=1, hosts=("m2",)),)
    summary = JobSummary(conditions=(condition,), standbys=standbys, desired_generation=4, observed_generation=3)
    field = next(each for each in summarised(summary) if isinstance(each, SetField))
    gate = json.loads(field.value)["record"]
    assert (gate["desired_generation"], gate["observed_generation"]) == (4, 3)
    assert gate["conditions"] == [msgspec.to_builtins(condition)]
    assert gate["standbys"] == [{"unit": 1, "hosts": ["m2"]}]


def test_a_look_at_the_hosts_is_remembered_by_generation_and_sequence() -> None:
    """It goes to a timeline of its cluster, not to the progress of a job."""
    look = Balance(cluster="sim", generation=2, sequence=1, status="settled", reason="balanced", at_ms=9, hosts_version=4)
    member, remembered = project(record(topics.RESCHEDULE_EVENTS, look))
    assert member == AddMember("clusters", "sim")
    assert isinstance(remembered, Remember)
    assert (remembered.timeline, remembered.owner, remembered.id) == ("balances", "sim", "2/1")


def test_memory_of_another_version_is_rejected() -> None:
    """Its type names the version, so the view counts it and goes on."""
    other = b'{"type":"rescaler-state/2","cluster":"sim","kind":"job","id":"j","at_ms":1,"body":{}}'
    with pytest.raises(RecordRejected):
        project(record(topics.RESCALER_STATE, other))


def test_forgotten_memory_of_a_job_is_taken_out() -> None:
    """A tombstone of the rescaler's state drops gate and mappings of that job and nothing else."""
    dropped = project(record(topics.RESCALER_STATE, None, key=f"sim/job/{JOB}"))
    assert dropped == (DropField(f"job:{JOB}", "gate"), DropField(f"job:{JOB}", "mappings"))
    assert project(record(topics.RESCALER_STATE, None, key=f"sim/request/{JOB}@600000/hold")) == ()


def test_dead_letters_are_kept_by_the_partition_they_lie_in() -> None:
    """A refused record is known by its coordinates and counted by the reason."""
    letter = DeadLetter(topic="snapshots", partition=3, offset=9, reason="not_json", field="", message="no", refused_by="agent")
    item = remembered(project(record(topics.DEAD_LETTERS, letter, partition=1)))
    assert (item.owner, item.id, item.group) == ("1", "snapshots/3/9", "dead_letters.not_json")


@pytest.mark.parametrize("topic", sorted(PROJECTED))
def test_a_record_that_does_not_parse_is_rejected(topic: str) -> None:
    """Junk on any topic is one rejection, which the projector counts and skips."""
    with pytest.raises(RecordRejected):
        project(record(topic, b"\xffjunk"))


def test_every_topic_but_the_raw_metrics_is_projected() -> None:
    """A topic added to the table is either shown or left out on purpose."""
    assert set(topics.TOPICS) - set(PROJECTED) == {topics.TASK_METRICS}


def test_settings_of_a_job_that_never_ran_make_it_known() -> None:
    """A job is listed as soon as any topic names it."""
    operations = project(record(topics.JOB_SETTINGS, JobSettings(job="sim/new", mode="observe"), key="sim/new"))
    assert AddMember("jobs", "sim/new") in operations
    assert AddMember("clusters", "sim") in operations


def test_a_pause_of_all_jobs_belongs_to_the_cluster() -> None:
    """No job of that name appears; the highest version counts, and a tombstone takes it away."""
    shared = JobSettings(job="sim/*", version=3, pause=Pause(why="audit", by="ana", at_ms=5))
    named, kept = project(record(topics.JOB_SETTINGS, shared, key="sim/*"))
    assert named == AddMember("clusters", "sim")
    assert isinstance(kept, SetField)
    assert (kept.key, kept.field, kept.version) == ("cluster:sim", "settings", 3)
    assert json.loads(kept.value)["record"]["pause"]["why"] == "audit"
    assert project(record(topics.JOB_SETTINGS, None, key="sim/*")) == (DropField("cluster:sim", "settings"),)


@pytest.mark.parametrize(
    "unknown", [b'"\xff"', b"9" * 5_000, b"1e999", b"[" * 900 + b"]" * 900, b'"' + b"x" * 100_000 + b'"'], ids=lambda raw: raw[:3]
)
def test_fields_that_this_version_does_not_know_stay_out_of_the_view(unknown: bytes) -> None:
    """Nobody has checked them: with one of these the stored document could not be read again."""
    plain = encode(JobSettings(job=JOB))
    assert project(record(topics.JOB_SETTINGS, plain[:-1] + b',"note":' + unknown + b"}")) == project(
        record(topics.JOB_SETTINGS, plain)
    )


@pytest.mark.parametrize("number", [b"1e999", b"9" * 4_301, b"-1", b"1.5"], ids=lambda raw: raw[:4])
def test_an_absurd_number_in_the_rescalers_memory_is_a_rejection(number: bytes) -> None:
    """In the body of the cluster's record, as in the summary of a job's."""
    body = msgspec.Raw(b'{"placement_generation":' + number + b"}")
    memory = RescalerRecord(cluster="sim", kind="cluster", id="placement", at_ms=1, body=body)
    with pytest.raises(RecordRejected):
        project(record(topics.RESCALER_STATE, memory, key="sim/cluster/placement"))
    job = RescalerRecord(cluster="sim", kind="job", id=JOB, at_ms=1, body=msgspec.Raw(b"{}"), summary=JobSummary())
    absurd = encode(job).replace(b'"failures":0', b'"failures":' + number)
    with pytest.raises(RecordRejected):
        project(record(topics.RESCALER_STATE, absurd, key=f"sim/job/{JOB}"))


def test_the_rescalers_records_touch_only_their_own_fields_of_a_cluster() -> None:
    """Neither a record nor a tombstone under the name of another field changes the hosts."""
    memory = RescalerRecord(cluster="sim", kind="cluster", id="topology", at_ms=1, body=msgspec.Raw(b"{}"))
    with pytest.raises(RecordRejected):
        project(record(topics.RESCALER_STATE, memory, key="sim/cluster/topology"))
    assert project(record(topics.RESCALER_STATE, None, key="sim/cluster/topology")) == ()
    assert project(record(topics.RESCALER_STATE, None, key="sim/cluster/balance")) == (DropField("cluster:sim", "balance"),)


def test_a_summary_that_cannot_be_read_is_made_from_the_window() -> None:
    """A header of another version must not hide the window, which is the truth."""
    raw = window_bytes()
    told = remembered(project(replace(record(topics.SNAPSHOTS, raw), summary=b'{"window_id":"from another version"}')))
    assert told == remembered(project(record(topics.SNAPSHOTS, raw)))
