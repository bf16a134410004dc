"""`surescale bench placement`: the paper's placement comparison, reproduced in a model, as Markdown with its plots."""

from __future__ import annotations

from pathlib import Path

import click

PLOTS = "figures"
"""Folder of the plots, beside the page that shows them."""


@click.command("placement")
@click.option(
    "--write",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"Also write the tables into this Markdown file, between its markers, and the plots into {PLOTS}/ beside it.",
)
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path), help="Write the plots into this folder, as SVG.")
@click.option("--scale", is_flag=True, help="Also measure 10,000 subtasks on 1,000 hosts: minutes; needs scipy.")
@click.option("--scale-only", is_flag=True, help="Measure that alone.")
def command(write: Path | None, plots: Path | None, scale: bool, scale_only: bool) -> None:
    """Compare every placement algorithm on the paper's cluster, ours beside the paper's figures.

    Takes a few seconds. Seeds are fixed: every run prints the same, but for the times of --scale.
    """
    from rescaler.bench import placement_charts, placement_scale
    from rescaler.placement.report import all_outcomes, comparison

    texts: dict[str, str] = {}
    drawn: dict[str, str] = {}
    if not scale_only:
        outcomes = all_outcomes()
        texts["bench-placement"] = comparison(outcomes)
        drawn |= placement_charts.plots(outcomes)
    if scale or scale_only:
        growth = placement_scale.growth()
        texts["benchmarks-placement"] = placement_scale.report(growth)
        drawn["placement-growth.svg"] = placement_scale.growth_plot(growth)
    if write is not None:
        plots = plots or write.parent / PLOTS
        page = write.read_text(encoding="utf-8")
        for name, text in texts.items():
            page = between_markers(page, text, name)
        write.write_text(page, encoding="utf-8")
    if plots is not None:
        plots.mkdir(parents=True, exist_ok=True)
        for name, svg in drawn.items():
            (plots / name).write_text(svg, encoding="utf-8")
    click.echo("\n".join(texts.values()), nl=False)


def between_markers(page: str, text: str, name: str = "bench-placement") -> str:
    """`page` with the part between the markers of `name` replaced by `text`. Raises click.ClickException without them."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, opened, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise click.ClickException(f"the file needs the lines {begin} and {end}")
    return f"{before}{begin}\n\n{text}\n{end}{after}"
