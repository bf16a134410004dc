"""A real Chromium; tests that want one are skipped where there is none."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """A Chromium without a window."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (`make install` does it)")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        # In a container Chromium runs as root, which its own sandbox refuses.
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield made
        made.close()
