"""Control of a job whose engine is asked for counts: from a decision to a requirement."""

from typing import Any

import msgspec
import pytest

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.messages import Checkpointing
from surescale.contracts.modes import AMBIGUOUS_LABEL
from tests.support.fake_requirement_engine import COUNTS
from tests.support.requirement_pipeline import AUTHOR, JOB, START_MS, WIDER, pipeline, rescaled

# From a decision to a requirement


def test_a_decision_becomes_a_requirement_without_units_hosts_or_rent() -> None:
    """The command names counts and the state that it was made for."""
    found = rescaled()
    (command,) = found.commands
    assert (command.placement, command.step, command.steps, command.action) == (None, 0, 1, "commit")
    (change,) = command.changes
    assert (change.task, change.before, change.after, change.units, change.vnodes_moved) == ("count", 2, 4, (), 0)
    assert command.expected is not None
    assert (command.expected.epoch, command.expected.required) == ("epoch-1", AUTHOR)
    assert [report.status for report in found.reports] == ["accepted", "applied"]
    assert found.condition("Owned") == (True, "Ours")
    assert found.conditions["Owned"].message == "Count by key 4, Parse lines 1, as we last asked for"


def test_conditions_speak_of_what_such_an_engine_has() -> None:
    """No units, no hosts to balance or to drain."""
    assert list(rescaled().conditions) == ["Available", "Owned", "Progressing", "Degraded"]


@pytest.mark.parametrize(("mode", "advice"), [("advise", True), ("observe", None), (None, None)])
def test_without_permission_nothing_is_asked_for(mode: str | None, advice: bool | None) -> None:
    """Advice is a command that nobody carries out; by default a real job is only observed."""
    found = pipeline(allowed={"mode": mode})
    outcome = found.decide({"count": 4})
    found.go(120)
    assert found.fake.writes == []
    assert [command.advice for command in found.commands] == ([] if advice is None else [True])
    assert outcome.reason == ("advise" if advice else "observe")


def test_an_engine_that_takes_no_commands_gets_none_in_mode_act() -> None:
    """It is advised about, and so it says."""
    found = pipeline(can=Capabilities(engine="prometheus"))
    assert found.decide({"count": 4}).reason == "advise"
    found.go(60)
    assert found.fake.writes == []


def test_tied_tasks_move_together() -> None:
    """Connected forward, both get what the one that needs most gets."""
    found = pipeline(specs={"parse": {"tied": "chain"}, "count": {"tied": "chain"}})
    found.decide({"count": 5})
    found.settle()
    assert found.required == {"parse": 5, "count": 5}


def test_a_job_that_scales_as_a_whole_keeps_one_parallelism() -> None:
    """Of every task."""
    found = pipeline(can=Capabilities(**{**as_fields(COUNTS), "scope": "job"}))
    found.decide({"count": 3})
    found.settle()
    assert found.required == {"parse": 3, "count": 3}


def as_fields(can: Capabilities) -> dict[str, Any]:
    """Capabilities as keywords."""
    return {name: getattr(can, name) for name in can.__struct_fields__}


def test_no_more_is_asked_for_than_there_are_slots() -> None:
    """Two slots in use and one free: three subtasks instead of five, and the command says that it is a part."""
    found = pipeline(free_slots=1)
    found.decide({"count": 5})
    found.settle()
    assert found.required == {"parse": 1, "count": 3}
    assert found.commands[0].gate_reason == "sufficient"


def test_each_sharing_group_needs_slots_of_its_own() -> None:
    """parse 1 and count 2 share nothing: three in use and one free leave one more subtask."""
    found = pipeline(free_slots=1, specs={"parse": {"sharing_group": "light"}})
    found.decide({"count": 5})
    found.settle()
    assert found.required == {"parse": 1, "count": 3}


@pytest.mark.parametrize("free_slots", [0, 1, 2])
def test_tied_tasks_of_several_sharing_groups_are_cut_to_what_the_wider_one_has(free_slots: int) -> None:
    """They run at 1 and 2, as somebody has asked for; to 2 each takes a slot more."""
    specs = {"parse": {"tied": "chain", "sharing_group": "light"}, "count": {"tied": "chain"}}
    found = pipeline(free_slots=free_slots, specs=specs)
    found.decide({"count": 5})
    found.settle()
    assert found.required == ({"parse": 2, "count": 2} if free_slots else AUTHOR)


def test_an_engine_that_adds_hosts_may_be_asked_for_more() -> None:
    """Its free slots say nothing."""
    found = pipeline(free_slots=0, can=Capabilities(**{**as_fields(COUNTS), "grows_hosts": True}))
    found.decide({"count": 5})
    found.settle()
    assert found.required == {"parse": 1, "count": 5}


def test_without_a_free_slot_the_act_is_refused_and_nothing_changes() -> None:
    """The engine would run what it runs and keep wanting more."""
    found = pipeline(free_slots=0)
    found.decide({"count": 5})
    found.settle()
    assert (found.outcomes[-1].status, found.outcomes[-1].reason) == ("refused", "not_enough_parallel_units")
    assert found.fake.writes == []


def test_the_gate_keeps_only_the_cooldown_where_the_engine_gates_itself() -> None:
    """At least the engine's: no waiting for checkpoints or steady resources twice."""
    found = rescaled(can=Capabilities(**{**as_fields(COUNTS), "cooldown_ms": 300_000}))
    begun_ms = found.now_ms
    found.decide({"count": 6})
    found.settle()
    waited_ms = found.commands[-1].issued_at_ms - begun_ms
    assert 200_000 < waited_ms <= 300_000
    assert found.running == {"parse": 1, "count": 6}


@pytest.mark.parametrize(("ran_s", "waits_s"), [(3_600, 0), (30, 0), (10, 20), (-5, 30)])
def test_the_first_act_waits_for_the_cooldown_of_the_start_and_not_of_our_first_look(ran_s: int, waits_s: int) -> None:
    """A job that has run for long may change at once; one whose engine's clock is ahead of ours began to run now."""
    found = pipeline(topology_fields={"began_ms": START_MS - ran_s * 1_000})
    outcome = found.decide({"count": 4})
    assert (outcome.status == "pending") == bool(waits_s)
    found.settle()
    assert found.commands[0].issued_at_ms - START_MS == waits_s * 1_000


def test_without_a_start_the_cooldown_counts_from_the_last_look() -> None:
    """The engine does not say, and the job may have begun just before."""
    found = pipeline()
    found.topology = msgspec.structs.replace(found.topology, at_ms=START_MS) if found.topology else None
    assert found.decide({"count": 4}).reason == "cooldown"
    found.settle()
    assert found.commands[0].issued_at_ms - START_MS == 30_000


def test_fewer_slots_than_asked_are_shown_and_end_with_what_runs() -> None:
    """Slots vanish after the decision: partly, then as many as fit, and nothing is left pending."""
    found = pipeline()
    found.fake.slots = 3
    found.decide({"count": 6})
    found.go(40)
    assert found.condition("Progressing") == (True, "Partly")
    assert found.conditions["Progressing"].message == (
        "the engine is asked for Count by key 6 and runs Count by key 3, Parse lines 1; it waits for slots"
    )
    found.settle()
    assert found.required == found.running == {"parse": 1, "count": 3}
    assert found.condition("Owned") == (True, "Ours")
    found.fake.slots = 8
    found.go(60)
    assert found.running == {"parse": 1, "count": 3}


# What is not known holds


@pytest.mark.parametrize("fields", [{"load_records_per_minute": None}, {"minutes_known": 2}], ids=str)
def test_an_unknown_load_makes_nothing_smaller(fields: dict[str, Any]) -> None:
    """A job that shows no figures may be busy; more is allowed."""
    found = rescaled()
    found.go(60)
    assert found.decide({"count": 1}, **fields).reason == "unknown_load"
    found.go(60)
    assert found.decide({"count": 5}, **fields).status == "commanded"


@pytest.mark.parametrize("state", ["created", "suspended", "restarting"])
def test_a_job_that_does_not_run_is_left_alone(state: Any) -> None:
    """Its parallelism says nothing now."""
    found = pipeline()
    found.fake.stuck = state
    found.look()
    assert found.decide({"count": 4}).reason == "job_not_running"
    found.go(60)
    assert found.fake.writes == []


FIXED = "12 members run where 4 workers are asked for, 3 in each"


def test_nothing_is_asked_for_of_a_task_whose_workers_are_several_members_each() -> None:
    """The refusal and a condition say why; it is lifted once they are one each."""
    found = pipeline(specs={"count": {"fixed": FIXED}})
    outcome = found.decide({"count": 4})
    assert (outcome.status, outcome.reason) == ("refused", "not_scalable")
    assert outcome.detail.endswith(f"'count': {FIXED}")
    found.go(600)
    assert (found.fake.writes, found.condition("Degraded")) == ([], (True, "Fixed"))
    found.specs = {}
    found.look()
    found.decide({"count": 4})
    found.settle()
    assert found.required == WIDER


def test_an_act_that_waits_is_refused_when_its_task_turns_out_to_be_fixed() -> None:
    """Before anything is asked for."""
    found = rescaled()  # so the next act waits for the cooldown
    writes = len(found.fake.writes)
    assert found.decide({"count": 6}).status == "pending"
    found.specs = {"count": {"fixed": FIXED}}
    found.look()
    found.go(120)
    assert (found.outcomes[-1].status, found.outcomes[-1].reason) == ("refused", "not_scalable")
    assert len(found.fake.writes) == writes


def test_a_job_without_checkpoints_is_not_acted_on() -> None:
    """A rescale would lose its state; the reason says what to set."""
    outcome = pipeline(topology_fields={"checkpointing": Checkpointing(interval_ms=None)}).decide({"count": 4})
    assert outcome.reason == "no_checkpoints"
    assert "execution.checkpointing.interval" in outcome.detail


def test_two_jobs_of_one_name_are_only_observed() -> None:
    """Whatever their settings say."""
    found = pipeline(topology_fields={"labels": {AMBIGUOUS_LABEL: "2"}})
    assert found.decide({"count": 4}).reason == "observe"
    found.go(5)
    assert found.condition("Owned") == (False, "AmbiguousName")


# A new submission


def test_an_upgrade_waits_for_its_own_figures_and_offers_what_was() -> None:
    """Back to its author's parallelism: nothing is done from old means; ``surescale job reapply`` asks for the old one."""
    found = rescaled()
    found.fake.submit(JOB, AUTHOR)
    found.go(60)
    assert found.condition("Owned") == (True, "SubmittedAgain")
    assert found.decide({"count": 3}).reason == "new_epoch"
    assert found.required == AUTHOR
    found.allow(reapplied_at_ms=found.now_ms)
    found.settle()
    assert found.running == WIDER
    assert found.condition("Owned") == (True, "Ours")


@pytest.mark.parametrize("minutes", [1, 5, 30])
def test_an_upgrade_is_decided_on_again_after_a_while(minutes: int) -> None:
    """On its own figures: as many minutes as the settings ask for before any first decision."""
    found = rescaled(allowed={"mode": "act", "minutes_known_min": minutes})
    found.fake.submit(JOB, AUTHOR)
    found.go(60 * minutes - 20)
    assert found.decide({"count": 3}).reason == "new_epoch"
    found.go(60)
    assert found.decide({"count": 3}).status == "commanded"
    found.settle()
    assert found.running == {"parse": 1, "count": 3}
