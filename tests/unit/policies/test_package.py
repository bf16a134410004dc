"""What a model package may hold: whatever would fail later, window after window, is refused once, with the field's name."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surescale.contracts import foreign_files
from surescale.contracts.errors import SettingsError
from surescale.policies.registry import RULES, SHIPPED, Unavailable, load_policy, policy_names, unknown_policy

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


@pytest.mark.parametrize("name", ["sure", "sure-paper"])
@pytest.mark.parametrize("start", [b"", b'{"paper_format":1,"training":'])
def test_a_card_nested_without_end_is_refused(tmp_path: Path, name: str, start: bytes) -> None:
    """A parser that gives up is one more damaged card, not a crash of the agent."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "card.json").write_bytes(start + b"[" * 200_000)
    policy = load_policy(name, str(tmp_path))
    assert isinstance(policy, Unavailable)
    assert f"{name}/card.json is not a valid card" in policy.reason


@pytest.mark.parametrize("name", ["sure", "sure-paper"])
@pytest.mark.parametrize(
    ("field", "value"),
    [("window_minutes", 10**12), ("span_minutes", 10**12), ("stale_minutes", 10**12), ("name", ""), ("name", "n" * 257)],
)
def test_a_field_beyond_its_range_is_named(tmp_path: Path, name: str, field: str, value: object) -> None:
    """A window of a million years would exhaust memory; an empty name would make decisions unreadable."""
    reason = refusal(tmp_path, lambda card: card.update({field: value}), name)
    assert f"$.{field}" in reason
    assert "export the package again" in reason


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("planning", "scenarios", []),
        ("planning", "effect_minutes", -1),
        ("planning", "restart_minutes", -1),
        ("planning", "latency_weight", 7.0),
        ("planning", "hindsight_margin", 0.0),
        ("sizing", "utilisation", 0.0),
        ("sizing", "catch_up_minutes", 0.0),
    ],
)
def test_constants_that_make_no_plan_are_refused(tmp_path: Path, part: str, field: str, value: object) -> None:
    """A plan over no scenario is not a number and would hold forever, silently."""
    assert f"$.base.{part}.{field}" in refusal(tmp_path, lambda card: card["base"][part].update({field: value}))


def test_stages_beyond_what_yesterday_can_tell_are_refused(tmp_path: Path) -> None:
    """Thirty hours ahead, yesterday has no such time yet."""
    fields = ("with_history", "trend_only", "spread", "trend_spread")
    reason = refusal(
        tmp_path, lambda card: [card["base"]["outlook"].update({f: card["base"]["outlook"][f][:1] * 90}) for f in fields]
    )
    assert "base.outlook holds 90 stages of 20 minutes" in reason


@pytest.mark.parametrize(("field", "value"), [("direction", "sideways"), ("anchors", -3), ("anchors", 0), ("neighbours_max", -1)])
def test_a_paper_card_that_samples_nothing_is_refused(tmp_path: Path, field: str, value: object) -> None:
    """An unknown direction stopped the agent; a negative number of minutes silently meant "all but that many"."""
    assert field in refusal(tmp_path, lambda card: card.update({field: value}), "sure-paper")


@pytest.mark.parametrize(("name", "field"), [("sure", "format"), ("sure-paper", "paper_format")])
def test_a_card_of_a_later_format_is_told_by_its_format(tmp_path: Path, name: str, field: str) -> None:
    """Its other fields may differ, so the format is reported first."""
    reason = refusal(tmp_path, lambda card: card.update({field: 9, "news": 1, "hidden": "wide"}), name)
    assert "has format 9; this version reads format" in reason


def test_other_slots_of_the_same_version_are_told_apart(tmp_path: Path) -> None:
    """ "Version 1; this version makes 1" would help no one."""
    assert "slots_sha256" in refusal(tmp_path, lambda card: card.update(slots_sha256="0" * 64), "sure-paper")


def test_a_card_without_a_files_checksum_names_the_file(tmp_path: Path) -> None:
    """The file is intact; the card lacks something."""
    assert "files holds no checksum of policy.onnx" in refusal(
        tmp_path, lambda card: card["files"].pop("policy.onnx"), "sure-paper"
    )


def test_a_package_under_the_name_of_a_rule_is_not_listed(tmp_path: Path) -> None:
    """The name loads the rule. Folders that no name can load are not listed either."""
    for name in ("static", "forecast", ".old", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "card.json").write_text("{}")
    assert policy_names(str(tmp_path)) == (*RULES, "mine")


def test_a_folder_on_a_silent_disk_holds_up_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for names is told which setting it is; a role says so and goes on with a rule."""
    answers = threading.Event()
    monkeypatch.setattr(foreign_files, "WHOLE_S", 0.2)
    monkeypatch.setattr(Path, "is_dir", lambda _: answers.wait(60))
    try:
        with pytest.raises(SettingsError, match=r"^SURESCALE_POLICY_FOLDER: /silent cannot be looked at"):
            policy_names("/silent")
        assert (unknown_policy("mine", "/silent") or "").startswith("SURESCALE_POLICY_FOLDER: /silent cannot be looked at")
    finally:
        answers.set()


@pytest.mark.parametrize("name", ["", ".hidden", "../sure", "a/b", "a\0b", "a\nb", "\ud800"])
def test_a_name_that_leads_elsewhere_is_no_name(name: str) -> None:
    """Settings come from a topic: a name must not leave the folder, nor break the file system's call."""
    policy = load_policy(name)
    assert isinstance(policy, Unavailable)
    assert "is not the name of a policy" in policy.reason
