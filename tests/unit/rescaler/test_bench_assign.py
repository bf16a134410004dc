"""The benchmark of learner assignment counts what it says it counts."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from rescaler.bench import assign as bench
from rescaler.commands.bench_assign import command
from rescaler.learners_model import Version

SMALL = bench.Case("small", 100, 9, 1)


@pytest.mark.parametrize(
    ("case", "moves", "rounds"),
    [
        (SMALL, 10, 2),
        (replace(SMALL, factor="1"), 5, 2),
        (replace(SMALL, version=Version.V1), 10, 2),
        (replace(SMALL, max_learners=2), 10, 6),
        (replace(SMALL, max_learners=5, rounds_until_ready=3), 10, 7),
        (replace(SMALL, standbys=1, num_standbys=2), 10, 2),
        (replace(SMALL, capacities=(1, 2)), 13, 2),
    ],
)
def test_moves_are_the_minimum_and_rounds_within_the_bound(case: bench.Case, moves: int, rounds: int) -> None:
    """A case moves exactly what the joining host needs and ends after the rounds that its learners take."""
    found = bench.play(case)
    assert (found.moves, found.minimum, found.rounds) == (moves, moves, rounds)
    assert found.holds


def test_the_last_round_confirms_that_nothing_moves() -> None:
    """Every round is timed, the one after convergence too."""
    found = bench.play(SMALL)
    assert len(found.round_s) == found.rounds + 1


@pytest.mark.parametrize("wrong", [{"moves": 11}, {"moves": 9}, {"rounds": 3}])
def test_an_outcome_off_the_minimum_does_not_hold(wrong: dict[str, int]) -> None:
    """Too many moves, too few, or too many rounds are not let pass."""
    assert not replace(bench.play(SMALL), **wrong).holds


def test_the_command_prints_what_json_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures stand in the JSON document by case, with the conditions under which they were taken."""
    monkeypatch.setattr(bench, "SIZES", (SMALL,) * 4)
    monkeypatch.setattr(bench, "VARIANTS", (SMALL,))
    document = json.loads(CliRunner().invoke(command, ["--json"], catch_exceptions=False).output)
    assert document["conditions"]["seed"] is None
    assert [size["moves"] for size in document["sizes"]] == [10] * 4
    table = CliRunner().invoke(command, [], catch_exceptions=False)
    assert table.exit_code == 0
    assert "longest round" in table.output


def test_a_case_that_moves_too_much_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code says that a figure is off."""
    bad = replace(bench.play(SMALL), moves=99)
    monkeypatch.setattr(bench, "play", lambda case: bad)
    assert CliRunner().invoke(command, ["--json"]).exit_code == 1
