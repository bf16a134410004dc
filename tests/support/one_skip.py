"""Where the same thing is missing for many tests, one skip speaks for all of them."""

from collections.abc import Callable

import pytest


def one_speaks(config: pytest.Config, items: list[pytest.Item], belongs: Callable[[pytest.Item], bool]) -> None:
    """Keep the first test that belongs there, and deselect the others."""
    found = [item for item in items if belongs(item)]
    if len(found) > 1:
        items[:] = [item for item in items if item is found[0] or not belongs(item)]
        config.hook.pytest_deselected(items=found[1:])
