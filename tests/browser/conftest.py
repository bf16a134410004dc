"""A real Chromium; tests that want one are skipped where there is none."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.served_page import View

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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


@pytest.fixture
def view(redis_url: str, tmp_path: Path) -> Iterator[View]:
    """An empty view."""
    made = View(redis_url, f"page-{tmp_path.name}-")
    yield made
    made.close()


@pytest.fixture
def page(browser: "Browser") -> Iterator["Page"]:
    """A page whose errors fail the test, wherever they come from."""
    context = browser.new_context(viewport={"width": 1360, "height": 860}, color_scheme="light", locale="en-US")
    made = context.new_page()
    errors: list[str] = []
    made.on("pageerror", lambda error: errors.append(str(error)))
    made.on("console", lambda message: errors.append(message.text) if message.type in ("error", "warning") else None)
    made.expected_errors = 0  # type: ignore[attr-defined]
    yield made
    context.close()
    assert len(errors) <= made.expected_errors, errors  # type: ignore[attr-defined]
