"""``surescale topics skip``: moves a role past a record that stops it, and leaves a dead letter that says who did so and why."""

from typing import TYPE_CHECKING

import click

from contracts.errors import RecordRejected, SettingsError
from contracts.rescaler_state import memory_key
from contracts.topics import DECISIONS, RESCALER_STATE, RESCHEDULE_COMMANDS, SNAPSHOTS
from runtime import options

if TYPE_CHECKING:
    from contracts.settings import PipelineSettings

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
@options.bootstrap
@options.prefix
@options.cluster
def skip(
    topic: str,
    record: tuple[str, ...],
    role: str | None,
    why: str,
    first: int | None,
    by: str | None,
    bootstrap: str | None,
    topic_prefix: str | None,
    cluster: str | None,
) -> None:
    """Move a stopped role past the record that stops it.

    With OFFSET it goes on behind that record, with KEY a stopped rescaler forgets what is under it. The record becomes a dead
    letter that says who skipped it and why. Stop the role first.

    The role continues behind the record at OFFSET. Refused unless the role's position is exactly the first record to be skipped,
    so that no other record is passed over.

    With KEY, TOPIC is rescaler-state: a rescaler that cannot read something that it remembers names the key. A record without a
    value takes the place of the one under it, and the rescaler begins anew with that job.
    """
    from runtime.kafka_errors import readable_errors

    settings = options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster)
    if not why.strip():
        raise SettingsError("--why: give a reason, for the person who finds the dead letter")
    message = f"skipped by {options.author(by)}: {why}"
    with readable_errors(settings):
        if topic == RESCALER_STATE:
            said = _forget(settings, record, message)
        else:
            said = _pass(settings, topic, record, role, first, message)
    click.echo(said)


def _forget(settings: "PipelineSettings", record: tuple[str, ...], message: str) -> str:
    from services.tools.group_position import KeptMemory

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
    from services.tools.group_position import GroupPosition

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
