"""``surescale topics skip``: moves a role past a record that stops it, and leaves a dead letter that says who did so and why."""

import click

from contracts.errors import SettingsError
from contracts.topics import DECISIONS, RESCHEDULE_COMMANDS, SNAPSHOTS
from runtime import options

READS = {"agent": SNAPSHOTS, "rescaler": DECISIONS, "actuator": RESCHEDULE_COMMANDS}
"""The topic in which each role keeps its place with Kafka; the others keep it elsewhere."""
SKIPPED_MAX = 1_000


@click.command("skip")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offset", type=click.IntRange(min=0))
@click.option("--role", required=True, type=click.Choice(list(READS)), help="The role that the record stops.")
@click.option("--why", required=True, help="The reason, for the dead letter.")
@click.option("--from", "first", type=click.IntRange(min=0), help="Skip from this offset on (default: OFFSET alone).")
@options.by
@options.bootstrap
@options.prefix
@options.cluster
def skip(
    topic: str,
    partition: int,
    offset: int,
    role: str,
    why: str,
    first: int | None,
    by: str | None,
    bootstrap: str | None,
    topic_prefix: str | None,
    cluster: str | None,
) -> None:
    """Move a stopped role past the record at OFFSET.

    The record becomes a dead letter that says who skipped it and why; the role continues behind it. Stop the role first. Refused
    unless the role's position is exactly the first record to be skipped, so that no other record is passed over.
    """
    from runtime.kafka_errors import readable_errors
    from services.tools.group_position import GroupPosition

    settings = options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster)
    if topic != READS[role]:
        raise SettingsError(f"TOPIC: the {role} keeps its position in {READS[role]}, not in {topic!r}")
    begin = offset if first is None else first
    if not begin <= offset < begin + SKIPPED_MAX:
        raise SettingsError(f"--from: set at most {offset}, and at most {SKIPPED_MAX} records before it")
    if not why.strip():
        raise SettingsError("--why: give a reason, for the person who finds the dead letter")
    with readable_errors(settings):
        position = GroupPosition(settings, role, topic, partition)
        position.check(begin, offset)
        letters = position.letters(begin, offset, f"skipped by {options.author(by)}: {why}")
        position.write(letters)
        position.move(offset + 1)
    click.echo(f"{len(letters)} records of {topic}[{partition}] skipped; the {role} continues at {offset + 1}")
