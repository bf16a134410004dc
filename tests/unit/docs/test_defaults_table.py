"""The table of defaults in docs/guardrails.md has every setting of a job, with the default that holds."""

import re
from pathlib import Path
from typing import Any

import pytest

from surescale.contracts.job_settings import SETTINGS, Setting

ROOT = Path(__file__).parents[3]
SECTION = (ROOT / "docs" / "guardrails.md").read_text().split("## Defaults, and why\n")[1].split("\n### ")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in SECTION.splitlines() if line.startswith("| `--")]
ENGINES = ("simulated", "flink", "kafka")
OF_ANOTHER = ("none", "the policy's", "the cluster's", "measured")
"""How a cell begins where nothing holds unless somebody, or something else, says so."""


def row_of(setting: Setting) -> list[str]:
    """Return the one row of a setting."""
    (found,) = (row for row in ROWS if f"--{setting.option}" in re.findall(r"--[a-z-]+", row[0]))
    return found


def agrees(cell: str, setting: Setting, default: Any) -> bool:
    """Say whether a cell of the table tells a default."""
    if setting.words:
        return any(cell == f"`{word}`" and value is default for word, value in setting.words.items())
    if isinstance(default, int | float):
        number = re.match(r"[\d.]+", cell)
        return number is not None and float(number[0]) == default
    return cell == f"`{default}`" if isinstance(default, str) else not default and cell.startswith(OF_ANOTHER)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("field", [field for field in SETTINGS if field != "mode"])
def test_a_setting_has_its_row_with_the_default_that_holds(field: str, engine: str) -> None:
    """On the simulated engine, and on real ones, with a reason."""
    setting = SETTINGS[field]
    _, simulated, real, why = row_of(setting)
    assert agrees(simulated if engine == "simulated" else real, setting, setting.default_on(engine))
    assert len(why) > 10


def test_each_row_is_of_a_setting_that_there_is() -> None:
    """One that was renamed would stay in the table."""
    named = {option for row in ROWS for option in re.findall(r"--([a-z-]+)", row[0])}
    assert named == {setting.option for setting in SETTINGS.values()}


def test_what_another_default_says_does_not_agree() -> None:
    """A table that nobody keeps would be found."""
    assert not agrees("4", SETTINGS["step_down_max"], 2.0)
    assert not agrees("`block`", SETTINGS["block_ineffective"], False)
    assert not agrees("30 minutes", SETTINGS["catch_up_minutes"], None)
    assert not agrees("none", SETTINGS["on_drift"], "stop")
