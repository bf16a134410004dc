"""``surescale topics acls --iam``: the rights of each role as IAM policies of AWS MSK."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from surescale.contracts.access import ROLES, rights
from surescale.contracts.topics import DECISIONS, SNAPSHOTS, agent_group
from surescale.services.tools.topic_grants import acls

CLUSTER = "arn:aws:kafka:eu-central-1:123456789012:cluster/demo/0a1b-2"


def printed(*arguments: str) -> Any:
    """Return what the command prints."""
    result = CliRunner().invoke(acls, ["--prefix", "p-", "--iam", CLUSTER, *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def allowed(policy: Any) -> dict[str, set[str]]:
    """Return what a policy allows, by resource."""
    assert policy["Version"] == "2012-10-17"
    found: dict[str, set[str]] = {}
    for statement in policy["Statement"]:
        assert statement["Effect"] == "Allow"
        for name in statement["Resource"]:
            found.setdefault(name, set()).update(each.removeprefix("kafka-cluster:") for each in statement["Action"])
    return found


def arn(kind: str, name: str) -> str:
    """Return the ARN of a topic or group of the cluster."""
    return f"arn:aws:kafka:eu-central-1:123456789012:{kind}/demo/0a1b-2/{name}"


def test_a_roles_policy_allows_what_the_role_needs_and_no_more() -> None:
    """The agent reads windows and writes decisions."""
    agent = allowed(printed("--role", "agent"))
    assert agent[CLUSTER] == {"Connect", "WriteDataIdempotently"}
    assert agent[arn("topic", f"p-{SNAPSHOTS}")] == {"DescribeTopic", "ReadData"}
    assert agent[arn("topic", f"p-{DECISIONS}")] == {"DescribeTopic", "WriteData"}
    assert agent[arn("group", agent_group("p-"))] == {"AlterGroup", "DescribeGroup"}
    assert all("*" not in name for name in agent)


def test_every_right_of_every_role_is_in_its_policy() -> None:
    """By one name for each resource."""
    policies = printed()
    assert set(policies) == set(ROLES)
    for role, policy in policies.items():
        resources = {arn(right.resource, right.name) for right in rights("p-", "sim") if right.role == role}
        assert set(allowed(policy)) == resources | {CLUSTER}


@pytest.mark.parametrize(
    "wrong", ["demo", CLUSTER.replace("cluster/", "topic/"), f"{CLUSTER}/more", CLUSTER.replace("demo", "*")]
)
def test_what_is_no_clusters_arn_is_refused_in_one_line(wrong: str) -> None:
    """With an example."""
    result = CliRunner().invoke(acls, ["--iam", wrong])
    assert "--iam: " in str(result.exception)
    assert "is not the ARN of a cluster" in str(result.exception)


@pytest.mark.parametrize("name", ["shop*", "sh?p", "${aws:username}", "a$b", "*shop?"])
def test_a_cluster_whose_name_stands_for_others_gets_no_policy(name: str) -> None:
    """The rescaler of `shop*` could join the groups of `shop-2`. Roles whose names have no cluster get theirs."""
    result = CliRunner().invoke(acls, ["--iam", CLUSTER, "--cluster", name, "--role", "rescaler"])
    said = str(result.exception)
    assert said.startswith("--iam: the group '")
    assert said.endswith("; set SURESCALE_CLUSTER to a name without '*', '?' and '$'")
    assert "\n" not in said
    assert allowed(printed("--cluster", name, "--role", "agent")) == allowed(printed("--role", "agent"))


def test_with_iam_kafkas_own_commands_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would give an IAM role nothing."""
    monkeypatch.setenv("SURESCALE_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("SURESCALE_KAFKA_SASL_MECHANISM", "AWS_MSK_IAM")
    monkeypatch.setenv("SURESCALE_KAFKA_AWS_REGION", "eu-central-1")
    result = CliRunner().invoke(acls, [])
    assert "--iam: name the ARN of the cluster" in str(result.exception)
