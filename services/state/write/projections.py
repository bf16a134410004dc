"""Projects one record of Kafka onto operations on the view. Pure: the same record gives the same operations.

A document in the view is a record as `Appended` has it. A window's record is its summary, and the rescaler's memory of a job is a
summary too.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Balance, Drift, EventRecord, Outcome, RescheduleCommand
from surescale.contracts.decisions import Decision, ShadowDecision, TaskDecision
from surescale.contracts.errors import RecordRejected
from surescale.contracts.ids import cluster_of, split_job
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import (
    SLOT_PRICES_MAX,
    ClockSegment,
    ClusterTopology,
    DeadLetter,
    EngineEvent,
    JobTopology,
    SlotPrice,
)
from surescale.contracts.pauses import is_of_all_jobs
from surescale.contracts.record_keys import decode_under
from surescale.contracts.releases import Release, Slot
from surescale.contracts.rent import slot_price_per_s
from surescale.contracts.rescaler_state import (
    BALANCE,
    PLACEMENT,
    BalanceMemory,
    ClusterMemory,
    JobControl,
    RescalerRecord,
    memory_key,
    memory_of,
)
from surescale.contracts.summaries import JobMinute, SummaryHeader, decode_header
from surescale.contracts.summing_up import header_of
from surescale.contracts.topology import check_cluster, check_topology
from surescale.contracts.windows import decode_window
from surescale.contracts.wire import decode, encode, learned
from surescale.services.state import keys
from surescale.services.state.fleet_documents import answer_of
from surescale.services.state.record_documents import TaskMinutesAt
from surescale.services.state.write.operations import AddMember, DropField, Operation, Remember, SetField

DAY_MS = 24 * 60 * MINUTE_MS
DECISIONS_KEPT = 500
# Per task, those with the highest weight: all of them may take 100 KB per decision, and Kafka keeps them. Acts are few.
LOOKED_AT_SHOWN = {"act": 16, "hold": 3}
SHADOWS_KEPT = 432  # three shadow policies for a day, at ten minutes a span
DEAD_LETTERS_KEPT = 200


@dataclass(frozen=True, slots=True)
class Record:
    """One record of Kafka, under the name of its topic without prefix; ``summary`` is a window's header."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    appended_ms: int
    summary: bytes | None = None


def project(record: Record) -> tuple[Operation, ...]:
    """Return what a record changes in the view; nothing for topics that are left out of the view.

    Raises:
        RecordRejected: the record does not parse or validate.
    """
    projection = _PROJECTIONS.get(record.topic)
    return projection(record) if projection else ()


def _document(record: Record, content: msgspec.Struct) -> bytes:
    """Return the document of a parsed record: only fields that this version knows and has checked."""
    return _wrapped(record, encode(content))


def _wrapped(record: Record, content: bytes) -> bytes:
    place = record.appended_ms, record.partition, record.offset
    return b'{"appended_ms":%d,"partition":%d,"offset":%d,"record":%b}' % (*place, content)


def _key(record: Record) -> str:
    try:
        return (record.key or b"").decode()
    except UnicodeDecodeError:
        raise RecordRejected("invalid_field", "key", "the record's key is not UTF-8") from None


def _job_index(job: str) -> tuple[Operation, ...]:
    return AddMember(keys.JOBS, job), AddMember(keys.CLUSTERS, cluster_of(job))


# --- the state of jobs and clusters: the last record wins; for settings, the highest version -----------------------------------


def _job_topology(record: Record) -> tuple[Operation, ...]:
    if record.value is None:
        return (DropField(keys.job(_key(record)), "topology"),)
    topology = decode_under(record.key, record.value, JobTopology)
    check_topology(topology)
    return *_job_index(topology.job), SetField(keys.job(topology.job), "topology", _document(record, topology))


def _job_settings(record: Record) -> tuple[Operation, ...]:
    if record.value is None:
        return (DropField(_settings_key(_key(record)), "settings"),)
    settings = decode_under(record.key, record.value, JobSettings)
    named = (AddMember(keys.CLUSTERS, cluster_of(settings.job)),) if is_of_all_jobs(settings.job) else _job_index(settings.job)
    return *named, SetField(_settings_key(settings.job), "settings", _document(record, settings), settings.version)


def _settings_key(job: str) -> str:
    return keys.cluster(job.rpartition("/")[0]) if is_of_all_jobs(job) else keys.job(job)


def _cluster_topology(record: Record) -> tuple[Operation, ...]:
    if record.value is None:
        return (DropField(keys.cluster(_key(record)), "topology"),)
    hosts = decode_under(record.key, record.value, ClusterTopology)
    check_cluster(hosts)
    newest = SetField(keys.cluster(hosts.cluster), "topology", _document(record, hosts))
    return AddMember(keys.CLUSTERS, hosts.cluster), newest, *_slot_prices(record, hosts)


def _slot_prices(record: Record, hosts: ClusterTopology) -> Iterator[Operation]:
    """Remember what a slot cost on each day that the monitor tells, or what it costs now where it tells none."""
    told = hosts.slot_prices
    price = None if told or hosts.engine.places == "commanded" else slot_price_per_s(hosts)
    for each in told if price is None else (SlotPrice(at_ms=hosts.at_ms, per_s=price),):
        day, body = str(each.at_ms // DAY_MS), _document(record, each)
        yield Remember("prices", hosts.cluster, day, each.at_ms, body, SLOT_PRICES_MAX, "prices", latest_wins=True)


def _policy_release(record: Record) -> tuple[Operation, ...]:
    release = decode_under(record.key, record.value, Release)
    slot, cluster = release.slot, keys.cluster(release.cluster)
    place = (keys.releases(release.cluster), "/".join((slot.role, slot.scope, slot.job, slot.policy, slot.sha256)))
    is_plain = slot == Slot(release.cluster, "serve", "cluster")
    if release.withdrawn:
        of_cluster = (DropField(cluster, "policy_release"),) if is_plain else ()
        return AddMember(keys.CLUSTERS, release.cluster), DropField(*place), *of_cluster
    newest = SetField(*place, _document(record, release))
    plain = (SetField(cluster, "policy_release", _document(record, release)),) if is_plain else ()
    return AddMember(keys.CLUSTERS, release.cluster), newest, *plain


def _clock(record: Record) -> tuple[Operation, ...]:
    if record.value is None:
        return (DropField(keys.CLOCKS, _key(record)),)
    segment = decode_under(record.key, record.value, ClockSegment)
    return (SetField(keys.CLOCKS, segment.pipeline, _document(record, segment)),)


def _rescaler_state(record: Record) -> tuple[Operation, ...]:
    if record.value is None:
        try:
            key = memory_key(record.key)
        except RecordRejected:
            return ()  # it takes away what nobody shows
        if key.kind == "job":
            return DropField(keys.job(key.id), "gate"), DropField(keys.job(key.id), "mappings")
        return (DropField(keys.cluster(key.cluster), key.id),) if key.kind == "cluster" else ()
    memory = memory_of(record.key, record.value)
    if memory.kind == "cluster":
        return _cluster_memory(record, memory)
    if memory.kind == "request" or memory.summary is None:
        return ()  # the outcome of a request shows what became of it
    gate = msgspec.convert(memory.summary, learned(JobControl), from_attributes=True)
    mappings = msgspec.json.encode(memory.summary.mappings, order="sorted")
    return (
        *_job_index(memory.id),
        SetField(keys.job(memory.id), "gate", _document(record, gate)),
        SetField(keys.job(memory.id), "mappings", _wrapped(record, mappings)),
    )


def _cluster_memory(record: Record, memory: RescalerRecord) -> tuple[Operation, ...]:
    body = decode(bytes(memory.body), _CLUSTER_MEMORIES[memory.id])
    return (SetField(keys.cluster(memory.cluster), memory.id, _document(record, body)),)


_CLUSTER_MEMORIES: dict[str, type[ClusterMemory | BalanceMemory]] = {PLACEMENT: ClusterMemory, BALANCE: BalanceMemory}


# --- what happened: timelines by identity ------------------------------------------------------------------------------------


def _window(record: Record) -> tuple[Operation, ...]:
    job, header = _header_beside(record) or _summed_up(record)
    summary = header.summary
    remembered = Remember(
        "windows",
        job,
        summary.window_id,
        summary.window_end_ms,
        _document(record, summary),
        keys.WINDOWS_KEPT,
        "windows",
        adds=(("metrics", summary.samples), ("late", summary.late), ("duplicates.metrics", summary.duplicates)),
        day=(summary.window_end_ms - 1) // DAY_MS,
        of_day=_sums(summary.minute),
    )
    minute = TaskMinutesAt(version=summary.window_end_ms, tasks=header.tasks)
    place = keys.minute_place(minute.version, summary.tasks)
    # A window that is delivered again must not take the place of a newer one.
    return *_job_index(job), remembered, SetField(keys.minutes(job), place, _document(record, minute), minute.version)


def _sums(minute: JobMinute) -> tuple[tuple[str, int], ...]:
    """Return what a minute adds to its day: slots that were paid, and by how many the author's size would have needed more."""
    if minute.slots is None:
        return ()
    configured = minute.slots_configured
    saved = (0, 0) if configured is None else (1, configured - minute.slots)
    return ("minutes", 1), ("slots", minute.slots), ("compared", saved[0]), ("saved", saved[1])


def _header_beside(record: Record) -> tuple[str, SummaryHeader] | None:
    """Return the job and the header; None if there is no header that this version can read."""
    if record.summary is None:
        return None
    job = _key(record)
    split_job(job)
    try:
        return job, decode_header(record.summary)
    except RecordRejected:
        return None


def _summed_up(record: Record) -> tuple[str, SummaryHeader]:
    window = decode_window(record.value)
    return window.job, header_of(window)


def _decision(record: Record) -> tuple[Operation, ...]:
    made = decode(record.value, Decision)
    document, counted = _document(record, _trimmed(made)), f"decisions.{made.action}"
    remembered = Remember("decisions", made.job, made.decision_id, made.span_end_ms, document, DECISIONS_KEPT, counted)
    return *_job_index(made.job), remembered


def _shadow_decision(record: Record) -> tuple[Operation, ...]:
    made = decode(record.value, ShadowDecision)
    document, counted = _document(record, answer_of(made)), f"shadows.{made.status}"
    remembered = Remember("shadows", made.job, made.shadow_id, made.span_end_ms, document, SHADOWS_KEPT, counted)
    return *_job_index(made.job), remembered


def _trimmed(decision: Decision) -> Decision:
    """Keep only the snapshots with the highest weight that each task looked at, in their order."""
    most = LOOKED_AT_SHOWN[decision.action]
    return replace(decision, tasks=tuple(_heaviest_only(task, most) for task in decision.tasks))


def _heaviest_only(task: TaskDecision, most: int) -> TaskDecision:
    weights = [looked_at.weight for looked_at in task.looked_at]
    if len(weights) <= most:
        return task
    shown = sorted(range(len(weights)), key=weights.__getitem__, reverse=True)[:most]
    return replace(task, looked_at=tuple(task.looked_at[index] for index in sorted(shown)))


def _command(record: Record) -> tuple[Operation, ...]:
    command = decode(record.value, RescheduleCommand)
    remembered = Remember(
        "commands",
        command.job,
        command.command_id,
        command.issued_at_ms,
        _document(record, command),
        DECISIONS_KEPT,
        "commands",
    )
    return *_job_index(command.job), remembered


def _event(record: Record) -> tuple[Operation, ...]:
    event = decode(record.value, EventRecord)
    if isinstance(event, Drift):
        return ()  # the view shows it as the job's condition Owned
    if isinstance(event, Balance):
        identity = f"{event.generation}/{event.sequence}"
        kept = (
            "balances",
            event.cluster,
            identity,
            event.at_ms,
            _document(record, event),
            keys.EVENTS_KEPT,
            f"balances.{event.status}",
        )
        return AddMember(keys.CLUSTERS, event.cluster), Remember(*kept)
    if isinstance(event, Outcome):
        remembered = Remember(
            "outcomes",
            event.job,
            event.decision_id,
            event.span_end_ms,
            _document(record, event),
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
            _document(record, event),
            4 * DECISIONS_KEPT,
            f"progress.{event.status}",
            latest_wins=event.status == "warming",  # reported repeatedly, as the lag shrinks
        )
    return *_job_index(event.job), remembered


def _engine_event(record: Record) -> tuple[Operation, ...]:
    event = decode(record.value, EngineEvent)
    remembered = Remember(
        "events", event.cluster, event.identity, event.at_ms, _document(record, event), keys.EVENTS_KEPT, f"events.{event.kind}"
    )
    return AddMember(keys.CLUSTERS, event.cluster), remembered


def _dead_letter(record: Record) -> tuple[Operation, ...]:
    letter = decode(record.value, DeadLetter)
    remembered = Remember(
        "dead-letters",
        str(record.partition),
        f"{letter.topic}/{letter.partition}/{letter.offset}",
        record.appended_ms,
        _document(record, letter),
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
    topics.SHADOW_DECISIONS: _shadow_decision,
    topics.RESCHEDULE_COMMANDS: _command,
    topics.RESCHEDULE_EVENTS: _event,
    topics.RESCALER_STATE: _rescaler_state,
    topics.DEAD_LETTERS: _dead_letter,
}

PROJECTED = tuple(_PROJECTIONS)
"""Topics that feed the view: all but ``task-metrics``, whose samples are counted in the windows.

An upgrade runs an earlier state service beside the new one for a while. Were these others, each would begin the view anew as soon
as the other one has, and neither would be ready: a version that changes them has to end the earlier pods first (``Recreate``).
"""
