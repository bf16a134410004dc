"""The demos and the rivals that only a checkout has."""

from pathlib import Path

import pytest
from click import Command
from click.testing import CliRunner

from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.services.local_stack.comparison import comparison_pipeline
from surescale.services.local_stack.comparison.demo import consumers, flink


def test_a_policy_that_does_not_exist_ends_the_demo_at_once() -> None:
    """The rivals are among the names that are offered."""
    found = CliRunner().invoke(consumers, ["--policy", "kedo"])
    assert isinstance(found.exception, SurescaleError)
    assert "keda" in str(found.exception)


@pytest.mark.parametrize(("demo", "policy"), [(consumers, "keda-7"), (consumers, "hpa-cpu"), (flink, "upstream")])
def test_without_a_checkout_a_rival_ends_the_demo_at_once(
    demo: Command, policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package holds no benchmarks; the one line says where the rival is."""
    monkeypatch.setattr(comparison_pipeline, "CHECKOUT", tmp_path)
    found = CliRunner().invoke(demo, ["--policy", policy])
    assert isinstance(found.exception, SettingsError)
    assert str(found.exception) == (
        f"--policy: only a checkout of the repository has {policy}; run the demo from one, or leave it out"
    )
