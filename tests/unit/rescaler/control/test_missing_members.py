"""Groups of which fewer members run than workers: a worker crashed for good, is pending, or runs and does not join."""

import pytest

from surescale.contracts.job_settings import Approval
from tests.support.requirement_pipeline import RequirementPipeline, pipeline


def eight_workers(members: int, *, run: int, engine: str = "kafka") -> RequirementPipeline:
    """Return a job whose task ``count`` has these members and is asked for eight workers, ``run`` of which do."""
    found = pipeline(topology_fields={"engine": engine})
    found.decide({"count": 8})
    found.settle()
    assert found.required["count"] == 8
    found.fake.slots = run
    joined(found, members)
    return found


def joined(found: RequirementPipeline, members: int) -> None:
    """Let the monitor see so many members."""
    found.specs["count"] = {"parallelism": members}
    found.go(60)


def asked_after(found: RequirementPipeline, wanted: int) -> int:
    """Return how many workers are asked for once a decision wants so many members."""
    found.decide({"count": wanted})
    found.settle()
    return found.required["count"]


@pytest.mark.parametrize("run", [4, 8], ids=["four are pending", "four do not join"])
def test_where_those_go_that_are_no_members_the_next_decisions_take_the_rest(run: int) -> None:
    """Each one takes as many workers away as members shall go, and is carried out though fewer run."""
    found = eight_workers(4, run=run)
    assert [asked_after(found, 2) for _ in range(3)] == [6, 4, 2]
    assert {each.status for each in found.reports} == {"accepted", "applied"}
    told = [each.detail for each in found.outcomes if each.status == "commanded"]
    why = "that were asked for, and nobody knows which would go: 2 fewer are asked for"
    assert told == ["", f"Count by key: 4 run of 8 {why}", f"Count by key: 4 run of 6 {why}", ""]


def test_where_members_go_no_fewer_are_left_than_were_wanted() -> None:
    """Two of eight workers go, and both were members. Asked for two workers, the group could have lost all its members."""
    found = eight_workers(4, run=8)
    assert asked_after(found, 2) == 6
    shrink = found.memory.limits.shrinks["count"]
    assert (shrink.before, shrink.size) == (4, 2), "limits remember members, and no workers"
    joined(found, 2)
    assert found.condition("Degraded") == (True, "SlotsMissing")


def test_growth_asks_for_more_workers_only_where_more_than_those_are_wanted() -> None:
    """Six members of eight workers are asked for already."""
    found = eight_workers(4, run=16)
    assert asked_after(found, 6) == 8
    assert found.outcomes[-1].reason == "no_change"
    assert asked_after(found, 10) == 10


def test_one_that_crashed_for_good_is_not_made_up_for_and_is_named() -> None:
    """Seven of eight run. Five are wanted: two go, whichever they are."""
    found = eight_workers(7, run=7)
    assert found.condition("Degraded") == (True, "SlotsMissing")
    assert asked_after(found, 5) == 6
    joined(found, 6)
    assert found.condition("Degraded") == (False, "Healthy")
    assert asked_after(found, 5) == 5


def test_approved_advice_asks_for_as_many_as_was_shown() -> None:
    """Two of eight fewer, for two members of four."""
    found = eight_workers(4, run=8)
    found.allow(mode="advise")
    advice = found.decide({"count": 2})
    assert advice.reason == "advise"
    found.allow(approval=Approval(decision_id=advice.decision_id, by="ana", at_ms=found.now_ms))
    found.go(120)
    assert found.required["count"] == 6


def test_a_flink_job_without_slots_is_asked_for_what_it_needs() -> None:
    """There is nobody else: subtasks are what is asked for."""
    found = eight_workers(4, run=4, engine="flink")
    assert asked_after(found, 2) == 2
    assert found.running["count"] == 2
