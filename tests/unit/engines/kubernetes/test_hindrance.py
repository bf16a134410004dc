"""Why pods are missing: whatever a cluster says, the answer is one line that can be acted on."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.engines.kubernetes.actuator import failures_in, hindrance_of
from surescale.engines.kubernetes.answers import (
    Condition,
    ContainerState,
    ContainerStatus,
    Event,
    ObjectMeta,
    Pod,
    PodStatus,
    Terminated,
    Waiting,
)
from surescale.engines.kubernetes.target import Target

TARGET = Target("shop", "parse")
TEXT = st.text(max_size=40)
NAMES = st.text("abc-", min_size=1, max_size=8)


def pod(name: str, *, phase: str = "Pending", **more: Any) -> Pod:
    """A pod that is not ready."""
    return Pod(ObjectMeta(name=name), PodStatus(phase=phase, **more))


STATES = st.builds(
    ContainerState,
    waiting=st.none()
    | st.builds(Waiting, reason=st.sampled_from(["ErrImagePull", "CrashLoopBackOff", "RunContainerError", ""]), message=TEXT),
    terminated=st.none() | st.builds(Terminated, reason=TEXT, exit_code=st.integers(0, 255)),
)
CONTAINERS = st.builds(ContainerStatus, name=NAMES, image=NAMES, restart_count=st.integers(0, 9), state=STATES, last_state=STATES)
PODS = st.builds(
    pod,
    NAMES,
    phase=st.sampled_from(["Pending", "Running", "Failed", "Unknown"]),
    conditions=st.none() | st.tuples(st.builds(Condition, type=st.just("PodScheduled"), status=st.just("False"), message=TEXT)),
    init_container_statuses=st.none() | st.tuples(CONTAINERS),
    container_statuses=st.none() | st.tuples(CONTAINERS, CONTAINERS),
)


@given(st.lists(PODS, max_size=4), st.lists(TEXT, max_size=2))
def test_there_is_always_one_line(pods: list[Pod], failures: list[str]) -> None:
    """Whatever is wrong; the order of pods does not matter."""
    found = hindrance_of(TARGET, pods, failures)
    assert found.words
    assert "\n" not in found.words
    assert found == hindrance_of(TARGET, pods[::-1], failures) or len({each.metadata.name for each in pods}) < len(pods)


def test_the_most_telling_trouble_comes_first() -> None:
    """A pod whose image is missing says more than one that waits for a node."""
    waits = pod("a", conditions=(Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes"),))
    image = ContainerStatus("w", "img", 0, ContainerState(waiting=Waiting("ErrImagePull", "no\n such  image")))
    ill = pod("b", container_statuses=(image,))
    words = hindrance_of(TARGET, [waits, ill], ["exceeded quota"]).words
    assert words.startswith("pod b: image img cannot be pulled (no such image)")
    assert words.endswith("; and 1 more pod is not ready")
    assert hindrance_of(TARGET, [waits], ["exceeded quota: q"]).is_room
    assert hindrance_of(TARGET, [waits], []).words.startswith("pod a waits for a node: 0/1 nodes; add nodes")
    assert hindrance_of(TARGET, [], ["no service account x"]).words == (
        "pods of shop/deployments/parse cannot be created: no service account x; correct its pod template"
    )


@pytest.mark.parametrize("conditions", [None, 5, "text", {"type": "ReplicaFailure"}, ["text", 5, {"type": 5}]])
def test_a_status_of_another_shape_says_nothing(conditions: object) -> None:
    """A custom resource may have any; its controller's events count, the newest first."""
    events = [Event("old", last_timestamp="2026-01-01T00:00:00Z"), Event("new", event_time="2026-01-01T00:00:01.5Z"), Event("")]
    assert failures_in({"conditions": conditions}, events) == ["new", "old"]
    assert failures_in(None, []) == []


def test_a_condition_that_holds_comes_before_events() -> None:
    """It is about now."""
    conditions = [
        {"type": "Available", "status": "True", "message": "fine"},
        {"type": "ReplicaFailure", "status": "True", "message": "now"},
        {"type": "ReplicaFailure", "status": "False", "message": "over"},
    ]
    assert failures_in({"conditions": conditions}, [Event("then")]) == ["now", "then"]
