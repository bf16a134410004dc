"""``surescale reference``: write the pages that are generated from code, or say which ones are out of date."""

from pathlib import Path

import click

from contracts.errors import SurescaleError

DEFAULT_FOLDER = "docs/reference"


class OutOfDate(SurescaleError):
    """Pages differ from what the code makes; the message names them."""


@click.command("reference")
@click.option("--out", type=click.Path(path_type=Path), default=DEFAULT_FOLDER, show_default=True, help="Folder of the pages.")
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 if a page is missing, out of date, or not needed.")
def command(out: Path, check: bool) -> None:
    """Write the reference pages from the code.

    There is a page each for messages (with JSON Schema), topics, settings, metrics and commands.
    """
    made = pages()
    if check:
        if not out.is_dir():
            raise SurescaleError(f"--out: there is no folder {out}; name the one of the reference, or run this where it is")
        if stale := out_of_date(out, made):
            raise OutOfDate(f"{out}: out of date: {', '.join(stale)}; `make reference` writes them")
        click.echo(f"{out}: {len(made)} files are what the code makes")
        return
    stale = out_of_date(out, made)
    theirs = [name for name in stale if (out / name).is_file()]
    # A page that somebody altered among others is overwritten; a folder without any generated page is not the reference.
    if theirs and not any(_was_made(path, out) for path in out.glob("*.md")):
        raise SurescaleError(f"--out: {out / theirs[0]} was not made from code; name another folder, or move it")
    for name in stale:
        path = out / name
        if name in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[name], encoding="utf-8")
        else:
            path.unlink()
        click.echo(path)


def pages() -> dict[str, str]:
    """Return every page by its path below the folder. The same code gives the same bytes."""
    from services.cli import cli
    from services.tools.reference.commands import commands_page
    from services.tools.reference.messages import messages_page, schemas
    from services.tools.reference.metrics import metrics_page
    from services.tools.reference.settings import settings_page
    from services.tools.reference.topics import topics_page

    return {
        "commands.md": commands_page(cli),
        "messages.md": messages_page(),
        "metrics.md": metrics_page(),
        "settings.md": settings_page(),
        "topics.md": topics_page(),
        **dict(schemas()),
    }


def out_of_date(folder: Path, made: dict[str, str]) -> list[str]:
    """Return the sorted paths that are missing in the folder, have another text, or are no longer generated."""
    found = {path.relative_to(folder).as_posix(): path for path in _pages_in(folder)}
    changed = {name for name, text in made.items() if name not in found or found[name].read_text(encoding="utf-8") != text}
    return sorted(changed | {name for name in found.keys() - made.keys() if _was_made(found[name], folder)})


def _pages_in(folder: Path) -> list[Path]:
    from services.tools.reference.messages import SCHEMAS

    return [*folder.glob("*.md"), *folder.glob(f"{SCHEMAS}/*.json")]


def _was_made(path: Path, folder: Path) -> bool:
    """Return whether a page was generated: pages written by hand stay, even if a wrong folder was named."""
    from services.tools.reference.markdown import NOTE

    told_by = path if path.suffix == ".md" else folder / "messages.md"  # a schema cannot carry the note itself
    return told_by.is_file() and NOTE in told_by.read_text(encoding="utf-8", errors="replace")
