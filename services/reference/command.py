"""``surescale reference``: write the pages that are made from code, or say which of them are out of date."""

from pathlib import Path

import click

from contracts.errors import SurescaleError

DEFAULT_FOLDER = "docs/reference"


class OutOfDate(SurescaleError):
    """Pages differ from what the code makes; the message names them."""


@click.command("reference")
@click.option("--output", type=click.Path(path_type=Path), default=DEFAULT_FOLDER, show_default=True, help="Folder of the pages.")
@click.option("--check", is_flag=True, help="Write nothing; exit code 1 if a page is missing, superfluous or out of date.")
def command(output: Path, check: bool) -> None:
    """Write messages (with JSON Schema), topics, settings, metrics and commands as pages, from the code itself."""
    made = pages()
    if check:
        if stale := out_of_date(output, made):
            raise OutOfDate(f"{output}: out of date: {', '.join(stale)}; `make reference` writes them")
        click.echo(f"{output}: {len(made)} files are what the code makes")
        return
    stale = out_of_date(output, made)
    theirs = [name for name in stale if (output / name).is_file()]
    # One page that somebody altered among others is put right; a folder without any that was made is not the reference's.
    if theirs and not any(_was_made(path, output) for path in output.glob("*.md")):
        raise SurescaleError(f"--output: {output / theirs[0]} was not made from code; name another folder, or move it")
    for name in stale:
        path = output / name
        if name in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[name], encoding="utf-8")
        else:
            path.unlink()
        click.echo(path)


def pages() -> dict[str, str]:
    """Return every page by its path below the folder. The same code gives the same bytes."""
    from services.cli import cli
    from services.reference.commands import commands_page
    from services.reference.messages import messages_page, schemas
    from services.reference.metrics import metrics_page
    from services.reference.settings import settings_page
    from services.reference.topics import topics_page

    return {
        "commands.md": commands_page(cli),
        "messages.md": messages_page(),
        "metrics.md": metrics_page(),
        "settings.md": settings_page(),
        "topics.md": topics_page(),
        **dict(schemas()),
    }


def out_of_date(folder: Path, made: dict[str, str]) -> list[str]:
    """Return the paths, sorted, that are missing in the folder, have another text, or are not made any more."""
    found = {path.relative_to(folder).as_posix(): path for path in _pages_in(folder)}
    changed = {name for name, text in made.items() if name not in found or found[name].read_text(encoding="utf-8") != text}
    return sorted(changed | {name for name in found.keys() - made.keys() if _was_made(found[name], folder)})


def _pages_in(folder: Path) -> list[Path]:
    from services.reference.messages import SCHEMAS

    return [*folder.glob("*.md"), *folder.glob(f"{SCHEMAS}/*.json")]


def _was_made(path: Path, folder: Path) -> bool:
    """Say whether a page was made from code: what somebody wrote is left alone, whatever folder was named by a slip."""
    from services.reference.markdown import NOTE

    told_by = path if path.suffix == ".md" else folder / "messages.md"  # a schema cannot tell it itself
    return told_by.is_file() and NOTE in told_by.read_text(encoding="utf-8", errors="replace")
