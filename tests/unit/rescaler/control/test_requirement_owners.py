"""Whose requirement a job runs under: ours, its author's, or somebody else's; also after a kill."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from surescale.contracts.job_settings import ExcludedPeriod, PeriodBounds, TaskLimits
from surescale.rescaler.control.counts import plan_counts
from tests.support.requirement_pipeline import AUTHOR, JOB, THEIRS, WIDER, pipeline, rescaled

FEWER = {"parse": 1, "count": 2}


@pytest.mark.parametrize("stamps", ["look", "change"])
@pytest.mark.parametrize("ids", ["every", "content", "none"])
def test_our_own_change_is_no_drift(stamps: Any, ids: Any) -> None:
    """Also while the monitor still shows the job as it was before."""
    found = pipeline(stamps=stamps, ids=ids)
    found.monitor_sees = False
    found.decide({"count": 4})
    found.go(90)
    assert found.memory.underway is None
    assert found.condition("Owned") == (True, "Ours")
    found.monitor_sees = True
    found.go(60)
    assert found.condition("Owned") == (True, "Ours")
    assert found.drifts == []


@pytest.mark.parametrize("stamps", ["look", "change"])
@pytest.mark.parametrize("ids", ["every", "content", "none"])
def test_a_foreign_change_stops_all_acts_until_it_is_adopted(stamps: Any, ids: Any) -> None:
    """The condition names before and after; ``surescale job adopt`` takes theirs over."""
    found = rescaled(stamps=stamps, ids=ids)
    found.go(60)
    found.fake.require(JOB, THEIRS)
    found.go(60)
    assert found.condition("Owned") == (False, "ForeignRequirement")
    message = found.conditions["Owned"].message
    assert "we asked for Count by key 4, Parse lines 1, somebody else for Count by key 3, Parse lines 2" in message
    assert f"surescale job adopt {JOB}" in message
    assert found.decide({"count": 6}).reason == "foreign_requirement"
    found.go(120)
    assert found.required == THEIRS
    assert found.drifts == [("changed", WIDER, THEIRS)]
    found.allow(adopted_at_ms=found.now_ms)
    found.go(5)
    assert found.condition("Owned") == (True, "Ours")
    assert found.drifts == [("changed", WIDER, THEIRS), ("adopted", WIDER, THEIRS)]
    assert found.decide({"count": 6}).status == "commanded"


@pytest.mark.parametrize("stamps", ["look", "change"])
@pytest.mark.parametrize("ids", ["every", "content", "none"])
def test_what_was_seen_before_our_command_is_not_what_somebody_else_asked_for(stamps: Any, ids: Any) -> None:
    """They change the job while our command is under way, and the monitor has not looked since before it."""
    found = pipeline(stamps=stamps, ids=ids)
    found.monitor_sees = False
    found.decide({"count": 4})
    while found.required != WIDER:
        found.go(1)
    found.fake.require(JOB, THEIRS)
    while found.memory.underway is not None:
        found.go(1)
    found.allow(priority=1)  # any change lets the rescaler compare again
    found.go(5)
    assert found.reports[-1].code == "REQUIREMENT_CHANGED"
    assert found.condition("Owned") == (True, "Ours")
    found.monitor_sees = True
    found.go(60)
    assert found.condition("Owned") == (False, "ForeignRequirement")
    assert "somebody else for Count by key 3, Parse lines 2" in found.conditions["Owned"].message
    assert found.memory.owned is not None
    assert found.memory.owned.returned == 0


def test_a_foreign_change_that_is_undone_is_over() -> None:
    """By the one who made it."""
    found = rescaled()
    found.fake.require(JOB, THEIRS)
    found.go(60)
    found.fake.require(JOB, WIDER)
    found.go(60)
    assert found.condition("Owned") == (True, "Ours")
    assert found.drifts == [("changed", WIDER, THEIRS), ("returned", WIDER, THEIRS)]


def test_a_change_of_a_job_that_we_never_changed_is_its_authors() -> None:
    """The next decision goes on from what is there."""
    found = pipeline()
    found.decide({"count": 2})
    found.fake.require(JOB, THEIRS)
    found.go(60)
    assert found.condition("Owned") == (True, "Author")
    assert found.drifts == []
    found.decide({"count": 5})
    found.settle()
    assert found.required == {"parse": 2, "count": 5}


def test_a_job_that_has_ended_is_no_longer_available() -> None:
    """As soon as its topology says so, without any decision."""
    found = rescaled()
    assert found.condition("Available") == (True, "Running")
    assert found.topology is not None
    ended = msgspec.structs.replace(found.topology, state="finished", version=found.topology.version + 1)
    view = replace(found.view(), jobs={JOB: ended})
    found.control.on_tick(view, found.now_ms + 1_000)
    assert found.condition("Available") == (False, "Finished")


def test_missing_slots_are_no_drift() -> None:
    """A host has died: less runs than required, and it stays ours."""
    found = rescaled()
    found.fake.slots = 2
    found.go(60)
    assert found.running == {"parse": 1, "count": 2}
    assert found.condition("Owned") == (True, "Ours")
    assert found.condition("Degraded") == (True, "SlotsMissing")
    assert found.drifts == []


def test_a_task_that_a_decision_leaves_alone_keeps_what_is_required_of_it() -> None:
    """Though slots for it are missing now: another task changes, and this one is not made smaller by the way."""
    found = rescaled()
    found.fake.slots = 2
    found.go(60)
    found.decide({"parse": 2})
    found.settle()
    assert found.required == {"parse": 2, "count": 4}


def test_growth_asks_for_no_fewer_than_are_asked_for_already() -> None:
    """Less than that runs, and of workers that are no members nobody knows which would go. What is tied stays at one size."""
    found = pipeline()
    found.decide({"parse": 4, "count": 4})
    found.settle()
    found.fake.slots = 2
    found.go(60)
    assert found.running == {"parse": 2, "count": 2}
    found.decide({"count": 3, "parse": 3})
    found.go(120)
    assert found.required == {"parse": 4, "count": 4}
    assert found.outcomes[-1].reason == "no_change"
    assert found.topology is not None
    tasks = tuple(msgspec.structs.replace(spec, tied="chain") for spec in found.topology.tasks)
    plan = plan_counts(msgspec.structs.replace(found.topology, tasks=tasks), {"parse": 3, "count": 3})
    assert [(each.task, each.after) for each in plan.changes] == [("parse", 3), ("count", 3)]
    found.decide({"count": 1, "parse": 1})
    found.go(120)
    found.settle()
    assert found.required == {"parse": 1, "count": 1}


def test_adopt_by_setting_goes_on_from_theirs() -> None:
    """No question asked, and still it is on record."""
    found = rescaled(allowed={"mode": "act", "on_drift": "adopt"})
    found.fake.require(JOB, THEIRS)
    found.go(60)
    assert found.condition("Owned") == (True, "Ours")
    assert found.drifts == [("adopted", WIDER, THEIRS)]
    found.decide({"count": 5})
    found.settle()
    assert found.required == {"parse": 2, "count": 5}


def test_insist_by_setting_asks_for_ours_again() -> None:
    """Once, if they leave it at that."""
    found = rescaled(allowed={"mode": "act", "on_drift": "insist"})
    found.go(60)
    found.fake.require(JOB, THEIRS)
    found.go(60)
    found.settle()
    assert found.required == WIDER
    assert len(found.fake.writes) == 2


@pytest.mark.parametrize(
    "limits",
    [
        {"parallelism_max": 3},
        {"total_limit": 3},
        {"tasks": {"count": TaskLimits(pinned=True)}},
        {"excluded": (ExcludedPeriod(),)},
        {"excluded": (ExcludedPeriod(emergencies=False),)},
        {"minimum_within": (PeriodBounds(period=ExcludedPeriod(), most=3),)},
    ],
)
def test_what_its_owner_no_longer_allows_is_not_insisted_on(limits: dict[str, Any]) -> None:
    """Nor anything in an excluded period. Once it is allowed again, ours is asked for again."""
    found = rescaled(allowed={"mode": "act", "on_drift": "insist"})
    found.go(60)
    found.allow(**limits)
    found.fake.require(JOB, FEWER)
    found.go(300)
    assert found.required == FEWER
    assert found.condition("Owned") == (False, "ForeignRequirement")
    found.allow(**dict.fromkeys(limits))
    found.go(60)
    assert found.required == WIDER


def test_what_its_owner_no_longer_allows_is_not_applied_again() -> None:
    """To a job that was submitted again, though its owner had asked for that before."""
    found = rescaled()
    found.go(60)
    found.allow(parallelism_max=3)
    found.fake.submit(JOB, AUTHOR)
    found.go(60)
    assert found.required == AUTHOR
    found.allow(reapplied_at_ms=found.now_ms)
    found.go(300)
    assert found.required == AUTHOR
    found.allow(parallelism_max=None)
    found.go(60)
    assert found.required == WIDER


@pytest.mark.parametrize("on_drift", ["insist", "adopt"])
@pytest.mark.parametrize("ids", ["every", "content", "none"])
def test_a_second_autoscaler_is_not_fought(on_drift: str, ids: Any) -> None:
    """It puts back what was there, twice: we stop, whatever the setting says."""
    found = pipeline(allowed={"mode": "act", "on_drift": on_drift}, ids=ids)
    found.decide({"count": 4})
    for _ in range(40):
        if found.required != AUTHOR:
            found.settle()
            found.fake.require(JOB, AUTHOR)
        found.go(60)
        found.decide({"count": 4})
    assert found.condition("Owned") == (False, "Contested")
    assert found.outcomes[-1].reason == "contested"
    assert len(found.fake.writes) == 2
    assert found.required == AUTHOR


# Killed, and away


def test_what_a_killed_rescaler_left_behind_is_taken_back() -> None:
    """Rescaler and actuator die, the deadline passes, and the engine still wants what nobody stands behind."""
    found = pipeline()
    found.fake.delay_ms = 3_600_000
    found.decide({"count": 4})
    found.go(5)
    assert found.required == WIDER
    found.work = None  # dead, and no heir
    found.fake.now_ms += 600_000
    found.go(200)
    assert found.commands[-1].decision_id.endswith("take-back")
    assert found.required == AUTHOR
    assert found.condition("Owned") == (True, "Ours")


def test_what_the_engine_took_on_before_it_refused_a_look_is_ours() -> None:
    """It says for a moment that it has no such job, as after a restart of its own, and then carries the command out."""
    found = rescaled()
    found.decide({"count": 6})
    while found.reports[-1].status != "accepted":
        found.go(1)
    jobs, found.fake._jobs = found.fake._jobs, {}
    found.go(1)
    assert found.reports[-1].code == "UNKNOWN_JOB"
    found.fake._jobs = jobs
    found.go(60)
    assert found.running == {"parse": 1, "count": 6}
    assert found.condition("Owned") == (True, "Ours")
    assert found.drifts == []


@pytest.mark.parametrize(("slots", "count"), [(6, 6), (4, 4), (3, 4)])
def test_the_part_of_it_that_runs_stays(slots: int, count: int) -> None:
    """From 4 towards 8: what came of it is not taken away from a job that needs more. Fewer than before is no part of it."""
    found = rescaled()
    found.fake.slots = slots
    found.decide({"count": 8})
    found.go(60)
    found.work = None  # dead, and no heir
    found.fake.now_ms += 600_000
    found.go(200)
    assert found.commands[-1].decision_id.endswith("take-back")
    assert found.required == {"parse": 1, "count": count}


def test_what_comes_late_is_still_ours() -> None:
    """The command counts as failed, and then the engine carries it out."""
    found = pipeline()
    found.decide({"count": 4})
    found.go(1)
    found.work = None
    found.fake.now_ms += 600_000
    found.go(60)
    assert found.running == WIDER
    assert found.condition("Owned") == (True, "Ours")
