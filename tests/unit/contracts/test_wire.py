"""Bytes to messages: what is refused, why, and at which field."""

import math

import pytest
from msgspec.structs import replace

from surescale.contracts.commands import EventRecord, Outcome, Progress
from surescale.contracts.errors import RecordRejected
from surescale.contracts.ids import command_id, decision_id, window_id
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology, MinuteMarker, TaskSample, TaskSpec
from surescale.contracts.releases import Expectation
from surescale.contracts.summaries import decode_header, encode_header
from surescale.contracts.summing_up import header_of
from surescale.contracts.topology import check_topology, levels, topological_order
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.wire import decode, encode
from tests.support.builders import JOB, sample, topology


def refused(raw: bytes | None, kind: object = TaskSample | MinuteMarker) -> RecordRejected:
    """Return the refusal of a record."""
    with pytest.raises(RecordRejected) as caught:
        decode(raw, kind)
    return caught.value


def test_a_message_survives_the_wire() -> None:
    """Decoding what was encoded gives the same message."""
    assert decode(encode(sample()), TaskSample | MinuteMarker) == sample()


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_no_record_can_hold_is_refused_on_writing(number: float) -> None:
    """It would become null, which readers refuse; None, which is unknown, may be written."""
    expected = Expectation(work_least=0.0, work_most=1.0, waiting_most=number)
    with pytest.raises(ValueError, match=r"\$.waiting_most.: it is NaN or infinite"):
        encode(expected)
    assert b"null" in encode(replace(sample(), busy_ms=None))


def test_a_tombstone_and_text_are_not_json() -> None:
    """A record without a value, and one that is not JSON, are refused as such."""
    assert refused(None).reason == "not_json"
    assert refused(b"{broken").reason == "not_json"
    assert refused(b"\xff\xfe").reason == "not_json"


def test_an_unknown_type_is_named() -> None:
    """A record of a later schema version is refused by its type."""
    assert refused(b'{"type":"sample/99"}').reason == "unknown_type"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"records_in": -1}, "records_in"),
        ({"records_in": 1.5}, "records_in"),
        ({"parallelism": 0}, "parallelism"),
        ({"job": ""}, "job"),
        ({"busy_ms": "many"}, "busy_ms"),
        ({"sampled_at_ms": 2**60}, "sampled_at_ms"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, object], field: str) -> None:
    """Wrong type or range: the reason is invalid_field and the path is the field's."""
    import msgspec

    body = msgspec.to_builtins(sample()) | change
    error = refused(msgspec.json.encode(body))
    assert (error.reason, error.field) == ("invalid_field", field)


def test_a_missing_field_is_named() -> None:
    """The path of a field that is not there is told too."""
    assert refused(b'{"type":"sample/1","job":"sim/a"}').field == "task"


def test_a_field_inside_a_list_is_named_by_its_path() -> None:
    """The path goes down into lists."""
    raw = encode(topology()).replace(b'"parallelism":2', b'"parallelism":"two"')
    assert refused(raw, JobTopology).field == "tasks[1].parallelism"


def test_unknown_fields_are_let_through() -> None:
    """A field added within a schema version does not break an older reader."""
    raw = encode(JobSettings(job="sim/a"))[:-1] + b',"later":1}'
    assert decode(raw, JobSettings) == JobSettings(job="sim/a")


def tasks(**upstream: str) -> tuple[TaskSpec, ...]:
    """Return task specs from name -> upstream names."""
    return tuple(TaskSpec(task=name, upstream=tuple(names.split())) for name, names in upstream.items())


def test_levels_and_order_follow_the_edges() -> None:
    """Every task comes after its upstreams; a level is one more than the highest upstream's."""
    diamond = tasks(d="b c", b="a", c="b", a="")
    assert [diamond[i].task for i in topological_order(diamond)] == ["a", "b", "c", "d"]
    assert levels(diamond) == [3, 1, 2, 0]


def test_a_cycle_is_refused_naming_its_tasks() -> None:
    """A graph with a cycle has no order."""
    with pytest.raises(RecordRejected, match="b, c") as caught:
        topological_order(tasks(a="", b="a c", c="b"))
    assert caught.value.reason == "cyclic_topology"


@pytest.mark.parametrize(
    ("specs", "field"),
    [
        (tasks(a="nowhere"), "tasks[0].upstream"),
        ((TaskSpec(task="a"), TaskSpec(task="a")), "tasks"),
        ((TaskSpec(task="a", parallelism=2, units=(1,)),), "tasks[0].units"),
    ],
)
def test_a_broken_topology_is_refused_by_field(specs: tuple[TaskSpec, ...], field: str) -> None:
    """Unknown upstreams, repeated tasks and a wrong number of units are named."""
    with pytest.raises(RecordRejected) as caught:
        check_topology(JobTopology(job="sim/a", version=1, at_ms=0, tasks=specs))
    assert caught.value.field == field


def test_no_job_has_the_name_that_stands_for_all() -> None:
    """Its pauses would be the cluster's."""
    with pytest.raises(RecordRejected, match=r"sim/\* stands for all jobs of its cluster") as caught:
        check_topology(JobTopology(job="sim/*", version=1, at_ms=0, tasks=tasks(a="")))
    assert caught.value.field == "job"


def test_the_order_of_a_graph_with_an_unknown_upstream_is_refused() -> None:
    """Whoever asks for the order of a graph that nobody checked gets a refusal, no KeyError."""
    with pytest.raises(RecordRejected, match="'nowhere'") as caught:
        topological_order(tasks(a="nowhere"))
    assert (caught.value.reason, caught.value.field) == ("invalid_field", "tasks[0].upstream")


def test_ids_made_of_the_longest_names_fit_their_fields() -> None:
    """A job's name may have 256 characters, as those of SQL jobs nearly do: what is named after it can still be read."""
    job = f"sim/{'j' * 252}"
    of_decision, of_command = decision_id(job, 2**53, "p" * 256), command_id(job, 2**53, 99)
    outcome = Outcome(cluster="sim", job=job, decision_id=of_decision, span_end_ms=0, status="held", reason="hold", at_ms=0)
    report = Progress(cluster="sim", job=job, command_id=of_command, desired_generation=1, status="applied", at_ms=0)
    header = header_of(WindowHistory(JOB, 3).close(60_000, {}, topology()))
    header = replace(header, summary=replace(header.summary, window_id=window_id(job, 2**53, 10_000, 1)))
    assert decode(encode(outcome), EventRecord) == outcome
    assert decode(encode(report), EventRecord) == report
    assert decode_header(encode_header(header)) == header
