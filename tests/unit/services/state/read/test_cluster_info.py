"""GetClusterInfo: everything a cluster's scheduler needs to know, from topologies and the rescaler's mappings."""

import msgspec
import pytest
from msgspec import UNSET
from rich.console import Console

from surescale.contracts.messages import ClusterTopology, Host, JobTopology, TaskSpec
from surescale.rescaler.cli.reschedule import run as reschedule
from surescale.services.state.read.fleet import JobUnits, cluster_info, fragment_id
from surescale.services.tools.cluster.command import print_info, ranges

CLUSTER = ClusterTopology(
    cluster="sim",
    version=1,
    at_ms=0,
    hosts=(Host(host="b", units=(4, 5, 6, 7), state="removed_soon"), Host(host="a", units=(0, 1, 2, 3))),
)


def job(name: str = "sim/clicks", *, units: tuple[int, ...] = (0, 1, 4), **changes: object) -> JobUnits:
    """Return a job of a source and a stateful task on these units."""
    tasks = (
        TaskSpec(task="source", scalable=False, units=units[:1]),
        TaskSpec(task="count", upstream=("source",), parallelism=max(1, len(units)), stateful=True, units=units),
    )
    return JobUnits(JobTopology(**({"job": name, "version": 1, "at_ms": 0, "tasks": tasks} | changes)), {})


def test_a_worker_is_known_by_its_lowest_unit() -> None:
    """Unit ids are never reused, so a host that comes back is a new worker, and one that stays keeps its id."""
    workers = cluster_info(CLUSTER, [], 7).workers
    assert [(worker.id, worker.host, worker.state) for worker in workers] == [
        (0, "a", "running"),
        (4, "b", "removed_soon"),
    ]


def test_a_fragment_keeps_its_id_whatever_else_runs() -> None:
    """Another job beside it changes no id."""
    alone = cluster_info(CLUSTER, [job()], 0).fragments
    beside = cluster_info(CLUSTER, [job("sim/a", units=(2,)), job()], 0).fragments
    assert tuple(fragment for fragment in beside if fragment.job == "sim/clicks") == alone
    assert fragment_id("sim/a", "count") != fragment_id("sim/clicks", "count")


def test_the_mapping_is_the_rescalers_where_it_fits() -> None:
    """The rescaler's mapping counts as long as it names the task's units; otherwise it is blocks of equal size."""
    remembered = tuple([0] * 100 + [1] * 100 + [4] * 56)
    seen = job()
    known = JobUnits(seen.topology, {"count": remembered})
    stale = JobUnits(seen.topology, {"count": (9,) * 256})
    assert cluster_info(CLUSTER, [known], 0).fragments[1].mapping == remembered
    uniform = cluster_info(CLUSTER, [stale], 0).fragments[1].mapping
    assert isinstance(uniform, tuple)
    assert [uniform.count(unit) for unit in (0, 1, 4)] == [86, 85, 85]


def test_a_fixed_task_is_single_and_has_no_mapping() -> None:
    """Source and sink run once and have no vnodes."""
    single = cluster_info(CLUSTER, [job()], 0).fragments[0]
    assert (single.distribution, single.mapping) == ("single", UNSET)


@pytest.mark.parametrize("state", ["waiting", "finished", "failed"])
def test_jobs_that_hold_no_units_stand_apart(state: str) -> None:
    """A job that waits has no fragments yet; one that has ended has none left."""
    seen = job(units=() if state == "waiting" else (0,), state=state)
    found = cluster_info(CLUSTER, [seen], 0)
    assert (found.fragments, found.jobs_without_units) == ((), ("sim/clicks",))


def test_units_that_no_host_offers_are_named() -> None:
    """Between a host's death and the job's restart the job still names them."""
    assert cluster_info(CLUSTER, [job(units=(0, 9))], 0).unknown_units == (9,)


def test_tasks_of_other_vnodes_have_no_mapping() -> None:
    """The document has one number of vnodes: that of most tasks."""
    seen = job()
    few = msgspec.structs.replace(seen.topology.tasks[1], task="few", vnodes=8)
    tasks = (*seen.topology.tasks, few)
    found = cluster_info(CLUSTER, [JobUnits(msgspec.structs.replace(seen.topology, tasks=tasks), {})], 0)
    assert found.vnodes == 256
    assert [fragment.mapping is not UNSET for fragment in found.fragments] == [False, True, False]


def test_an_absurd_number_of_vnodes_hides_no_other_job() -> None:
    """A hundred tasks of the most vnodes would be a mapping of millions; the job is shown without, the other with its own."""
    seen = job("sim/absurd", units=(2, 3))
    most = [msgspec.structs.replace(seen.topology.tasks[1], task=f"t{number}", vnodes=65_536) for number in range(100)]
    absurd = JobUnits(msgspec.structs.replace(seen.topology, tasks=tuple(most)), {})
    small = job("sim/small")
    wide = msgspec.structs.replace(small.topology.tasks[1], vnodes=65_536)
    other = JobUnits(msgspec.structs.replace(small.topology, tasks=(wide,)), {})
    shown = {fragment.job: fragment.mapping for fragment in cluster_info(CLUSTER, [absurd, other], 0).fragments}
    assert shown["sim/absurd"] is UNSET
    assert shown["sim/small"] is not UNSET
    assert len(shown["sim/small"]) == 65_536


def test_the_planner_takes_the_document_as_it_is() -> None:
    """The answer of GetClusterInfo is the input of RescheduleFragment."""
    found = cluster_info(CLUSTER, [job(), job("sim/other", units=(2, 3))], 7)
    wanted = str(fragment_id("sim/clicks", "count"))
    planned = reschedule(
        {
            "cluster": msgspec.json.decode(msgspec.json.encode(found)),
            "expected_generation": 7,
            "desired": {wanted: {"parallelism": 3}},
        }
    )
    changed = planned["request"]["reschedules"][wanted]
    assert list(changed["removed_parallel_units"]) == [4]
    assert len(changed["added_parallel_units"]) == 1


def test_numbers_are_shown_as_ranges() -> None:
    """Neighbours are joined."""
    assert [ranges(units) for units in ([], [4], [7, 1, 2, 0], [1, 3])] == ["", "4", "0-2,7", "1,3"]


def test_the_matrix_has_a_row_a_fragment_and_a_column_a_worker(capsys: pytest.CaptureFixture[str]) -> None:
    """Each cell names the units that the fragment occupies there."""
    print_info(cluster_info(CLUSTER, [job(), job("sim/idle", units=(), state="waiting")], 7))
    told = capsys.readouterr().out
    row = next(line for line in told.splitlines() if "count (stateful)" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["count (stateful)", "3", "0-1", "4"]
    assert "generation 7, 2 workers, 3 of 8 units in use" in told
    assert "without units: sim/idle" in told


def test_a_matrix_too_wide_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """With many workers the rows are repeated for the next ones; no line is longer than the terminal."""
    hosts = tuple(Host(host=f"host-{at:02d}", units=(at,)) for at in range(12))
    cluster = ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=hosts)
    print_info(cluster_info(cluster, [job(units=tuple(range(12)))], 0), Console(width=60, highlight=False))
    lines = capsys.readouterr().out.splitlines()
    matrix = [line for line in lines if "count" in line]
    assert len(matrix) == 4
    assert max(len(line) for line in lines[1:]) <= 60
