"""``surescale topics``: the topics, who may use them, and the way past a record that stops a role."""

from typing import TYPE_CHECKING

import click

from contracts.errors import SettingsError
from contracts.topics import TOPICS
from runtime import options
from services.tools.topic_acls import acls
from services.tools.topic_grants import grant
from services.tools.topic_skip import skip

if TYPE_CHECKING:
    from contracts.settings import PipelineSettings


@click.group("topics")
def command() -> None:
    """List, create or authorise topics, or skip a record."""


command.add_command(acls)
command.add_command(grant)
command.add_command(skip)


@command.command("create")
@click.option(
    "--job-partitions",
    type=int,
    help="Partitions of topics keyed by job: as many agents can share them (default: SURESCALE_JOB_PARTITIONS, else 4).",
)
@click.option(
    "--cluster-partitions",
    type=int,
    help="Partitions of topics keyed by cluster (default: SURESCALE_CLUSTER_PARTITIONS, else 2).",
)
@click.option(
    "--retention-hours",
    type=int,
    help="Hours that records of topics kept by time stay (default: SURESCALE_RETENTION_HOURS, else 168).",
)
@options.bootstrap
@options.prefix
def create(**given: object) -> None:
    """Create every topic that does not exist yet.

    Those that do stay as they are.
    """
    from contracts.topic_settings import TopicSettings
    from runtime.kafka import create_topics
    from runtime.kafka_errors import readable_errors

    settings = options.settings_of(TopicSettings, **given)
    with readable_errors(settings):
        created = create_topics(settings, settings.topics())
    click.echo(f"{len(created)} topics created, {len(TOPICS) - len(created)} were there")


@command.command("list")
@click.option("--check", is_flag=True, help="Ask Kafka which of them exist; exit code 1 if one is missing.")
@options.bootstrap
@options.prefix
def show(*, check: bool, bootstrap: str | None, topic_prefix: str | None) -> None:
    """Print the table of topics."""
    from contracts.topic_settings import TopicSettings
    from runtime import terminal
    from runtime.terminal import Column, fitting

    settings = options.settings_of(TopicSettings, bootstrap=bootstrap, topic_prefix=topic_prefix)
    topics = settings.topics()
    there = _partitions_in_kafka(settings) if check else {}
    in_kafka = [_partitions_in_words(there.get(topic.name), topic.partitions) if check else "" for topic in topics]
    columns = (
        Column("topic", [topic.name for topic in topics], rank=1),
        Column("in Kafka", in_kafka, rank=1),
        Column("key", [topic.key for topic in topics], rank=3),
        Column("kept", [topic.kept for topic in topics], rank=2),
        Column("written by", [", ".join(topic.written_by) for topic in topics], rank=4),
        Column("carries", [topic.carries for topic in topics]),
        Column("partitions", [str(topic.partitions) for topic in topics], right=True, rank=5),
    )
    console = terminal.console()
    console.print(fitting(columns, console.width))
    missing = sum(topic.name not in there for topic in topics)
    if check and missing:
        prefix = f" --prefix {settings.topic_prefix}" if settings.topic_prefix else ""
        raise SettingsError(f"{missing} topics are missing; create them with `surescale topics create{prefix}`")


def _partitions_in_kafka(settings: "PipelineSettings") -> dict[str, int]:
    """Return how many partitions each of the topics has, by its name in the table; without those that do not exist.

    Raises:
        ConnectionError: Kafka does not answer.
    """
    from contracts.topics import TopicNames
    from runtime.kafka import REQUEST_TIMEOUT_S, admin_client
    from runtime.kafka_errors import readable_errors

    full = TopicNames(settings.topic_prefix)
    with readable_errors(settings):
        known = admin_client(settings).list_topics(timeout=REQUEST_TIMEOUT_S).topics
    return {name: len(known[full(name)].partitions) for name in TOPICS if full(name) in known}


def _partitions_in_words(partitions: int | None, wanted: int) -> str:
    if partitions is None:
        return "missing"
    return "yes" if partitions == wanted else f"{partitions} partitions"
