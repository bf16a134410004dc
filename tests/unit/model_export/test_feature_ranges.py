"""Where features lay in training: fitted from loops of the training's own jobs and loads, without torch."""

import json
import shutil
from pathlib import Path

import numpy as np

from surescale.model_export.feature_ranges import complete_card, fit_ranges, places_of
from surescale.policies.features import SLOTS
from surescale.policies.registry import SHIPPED
from surescale.policies.sure.package import read_package

CARD = read_package(SHIPPED / "sure").card
FEW = {"settings": {**CARD.training["settings"], "jobs": ["random-1"], "validation_jobs": [], "workloads": ["clarknet"]}}  # type: ignore[dict-item]


def test_the_same_jobs_and_loads_give_the_same_ranges() -> None:
    """One value in a hundred lies outside; more than that in few windows."""
    first, second = (fit_ranges(CARD.base, places_of(FEW)) for _ in range(2))
    assert first == second
    assert (np.array(first.low) <= np.array(first.high)).all()
    assert first.high[SLOTS.index("parallelism_share")] <= 1.0
    assert 0.0 < first.usual < 0.3


def test_a_card_is_completed_and_its_graphs_stay(tmp_path: Path) -> None:
    """Again with the same result, and the package can be read."""
    folder = tmp_path / "sure"
    shutil.copytree(SHIPPED / "sure", folder)
    card = json.loads((folder / "card.json").read_text())
    card.pop("ranges")
    card["training"] |= FEW
    (folder / "card.json").write_text(json.dumps(card))
    told: list[tuple[int, int]] = []
    completed = complete_card(folder, lambda done, of: told.append((done, of)))
    written = (folder / "card.json").read_bytes()
    assert read_package(folder).card == completed
    assert completed.files == CARD.files
    assert told == [(1, 2), (2, 2)]
    complete_card(folder)
    assert (folder / "card.json").read_bytes() == written
