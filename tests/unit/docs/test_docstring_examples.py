"""The examples in docstrings are true."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = (
    "contracts",
    "policies",
    "simulation",
    "runtime",
    "engines",
    "monitor",
    "spark_streaming",
    "services",
    "rescaler",
    "model_export",
)
MODULES = sorted(
    ".".join(("surescale", *file.relative_to(ROOT).with_suffix("").parts))
    for room in ROOMS
    for file in (ROOT / room).rglob("*.py")
    if ">>> " in file.read_text(encoding="utf-8")
)


def test_there_are_examples() -> None:
    """Or the search has lost them."""
    assert len(MODULES) > 20


@pytest.mark.parametrize("module", MODULES)
def test_examples_give_what_they_say(module: str) -> None:
    """As Python itself runs them."""
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried > 0
    assert failed == 0
