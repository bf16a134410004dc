"""`surescale bench placement`: the paper's placement comparison, reproduced in a model, as Markdown."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("placement")
@click.option(
    "--write",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Also write the tables into this Markdown file, between its bench-placement markers.",
)
def command(write: Path | None) -> None:
    """Compare every placement algorithm on the paper's cluster, ours beside the paper's figures.

    Takes a few seconds. Seeds are fixed: every run prints the same.
    """
    from rescaler.placement.report import comparison

    text = comparison()
    if write is not None:
        write.write_text(between_markers(write.read_text(encoding="utf-8"), text), encoding="utf-8")
    click.echo(text, nl=False)


def between_markers(page: str, text: str, name: str = "bench-placement") -> str:
    """`page` with the part between the markers of `name` replaced by `text`. Raises click.ClickException without them."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, opened, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise click.ClickException(f"the file needs the lines {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n{end}{after}"
