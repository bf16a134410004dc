"""The memory read back: what is confined, what is passed, and how much of it is kept."""

import json
from collections.abc import Sequence
from typing import cast

import msgspec
import pytest
from confluent_kafka import Message

from surescale.contracts.rescaler_state import RescalerRecord
from surescale.contracts.wire import decode, encode
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.job.memory import CommandStatus
from surescale.rescaler.control.settings import ControlSettings
from surescale.rescaler.service.memory import LARGE_BYTES_MAX, memory_in
from tests.support.controller_world import CLUSTER, JOB, OTHER_JOB, START_MS, cluster, controller, decision, job, only, said, view

T0, LATER = START_MS, START_MS + 600_000
MINUTE_MS = 60_000
SEEN = view(job(), job(OTHER_JOB, units=(1, 5)))
KEY, REQUEST = f"sim/job/{JOB}", f"sim/request/{JOB}@{T0}/rule"
PARTITION = 1
Given = tuple[str | bytes | None, bytes | None]


class Kept:
    """A record as a consumer hands it over."""

    topic = staticmethod(lambda: "rescaler-state")
    timestamp = staticmethod(lambda: (1, T0))
    headers = staticmethod(lambda: None)

    def __init__(self, given: Given, offset: int, partition: int) -> None:
        self.key, self.value = lambda: given[0], lambda: given[1]
        self.offset, self.partition = lambda: offset, lambda: partition


def written() -> dict[str, bytes]:
    """What a rescaler remembers once it has commanded a rescale of each of two jobs."""
    control, found = controller(), dict[str, bytes]()
    for name in (JOB, OTHER_JOB):
        for changed in control.on_decision(decision(T0, {"map": 3}, of=name), SEEN, T0).records:
            assert changed.record is not None
            found[changed.key] = encode(changed.record)
    return found


def read(given: Sequence[Given], counted: list[str] | None = None, partition: int = PARTITION) -> Controller:
    """A rescaler that goes on with these records, in order."""
    records = [Kept(each, offset, partition) for offset, each in enumerate(given)]
    count = (counted if counted is not None else []).append
    memory = memory_in(cast(Sequence[Message], records), CLUSTER, PARTITION, count)
    return Controller(CLUSTER, ControlSettings(), memory)


def remembers(control: Controller) -> dict[str, int]:
    """The generation that it remembers of each job."""
    return {name: memory.desired_generation for name, memory in control.memory.items()}


def test_what_a_rescaler_wrote_is_restored() -> None:
    """Each job's memory, in the cluster's partition only; without a value, a record takes away what is under its key."""
    kept = list(written().items())
    assert remembers(read(kept)) == {JOB: 1, OTHER_JOB: 1}
    assert remembers(read([*kept, (KEY, None)])) == {JOB: 0, OTHER_JOB: 1}, "the answer to its decision is still known"
    assert remembers(read(kept, partition=0)) == {}


@pytest.mark.parametrize(
    "key", [b"sim/", b"sim/x", b"sim/job/sim/\xff", b"sim/job/other/x", b"sim/request/x", b"sim/cluster/x", None]
)
def test_what_is_no_memory_is_passed_and_counted(key: bytes | None, caplog: pytest.LogCaptureFixture) -> None:
    """With a line that says where the first of them is; a record of nobody's is not even counted."""
    counted: list[str] = []
    control = read([*written().items(), (key, b"x"), (key, b"y")], counted)
    assert remembers(control) == {JOB: 1, OTHER_JOB: 1}
    assert counted == ([] if key is None else ["rejected", "rejected"])
    if key is not None:
        assert (
            "2 records of rescaler-state are no memory of cluster sim and are passed; the first: rescaler-state[1]@"
            in caplog.text
        )


BODY = written()[KEY]
UNREADABLE = {
    "no JSON": b"x",
    "no record": b'{"a":1}',
    "a list": b"[]",
    "a number": b"5",
    "empty": b"",
    "another body": json.dumps(json.loads(BODY) | {"body": {"a": 1}}).encode(),
    "a list for a body": json.dumps(json.loads(BODY) | {"body": []}).encode(),
    "another job's body": json.dumps(json.loads(BODY) | {"body": {"job": OTHER_JOB}}).encode(),
    "another job's record": written()[f"sim/job/{OTHER_JOB}"],
    "another version with a command under way": BODY.replace(b"rescaler-state/1", b"rescaler-state/2"),
    "another version without a summary": (
        b'{"type":"rescaler-state/2","cluster":"sim","kind":"job","id":"sim/clicks","at_ms":1,"body":{}}'
    ),
    "too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
def test_a_job_whose_memory_cannot_be_read_is_held_and_all_others_go_on(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is commanded for it, not even what was under way; the line and its condition name the record and the way out."""
    control = read([*written().items(), (KEY, value)])
    assert remembers(control) == {JOB: 0, OTHER_JOB: 1}
    for part in (
        f"rescaler-state[1]@{len(written())}, key {KEY}, cannot be read",
        f"`surescale topics skip rescaler-state {KEY} --why",
    ):
        assert part in caplog.text
    effects = control.on_decision(decision(LATER, {"map": 4}), SEEN, LATER) + control.on_tick(SEEN, LATER)
    assert said(effects) == [("refused", "memory_unreadable")]
    assert effects.commands == ()
    (degraded,) = [each for each in control.memory[JOB].conditions if each.type == "Degraded"]
    assert (degraded.status, degraded.reason) == (True, "MemoryUnreadable")
    assert degraded.message in caplog.text
    (command,) = controller().on_decision(decision(T0, {"map": 3}), SEEN, T0).commands
    assert control.status_of(command) is CommandStatus.OVER, "an actuator leaves it alone, and nobody calls it forged"
    assert said(control.on_decision(decision(LATER, of=OTHER_JOB), SEEN, LATER)) == [("held", "hold")]


def test_a_job_stays_held_until_its_record_is_taken_away() -> None:
    """The hold is remembered in place of what could not be read, so that everybody can see it, also after the next start."""
    held = read([*written().items(), (KEY, b"x")])
    records = {changed.key: changed.record for changed in held.on_tick(SEEN, LATER).records}
    marker = records[KEY]
    assert marker is not None
    assert marker.summary
    again = read([*written().items(), (KEY, encode(marker))])
    assert only(again.on_decision(decision(LATER, {"map": 4}), SEEN, LATER)).reason == "memory_unreadable"
    free = read([*written().items(), (KEY, encode(marker)), (KEY, None)])
    assert said(free.on_decision(decision(LATER, {"map": 4}), SEEN, LATER)) == [("commanded", "desired")]


def test_a_job_that_is_held_is_not_started_again_either() -> None:
    """Nobody knows what was asked for last: somebody has to look."""
    waiting = view(job(state="waiting", units=(0, 4)))
    control = read([(KEY, b"x")])
    assert control.on_tick(waiting, LATER).commands == ()
    assert read([]).on_tick(waiting, LATER).commands


def test_a_decision_whose_answer_cannot_be_read_counts_as_answered() -> None:
    """It is not carried out a second time; the job's next decision is."""
    for value in (b"x", b'{"a":1}', written()[REQUEST].replace(b'"job":"sim/clicks"', b'"job":"sim/orders"')):
        control = read([(REQUEST, value)])
        again = control.on_decision(decision(T0, {"map": 3}), SEEN, T0)
        assert (again.duplicates, again.outcomes) == (1, ())
        assert said(control.on_decision(decision(LATER, {"map": 3}), SEEN, LATER)) == [("commanded", "desired")]


@pytest.mark.parametrize("what", ["placement", "balance"])
@pytest.mark.parametrize("body", [b"{}", b'{"a":1}', b"[]", b"5"])
def test_without_the_clusters_memory_nothing_moves_because_of_hosts(what: str, body: bytes) -> None:
    """Decisions are carried out all the same. The record stays as it is, and the job's condition says so."""
    raw = b'{"type":"rescaler-state/1","cluster":"sim","kind":"cluster","id":"%s","at_ms":1,"body":%s}' % (what.encode(), body)
    control = read([(f"sim/cluster/{what}", raw)])
    effects = control.on_decision(decision(T0, {"map": 3}), SEEN, T0)
    assert said(effects) == [("commanded", "desired")]
    more = view(job(), hosts=cluster(6))
    for minute in range(1, 10):
        effects += control.on_tick(more, T0 + minute * 60_000)
    assert [command.action for command in effects.commands] == ["commit"]
    assert f"sim/cluster/{what}" not in {record.key for record in effects.records}
    (balanced,) = [each for each in control.memory[JOB].conditions if each.type == "Balanced"]
    assert (balanced.status, balanced.reason) == (False, "MemoryUnreadable")


def test_memory_of_another_version_is_no_poison() -> None:
    """After an upgrade or a roll-back a job at rest goes on from its summary: its next command has the next generation."""
    rest = json.loads(BODY)
    rest["summary"] |= {"underway": None, "desired_generation": 7, "applied_generation": 7}
    for version in (2, 3):
        other = json.dumps(rest | {"type": f"rescaler-state/{version}", "body": [1, "private"]}).encode()
        control = read([(KEY, other)])
        (command,) = control.on_decision(decision(LATER, {"map": 4}), SEEN, LATER).commands
        assert command.desired_generation == 8


def test_large_records_are_kept_within_a_limit() -> None:
    """Forty of 16 MB, under keys of their own, cost their own jobs the memory and nobody else's."""
    text = b"x" * (16 * 1024 * 1024)
    large = [(f"sim/job/sim/j{number}", b'{"type":"%s"}' % text) for number in range(40)]
    counted: list[str] = []
    control = read([*large, *written().items()], counted)
    assert {name: control.memory[name].desired_generation for name in (JOB, OTHER_JOB)} == {JOB: 1, OTHER_JOB: 1}
    assert len(counted) == 40
    told = [control.memory[f"sim/j{number}"].unreadable for number in range(40)]
    assert sum(f"{LARGE_BYTES_MAX >> 20} MiB" in each for each in told) >= 38
    assert all(len(each) < 2_000 for each in told)


def test_memory_in_our_form_that_is_like_none_of_ours_holds_its_job_and_no_other() -> None:
    """It can be read, and what it says cannot be: the gate knows other tasks than the job. The rescaler goes on."""
    kept = written()
    record = decode(kept[KEY], RescalerRecord)
    body = json.loads(bytes(record.body))
    body["gate"]["targets"]["elsewhere"] = {"lower": 1, "upper": 2}
    kept[KEY] = encode(msgspec.structs.replace(record, body=msgspec.Raw(json.dumps(body).encode())))
    control = read(list(kept.items()))
    assert not control.memory[JOB].unreadable
    at_ms = T0 + 60 * MINUTE_MS
    outcomes = list(control.on_tick(SEEN, at_ms).outcomes)
    for name in (JOB, OTHER_JOB):
        outcomes += control.on_decision(decision(at_ms, {"map": 5}, of=name), SEEN, at_ms).outcomes
    said = {outcome.job: (outcome.status, outcome.reason) for outcome in outcomes}
    assert said[JOB] == ("refused", "memory_unreadable")
    assert said[OTHER_JOB][0] in ("commanded", "pending")
    assert (
        "to go on without it, stop the rescaler and run `surescale topics skip rescaler-state" in control.memory[JOB].unreadable
    )
