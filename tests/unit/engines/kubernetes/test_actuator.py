"""The Kubernetes actuator against a fake API server: rights, pods that do not come, and all that goes wrong on the way."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.engines.kubernetes.target import Target
from surescale.engines.ports.actuator import EngineRefused, EngineUnavailable
from surescale.rescaler.execution import RequirementExecution
from tests.support.fake_api_server import FakeApiServer, Rule, autoscaler
from tests.support.fake_workloads import DRAIN_MS, Ill
from tests.support.kubernetes_rig import AFTER, BEFORE, CLUSTER, JOB, STEPS_MAX, KubernetesRig, kubernetes_rig, shipped_rules
from tests.support.mortal_client import Killed

RULES = sorted(shipped_rules())
OF_BOTH = sorted(rule for rule in RULES if rule[:2] != ("apps", "statefulsets") and rule[:2] != ("apps", "statefulsets/scale"))
"""What is needed for a Deployment, of what is needed for both kinds."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[KubernetesRig]:
    """A job of two tasks, and an account that may do what the shipped role allows."""
    with kubernetes_rig(tmp_path) as rig:
        yield rig


# --- rights -----------------------------------------------------------------------------------------------------------------


def test_the_shipped_role_is_enough_and_no_right_of_it_is_unused(rig: KubernetesRig) -> None:
    """Over a rescale up that a quota cuts short, and one down, of both kinds of workload."""
    rig.server.quota = 6
    rig.to_the_end(RequirementExecution(rig.command(**AFTER)))
    rig.server.quota = 100
    *_, applied = rig.to_the_end(RequirementExecution(rig.command(**BEFORE)))
    assert applied.status == "applied"
    assert rig.server.used == set(RULES)


@pytest.mark.parametrize("rule", OF_BOTH)
def test_a_right_that_is_missing_is_named_before_anything_is_written(rig: KubernetesRig, rule: Rule) -> None:
    """The line says which one, and where all of them stand."""
    rig.server.rules = frozenset(RULES) - {rule}
    refused = rig.refused(parse=3)
    group, resource, verb = rule
    assert refused.code == "NO_PERMISSION"
    assert f'cannot {verb} resource "{resource}" in API group "{group}" in the namespace "shop"' in refused.detail
    assert "compose/kubernetes/scaling" in refused.detail
    assert rig.server.puts == []


def test_a_right_that_is_lost_on_the_way_is_waited_for(rig: KubernetesRig) -> None:
    """What was asked for is looked at when it is back, not forgotten."""
    work = RequirementExecution(rig.command(parse=3))
    work.step(rig.engine, now_ms=rig.server.now_ms, wall_ms=rig.server.now_ms)
    rig.server.rules = frozenset(RULES) - {("", "pods", "list")}
    rig.server.now_ms += 1_000
    assert work.step(rig.engine, now_ms=rig.server.now_ms, wall_ms=rig.server.now_ms) == []
    assert 'cannot list resource "pods"' in work.away
    rig.server.rules = frozenset(RULES)
    assert rig.to_the_end(work)[-1].status == "applied"


# --- the world --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ill", "said"),
    [
        ("image", "image registry.example/worker:1 cannot be pulled (Back-off pulling image"),
        ("crash", "container worker ends again and again, with exit code 3 (Error), 4 restarts so far; see kubectl logs"),
        ("config", 'container worker cannot be started (secret "kafka" not found); correct the pod template'),
        ("unready", "runs and is not ready; see its readiness probe"),
    ],
)
def test_pods_that_do_not_come_up_are_named_and_the_number_is_taken_back(rig: KubernetesRig, ill: Ill, said: str) -> None:
    """In the report of the part and in the last one."""
    rig.parse.ill = ill
    accepted, partly, failed = rig.to_the_end(RequirementExecution(rig.command(parse=3)))
    assert (accepted.status, partly.status, failed.code) == ("accepted", "partly", "DEADLINE")
    for report in (partly, failed):
        assert "parse: pod orders-parse-1: " in report.detail or "parse: pod orders-parse-1 runs" in report.detail
        assert said in report.detail
        assert "and 1 more pod is not ready" in report.detail
    assert partly.waiting_for == ""
    assert rig.required == BEFORE


@pytest.mark.parametrize("task", ["parse", "count"])
def test_a_quota_is_named(rig: KubernetesRig, task: str) -> None:
    """A Deployment says so in a condition, a StatefulSet's controller by an event. What fits stays."""
    rig.server.quota = 4
    _, partly, failed = rig.to_the_end(RequirementExecution(rig.command(**{task: BEFORE[task] + 3})))
    assert partly.waiting_for == "slots"
    assert f"{task}: shop may have no more pods: " in partly.detail
    assert "exceeded quota: compute" in partly.detail
    assert "raise that ResourceQuota, or lower the job's maximum" in failed.detail
    assert (failed.code, rig.required) == ("PARTLY", {**BEFORE, task: BEFORE[task] + 1})


def test_nodes_that_are_full_are_named(rig: KubernetesRig) -> None:
    """In the scheduler's own words."""
    rig.server.slots = 3
    _, partly, failed = rig.to_the_end(RequirementExecution(rig.command(parse=3)))
    assert partly.waiting_for == "slots"
    assert "pod orders-parse-1 waits for a node: 0/3 nodes are available: 3 Insufficient cpu." in partly.detail
    assert (failed.code, rig.required) == ("DEADLINE", BEFORE)


def test_a_pod_that_drains_still_runs(rig: KubernetesRig) -> None:
    """So a smaller number is applied when the last of its records is through."""
    rig.to_the_end(RequirementExecution(rig.command(parse=3)))
    began_ms = rig.server.now_ms
    *_, applied = rig.to_the_end(RequirementExecution(rig.command(parse=1)), step_ms=500)
    assert applied.status == "applied"
    assert applied.at_ms - began_ms >= DRAIN_MS
    assert rig.engine.look(JOB).running == BEFORE


def test_lists_are_read_to_the_end(rig: KubernetesRig) -> None:
    """Page by page."""
    rig.server.page_items = 1
    rig.to_the_end(RequirementExecution(rig.command(**AFTER)))
    assert rig.engine.look(JOB).running == AFTER
    rig.server.autoscalers = [autoscaler("a", rig.count), autoscaler("b", rig.parse)]
    assert "HorizontalPodAutoscaler b" in rig.refused(parse=1).detail


def test_a_deployment_that_is_gone_is_named(rig: KubernetesRig) -> None:
    """By a request, and by a look."""
    command = rig.command(parse=3)
    rig.server.workloads.remove(rig.parse)
    for call in (lambda: rig.engine.request(command), lambda: rig.engine.look(JOB)):
        with pytest.raises(EngineRefused, match=r'deployments\.apps "orders-parse" not found; create it, or correct') as refused:
            call()
        assert refused.value.code == "TARGET_GONE"


def test_a_deployment_that_is_being_deleted_is_left_alone(rig: KubernetesRig) -> None:
    """Its pods go anyway."""
    rig.parse.is_being_deleted = True
    refused = rig.refused(parse=3)
    assert (refused.code, rig.server.puts) == ("TARGET_GONE", [])


def test_a_custom_resource_with_a_scale_is_scaled(rig: KubernetesRig) -> None:
    """As any other; its account needs the rights."""
    rig.server.rules = None
    rig.targets["parse"] = Target("shop", "workers", "pipelines", "example.org/v1")
    rig.parse = rig.server.deploy("workers", 1, api="example.org/v1", resource="pipelines", kind="Pipeline")
    rig.restart()
    *_, applied = rig.to_the_end(RequirementExecution(rig.command(parse=3)))
    assert (applied.status, rig.parse.replicas) == ("applied", 3)
    rig.parse.has_selector = False
    refused = rig.refused(parse=2)
    assert (refused.code, refused.detail) == (
        "NO_SELECTOR",
        "shop/pipelines/workers: its scale names no pods; set labelSelectorPath in its definition",
    )


def test_a_token_that_is_refused_is_no_refusal_of_the_command(rig: KubernetesRig) -> None:
    """It is asked again: a token is replaced while we run."""
    rig.token.write_text("another")
    with pytest.raises(EngineUnavailable, match="answers 401 Unauthorized; set SURESCALE_KUBERNETES_TOKEN_FILE"):
        rig.engine.look(JOB)


def test_a_job_that_names_nothing_to_scale_is_refused(rig: KubernetesRig) -> None:
    """And one that the file does not have."""
    rig.targets.clear()
    rig.restart()
    with pytest.raises(EngineRefused, match="UNKNOWN_TASK: SURESCALE_GROUPS_FILE names nothing to scale for orders"):
        rig.engine.look(JOB)
    with pytest.raises(EngineRefused, match="UNKNOWN_JOB"):
        rig.engine.look(f"{CLUSTER}/nobody")


# --- killed at any step -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_ill", "is_late"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("is_sent", [False, True])
def test_killed_at_any_request_nothing_is_left_that_nobody_wants(
    tmp_path: Path, is_ill: bool, is_sent: bool, is_late: bool
) -> None:
    """Another process repeats the command: both tasks end as it wants them, or both as before.

    ``is_ill``: no new pod of one task becomes ready. ``is_late``: the other process comes after the deadline.
    """
    for dies_at in range(STEPS_MAX):
        server = FakeApiServer(rules=shipped_rules())
        with server.serving() as answering:
            rig = KubernetesRig(server, answering, tmp_path / "token")
            rig.parse.ill = rig.count.ill = "image" if is_ill else ""
            command = rig.command(deadline_ms=5_000, **AFTER)
            rig.restart(dies_at, is_sent=is_sent)
            try:
                rig.to_the_end(RequirementExecution(command), step_ms=2_000)
            except Killed:
                rig.restart()
                server.now_ms += 10_000 if is_late else 0
                last = rig.to_the_end(RequirementExecution(command), step_ms=2_000)[-1]
            else:
                return  # it ended before it could die: every request has been tried
        assert last.status == "applied" or is_ill or is_late
        assert rig.required == (AFTER if last.status == "applied" else BEFORE), f"killed at request {dies_at}: {last}"
    raise AssertionError("it never ends")
