"""From one record of Kafka to operations on the view. Pure: the same record gives the same operations.

A document in the view is ``{"appended_ms": broker's time, "record": the record}``, for windows a summary instead of the figures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from contracts import topics
from contracts.commands import Balance, EventRecord, Outcome, RescheduleCommand
from contracts.errors import RecordRejected
from contracts.ids import cluster_of, split_job
from contracts.messages import (
    ClockSegment,
    ClusterTopology,
    DeadLetter,
    Decision,
    EngineEvent,
    JobSettings,
    JobTopology,
    PolicyRelease,
    RescalerRecord,
    TaskDecision,
)
from contracts.summaries import WindowSummary, decode_summary, encode_summary, summary_of
from contracts.windows import decode_window
from contracts.wire import decode, encode
from services.state.operations import AddMember, DropField, Operation, Remember, SetField

WINDOWS_KEPT = 240
DECISIONS_KEPT = 500
LOOKED_AT_SHOWN = 3  # of a task, the heaviest: all of them may have 100 KB a decision, and Kafka keeps them
EVENTS_KEPT = 500
DEAD_LETTERS_KEPT = 200


@dataclass(frozen=True, slots=True)
class Record:
    """One record of Kafka, under the bare name of its topic; ``summary`` is the header that travels beside a window."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    appended_ms: int
    summary: bytes | None = None


def project(record: Record) -> tuple[Operation, ...]:
    """Return what a record changes in the view; nothing for topics that the view does not show.

    Raises:
        RecordRejected: the record does not parse or validate.
    """
    projection = _PROJECTIONS.get(record.topic)
    return projection(record) if projection else ()


def _document(record: Record, raw: bytes | None = None) -> bytes:
    body = record.value if raw is None else raw
    assert body is not None, "only records that parsed become documents"
    try:
        body.decode()  # nobody looks into what this version does not know, and Redis answers text
    except UnicodeDecodeError:
        raise RecordRejected("not_json", "", "the record is not UTF-8") from None
    return b'{"appended_ms":%d,"record":%b}' % (record.appended_ms, body)


def _key(record: Record) -> str:
    try:
        return (record.key or b"").decode()
    except UnicodeDecodeError:
        raise RecordRejected("invalid_field", "key", "the record's key is not UTF-8") from None


def _job_index(job: str) -> tuple[Operation, ...]:
    return AddMember("jobs", job), AddMember("clusters", cluster_of(job))


# --- what is known of a job and of a cluster: the last record wins, of settings the highest version ---------------------------


def _job_topology(record: Record) -> tuple[Operation, ...]:
    if record.value is None:
        return (DropField(f"job:{_key(record)}", "topology"),)
    topology = decode(record.value, JobTopology)
    return *_job_index(topology.job), SetField(f"job:{topology.job}", "topology", _document(record))


def _job_settings(record: Record) -> tuple[Operation, ...]:
    if record.value is None:
        return (DropField(f"job:{_key(record)}", "settings"),)
    settings = decode(record.value, JobSettings)
    return *_job_index(settings.job), SetField(f"job:{settings.job}", "settings", _document(record), settings.version)


def _cluster_topology(record: Record) -> tuple[Operation, ...]:
    if record.value is None:
        return (DropField(f"cluster:{_key(record)}", "topology"),)
    cluster = decode(record.value, ClusterTopology).cluster
    return AddMember("clusters", cluster), SetField(f"cluster:{cluster}", "topology", _document(record))


def _policy_release(record: Record) -> tuple[Operation, ...]:
    cluster = decode(record.value, PolicyRelease).cluster
    return AddMember("clusters", cluster), SetField(f"cluster:{cluster}", "policy_release", _document(record))


def _clock(record: Record) -> tuple[Operation, ...]:
    if record.value is None:
        return (DropField("clocks", _key(record)),)
    return (SetField("clocks", decode(record.value, ClockSegment).road, _document(record)),)


def _rescaler_state(record: Record) -> tuple[Operation, ...]:
    if record.value is None:
        cluster, _, rest = _key(record).partition("/")
        kind, _, of = rest.partition("/")
        fields = {
            "job": (DropField(f"job:{of}", "gate"), DropField(f"job:{of}", "mappings")),
            "cluster": (DropField(f"cluster:{cluster}", of),),
        }
        return fields.get(kind, ())
    memory = decode(record.value, RescalerRecord)
    if memory.kind == "job":
        split_job(memory.id)
        summary = msgspec.json.encode(_gate_summary(memory), order="sorted")
        mappings = msgspec.json.encode(_mapping(_mapping(msgspec.json.decode(memory.body)).get("mappings")), order="sorted")
        return (
            *_job_index(memory.id),
            SetField(f"job:{memory.id}", "gate", _document(record, summary)),
            SetField(f"job:{memory.id}", "mappings", _document(record, mappings)),
        )
    if memory.kind == "cluster":
        return (SetField(f"cluster:{memory.cluster}", memory.id, _document(record, bytes(memory.body))),)
    return ()  # what became of a request stands in its outcome


def _gate_summary(memory: RescalerRecord) -> dict[str, object]:
    """Pick what people ask for out of the rescaler's own document; what it does not hold is null."""
    body = _mapping(msgspec.json.decode(memory.body))
    parts = ("gate", "pending", "outstanding", "rescaling")
    gate, pending, outstanding, rescaling = (_mapping(body.get(name)) for name in parts)
    return {
        "at_ms": memory.at_ms,
        "phase": gate.get("phase"),
        "mode": gate.get("mode"),
        "pending_decision_id": pending.get("decision_id"),
        "pending_reason": pending.get("reason"),
        "wake_up_ms": body.get("wake_at_ms") if pending.get("until_ms") is None else pending["until_ms"],
        "outstanding_command_id": outstanding.get("command_id"),
        "step": rescaling.get("step"),
        "given_up": rescaling.get("given_up"),
        "desired_generation": body.get("desired_generation"),
        "applied_generation": body.get("applied_generation"),
        "failures": body.get("failures"),
        "observed_generation": _observed(body),
        "conditions": _listed(body.get("conditions")),
        "standbys": _listed(body.get("standbys")),
    }


def _observed(body: dict[str, Any]) -> int | None:
    """Return the last generation that is over: what the newest conditions speak for."""
    seen = [_mapping(each).get("observed_generation") for each in _listed(body.get("conditions"))]
    return max((each for each in seen if isinstance(each, int)), default=None)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


# --- what happened: timelines by identity ------------------------------------------------------------------------------------


def _window(record: Record) -> tuple[Operation, ...]:
    job, summary, raw = _summary_beside(record) or _summed_up(record)
    remembered = Remember(
        "windows",
        job,
        summary.window_id,
        summary.window_end_ms,
        _document(record, raw),
        WINDOWS_KEPT,
        "windows",
        adds=(("metrics", summary.samples), ("late", summary.late), ("duplicates.metrics", summary.duplicates)),
    )
    return *_job_index(job), remembered


def _summary_beside(record: Record) -> tuple[str, WindowSummary, bytes] | None:
    """Return the job, what the header says, and its bytes; None where there is no header that this version can read."""
    if record.summary is None:
        return None
    job = _key(record)
    split_job(job)
    try:
        return job, decode_summary(record.summary), record.summary
    except RecordRejected:
        return None


def _summed_up(record: Record) -> tuple[str, WindowSummary, bytes]:
    window = decode_window(record.value)
    summary = summary_of(window)
    return window.job, summary, encode_summary(summary)


def _decision(record: Record) -> tuple[Operation, ...]:
    decision = decode(record.value, Decision)
    remembered = Remember(
        "decisions",
        decision.job,
        decision.decision_id,
        decision.span_end_ms,
        _document(record, encode(_trimmed(decision))),
        DECISIONS_KEPT,
        f"decisions.{decision.action}",
    )
    return *_job_index(decision.job), remembered


def _trimmed(decision: Decision) -> Decision:
    """Leave of what each task looked at only the heaviest snapshots, in their order."""
    return replace(decision, tasks=tuple(map(_without_light, decision.tasks)))


def _without_light(task: TaskDecision) -> TaskDecision:
    weights = [looked_at.weight for looked_at in task.looked_at]
    if len(weights) <= LOOKED_AT_SHOWN:
        return task
    shown = sorted(range(len(weights)), key=weights.__getitem__, reverse=True)[:LOOKED_AT_SHOWN]
    return replace(task, looked_at=tuple(task.looked_at[index] for index in sorted(shown)))


def _command(record: Record) -> tuple[Operation, ...]:
    command = decode(record.value, RescheduleCommand)
    remembered = Remember(
        "commands",
        command.job,
        command.command_id,
        command.issued_at_ms,
        _document(record),
        DECISIONS_KEPT,
        "commands",
    )
    return *_job_index(command.job), remembered


def _event(record: Record) -> tuple[Operation, ...]:
    event = decode(record.value, EventRecord)
    if isinstance(event, Balance):
        identity = f"{event.generation}/{event.sequence}"
        kept = ("balances", event.cluster, identity, event.at_ms, _document(record), EVENTS_KEPT, f"balances.{event.status}")
        return AddMember("clusters", event.cluster), Remember(*kept)
    if isinstance(event, Outcome):
        remembered = Remember(
            "outcomes",
            event.job,
            event.decision_id,
            event.span_end_ms,
            _document(record),
            DECISIONS_KEPT,
            f"outcomes.{event.status}",
            latest_wins=True,  # a decision is counted once, by its last outcome
        )
    else:
        remembered = Remember(
            "progress",
            event.job,
            f"{event.command_id}/{event.status}",
            event.at_ms,
            _document(record),
            4 * DECISIONS_KEPT,
            f"progress.{event.status}",
            latest_wins=event.status == "warming",  # told again and again, with less and less lag
        )
    return *_job_index(event.job), remembered


def _engine_event(record: Record) -> tuple[Operation, ...]:
    event = decode(record.value, EngineEvent)
    remembered = Remember(
        "events", event.cluster, str(event.sequence), event.at_ms, _document(record), EVENTS_KEPT, f"events.{event.kind}"
    )
    return AddMember("clusters", event.cluster), remembered


def _dead_letter(record: Record) -> tuple[Operation, ...]:
    letter = decode(record.value, DeadLetter)
    remembered = Remember(
        "dead-letters",
        str(record.partition),
        f"{letter.topic}/{letter.partition}/{letter.offset}",
        record.appended_ms,
        _document(record),
        DEAD_LETTERS_KEPT,
        f"dead_letters.{letter.reason}",
    )
    return (remembered,)


_PROJECTIONS: dict[str, Callable[[Record], tuple[Operation, ...]]] = {
    topics.SNAPSHOTS: _window,
    topics.JOB_TOPOLOGY: _job_topology,
    topics.CLUSTER_TOPOLOGY: _cluster_topology,
    topics.ENGINE_EVENTS: _engine_event,
    topics.JOB_SETTINGS: _job_settings,
    topics.POLICY_RELEASES: _policy_release,
    topics.CLOCK: _clock,
    topics.DECISIONS: _decision,
    topics.RESCHEDULE_COMMANDS: _command,
    topics.RESCHEDULE_EVENTS: _event,
    topics.RESCALER_STATE: _rescaler_state,
    topics.DEAD_LETTERS: _dead_letter,
}

PROJECTED = tuple(_PROJECTIONS)
"""Topics that the view is made of: all but ``task-metrics``, whose samples each window counts for its minute."""
