"""The command ``surescale spark``: settings in, the job run. Holds no logic."""

import click

from runtime.options import health_port


@click.command("spark")
@click.option("--master", help="Spark master (default: SURESCALE_SPARK_MASTER, else local[*]).")
@click.option("--checkpoint", help="Folder of offsets and windows (default: SURESCALE_SPARK_CHECKPOINT).")
@click.option("--jars", help="Jars of Spark's Kafka connector: paths separated by commas, or a folder.")
@click.option("--bootstrap", help="Kafka bootstrap servers (default: SURESCALE_BOOTSTRAP).")
@click.option("--prefix", help="Stands before every topic name.")
@health_port
def command(
    master: str | None,
    checkpoint: str | None,
    jars: str | None,
    bootstrap: str | None,
    prefix: str | None,
    health_port: int | None,
) -> None:
    """Assemble rolling windows per job from raw task metrics (Spark Structured Streaming)."""
    from contracts.settings import from_environment
    from runtime.logs import set_up_logs
    from runtime.signals import stop_event
    from spark_streaming.job import Job
    from spark_streaming.settings import SparkSettings

    settings = from_environment(
        SparkSettings,
        spark_master=master,
        spark_checkpoint=checkpoint,
        spark_jars=jars,
        bootstrap=bootstrap,
        topic_prefix=prefix,
        health_port=health_port,
    )
    Job(settings, stop=stop_event(), log=set_up_logs("spark")).run()
