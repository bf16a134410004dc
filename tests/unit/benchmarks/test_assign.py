"""The benchmark of learner assignment counts correctly."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from benchmarks import assign as bench
from benchmarks.assign import command
from surescale.rescaler.learners_model import LearnerVersion

SMALL = bench.Case("small", 100, 9, 1)


@pytest.mark.parametrize(
    ("case", "moves", "rounds"),
    [
        (SMALL, 10, 2),
        (replace(SMALL, factor="1"), 5, 2),
        (replace(SMALL, version=LearnerVersion.V1), 10, 2),
        (replace(SMALL, max_learners=2), 10, 6),
        (replace(SMALL, max_learners=5, rounds_until_ready=3), 10, 7),
        (replace(SMALL, standbys=1, num_standbys=2), 10, 2),
        (replace(SMALL, capacities=(1, 2)), 13, 2),
    ],
)
def test_moves_are_the_minimum_and_rounds_within_the_bound(case: bench.Case, moves: int, rounds: int) -> None:
    """A case moves exactly what the joining host needs, and ends after the rounds its learners take."""
    found = bench.run_case(case)
    assert (found.moves, found.minimum, found.rounds) == (moves, moves, rounds)
    assert found.holds


def test_the_last_round_confirms_that_nothing_moves() -> None:
    """Every round is timed, including the one after convergence."""
    found = bench.run_case(SMALL)
    assert len(found.round_s) == found.rounds + 1


@pytest.mark.parametrize("wrong", [{"moves": 11}, {"moves": 9}, {"rounds": 3}])
def test_a_result_off_the_minimum_does_not_hold(wrong: dict[str, int]) -> None:
    """Too many moves, too few moves or too many rounds all fail."""
    assert not replace(bench.run_case(SMALL), **wrong).holds


def test_the_command_prints_what_json_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The JSON document lists the figures by case, with the conditions they were taken under."""
    monkeypatch.setattr(bench, "SIZES", (SMALL,) * 4)
    monkeypatch.setattr(bench, "VARIANTS", (SMALL,))
    document = json.loads(CliRunner().invoke(command, ["--json"], catch_exceptions=False).output)
    assert document["conditions"]["seed"] is None
    assert [size["moves"] for size in document["sizes"]] == [10] * 4
    table = CliRunner().invoke(command, [], catch_exceptions=False)
    assert table.exit_code == 0
    assert "longest round" in table.output


def test_a_case_that_moves_too_much_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 1."""
    bad = replace(bench.run_case(SMALL), moves=99)
    monkeypatch.setattr(bench, "run_case", lambda case: bad)
    assert CliRunner().invoke(command, ["--json"]).exit_code == 1
