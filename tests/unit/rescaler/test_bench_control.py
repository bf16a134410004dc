"""The benchmarks of gate and planner measure what they say."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from rescaler.bench import control
from rescaler.commands.bench_control import gate, reschedule


def test_a_gate_goes_through_its_phases_and_keeps_its_size() -> None:
    """The same events give the same phases, whatever the machine; nothing is kept from event to event."""
    found = control.run_gate(20_000)
    again = control.run_gate(20_000)
    assert (found.phases, found.transitions) == (again.phases, again.transitions)
    assert found.transitions > 100
    assert found.grown_mb < 5


def test_plans_move_the_least() -> None:
    """Every case moves exactly what the formula says, and something."""
    for found in control.run_plans(fragments=20, workers=20, units=10):
        assert found.moved == found.least > 0, found.name


def test_the_commands_print_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures, targets and conditions; the exit code says whether what is not time holds."""
    answer = CliRunner().invoke(gate, ["--events", "1000", "--json"], catch_exceptions=False)
    assert (answer.exit_code, json.loads(answer.output)["events"]) == (0, 1_000)
    plans = control.run_plans(fragments=5, workers=20, units=10)
    monkeypatch.setattr(control, "run_plans", lambda: plans)
    answer = CliRunner().invoke(reschedule, ["--json"], catch_exceptions=False)
    assert (answer.exit_code, len(json.loads(answer.output)["plans"])) == (0, len(plans))
    assert "vnodes moved" in CliRunner().invoke(reschedule).output
    monkeypatch.setattr(control, "run_plans", lambda: [replace(plans[0], moved=plans[0].least + 1)])
    assert CliRunner().invoke(reschedule).exit_code == 1
