"""The built page: made of the sources that lie beside it, complete, and without an address outside of its own service."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from surescale.services.state.api import BUILT

PAGE = BUILT.parent
BYTES_MAX = 1_500_000
SINGLE = ("build.mjs", "documents.mjs", "package-lock.json", "package.json", "tsconfig.json", "words.json")


def source_hash() -> str:
    """Return what ``build.mjs`` writes beside the files that it builds."""
    files = [PAGE / name for name in SINGLE] + [path for path in (PAGE / "src").rglob("*") if path.is_file()]
    total = hashlib.sha256()
    for name, path in sorted((path.relative_to(PAGE).as_posix(), path) for path in files):
        total.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return total.hexdigest()


def test_the_built_page_is_made_of_these_sources() -> None:
    """Whoever changes them runs `make page`."""
    assert (BUILT / "sources.sha256").read_text().strip() == source_hash()


def test_the_types_are_made_from_the_document_of_the_api() -> None:
    """Which is what the code makes (`test_reference`), so that page and API cannot drift apart."""
    document = (PAGE.resolve().parents[2] / "docs/reference/openapi.json").read_bytes()
    assert hashlib.sha256(document).hexdigest() in (PAGE / "src/api/documents.ts").read_text().partition("\n")[0]


def test_the_built_page_is_small_and_names_the_packages_in_it() -> None:
    """With their licences, as these ask for."""
    assert sum(path.stat().st_size for path in BUILT.iterdir()) < BYTES_MAX
    licences = (BUILT / "LICENCES.txt").read_text()
    for package in ("@dagrejs/dagre", "@preact/signals", "preact", "uplot"):
        assert re.search(rf"^{package} \d", licences, re.MULTILINE), package


def test_the_page_asks_nobody_but_its_own_service() -> None:
    """Every file it names is there, and no address is outside; names of XML spaces are none."""
    html = (BUILT / "index.html").read_text()
    named = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert sorted(named) == ["page/app.js", "page/icon.svg", "page/style.css"]
    assert all((BUILT / Path(name).name).is_file() for name in named)
    for path in (*BUILT.glob("*.js"), *BUILT.glob("*.css"), *BUILT.glob("*.html")):
        outside = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\"'` )]*", path.read_text())
        assert [each for each in outside if not each.startswith("http://www.w3.org/")] == [], path.name


def test_the_lock_names_no_registry() -> None:
    """Packages come from wherever npm is told to look; their hashes are locked."""
    lock = (PAGE / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert lock.count('"integrity"') >= 6


@pytest.mark.skipif(shutil.which("node") is None, reason="Node, which builds the page, is not installed")
@pytest.mark.skipif(not (PAGE / "node_modules").is_dir(), reason="the page's packages are not installed (`make page` does it)")
def test_a_build_gives_the_same_bytes(tmp_path: Path) -> None:
    """On any machine, from the locked packages."""
    copy = tmp_path / "page"
    shutil.copytree(PAGE, copy, ignore=shutil.ignore_patterns("node_modules", "built"))
    (copy / "node_modules").symlink_to(PAGE / "node_modules")
    subprocess.run(["node", "build.mjs"], cwd=copy, check=True, capture_output=True, timeout=120)
    built = {path.name: path.read_bytes() for path in (copy / "built").iterdir()}
    assert built == {path.name: path.read_bytes() for path in BUILT.iterdir()}
