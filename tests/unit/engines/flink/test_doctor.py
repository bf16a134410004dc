"""What the doctor says of a Flink cluster."""

import json
from collections.abc import Sequence

import pytest

from surescale.engines.ports.findings import Finding
from surescale.engines.registry import checks_of
from surescale.engines.settings import SourceSettings
from tests.support.fake_jobmanager import FakeJobManager
from tests.support.stub_server import StubRequest, StubResponse, answering


def _gone() -> str:
    with answering(lambda asked: StubResponse()) as server:
        return server.url


def _found(url: str) -> list[Finding]:
    return list(checks_of(SourceSettings(engine="flink", engine_url=url)))


def test_a_cluster_is_named_with_version_and_slots() -> None:
    """Nothing else is worth a line."""
    with FakeJobManager().serving() as server:
        assert _found(server.url) == [Finding("ok", "engine", f"Flink 2.3.0 at {server.url}, 8 of 8 slots free")]


def test_of_several_addresses_each_must_answer() -> None:
    """With one JobManager away the cluster is well, and its next failure would not be survived."""
    with FakeJobManager().serving() as server:
        gone = _gone()
        fine, away = _found(f"{gone},{server.url}")
    assert (fine.verdict, fine.detail) == ("ok", f"Flink 2.3.0 at {server.url}, 8 of 8 slots free")
    assert (away.verdict, away.detail) == ("warning", f"GET {gone}/overview: Connection refused")
    assert "SURESCALE_ENGINE_URL" in away.remedy


def test_where_none_answers_that_is_the_problem() -> None:
    """One line for each."""
    first, second = _gone(), _gone()
    found = _found(f"{first},{second}")
    assert [(each.verdict, each.detail) for each in found] == [
        ("problem", f"GET {url}/overview: Connection refused") for url in (first, second)
    ]


def test_a_full_cluster_is_one_in_which_nothing_can_grow() -> None:
    """Unless TaskManagers come by themselves."""
    manager = FakeJobManager(slots=4)
    manager.submit("orders", {"source": 4})
    with manager.serving() as server:
        full, _ = _found(server.url)
        manager.configuration["kubernetes.cluster-id"] = "flink"
        growing, _ = _found(server.url)
    assert (full.verdict, growing.verdict) == ("warning", "ok")
    assert full.detail.endswith("0 of 4 slots free, so no job can grow")
    assert "TaskManagers" in full.remedy


@pytest.mark.parametrize(
    ("configuration", "spread"),
    [
        ({"taskmanager.load-balance.mode": "SLOTS"}, "taskmanager.load-balance.mode is SLOTS"),
        ({"taskmanager.load-balance.mode": "tasks"}, "taskmanager.load-balance.mode is TASKS"),
        ({"cluster.evenly-spread-out-slots": "true"}, "cluster.evenly-spread-out-slots is true"),
        ({"jobmanager.adaptive-scheduler.prefer-minimal-taskmanagers": "false"}, "prefer-minimal-taskmanagers is false"),
        ({"cluster.evenly-spread-out-slots": "true", "taskmanager.load-balance.mode": "NONE"}, ""),
        ({}, ""),
    ],
)
def test_slots_that_are_spread_free_no_machine_and_it_is_said(configuration: dict[str, str], spread: str) -> None:
    """With what to set; the newer key wins over the older one."""
    manager = FakeJobManager()
    manager.configuration.update(configuration)
    with manager.serving() as server:
        found = [each for each in _found(server.url) if "save no money" in each.detail]
    assert [(each.verdict, spread in each.detail) for each in found] == ([("warning", True)] if spread else [])


def _of_jobs(manager: FakeJobManager, failed_at: Sequence[int] = ()) -> list[Finding]:
    """Return what is said of each job; one of them failed at these times."""
    entries = [{"timestamp": at_ms, "stacktrace": "x"} for at_ms in failed_at]
    answer = json.dumps({"exceptionHistory": {"entries": entries}}).encode()

    def fails(asked: StubRequest) -> StubResponse:
        if asked.path.startswith(f"/jobs/{manager.jobs[0].jid}/exceptions"):
            return StubResponse(200, answer)
        return manager._answer(asked)

    with answering(fails) as server:
        return [each for each in _found(server.url) if each.subject != "engine"]


def test_each_job_is_told_with_what_would_keep_it_from_being_rescaled() -> None:
    """With the remedy; the twins of a name, too."""
    manager = FakeJobManager(slots=20)
    manager.submit("fine", {"source": 2, "sink": 2})
    manager.submit("seldom", {"source": 1}, checkpoint_interval_ms=0)
    manager.submit("nightly", {"source": 1}, job_type="BATCH")
    for _ in range(2):
        manager.submit_beside("twin", {"source": 1})
    fine, nightly, seldom, *twins = _of_jobs(manager)
    assert fine == Finding("ok", "sim/fine", "runs with 4 subtasks of 2 vertices, and can be rescaled")
    assert (nightly.subject, "BATCH_JOB" in nightly.detail) == ("sim/nightly", True)
    assert (seldom.verdict, seldom.subject, seldom.remedy) == ("warning", "sim/seldom", "set execution.checkpointing.interval")
    assert "NO_CHECKPOINTS" in seldom.detail
    assert [(each.verdict, each.detail) for each in twins] == [("warning", "2 jobs are named 'twin'")] * 2
    assert all("surescale.job" in each.remedy for each in twins)


def test_a_job_that_restarts_for_ever_is_told() -> None:
    """By the failures of the last ten minutes."""
    manager = FakeJobManager()
    manager.submit("orders", {"source": 1})
    lately = [manager.now_ms - ago_ms for ago_ms in (1_000, 60_000, 599_000)]
    (loops,) = _of_jobs(manager, lately)
    (runs,) = _of_jobs(manager, [*lately[:2], manager.now_ms - 601_000])
    assert "failed 3 times within ten minutes" in loops.detail
    assert runs.verdict == "ok"


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (StubResponse(401, b""), "set SURESCALE_ENGINE_TOKEN_FILE, or"),
        (StubResponse(200, b"<html>", headers={"Content-Type": "text/html"}), "set SURESCALE_ENGINE_URL to the address"),
        (StubResponse(503, b'{"errors": ["no leader"]}'), "wait until it answers"),
    ],
)
def test_each_problem_has_its_own_remedy(answer: StubResponse, remedy: str) -> None:
    """Which is not said twice."""
    with answering(lambda asked: answer) as server:
        (problem,) = _found(server.url)
    assert problem.verdict == "problem"
    assert remedy in problem.remedy
    assert problem.remedy not in problem.detail


def test_flinks_own_autoscaler_is_a_warning() -> None:
    """While its jobs are only observed, that is fine."""
    manager = FakeJobManager()
    manager.configuration["kubernetes.operator.job.autoscaler.enabled"] = "True"
    with manager.serving() as server:
        _, warning = _found(server.url)
    assert warning.verdict == "warning"
    assert "(kubernetes.operator.job.autoscaler.enabled)" in warning.detail


def test_a_scheduler_that_cannot_rescale_is_a_warning() -> None:
    """Its jobs can be watched."""
    manager = FakeJobManager()
    manager.configuration["jobmanager.scheduler"] = "default"
    with manager.serving() as server:
        _, warning = _found(server.url)
    assert warning.verdict == "warning"
    assert "jobmanager.scheduler: adaptive" in warning.remedy
