"""Pauses and approvals on engines that are asked for a parallelism: what is asked for, and for how long it is not."""

import msgspec
import pytest

from surescale.contracts.job_settings import Approval, Direction, Pause
from surescale.services.state.read.words import cause_words
from tests.support.fake_requirement_engine import COUNTS
from tests.support.requirement_pipeline import AUTHOR, JOB, THEIRS, WIDER, RequirementPipeline, pipeline, rescaled

MINUTE_S = 60


def approve(found: RequirementPipeline) -> None:
    """Let ana approve the job's newest advice, as the command does."""
    assert found.memory.advised is not None
    found.allow(approval=Approval(decision_id=found.memory.advised.decision_id, by="ana", at_ms=found.now_ms))


def pause(found: RequirementPipeline, direction: Direction, minutes: int | None = None) -> None:
    """Let ana pause the job."""
    until_ms = None if minutes is None else found.now_ms + minutes * MINUTE_S * 1_000
    found.allow(pause=Pause(direction=direction, until_ms=until_ms, why="audit", by="ana", at_ms=found.now_ms))


@pytest.mark.parametrize("restarts", [False, True])
def test_an_approved_advice_is_asked_for_once(restarts: bool) -> None:
    """Also if every second is another rescaler's; later settings ask for nothing, and what was asked for is ours."""
    found = pipeline(allowed={"mode": "advise"}, restarts=restarts)
    assert found.decide({"count": 4}).reason == "advise"
    found.go(2 * MINUTE_S)
    assert found.required == AUTHOR
    approve(found)
    found.go(1)
    found.settle()
    found.allow(priority=2)
    found.go(2 * MINUTE_S)
    assert (found.required, found.running, len(found.fake.writes)) == (WIDER, WIDER, 1)
    assert found.condition("Owned") == (True, "Ours")
    assert [each.status for each in found.outcomes if each.decision_id.endswith("/approved")][-1] == "commanded"


def test_an_approval_takes_nothing_away_from_somebody_else() -> None:
    """Advice is given no matter who changed the job; to carry it out, the change must have been adopted."""
    found = rescaled()
    found.allow(mode="advise")
    found.go(MINUTE_S)
    found.fake.require(JOB, THEIRS)
    found.go(MINUTE_S)
    found.decide({"count": 6})
    found.go(2 * MINUTE_S)
    assert found.outcomes[-1].reason == "advise"
    approve(found)
    found.go(MINUTE_S)
    assert (found.outcomes[-1].status, found.outcomes[-1].reason) == ("refused", "foreign_requirement")
    assert "approved by ana: " in found.outcomes[-1].detail
    assert found.required == THEIRS


def test_an_approval_that_waits_gives_way_to_somebody_elses_change() -> None:
    """The gate rests still when they change the job: what was approved is not asked for on top of it."""
    found = rescaled()
    found.allow(mode="advise")
    found.go(2 * MINUTE_S)
    assert found.decide({"count": 6}).reason == "advise"
    approve(found)
    found.go(1)
    assert (found.outcomes[-1].status, found.outcomes[-1].reason) == ("pending", "cooldown")
    found.fake.require(JOB, THEIRS)
    found.look()
    found.go(2 * MINUTE_S)
    assert (found.outcomes[-1].status, found.outcomes[-1].reason) == ("refused", "foreign_requirement")
    assert found.required == THEIRS


def test_an_engine_that_cannot_be_acted_on_is_not() -> None:
    """No matter who approves: the refusal says so."""
    found = pipeline(allowed={"mode": "act"}, can=msgspec.structs.replace(COUNTS, acts="none"))
    assert found.decide({"count": 4}).reason == "advise"
    found.go(MINUTE_S)
    approve(found)
    found.go(MINUTE_S)
    assert (found.outcomes[-1].status, found.outcomes[-1].reason) == ("refused", "advise")
    assert "its engine cannot be acted on" in found.outcomes[-1].detail
    assert found.fake.writes == []


@pytest.mark.parametrize("direction", ["up", "down", "both"])
def test_ours_is_insisted_on_only_when_the_pause_has_ended(direction: Direction) -> None:
    """Their change is one up and one down, so either pause stops the way back; the clock alone ends it."""
    found = rescaled(allowed={"mode": "act", "on_drift": "insist"})
    found.go(MINUTE_S)
    pause(found, direction, minutes=10)
    found.fake.require(JOB, THEIRS)
    found.go(9 * MINUTE_S)
    assert found.required == THEIRS
    assert found.condition("Paused")[0]
    found.go(2 * MINUTE_S)
    found.settle()
    assert found.required == WIDER
    assert found.condition("Paused") == (False, "Resumed")


def test_growth_waits_while_it_is_paused_and_shrinking_does_not() -> None:
    """The same two acts, and the engine is asked for one of them."""
    found = rescaled()
    found.go(MINUTE_S)
    pause(found, "up")
    assert found.decide({"count": 6}).reason == "paused"
    found.go(MINUTE_S)
    assert found.required == WIDER
    assert found.decide({"count": 3}).status == "commanded"
    found.settle()
    assert found.required == {"parse": 1, "count": 3}


def test_what_never_waited_for_a_checkpoint_does_not_say_so() -> None:
    """Consumer groups take none, and Flink waits for them itself: nothing was left to wait for."""
    found = pipeline()
    found.decide({"count": 4})
    found.go(1)
    command = found.memory.outstanding
    assert command is not None
    assert cause_words(command.gate_cause) == "there was nothing to wait for"
