"""The Kubernetes actuator beside others who scale the same objects: theirs it leaves alone, and no change of theirs is lost."""

import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.engines.ports.actuator import EngineRefused, EngineUnavailable
from tests.support.fake_api_server import FakeApiServer, autoscaler, owner
from tests.support.fake_workloads import FakeWorkload
from tests.support.kubernetes_rig import AFTER, BEFORE, KubernetesRig, kubernetes_rig, shipped_rules
from tests.support.stub_server import StubRequest


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[KubernetesRig]:
    """A job of two tasks, and an account that may do what the shipped role allows."""
    with kubernetes_rig(tmp_path) as rig:
        yield rig


# --- somebody else's --------------------------------------------------------------------------------------------------------


def _applied_by(manager: str) -> Callable[[FakeApiServer, FakeWorkload], None]:
    return lambda _, workload: workload.write(workload.replicas, manager, operation="Apply")


@pytest.mark.parametrize(
    ("said", "spoil"),
    [
        (
            "HorizontalPodAutoscaler parse-hpa scales it; delete that",
            lambda server, parse: server.autoscalers.append(autoscaler("parse-hpa", parse)),
        ),
        (
            "HorizontalPodAutoscaler keda-hpa-x (made by ScaledObject x) scales it",
            lambda server, parse: server.autoscalers.append(autoscaler("keda-hpa-x", parse, [owner("ScaledObject", "x")])),
        ),
        (
            "KEDA's ScaledObject x scales it",
            lambda server, parse: server.scaled_objects.append(
                {"metadata": {"name": "x", "namespace": "shop"}, "spec": {"scaleTargetRef": {"name": parse.name}}}
            ),
        ),
        (
            "it belongs to Pipeline orders, whose controller sets its replicas",
            lambda _, parse: parse.owners.append(owner("Pipeline", "orders")),
        ),
        ("argocd-controller applies its spec.replicas; leave replicas out", _applied_by("argocd-controller")),
        (
            "`kubectl apply` sets its spec.replicas every time",
            lambda _, parse: parse.annotations.update(
                {"kubectl.kubernetes.io/last-applied-configuration": '{"spec":{"replicas":1,"template":{}}}\n'}
            ),
        ),
    ],
)
def test_what_somebody_else_scales_is_refused_and_named(
    rig: KubernetesRig, said: str, spoil: Callable[[FakeApiServer, FakeWorkload], None]
) -> None:
    """Two owners would undo each other's work."""
    spoil(rig.server, rig.parse)
    refused = rig.refused(parse=3, count=4)
    assert refused.code == "OTHER_OWNER"
    assert refused.detail.startswith(f"shop/deployments/orders-parse: {said}")
    assert rig.required == BEFORE


@pytest.mark.parametrize(
    "harmless",
    [
        lambda server, parse: server.autoscalers.append(
            autoscaler("other", FakeWorkload("shop", parse.name, 1, "u", 1, kind="StatefulSet"))
        ),
        lambda server, parse: server.autoscalers.append(autoscaler("elsewhere", FakeWorkload("other", parse.name, 1, "u", 1))),
        lambda server, parse: server.scale(parse, 1, "kubectl"),
        lambda server, parse: setattr(server, "has_keda", False),
        lambda server, parse: parse.owners.append(owner("Application", "shop") | {"controller": False}),
        lambda server, parse: parse.annotations.update(
            {"kubectl.kubernetes.io/last-applied-configuration": '{"spec":{"template":{}}}'}
        ),
        lambda server, parse: parse.annotations.update({"kubectl.kubernetes.io/last-applied-configuration": "not JSON"}),
        lambda server, parse: parse.writers.append(
            {
                "manager": "helm-controller",
                "operation": "Apply",
                "apiVersion": "apps/v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:template": {}}},
            }
        ),
    ],
)
def test_what_nobody_else_scales_is_scaled(rig: KubernetesRig, harmless: Callable[[FakeApiServer, FakeWorkload], None]) -> None:
    """An autoscaler of another object, a person who once scaled it, a tool that applies everything but the number."""
    harmless(rig.server, rig.parse)
    rig.engine.request(rig.command(parse=3))
    assert rig.parse.replicas == 3
    assert rig.parse.writers[-1]["manager"] == "surescale"


# --- the fence --------------------------------------------------------------------------------------------------------------


def before_put(rig: KubernetesRig, name: str, act: Callable[[], None], *, times: int = 1) -> None:
    """Let something happen right before writes of one object."""
    left = [times]

    def before(asked: StubRequest) -> None:
        if asked.method == "PUT" and f"/{name}/" in asked.path and left[0]:
            left[0] -= 1
            act()

    rig.server.before = before


def test_a_status_that_changes_meanwhile_costs_another_try(rig: KubernetesRig) -> None:
    """The version is another one, the number is not."""
    before_put(rig, "orders-parse", lambda: rig.server.touch(rig.parse), times=3)
    rig.engine.request(rig.command(parse=3))
    assert rig.server.puts == [("orders-parse", 3)]


def test_an_object_that_never_rests_is_tried_again_later(rig: KubernetesRig) -> None:
    """That is no refusal."""
    command = rig.command(parse=3)
    before_put(rig, "orders-parse", lambda: rig.server.touch(rig.parse), times=1_000)
    with pytest.raises(EngineUnavailable, match="changes faster than it can be written"):
        rig.engine.request(command)
    rig.server.before = lambda asked: None
    rig.engine.request(command)
    assert rig.parse.replicas == 3


def test_a_foreign_change_between_read_and_write_is_not_overwritten(rig: KubernetesRig) -> None:
    """The resource version says so, and the other task gets its number back."""
    command = rig.command(**AFTER)
    last = command.changes[-1].task
    workload = rig.parse if last == "parse" else rig.count
    before_put(rig, workload.name, lambda: rig.server.scale(workload, 7))
    with pytest.raises(EngineRefused) as refused:
        rig.engine.request(command)
    assert refused.value.code == "REQUIREMENT_CHANGED"
    assert rig.required == {**BEFORE, last: 7}
    assert len(rig.server.puts) == 2, "the first task was written and put back"


def test_a_number_that_somebody_else_chose_is_not_put_back(rig: KubernetesRig) -> None:
    """Even if it is the one that the command asks for."""
    command = rig.command(**AFTER)
    rig.server.scale(rig.count, AFTER["count"])
    rig.server.scale(rig.parse, 9)
    with pytest.raises(EngineRefused) as refused:
        rig.engine.request(command)
    assert refused.value.code == "REQUIREMENT_CHANGED"
    assert rig.required == {"count": AFTER["count"], "parse": 9}
    assert rig.server.puts == []


FOREIGN = st.one_of(
    st.tuples(st.just("touch"), st.sampled_from(["parse", "count"]), st.just(0)),
    st.tuples(st.just("scale"), st.sampled_from(["parse", "count"]), st.integers(1, 6)),
    st.tuples(st.just("fail"), st.just(""), st.just(0)),
)


@given(happens=st.dictionaries(st.integers(0, 25), FOREIGN, max_size=4))
@settings(max_examples=25, deadline=None)
def test_whatever_happens_between_requests_nothing_foreign_is_overwritten(happens: dict[int, tuple[str, str, int]]) -> None:
    """We write over numbers that are as before or as wanted, and leave none of ours behind when we are refused."""
    server = FakeApiServer(rules=shipped_rules(), asks_token=False)
    with server.serving() as answering, tempfile.TemporaryDirectory() as folder:
        rig = KubernetesRig(server, answering, Path(folder) / "token")
        command, number = rig.command(**AFTER), count()
        workloads = {"parse": rig.parse, "count": rig.count}

        def before(_: StubRequest) -> None:
            what, task, replicas = happens.get(next(number), ("", "", 0))
            server.is_away = what == "fail"
            if what == "touch":
                server.touch(workloads[task])
            elif what == "scale":
                server.scale(workloads[task], replicas)

        server.before = before
        code = ""
        for _ in range(10):
            try:
                rig.engine.request(command)
            except EngineUnavailable:
                continue
            except EngineRefused as refused:
                code = refused.code
            break
        for task, workload in workloads.items():
            for writer, old, _ in workload.history:
                assert writer != "surescale" or old in (BEFORE[task], AFTER[task])
        if code and "fail" not in {what for what, _, _ in happens.values()}:
            assert code == "REQUIREMENT_CHANGED"
            for task, workload in workloads.items():
                assert workload.history[-1][0] != "surescale" or workload.replicas == BEFORE[task]
        if not happens:
            assert rig.required == AFTER
