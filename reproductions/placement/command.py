"""`surescale dev bench placement`: the paper's placement comparison, run again in a model, as Markdown with plots."""

from __future__ import annotations

from pathlib import Path

import click

PLOTS = "figures"
"""Folder of the plots, beside the page that shows them."""
PAPER_PART, SCALE_PART = "bench-placement", "benchmarks-placement"
"""Parts of the page, by the names of their markers."""


@click.command("placement")
@click.option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"Update the tables in this Markdown page, between its markers, and the plots in {PLOTS}/ beside it.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write the plots to this folder, as SVG.")
@click.option("--scale", is_flag=True, help="Also measure 10,000 subtasks on 1,000 hosts (takes minutes).")
@click.option("--scale-only", is_flag=True, help="Measure only that.")
def command(page: Path | None, out: Path | None, scale: bool, scale_only: bool) -> None:
    """The tables of the placement paper next to ours.

    Runs every placement algorithm on the paper's cluster. Takes a few seconds. Seeds are fixed, so every run prints the same,
    except for the times of --scale.
    """
    from benchmarks import placement_scale
    from benchmarks.markdown import read_page, with_part
    from reproductions.placement import charts
    from reproductions.placement.report import comparison, results_by_job

    measures = scale or scale_only
    parts = [*([] if scale_only else [PAPER_PART]), *([SCALE_PART] if measures else [])]
    content = "" if page is None else read_page(page, parts)
    texts: dict[str, str] = {}
    drawn: dict[str, str] = {}
    if not scale_only:
        results = results_by_job()
        texts[PAPER_PART] = comparison(results)
        drawn |= charts.plots(results)
    if measures:
        growth = placement_scale.growth()
        texts[SCALE_PART] = placement_scale.report(growth)
        drawn["placement-growth.svg"] = placement_scale.growth_plot(growth)
    if page is not None:
        out = out or page.parent / PLOTS
        for name, text in texts.items():
            content = with_part(content, name, text)
        page.write_text(content, encoding="utf-8")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for name, svg in drawn.items():
            (out / name).write_text(svg, encoding="utf-8")
    click.echo("\n".join(texts.values()), nl=False)
