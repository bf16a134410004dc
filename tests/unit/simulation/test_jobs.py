"""Graphs come with source and sink, sizes follow from the workload, and bad files are refused by name."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from surescale.simulation.load.graphs import JobError, JobGraph, job_names, load_graph
from surescale.simulation.load.jobs import load_job, size_job
from tests.unit.simulation.cases import chain, clarknet, graph, sized, workload

HEADER = "job,task,upstream,duration_s\n"
SIZES = {"word-count": 5, "clicks": 11, "payments": 13, "orders": 16, "shop": 46}


def from_file(folder: Path, text: str, name: str = "") -> JobGraph:
    """Return the graph of a CSV file with this text."""
    path = folder / "jobs.csv"
    path.write_text(text)
    return load_graph(f"{path}#{name}" if name else str(path))


def test_shipped_jobs_come_by_size() -> None:
    """Source and sink included."""
    sizes = {name: load_graph(name).size for name in job_names()}
    assert list(sizes.values()) == sorted(sizes.values())
    assert SIZES.items() <= sizes.items()


def test_source_feeds_the_first_tasks_and_sink_ends_the_last() -> None:
    """orders reads three topics and ends in three places."""
    job = load_graph("orders")
    assert (job.tasks[0], job.tasks[-1]) == ("source", "sink")
    assert sum(parents == (0,) for parents in job.upstream) == 3
    assert [job.tasks[end] for end in job.upstream[-1]] == ["to-warehouse", "to-mail", "to-dashboard"]


def test_a_file_says_which_tasks_keep_state(tmp_path: Path) -> None:
    """Where it does not, those with several inputs do."""
    said = "job,task,upstream,duration_s,stateful\nx,a,,1,\nx,b,a,1,yes\nx,c,a b,1,no\nx,d,a b,1,\n"
    assert from_file(tmp_path, said).stateful[1:-1] == (False, True, False, True)
    assert from_file(tmp_path, HEADER + "x,a,,1\nx,b,a,1\nx,c,a b,1\n").stateful[1:-1] == (False, False, True)


def test_drawn_graphs_are_the_same_every_time_and_of_many_sizes() -> None:
    """Whoever asks for a seed gets one graph: 4 to 40 tasks."""
    drawn = [load_graph(f"random-{seed}") for seed in range(60)]
    assert drawn == [load_graph(f"random-{seed}") for seed in range(60)]
    sizes = [graph.size - 2 for graph in drawn]
    assert 4 <= min(sizes) < 8
    assert 30 < max(sizes) <= 40
    assert any(len(parents) > 1 for graph in drawn for parents in graph.upstream[1:-1])
    with pytest.raises(JobError, match="the seed is too large; give one of 0 to 4294967295"):
        load_graph("random-4294967296")


def test_the_heaviest_task_needs_seven_instances_at_peak() -> None:
    """And all together at most 110."""
    load = clarknet()
    for name in SIZES:
        demand = load.percentile(99) * load_job(name, load).service_minutes
        assert demand.max() == pytest.approx(7.0) or demand.sum() == pytest.approx(110.0)
        assert demand.max() <= 7.0 + 1e-9
        assert demand.sum() <= 110.0 + 1e-9


def test_load_parallelism_scales_the_load() -> None:
    """Half the instances, half the service time."""
    load = clarknet()
    full, half = load_job("orders", load), load_job("orders", load, 3.5)
    np.testing.assert_allclose(half.service_minutes, full.service_minutes / 2)


@pytest.mark.parametrize(("name", "start"), [("word-count", 5), ("delivery", 5), ("shop", 4)])
def test_jobs_start_at_five_within_their_total_limit(name: str, start: int) -> None:
    """44 tasks at 5 would pass the limit of 200."""
    job = load_job(name, clarknet())
    assert job.start_parallelism.tolist() == [1, *[start] * (job.size - 2), 1]


def test_configured_parallelism_leaves_a_fifth_at_peak() -> None:
    """ceil(demand / 0.8): demands of 7, 3.5 and 0.7."""
    job = sized(chain(10, 5, 1), load_parallelism=7.0)
    assert job.configured_parallelism.tolist() == [1, 9, 5, 1, 1]


def test_a_job_brings_sizes_within_its_total_limit() -> None:
    """The highest values are lowered to a common cap, but never below one."""
    narrow, tiny = replace(sized(chain(1, 1, 1)), total_limit=14), replace(sized(chain(1, 1)), total_limit=1)
    assert narrow.within_limits(np.array([1, 9, 9, 2, 1])).tolist() == [1, 6, 6, 2, 1]
    assert tiny.within_limits(np.array([1, 3, 3, 1])).tolist() == [1, 1, 1, 1]


def test_the_longest_path_is_the_least_time_in_the_job() -> None:
    """Of two branches the slower one counts."""
    job = sized(graph({"a": (), "b": (), "c": ("a", "b")}, {"a": 1.0, "b": 3.0, "c": 4.0}), load_parallelism=4.0)
    assert job.path_minutes == pytest.approx(0.07)


def test_specs_carry_what_the_engine_announces() -> None:
    """Source and sink cannot be scaled; real tasks carry what their author asked for."""
    specs = sized(chain(1, 2), load_parallelism=4.0).specs()
    assert [(spec.task, spec.scalable, spec.max_parallelism) for spec in specs] == [
        ("source", False, 1),
        ("t1", True, 10),
        ("t2", True, 10),
        ("sink", False, 1),
    ]
    assert [spec.configured_parallelism for spec in specs] == [1, 3, 5, 1]


def test_a_job_of_a_file_is_built(tmp_path: Path) -> None:
    """Rows may come in any order."""
    job = from_file(tmp_path, HEADER + "mine,b,a,2\nmine,a,,1\n")
    assert (job.name, job.tasks, job.upstream) == ("mine", ("source", "b", "a", "sink"), ((), (2,), (0,), (1,)))


def test_one_of_several_jobs_is_chosen_by_name(tmp_path: Path) -> None:
    """FILE#JOB."""
    assert from_file(tmp_path, HEADER + "one,a,,1\ntwo,b,,1\n", "two").tasks[1] == "b"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("job,task,upstream\n", "column duration_s is missing"),
        (HEADER, "the file has no tasks"),
        (
            HEADER + "x,c,b,1\nx,b,a,1\nx,a,b,1\n",
            "job x: row 3, column upstream: the graph has a cycle: 'b' waits for 'a', which waits for 'b'; remove 'a'",
        ),
        (HEADER + "x,a,a,1\n", "row 2, column upstream: the graph has a cycle: 'a' waits for 'a'; remove 'a' from the cell"),
        (
            HEADER + "".join(f"x,t{at},t{(at + 1) % 9},1\n" for at in range(9)),
            "which waits for 3 more, which waits for 't0'; remove 't1'",
        ),
        (HEADER + "x,b,,1\nx,a,nobody,1\n", "job x: row 3, column upstream: task 'a' waits for 'nobody'"),
        (HEADER + "x,a,,1\nx,a,,1\n", "row 3, column task: task 'a' is listed twice; remove one row"),
        (HEADER + "x,a,,\n", "row 2, column duration_s: '' is not a number"),
        (HEADER + "x,a,,-1\n", "row 2, column duration_s: -1 is not a duration; give seconds, 0 or more"),
        (HEADER + "x,a,,nan\n", "row 2, column duration_s: nan is not a duration"),
        (HEADER + "x,a,,1e-320\n", "row 2, column duration_s: 1e-320 is out of range; give 1e-09 to 1e+09 seconds, or 0"),
        (HEADER + "x,a,,1\nx,b,a,1e308\n", "row 3, column duration_s: 1e308 is out of range"),
        (
            HEADER + "".join(f"x,t{number},,1\n" for number in range(2_001)),
            "row 2002, column task: task 2001 of 2001, 2000 are allowed",
        ),
        (HEADER + "x,a,,0\n", "job x: column duration_s: all durations are 0 from row 2 on; give some task a duration"),
        (HEADER + "x,a,,1\n\nx,b,a\n", "row 4, column duration_s: the row ends before it; give all cells"),
        (HEADER + "x,a\n", "row 2, column upstream: the row ends before it"),
        (HEADER.replace("\n", ",stateful\n") + "x,a,,1,maybe\n", "row 2, column stateful: 'maybe' is neither yes nor no"),
        (HEADER + "x,source,,1\n", "'source' is empty or a reserved name"),
        (HEADER + "a/b,a,,1\n", "row 2, column job: 'a/b' is empty or contains a slash; give another name"),
        (HEADER + "one,a,,1\ntwo,b,,1\n", "holds 2 jobs; name one as"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """The message names file and job, row and column."""
    with pytest.raises(JobError, match=r"jobs\.csv") as refusal:
        from_file(tmp_path, text)
    assert words in str(refusal.value)


def test_an_unknown_job_of_a_file_is_refused(tmp_path: Path) -> None:
    """With the names it has."""
    with pytest.raises(JobError, match="it has one"):
        from_file(tmp_path, HEADER + "one,a,,1\n", "three")


def test_an_unknown_name_is_refused_with_near_ones() -> None:
    """A letter was left out."""
    with pytest.raises(JobError, match="did you mean orders"):
        load_graph("ordrs")


def test_a_path_that_cannot_be_looked_at_is_refused_as_a_job() -> None:
    """A name too long for the file system."""
    with pytest.raises(JobError, match=r"^job 'aaa.*cannot be read \(file name too long\)"):
        load_graph("a" * 5_000)


def test_a_workload_without_a_peak_is_refused() -> None:
    """One busy minute in a thousand is no load to size a job for; the message says what would do."""
    with pytest.raises(JobError, match=r"99 % of its minutes are empty.*give minutes that have some"):
        load_job("orders", workload([0] * 1000 + [5]))


def test_a_job_can_be_sized_for_a_part_of_the_workload() -> None:
    """P99 of the calibration minutes alone sets the factor."""
    load = workload([100] * 60 + [400] * 60)
    whole, part = load_job("orders", load), size_job(load_graph("orders"), load, minutes=(0, 60))
    assert part.scale_factor == pytest.approx(4 * whole.scale_factor)


@pytest.mark.parametrize("minutes", [(0, 0), (-1, 5), (50, 121), (60, 30)])
def test_calibration_minutes_outside_the_workload_are_refused(minutes: tuple[int, int]) -> None:
    """The message says what would do."""
    with pytest.raises(JobError, match=r"give A:B with 0 <= A < B <= 120"):
        size_job(load_graph("orders"), workload([100] * 120), minutes=minutes)


def test_literal_load_takes_the_durations_at_their_word() -> None:
    """2,000 s are 0.002 minutes a request, whatever the workload."""
    job = size_job(chain(2_000.0), workload([5]), load="literal")
    assert (job.service_minutes[1], job.scale_factor) == (pytest.approx(0.002), 1e-6)


def test_the_slo_is_the_longest_path_of_minutes_a_batch_at_peak_but_at_most_four_fifths_a_stage() -> None:
    """Demands of 0.5 and 5 instances in a chain."""
    assert sized(chain(1.0, 10.0), load_parallelism=5.0).slo_minutes == pytest.approx(0.5 + 0.8)


@pytest.mark.parametrize(("tasks", "limit", "start"), [(30, 200, 5), (60, 200, 3), (100, 200, 2), (150, 300, 2)])
def test_the_total_limit_grows_with_the_real_tasks_and_the_start_fits(tasks: int, limit: int, start: int) -> None:
    """max(200, 2 x real tasks); the start is the largest uniform parallelism up to 5 within it."""
    job = sized(chain(*[1.0] * tasks))
    assert (job.total_limit, job.start_parallelism[1]) == (limit, start)


def test_a_load_of_nothing_is_refused() -> None:
    """load_parallelism must be above 0."""
    with pytest.raises(JobError, match="load_parallelism"):
        load_job("orders", workload([5]), 0.0)
