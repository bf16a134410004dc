"""Conditions and generations of the assignment's status."""

from __future__ import annotations

import pytest

from rescaler.learners import assign
from rescaler.learners_conditions import ConditionType, Status, check_status_write, status_of
from rescaler.learners_model import Host, HostState, Limits, Task
from rescaler.refusals import Refused

RUNNING = [Host("a"), Host("b")]
SETTLED = [Task("t", "a"), Task("u", "b")]


def status(hosts: list[Host], tasks: list[Task], observed: int = 1, lagging: int = 0, num_standbys: int = 0) -> Status:
    """The status after one round for generation ``observed`` of 1."""
    decided = assign(hosts, tasks, balancing_factor=0, limits=Limits(num_standbys=num_standbys))
    return status_of(decided, generation=1, observed_generation=observed, lagging_actives=lagging)


def true_conditions(found: Status) -> list[str]:
    """The conditions that hold."""
    return [condition.type.value for condition in found.conditions if condition.status]


def test_a_settled_job_is_balanced_and_nothing_else() -> None:
    """All four conditions are always reported."""
    found = status(RUNNING, SETTLED)
    assert [condition.type for condition in found.conditions] == list(ConditionType)
    assert true_conditions(found) == ["Balanced"]


def test_an_older_generation_is_never_balanced() -> None:
    """What was computed for another wish says nothing about this one."""
    assert true_conditions(status(RUNNING, SETTLED, observed=0)) == []


def test_learners_in_flight_are_progress() -> None:
    """They ask for another round soon."""
    found = status(RUNNING, [Task("t", "a"), Task("u", "a")])
    assert true_conditions(found) == ["Balanced", "Progressing"]
    assert found.wants_another_round


def test_a_leaving_owner_is_draining() -> None:
    """As long as a leaving host owns a task."""
    found = status([Host("a", 1, HostState.LEAVING), Host("b")], [Task("t", "a")])
    assert "Draining" in true_conditions(found)


@pytest.mark.parametrize(
    ("tasks", "lagging", "num_standbys"),
    [(SETTLED, 0, 2), (SETTLED, 1, 0), ([Task("t", "a"), Task("u", "dead")], 0, 0)],
)
def test_degraded(tasks: list[Task], lagging: int, num_standbys: int) -> None:
    """Too few standbys, an owner known to restore, and one that this round placed without state."""
    assert "Degraded" in true_conditions(status(RUNNING, tasks, lagging=lagging, num_standbys=num_standbys))


def test_a_status_of_an_older_generation_is_not_written() -> None:
    """The write carries the generation it was computed for."""
    check_status_write(computed_for=3, generation=3)
    with pytest.raises(Refused, match="STALE_GENERATION"):
        check_status_write(computed_for=2, generation=3)
