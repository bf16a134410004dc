"""The packages that ship, and every damage for which one is refused."""

import json
import shutil
from pathlib import Path

import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.policies.decide import decide
from surescale.policies.registry import SHIPPED, Unavailable, load_policy, policy_names
from surescale.policies.scores import read_scores
from surescale.policies.sure.policy import SurePolicy
from tests.unit.policies.conftest import WindowMaker, branching_window

SETTINGS = JobSettings(job="sim/y")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a folder with copies of the shipped packages, free to be damaged."""
    for name in ("sure", "sure-paper"):
        shutil.copytree(SHIPPED / name, tmp_path / name)
    return tmp_path


def test_the_shipped_policy_loads_and_is_listed(sure: SurePolicy) -> None:
    """Its card states its terms; its scores lie beside the card."""
    assert set(policy_names()) >= {"target-utilisation", "static", "hold", "forecast", "sure"}
    scores = read_scores(SHIPPED / "sure")
    assert scores is not None
    assert all(scores.policy in job.policies for job in scores.jobs.values())
    assert sure.card.terms
    assert sure.span_minutes == 10
    assert sum(file.stat().st_size for file in (SHIPPED / "sure").iterdir()) < 1_000_000


@pytest.mark.parametrize("file", ["sampler.onnx", "policy.onnx"])
def test_the_graphs_carry_no_traces_of_the_machine_that_made_them(file: str) -> None:
    """Exporters write stack traces into graphs; ours are stripped."""
    assert b".py" not in (SHIPPED / "sure-paper" / file).read_bytes()


@pytest.mark.parametrize("file", ["sure/card.json", "sure-paper/sampler.onnx", "sure-paper/policy.onnx"])
def test_a_missing_file_is_named(package: Path, file: str) -> None:
    """The rule takes over, and every decision says which file it misses."""
    (package / file).unlink()
    policy = load_policy(file.partition("/")[0], str(package))
    assert isinstance(policy, Unavailable)
    assert f"{file} cannot be read" in policy.reason


@pytest.mark.parametrize("file", ["sampler.onnx", "policy.onnx"])
def test_a_damaged_graph_is_refused_by_its_checksum(package: Path, file: str) -> None:
    """One changed byte is enough."""
    path = package / "sure-paper" / file
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    decision = decide(branching_window(), load_policy("sure-paper", str(package)), SETTINGS, seed=0)
    assert decision.policy.name == "target-utilisation"
    assert f"{file} is damaged" in (decision.policy.fallback_reason or "")


def edited_card(package: Path, name: str, **changes: object) -> str:
    """Change fields of the card and return why the package is refused."""
    path = package / name / "card.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    policy = load_policy(name, str(package))
    assert isinstance(policy, Unavailable)
    return policy.reason


def test_a_model_of_other_features_is_refused(package: Path) -> None:
    """Numbers in other slots would mean other things."""
    assert "feature version 99" in edited_card(package, "sure-paper", feature_version=99)


def test_a_card_of_another_format_is_refused(package: Path) -> None:
    """A card of an earlier surescale is distinguished from a damaged one."""
    assert "format 2; this version reads format 3" in edited_card(package, "sure", format=2)


def test_a_card_that_does_not_parse_names_the_field(package: Path) -> None:
    """The message leads to the mistake."""
    assert "span_minutes" in edited_card(package, "sure", span_minutes="ten")


def test_a_graph_that_is_no_onnx_is_refused(package: Path) -> None:
    """A right checksum does not make a model."""
    import hashlib

    (package / "sure-paper" / "policy.onnx").write_bytes(b"not a model")
    files = json.loads((package / "sure-paper" / "card.json").read_text())["files"]
    files["policy.onnx"] = hashlib.sha256(b"not a model").hexdigest()
    assert "cannot be run" in edited_card(package, "sure-paper", files=files)


def test_the_forecast_rule_reads_its_constants_from_the_model_package(package: Path, make_window: WindowMaker) -> None:
    """It comes with the package whose base it uses, and is missing without it."""
    rule = load_policy("forecast", str(package))
    decision = decide(make_window(load=250.0), rule, JobSettings(job="sim/chain"), seed=0)
    assert decision.policy.name == "forecast"
    assert "Sized for" in decision.reason
    shutil.rmtree(package / "sure")
    assert isinstance(load_policy("forecast", str(package)), Unavailable)
