"""``surescale recording create``: write a pipeline's topics or jobs to one file."""

from pathlib import Path
from typing import Any

import click

from surescale.contracts.settings import PipelineSettings
from surescale.runtime import options
from surescale.runtime.instants import event_time_ms


class _EventTime(click.ParamType):
    """An instant of event time: ISO 8601 (UTC unless stated) or milliseconds since the epoch."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return event_time_ms(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a time; write 1995-08-28T08:00 or milliseconds since the epoch", param, ctx)


@click.command("create")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Topic to record whole; repeatable.")
@click.option("--job", "jobs", multiple=True, metavar="CLUSTER/NAME", help="Job to record from every topic it is on; repeatable.")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="File to write.")
@click.option("--from", "from_ms", type=_EventTime(), help="Records after this event time.")
@click.option("--until", "until_ms", type=_EventTime(), help="Records up to this event time.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@options.connected()
def command(
    settings: PipelineSettings,
    *,
    topics: tuple[str, ...],
    jobs: tuple[str, ...],
    out: Path,
    from_ms: int | None,
    until_ms: int | None,
    force: bool,
) -> None:
    """Record topics or jobs to one file.

    The file also holds the topology and the settings, and ends at what is committed now.
    """
    import time

    from surescale.runtime.atomic_files import check_new
    from surescale.runtime.signals import end_in_order
    from surescale.services.tools.recording.record import RecordingRequest, record

    if not topics and not jobs:
        raise click.UsageError("name what to record: --topic NAME or --job CLUSTER/NAME")
    check_new(out, option="--out", force=force)
    asked = RecordingRequest(topics, jobs, from_ms, until_ms)
    end_in_order()
    written = record(settings, asked, out, now_ms=round(time.time() * 1000), say=_say)
    click.echo(f"{written.records:,} records in {out}, {out.stat().st_size:,} bytes")


def _say(line: str) -> None:
    click.echo(line, err=True)
