"""``surescale topics acls``: the least rights of each role, as ``kafka-acls`` commands or as JSON."""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import click

from contracts.access import ROLES, Right, Role, rights
from contracts.errors import SettingsError
from runtime import options

PRINCIPAL = "User:surescale-{role}"


@click.command("acls")
@options.bootstrap
@options.prefix
@options.cluster
@click.option("--role", "wanted", type=click.Choice(ROLES), multiple=True, help="Only this role; repeatable.")
@click.option(
    "--principal",
    "named",
    multiple=True,
    metavar="ROLE=PRINCIPAL",
    help="Principal of a role, as Kafka names it; repeatable (default: ROLE=User:surescale-ROLE).",
)
@click.option("--http-operate", is_flag=True, help="With the rights that the state service needs to pause, resume and approve.")
@click.option("--notify", is_flag=True, help="With the rights that the state service needs to tell a webhook what happens.")
@options.as_json
def acls(
    bootstrap: str | None,
    topic_prefix: str | None,
    cluster: str | None,
    wanted: tuple[Role, ...],
    named: tuple[str, ...],
    http_operate: bool,
    notify: bool,
    as_json: bool,
) -> None:
    """Print the least rights that each role needs on Kafka.

    Prints commands of Kafka's own tool, and asks no broker. With exactly these rights every role works, and no other principal
    can write to its topics. Creating the topics needs the right Create, which no role has.
    """
    settings = options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster)
    needed = rights(settings.topic_prefix, settings.cluster, http_operate=http_operate, notify=notify)
    found = [right for right in needed if not wanted or right.role in wanted]
    principals = principals_of(named)
    if as_json:
        click.echo(json.dumps([document(right, principals) for right in found], indent=2))
        return
    for line in commands(found, principals, settings.bootstrap):
        click.echo(line)


def document(right: Right, principals: Mapping[str, str]) -> dict[str, str]:
    """Return one right as JSON."""
    return {
        "role": right.role,
        "principal": principals[right.role],
        "resource": right.resource,
        "name": right.name,
        "operation": right.operation,
    }


def commands(found: Iterable[Right], principals: Mapping[str, str], bootstrap: str) -> Sequence[str]:
    """Return one command line a role and resource, quoted for a shell."""
    lines = []
    for (role, resource, name), group in groupby(sorted(found), key=lambda right: (right.role, right.resource, right.name)):
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--add", "--allow-principal", principals[role]]
        for right in group:
            words += ["--operation", right.operation]
        lines.append(shlex.join([*words, f"--{resource}", name]))
    return lines


def principals_of(named: Iterable[str]) -> dict[str, str]:
    """Return the principal of every role; ``named`` are like ``monitor=User:monitor``.

    Raises:
        SettingsError: one is not.
    """
    principals: dict[str, str] = {role: PRINCIPAL.format(role=role) for role in ROLES}
    for text in named:
        role, equals, principal = text.partition("=")
        if role not in principals or not equals or ":" not in principal:
            raise SettingsError(
                f"--principal: {text!r} is not ROLE=PRINCIPAL; name one of {', '.join(ROLES)}, as in monitor=User:monitor"
            )
        principals[role] = principal
    return principals
