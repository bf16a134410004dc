"""The benchmark of worlds: its cells, what it keeps, and what it says of them."""

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import world_cells
from benchmarks.world_cells import Cell, CellGrid, hours_in
from benchmarks.worlds import OURS, RIVALS, _table, command, figures
from surescale.simulation.evaluation.hours import BLOCK_HOURS, Hours

CELL = Cell("drift", "clarknet", "j", 1)


def run(rewards: Sequence[float], rescales: int = 0) -> Hours:
    """A run from hour 168 on with one reward per block; without latency, utilisation is twice the reward."""
    utilisation = 2.0 * np.repeat(np.array([rewards]), BLOCK_HOURS, axis=1)
    zeros, ones = np.zeros_like(utilisation), np.ones_like(utilisation)
    counts = np.full(utilisation.shape, rescales, dtype=np.int64)
    paid, first = 60.0 * (10 + rescales) * ones, np.array([14 * BLOCK_HOURS])
    late = (1 + rescales) * ones / 60.0
    return Hours(zeros, utilisation, ones, paid, counts, first, latency_weight=0.5, latency_cap=10.0, late=late)


def judged(ours: Sequence[float], *rivals: Sequence[float]) -> dict[str, Hours]:
    """A cell's runs, in the order of ``RIVALS``."""
    return {OURS: run(ours, rescales=1), **{name: run(each) for name, each in zip(RIVALS, rivals, strict=True)}}


def test_the_best_rival_is_the_one_with_the_highest_reward_over_all_cells() -> None:
    """The table tells ours minus it, in how many cells ours is ahead, and how often each rescales."""
    found = {
        CELL: judged([0.3, 0.3], [0.1, 0.2], [0.25, 0.35], [0.0, 0.0]),
        Cell("drift", "nasa", "j", 1): judged([0.3, 0.4], [0.9, 0.0], [0.3, 0.3], [0.0, 0.0]),
    }
    of = figures(found)
    assert (of["best_rival"], of["cells"], of["cells_ahead"]) == ("forecast", 2, 1)
    assert of["policies"][OURS]["rescales_per_day"] == 24.0
    assert of["policies"][OURS]["subtask_hours_per_day"] == pytest.approx(264.0)
    assert of["policies"][OURS]["late_minutes_per_day"] == pytest.approx(48.0)
    assert of["by_load"]["clarknet"]["difference"] == pytest.approx(0.0)
    assert of["by_load"]["nasa"] == {"best_rival": "forecast", "difference": pytest.approx(-0.1), "standard_error": ANY}
    assert of["by_load"]["clarknet"]["best_rival"] == "ds2-gate"
    assert of["best_of_each_load"]["difference"] == pytest.approx(-0.05)
    line = _table({"drift": of}, (OURS, *RIVALS)).splitlines()[-1]
    assert line.startswith("| drift | forecast | 264, 240 | 48, 24 | 24, 0 | 1 of 2 | ")
    assert "| +0.0250 ± " in line
    assert " | -0.0500 ± " in line


def test_cells_come_in_rounds_of_all_worlds() -> None:
    """So an unfinished table has every world; three rounds of three jobs meet each load in each draw."""
    names = ("calm", "drift"), ("a", "b"), ("j", "k", "l"), (1, 2)
    every = list(CellGrid(*names).cells())
    assert len(every) == len(set(every)) == 24
    assert every[:4] == [Cell(world, load, "j", 1) for world in names[0] for load in names[1]]
    turns = list(CellGrid(*names, rounds=1).cells())
    assert turns[::2] == [Cell("calm", "a", "j", 1), Cell("calm", "b", "k", 2), Cell("calm", "a", "l", 1)]
    three = list(CellGrid(("calm",), ("a", "b", "c"), names[2], (1, 2, 3), rounds=3).cells())
    assert len(three) == len({(cell.load, cell.draw) for cell in three}) == 9
    assert {(cell.job, cell.load) for cell in three} == {(job, load) for job in "jkl" for load in "abc"}


def test_what_is_kept_is_not_judged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hours come back with the same bits; another policy, cell or length is another file."""
    first = run([0.1 / 3.0, 0.2])
    asked: list[tuple[Cell, str, int]] = []

    def judge(cell: Cell, policy: str, days: int) -> Hours:
        asked.append((cell, policy, days))
        return first

    monkeypatch.setattr(world_cells, "_judged", judge)
    for _ in range(2):
        again = hours_in(CELL, "sure", 7, tmp_path)
        assert np.array_equal(again.rewards, first.rewards)
        assert again.rescales_per_day == first.rescales_per_day
    hours_in(CELL, "sure", 1, tmp_path)
    hours_in(Cell("drift", "nasa", "j", 1), "sure", 7, tmp_path)
    assert asked == [(CELL, "sure", 7), (CELL, "sure", 1), (Cell("drift", "nasa", "j", 1), "sure", 7)]
    (shipped,) = CellGrid(("drift",), ("clarknet",), ("j",), (1,), tuned=False).cells()
    hours_in(shipped, "sure", 7, tmp_path)
    assert asked[-1] == (shipped, "sure", 7) != (CELL, "sure", 7)
    assert not world_cells.judging_in(shipped, 60).tuned
    assert world_cells.judging_in(CELL, 60).tuned


def test_a_policy_that_does_not_exist_is_refused_before_the_work(tmp_path: Path) -> None:
    """Its rule to fall back on would be judged and kept under that name."""
    done = CliRunner().invoke(command, ["--policy", "nosuch", "--keep", str(tmp_path)])
    assert "--policy: nosuch" in str(done.exception)
    assert not any(tmp_path.iterdir())


def test_a_name_that_is_given_twice_is_one_cell() -> None:
    """Otherwise its hours would count twice."""
    twice = CellGrid(("calm", "calm"), ("nasa", "nasa"), ("j", "j"), (1, 1))
    assert list(twice.cells()) == [Cell("calm", "nasa", "j", 1)]


def test_single_policies_need_a_folder_to_run_into() -> None:
    """A run without a table and without results would be lost."""
    told = CliRunner().invoke(command, ["--policy", "static"])
    assert told.exit_code == 2
    assert "needs --keep" in told.output
