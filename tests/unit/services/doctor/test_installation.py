"""What the doctor says of packages, Java and the policy: of a whole installation, of one without extras, of an image."""

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from surescale.contracts.settings import PipelineSettings
from surescale.engines.ports.findings import Finding
from surescale.services.doctor import checks
from surescale.services.doctor.checks import policy, programs, seen_from_here

ABSENT = Finding("problem", "engine", "Flink at http://jobmanager:8081 does not answer", "set SURESCALE_ENGINE_URL")


@pytest.fixture
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some packages are neither listed nor importable, as after `pip install .` or in a role's image."""

    def listed(name: str) -> str:
        if name in ("faust-streaming", "pyspark", "onnxruntime"):
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(checks, "version", listed)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)


@pytest.fixture
def image(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the container of the state service."""
    monkeypatch.setenv("SURESCALE_ROLE", "state-service")


def test_a_whole_installation_is_well() -> None:
    """Every package has its version."""
    packages, _ = programs()
    assert packages.verdict == "ok"
    assert f"faust-streaming {version('faust-streaming')}" in packages.detail
    (found,) = policy(PipelineSettings(policy="sure"))
    assert found.verdict == "ok"


@pytest.mark.usefixtures("without_extras")
def test_packages_that_are_missing_are_named_with_what_brings_them() -> None:
    """Some commands work without them, so it is a warning."""
    packages, _ = programs()
    assert packages.verdict == "warning"
    assert packages.detail.endswith("not installed: faust-streaming, pyspark, onnxruntime")
    assert packages.remedy.endswith("pip install 'surescale[all]' brings everything")
    (found,) = policy(PipelineSettings(policy="sure-paper"))
    assert next(policy(PipelineSettings(policy="sure"))).verdict == "ok", "it has no graphs"
    assert (found.verdict, found.remedy) == ("warning", packages.remedy)


@pytest.mark.usefixtures("without_extras", "image")
def test_an_image_is_judged_by_what_its_role_needs() -> None:
    """Neither the agent's packages nor Java are missed, and the policy's files are still checked."""
    (packages,) = programs()
    assert packages.verdict == "ok"
    assert packages.detail.endswith("; image of the state-service")
    (found,) = policy(PipelineSettings(policy="sure-paper"))
    assert found.verdict == "ok"
    assert "its graphs were not tried, since onnxruntime is not installed here" in found.detail


@pytest.mark.usefixtures("without_extras", "image")
@pytest.mark.parametrize("name", ["sure", "sure-paper", "../sure"])
def test_a_package_that_is_not_whole_is_a_problem_everywhere(tmp_path: Path, name: str) -> None:
    """A missing card shows without a graph being run; a name that leaves the folder is no name."""
    (found,) = policy(PipelineSettings(policy=name, policy_folder=str(tmp_path)))
    assert found.verdict == "problem"
    assert found.detail.startswith(f"{name} cannot be used: ")


@pytest.mark.usefixtures("without_extras")
@pytest.mark.parametrize("name", ["static", "forecast"])
def test_a_rule_needs_no_package(name: str) -> None:
    """It is well wherever it is asked for, also the one whose constants come with a model."""
    (found,) = policy(PipelineSettings(policy=name))
    assert found == Finding("ok", "policy", name)


def test_an_engine_out_of_reach_is_a_problem_for_those_who_ask_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks may let only the monitor and the rescaler through."""
    assert list(seen_from_here([ABSENT])) == [ABSENT]
    monkeypatch.setenv("SURESCALE_ROLE", "monitor")
    assert list(seen_from_here([ABSENT])) == [ABSENT]
    monkeypatch.setenv("SURESCALE_ROLE", "state-service")
    (found,) = seen_from_here([ABSENT])
    assert (found.verdict, found.detail) == ("warning", ABSENT.detail)
    assert found.remedy.startswith("monitor and rescaler have to reach it, not the state-service")
