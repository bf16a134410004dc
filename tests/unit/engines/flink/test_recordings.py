"""The recorded answers of three versions, read by the client."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from surescale.contracts.topology import slots_needed
from surescale.engines.flink.answers import known
from surescale.engines.flink.client import FlinkClient
from surescale.engines.flink.directory import JobDirectory
from surescale.engines.flink.errors import FlinkRefused, NoSuchPath, NotAdaptive, NotFound
from surescale.engines.flink.graph import checkpointing_of, runs, state_of, tasks_of
from surescale.engines.flink.identity import attempt_of
from surescale.engines.flink.requirements import refusal_of_job, wanted
from surescale.engines.flink.rescales import interruption_of, last_interruption
from tests.support.recorded_flink import VERSIONS, Exchanges, Moment, recorded, recorded_job, replayed
from tests.support.stub_server import StubServer

ORDERS, LEGACY = "Orders v17", "team a/legacy job"


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each recorded version."""
    return str(request.param)


@contextmanager
def at(version: str, moment: Moment) -> Iterator[tuple[FlinkClient, Exchanges, StubServer]]:
    """A client of a recorded moment."""
    exchanges = recorded(version, moment)
    with replayed(exchanges) as server:
        client = FlinkClient(server.url)
        yield client, exchanges, server
        client.close()


def test_the_graph_is_read_with_its_edges_and_ties(version: str) -> None:
    """Every ship strategy, the forward edge as a tie, two sharing groups, key groups, requirements."""
    with at(version, "running") as (client, exchanges, _):
        job = recorded_job(exchanges, ORDERS)
        detail = client.job(job)
        tasks = tasks_of(detail, client.requirements(job))
    by_label = {task.label.partition(":")[0]: task for task in tasks}
    names = {task.task: label for label, task in by_label.items()}
    edges = {label: [(names[each.task], each.ship) for each in task.inputs] for label, task in by_label.items()}
    assert edges == {
        "Source": [],
        "parse": [("Source", "rebalance")],
        "count": [("parse", "hash")],
        "format": [("count", "forward")],
        "sink": [("count", "broadcast")],
    }
    assert {label for label, task in by_label.items() if task.tied} == {"count", "format"}
    assert by_label["count"].tied == by_label["format"].tied
    assert by_label["format"].sharing_group != by_label["count"].sharing_group
    assert {task.sharing_group for label, task in by_label.items() if label != "format"} == {by_label["count"].sharing_group}
    assert {(task.parallelism, task.required, task.max_parallelism, task.scalable) for task in tasks} == {(1, 1, 64, True)}
    assert slots_needed(tasks) == 2
    assert runs(detail)
    assert attempt_of(detail) == detail.timestamps["CREATED"] > 10**12


def test_a_label_names_the_job_and_two_of_one_name_are_told_apart(version: str) -> None:
    """The slash in their name is replaced, and each says why it may only be observed."""
    with at(version, "running") as (client, _, server):
        directory = JobDirectory(client, "prod")
        found = sorted(directory.live().values(), key=lambda each: each.job)
        configs = {asked.path for asked in server.asked if asked.path.endswith("/config")}
        assert len(configs) == 3
        before = len(server.asked)
        assert sorted(directory.live().values(), key=lambda each: each.job) == found
        assert [asked.path for asked in server.asked[before:]] == ["/jobs/overview"], "what is certain is not asked again"
    assert [each.job.partition("~")[0] for each in found] == ["prod/orders", "prod/team a_legacy job", "prod/team a_legacy job"]
    assert dict(found[0].labels) == {"surescale.job": "orders", "surescale.mode": "advise"}
    assert found[0].engine_name == ORDERS
    assert [bool(each.ambiguous) for each in found] == [False, True, True]


def test_busy_time_that_is_not_a_number_is_unknown(version: str) -> None:
    """Of a legacy source; its idle time is a number all the same. Other vertices have both."""
    with at(version, "running") as (client, exchanges, _):
        job = recorded_job(exchanges, LEGACY)
        source, work = (client.vertex(job, vertex.id).subtasks[0].metrics for vertex in client.job(job).vertices)
    assert source.accumulated_busy_time == "NaN"
    assert known(source.accumulated_busy_time) is None
    assert known(source.accumulated_idle_time) is not None
    assert (known(work.accumulated_busy_time) or 0) > 0
    assert (source.is_complete, work.is_complete) == (True, True)
    assert (known(source.read_records), known(source.write_records) is not None) == (0, True)


def test_nobody_has_asked_for_a_fresh_jobs_figures(version: str) -> None:
    """The first answer holds zeros that are none."""
    with at(version, "fresh") as (client, exchanges, _):
        detail = client.job(recorded_job(exchanges, ORDERS))
    assert [vertex.metrics.is_complete for vertex in detail.vertices] == [False] * 5
    assert {known(vertex.metrics.write_records) for vertex in detail.vertices} == {0}


def test_a_job_that_waits_for_slots_keeps_what_it_ran(version: str) -> None:
    """It is created, has no execution graph, and shows a parallelism that does not run."""
    with at(version, "waiting") as (client, exchanges, _):
        job = recorded_job(exchanges, "late")
        detail, requirements = client.job(job), client.requirements(job)
    assert (state_of(detail.state), runs(detail), attempt_of(detail)) == ("created", False, None)
    last = dict.fromkeys(requirements, 2)
    assert {(task.parallelism, task.required, task.state) for task in tasks_of(detail, requirements, last=last)} == {
        (2, 3, "starting")
    }


def test_checkpoints_are_read_or_known_to_be_off(version: str) -> None:
    """A job without any answers with the largest interval there is, a batch job with status 404."""
    with at(version, "running") as (client, exchanges, _):
        orders, legacy = recorded_job(exchanges, ORDERS), recorded_job(exchanges, LEGACY)
        taken = checkpointing_of(client.checkpoint_config(orders), client.checkpoints(orders))
        none = checkpointing_of(client.checkpoint_config(legacy), client.checkpoints(legacy))
        found = refusal_of_job(client.job(legacy), client.checkpoint_config(legacy), client.checkpoints(legacy))
    assert (taken.interval_ms, taken.exactly_once, taken.unaligned) == (10_000, True, False)
    assert (taken.last_completed_ms or 0) > 10**12
    assert none.interval_ms is None
    assert found is not None
    assert found.code == "NO_CHECKPOINTS"
    with at(version, "batch") as (client, exchanges, _):
        job = recorded_job(exchanges, "nightly")
        assert checkpointing_of(client.checkpoint_config(job), client.checkpoints(job)).interval_ms is None


@pytest.mark.parametrize(("moment", "name"), [("default-scheduler", "orders"), ("batch", "nightly")])
def test_another_scheduler_refuses(version: str, moment: Moment, name: str) -> None:
    """With status 500, which is a refusal and no absence; its tasks are not scalable and its rescales unknown."""
    with at(version, moment) as (client, exchanges, _):
        job = recorded_job(exchanges, name)
        detail = client.job(job)
        with pytest.raises(NotAdaptive, match="does not support changing the parallelism"):
            client.requirements(job)
        assert client.rescales(job) == ()
        found = refusal_of_job(detail, client.checkpoint_config(job), client.checkpoints(job))
    assert {task.scalable for task in tasks_of(detail)} == {False}
    if moment == "batch":
        assert found is not None
        assert found.code == "BATCH_JOB"


def test_what_flink_does_not_take_is_refused_with_its_own_sentence(version: str) -> None:
    """Too many subtasks, and a part of the map."""
    answers = recorded(version, "running")
    job = recorded_job(answers, ORDERS)
    path = f"PUT /jobs/{job}/resource-requirements"
    for variant, said in (("too-many", "exceeds its maximum parallelism 64"), ("incomplete", "missing job vertex")):
        with replayed(answers | {path: answers[f"{path}?{variant}"]}) as server:
            client = FlinkClient(server.url)
            with pytest.raises(FlinkRefused, match=said) as refused:
                client.require(job, client.requirements(job))
            client.close()
        assert "\n" not in str(refused.value)


def test_an_unknown_job_is_not_found_whatever_the_status(version: str) -> None:
    """Some paths answer 404, the requirements 500; an unknown path is something else."""
    nobody = "0" * 32
    with at(version, "running") as (client, _, _):
        for call in (client.job, client.requirements, client.checkpoint_config):
            with pytest.raises(NotFound) as problem:
                call(nobody)
            assert type(problem.value) is NotFound
        with pytest.raises(NoSuchPath):
            client._get("/nothing", dict)


def test_a_rescale_changes_the_requirement_the_parallelism_and_the_attempt(version: str) -> None:
    """All subtasks start over, from a checkpoint that was requested; Flink's times say how long the job stood still."""
    with at(version, "running") as (client, exchanges, _):
        before = client.job(recorded_job(exchanges, ORDERS))
    with at(version, "rescaled") as (client, exchanges, _):
        job = recorded_job(exchanges, ORDERS)
        detail, requirements = client.job(job), client.requirements(job)
        parallelism = {task.label: task.parallelism for task in tasks_of(detail, requirements)}
        checkpoints = client.checkpoints(job)
        rescales = client.rescales(job)
        newest = client.rescale(job, rescales[0].rescale_uuid) if rescales else None
    assert parallelism["parse"] == 3
    assert sorted(wanted(requirements).values()) == [1, 1, 1, 1, 3]
    assert (attempt_of(detail) or 0) > (attempt_of(before) or 0)
    assert checkpoints.counts.restored == 1
    assert bool(rescales) == version.startswith("2.3")
    seen, told = last_interruption(detail, checkpoints), interruption_of(newest) if newest is not None else None
    assert seen is not None
    assert 0 < seen.running_at_ms - seen.stopped_at_ms < 10_000
    if newest is not None:
        assert (newest.trigger_cause, len(rescales)) == ("UPDATE_REQUIREMENT", 2)
        assert told is not None
        # What is worked out from Flink's times is close to its own account.
        assert abs(told.stopped_at_ms - seen.stopped_at_ms) < 500
        assert abs(told.running_at_ms - seen.running_at_ms) < 500


def test_the_cluster_is_read(version: str) -> None:
    """Version, slots, TaskManagers, configuration."""
    with at(version, "running") as (client, _, _):
        overview, (manager,) = client.overview(), client.task_managers()
        assert (overview.flink_version, overview.slots_total, overview.slots_available) == (version, 4, 0)
        assert (manager.slots_number, manager.free_slots) == (4, 0)
        assert client.configuration()["jobmanager.scheduler"] == "adaptive"


def test_metrics_are_read_with_their_aggregates(version: str) -> None:
    """Pools of buffers have one name in all versions."""
    name = "Shuffle.Netty.Input.Buffers.inPoolUsage"
    with at(version, "running") as (client, exchanges, _):
        job = recorded_job(exchanges, ORDERS)
        vertex = next(vertex.id for vertex in client.job(job).vertices if vertex.name == "parse")
        names = client.metric_names(job, vertex)
        (path,) = (asked for asked in exchanges if f"/{vertex}/subtasks/metrics?" in asked and job in asked)
        asked_for = tuple(path.partition("get=")[2].partition("&")[0].split(","))
        found = client.metrics(job, vertex, asked_for)
    assert name in names
    assert isinstance(found[name].max, float)
