"""What a model package may hold: whatever would fail later, window after window, is refused once, with the field's name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from policies.registry import SHIPPED, Unavailable, load_policy

Change = Callable[[dict[str, Any]], object]


def refusal(tmp_path: Path, change: Change, name: str = "sure") -> str:
    """Return why a shipped package with a changed card is refused."""
    shutil.copytree(SHIPPED / name, tmp_path / name)
    path = tmp_path / name / "card.json"
    card = json.loads(path.read_text())
    change(card)
    path.write_text(json.dumps(card))
    policy = load_policy(name, str(tmp_path))
    assert isinstance(policy, Unavailable), policy
    return policy.reason


@pytest.mark.parametrize("name", ["sure", "sure-paper"])
@pytest.mark.parametrize(("field", "value"), [("span_minutes", 0), ("window_minutes", 0), ("stale_minutes", -1)])
def test_minutes_that_mean_nothing_are_refused(tmp_path: Path, name: str, field: str, value: int) -> None:
    """A span of no minutes would divide by zero at the first window."""
    assert field in refusal(tmp_path, lambda card: card.update({field: value}), name)


def test_a_sampler_without_anchors_is_refused(tmp_path: Path) -> None:
    """A negative number of minutes to look at would quietly mean "all but so many"."""
    assert "anchors" in refusal(tmp_path, lambda card: card["sampling"].update(anchors=-3))


@pytest.mark.parametrize(
    ("part", "field"),
    [("forecast", "with_history"), ("forecast", "trend_only"), ("outlook", "spread"), ("outlook", "trend_spread")],
)
def test_weights_of_another_length_are_named(tmp_path: Path, part: str, field: str) -> None:
    """The card's base is numbers for inputs of a known number; one fewer cannot be meant."""
    reason = refusal(tmp_path, lambda card: card["base"][part].update({field: card["base"][part][field][:-1]}))
    assert f"base.{part}.{field}" in reason


def test_rows_of_different_lengths_are_named(tmp_path: Path) -> None:
    """One stage without its intercept is as wrong as a stage too few."""
    reason = refusal(tmp_path, lambda card: card["base"]["outlook"]["trend_only"][2].pop())
    assert "base.outlook.trend_only" in reason


def test_stages_that_do_not_divide_an_hour_are_refused(tmp_path: Path) -> None:
    """The bursts of an hour are cut into stages."""
    assert "stage_minutes" in refusal(tmp_path, lambda card: card["base"]["outlook"].update(stage_minutes=7))


def test_a_card_that_is_not_text_is_refused(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are a damaged card, not a crash."""
    (tmp_path / "sure").mkdir()
    (tmp_path / "sure" / "card.json").write_bytes(b'{"name":"\xff"}')
    policy = load_policy("sure", str(tmp_path))
    assert isinstance(policy, Unavailable)
    assert "not a valid card" in policy.reason


@pytest.mark.parametrize("name", ["", ".hidden", "../sure", "a/b", "a\0b"])
def test_a_name_that_leads_elsewhere_is_no_name(name: str) -> None:
    """Settings come from a topic: a name must not leave the folder, nor break the file system's call."""
    policy = load_policy(name)
    assert isinstance(policy, Unavailable)
    assert "is no name of a policy" in policy.reason
