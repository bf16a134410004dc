"""What tests of the page in a browser share: waiting for it, what axe finds, screenshots for the documents."""

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

FIGURES = Path(__file__).parent.parent.parent / "docs" / "figures"
FIGURE_BYTES_MAX = 150_000
SHOTS = {"page-jobs.png", "page-job.png", "page-job-dark.png", "page-decision.png", "page-cluster.png", "page-what-if.png"}


def settled(page: "Page") -> None:
    """Wait until every document on the page has come."""
    page.locator("h1").wait_for()
    page.locator(".waiting").first.wait_for(state="detached")


def violations(page: "Page") -> list[str]:
    """Return what axe finds, each with the first element."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]


def keep(page: "Page | Locator", name: str) -> None:
    """Make a screenshot, and keep it if the documents show it."""
    shot = page.screenshot(animations="disabled")
    assert len(shot) > 5_000
    if not os.environ.get("SURESCALE_PAGE_FIGURES") or name not in SHOTS:
        return
    from PIL import Image

    packed = io.BytesIO()
    Image.open(io.BytesIO(shot)).convert("RGB").quantize(256).save(packed, "PNG", optimize=True)
    assert len(packed.getvalue()) < FIGURE_BYTES_MAX, name
    (FIGURES / name).write_bytes(packed.getvalue())
