"""The command ``surescale policy export``."""

from pathlib import Path

import click


@click.command()
@click.option(
    "--workload",
    "workloads",
    multiple=True,
    default=("clarknet", "nasa"),
    show_default=True,
    help="Load by name or CSV file, whose first week counts; repeatable. The rule forecast is fitted to the first one.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("policies/models"),
    show_default=True,
    help="Folder that gets the package.",
)
@click.option("--name", default="sure", show_default=True, help="Name of the policy and of its folder.")
@click.option(
    "--scores/--no-scores",
    default=True,
    show_default=True,
    help="Judge the package on the second week of clarknet and write scores.json (takes minutes).",
)
def export(workloads: tuple[str, ...], out: Path, name: str, scores: bool) -> None:
    """Fit the forecast of sure to loads, as a package.

    It takes seconds. The constants of the plan, and those of the rule forecast that are not fitted, are those that ship.
    """
    from surescale.model_export.export import export_package
    from surescale.model_export.scores import score_package

    package = export_package(workloads, out, name)
    click.echo(f"wrote {package}")
    if scores:
        score_package(package, click.echo)
