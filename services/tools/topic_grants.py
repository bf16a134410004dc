"""The least rights of each role on Kafka, as ``kafka-acls`` commands, JSON or IAM policies; ``topics grant`` gives them."""

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surescale.contracts.access import ROLES, Operation, Resource, Right, Role, rights
from surescale.contracts.errors import SettingsError, reason_of
from surescale.contracts.foreign_files import contents
from surescale.runtime import options
from surescale.runtime.kafka_security import uses_iam

if TYPE_CHECKING:
    from surescale.contracts.settings import PipelineSettings

PRINCIPAL = "User:surescale-{role}"


_role = click.option("--role", "wanted", type=click.Choice(ROLES), multiple=True, help="Only this role; repeatable.")
_more_rights = options.grouped(
    click.option(
        "--http-operate",
        is_flag=True,
        help="With what the state service needs to change settings: over HTTP, or as ScaledStreams say.",
    ),
    click.option("--notify", is_flag=True, help="With the rights that the state service needs to tell a webhook what happens."),
)


@click.command("acls")
@options.connected(options.cluster)
@_role
@click.option(
    "--principal",
    "named",
    multiple=True,
    metavar="ROLE=PRINCIPAL",
    help="Principal of a role, as Kafka names it; repeatable (default: ROLE=User:surescale-ROLE).",
)
@_more_rights
@click.option(
    "--iam", metavar="ARN", help="As IAM policies, for the cluster of AWS MSK with this ARN: one by role, or that of one --role."
)
@options.as_json
def acls(
    settings: "PipelineSettings",
    wanted: tuple[Role, ...],
    named: tuple[str, ...],
    http_operate: bool,
    notify: bool,
    iam: str | None,
    as_json: bool,
) -> None:
    """Print the least rights that each role needs on Kafka.

    Prints commands of Kafka's own tool, and asks no broker. With exactly these rights every role works, and no other principal
    can write to its topics. Creating the topics needs the right Create, which no role has.
    """
    needed = rights(settings.topic_prefix, settings.cluster, http_operate=http_operate, notify=notify)
    found = [right for right in needed if not wanted or right.role in wanted]
    principals = principals_of(named)
    if iam is not None:
        policies = {role: policy(found, role, iam) for role in dict.fromkeys(right.role for right in found)}
        click.echo(json.dumps(policies[wanted[0]] if len(wanted) == 1 else policies, indent=2))
        return
    if uses_iam(settings):
        raise SettingsError("--iam: name the ARN of the cluster; with AWS_MSK_IAM Kafka's own ACLs give an IAM role nothing")
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


_CLUSTER_ARN = re.compile(r"(arn:aws[a-z-]*:kafka:[a-z0-9-]+:[0-9]{12}:)cluster/([^/*?\s]+/[^/*?\s]+)")
_WILD = frozenset("*?$")
"""What IAM reads in a resource's name as something else: a wildcard, or the beginning of a variable."""
_ACTIONS: dict[tuple[Resource, Operation], tuple[str, ...]] = {
    ("topic", "Read"): ("DescribeTopic", "ReadData"),
    ("topic", "Write"): ("DescribeTopic", "WriteData"),
    ("topic", "Describe"): ("DescribeTopic",),
    ("topic", "DescribeConfigs"): ("DescribeTopic", "DescribeTopicDynamicConfiguration"),
    ("group", "Read"): ("AlterGroup", "DescribeGroup"),
    ("group", "Describe"): ("DescribeGroup",),
    ("transactional-id", "Write"): ("AlterTransactionalId", "DescribeTransactionalId"),
    ("transactional-id", "Describe"): ("DescribeTransactionalId",),
}
"""What IAM calls an operation of Kafka, with what that needs."""


def policy(found: Iterable[Right], role: Role, cluster_arn: str) -> dict[str, Any]:
    """Return the IAM policy of one role. A client needs Connect, and an idempotent producer one more right on the cluster.

    Raises:
        SettingsError: this is no cluster's ARN, or a name would stand for others too.
    """
    arn = _CLUSTER_ARN.fullmatch(cluster_arn)
    if arn is None:
        raise SettingsError(
            f"--iam: {cluster_arn!r} is not the ARN of a cluster; copy it from MSK, like "
            "arn:aws:kafka:eu-central-1:123456789012:cluster/NAME/ID"
        )
    own = [right for right in found if right.role == role]
    for right in own:
        if wild := " and ".join(map(repr, sorted(set(right.name) & _WILD))):
            raise SettingsError(
                f"--iam: the {right.resource} {right.name!r} has {wild}, which in an IAM policy stands for other names too; "
                "set SURESCALE_CLUSTER to a name without '*', '?' and '$'"
            )
    idempotent = any(right.resource == "topic" and right.operation == "Write" for right in own)
    allowed = {cluster_arn: {"Connect", *(("WriteDataIdempotently",) if idempotent else ())}}
    for right in own:
        name = f"{arn[1]}{right.resource}/{arn[2]}/{right.name}"
        allowed.setdefault(name, set()).update(_ACTIONS[right.resource, right.operation])
    by_actions: dict[tuple[str, ...], list[str]] = {}
    for name, actions in allowed.items():
        by_actions.setdefault(tuple(sorted(actions)), []).append(name)
    statements = [
        {"Effect": "Allow", "Action": [f"kafka-cluster:{each}" for each in actions], "Resource": names}
        for actions, names in by_actions.items()
    ]
    return {"Version": "2012-10-17", "Statement": statements}


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


ITERATIONS = 8192
REQUEST_TIMEOUT_S = 30.0
_USER = "User:"


@click.command("grant")
@options.connected(options.cluster)
@_role
@click.option("--principal", "named", multiple=True, metavar="ROLE=PRINCIPAL", help="As for `topics acls`; repeatable.")
@_more_rights
@click.option(
    "--passwords",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Also set the SCRAM-SHA-512 password of each role's user, from the file FOLDER/ROLE.",
)
def grant(
    settings: "PipelineSettings",
    wanted: tuple[Role, ...],
    named: tuple[str, ...],
    http_operate: bool,
    notify: bool,
    passwords: Path | None,
) -> None:
    """Give each role on Kafka the rights that `topics acls` prints.

    Run it as an administrator of Kafka. It adds rights and sets passwords, and takes none away; run again, it changes nothing.
    """
    from surescale.runtime.kafka_errors import readable_errors

    roles = wanted or ROLES
    needed = rights(settings.topic_prefix, settings.cluster, http_operate=http_operate, notify=notify)
    found = [right for right in needed if right.role in roles]
    principals = principals_of(named)
    users = {} if passwords is None else _passwords(passwords, {role: principals[role] for role in roles})
    with readable_errors(settings):
        give(settings, found, principals, users)
    click.echo(f"{len(found)} rights granted to {len(roles)} roles, {len(users)} passwords set")


def give(
    settings: "PipelineSettings", found: Sequence[Right], principals: Mapping[str, str], passwords: Mapping[str, bytes]
) -> None:
    """Set passwords, by user, and then add rights.

    Raises:
        KafkaException: the broker refused, or did not answer in time.
    """
    from confluent_kafka.admin import (  # type: ignore[attr-defined]  # these names are not in its __all__
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    from surescale.runtime.kafka import METADATA_TIMEOUT_S, admin_client
    from surescale.runtime.kafka_errors import Refusals

    refusals = Refusals(settings)
    admin = admin_client(settings, error_cb=refusals.hear)
    with refusals.explained(admin):
        admin.list_topics(timeout=METADATA_TIMEOUT_S)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    wanted: list[Any] = [UserScramCredentialUpsertion(user, info, password) for user, password in sorted(passwords.items())]
    if wanted:
        for future in admin.alter_user_scram_credentials(wanted, request_timeout=REQUEST_TIMEOUT_S).values():
            future.result()
    for added in admin.create_acls([_binding(right, principals) for right in found], request_timeout=REQUEST_TIMEOUT_S).values():
        added.result()


def _binding(right: Right, principals: Mapping[str, str]) -> Any:
    from confluent_kafka.admin import (  # type: ignore[attr-defined]  # these names are not in its __all__
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    operation = {"DescribeConfigs": "DESCRIBE_CONFIGS"}.get(right.operation, right.operation.upper())
    return AclBinding(
        ResourceType[right.resource.replace("-", "_").upper()],
        right.name,
        ResourcePatternType.LITERAL,
        principals[right.role],
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )


def _passwords(folder: Path, principals: Mapping[Role, str]) -> dict[str, bytes]:
    """Return the password of each role's user.

    Raises:
        SettingsError: a file cannot be read or is empty, or a principal is no user.
    """
    found = {}
    for role, principal in principals.items():
        file = folder / role
        try:
            password = contents(file).rstrip(b"\r\n")
        except OSError as error:
            raise SettingsError(
                f"--passwords: {str(file)!r} cannot be read ({reason_of(error)}); write the password of {role} into it, "
                "or name roles with --role"
            ) from None
        if not password:
            raise SettingsError(f"--passwords: {str(file)!r} is empty; write the password of {role} into it")
        if not principal.startswith(_USER):
            raise SettingsError(f"--principal: {role}={principal} has no password; name a user, as in {role}=User:{role}")
        found[principal.removeprefix(_USER)] = password
    return found
