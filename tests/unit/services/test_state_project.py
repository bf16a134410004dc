"""The projection: one record of Kafka in, operations on the view out."""

import json
from dataclasses import replace

import msgspec
import pytest

from contracts import topics
from contracts.clock import MINUTE_MS
from contracts.commands import Balance, Outcome, Progress
from contracts.errors import RecordRejected
from contracts.messages import DeadLetter, Decision, JobSettings, LookedAt, PolicyUsed, RescalerRecord, TaskDecision
from contracts.summaries import encode_summary, summary_of
from contracts.windows import WindowCounts, WindowHistory, decode_window, encode_window
from contracts.wire import encode
from services.state.operations import AddMember, DropField, Operation, Remember, SetField
from services.state.project import PROJECTED, Record, project
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
    """Of a window the view keeps who, when, how complete and how loaded, not the figures."""
    item = remembered(project(record(topics.SNAPSHOTS, window_bytes())))
    body = json.loads(item.body)
    assert (item.id, item.score, body["appended_ms"]) == (f"{JOB}@60000/60m/v1", MINUTE_MS, 1_000)
    assert body["record"]["load_records_per_minute"] == 600
    assert body["record"]["minutes_known"] == 1
    assert "figures" not in body["record"]


def test_a_window_adds_the_samples_of_its_minute_to_the_counts() -> None:
    """Samples are counted by the windows that carry them: distinct, late and repeated ones apart."""
    item = remembered(project(record(topics.SNAPSHOTS, window_bytes())))
    assert dict(item.adds) == {"metrics": 12, "late": 2, "duplicates.metrics": 3}


def test_a_window_with_its_summary_beside_it_is_not_unpacked() -> None:
    """The header gives the same operations; the figures are not looked at."""
    plain = record(topics.SNAPSHOTS, window_bytes())
    header = encode_summary(summary_of(decode_window(window_bytes())))
    assert project(replace(plain, value=b"not looked at", summary=header)) == project(plain)


def test_a_decision_keeps_the_heaviest_of_what_it_looked_at() -> None:
    """Three snapshots a task, in the order in which the decision has them."""
    looked_at = tuple(LookedAt(minute_end_ms=minute, weight=weight) for minute, weight in enumerate((0.1, 0.3, 0.2, 0.05, 0.35)))
    task = TaskDecision(task="map", current=1, ratio=1.0, proposed=1, desired=1, looked_at=looked_at)
    item = remembered(project(record(topics.DECISIONS, decision(tasks=(task,)))))
    shown = json.loads(item.body)["record"]["tasks"][0]["looked_at"]
    assert [each["minute_end_ms"] for each in shown] == [1, 2, 4]


def test_a_decision_is_counted_by_its_action() -> None:
    """Act and hold are counted apart, by the decision's identity."""
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
    """The same status of the same command is one event, however often it is reported."""
    progress = Progress(cluster="sim", job=JOB, command_id="c#1.0", desired_generation=1, status="applied", at_ms=5)
    assert remembered(project(record(topics.RESCHEDULE_EVENTS, progress, key="sim"))).id == "c#1.0/applied"


def test_a_topology_sets_one_field_and_a_tombstone_drops_it() -> None:
    """The job's hash has the topology while Kafka has it."""
    written = project(record(topics.JOB_TOPOLOGY, topology()))
    assert AddMember("jobs", JOB) in written
    assert any(isinstance(operation, SetField) and operation.field == "topology" for operation in written)
    assert project(record(topics.JOB_TOPOLOGY, None)) == (DropField(f"job:{JOB}", "topology"),)


def test_the_rescalers_memory_becomes_phase_and_wake_up() -> None:
    """Of the rescaler's own document the view shows the gate's phase, what it waits for and until when."""
    body = {"gate": {"phase": "cooldown"}, "pending": {"reason": "cooldown", "until_ms": 9}, "mappings": {"map": [1]}}
    memory = RescalerRecord(cluster="sim", kind="job", id=JOB, at_ms=5, body=msgspec.Raw(msgspec.json.encode(body)))
    operations = project(record(topics.RESCALER_STATE, memory, key=f"sim/job/{JOB}"))
    field = next(operation for operation in operations if isinstance(operation, SetField))
    summary = json.loads(field.value)["record"]
    assert (summary["phase"], summary["pending_reason"], summary["wake_up_ms"]) == ("cooldown", "cooldown", 9)
    assert "mappings" not in summary


def test_the_rescalers_mappings_stand_beside_the_gate() -> None:
    """Which unit holds each vnode is kept in a field of its own; it is too much for everyone who asks for the gate."""
    memory = RescalerRecord(cluster="sim", kind="job", id=JOB, at_ms=5, body=msgspec.Raw(b'{"mappings":{"map":[1,2]}}'))
    field = project(record(topics.RESCALER_STATE, memory))[-1]
    assert isinstance(field, SetField)
    assert (field.key, field.field) == (f"job:{JOB}", "mappings")
    assert json.loads(field.value)["record"] == {"map": [1, 2]}


def test_the_conditions_of_a_job_are_shown_with_the_generation_they_speak_for() -> None:
    """As they stand in the rescaler's memory; the standbys that it asked for beside them."""
    condition = {"type": "Available", "status": True, "observed_generation": 3}
    body = {"conditions": [condition], "standbys": [{"unit": 1, "hosts": ["m2"]}], "desired_generation": 4}
    memory = RescalerRecord(cluster="sim", kind="job", id=JOB, at_ms=5, body=msgspec.Raw(msgspec.json.encode(body)))
    field = next(each for each in project(record(topics.RESCALER_STATE, memory)) if isinstance(each, SetField))
    summary = json.loads(field.value)["record"]
    assert (summary["desired_generation"], summary["observed_generation"]) == (4, 3)
    assert (summary["conditions"], summary["standbys"]) == ([condition], body["standbys"])


def test_a_look_at_the_hosts_is_remembered_by_generation_and_sequence() -> None:
    """In a timeline of its cluster; it is no job's progress."""
    look = Balance(cluster="sim", generation=2, sequence=1, status="settled", reason="balanced", at_ms=9, hosts_version=4)
    member, remembered = project(record(topics.RESCHEDULE_EVENTS, look))
    assert member == AddMember("clusters", "sim")
    assert isinstance(remembered, Remember)
    assert (remembered.timeline, remembered.owner, remembered.id) == ("balances", "sim", "2/1")


def test_memory_in_a_shape_of_another_version_is_shown_as_unknown() -> None:
    """A rescaler of another version does not stop the view."""
    memory = RescalerRecord(
        cluster="sim", kind="job", id=JOB, at_ms=5, body=msgspec.Raw(b'{"gate":[1],"pending":null,"conditions":7}')
    )
    operations = project(record(topics.RESCALER_STATE, memory))
    gate, mappings = (json.loads(operation.value)["record"] for operation in operations if isinstance(operation, SetField))
    assert (gate["phase"], mappings) == (None, {})


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
    """Junk on any topic is one rejection, which the projector counts and passes over."""
    with pytest.raises(RecordRejected):
        project(record(topic, b"\xffjunk"))


def test_every_topic_but_the_raw_metrics_is_projected() -> None:
    """A topic added to the table is either shown or left out on purpose."""
    assert set(topics.TOPICS) - set(PROJECTED) == {topics.TASK_METRICS}


def test_settings_of_a_job_that_never_ran_make_it_known() -> None:
    """A job is listed as soon as any topic names it."""
    operations = project(record(topics.JOB_SETTINGS, JobSettings(job="sim/new", mode="observe")))
    assert AddMember("jobs", "sim/new") in operations
    assert AddMember("clusters", "sim") in operations


def test_a_record_that_is_not_utf_8_is_rejected_wherever_that_is() -> None:
    """In a field that this version does not know, too: the document would stand in Redis and nobody could read it."""
    raw = b'{"type":"job-settings/1","job":"sim/clicks","note":"\xff"}'
    with pytest.raises(RecordRejected, match="UTF-8"):
        project(record(topics.JOB_SETTINGS, raw))


def test_a_summary_that_cannot_be_read_is_made_from_the_window() -> None:
    """The header of another version is no reason to miss the window, which is the truth."""
    raw = window_bytes()
    told = remembered(project(replace(record(topics.SNAPSHOTS, raw), summary=b'{"window_id":"from another version"}')))
    assert told == remembered(project(record(topics.SNAPSHOTS, raw)))
