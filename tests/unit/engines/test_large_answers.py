"""Few large answers are in a role's memory at a time, whichever engine gives them and however many jobs ask."""

import contextlib
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from surescale.contracts.errors import SurescaleError
from surescale.engines.compose import client as compose
from surescale.engines.flink import client as flink
from surescale.engines.groups import busy
from surescale.engines.groups.chains import Group
from surescale.engines.groups.members import Member
from surescale.engines.kubernetes import client as kubernetes
from surescale.engines.kubernetes.target import Target
from surescale.runtime.http import LARGE, LargeAnswers
from tests.support.stub_server import StubRequest, StubResponse, answering
from tests.support.waiting import PATIENT_S

LARGE_BYTES = 2_000
SOON_S = 0.3
ANSWER = {
    "flink-version": "2.3.0",
    "taskmanagers": 1,
    "slots-total": 4,
    "slots-available": 1,
    "kind": "Scale",
    "metadata": {"uid": "u", "resourceVersion": "7"},
    "spec": {},
    "status": {},
    "Id": "sha256:1",
    "ApiVersion": "1.44",
    "MinAPIVersion": "1.24",
}
"""What Flink, an API server and a container engine each say, in one."""


def ask_flink(url: str, timeout_s: float) -> object:
    """Return what Flink says of itself."""
    return flink.FlinkClient(url, timeout_s=timeout_s).overview()


def ask_kubernetes(url: str, timeout_s: float) -> object:
    """Return the size of a workload."""
    return kubernetes.KubernetesClient(url, timeout_s=timeout_s).scale(Target("shop", "parse"))


def ask_compose(url: str, timeout_s: float) -> object:
    """Return the id of an image."""
    return compose.ComposeClient(url, timeout_s=timeout_s).image("parse")


def ask_member(url: str, timeout_s: float) -> object:
    """Return how long a member has been busy; raise what it says in place of that."""
    group = Group(metrics=f"{url}/metrics", busy="busy_seconds_total")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(busy, "ANSWER_TIMEOUT_S", timeout_s)
        (told,) = busy.busy_of({"parse": (group, (Member("m", "parse-1", "10.0.0.1", frozenset()),))})["parse"]
    if told.problem:
        raise SurescaleError(told.problem)
    return told


ENGINES: list[tuple[ModuleType, Callable[[str, float], object]]] = [
    (flink, ask_flink),
    (kubernetes, ask_kubernetes),
    (compose, ask_compose),
    (busy, ask_member),
]


@pytest.mark.parametrize(("client", "ask"), ENGINES, ids=["flink", "kubernetes", "compose", "members"])
@pytest.mark.parametrize("status", [200, 500])
def test_few_large_answers_are_in_memory_at_a_time(
    monkeypatch: pytest.MonkeyPatch, client: ModuleType, ask: Callable[[str, float], object], status: int
) -> None:
    """Of errors too. Who finds no place in time says so, small answers need none, and each place is given back."""
    assert client.LARGE is LARGE, "all engines share the places"
    answers = LargeAnswers(at_once=2, large_bytes=LARGE_BYTES)
    monkeypatch.setattr(client, "LARGE", answers)
    wanted = [""]

    def give(asked: StubRequest) -> StubResponse:
        if asked.path == "/version":
            return StubResponse(body=json.dumps(ANSWER).encode())
        if asked.path == "/metrics":
            return StubResponse(status, f"busy_seconds_total 3.5\n# {wanted[0]}".encode())
        told: dict[str, Any] = {**ANSWER, "message": wanted[0], "errors": [wanted[0]]}
        return StubResponse(status, json.dumps(told).encode())

    def answered(url: str, timeout_s: float) -> bool:
        """Return whether there was an answer; no more is asked of an error than that it is one of ours."""
        with contextlib.suppress(SurescaleError):
            return bool(ask(url, timeout_s))
        return False

    with answering(give) as server:
        with contextlib.ExitStack() as held:
            for _ in range(2):
                held.enter_context(answers.reading(PATIENT_S)).take()
            assert answered(server.url, PATIENT_S) is (status == 200)
            wanted[0] = "x" * 3 * LARGE_BYTES
            if status == 200 or client is not busy:  # of a member's error, its body is not shown
                with pytest.raises(SurescaleError, match="it is large, and other large answers are being read"):
                    ask(server.url, SOON_S)
        for _ in range(4):
            assert answered(server.url, PATIENT_S) is (status == 200)
        with answers.reading(SOON_S) as one, answers.reading(SOON_S) as other:
            one.take()
            other.take()
