"""Hooks of `make docs`: what the pages mean on a code forge, they also mean on the site.

The pages are written for both. On the site the README is the first page, and a link to a file that is no page loses its link.
"""

import os.path
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# Pages from outside of docs/, by their path in the repository, and where the site has them.
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
# What a browser would load from elsewhere as soon as it shows a page; links that a reader follows are not among them.
LOADED = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")


def place_of(path: str) -> str | None:
    """Return where the site has a file or folder of the repository, from the site's root; None if it has it nowhere."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if not path.startswith("docs/"):
        return None
    if (ROOT / path).is_dir():
        pages = sorted(page.name for page in (ROOT / path).glob("*.md"))
        return f"{path.removeprefix('docs/')}/{'README.md' if 'README.md' in pages else pages[0]}" if pages else None
    return path.removeprefix("docs/")


def relink(text: str, page: str) -> str:
    """Return prose whose relative links lead from `page` (its path in the repository) to places of the site."""
    here = os.path.dirname(place_of(page) or "")

    def changed(link: re.Match[str]) -> str:
        picture, words, target, anchor = link.groups(default="")
        place = place_of(os.path.normpath(os.path.join(os.path.dirname(page), target)))
        return f"{picture}[{words}]({os.path.relpath(place, here or '.')}{anchor})" if place else words

    return LINK.sub(changed, text)


def spaced(text: str) -> str:
    """Return prose with an empty line before each list, which Python-Markdown needs and CommonMark does not."""
    lines: list[str] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        if re.match(r"[-*] |1\. ", line) and before.strip() and not re.match(r"[-*] |\d+\. |\s", before):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def for_site(markdown: str, page: str) -> str:
    """Return a page of the repository as the site's Markdown; code stays as it is."""
    parts = re.split(r"^(```.*?^```[^\n]*$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if number % 2 else spaced(relink(part, page)) for number, part in enumerate(parts))


def on_config(config: Any) -> Any:
    """Name anchors of headings as code forges do, so that one link is right in both places."""
    from pymdownx.slugs import slugify

    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are kept outside of docs/."""
    from mkdocs.structure.files import File

    for path, place in OUTSIDE.items():
        files.append(File.generated(config, place, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Translate one page."""
    place = page.file.src_uri
    return for_site(markdown, next((path for path, at in OUTSIDE.items() if at == place), f"docs/{place}"))


def on_post_build(config: Any) -> None:
    """Refuse a site that would ask another host for anything."""
    from mkdocs.exceptions import PluginError

    for page in sorted(Path(config.site_dir).rglob("*.html")):
        loaded = LOADED.findall(page.read_text(encoding="utf-8"))
        if loaded:
            raise PluginError(f"{page.relative_to(config.site_dir)} loads {loaded[0]}; the site must work without a network")
