"""The command ``surescale run spark``: settings in, the job run. Holds no logic."""

import click

from surescale.runtime import options


@click.command("spark")
@click.option("--master", "spark_master", help="Spark master (default: SURESCALE_SPARK_MASTER, else local[*]).")
@click.option(
    "--checkpoint", "spark_checkpoint", help="Folder or URL of windows and offsets (default: SURESCALE_SPARK_CHECKPOINT)."
)
@click.option("--jars", "spark_jars", help="Jars of Spark's Kafka connector: paths separated by commas, or a folder.")
@options.bootstrap
@options.prefix
@options.health_port
def command(**given: str | int | None) -> None:
    """Assemble each job's rolling windows from task metrics.

    Runs as one Spark Structured Streaming job, from the topic task-metrics to the topic snapshots.
    """
    from surescale.contracts.settings import from_environment
    from surescale.runtime.logs import set_up_logs
    from surescale.runtime.signals import stop_event
    from surescale.spark_streaming.settings import SparkSettings
    from surescale.spark_streaming.streaming_job import Job

    settings = from_environment(SparkSettings, **given)
    Job(settings, stop=stop_event(), log=set_up_logs("spark")).run()
