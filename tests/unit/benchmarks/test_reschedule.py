"""The benchmark of the planner measures what it says."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from benchmarks import reschedule as bench


def test_plans_move_the_least() -> None:
    """Every case moves exactly what the formula says, and something."""
    for found in bench.run_plans(fragments=20, workers=20, units=10):
        assert found.moved == found.least > 0, found.name


def test_a_plan_that_moves_too_much_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 1 if more vnodes move than necessary. JSON and text both show the figures."""
    plans = bench.run_plans(fragments=5, workers=20, units=10)
    monkeypatch.setattr(bench, "run_plans", lambda: plans)
    done = CliRunner().invoke(bench.command, ["--json"], catch_exceptions=False)
    assert (done.exit_code, len(json.loads(done.output)["plans"])) == (0, len(plans))
    assert "vnodes moved" in CliRunner().invoke(bench.command).output
    monkeypatch.setattr(bench, "run_plans", lambda: [replace(plans[0], moved=plans[0].least + 1)])
    assert CliRunner().invoke(bench.command).exit_code == 1
