"""``surescale topics``: the topics, who may use them, and the way past a record that stops a role."""

from typing import TYPE_CHECKING

import click

from surescale.contracts.errors import RecordRejected, SettingsError
from surescale.contracts.free_text import checked_text
from surescale.contracts.plurals import counted
from surescale.contracts.rescaler_state import memory_key
from surescale.contracts.topics import DECISIONS, RESCALER_STATE, RESCHEDULE_COMMANDS, SNAPSHOTS, TOPICS
from surescale.runtime import options
from surescale.services.tools.topic_grants import acls, grant

if TYPE_CHECKING:
    from surescale.contracts.settings import PipelineSettings


READS = {"agent": SNAPSHOTS, "rescaler": DECISIONS, "actuator": RESCHEDULE_COMMANDS}
"""The topic in which each role keeps its place with Kafka; the others keep it elsewhere."""
SKIPPED_MAX = 1_000


@click.command("skip")
@click.argument("topic")
@click.argument("record", nargs=-1, required=True, metavar="PARTITION OFFSET|KEY")
@click.option("--role", type=click.Choice(list(READS)), help="The role that the record at OFFSET stops.")
@click.option("--why", required=True, help="The reason, for the dead letter.")
@click.option("--from", "first", type=click.IntRange(min=0), help="Skip from this offset on (default: OFFSET alone).")
@options.by
@options.connected(options.cluster)
def skip(
    settings: "PipelineSettings",
    topic: str,
    record: tuple[str, ...],
    role: str | None,
    why: str,
    first: int | None,
    by: str | None,
) -> None:
    """Move a stopped role past the record that stops it.

    With OFFSET it goes on behind that record, with KEY a stopped rescaler forgets what is under it. The record becomes a dead
    letter that says who skipped it and why. Stop the role first.

    The role continues behind the record at OFFSET. Refused unless the role's position is exactly the first record to be skipped,
    so that no other record is passed over.

    With KEY, TOPIC is rescaler-state: a rescaler that cannot read something that it remembers names the key. A record without a
    value takes the place of the one under it, and the rescaler begins anew with that job.
    """
    from surescale.runtime.kafka_errors import readable_errors

    message = f"skipped by {options.author(by)}: {checked_text('--why', why)}"
    with readable_errors(settings):
        if topic == RESCALER_STATE:
            said = _forget(settings, record, message)
        else:
            said = _pass(settings, topic, record, role, first, message)
    click.echo(said)


def _forget(settings: "PipelineSettings", record: tuple[str, ...], message: str) -> str:
    from surescale.services.tools.group_position import KeptMemory

    if len(record) != 1:
        raise SettingsError(f"KEY: name one key of {RESCALER_STATE}, such as sim/job/sim/clicks; the rescaler's log has it")
    try:
        key = memory_key(record[0].encode(errors="surrogateescape"))
    except RecordRejected as error:
        raise SettingsError(f"KEY: {error.message}, so no rescaler reads it") from None
    KeptMemory(settings, key).forget(message)
    return f"{key} skipped; the rescaler of cluster {key.cluster} begins without it"


def _pass(
    settings: "PipelineSettings", topic: str, record: tuple[str, ...], role: str | None, first: int | None, message: str
) -> str:
    from surescale.services.tools.group_position import GroupPosition

    if role is None:
        raise SettingsError(f"--role: name the role that the record stops, one of {', '.join(READS)}")
    if topic != READS[role]:
        raise SettingsError(f"TOPIC: the {role} keeps its position in {READS[role]}, not in {topic!r}")
    partition, offset = _place(record)
    begin = offset if first is None else first
    if not begin <= offset < begin + SKIPPED_MAX:
        raise SettingsError(f"--from: set at most {offset}, and at most {SKIPPED_MAX} records before it")
    position = GroupPosition(settings, role, topic, partition)
    position.check(begin, offset)
    letters = position.letters(begin, offset, message)
    position.write(letters)
    position.move(offset + 1)
    return f"{len(letters)} records of {topic}[{partition}] skipped; the {role} continues at {offset + 1}"


def _place(record: tuple[str, ...]) -> tuple[int, int]:
    if len(record) != 2 or not all(each.isascii() and each.isdecimal() and len(each) < 19 for each in record):
        raise SettingsError(f"PARTITION OFFSET: {' '.join(record)!r} are not two numbers, such as 0 17")
    return int(record[0]), int(record[1])


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
@click.option(
    "--replicas",
    type=int,
    help="Brokers that keep each record (default: SURESCALE_REPLICAS, else the broker's default.replication.factor).",
)
@click.option(
    "--leave",
    metavar="SETTING",
    multiple=True,
    help="Leave a setting to a broker that does not let one set it, repeatedly: compression.type, max.message.bytes, "
    "min.cleanable.dirty.ratio or min.insync.replicas (default: SURESCALE_TOPICS_LEAVE).",
)
@options.bootstrap
@options.prefix
def create(*, leave: tuple[str, ...], **given: object) -> None:
    """Create every topic that does not exist yet.

    Those that do stay as they are. If the broker refuses one, none is created.
    """
    from surescale.contracts.topics import LEFT_TO_THE_BROKER, TopicSettings
    from surescale.runtime.kafka import create_topics, kept_once
    from surescale.runtime.kafka_errors import readable_errors

    settings = options.settings_of(TopicSettings, topics_leave=",".join(leave) or None, **given)
    with readable_errors(settings):
        created = create_topics(settings, settings.topics())
        once = kept_once(settings)
    kept = len(TOPICS) - len(created)
    click.echo(f"{counted(len(created), 'topic')} created, {kept} {'was' if kept == 1 else 'were'} there")
    for name in sorted(settings.left):
        click.echo(f"{name} is left to the broker: {LEFT_TO_THE_BROKER[name]}; set SURESCALE_TOPICS_LEAVE for `surescale doctor`")
    if once:
        click.echo(f"{len(once)} topics are on one broker each, and lost with it; --replicas 3 makes new ones with more copies")


@command.command("list")
@click.option("--check", is_flag=True, help="Ask Kafka which of them exist; exit code 1 if one is missing.")
@options.bootstrap
@options.prefix
def show(*, check: bool, bootstrap: str | None, topic_prefix: str | None) -> None:
    """Print the table of topics."""
    from surescale.contracts.topics import TopicSettings
    from surescale.runtime import terminal
    from surescale.runtime.terminal import Column, fitting

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
        raise SettingsError(f"{counted(missing, 'topic')} missing; create what is missing with `surescale topics create{prefix}`")


def _partitions_in_kafka(settings: "PipelineSettings") -> dict[str, int]:
    """Return how many partitions each of the topics has, by its name in the table; without those that do not exist.

    Raises:
        ConnectionError: Kafka does not answer.
    """
    from surescale.contracts.topics import TopicNames
    from surescale.runtime.kafka import REQUEST_TIMEOUT_S, admin_client
    from surescale.runtime.kafka_errors import readable_errors

    full = TopicNames(settings.topic_prefix)
    with readable_errors(settings):
        known = admin_client(settings).list_topics(timeout=REQUEST_TIMEOUT_S).topics
    return {name: len(known[full(name)].partitions) for name in TOPICS if full(name) in known}


def _partitions_in_words(partitions: int | None, wanted: int) -> str:
    if partitions is None:
        return "missing"
    return "yes" if partitions == wanted else counted(partitions, "partition")
