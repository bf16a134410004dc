"""``surescale topics``: create the road's topics and show the table they come from."""

import click

from contracts.topics import TOPICS
from services import options


@click.group("topics")
def command() -> None:
    """Create the road's topics, or list them."""


@command.command("create")
@options.bootstrap
@options.prefix
def create(bootstrap: str | None, prefix: str | None) -> None:
    """Create every topic that does not exist yet."""
    from runtime.kafka import create_topics
    from services.road_topics import readable

    settings = options.road_settings(bootstrap=bootstrap, prefix=prefix)
    with readable(settings):
        created = create_topics(settings)
    click.echo(f"{len(created)} topics created, {len(TOPICS) - len(created)} were there")


@command.command("list")
def show() -> None:
    """Print the table of topics."""
    from rich.table import Table

    from services import screens

    table = Table("topic", "key", "kept", "written by", "carries", "partitions")
    for topic in TOPICS.values():
        table.add_row(topic.name, topic.key, topic.kept, ", ".join(topic.written_by), topic.carries, str(topic.partitions))
    screens.console().print(table)
