"""A pipeline that is killed and cut off loses nothing, and the checker that says so finds whatever is planted for it."""

import json
import struct
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
import zstandard

from tests.support.faults.catalogue import SHORT
from tests.support.faults.check import checked
from tests.support.faults.control import AS_DECIDED, ENDED, ONE_DECISION, ONE_OUTCOME, ORDER
from tests.support.faults.findings import Findings
from tests.support.faults.growth import FLAT, Look, check_growth
from tests.support.faults.pipeline import FaultOptions
from tests.support.faults.recording import Record, Recording
from tests.support.faults.run import RECOVERS, Report, run, table, trace_minutes
from tests.support.faults.samples import ALL_THERE, FIGURES, ONE_MINUTE, SAME
from tests.support.faults.view import SAME_VIEW, check_views
from tests.support.faults.wire import SAMPLE, document, window

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def hurt() -> Report:
    """What a short run of faults left behind."""
    minutes = trace_minutes(SHORT.seconds, 60)
    options = FaultOptions(minutes=minutes, speed=60, seed=7, policy="target-utilisation", jobs=("orders",))
    return run(SHORT, options, print, record=True)


@pytest.fixture
def recording(hurt: Report) -> Recording:
    """A copy of the run's topics, into which a violation may be planted."""
    assert hurt.recording is not None
    return Recording({name: list(records) for name, records in hurt.recording.topics.items()})


def test_a_pipeline_that_is_killed_and_cut_off_loses_nothing(hurt: Report) -> None:
    """Every invariant was looked at and holds, the pipeline recovered each time, and no role ended by itself."""
    assert hurt.findings.violations == [], "\n".join(table([hurt]))
    looked_at = {RECOVERS, ALL_THERE, ONE_MINUTE, SAME, FIGURES, ONE_DECISION, ONE_OUTCOME, ORDER, ENDED, AS_DECIDED, SAME_VIEW}
    assert looked_at <= set(hurt.findings.looked_at)
    assert hurt.faults
    assert {this.ended for this in hurt.faults.values()} == {0}


def said(record: Record) -> dict[str, Any]:
    """The record's document."""
    found = document(record.value)
    assert found is not None
    return found


def first(recording: Recording, topic: str, **fields: Any) -> int:
    """The place of the first record with these fields."""
    records = recording.topics[topic]
    return next(
        place for place, record in enumerate(records) if all(said(record).get(name) == value for name, value in fields.items())
    )


def change(recording: Recording, topic: str, place: int, **fields: Any) -> None:
    """Set fields of a document."""
    record = recording.topics[topic][place]
    value = json.dumps(said(record) | fields).encode()
    recording.topics[topic][place] = Record(record.partition, record.offset, record.key, value)


def append(recording: Recording, topic: str, place: int, **fields: Any) -> None:
    """Write a record again behind the others, with other fields."""
    recording.topics[topic].append(recording.topics[topic][place])
    change(recording, topic, -1, **fields)


def lost_sample(recording: Recording) -> None:
    """A window counts a sample that is not on the topic, as if it had been counted elsewhere too."""
    del recording.topics["task-metrics"][first(recording, "task-metrics", type=SAMPLE)]


def sample_in_two_places(recording: Recording) -> None:
    """A sample lies in a window and in dead letters."""
    record = recording.topics["task-metrics"][first(recording, "task-metrics", type=SAMPLE)]
    letter = {"type": "dead-letter/1", "topic": "task-metrics", "partition": record.partition, "offset": record.offset}
    recording.topics["dead-letters"].append(Record(0, 0, None, json.dumps(letter).encode()))


def late_sample_unsaid(recording: Recording) -> None:
    """A sample comes again after its minute, and no window says that one was late."""
    place = first(recording, "task-metrics", type=SAMPLE)
    job = said(recording.topics["task-metrics"][place])["job"]
    records = recording.topics["task-metrics"]
    last = max(at for at, record in enumerate(records) if said(record)["job"] == job and said(record)["type"] == "minute/1")
    records.insert(last, records[place])


def lost_window(recording: Recording) -> None:
    """A minute closed, and no window has it."""
    del recording.topics["snapshots"][3]


def window_of_no_minute(recording: Recording) -> None:
    """A window of a minute that no marker closed."""
    rewrite(recording, 0, lambda head, figures: head.update(window_end_ms=head["window_end_ms"] - 3_600_000))


def other_bytes(recording: Recording) -> None:
    """A window is sent again with another figure."""
    recording.topics["snapshots"].append(recording.topics["snapshots"][5])
    rewrite(recording, -1, lambda head, figures: figures[-1].fill(1.0))


def older_minute_rewritten(recording: Recording) -> None:
    """A window disagrees with earlier windows about a minute that they share."""
    place = next(at for at, record in enumerate(recording.topics["snapshots"]) if at > 8 and window(record.value or b""))
    rewrite(recording, place, lambda head, figures: figures[-2].fill(1.0))


def wrong_growth(recording: Recording) -> None:
    """A window's newest minute has twice the records that its samples have."""

    def double(head: dict[str, Any], figures: Any) -> None:
        figures[-1, :, head["figures"].index("records_in")] *= 2

    rewrite(recording, len(recording.topics["snapshots"]) - 1, double)


def rewrite(recording: Recording, place: int, how: Callable[[dict[str, Any], Any], None]) -> None:
    """Change a window's header or figures and pack them again."""
    record = recording.topics["snapshots"][place]
    raw = record.value or b""
    (length,) = struct.unpack(">I", raw[4:8])
    head, figures = json.loads(raw[8 : 8 + length]), window(raw).figures.copy()
    how(head, figures)
    packed = json.dumps(head).encode()
    planes = figures.view(np.uint8).reshape(-1, 4).T.tobytes()
    value = raw[:4] + struct.pack(">I", len(packed)) + packed + zstandard.ZstdCompressor().compress(planes)
    recording.topics["snapshots"][place] = Record(record.partition, record.offset, record.key, value)


def decided_twice(recording: Recording) -> None:
    """Two policies decided on one span."""
    place = 0
    append(recording, "decisions", place, decision_id=said(recording.topics["decisions"][place])["decision_id"] + "-other")


def decided_anew(recording: Recording) -> None:
    """A decision came again and says something else."""
    append(recording, "decisions", 0, reason="another one")


def lost_decision(recording: Recording) -> None:
    """A span ended, and nothing was decided."""
    lost = said(recording.topics["decisions"][0])["decision_id"]
    kept = [record for record in recording.topics["decisions"] if said(record)["decision_id"] != lost]
    recording.topics["decisions"] = kept


def lost_outcome(recording: Recording) -> None:
    """A decision of long ago never got its last outcome."""
    place = first(recording, "reschedule-events", type="outcome/1", status="commanded")
    decided = said(recording.topics["reschedule-events"].pop(place))["decision_id"]
    change(recording, "decisions", first(recording, "decisions", decision_id=decided), span_end_ms=0)


def outcome_after_the_last(recording: Recording) -> None:
    """A decision that was handled is handled once more."""
    place = first(recording, "reschedule-events", type="outcome/1", status="commanded")
    append(recording, "reschedule-events", place, status="refused", sequence=9)


def commanded_twice(recording: Recording) -> None:
    """A command was issued again."""
    append(recording, "reschedule-commands", 0)


def older_command(recording: Recording) -> None:
    """A generation that came before comes under another id."""
    append(recording, "reschedule-commands", 0, command_id="another", step=0)


def generation_left_out(recording: Recording) -> None:
    """A job's generations have a gap."""
    place = len(recording.topics["reschedule-commands"]) - 1
    found = said(recording.topics["reschedule-commands"][place])
    change(recording, "reschedule-commands", place, desired_generation=found["desired_generation"] + 5)


def failed_and_applied(recording: Recording) -> None:
    """A command that was applied is said to have failed."""
    append(
        recording,
        "reschedule-events",
        first(recording, "reschedule-events", type="progress/1", status="applied"),
        status="failed",
    )


def ended_twice(recording: Recording) -> None:
    """The end of a command is written again."""
    append(recording, "reschedule-events", first(recording, "reschedule-events", type="progress/1", status="applied"))


def never_ended(recording: Recording) -> None:
    """A command of long ago neither was applied nor failed."""
    change(recording, "reschedule-commands", 0, issued_at_ms=0)
    command = said(recording.topics["reschedule-commands"][0])["command_id"]
    events = recording.topics["reschedule-events"]
    kept = [record for record in events if said(record).get("command_id") != command or said(record)["type"] != "progress/1"]
    recording.topics["reschedule-events"] = kept


def progress_of_nothing(recording: Recording) -> None:
    """An engine reports a command that nobody issued."""
    append(recording, "reschedule-events", first(recording, "reschedule-events", type="progress/1"), command_id="nobody's")


def other_parallelism(recording: Recording) -> None:
    """Each job runs another parallelism than was decided."""
    for place in range(len(recording.topics["job-topology"])):
        tasks = [task | {"parallelism": 99} for task in said(recording.topics["job-topology"][place])["tasks"]]
        change(recording, "job-topology", place, tasks=tasks)


PLANTED = {
    lost_sample: ONE_MINUTE,
    sample_in_two_places: ONE_MINUTE,
    late_sample_unsaid: ONE_MINUTE,
    lost_window: ALL_THERE,
    window_of_no_minute: ALL_THERE,
    other_bytes: SAME,
    older_minute_rewritten: SAME,
    wrong_growth: FIGURES,
    decided_twice: ONE_DECISION,
    decided_anew: ONE_DECISION,
    lost_decision: ONE_DECISION,
    lost_outcome: ONE_OUTCOME,
    outcome_after_the_last: ONE_OUTCOME,
    commanded_twice: ORDER,
    older_command: ORDER,
    generation_left_out: ORDER,
    failed_and_applied: ENDED,
    ended_twice: ENDED,
    never_ended: ENDED,
    progress_of_nothing: ENDED,
    other_parallelism: AS_DECIDED,
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_checker_finds_what_is_planted(recording: Recording, plant: Callable[[Recording], None]) -> None:
    """Each kind of violation in a recording without any is found, under the invariant that it breaks."""
    plant(recording)
    assert PLANTED[plant] in {violation.invariant for violation in checked(recording).violations}


def test_a_view_that_differs_from_its_rebuild_is_found() -> None:
    """A key too many, one too few, and another value."""
    findings = Findings()
    check_views({"a": 1, "b": 2, "d": 4}, {"a": 1, "b": 3, "c": 5}, findings)
    assert [(each.invariant, each.where) for each in findings.violations] == [(SAME_VIEW, name) for name in ("b", "c", "d")]


@pytest.mark.parametrize(("mb_per_hour", "handles_per_hour", "grows"), [(0, 0, False), (60, 0, True), (0, 40, True)])
def test_memory_and_handles_that_grow_are_found(mb_per_hour: float, handles_per_hour: float, grows: bool) -> None:
    """A slope is told from noise of ten megabytes; a process that has just started may grow."""
    random, findings = Random(7), Findings()
    life = [
        Look(
            at_s,
            200 + mb_per_hour * at_s / 3600 + random.gauss(0, 10) - 100 * 0.9**number,
            50 + int(handles_per_hour * at_s / 3600),
        )
        for number, at_s in enumerate(range(0, 3605, 5))
    ]
    check_growth({"role": life}, findings)
    assert [each.invariant for each in findings.violations] == [FLAT] * grows
    assert findings.looked_at[FLAT] == 1
