"""A job's conditions, as in a Kubernetes status: what is so, why, since when, and for which generation."""

from surescale.contracts.messages import JobTopology
from surescale.contracts.rescaler_state import Condition
from surescale.rescaler.control.controller import Controller
from tests.support.controller_world import (
    JOB,
    MINUTE_MS,
    carried_out,
    cluster,
    controller,
    decision,
    ended,
    job,
    resumed,
    view,
    without_units,
)

T0 = 10 * MINUTE_MS
TYPES = ("Available", "Balanced", "Progressing", "Draining", "Degraded")


def conditions(of: Controller) -> dict[str, Condition]:
    """The job's conditions by type."""
    return {condition.type: condition for condition in of.memory[JOB].conditions}


def told(of: Controller, *types: str) -> list[tuple[bool, str]]:
    """Status and reason of some conditions."""
    return [(conditions(of)[each].status, conditions(of)[each].reason) for each in types]


def begun() -> Controller:
    """A controller whose job is to get two more subtasks: its learners warm up."""
    of = controller()
    of.on_decision(decision(T0, {"map": 4, "join": 4}), view(), T0)
    return of


def test_a_job_that_nothing_happens_to_is_well() -> None:
    """Available and balanced, nothing else holds; each speaks for generation 0 since the first decision."""
    of = controller()
    of.on_decision(decision(T0), view(), T0)
    assert tuple(conditions(of)) == TYPES
    assert [each.status for each in conditions(of).values()] == [True, True, False, False, False]
    assert {(each.last_transition_ms, each.observed_generation) for each in conditions(of).values()} == {(T0, 0)}


def test_a_rescale_is_progress_until_it_is_over() -> None:
    """Learners first, then the commit; balanced only once the newest generation is over."""
    of = begun()
    assert told(of, "Progressing", "Balanced") == [(True, "LearnersInFlight"), (False, "NotObserved")]
    (prepare,) = [memory.outstanding for memory in of.memory.values()]
    assert prepare is not None
    (commit,) = of.on_progress(ended(prepare, T0 + MINUTE_MS), view(), T0 + MINUTE_MS).commands
    assert told(of, "Progressing") == [(True, "Committing")]
    done = view(carried_out(job(), commit))
    of.on_progress(ended(commit, T0 + 2 * MINUTE_MS), done, T0 + 2 * MINUTE_MS)
    assert told(of, "Progressing", "Balanced") == [(False, "Settled"), (True, "Balanced")]
    assert {each.observed_generation for each in conditions(of).values()} == {1}


def test_since_when_changes_with_the_status_only() -> None:
    """Learners and commit are one progress."""
    of = begun()
    prepare = of.memory[JOB].outstanding
    assert prepare is not None
    of.on_progress(ended(prepare, T0 + MINUTE_MS), view(), T0 + MINUTE_MS)
    assert conditions(of)["Progressing"].last_transition_ms == T0
    assert conditions(of)["Progressing"].reason == "Committing"


def test_an_act_that_waits_is_progress_with_its_reason() -> None:
    """The word of its pending outcome."""
    of = controller()
    of.on_decision(decision(T0, {"map": 4}), view(hosts=cluster(1, 2)), T0)
    assert told(of, "Progressing") == [(True, "NotEnoughParallelUnits")]


def test_a_rescale_that_failed_degrades_the_job() -> None:
    """Until one has not failed; the job itself is available all the time."""
    of = begun()
    prepare = of.memory[JOB].outstanding
    assert prepare is not None
    of.on_progress(ended(prepare, T0 + MINUTE_MS, "failed", "STALE_GENERATION"), view(), T0 + MINUTE_MS)
    assert told(of, "Degraded", "Available", "Progressing") == [(True, "RescaleFailed"), (True, "Running"), (False, "Settled")]


def test_a_job_without_units_is_not_available() -> None:
    """It waits for units, which shows in two conditions."""
    of, bare = controller(), without_units(job())
    of.on_tick(view(bare, hosts=cluster(0)), T0)
    assert told(of, "Available", "Degraded") == [(False, "WaitingForUnits"), (True, "WaitingForUnits")]


def test_a_host_that_will_be_removed_is_drained() -> None:
    """As long as the job has units on it; the message names it."""
    of = controller()
    of.on_decision(decision(T0), view(), T0)
    of.on_tick(view(hosts=cluster(3, 4, h1="removed_soon")), T0 + MINUTE_MS)
    assert told(of, "Draining") == [(True, "HostsLeaving")]
    assert "h1" in conditions(of)["Draining"].message


def test_conditions_survive_a_restart() -> None:
    """They are part of what is written down, with since when."""
    of = controller()
    effects = of.on_decision(decision(T0), view(), T0)
    heir = resumed([effects])
    assert heir.memory[JOB].conditions == of.memory[JOB].conditions
    assert heir.on_tick(view(), T0 + MINUTE_MS).is_empty


def test_a_job_whose_topology_is_gone_keeps_its_last_conditions() -> None:
    """Nothing is known that could change them."""
    of = controller()
    of.on_decision(decision(T0), view(), T0)
    before = of.memory[JOB].conditions
    jobs: dict[str, JobTopology] = {}
    seen = view()
    of.on_tick(type(seen)(seen.cluster, jobs, seen.settings), T0 + MINUTE_MS)
    assert of.memory[JOB].conditions == before
