"""``surescale demo jobs``: the job graphs and loads that come with surescale, for `demo`, `engine`, `twin` and `evaluate`."""

import json

import click

from surescale.runtime import options

SHOWN = 20


@click.command("jobs")
@click.argument("text", required=False, metavar="[PART OF A NAME]")
@click.option("--all", "every", is_flag=True, help=f"Show all of them, not only the {SHOWN} largest.")
@options.as_json
def command(text: str | None, every: bool, as_json: bool) -> None:
    """List the jobs and workloads that are shipped.

    The largest jobs come first; random-7 draws another one. The workloads clarknet and nasa are real, the others are drawn:
    steps@3 is another draw of steps.
    """
    from surescale.contracts.topology import levels
    from surescale.runtime import terminal
    from surescale.runtime.terminal import Column, fitting
    from surescale.simulation.load.graphs import job_names, load_graph
    from surescale.simulation.load.workload import workload_names

    graphs = [load_graph(name) for name in job_names() if text is None or text in name]
    graphs.sort(key=lambda graph: (-graph.size, graph.name))
    rows = [
        {"job": graph.name, "tasks": graph.size - 2, "levels": max(levels(graph.specs())) - 1, "stateful": sum(graph.stateful)}
        for graph in graphs
    ]
    if as_json:
        click.echo(json.dumps({"jobs": rows, "workloads": workload_names()}, indent=2))
        return
    shown = rows if every or text else rows[:SHOWN]
    if rows:
        columns = (Column(title, [str(row[title]) for row in shown], right=title != "job") for title in rows[0])
        console = terminal.console()
        console.print(fitting(columns, console.width))
    else:
        click.echo(f"no job has {text!r} in its name")
    if len(rows) > len(shown):
        click.echo(f"and {len(rows) - len(shown)} more (--all)")
    click.echo(f"workloads: {', '.join(workload_names())}")
