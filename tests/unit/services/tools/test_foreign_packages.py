"""Tools run the graphs of packages from a policy folder in a process of their own, as the agent does."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.settings import SPAN_MINUTES
from surescale.policies import onnx_sessions
from surescale.policies.policy import Policy
from surescale.policies.registry import SHIPPED, load_policy
from surescale.rescaler.cli import twin
from surescale.rescaler.service.settings import RescalerSettings
from surescale.runtime.limited_graphs import opener_for
from surescale.services.tools.evaluate import command as evaluate
from surescale.services.tools.policy_releases.folder import verified
from surescale.services.tools.recording.replay import Known, chosen_policies
from surescale.services.tools.what_if.variants import AsRecorded, variant_of
from surescale.simulation.evaluation.judge import judge
from tests.unit.simulation.evaluation.cases import quiet, setting, wave

pytest.importorskip("onnxruntime")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a policy folder with a package, while this process must open no graph."""
    shutil.copytree(SHIPPED / "sure-paper", tmp_path / "sure-paper")

    def opens(graphs: object) -> None:
        raise AssertionError("a graph was opened in the tool's own process")

    monkeypatch.setattr(onnx_sessions, "open_sessions", opens)
    return str(tmp_path)


def tried(folder: str) -> Policy:
    """Return the policy of a variant of `what-if`."""
    known = AsRecorded("hold", JobSettings(job="sim/chain"), SPAN_MINUTES, None, folder, ("map",))
    return variant_of("sure-paper", "--try", known).policy


@pytest.mark.parametrize(
    "load",
    [
        lambda folder: verified("sure-paper", folder),
        lambda folder: chosen_policies(["sure-paper"], Known(), folder)[0],
        tried,
        lambda folder: twin._policy("sure-paper", RescalerSettings(policy_folder=folder)),
    ],
    ids=["policy verify", "replay", "what-if", "twin"],
)
def test_the_package_of_a_folder_is_opened_within_limits(load: Callable[[str], Policy], folder: str) -> None:
    """A graph that hangs or takes all memory must not take the tool with it."""
    assert load(folder).sha256


def test_evaluate_judges_the_package_of_a_folder_within_limits(folder: str) -> None:
    """The check of the name and the run; the workers of `evaluate` get the opener with the request."""
    assert evaluate._names(("sure-paper",), folder) == ["sure-paper"]
    asked = {"runs": 1, "tuned": False, "policy_folder": folder, "opener": opener_for(folder)}
    judged = judge("sure-paper", setting(wave(1), **asked), quiet)
    assert judged.outcome.decisions
    assert judged.sha256 == load_policy("sure-paper", folder, opener=opener_for(folder)).sha256
