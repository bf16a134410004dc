"""The benchmark of the gate measures what it says."""

import json

import pytest
from click.testing import CliRunner

from benchmarks import gate as bench


def test_a_gate_goes_through_its_phases_and_keeps_its_size() -> None:
    """The same events give the same phases on any machine; the gate keeps nothing from event to event."""
    found, again = bench.run_gate(20_000), bench.run_gate(20_000)
    assert (found.phases, found.transitions) == (again.phases, again.transitions)
    assert found.transitions > 100
    assert found.grown_mb < 5


def test_the_command_prints_json() -> None:
    """Figures, target and conditions."""
    done = CliRunner().invoke(bench.command, ["--events", "1000", "--json"], catch_exceptions=False)
    document = json.loads(done.output)
    assert (done.exit_code, document["events"], document["target_s"]) == (0, 1_000, bench.TARGET_S)
    assert document["conditions"]["seed"] == bench.SEED


def test_memory_that_grows_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 1 because of memory, not because of time."""
    grown = bench.GateRun(events=1_000, seconds=99.0, phases=1, transitions=1, grown_mb=bench.GROWN_MB_MAX + 0.1)
    monkeypatch.setattr(bench, "run_gate", lambda events: grown)
    done = CliRunner().invoke(bench.command)
    assert done.exit_code == 1
    assert "memory grew by 5.1 MB" in done.output
