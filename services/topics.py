"""``surescale topics``: create the road's topics and show the table they come from."""

import click

from contracts.settings import RoadSettings, from_environment
from contracts.topics import TOPICS


@click.group("topics")
def command() -> None:
    """Create the road's topics, or list them."""


@command.command("create")
@click.option("--bootstrap", help="Kafka bootstrap servers (default: SURESCALE_BOOTSTRAP).")
@click.option("--prefix", help="Stands before every topic name.")
def create(bootstrap: str | None, prefix: str | None) -> None:
    """Create every topic that does not exist yet."""
    from confluent_kafka import KafkaException

    from runtime.kafka import create_topics

    settings = from_environment(RoadSettings, bootstrap=bootstrap, topic_prefix=prefix)
    try:
        created = create_topics(settings)
    except KafkaException as error:
        raise ConnectionError(f"Kafka at {settings.bootstrap} refused or did not answer: {error}") from None
    click.echo(f"{len(created)} topics created, {len(TOPICS) - len(created)} were there")


@command.command("list")
def show() -> None:
    """Print the table of topics."""
    from rich.console import Console
    from rich.table import Table

    table = Table("topic", "key", "kept", "written by", "carries", "partitions")
    for topic in TOPICS.values():
        table.add_row(topic.name, topic.key, topic.kept, ", ".join(topic.written_by), topic.carries, str(topic.partitions))
    Console().print(table)
