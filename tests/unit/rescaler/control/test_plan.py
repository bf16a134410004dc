"""Which units a job gets, keeps and gives up."""

from collections import Counter

import msgspec
import pytest

from benchmarks.reschedule import least_moved
from surescale.contracts.messages import TaskSpec
from surescale.rescaler.control.settings import PlacingSettings
from surescale.rescaler.control.units import plan_job, usable_units
from surescale.rescaler.refusals import Refused
from tests.support.controller_world import cluster, job

SPREAD = PlacingSettings("spread")
WANTED = {"source": 1, "map": 2, "join": 2, "sink": 1}


def wanted(**changes: int) -> dict[str, int]:
    """Parallelism of every task, changed as asked."""
    return WANTED | changes


def test_new_units_are_spread_over_the_hosts() -> None:
    """A growing task takes free units on the host where the job has fewest."""
    plan = plan_job(job(units=(0, 4)), wanted(map=4), cluster().hosts, taken=(), mappings={}, placing=SPREAD)
    assert [(change.task, change.added_units) for change in plan.changes] == [("map", (1, 8))]


def test_tasks_share_the_units_of_their_job() -> None:
    """A narrow task grows within the units that the job has already."""
    topology = job(units=(0, 4))
    tasks = (*topology.tasks[:2], TaskSpec(task="join", upstream=("map",), parallelism=1, units=(0,)), topology.tasks[3])
    plan = plan_job(
        msgspec.structs.replace(topology, tasks=tasks), wanted(), cluster().hosts, taken=(), mappings={}, placing=SPREAD
    )
    assert [(change.task, change.units) for change in plan.changes] == [("join", (0, 4))]


def test_a_job_that_gets_narrower_gives_units_back() -> None:
    """A job keeps as many units as its widest task needs; what sits on the others moves."""
    plan = plan_job(job(units=(0, 1, 4)), wanted(map=2, join=1), cluster().hosts, taken=(), mappings={}, placing=SPREAD)
    left = {unit for change in plan.changes for unit in change.units}
    assert len(left) == 2
    assert all(change.removed_units for change in plan.changes)


def test_subtasks_that_stay_keep_their_index() -> None:
    """Units that stay come first, in their old order; new ones follow."""
    plan = plan_job(job(units=(4, 0)), wanted(map=3), cluster().hosts, taken=(), mappings={}, placing=SPREAD)
    assert plan.changes[0].units == (4, 0, 8)


def test_a_host_that_goes_soon_is_left() -> None:
    """Units of a host that is removed soon are given up and nothing new is placed there."""
    plan = plan_job(job(units=(0, 4)), wanted(map=3), cluster(h1="removed_soon").hosts, taken=(), mappings={}, placing=SPREAD)
    assert [change.removed_units for change in plan.changes if change.task in ("map", "join")] == [(4,), (4,)]
    assert not {unit for change in plan.changes for unit in change.units} & {4, 5, 6, 7}


def test_units_of_a_dead_host_are_gone_without_a_word() -> None:
    """A unit that no host offers any more is replaced but not named as removed: no engine would know it."""
    plan = plan_job(job(units=(0, 99)), wanted(map=2), cluster().hosts, taken=(), mappings={}, placing=SPREAD)
    assert {change.task: change.removed_units for change in plan.changes} == {"map": (), "join": ()}
    assert all(99 not in change.units for change in plan.changes)


def test_units_of_other_jobs_are_not_usable() -> None:
    """Units taken by others are never offered; without enough of the rest the plan is refused."""
    assert usable_units(cluster(2, 2).hosts, {0, 3}) == {"h0": (1,), "h1": (2,)}
    with pytest.raises(Refused, match="NOT_ENOUGH_PARALLEL_UNITS"):
        plan_job(job(units=(0,)), wanted(map=3), cluster(1, 3).hosts, taken={2}, mappings={}, placing=SPREAD)


def test_a_topology_with_a_unit_twice_is_refused() -> None:
    """Two subtasks of one task cannot share a unit."""
    with pytest.raises(Refused, match="CLUSTER_INCONSISTENT"):
        plan_job(job(units=(0, 0)), wanted(map=3), cluster().hosts, taken=(), mappings={}, placing=SPREAD)


def test_the_fewest_vnodes_move() -> None:
    """From two to three units 85 of 256 vnodes move, and the next plan starts from that mapping."""
    plan = plan_job(job(units=(0, 4)), wanted(join=3), cluster().hosts, taken=(), mappings={}, placing=SPREAD)
    (change,) = plan.changes
    assert change.vnodes_moved == 85
    assert sorted(Counter(plan.mappings["join"]).values()) == [85, 85, 86]
    grown = job(units=change.units)
    four = plan_job(grown, wanted(map=3, join=4), cluster().hosts, taken=(), mappings=plan.mappings, placing=SPREAD)
    assert four.changes[0].vnodes_moved == least_moved(plan.mappings["join"], four.changes[0].units)


def test_a_stateless_task_moves_no_vnodes() -> None:
    """Nothing has to be restored for a task without state."""
    plan = plan_job(job(), wanted(map=4), cluster().hosts, taken=(), mappings={}, placing=SPREAD)
    assert plan.changes[0].vnodes_moved == 0
    assert plan.mappings == {}


def test_a_task_without_units_gets_all_of_them() -> None:
    """The tasks of a job that waits for resources are placed again, spread over the hosts."""
    bare = tuple(msgspec.structs.replace(spec, units=()) for spec in job().tasks)
    plan = plan_job(
        msgspec.structs.replace(job(), tasks=bare), wanted(map=3), cluster().hosts, taken=(), mappings={}, placing=SPREAD
    )
    assert {change.task: change.units for change in plan.changes} == {"map": (0, 4, 8), "join": (0, 4)}


def test_tasks_of_fixed_parallelism_are_left_to_the_engine() -> None:
    """A command names only tasks that can be scaled, also when the unit of the source is given up."""
    topology = job(units=(0, 1, 4))
    source = msgspec.structs.replace(topology.tasks[0], units=(1,))
    plan = plan_job(
        msgspec.structs.replace(topology, tasks=(source, *topology.tasks[1:])),
        wanted(map=1, join=1),
        cluster().hosts,
        taken=(),
        mappings={},
        placing=SPREAD,
    )
    assert [(change.task, change.units) for change in plan.changes] == [("map", (4,)), ("join", (4,))]


def test_a_narrower_task_leaves_the_host_that_placement_empties() -> None:
    """When the job gives up a whole host, every task leaves it, also one that keeps a unit fewer than it had elsewhere."""
    priced = tuple(msgspec.structs.replace(host, price_per_s=1.0) for host in cluster().hosts)
    plan = plan_job(job(units=(0, 1, 4)), wanted(map=2, join=1), priced, taken=(), mappings={}, placing=PlacingSettings("cetsa"))
    assert plan.placement.hosts == ("h0",)
    assert [(change.task, change.units, change.removed_units) for change in plan.changes] == [
        ("map", (0, 1), (4,)),
        ("join", (0,), (1, 4)),
    ]
