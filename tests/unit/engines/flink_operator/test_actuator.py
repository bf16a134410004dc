"""The actuator of the Flink operator's jobs: whose they are, what would not be done in place, conflicts, words."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from surescale.engines.flink_operator.actuator import FlinkOperatorEngine
from surescale.engines.flink_operator.resource import API, DEPLOYMENTS, SESSION_JOBS, OperatedJob
from surescale.engines.kubernetes.target import Target
from surescale.engines.ports.actuator import EngineRefused, EngineUnavailable
from tests.ports.requirement_contract import AFTER, BEFORE, CLUSTER, JOB
from tests.support.fake_api_server import owner
from tests.support.fake_jobmanager import FakeJobManager
from tests.support.fake_objects import FakeObject
from tests.support.fake_operator import KEY
from tests.support.fake_operator_rig import FakeOperatorRig, fake_operator
from tests.support.operator_rig import NAME, VERTICES
from tests.support.stub_server import StubRequest

PARSE, COUNT = VERTICES["parse"], VERTICES["count"]
Spoil = Callable[[FakeOperatorRig], None]


@pytest.fixture
def rig() -> Iterator[FakeOperatorRig]:
    """By the operator's word alone."""
    with fake_operator() as rig:
        yield rig


def _configured(**configuration: Any) -> Spoil:
    """Change the configuration by hand; the operator has read it."""
    named = {name.replace("__", "-").replace("_", "."): value for name, value in configuration.items()}

    def spoil(rig: FakeOperatorRig) -> None:
        rig.object.merge({"spec": {"flinkConfiguration": named}}, "kubectl-edit")
        rig.operator.submitted()

    return spoil


def _spec(**spec: Any) -> Spoil:
    def spoil(rig: FakeOperatorRig) -> None:
        rig.object.merge({"spec": spec}, "kubectl-edit")
        rig.operator.submitted()

    return spoil


def _said(**status: Any) -> Spoil:
    return lambda rig: rig.object.say(rig.object.document["status"] | status)


def _refused(rig: FakeOperatorRig) -> EngineRefused:
    command = rig.command()
    written = len(rig.object.changes)
    with pytest.raises(EngineRefused) as refused:
        rig.api.request(command)
    assert "\n" not in str(refused.value)
    assert len(rig.object.changes) == written, "something was written"
    return refused.value


# --- somebody else's --------------------------------------------------------------------------------------------------------

OVERRIDES = {"spec": {"flinkConfiguration": {KEY: f"{PARSE}:1,{COUNT}:2"}}}


def _applied_last(document: Any) -> Spoil:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(document)}
    return lambda rig: rig.object.document["metadata"].__setitem__("annotations", applied)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            _configured(job_autoscaler_enabled="true"),
            "the operator's own autoscaler scales it (job.autoscaler.enabled); set that",
        ),
        (_configured(kubernetes_operator_job_autoscaler_enabled="True"), "the operator's own autoscaler scales it (kubernetes."),
        (_configured(job={"autoscaler": {"enabled": True}}), "the operator's own autoscaler scales it (job.autoscaler.enabled)"),
        (
            lambda rig: rig.object.document["metadata"].__setitem__("ownerReferences", [owner("FlinkBlueGreenDeployment", "x")]),
            "it belongs to FlinkBlueGreenDeployment x, whose controller sets its specification",
        ),
        (
            lambda rig: rig.object.merge(OVERRIDES, "argocd-controller", "Apply"),
            f"argocd-controller sets {KEY}; leave that key out",
        ),
        (
            lambda rig: (
                rig.object.merge(
                    {"spec": {"flinkConfiguration": {"pipeline": {"jobvertex-parallelism-overrides": None}}}}, "flux", "Apply"
                )
                or rig.object.document["metadata"]["managedFields"].append(
                    {
                        "manager": "flux",
                        "operation": "Apply",
                        "apiVersion": API,
                        "fieldsV1": {
                            "f:spec": {"f:flinkConfiguration": {"f:pipeline": {"f:jobvertex-parallelism-overrides": {}}}}
                        },
                    }
                )
            ),
            f"flux sets {KEY}; leave that key out of what flux applies",
        ),
        (lambda rig: rig.object.merge(OVERRIDES, "helm"), f"helm sets {KEY}; leave that key out of the chart"),
        (_applied_last(OVERRIDES), f"`kubectl apply` sets {KEY} every time"),
    ],
)
def test_what_somebody_else_decides_is_refused_and_named(rig: FakeOperatorRig, spoil: Spoil, said: str) -> None:
    """Two owners would undo each other's work."""
    spoil(rig)
    refused = _refused(rig)
    assert refused.code == "OTHER_OWNER"
    assert refused.detail.startswith(f"shop/flinkdeployments/orders: {said}")


@pytest.mark.parametrize(
    "harmless",
    [
        _configured(job_autoscaler_enabled="false"),
        _configured(job={"autoscaler": {"enabled": False}}),
        lambda rig: rig.object.merge(
            {"spec": {"flinkConfiguration": {"state.backend": "rocksdb"}}}, "argocd-controller", "Apply"
        ),
        _applied_last({"spec": {"flinkConfiguration": {"jobmanager.scheduler": "adaptive"}}}),
        _applied_last("nothing of the kind"),
        lambda rig: rig.object.document["metadata"].__setitem__(
            "ownerReferences", [owner("Application", "shop") | {"controller": False}]
        ),
    ],
)
def test_what_nobody_else_decides_is_written(rig: FakeOperatorRig, harmless: Spoil) -> None:
    """Who wrote once, or writes something else, is no owner."""
    harmless(rig)
    rig.operator.submitted()
    rig.api.request(rig.command())
    assert rig.api.look(JOB).required == AFTER


# --- what the operator would not do in place --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (_configured(jobmanager_scheduler=None), "NOT_ADAPTIVE", "set jobmanager.scheduler: adaptive there"),
        (_spec(job={"upgradeMode": "stateless"}), "STATELESS_UPGRADE", "set last-state or savepoint"),
        (_spec(job={"upgradeMode": None}), "STATELESS_UPGRADE", "its spec.job.upgradeMode is stateless"),
        (_spec(mode="standalone"), "NOT_IN_PLACE", "use mode native"),
        (_spec(flinkVersion="v1_17"), "NOT_IN_PLACE", "its Flink is v1_17, and only 1.18 and later"),
        (_configured(kubernetes_operator_job_upgrade_inplace__scaling_enabled="false"), "NOT_IN_PLACE", "leave it out"),
        (_spec(job=None), "NOT_RUNNING", "name the FlinkSessionJob instead"),
        (_spec(job={"state": "suspended"}), "NOT_RUNNING", "its spec.job.state is suspended"),
        (_said(lifecycleState="ROLLED_BACK"), "NOT_RUNNING", "the operator took the change back (lifecycle state ROLLED_BACK)"),
        (_said(lifecycleState="UPGRADING"), "NOT_RUNNING", "the operator is at work on it (lifecycle state UPGRADING)"),
        (
            lambda rig: rig.object.merge({"spec": {"restartNonce": 1}}, "kubectl-edit"),
            "NOT_RUNNING",
            "the operator has not read generation 2 of it (it has read 1); see that the operator runs and watches namespace shop",
        ),
        (
            _said(jobStatus={"state": "FAILING"}, error=json.dumps({"type": "X", "message": "JobManager\n is gone"})),
            "NOT_RUNNING",
            "the operator says that its job is FAILING; the operator reports: JobManager is gone",
        ),
        (_said(jobStatus=None, error="plain words"), "NOT_RUNNING", "its job is not there; the operator reports: plain words"),
    ],
)
def test_what_the_operator_would_not_do_in_place_is_refused(rig: FakeOperatorRig, spoil: Spoil, code: str, said: str) -> None:
    """With one line that says what to do; a job is not stopped for a rescale."""
    spoil(rig)
    refused = _refused(rig)
    assert (refused.code, said in refused.detail) == (code, True), refused.detail


@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (_spec(job={"upgradeMode": "stateless"}), "STATELESS_UPGRADE", "set last-state or savepoint"),
        (_configured(**{"scheduler-mode": "reactive"}), "REACTIVE_MODE", "leave scheduler-mode out"),
        (_spec(job={"state": "suspended"}), "NOT_RUNNING", "its spec.job.state is suspended"),
        (_said(lifecycleState="UPGRADING"), "NOT_RUNNING", "the operator is at work on it"),
    ],
)
def test_a_job_that_may_be_upgraded_is_so_only_with_its_state(spoil: Spoil, code: str, said: str) -> None:
    """And not while something else is under way."""
    with fake_operator(upgrades=True) as rig:
        spoil(rig)
        refused = _refused(rig)
        assert (refused.code, said in refused.detail) == (code, True), refused.detail


@pytest.mark.parametrize(
    "spoil", [_spec(mode="standalone"), _spec(flinkVersion="v1_17"), _configured(jobmanager_scheduler="default")]
)
def test_what_is_not_done_in_place_is_an_upgrade_where_that_is_allowed(spoil: Spoil) -> None:
    """The resource is written as ever."""
    with fake_operator(upgrades=True) as rig:
        spoil(rig)
        rig.api.request(rig.command())
        assert rig.api.look(JOB).required == AFTER


@pytest.mark.parametrize(("mode", "is_refused"), [("last-state", True), ("savepoint", False)])
def test_a_job_without_a_checkpoint_is_upgraded_by_a_savepoint_alone(mode: str, is_refused: bool) -> None:
    """Its last state would be none."""
    manager = FakeJobManager()
    with fake_operator(manager, upgrades=True) as rig:
        _spec(job={"upgradeMode": mode})(rig)
        manager.jobs[-1].has_checkpoint = False
        if not is_refused:
            rig.api.request(rig.command())
            return
        assert _refused(rig).code == "NO_CHECKPOINT_YET"


@pytest.mark.parametrize("text", ["parse", f"{PARSE}:many", f"{PARSE}:0", f"{PARSE}:1,{PARSE}:2", f"{PARSE}:99999"])
def test_overrides_that_cannot_be_read_are_named(rig: FakeOperatorRig, text: str) -> None:
    """By a look too."""
    command = rig.command()
    rig.write({KEY: text})
    for call in (lambda: rig.api.request(command), lambda: rig.api.look(JOB)):
        with pytest.raises(EngineRefused, match=KEY) as refused:
            call()
        assert refused.value.code == "OVERRIDES_UNREADABLE"


# --- merged and fenced ------------------------------------------------------------------------------------------------------


def test_vertices_that_we_do_not_know_keep_theirs(rig: FakeOperatorRig) -> None:
    """Only the text of the overrides changes, and of it only our vertices."""
    other = "f" * 32
    rig.write({KEY: f"{other}:7,{COUNT}:2,{PARSE}:1"})
    rig.operator.submitted()
    rig.api.request(rig.command())
    assert rig.object.changes[-1] == ("surescale", {"spec": {"flinkConfiguration": {KEY: f"{other}:7,{COUNT}:3,{PARSE}:1"}}})


def test_a_job_without_overrides_gets_all_that_was_decided_on(rig: FakeOperatorRig) -> None:
    """What is asked for of the others is known from the decision alone."""
    command = rig.command()
    rig.object.merge({"spec": {"flinkConfiguration": {KEY: None}}}, "kubectl-edit")
    rig.operator.status["jobStatus"]["jobId"] = ""
    rig.object.say(rig.operator.status | {"observedGeneration": 2})
    assert rig.api.look(JOB).required == {}
    rig.api.request(command)
    assert rig.api.look(JOB).required == AFTER


@pytest.mark.parametrize("times", [1, 7, 8])
def test_a_status_that_changes_meanwhile_costs_another_try(rig: FakeOperatorRig, times: int) -> None:
    """The resource version that was read is stale, what is asked for is not. Eight times in a row are too many for now."""
    command, left = rig.command(), count()

    def before(asked: StubRequest) -> None:
        if asked.method == "PATCH" and next(left) < times:
            rig.object.say(rig.object.document["status"])

    rig.server.before = before
    if times < 8:
        rig.api.request(command)
    else:
        with pytest.raises(EngineUnavailable, match="changes faster than it can be written"):
            rig.api.request(command)
    assert rig.api.look(JOB).required == (AFTER if times < 8 else BEFORE)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({KEY: f"{PARSE}:2,{COUNT}:2"}, "REQUIREMENT_CHANGED"),
        ({"job.autoscaler.enabled": "true"}, "OTHER_OWNER"),
    ],
)
def test_somebody_who_writes_between_our_reading_and_writing_wins(
    rig: FakeOperatorRig, change: dict[str, str], code: str
) -> None:
    """The conflict is read again with all that is checked."""
    command = rig.command()

    def before(asked: StubRequest) -> None:
        if asked.method == "PATCH" and len(rig.object.changes) == 0:
            rig.write(change)

    rig.server.before = before
    with pytest.raises(EngineRefused) as refused:
        rig.api.request(command)
    assert refused.value.code == code
    assert [manager for manager, _ in rig.object.changes] == ["kubectl-edit"]


# --- which job --------------------------------------------------------------------------------------------------------------


def test_a_resource_that_is_gone_is_named(rig: FakeOperatorRig) -> None:
    """By a request and a look."""
    command = rig.command()
    del rig.server.objects[rig.object.path]
    for call in (lambda: rig.api.request(command), lambda: rig.api.look(JOB)):
        with pytest.raises(EngineRefused, match="not found; create it, or correct SURESCALE_FLINK_RESOURCES_FILE") as refused:
            call()
        assert refused.value.code == "TARGET_GONE"


def test_a_resource_that_is_being_deleted_is_left_alone(rig: FakeOperatorRig) -> None:
    """The job ends anyway."""
    rig.object.document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert _refused(rig).code == "TARGET_GONE"


def test_a_task_whose_vertex_nobody_knows_is_refused(rig: FakeOperatorRig) -> None:
    """Before anything is asked."""
    command = rig.command()
    rig.api = FlinkOperatorEngine(rig.client, {NAME: OperatedJob(rig.job.target, {"parse": PARSE})}, CLUSTER)
    with pytest.raises(
        EngineRefused, match="count: SURESCALE_FLINK_RESOURCES_FILE does not say its vertex id; add it"
    ) as refused:
        rig.api.request(command)
    assert refused.value.code == "UNKNOWN_TASK"


def test_a_session_job_inherits_what_its_cluster_says(rig: FakeOperatorRig) -> None:
    """Scheduler, version and autoscaler may stand in the session cluster's FlinkDeployment."""
    deployment = rig.object
    job = FakeObject(
        Target("shop", NAME, SESSION_JOBS, API).path,
        {
            "apiVersion": API,
            "kind": "FlinkSessionJob",
            "metadata": {"name": NAME, "namespace": "shop"},
            "spec": {
                "deploymentName": NAME,
                "flinkConfiguration": {KEY: deployment.document["spec"]["flinkConfiguration"].pop(KEY)},
                "job": {"state": "running", "upgradeMode": "savepoint"},
            },
        },
    )
    deployment.document["spec"].pop("job")
    rig.server.objects[job.path] = rig.object = job
    rig.job = OperatedJob(Target("shop", NAME, SESSION_JOBS, API), VERTICES)
    rig.api = FlinkOperatorEngine(rig.client, {NAME: rig.job}, CLUSTER)
    rig.operator.submitted()
    assert rig.carry_out(rig.command())[-1].status == "applied"
    for change, code in (
        ({"flinkConfiguration": {"job.autoscaler.enabled": "true"}}, "OTHER_OWNER"),
        ({"flinkConfiguration": {"job.autoscaler.enabled": None, "jobmanager.scheduler": None}}, "NOT_ADAPTIVE"),
    ):
        deployment.merge({"spec": change}, "kubectl-edit")
        with pytest.raises(EngineRefused) as refused:
            rig.api.request(rig.command({"parse": 1, "count": 4}))
        assert refused.value.code == code
    assert DEPLOYMENTS in deployment.path


# --- what is seen -----------------------------------------------------------------------------------------------------------


def test_the_operators_words_come_with_the_failure(rig: FakeOperatorRig) -> None:
    """An operator that does not run changes nothing; what was asked for is put back."""
    rig.operator.stands = True
    accepted, partly, failed = rig.carry_out(rig.command(deadline_s=90.0))
    assert (accepted.status, partly.status, failed.code) == ("accepted", "partly", "DEADLINE")
    assert "the operator has not read generation 2 of it (it has read 1)" in failed.detail
    assert rig.api.look(JOB).required == BEFORE


def test_a_job_that_failed_ends_the_command(rig: FakeOperatorRig) -> None:
    """Nothing is waited for."""
    command = rig.command()
    rig.api.request(command)
    _said(jobStatus={"state": "FAILED", "jobId": rig.api.look(JOB).epoch}, lifecycleState="FAILED")(rig)
    rig.operator.stands = True
    assert rig.api.look(JOB).state == "failed"
    assert rig.carry_out(command)[-1].code == "JOB_NOT_RUNNING"


def test_what_flink_would_lose_state_with_is_refused_before_the_resource_is_written() -> None:
    """The operator would ask for it all the same."""
    manager = FakeJobManager()
    with fake_operator(manager) as rig:
        command = rig.command()
        manager.jobs[-1].has_checkpoint = False
        with pytest.raises(EngineRefused) as refused:
            rig.api.request(command)
        assert refused.value.code == "NO_CHECKPOINT_YET"
        assert rig.object.changes == []
