"""What ships owes nothing to data whose terms allow only research: that is in `reproductions/`, which no package holds."""

import json

import pytest

from surescale.policies.registry import SHIPPED
from surescale.simulation.load.graphs import load_graph
from surescale.simulation.load.workload import load_workload

PACKAGES = sorted(folder.name for folder in SHIPPED.iterdir() if (folder / "card.json").is_file())


def test_both_packages_are_looked_at() -> None:
    """The plan and the paper's policy."""
    assert PACKAGES == ["sure", "sure-paper"]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_shipped_package_was_made_from_what_ships(package: str) -> None:
    """A job of the archive would be refused by its name; the plan was fitted to no job."""
    card = json.loads((SHIPPED / package / "card.json").read_text())
    settings = card["training"].get("settings", card["training"])
    for job in settings.get("jobs", ()):
        assert load_graph(job)
    loads = [load_workload(name) for name in settings.get("workloads") or (settings["workload"],)]
    assert {load.name for load in loads} <= {"clarknet", "nasa"}
    assert "Alibaba" not in card["terms"]
