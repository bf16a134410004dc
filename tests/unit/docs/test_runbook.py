"""The runbook has an entry for each alert, of one form, and each alert names its entry."""

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (it comes with kubernetes-validate)")

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/runbook.md"
GROUPS = yaml.safe_load((ROOT / "compose/observability/alerts.yml").read_text())["groups"]
RULES = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
ENTRIES = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL))
MINUTES = {
    None: "at once",
    "1m": "after one minute",
    "2m": "after two minutes",
    "5m": "after five minutes",
    "15m": "after fifteen minutes",
}
PARTS = ("**Means.**", "**Look at.**", "**Do.**", "**Wake somebody")


def test_every_alert_has_an_entry_and_every_entry_an_alert() -> None:
    """In the order of the rules, so that the page reads like the file."""
    assert list(ENTRIES) == list(RULES)


@pytest.mark.parametrize("alert", RULES)
def test_an_entry_says_what_to_do_and_an_alert_leads_there(alert: str) -> None:
    """Its four parts in order, a command of surescale to look with, and how bad and how long as the rule has it."""
    rule, entry = RULES[alert], ENTRIES[alert]
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{alert.lower()}"
    places = [entry.find(part) for part in PARTS]
    assert -1 not in places
    assert places == sorted(places)
    assert re.search(r"^surescale [a-z]", entry[places[1] : places[2]], flags=re.MULTILINE)
    assert entry.strip().startswith(f"{rule['labels']['severity'].capitalize()}, {MINUTES[rule.get('for')]}.")
