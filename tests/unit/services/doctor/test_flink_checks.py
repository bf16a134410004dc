"""What the doctor says of a Flink cluster."""

from contracts.settings import PipelineSettings
from services.doctor.checks import engine
from services.doctor.findings import Finding
from tests.support.fake_jobmanager import FakeJobManager
from tests.support.stub_server import StubResponse, answering


def _gone() -> str:
    with answering(lambda asked: StubResponse()) as server:
        return server.url


def _found(url: str) -> list[Finding]:
    return list(engine(PipelineSettings(engine="flink", engine_url=url)))


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
