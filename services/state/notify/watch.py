"""Which record makes which event, with which words. Pure: the same records in the same order make the same events."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Drift, EventRecord, Outcome, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.errors import RecordRejected
from surescale.contracts.ids import cluster_of, split_job
from surescale.contracts.job_settings import SETTINGS, JobSettings, newer
from surescale.contracts.messages import DeadLetter, EngineEvent, JobTopology
from surescale.contracts.pauses import Paused, is_of_all_jobs
from surescale.contracts.plurals import listed
from surescale.contracts.record_keys import decode_under
from surescale.contracts.releases import Release, percent
from surescale.contracts.rescaler_state import JobSummary, memory_of
from surescale.contracts.summaries import WindowSummary, decode_header
from surescale.contracts.summing_up import header_of
from surescale.contracts.windows import decode_window
from surescale.contracts.wire import decode
from surescale.runtime.instants import to_the_minute
from surescale.services.job_settings.changes import REQUESTS, differences, value_in_words
from surescale.services.state.notify.settings import Notice
from surescale.services.state.read.status import RAN_LEAST, is_down, is_measured, standing
from surescale.services.state.read.words import is_at_limit, reason_words
from surescale.services.state.write.projections import Record

MINUTES_IN_A_ROW = 3
"""A job counts as overloaded, or as fine again, after so many minutes: one minute says little."""
REFUSALS_EVERY_MS = 10 * MINUTE_MS
REFUSALS_KEPT = 1_000
"""Kinds of refused records. Who writes dead letters chooses the words, so there may be any number; the oldest is forgotten."""


@dataclass(slots=True)
class JobMemory:
    """One job, as its records told so far; ``told`` is what receivers last heard of it."""

    topology: JobTopology | None = None
    settings: JobSettings | None = None
    told: str = "fine"
    is_available: bool = True
    is_changing: bool = False
    changed_ms: int = -1
    """When the last command that may stop the job ended, by the pipeline's clock."""
    window_ms: int = -1
    ran: float | None = None
    has_run: bool = False
    """Whether it ever ran for most of a minute: the minute in which a job starts says nothing."""
    overloaded: int = 0
    """Minutes in a row, up to the newest; below 0: minutes in a row without."""
    fallback: str | None = None
    at_limit: bool = False
    decided_ms: int = -1
    held: str = ""
    """The decision that was last told to be waiting."""

    def take_control(self, at_ms: int, summary: JobSummary) -> None:
        """Take note of how the rescaler's control of it stands."""
        was_changing = self.is_changing
        underway = summary.underway
        self.is_available, self.is_changing = standing(
            underway is not None, underway.step if underway else None, summary.conditions
        )
        if was_changing and not self.is_changing:
            self.changed_ms, self.ran = at_ms, None

    def take_window(self, window: WindowSummary) -> bool:
        """Take note of a window; False for one that is not newer."""
        if window.window_end_ms <= self.window_ms:
            return False
        self.window_ms = window.window_end_ms
        minute = window.minute
        # A minute in which a rescale ended was cut short by it.
        is_whole = window.window_end_ms - MINUTE_MS >= self.changed_ms
        if minute.ran is not None and is_whole:
            self.ran = minute.ran
        self.has_run = self.has_run or (self.ran is not None and self.ran >= RAN_LEAST)
        if minute.overloaded > 0:
            self.overloaded = max(self.overloaded, 0) + 1
        elif is_measured(window):  # a minute of which nothing is known does not say that the job keeps up
            self.overloaded = min(self.overloaded, 0) - 1
        return True

    def health(self) -> str:
        """Return how the job is now: fine, overloaded or down; as it was told before, while that is unsettled."""
        if self.topology is None or self.topology.state in ("created", "finished"):
            return self.told
        ran = self.ran if self.has_run else None
        down = is_down(state=self.topology.state, is_available=self.is_available, ran=ran, is_changing=self.is_changing)
        is_unknown = self.has_run and self.ran is None
        if down or (self.told == "down" and is_unknown):
            return "down"
        if self.overloaded >= MINUTES_IN_A_ROW:
            return "overloaded"
        if self.told == "overloaded" and self.overloaded > -MINUTES_IN_A_ROW:
            return "overloaded"
        return "fine"


@dataclass(slots=True)
class RefusalMemory:
    """Refused records of one kind: when one was last told, and how many came since then."""

    told_ms: int
    untold: int = 0


@dataclass(slots=True)
class Memory:
    """Everything that the notifier remembers."""

    jobs: dict[str, JobMemory] = field(default_factory=dict)
    refusals: dict[tuple[str, str, str], RefusalMemory] = field(default_factory=dict)
    """By topic, reason and who refused; the kind that was told last stands last."""

    def take_refusal(self, of: tuple[str, str, str], at_ms: int) -> int | None:
        """Return how many refusals of a kind were not told since the last one that was; None: this one is not told either."""
        known = self.refusals.get(of)
        if known is not None and at_ms < known.told_ms + REFUSALS_EVERY_MS:
            known.untold += 1
            return None
        self.refusals.pop(of, None)
        self.refusals[of] = RefusalMemory(at_ms)
        if len(self.refusals) > REFUSALS_KEPT:
            del self.refusals[next(iter(self.refusals))]
        return known.untold if known is not None else 0

    def job(self, job: str) -> JobMemory:
        """Return what is remembered of a job."""
        return self.jobs.setdefault(job, JobMemory())


def sizes(topology: JobTopology) -> dict[str, int]:
    """Return the parallelism of each task that may change."""
    return {spec.task: spec.parallelism for spec in topology.tasks if spec.scalable}


def changes_of(command: RescheduleCommand) -> dict[str, tuple[int, int]]:
    """Return the sizes before and after, by task that a command changes."""
    return {change.task: (change.before, change.after) for change in command.changes if change.before != change.after}


HELD_MINUTES = 30
TASKS_TOLD = 100
"""Changes of tasks in an event's data; more are left out, so that no event grows without bound."""
_DOWN = {
    "failed": "has failed",
    "restarting": "is restarting",
    "waiting": "waits for parallel units",
    "suspended": "is suspended",
    "resting": "was stopped by somebody",
}


class Watch:
    """Follows the records of a pipeline and says what to tell."""

    def __init__(self) -> None:
        self._memory = Memory()

    def take(self, record: Record) -> list[Notice]:
        """Return what a record gives reason to tell; nothing for one that cannot be read: the projector counts it."""
        told = _NOTICES.get(record.topic)
        if told is None:
            return []
        try:
            if record.value is None:
                self._forget(record)
                return []
            return list(told(self._memory, record))
        except RecordRejected:
            return []

    def _forget(self, record: Record) -> None:
        if record.topic == topics.JOB_TOPOLOGY and record.key is not None:
            self._memory.jobs.pop(record.key.decode(errors="replace"), None)


WATCHED_WHOLE = (topics.JOB_TOPOLOGY, topics.JOB_SETTINGS, topics.POLICY_RELEASES, topics.RESCALER_STATE)
"""Topics whose every record counts for the memory: they are compacted, or few."""
LOOK_BACK = {
    topics.SNAPSHOTS: 100,
    topics.DECISIONS: 100,
    topics.RESCHEDULE_EVENTS: 200,
    topics.RESCHEDULE_COMMANDS: 0,
    topics.ENGINE_EVENTS: 0,
    topics.DEAD_LETTERS: 200,
}
"""Of the other topics, records in each partition that are read again after a restart, so that what was told is known."""


# --- jobs -------------------------------------------------------------------------------------------------------------------


def _topology(memory: Memory, record: Record) -> Iterator[Notice]:
    topology = decode_under(record.key, record.value, JobTopology)
    known = memory.job(topology.job)
    before, known.topology = known.topology, topology
    identity, at_ms = f"{topology.job}@{topology.version}", topology.at_ms
    if before is not None and before.state != topology.state and topology.state == "finished":
        yield _of_job("job.ended", topology.job, identity, f"{topology.job} has finished", at_ms, record)
        return
    yield from _health(known, topology.job, identity, at_ms, record)
    if before is not None and (changed := _changed(before, topology)):
        labels = {spec.task: spec.label or spec.task for spec in topology.tasks}
        total = sum(sizes(before).values()), sum(sizes(topology).values())
        by_us = topology.generation > before.generation
        by = f"by command {topology.generation}" if by_us else "not by a command of surescale"
        summary = f"{topology.job} went from {total[0]} to {total[1]} subtasks, {by}: {_in_words(changed, labels)}"
        data = _task_data(changed, labels) | {"subtasks_before": total[0], "subtasks": total[1], "by_surescale": by_us}
        yield _of_job("job.resized", topology.job, identity, summary, at_ms, record, data)


def _changed(before: JobTopology, after: JobTopology) -> dict[str, tuple[int, int]]:
    was = sizes(before)
    return {task: (was[task], size) for task, size in sizes(after).items() if was.get(task, size) != size}


def _control(memory: Memory, record: Record) -> Iterator[Notice]:
    kept = memory_of(record.key, record.value)
    if kept.kind != "job" or kept.summary is None:
        return
    known = memory.job(kept.id)
    known.take_control(kept.at_ms, kept.summary)
    yield from _health(known, kept.id, f"{kept.id}@{kept.at_ms}/control", kept.at_ms, record)


def _window(memory: Memory, record: Record) -> Iterator[Notice]:
    if record.summary is not None:
        summary, job = decode_header(record.summary).summary, (record.key or b"").decode(errors="replace")
        split_job(job)
    else:
        window = decode_window(record.value)
        summary, job = header_of(window).summary, window.job
    known = memory.job(job)
    if known.take_window(summary):
        yield from _health(known, job, summary.window_id, summary.window_end_ms, record)


def _health(known: JobMemory, job: str, identity: str, at_ms: int, record: Record) -> Iterator[Notice]:
    """Tell that the job has gone from one state to another."""
    before, now = known.told, known.health()
    if now == before:
        return
    known.told = now
    if now == "down":
        state = known.topology.state if known.topology is not None else "unknown"
        why = _DOWN.get(state, "ran for less than half of its newest minute" if known.is_available else "cannot run")
        yield _of_job("job.down", job, identity, f"{job} is down: it {why}", at_ms, record, {"state": state})
    elif now == "overloaded":
        if before == "down":
            yield _recovered(job, before, identity, at_ms, record)
        summary = f"{job} is overloaded: for three minutes a task has had nothing left, or two minutes of its work waiting"
        yield _of_job("job.overloaded", job, identity, summary, at_ms, record)
    else:
        yield _recovered(job, before, identity, at_ms, record)


def _recovered(job: str, was: str, identity: str, at_ms: int, record: Record) -> Notice:
    said = "runs again" if was == "down" else "keeps up again"
    return _of_job("job.recovered", job, identity, f"{job} {said}", at_ms, record, {"was": was})


def _decision(memory: Memory, record: Record) -> Iterator[Notice]:
    decision = decode(record.value, Decision)
    job, policy, at_ms = decision.job, decision.policy, decision.span_end_ms
    known = memory.job(job)
    if at_ms <= known.decided_ms:
        return
    known.decided_ms = at_ms
    before, known.fallback = known.fallback, policy.fallback_reason
    asked = policy.asked or "its policy"
    data = {"asked": policy.asked, "policy": policy.name, "reason": policy.fallback_reason}
    if policy.fallback_reason is not None and before is None:
        summary = f"{policy.name} decides on {job} instead of {asked}: {policy.fallback_reason}"
        yield _of_job("job.fallback", job, decision.decision_id, summary, at_ms, record, data)
    elif policy.fallback_reason is None and before is not None:
        summary = f"{policy.name} decides on {job} again"
        yield _of_job("job.fallback_ended", job, decision.decision_id, summary, at_ms, record, data)
    was, known.at_limit = known.at_limit, is_at_limit(decision.tasks, known.topology.tasks if known.topology else ())
    if known.at_limit and not was:
        kept = [task for task in decision.tasks if task.overloaded and task.floor > task.desired]
        wanted = listed(f"{task.task} needs {task.floor} and may have {task.desired}" for task in kept)
        summary = f"{job} is at its limit: {wanted}; raise its limits, or those of its engine"
        yield _of_job("job.at_limit", job, decision.decision_id, summary, at_ms, record, {"tasks": [t.task for t in kept]})


def _command(memory: Memory, record: Record) -> Iterator[Notice]:
    command = decode(record.value, RescheduleCommand)
    if not command.advice:
        return
    changed = changes_of(command)
    remedy = f"`surescale job approve {command.job}` carries it out"
    summary = f"surescale advises {command.job} to change: {_in_words(changed, {})}; {remedy}"
    data = _task_data(changed, {}) | {"decision_id": command.decision_id}
    yield _of_job("job.advised", command.job, command.command_id, summary, command.issued_at_ms, record, data)


def _event(memory: Memory, record: Record) -> Iterator[Notice]:
    event = decode(record.value, EventRecord)
    if isinstance(event, Outcome):
        yield from _outcome(memory, event, record)
    elif isinstance(event, Progress):
        yield from _progress(event, record)
    elif isinstance(event, Drift) and event.status == "changed":
        changed = {
            task: (event.ours.get(task, size), size) for task, size in event.theirs.items() if event.ours.get(task) != size
        }
        summary = f"somebody else has changed what the engine of {event.job} is asked for: {_in_words(changed, {})}"
        yield _of_job(
            "job.foreign_change", event.job, f"{event.job}@{event.at_ms}", summary, event.at_ms, record, _task_data(changed, {})
        )


def _outcome(memory: Memory, event: Outcome, record: Record) -> Iterator[Notice]:
    waited_minutes = (event.at_ms - event.span_end_ms) // MINUTE_MS
    known = memory.job(event.job)
    if event.status != "pending" or waited_minutes < HELD_MINUTES or known.held == event.decision_id:
        return
    known.held = event.decision_id
    since = to_the_minute(event.span_end_ms)
    summary = f"the change of {event.job} decided at {since} has waited {waited_minutes} minutes: {reason_words(event.reason)}"
    data = {"decision_id": event.decision_id, "reason": event.reason, "waited_minutes": waited_minutes}
    yield _of_job("job.held", event.job, event.decision_id, summary, event.at_ms, record, data)


def _progress(event: Progress, record: Record) -> Iterator[Notice]:
    identity, data = f"{event.command_id}/{event.status}", {"command_id": event.command_id}
    if event.status == "failed":
        why = f"{event.code}: {event.detail}" if event.detail else event.code or "no reason was given"
        summary = f"a rescale of {event.job} failed ({event.command_id}): {why}"
        yield _of_job("job.rescale_failed", event.job, identity, summary, event.at_ms, record, data | {"code": event.code})
    elif event.status == "partly":
        reached = listed(f"{task} {size}" for task, size in sorted(event.reached.items()))
        waits = f", and waits for {event.waiting_for}" if event.waiting_for else ""
        summary = f"{event.job} runs only {reached or 'a part'} of what was asked for ({event.command_id}){waits}"
        more = {"reached": dict(sorted(event.reached.items())[:TASKS_TOLD]), "waiting_for": event.waiting_for}
        yield _of_job("job.rescale_partly", event.job, identity, summary, event.at_ms, record, data | more)


def _settings(memory: Memory, record: Record) -> Iterator[Notice]:
    yield from settings_notices(memory, record)


# --- clusters ---------------------------------------------------------------------------------------------------------------


def _release(memory: Memory, record: Record) -> Iterator[Notice]:
    release = decode_under(record.key, record.value, Release)
    of, where = release.job or release.cluster, _scope(release)
    identity = f"{'/'.join((release.role, release.scope, of, release.policy, release.sha256))}@{release.valid_from_ms}"
    by, note = f" by {release.set_by}" if release.set_by else "", f": {release.note}" if release.note else ""
    data: dict[str, Any] = {"policy": release.policy, "sha256": release.sha256, "role": release.role, "scope": release.scope}
    data |= {"by": release.set_by, "from": to_the_minute(release.valid_from_ms)}
    if release.withdrawn:
        what = "no longer runs in shadow for" if release.role == "shadow" else "is withdrawn from"
        kind, summary = "policy.withdrawn", f"{release.policy} {what} {where}{by}{note}"
    else:
        what = "runs in shadow for" if release.role == "shadow" else "serves"
        kind, summary = "policy.released", f"{release.policy} {what} {where} from {data['from']} on, set{by}{note}"
    yield Notice(kind, release.cluster, of, identity, summary, release.valid_from_ms, record.appended_ms, data)


def _scope(release: Release) -> str:
    if release.job is not None:
        return release.job
    if release.share_permille is not None:
        return f"{percent(release.share_permille)} of the jobs of {release.cluster}"
    return f"cluster {release.cluster}"


def _engine_event(memory: Memory, record: Record) -> Iterator[Notice]:
    event = decode(record.value, EngineEvent)
    if event.kind != "host_lost":
        return
    summary = f"cluster {event.cluster} has lost host {event.host or 'unknown'}{f': {event.detail}' if event.detail else ''}"
    identity = f"{event.cluster}/{event.identity}"
    data = {"host": event.host}
    yield Notice("cluster.host_lost", event.cluster, event.cluster, identity, summary, event.at_ms, record.appended_ms, data)


def _dead_letter(memory: Memory, record: Record) -> Iterator[Notice]:
    letter = decode(record.value, DeadLetter)
    more = memory.take_refusal((letter.topic, letter.reason, letter.refused_by), record.appended_ms)
    if more is None:
        return
    where = f"{letter.topic}[{letter.partition}]@{letter.offset}"
    besides = f", and {more} more of the kind since the last such event" if more else ""
    summary = f"{letter.refused_by} refused {where} ({letter.reason}): {letter.message}{besides}"
    data = {"topic": letter.topic, "reason": letter.reason, "refused_by": letter.refused_by, "more": more}
    cluster = _cluster_of_key(record.key)
    yield Notice("record.refused", cluster, where, where, summary, record.appended_ms, record.appended_ms, data)


def _cluster_of_key(key: bytes | None) -> str:
    """Return the cluster of a refused record by its key, a job or a cluster; anything may stand there."""
    return (key or b"").decode(errors="replace").partition("/")[0] or "unknown"


# --- parts of an event ------------------------------------------------------------------------------------------------------


def _of_job(
    kind: str, job: str, identity: str, summary: str, at_ms: int, record: Record, data: Mapping[str, Any] | None = None
) -> Notice:
    return Notice(kind, cluster_of(job), job, identity, summary, at_ms, record.appended_ms, {"job": job, **(data or {})})


def _in_words(changed: Mapping[str, tuple[int, int]], labels: Mapping[str, str]) -> str:
    return listed(f"{labels.get(task, task)} {before} -> {after}" for task, (before, after) in sorted(changed.items()))


def _task_data(changed: Mapping[str, tuple[int, int]], labels: Mapping[str, str]) -> dict[str, Any]:
    told = [
        {"task": task, "label": labels.get(task, task), "before": before, "after": after}
        for task, (before, after) in sorted(changed.items())
    ]
    return {"changes": told[:TASKS_TOLD], "changes_left_out": max(0, len(told) - TASKS_TOLD)}


_NOTICES: dict[str, Callable[[Memory, Record], Iterator[Notice]]] = {
    topics.JOB_TOPOLOGY: _topology,
    topics.JOB_SETTINGS: _settings,
    topics.POLICY_RELEASES: _release,
    topics.RESCALER_STATE: _control,
    topics.SNAPSHOTS: _window,
    topics.DECISIONS: _decision,
    topics.RESCHEDULE_COMMANDS: _command,
    topics.RESCHEDULE_EVENTS: _event,
    topics.ENGINE_EVENTS: _engine_event,
    topics.DEAD_LETTERS: _dead_letter,
}
WATCHED = tuple(_NOTICES)


_TEXT_MAX = 200


def settings_notices(memory: Memory, record: Record) -> Iterator[Notice]:
    """Yield what a record of settings changes; nothing for one that is not in force, and for a copy."""
    settings = decode_under(record.key, record.value, JobSettings)
    known = memory.job(settings.job)
    before = known.settings or JobSettings(job=settings.job)
    if newer(known.settings, settings) is not settings:
        return
    known.settings = settings
    yield from _change_notices(before, settings, record)


def _change_notices(before: JobSettings, after: JobSettings, record: Record) -> Iterator[Notice]:
    job, cluster = after.job, cluster_of(after.job)
    subject = cluster if is_of_all_jobs(job) else job

    def notice(kind: str, summary: str, **data: Any) -> Notice:
        base = {"by": after.set_by, "version": after.version} | ({} if subject == cluster else {"job": job})
        return Notice(
            kind, cluster, subject, f"{job}/v{after.version}", summary, after.set_at_ms, record.appended_ms, base | data
        )

    if after.pause != before.pause:
        if after.pause is None:
            yield notice("job.resumed", f"rescaling of {subject} is resumed by {after.set_by}")
        else:
            pause = msgspec.to_builtins(after.pause)
            yield notice("job.paused", str(Paused(subject, after.pause)), pause=pause)
    if after.approval is not None and after.approval != before.approval:
        said = f"{after.approval.by} has approved the advice {after.approval.decision_id} for {job}"
        yield notice("job.approved", said, decision_id=after.approval.decision_id)
    changed = {name: pair for name, pair in differences(before, after).items() if name in SETTINGS or name in REQUESTS}
    if changed:
        words = listed(f"{_name(name)} {_text(name, was)} -> {_text(name, now)}" for name, (was, now) in changed.items())
        data = {name: {"before": _text(name, was), "after": _text(name, now)} for name, (was, now) in changed.items()}
        yield notice("job.settings_changed", f"{after.set_by} has changed settings of {job}: {words}", changed=data)


def _name(field: str) -> str:
    return SETTINGS[field].option if field in SETTINGS else REQUESTS[field]


def _text(field: str, value: object) -> str:
    text = value_in_words(field, value)
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."
