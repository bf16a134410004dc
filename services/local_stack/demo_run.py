"""What all demos do: bring a pipeline up, play, print, and leave nothing behind."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from surescale.services.local_stack.errors import Say
    from surescale.services.local_stack.pipeline import Pipeline

P = TypeVar("P", bound="Pipeline")
R = TypeVar("R")


class Lines:
    """Prints progress on standard error, each line with the seconds since the start."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def __call__(self, line: str) -> None:
        """Print a line."""
        click.echo(f"[{time.monotonic() - self._began_s:6.1f} s] {line}", err=True)


def run_demo(
    pipeline_of: "Callable[[Say], P]",
    play: "Callable[[P, Say], R]",
    show: Callable[[R], None],
    *,
    out: Path | None,
    keep: bool,
) -> None:
    """Run a pipeline from nothing to its figures.

    Args:
        pipeline_of: makes the pipeline.
        play: returns the report of what happened from its start on.
        show: prints it.
        out: where to write the report, as JSON.
        keep: stay up at the end.
    """
    import msgspec

    from surescale.runtime.atomic_files import check_folder, write_atomically
    from surescale.runtime.signals import end_in_order
    from surescale.services.local_stack.supervisor import StopRequested

    if out:  # checked before minutes of work, not after them
        check_folder(out, option="--out")
    say, is_kept = Lines(), False
    end_in_order()  # until the pipeline handles signals itself
    try:
        with pipeline_of(say) as pipeline:
            pipeline.start()
            report = play(pipeline, say)
            if out:
                write_atomically(out, json.dumps(msgspec.to_builtins(report), indent=1) + "\n", option="--out")
            show(report)
            if keep:
                ends = pipeline.settings
                say(f"the pipeline stays up until Ctrl-C: Kafka {ends.bootstrap}, Redis {ends.redis_url}, {pipeline.http_url}")
                is_kept = True
                pipeline.supervisor.wait(lambda: False)
    except StopRequested as asked:
        click.echo("stopped; nothing is left running", err=True)
        sys.exit(0 if is_kept else asked.exit_code)  # what was asked for was done by then
