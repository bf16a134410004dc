"""``surescale cluster show``: a cluster's workers, parallel units and fragments, as a table for people or as JSON."""

from collections.abc import Iterable, Iterator
from itertools import groupby

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from surescale.contracts.plurals import counted
from surescale.runtime import options, terminal
from surescale.services.state.fleet_documents import ClusterInfo, FragmentDocument, WorkerDocument


@click.command("show")
@click.argument("cluster", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the `cluster` of a request to surescale dev reschedule.")
@options.redis_url
@options.prefix
def command(cluster: str | None, as_json: bool, redis_url: str | None, topic_prefix: str | None) -> None:
    """Show workers, units and fragments of CLUSTER.

    Without CLUSTER shows the only one there is. Reads the view in Redis, which `surescale run state-service` keeps.
    """
    from surescale.services.state.quick_reader import opened_to_look
    from surescale.services.state.read.queries import Queries
    from surescale.services.state.read.tables import print_json

    settings = options.pipeline_settings(redis_url=redis_url, topic_prefix=topic_prefix)
    with opened_to_look(settings) as reader:
        queries = Queries(reader, settings.topic_prefix)
        document = queries.cluster_info(cluster if cluster is not None else queries.only_cluster())
    if as_json:
        print_json(document)
    else:
        print_info(document)


_MARGIN = 3  # border and padding of a column


def print_info(info: ClusterInfo, console: Console | None = None) -> None:
    """Print workers, then per job a matrix: a row per fragment, a column per worker, and the units it occupies there."""
    console = console or terminal.console()
    console.print(terminal.plain(_headline(info)))
    if not info.workers:
        console.print("No worker offers units.")
        return
    console.print(_workers(info))
    for job, fragments in groupby(info.fragments, key=lambda fragment: fragment.job):
        for matrix in _matrices(job, list(fragments), info.workers, console.width):
            console.print(matrix)
    if info.jobs_without_units:
        console.print(terminal.plain(f"without units: {', '.join(info.jobs_without_units)}"))
    if info.unknown_units:
        console.print(f"no longer on any worker: units {ranges(info.unknown_units)}", markup=False)
    if info.unreadable_jobs:
        console.print(terminal.plain(f"cannot be read and left out: {', '.join(info.unreadable_jobs)}"))


def ranges(units: Iterable[int]) -> str:
    """Return numbers as ascending ranges: ``0-3,7``."""
    # Within a run of neighbours, number minus position stays the same.
    runs = groupby(enumerate(sorted(units)), key=lambda pair: pair[1] - pair[0])
    bounds = [[unit for _, unit in run] for _, run in runs]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in bounds)


def _headline(info: ClusterInfo) -> str:
    units = sum(len(worker.parallel_units) for worker in info.workers)
    used = len({unit for fragment in info.fragments for unit in fragment.parallel_units} - set(info.unknown_units))
    return (
        f"{info.cluster}: generation {info.generation}, {counted(len(info.workers), 'worker')}, "
        f"{used} of {counted(units, 'unit')} in use, "
        f"{counted(len(info.fragments), 'fragment')}, {counted(info.vnodes, 'vnode')}"
    )


def _workers(info: ClusterInfo) -> Table:
    used = {unit for fragment in info.fragments for unit in fragment.parallel_units}
    table = Table("worker", "host", "state", "units", "in use", "fragments")
    for worker in info.workers:
        own = set(worker.parallel_units)
        fragments = sum(not own.isdisjoint(fragment.parallel_units) for fragment in info.fragments)
        state = Text(worker.state.replace("_", " "), style="yellow" if worker.state != "running" else "")
        cells = [ranges(own), f"{len(own & used)} of {len(own)}", str(fragments)]
        table.add_row(str(worker.id), terminal.plain(worker.host), state, *cells)
    return table


def _matrices(job: str, fragments: list[FragmentDocument], workers: Iterable[WorkerDocument], width: int) -> Iterator[Table]:
    """Yield the job's matrix, split into as many as fit the width; workers that the job does not use are left out."""
    used = {unit for fragment in fragments for unit in fragment.parallel_units}
    columns = [(worker.host, set(worker.parallel_units)) for worker in workers if used & set(worker.parallel_units)]
    names = [_name(fragment) for fragment in fragments]
    first = max(len(name) for name in [*names, job])
    left = width - first - 2 * _MARGIN - len("units") - 1
    while columns:
        chosen = _fitting(columns, fragments, left)
        table = Table()
        for title in (job, "units", *[host for host, _ in columns[:chosen]]):
            table.add_column(terminal.plain(title))
        for name, fragment in zip(names, fragments, strict=True):
            cells = [ranges(own & set(fragment.parallel_units)) for _, own in columns[:chosen]]
            table.add_row(terminal.plain(name), str(len(fragment.parallel_units)), *cells)
        yield table
        columns = columns[chosen:]


def _fitting(columns: list[tuple[str, set[int]]], fragments: list[FragmentDocument], left: int) -> int:
    """Return how many of the columns fit, at least one."""
    for count, (host, own) in enumerate(columns):
        left -= max(len(host), *(len(ranges(own & set(fragment.parallel_units))) for fragment in fragments)) + _MARGIN
        if left < 0:
            return max(1, count)
    return len(columns)


def _name(fragment: FragmentDocument) -> str:
    kind = ["single"] * (fragment.distribution == "single") + ["stateful"] * fragment.stateful
    return f"{fragment.task} ({', '.join(kind)})" if kind else fragment.task
