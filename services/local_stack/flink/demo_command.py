"""``surescale flink-demo``: a real Flink job scaled on this machine, from nothing to a table, leaving nothing behind."""

from typing import Any, Final

import click

from services.local_stack.comparison import demo

ROWS: Final = {
    "backlog_record_seconds": "backlog-seconds (records waiting x seconds)",
    "backlog_records_max": "most records waiting",
    "late": "records later than a minute",
    "subtask_minutes": "subtask-minutes",
    "rescales": "rescales",
    "stillness_s": "longest stall of the output, s",
    "records_in": "records in",
    "records_out": "records out",
    "waiting": "not read before the end",
    "missing": "missing",
    "doubled": "duplicated",
    "state_wrong": "keys with a wrong count",
}


@click.command("flink-demo")
@demo.load_options(seconds=210, seconds_min=60, mean=220.0)
@click.option("--policy", "policies", multiple=True, default=("target-utilisation", "static"), show_default=True,
              help="Policy that scales a job of its own under the same load; static: nobody does; upstream: Flink's own "
              "autoscaler. Repeatable.")  # fmt: skip
@click.option("--span-minutes", type=click.IntRange(1, 60), default=1, show_default=True,
              help="Minutes between the decisions of a rule; sure has its own, 10.")  # fmt: skip
@click.option("--slow-vertex", type=click.Choice(["parse", "count"]), default="parse", show_default=True,
              help="Vertex that does the work of a record. count is keyed, so the hottest key keeps one of its subtasks busier "
              "than the others.")  # fmt: skip
@click.option("--job-setting", "job_settings", multiple=True, metavar="NAME=VALUE",
              help="Setting of Flink for each job, like execution.checkpointing.unaligned.enabled=true. Repeatable.")  # fmt: skip
@demo.seed
@click.option("--flink", "version", type=click.Choice(["2.3.0", "2.2.1", "1.20.5"]), default="2.3.0", show_default=True,
              help="Version of Flink.")  # fmt: skip
@demo.outcome_options
def command(*, record: Any, out: Any, keep: bool, **given: Any) -> None:
    """Scale a real Flink job on this machine under a real trace.

    Fetches Flink once, starts Kafka, Redis, a Flink session cluster, a job for each policy, and surescale. Ends by
    itself with a table.
    """
    from services.local_stack.flink.options import FlinkPipelineOptions, read_job_settings
    from services.local_stack.flink.pipeline import FlinkPipeline

    given["job_settings"] = read_job_settings(given["job_settings"])
    options = FlinkPipelineOptions(**demo.load_given(given))
    demo.run(
        lambda say: FlinkPipeline(options, say),
        ROWS,
        "subtasks (source-parse-count-sink)",
        f"Flink {given['version']}",
        record=record,
        out=out,
        keep=keep,
    )
