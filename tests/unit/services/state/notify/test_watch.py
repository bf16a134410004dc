"""Which record makes which event, with which words."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Drift, Outcome, Progress, RescheduleCommand, TaskChange
from surescale.contracts.decisions import Amendment, Decision, PolicyUsed, TaskDecision
from surescale.contracts.job_settings import Approval, JobSettings, Pause
from surescale.contracts.messages import DeadLetter, EngineEvent, JobTopology
from surescale.contracts.record_keys import record_key
from surescale.contracts.releases import Release
from surescale.contracts.rescaler_state import CommandUnderway, Condition, JobSummary, RescalerRecord
from surescale.contracts.summaries import JobMinute, SummaryHeader, TaskMinutes, WindowSummary, encode_header
from surescale.contracts.windows import encode_window
from surescale.contracts.wire import encode
from surescale.services.state.notify.settings import Notice
from surescale.services.state.notify.watch import REFUSALS_EVERY_MS, REFUSALS_KEPT, WATCHED, Memory, Watch
from surescale.services.state.write.projections import PROJECTED, Record
from tests.support.builders import JOB, topology, window_at

Told = list[tuple[str, str]]


def record(topic: str, content: msgspec.Struct | bytes | None, *, key: str = JOB, appended_ms: int = 5, **more: Any) -> Record:
    """A record of Kafka."""
    value = encode(content) if isinstance(content, msgspec.Struct) else content
    key = f"sim/job/{key}" if topic == topics.RESCALER_STATE else record_key(content) or key
    return Record(topic, 0, 0, key.encode(), value, appended_ms, **more)


def told(watch: Watch, topic: str, *contents: msgspec.Struct, **more: Any) -> Told:
    """Kinds and words of what the records make."""
    return [(each.kind, each.summary) for each in notices(watch, topic, contents, **more)]


def notices(watch: Watch, topic: str, contents: Iterable[msgspec.Struct], **more: Any) -> list[Notice]:
    """What the records make."""
    return [notice for content in contents for notice in watch.take(record(topic, content, **more))]


NO_TASKS = TaskMinutes(
    backlog=(), backpressured=(), latency_ms=(), parallelism=(), ran=(), records=(), tasks=(), utilisation=()
)  # fmt: skip


def minute(number: int, *, overloaded: int = 0, ran: float | None = 1.0, busy: float | None = 0.5) -> Record:
    """A window whose newest minute went so."""
    summary = WindowSummary(
        closed_append_ms=None, completeness=1.0, duplicates=0, late=0, load_records_per_minute=1.0, minutes_known=60,
        reached_wall_ms=None, samples=4, tasks=3, window_end_ms=number * MINUTE_MS, window_id=f"{JOB}@{number}",
        window_minutes=60, minute=JobMinute(overloaded=overloaded, ran=ran, utilisation=busy), restarts=0,
    )  # fmt: skip
    return record(topics.SNAPSHOTS, b"", summary=encode_header(SummaryHeader(summary=summary, tasks=NO_TASKS)))


def minutes(watch: Watch, first: int, *each: dict[str, Any]) -> list[tuple[int, str, str]]:
    """Minute, kind and words of what consecutive windows make."""
    found = ((number, notice) for number, given in enumerate(each, first) for notice in watch.take(minute(number, **given)))
    return [(number, notice.kind, notice.summary) for number, notice in found]


def running(version: int = 1, parallelism: int = 2, **changes: Any) -> JobTopology:
    """The job's topology with another size of its only scalable task."""
    base = topology(version)
    source, task, sink = base.tasks
    return replace(base, tasks=(source, replace(task, parallelism=parallelism), sink), **changes)


def control(at_minute: int = 0, *, underway: str | None = None, available: bool = True) -> RescalerRecord:
    """How the rescaler's control stands."""
    condition = Condition(
        type="Available", status=available, reason="R", message="m", last_transition_ms=0, observed_generation=0
    )
    command = CommandUnderway(decision_id="d", command_id="c", step=underway) if underway else None  # type: ignore[arg-type]
    summary = JobSummary(underway=command, conditions=(condition,))
    return RescalerRecord(
        cluster="sim", kind="job", id=JOB, at_ms=at_minute * MINUTE_MS, body=msgspec.Raw(b"{}"), summary=summary
    )


FINE, FULL = {"overloaded": 0}, {"overloaded": 2}


def test_every_watched_topic_feeds_the_view_too() -> None:
    """The state service may read all of them already."""
    assert set(WATCHED) < set(PROJECTED)


def test_a_size_is_told_when_the_engine_runs_it() -> None:
    """With what every task had and has; the first topology, and one of the same sizes, say nothing."""
    watch = Watch()
    assert told(watch, topics.JOB_TOPOLOGY, running(1, 2), running(2, 2)) == []
    (notice,) = notices(watch, topics.JOB_TOPOLOGY, [running(3, 5, generation=7, at_ms=60_000)])
    assert notice.summary == "sim/clicks went from 2 to 5 subtasks, by command 7: map 2 -> 5"
    assert (notice.kind, notice.subject, notice.cluster, notice.at_ms) == ("job.resized", JOB, "sim", 60_000)
    assert notice.data == {
        "job": JOB, "subtasks_before": 2, "subtasks": 5, "by_surescale": True,
        "changes": [{"task": "map", "label": "map", "before": 2, "after": 5}], "changes_left_out": 0,
    }  # fmt: skip
    ((kind, words),) = told(watch, topics.JOB_TOPOLOGY, running(4, 3, generation=7))
    assert (kind, words) == (
        "job.resized", "sim/clicks went from 5 to 3 subtasks, not by a command of surescale: map 5 -> 3"
    )  # fmt: skip


def test_a_job_is_down_from_the_record_that_says_so_until_it_runs() -> None:
    """By its engine's state."""
    watch = Watch()
    states = [running(1), running(2, state="restarting"), running(3, state="waiting"), running(4), running(5, state="failed")]
    assert told(watch, topics.JOB_TOPOLOGY, *states) == [
        ("job.down", "sim/clicks is down: it is restarting"),
        ("job.recovered", "sim/clicks runs again"),
        ("job.down", "sim/clicks is down: it has failed"),
    ]


def test_a_job_that_starts_or_ends_is_not_down() -> None:
    """Though nothing of it runs, and the rescaler finds it unavailable."""
    watch = Watch()
    assert told(watch, topics.JOB_TOPOLOGY, running(1, state="created")) == []
    assert told(watch, topics.RESCALER_STATE, control(available=False)) == []
    watch = Watch()
    assert told(watch, topics.JOB_TOPOLOGY, running(1), running(2, state="finished")) == [
        ("job.ended", "sim/clicks has finished")
    ]
    assert told(watch, topics.RESCALER_STATE, control(available=False)) == []


def test_a_job_that_hardly_ran_for_a_minute_is_down() -> None:
    """Within that minute; but not in the minute of its start, and not while a rescale stops it."""
    watch = Watch()
    told(watch, topics.JOB_TOPOLOGY, running(1))
    assert minutes(watch, 1, {"ran": 0.3}, {"ran": 1.0}) == []
    assert minutes(watch, 3, {"ran": 0.4}, {"ran": 0.0}, {"ran": None}, {"ran": 0.9}) == [
        (3, "job.down", "sim/clicks is down: it ran for less than half of its newest minute"),
        (6, "job.recovered", "sim/clicks runs again"),
    ]
    assert told(watch, topics.RESCALER_STATE, control(7, underway="barrier")) == []
    assert minutes(watch, 7, {"ran": 0.1}) == []
    assert told(watch, topics.RESCALER_STATE, control(8)) == []
    assert minutes(watch, 8, {"ran": 0.1}, {"ran": 0.2})[0][:2] == (9, "job.down"), "the rescale is over, and it does not run"


def test_learners_that_warm_up_excuse_no_job_that_is_down() -> None:
    """The job runs on while they do."""
    watch = Watch()
    told(watch, topics.JOB_TOPOLOGY, running(1))
    minutes(watch, 1, {})
    told(watch, topics.RESCALER_STATE, control(2, underway="prepare"))
    assert minutes(watch, 3, {"ran": 0.0})[0][1] == "job.down"


def test_overload_is_told_after_three_minutes_and_so_is_its_end() -> None:
    """A minute now and then is none; a window that comes again counts once."""
    watch = Watch()
    told(watch, topics.JOB_TOPOLOGY, running(1))
    assert minutes(watch, 1, FULL, FULL, FINE, FULL, FULL) == []
    assert minutes(watch, 5, FULL) == []
    assert minutes(watch, 6, FULL, FULL, FINE, FINE, FULL, FINE, FINE, FINE, FINE) == [
        (6, "job.overloaded", "sim/clicks is overloaded: for three minutes a task has had nothing left, or two minutes of its "
                              "work waiting"),
        (13, "job.recovered", "sim/clicks keeps up again"),
    ]  # fmt: skip


def test_minutes_of_which_nothing_is_known_end_no_overload() -> None:
    """They do not say that the job keeps up; those that do are counted on."""
    watch = Watch()
    told(watch, topics.JOB_TOPOLOGY, running(1))
    unknown: dict[str, Any] = {"ran": None, "busy": None}
    found = minutes(watch, 1, FULL, FULL, FULL, unknown, unknown, unknown, FINE, FINE, unknown, FINE)
    assert [(number, kind) for number, kind, _ in found] == [(3, "job.overloaded"), (10, "job.recovered")]


def test_a_window_without_a_header_says_the_same() -> None:
    """It is unpacked then."""
    watch = Watch()
    told(watch, topics.JOB_TOPOLOGY, running(1))
    found = [
        notice for number in (30, 31, 32) for notice in watch.take(record(topics.SNAPSHOTS, encode_window(window_at(number))))
    ]
    assert [notice.kind for notice in found] == ["job.overloaded"]


def a_decision(span: int, *, fallback: str | None = None, **task: Any) -> Decision:
    """A decision on the job's only scalable task."""
    of_task = TaskDecision(**({"task": "map", "current": 2, "ratio": 1.0, "proposed": 2, "desired": 2} | task))
    policy = PolicyUsed(name="target-utilisation" if fallback else "sure", asked="sure", fallback_reason=fallback)
    return Decision(
        decision_id=f"{JOB}@{span * 10 * MINUTE_MS}/sure", job=JOB, span_end_ms=span * 10 * MINUTE_MS, window_id="w",
        policy=policy, seed=0, settings_version=1, topology_version=1, action="hold", reason="r", completeness=1.0,
        minutes_known=60, tasks=(of_task,),
    )  # fmt: skip


def test_a_rule_that_takes_over_is_told_once_and_so_is_its_end() -> None:
    """An older decision, delivered again, changes nothing."""
    watch = Watch()
    decisions = [a_decision(1), a_decision(2, fallback="no package"), a_decision(3, fallback="no package"), a_decision(2)]
    assert told(watch, topics.DECISIONS, *decisions, a_decision(4), a_decision(5)) == [
        ("job.fallback", "target-utilisation decides on sim/clicks instead of sure: no package"),
        ("job.fallback_ended", "sure decides on sim/clicks again"),
    ]


def test_a_job_at_its_limit_is_told_once() -> None:
    """With the size that the load needs, and the one that is allowed."""
    watch = Watch()
    kept = {"overloaded": True, "floor": 9, "desired": 4, "amendments": (Amendment(rule="bounds", before=9, after=4),)}
    assert (
        told(watch, topics.DECISIONS, a_decision(1, **kept), a_decision(2, **kept), a_decision(3), a_decision(4, **kept))
        == [("job.at_limit", "sim/clicks is at its limit: map needs 9 and may have 4; raise its limits, or those of its engine")]
        * 2
    )


def test_an_advice_says_how_to_take_it() -> None:
    """A command that is carried out is told when the engine runs its sizes."""
    command = RescheduleCommand(
        command_id=f"{JOB}#2.0", cluster="sim", job=JOB, desired_generation=2, step=0, base_placement_generation=0,
        decision_id="d", gate_reason="desired", gate_cause="stabilized", issued_at_ms=7,
        changes=(TaskChange(task="map", before=2, after=3),), advice=True,
    )  # fmt: skip
    assert told(Watch(), topics.RESCHEDULE_COMMANDS, replace(command, advice=False), command) == [
        ("job.advised", "surescale advises sim/clicks to change: map 2 -> 3; `surescale job approve sim/clicks` carries it out")
    ]


def test_a_change_that_waits_is_told_after_half_an_hour_and_once() -> None:
    """With the reason in plain words."""
    outcomes = [
        Outcome(cluster="sim", job=JOB, decision_id="d", span_end_ms=0, status="pending", reason="backoff", at_ms=m * MINUTE_MS)
        for m in (1, 29, 30, 45)
    ]
    assert told(Watch(), topics.RESCHEDULE_EVENTS, *outcomes) == [
        (
            "job.held",
            "the change of sim/clicks decided at 1970-01-01 00:00 has waited 30 minutes: backing off after a failed rescale",
        )
    ]


def test_a_rescale_that_fails_or_stops_half_way_is_told() -> None:
    """The other reports are not: what runs is told by the topology."""
    base: dict[str, Any] = {"cluster": "sim", "job": JOB, "command_id": f"{JOB}#2.1", "desired_generation": 2, "at_ms": 9}
    reports = [
        Progress(status="accepted", **base),
        Progress(status="partly", reached={"map": 3}, waiting_for="slots", **base),
        Progress(status="failed", code="TIMEOUT", detail="no answer in 60 s", **base),
        Progress(status="applied", **base),
    ]
    assert told(Watch(), topics.RESCHEDULE_EVENTS, *reports) == [
        ("job.rescale_partly", "sim/clicks runs only map 3 of what was asked for (sim/clicks#2.1), and waits for slots"),
        ("job.rescale_failed", "a rescale of sim/clicks failed (sim/clicks#2.1): TIMEOUT: no answer in 60 s"),
    ]


def test_a_change_by_somebody_else_is_told() -> None:
    """Its settlement is not."""
    drifts = [
        Drift(cluster="sim", job=JOB, status=status, at_ms=at_ms, ours={"map": 2, "b": 1}, theirs={"map": 4, "b": 1})
        for at_ms, status in enumerate(("changed", "adopted"))
    ]
    assert told(Watch(), topics.RESCHEDULE_EVENTS, *drifts) == [
        ("job.foreign_change", "somebody else has changed what the engine of sim/clicks is asked for: map 2 -> 4")
    ]


def test_what_people_change_is_told_with_their_names() -> None:
    """Limits, pauses and approvals, each as what it is; an older version and a copy say nothing."""
    watch = Watch()
    pause = Pause(direction="up", until_ms=None, why="release day", by="ana", at_ms=5)
    approval = Approval(decision_id="sim/clicks@0/sure", by="bo", at_ms=6)
    first = JobSettings(job=JOB, version=1, parallelism_max=4, set_by="demo")
    changes = [
        first,
        first,
        replace(first, version=2, parallelism_max=9, mode="advise", set_by="ana"),
        replace(first, version=1, parallelism_max=2),
        replace(first, version=3, parallelism_max=9, mode="advise", pause=pause, set_by="ana"),
        replace(first, version=4, parallelism_max=9, mode="advise", set_by="bo"),
        replace(first, version=5, parallelism_max=9, mode="advise", approval=approval, set_by="bo"),
    ]
    assert told(watch, topics.JOB_SETTINGS, *changes) == [
        ("job.settings_changed", "demo has changed settings of sim/clicks: max default -> 4"),
        ("job.settings_changed", "ana has changed settings of sim/clicks: mode default -> advise, max 4 -> 9"),
        ("job.paused", "scaling up of sim/clicks is paused by ana until further notice: release day"),
        ("job.resumed", "rescaling of sim/clicks is resumed by bo"),
        ("job.approved", "bo has approved the advice sim/clicks@0/sure for sim/clicks"),
    ]


def test_a_pause_of_all_jobs_is_the_cluster_s() -> None:
    """Its subject is the cluster."""
    pause = Pause(why="freeze", by="ana", at_ms=5)
    (notice,) = notices(Watch(), topics.JOB_SETTINGS, [JobSettings(job="sim/*", version=1, pause=pause)])
    assert (notice.kind, notice.subject, "job" in notice.data) == ("job.paused", "sim", False)
    assert notice.summary == "rescaling of sim is paused by ana until further notice: freeze"


def test_releases_are_told_with_what_they_rest_on() -> None:
    """To a cluster, to a share of its jobs, in the shadow, and their end."""
    base: dict[str, Any] = {"cluster": "sim", "policy": "sure", "sha256": "ab" * 32, "valid_from_ms": 0}
    releases = [
        Release(**base, set_by="ana", note="promoted: 12 of 12 better"),
        Release(**base, share_permille=125),
        Release(**base, role="shadow", job=JOB),
        Release(**base, withdrawn=True, set_by="bo"),
        Release(**base, role="shadow", job=JOB, withdrawn=True),
    ]
    assert told(Watch(), topics.POLICY_RELEASES, *releases) == [
        ("policy.released", "sure serves cluster sim from 1970-01-01 00:00 on, set by ana: promoted: 12 of 12 better"),
        ("policy.released", "sure serves 12.5 % of the jobs of sim from 1970-01-01 00:00 on, set"),
        ("policy.released", "sure runs in shadow for sim/clicks from 1970-01-01 00:00 on, set"),
        ("policy.withdrawn", "sure is withdrawn from cluster sim by bo"),
        ("policy.withdrawn", "sure no longer runs in shadow for sim/clicks"),
    ]


def test_a_lost_host_is_told() -> None:
    """No other event of an engine is."""
    joined = EngineEvent(cluster="sim", sequence=1, at_ms=1, kind="host_joined", host="l1")
    events = (joined, replace(joined, sequence=2, kind="host_lost"))
    assert told(Watch(), topics.ENGINE_EVENTS, *events) == [("cluster.host_lost", "cluster sim has lost host l1")]


def letter(offset: int, reason: str = "not_json") -> DeadLetter:
    """A refused record."""
    at: dict[str, Any] = {"topic": "decisions", "partition": 1, "offset": offset}
    return DeadLetter(**at, reason=reason, field="", message="no JSON", refused_by="rescaler")


def test_refusals_are_told_every_ten_minutes_with_how_many_there_were() -> None:
    """By topic, reason and who refused: a flood makes no flood of events."""
    watch = Watch()
    times = [(0, 0), (1, 60_000), (2, 599_000), (3, 600_000), (4, 601_000)]
    found = [
        (offset, notice.summary)
        for offset, at_ms in times
        for notice in watch.take(record(topics.DEAD_LETTERS, letter(offset), appended_ms=at_ms))
    ]
    assert found == [
        (0, "rescaler refused decisions[1]@0 (not_json): no JSON"),
        (3, "rescaler refused decisions[1]@3 (not_json): no JSON, and 2 more of the kind since the last such event"),
    ]
    (other,) = watch.take(record(topics.DEAD_LETTERS, letter(9, "invalid_field"), appended_ms=601_000))
    assert (other.kind, other.cluster) == ("record.refused", "sim")


def test_kinds_of_refusals_are_bounded_and_the_oldest_is_forgotten_first() -> None:
    """Who writes dead letters chooses their words, so there may be any number of kinds."""
    memory = Memory()
    for at_ms in range(3 * REFUSALS_KEPT):
        assert memory.take_refusal((f"topic-{at_ms}", "not_json", "rescaler"), at_ms) == 0
    assert len(memory.refusals) == REFUSALS_KEPT
    newest = (f"topic-{at_ms}", "not_json", "rescaler")
    assert memory.take_refusal(newest, at_ms + 1) is None
    assert memory.take_refusal(("topic-0", "not_json", "rescaler"), at_ms + 1) == 0
    assert memory.take_refusal(newest, at_ms + REFUSALS_EVERY_MS) == 1


@pytest.mark.parametrize("topic", WATCHED)
@pytest.mark.parametrize("value", [b"junk", b"{}", b"", None], ids=["junk", "object", "empty", "tombstone"])
def test_what_cannot_be_read_makes_no_event(topic: str, value: bytes | None) -> None:
    """And stops nothing."""
    watch = Watch()
    assert watch.take(record(topic, value)) == []
    assert watch.take(record(topic, value, key="no job")) == []
    assert told(watch, topics.JOB_TOPOLOGY, running(1), running(2, state="failed"))[0][0] == "job.down"


def test_a_job_that_is_gone_is_forgotten() -> None:
    """If it comes back, its first topology says nothing."""
    watch = Watch()
    told(watch, topics.JOB_TOPOLOGY, running(1, 2))
    assert watch.take(record(topics.JOB_TOPOLOGY, None)) == []
    assert told(watch, topics.JOB_TOPOLOGY, running(1, 9)) == []


def test_the_same_records_make_the_same_events() -> None:
    """So that one that is sent again has the same id."""
    contents = [running(1, 2), running(2, 4), running(3, 4, state="failed"), running(4, 4)]
    assert notices(Watch(), topics.JOB_TOPOLOGY, contents) == notices(Watch(), topics.JOB_TOPOLOGY, contents)


def test_a_job_that_goes_to_rest_is_not_down() -> None:
    """Nor while its newest minute is one in which it hardly ran. One that somebody else has stopped is."""
    watch = Watch()
    assert told(watch, topics.JOB_TOPOLOGY, running()) == []
    assert minutes(watch, 1, {}) == []
    assert told(watch, topics.JOB_TOPOLOGY, running(2, state="resting")) == []
    assert minutes(watch, 2, {"ran": 0.1, "busy": None}, {"ran": 0.0, "busy": None}) == []
    stopped = told(watch, topics.RESCALER_STATE, control(1, available=False))
    assert stopped == [("job.down", f"{JOB} is down: it was stopped by somebody")]
