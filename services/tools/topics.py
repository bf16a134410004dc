"""``surescale topics``: the topics, who may use them, and the way past a record that stops a role."""

import click

from contracts.topics import TOPICS
from runtime import options
from services.tools.topic_acls import acls
from services.tools.topic_skip import skip


@click.group("topics")
def command() -> None:
    """List, create or authorise topics, or skip a record."""


command.add_command(acls)
command.add_command(skip)


@command.command("create")
@options.bootstrap
@options.prefix
def create(bootstrap: str | None, topic_prefix: str | None) -> None:
    """Create every topic that does not exist yet."""
    from runtime.kafka import create_topics
    from runtime.kafka_errors import readable_errors

    settings = options.road_settings(bootstrap=bootstrap, topic_prefix=topic_prefix)
    with readable_errors(settings):
        created = create_topics(settings)
    click.echo(f"{len(created)} topics created, {len(TOPICS) - len(created)} were there")


@command.command("list")
def show() -> None:
    """Print the table of topics."""
    from runtime import terminal
    from runtime.terminal import Column, fitting

    topics = TOPICS.values()
    columns = (
        Column("topic", [topic.name for topic in topics], rank=1),
        Column("key", [topic.key for topic in topics], rank=3),
        Column("kept", [topic.kept for topic in topics], rank=2),
        Column("written by", [", ".join(topic.written_by) for topic in topics], rank=4),
        Column("carries", [topic.carries for topic in topics]),
        Column("partitions", [str(topic.partitions) for topic in topics], right=True, rank=5),
    )
    console = terminal.console()
    console.print(fitting(columns, console.width))
