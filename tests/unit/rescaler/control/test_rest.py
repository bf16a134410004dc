"""A job that has nothing to do is taken to no subtask at all, and started again when records arrive; nothing else rests."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.job_settings import ExcludedPeriod, Pause, PeriodBounds, TaskLimits
from surescale.contracts.messages import Quiet
from surescale.rescaler.control.job.memory import job_record, restored
from tests.support.fake_requirement_engine import COUNTS
from tests.support.requirement_pipeline import CLUSTER, JOB, LOOK_EVERY_S, START_MS, WIDER, RequirementPipeline, pipeline

GROUPS = msgspec.structs.replace(COUNTS, can_rest=True, takes_effect="rolling")
NOTHING = {"parse": 0, "count": 0}
ALWAYS = ExcludedPeriod()
STRICT = ExcludedPeriod(emergencies=False)


def quiet(found: RequirementPipeline, since_ms: int | None = START_MS, waiting: int = 0, why: str = "") -> None:
    """Let the source say this from its next look on."""
    found.topology_fields["quiet"] = Quiet(since_ms=since_ms, waiting=waiting, why=why)


def job(*, minutes: int = 5, **changes: Any) -> RequirementPipeline:
    """Return a job of groups that was asked for `WIDER` while records came, and has had nothing to do since the start."""
    changes["allowed"] = {"mode": "act", "idle_to_zero_minutes": minutes} | changes.get("allowed", {})
    found = pipeline(can=GROUPS, **changes)
    assert found.decide({"count": 4}).status == "commanded"
    found.settle()
    quiet(found)
    return found


def at_rest(**changes: Any) -> RequirementPipeline:
    """Return it once it rests."""
    found = job(**changes)
    found.go(6 * 60)
    assert (found.required, found.running) == (NOTHING, NOTHING)
    return found


def details(found: RequirementPipeline, own: str) -> list[str]:
    """Return what was said of acts of a kind that were carried out."""
    return [each.detail for each in found.outcomes if each.decision_id.endswith(f"/{own}") and each.status == "commanded"]


@pytest.mark.parametrize("restarts", [False, True])
def test_it_rests_after_the_time_and_starts_with_the_first_records(restarts: bool) -> None:
    """At the size that it last worked with, also if every second is another rescaler's. Both acts say why."""
    found = job(restarts=restarts)
    found.go(3 * 60)
    assert found.required == WIDER
    found.go(3 * 60)
    assert (found.required, found.running) == (NOTHING, NOTHING)
    (words,) = details(found, "rest")
    assert words == "no record for 5 minutes: parse 1 -> 0, count 4 -> 0 members"
    assert found.condition("Available") == (True, "AtRest")
    assert found.condition("Degraded") == (False, "Healthy")
    assert "at rest (0 members) since 1970-01-07" in found.conditions["Available"].message
    found.go(20 * 60)
    assert found.required == NOTHING
    quiet(found, None, waiting=12)
    found.go(LOOK_EVERY_S + 10)
    assert (found.required, found.running) == (WIDER, WIDER)
    assert details(found, "wake") == ["12 records wait: parse 0 -> 1, count 0 -> 4 members"]
    found.go(60)
    assert found.condition("Available") == (True, "Running")
    assert found.condition("Owned") == (True, "Ours")
    assert found.drifts == []


def test_it_starts_with_the_largest_size_of_the_last_hour_with_records() -> None:
    """What decisions wanted as the load faded is less, and what they wanted long before counts no more."""
    found = job()
    quiet(found, None)
    for count, minutes in ((9, 56), (3, 6), (2, 1), (1, 0)):
        found.decide({"parse": 1, "count": count}, span_end_ms=found.now_ms, action="hold", reason="hold")
        found.go(minutes * 60)
    found.decide({"parse": 1, "count": 1}, action="hold", load_records_per_minute=0.0)
    quiet(found, START_MS)
    found.go(60)
    assert found.required == NOTHING
    quiet(found, None, waiting=1)
    found.go(LOOK_EVERY_S + 10)
    assert found.required == {"parse": 1, "count": 3}
    assert details(found, "wake") == ["1 record waits: parse 0 -> 1, count 0 -> 3 members"]


@pytest.mark.parametrize(
    "allowed",
    [
        {"idle_to_zero_minutes": 0},
        {"idle_to_zero_minutes": None},
        {"mode": "advise"},
        {"mode": "observe"},
        {"excluded": (ALWAYS,)},
        {"rescales_a_day_max": 1},
        {"tasks": {"parse": TaskLimits(pinned=True)}},
        {"pause": Pause(direction="down", why="audit", by="ana", at_ms=1)},
        {"minimum_within": (PeriodBounds(period=ALWAYS, least=2),)},
    ],
)
def test_whatever_keeps_a_job_from_shrinking_keeps_it_from_resting(allowed: dict[str, Any]) -> None:
    """The setting off, the mode, a period, the day's rescales, a pin, a pause, a minimum within a period."""
    found = job()
    found.allow(**allowed)
    found.go(8 * 60)
    assert 0 not in found.required.values()


@pytest.mark.parametrize(
    "told",
    [
        None,
        Quiet(since_ms=None, waiting=0),
        Quiet(since_ms=None, waiting=1),
        Quiet(since_ms=START_MS, waiting=1),
        Quiet(since_ms=START_MS, waiting=0, why="orders[1]: its leader does not answer"),
    ],
)
def test_with_work_left_or_lag_unknown_nothing_rests(told: Quiet | None) -> None:
    """However long that lasts."""
    found = job()
    found.topology_fields["quiet"] = told
    found.go(8 * 60)
    assert found.required == WIDER


@pytest.mark.parametrize(
    "spec",
    [
        {"hindrance": "worker 0 ended after 1 s"},
        {"backlog_partly_unknown": "what waits in 1 partition is unknown"},
        {"fixed": "2 members run where 1 worker is asked for"},
    ],
)
def test_a_job_with_something_wrong_does_not_rest(spec: dict[str, str]) -> None:
    """Failing workers, a part of the backlog unknown, members that are nobody's."""
    found = job()
    found.specs["parse"] = spec
    found.go(8 * 60)
    assert found.required == WIDER


def test_a_rest_that_failed_is_tried_again() -> None:
    """No other act would come of a job that has nothing to do, and end the row of failures."""
    found = job()
    found.fake.refuse_with = "NO_RIGHT"
    found.go(6 * 60)
    assert (found.reports[-1].code, found.required) == ("NO_RIGHT", WIDER)
    found.fake.refuse_with = None
    found.go(5 * 60)
    assert (found.required, found.running) == (NOTHING, NOTHING)
    assert found.condition("Degraded") == (False, "Healthy")


def test_an_engine_that_cannot_rest_is_not_asked_to() -> None:
    """Flink's jobs keep their subtasks."""
    found = pipeline(allowed={"mode": "act", "idle_to_zero_minutes": 5})
    found.decide({"count": 4})
    found.settle()
    quiet(found)
    found.go(8 * 60)
    assert found.required == WIDER


@pytest.mark.parametrize(
    ("allowed", "why"),
    [
        ({"mode": "observe"}, "its mode is observe"),
        ({"excluded": (STRICT,)}, "this is a strict excluded period"),
        ({"pause": Pause(direction="up", why="audit", by="ana", at_ms=1)}, "paused by ana"),
    ],
)
def test_what_forbids_growth_forbids_the_start_and_is_said(allowed: dict[str, Any], why: str) -> None:
    """Until it no longer does."""
    found = at_rest()
    found.allow(**allowed)
    found.go(LOOK_EVERY_S)
    assert "UTC, not started: " in found.conditions["Available"].message
    quiet(found, None, waiting=3)
    found.go(5 * 60)
    assert found.required == NOTHING
    assert found.conditions["Available"].message.endswith(", though 3 records wait")
    assert why in found.conditions["Available"].message
    found.allow(mode="act", excluded=(), pause=None)
    found.go(LOOK_EVERY_S + 10)
    assert found.required == WIDER


@pytest.mark.parametrize(
    ("allowed", "said"),
    [
        ({"idle_to_zero_minutes": 0}, "it may rest no longer"),
        ({"minimum_within": (PeriodBounds(period=ALWAYS, least=6),)}, "min 6"),
        ({"minimum_within": (PeriodBounds(period=ALWAYS),)}, "min 1 within"),
    ],
)
def test_a_job_that_may_not_rest_any_more_starts(allowed: dict[str, Any], said: str) -> None:
    """Its owner has switched it off, or a period with a minimum has come."""
    found = at_rest()
    found.allow(**allowed)
    found.go(LOOK_EVERY_S + 10)
    (words,) = details(found, "wake")
    assert words.startswith(said)
    assert found.required == ({"parse": 6, "count": 6} if "6" in said else WIDER)


def test_the_activation_lag_may_wait() -> None:
    """And one record more may not."""
    found = at_rest()
    found.allow(activation_lag=100)
    quiet(found, None, waiting=100)
    found.go(5 * 60)
    assert found.required == NOTHING
    quiet(found, None, waiting=101)
    found.go(LOOK_EVERY_S + 10)
    assert found.required == WIDER


def test_what_waits_may_be_unknown_for_a_while_only() -> None:
    """A broker that does not answer starts no job, unless that lasts."""
    found = at_rest()
    quiet(found, None, why="parse: orders[1]: its leader does not answer")
    found.go(4 * 60)
    assert found.required == NOTHING
    found.go(2 * 60)
    assert found.required == WIDER
    assert "it is not known whether records wait (parse: orders[1]" in details(found, "wake")[0]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_monitor_that_is_away_for_long_leaves_nobody_at_rest(restarts: bool) -> None:
    """Nobody knows then whether records wait, and nothing is heard of the job. One that comes back soon finds it at rest."""
    found = at_rest(restarts=restarts)
    found.monitor_sees = False
    found.go(6 * 60)
    found.monitor_sees = True
    found.go(3 * 60)
    assert found.required == NOTHING
    found.monitor_sees = False
    found.go(7 * 60)
    assert found.required == NOTHING
    found.go(3 * 60)
    assert found.required == WIDER
    assert "it is not known whether records wait (the monitor has not looked for minutes)" in details(found, "wake")[0]


def test_what_holds_a_job_back_whose_monitor_is_away_may_be_over_later() -> None:
    """Though nothing is heard of it."""
    found = at_rest(allowed={"excluded": (ExcludedPeriod(first_day="2100-01-01"),)})
    found.monitor_sees = False
    found.allow(excluded=(STRICT,))
    found.go(12 * 60)
    assert found.required == NOTHING
    found.allow(excluded=())
    found.go(2 * 60)
    assert found.required == WIDER


@pytest.mark.parametrize(
    ("bounds", "rests"),
    [({}, False), ({"least": 2}, False), ({"most": 4}, True), ({"objective": "cost"}, True), ({"least": 1, "most": 4}, True)],
)
def test_a_period_with_a_minimum_of_one_lets_no_job_rest(bounds: dict[str, Any], rests: bool) -> None:
    """`min 1` says nothing else; a maximum or an objective forbids no rest."""
    found = job(allowed={"minimum_within": (PeriodBounds(period=ALWAYS, **bounds),)})
    found.go(8 * 60)
    assert (found.required == NOTHING) == rests


def test_none_rests_for_so_long_that_kafka_forgets_its_offsets() -> None:
    """It starts after three days, and rests again once it has run for the time."""
    found = at_rest()
    found.fake.now_ms += 3 * 24 * 60 * MINUTE_MS
    found.go(LOOK_EVERY_S + 10)
    assert "it has rested for three days" in details(found, "wake")[0]
    found.go(4 * 60)
    assert found.required == WIDER
    found.go(3 * 60)
    assert found.required == NOTHING


def test_a_start_that_takes_too_long_is_not_taken_back() -> None:
    """Records wait: the engine goes on starting it, and whatever comes up is ours."""
    found = at_rest()
    found.fake.slots = 0
    quiet(found, None, waiting=5)
    found.go(LOOK_EVERY_S)
    assert found.condition("Available") == (False, "Starting")
    assert found.condition("Degraded") == (False, "Healthy")
    found.go(10 * 60)
    assert found.required == WIDER
    assert found.reports[-1].code == "DEADLINE"
    found.fake.slots = 100
    found.go(60)
    assert found.running == WIDER
    assert found.condition("Owned") == (True, "Ours")


@pytest.mark.parametrize("restarts", [False, True])
def test_a_start_that_the_engine_refused_is_tried_again(restarts: bool) -> None:
    """Records wait, and nobody else would start it; between the tries it says so."""
    found = at_rest(restarts=restarts)
    found.fake.refuse_with = "NO_RIGHT"
    quiet(found, None, waiting=5)
    found.go(60)
    assert found.reports[-1].code == "NO_RIGHT"
    assert found.condition("Degraded") == (True, "RescaleFailed")
    assert "its last start failed, and the next try waits" in found.conditions["Available"].message
    found.fake.refuse_with = None
    found.go(5 * 60)
    assert (found.required, found.running) == (WIDER, WIDER)
    assert found.condition("Available") == (True, "Running")


@pytest.mark.parametrize("on_drift", [None, "adopt"])
@pytest.mark.parametrize("ids", ["every", "content", "none"])
def test_one_that_its_owner_stopped_while_it_was_started_stays_stopped(ids: str, on_drift: str | None) -> None:
    """Also where equal requirements have equal names: somebody else asked for nothing after we had asked for more."""
    found = at_rest(ids=ids, allowed={"on_drift": on_drift})
    found.fake.slots = 0
    quiet(found, None, waiting=5)
    found.go(LOOK_EVERY_S)
    assert found.required == WIDER
    found.fake.require(JOB, NOTHING)
    found.fake.slots = 100
    found.go(20 * 60)
    assert found.required == NOTHING
    assert found.condition("Available") == (False, "Stopped")


def test_one_that_its_owner_stopped_soon_after_its_start_stays_stopped() -> None:
    """While an act waits, and where nothing tells one request for nothing from another."""
    found = at_rest(ids="none", allowed={"on_drift": "adopt"})
    found.fake.delay_ms = 60_000
    quiet(found, None, waiting=5)
    found.go(2 * LOOK_EVERY_S)
    assert found.decide({"count": 3}).reason == "rescale_in_progress"
    while found.memory.underway is not None:
        found.go(1)
    assert found.memory.pending is not None
    found.fake.delay_ms = found.fake.still_ms = 0
    found.fake.require(JOB, NOTHING)
    found.fake.look(JOB)
    found.go(10 * 60)
    assert found.required == NOTHING
    assert found.condition("Available") == (False, "Stopped")


def test_a_start_after_which_the_job_is_not_said_to_run_is_not_taken_back() -> None:
    """Its members are there, and it does not come up in time: nobody would start it once more."""
    found = at_rest()
    found.fake.stuck = "suspended"
    quiet(found, None, waiting=5)
    found.go(10 * 60)
    assert (found.reports[-1].code, found.required) == ("DEADLINE", WIDER)
    found.fake.stuck = None
    found.go(60)
    assert found.condition("Available") == (True, "Running")
    assert found.condition("Owned") == (True, "Ours")


def test_a_start_of_which_a_part_runs_settles_for_that() -> None:
    """As any other command does at its deadline."""
    found = at_rest()
    found.fake.slots = 2
    quiet(found, None, waiting=5)
    found.go(10 * 60)
    assert found.required == found.running == {"parse": 1, "count": 2}
    assert found.condition("Owned") == (True, "Ours")


def test_one_that_was_said_to_have_ended_starts_once_it_is_told_of_again() -> None:
    """Somebody ran `surescale job forget` while its monitor was away: nobody else would start its members."""
    found = at_rest()
    found.topology_fields["state"] = "finished"
    found.go(10 * 60)
    assert found.condition("Available") == (False, "Finished")
    del found.topology_fields["state"]
    quiet(found, None, waiting=3)
    found.go(LOOK_EVERY_S + 10)
    assert (found.required, found.running) == (WIDER, WIDER)


def test_a_job_that_somebody_else_stopped_is_not_started() -> None:
    """It was asked for nothing by another than us: that is theirs, as any other size."""
    found = job()
    found.fake.require(JOB, NOTHING)
    found.go(60)
    quiet(found, None, waiting=5)
    found.go(10 * 60)
    assert found.required == NOTHING
    assert found.condition("Owned") == (False, "ForeignRequirement")


@pytest.mark.parametrize("when", ["from the start", "at rest"])
def test_a_job_that_its_owner_stopped_stays_stopped(when: str) -> None:
    """Before we ever changed it, or while we have it at rest: `surescale workers stop` holds until somebody starts it."""
    if when == "at rest":
        found = at_rest()
        found.go(LOOK_EVERY_S)
    else:
        found = pipeline(can=GROUPS, allowed={"mode": "act", "idle_to_zero_minutes": 5})
        found.decide({"count": 2}, action="hold", tasks=())
    found.fake.require(JOB, NOTHING)
    quiet(found, None, waiting=5)
    found.go(5 * 60)
    assert found.required == NOTHING
    assert found.condition("Available") == (False, "Stopped")
    assert found.condition("Degraded") == (True, "Stopped")


def test_no_decision_starts_a_part_of_a_job_that_is_being_stopped() -> None:
    """Its members still run when it is decided on: it would have those of one group only, and nobody would start the others."""
    found = pipeline(can=GROUPS)
    found.fake.delay_ms = 60_000
    found.fake.require(JOB, NOTHING)
    found.go(LOOK_EVERY_S)
    assert found.decide({"count": 3}).reason == "job_not_running"
    found.go(5 * 60)
    assert found.fake.writes == []


def test_a_rescaler_of_another_version_starts_it_too() -> None:
    """It knows of the rest by the conditions, which everybody may read."""
    found = at_rest()
    record = job_record(CLUSTER, found.memory, found.now_ms).record
    assert record is not None
    told = restored(msgspec.structs.replace(record, body=msgspec.Raw(b"")))
    assert told.rest is not None
    assert told.conditions[0].reason == "AtRest"


WORLD = st.tuples(
    st.none() | st.integers(0, 40), st.sampled_from([0, 0, 0, 3]), st.sampled_from(["", "", "", "unknown"]),
    st.sampled_from(["act", "act", "act", "observe", "advise"]), st.sampled_from(["", "", "", "worker 0 fails"]),
    st.sampled_from([None, None, "up", "down"]),
)  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(st.lists(WORLD, min_size=1, max_size=12))
def test_never_to_nothing_with_work_left_and_never_left_at_rest_with_it(worlds: list[tuple[Any, ...]]) -> None:
    """Whatever comes in which order: each command to 0 had its reasons, and records that wait start what may be started."""
    found, seen = job(), 0
    for idle, waiting, why, mode, hindrance, pause in worlds:
        since_ms = None if idle is None or waiting or why else found.now_ms - idle * MINUTE_MS
        quiet(found, since_ms, waiting, why)
        found.specs = {"count": {"hindrance": hindrance}}
        found.allow(mode=mode, pause=Pause(direction=pause, why="w", by="ana", at_ms=1) if pause else None)
        found.look()
        for _ in range(4):
            found.go(LOOK_EVERY_S)
            commands = [each for effects in found.effects for each in effects.commands]
            for command in commands[seen:]:
                _check(found, command, hindrance)
            seen = len(commands)
        if waiting and mode == "act" and pause != "up" and found.memory.underway is None and not found.memory.failures:
            assert 0 not in found.required.values()


def _check(found: RequirementPipeline, command: RescheduleCommand, hindrance: str) -> None:
    if all(command.targets.values()):
        return
    told = found.topology_fields["quiet"]
    assert set(command.targets.values()) == {0}
    assert (told.waiting, told.why, hindrance, command.advice) == (0, "", "", False)
    assert told.since_ms is not None
    assert command.issued_at_ms - told.since_ms >= 5 * MINUTE_MS
