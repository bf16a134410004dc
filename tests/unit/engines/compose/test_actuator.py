"""The actuator `compose` on a fake engine: what it refuses, what it says, and what is left when it dies."""

import json
import threading
from collections.abc import Callable, Iterator

import pytest

from surescale.engines.compose.answers import MADE_FOR
from surescale.engines.ports.actuator import EngineRefused, EngineUnavailable
from surescale.rescaler.execution import RequirementExecution
from tests.support.compose_rig import BEFORE, JOB, STEPS_MAX, ComposeRig
from tests.support.fake_docker import FakeDocker
from tests.support.mortal_client import Killed
from tests.support.stub_server import StubRequest
from tests.support.waiting import wait_until

AFTER = {"parse": 3, "count": 1}


@pytest.fixture
def rig() -> Iterator[ComposeRig]:
    """A job that runs."""
    docker = FakeDocker()
    with docker.serving() as answering:
        yield ComposeRig(docker, answering)
        docker.may_end.set()


# --- what cannot be scaled ------------------------------------------------------------------------------------------------


def _named(docker: FakeDocker) -> None:
    (parse,) = docker.of("parse")
    parse.name = "the-parser"


def _host(**more: object) -> Callable[[FakeDocker], None]:
    def changed(docker: FakeDocker) -> None:
        docker.of("parse")[0].config["HostConfig"].update(more)

    return changed


def _stopped(docker: FakeDocker) -> None:
    docker.of("parse")[0].status = "exited"


def _no_image(docker: FakeDocker) -> None:
    docker.images.clear()


def _other_image(docker: FakeDocker) -> None:
    docker.images["worker:1"] = "sha256:bbb"


@pytest.mark.parametrize(
    ("made_so", "said"),
    [
        (_named, "CANNOT_SCALE: shop/parse: its container has a name of its own, the-parser; remove container_name"),
        (
            _host(PortBindings={"80/tcp": [{"HostIp": "", "HostPort": "8080"}]}),
            "CANNOT_SCALE: shop/parse: its port 80/tcp is published at 8080 of the host, which only one container can have",
        ),
        (_host(RestartPolicy={"Name": "no"}), "CANNOT_SCALE: shop/parse: its containers are not restarted when they fail; set"),
        (_stopped, "TARGET_GONE: shop/parse: none of its containers runs; start it with docker compose up, or correct"),
        (_no_image, "IMAGE_GONE: shop/parse: the engine has no image worker:1 any more; pull or build it"),
        (_other_image, "IMAGE_GONE: shop/parse: worker:1 is another image now than the one that its containers run; docker"),
    ],
)
def test_a_service_that_cannot_have_another_container_is_refused(
    rig: ComposeRig, made_so: Callable[[FakeDocker], None], said: str
) -> None:
    """In one line with the fix, and nothing is changed."""
    made_so(rig.docker)
    assert str(rig.refused(parse=2)).startswith(said)


def test_a_port_that_the_engine_chooses_is_no_hindrance(rig: ComposeRig) -> None:
    """Nor is a range of them."""
    rig.docker.of("parse")[0].config["HostConfig"]["PortBindings"] = {
        "80/tcp": [{"HostPort": ""}], "81/tcp": [{"HostPort": "8000-8010"}], "82/tcp": None,
    }  # fmt: skip
    assert rig.to_the_end(RequirementExecution(rig.command(parse=2)))[-1].status == "applied"


def test_a_container_that_the_engine_cannot_start_is_taken_back(rig: ComposeRig) -> None:
    """Together with those that were made for the same command."""
    rig.docker.ill["parse"] = "port"
    refused = rig.refused(parse=3, count=3)
    assert (refused.code, "port is already allocated" in refused.detail) == ("COMPOSE_REFUSED", True)


def test_an_unknown_project_is_named(rig: ComposeRig) -> None:
    """As a service with no running container."""
    command = rig.command(parse=2)
    rig.docker.containers.clear()
    with pytest.raises(EngineRefused, match="EPOCH_CHANGED: the first container of a service was recreated, or no longer runs"):
        rig.engine.request(command)
    assert rig.refused(parse=2).code == "TARGET_GONE"


@pytest.mark.parametrize(("api", "api_min"), [("1.40", "1.12"), ("1.60", "1.50")])
def test_an_engine_of_another_time_is_named(rig: ComposeRig, api: str, api_min: str) -> None:
    """Too old or too new: no refusal of the command."""
    rig.docker.api, rig.docker.api_min = api, api_min
    rig.restart()
    with pytest.raises(
        EngineUnavailable, match=rf"the engine speaks API {api_min} to {api}, surescale 1\.41 to 1\.48; use Docker"
    ):
        rig.engine.look(JOB)


# --- copies ---------------------------------------------------------------------------------------------------------------


def test_a_replica_is_what_the_first_container_is(rig: ComposeRig) -> None:
    """Compose takes it for its own; it has a name, a number and a host name of its own."""
    rig.engine.request(rig.command(parse=2))
    first, second = sorted(rig.docker.of("parse"), key=lambda each: each.number)
    assert (second.name, second.number, second.status) == ("shop-parse-2", 2, "running")
    labels = {**second.config["Labels"], "com.docker.compose.container-number": "1"}
    assert labels.pop(MADE_FOR) == f"{JOB}#1.0"
    assert labels == first.config["Labels"]
    assert "Hostname" not in second.config
    assert second.config["NetworkingConfig"]["EndpointsConfig"] == {"shop_default": {"Aliases": ["shop-parse-2", "parse"]}}


def test_numbers_that_are_free_are_used_again(rig: ComposeRig) -> None:
    """The highest ones go first, the first one never does."""
    for number, wanted in enumerate((4, 2, 3), start=1):
        assert rig.to_the_end(RequirementExecution(rig.command(parse=wanted, number=number)))[-1].status == "applied"
    assert sorted(each.name for each in rig.docker.of("parse")) == ["shop-parse-1", "shop-parse-2", "shop-parse-3"]
    assert {name.partition(".")[0] for name in rig.docker.stopped} == {"shop-parse-4", "shop-parse-3"}


# --- draining -------------------------------------------------------------------------------------------------------------


def test_a_container_that_drains_still_runs_and_is_not_wanted(rig: ComposeRig) -> None:
    """Whoever looks sees so, and a smaller number is applied when the last one is gone."""
    rig.docker.may_end.clear()
    work = RequirementExecution(rig.command(count=1))
    (accepted,) = work.step(rig.engine, now_ms=rig.docker.now_ms, wall_ms=rig.docker.now_ms)
    assert accepted.status == "accepted"
    rig.engine.reconciler.reconcile()
    wait_until(lambda: rig.docker.stopped, what="the engine to be asked")
    rig.restart()
    seen = rig.engine.look(JOB)
    assert (seen.required, seen.running) == ({**BEFORE, "count": 1}, BEFORE)
    rig.docker.may_end.set()
    rig.settled()
    assert rig.engine.look(JOB).running == {**BEFORE, "count": 1}
    rig.docker.now_ms += 1_000
    assert [report.status for report in work.step(rig.engine, now_ms=rig.docker.now_ms, wall_ms=rig.docker.now_ms)] == ["applied"]


def test_while_one_drains_another_may_come(rig: ComposeRig) -> None:
    """It gets a number of its own, and both drain one after the other if it must go, too."""
    rig.docker.may_end.clear()
    rig.engine.request(rig.command(count=1))
    rig.engine.reconciler.reconcile()
    rig.engine.request(rig.command(count=2, number=2))
    assert rig.required == BEFORE
    assert sorted(each.name for each in rig.docker.of("count") if "draining" not in each.name) == ["shop-count-1", "shop-count-3"]
    rig.docker.may_end.set()
    rig.settled()
    assert len(rig.docker.of("count")) == 2


def test_a_container_that_may_drain_for_ages_ends_as_others_do(rig: ComposeRig) -> None:
    """The engine takes any number of seconds; one that no socket can wait for would end the process at each start."""
    for container in rig.docker.of("count"):
        container.config["StopTimeout"] = 2**62
    found = next(each for each in rig.engine.reconciler.client.containers("shop") if each.number == 2)
    rig.engine.reconciler.client.stop(found)
    assert rig.docker.stopped == ["shop-count-2"]


# --- who else changes it --------------------------------------------------------------------------------------------------


def test_a_name_that_somebody_else_takes_meanwhile_is_tried_again(rig: ComposeRig) -> None:
    """Names are the engine's fence: nobody gets two containers for one number."""
    command = rig.command(parse=2)

    def scaled_too(asked: StubRequest) -> None:
        if "/create?" in asked.path:
            rig.docker.before = lambda asked: None
            rig.docker.up("parse", 2)

    rig.docker.before = scaled_too
    with pytest.raises(EngineUnavailable, match="somebody else changes the service, too"):
        rig.engine.request(command)
    assert rig.required == {**BEFORE, "parse": 2}
    rig.engine.request(command)  # which is what it wants
    assert len(rig.docker.of("parse")) == 2


def test_another_number_on_the_way_up_is_somebody_elses(rig: ComposeRig) -> None:
    """Two of three containers that this command did not make."""
    command = rig.command(parse=4)
    rig.docker.scale("parse", 3)
    with pytest.raises(EngineRefused, match="REQUIREMENT_CHANGED: somebody else asked for parse=3"):
        rig.engine.request(command)
    assert rig.required == {**BEFORE, "parse": 3}


def test_a_service_that_is_made_anew_is_a_new_submission(rig: ComposeRig) -> None:
    """As after a change of the Compose file."""
    command = rig.command(parse=2)
    rig.docker.again("parse", 1)
    with pytest.raises(EngineRefused, match="EPOCH_CHANGED"):
        rig.engine.request(command)


# --- why fewer run --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ill", "said"),
    [
        (
            "crash",
            "parse: container shop-parse-2 ends again and again, with exit code 3, 4 restarts so far; see docker logs shop-",
        ),
        ("memory", "parse: container shop-parse-2 was killed for lack of memory, 4 restarts so far; raise mem_limit"),
        ("unhealthy", "parse: container shop-parse-2 runs, and its health check fails: connection refused; see docker inspect"),
        ("starting", "parse: container shop-parse-2 is starting"),
    ],
)
def test_containers_that_do_not_come_up_are_named_and_taken_back(rig: ComposeRig, ill: str, said: str) -> None:
    """A crash loop becomes an outcome in plain words; the service is as before."""
    rig.docker.ill["parse"] = ill
    reports = rig.to_the_end(RequirementExecution(rig.command(parse=2)))
    assert [report.status for report in reports] == ["accepted", "partly", "failed"]
    assert (reports[1].detail.startswith(said), reports[2].code) == (True, "DEADLINE"), reports[1].detail
    rig.settled()
    assert rig.required == BEFORE


def test_a_machine_that_is_full_is_named(rig: ComposeRig) -> None:
    """Containers wait for room, are started when there is some, and are taken back when there is none in time."""
    rig.workers_max = 4
    rig.restart()
    command = rig.command(parse=3)
    *_, partly, failed = rig.to_the_end(RequirementExecution(command))
    assert (partly.waiting_for, partly.reached["parse"]) == ("slots", 2)
    assert "no more containers may run on this machine; raise SURESCALE_WORKERS_MAX" in partly.detail
    assert (failed.code, failed.reached["parse"]) == ("PARTLY", 2)
    rig.settled()
    assert rig.required == {**BEFORE, "parse": 2}


# --- killed at any step ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_ill", "is_sent", "is_late"),
    [
        (False, False, False),
        (False, True, True),
        *(
            pytest.param(*each, marks=pytest.mark.nightly("the two above die before and after each request, in time and late"))
            for each in ((False, True, False), (True, True, False), (False, False, True))
        ),
    ],
)
def test_killed_at_any_request_nothing_is_left_that_nobody_wants(is_ill: bool, is_sent: bool, is_late: bool) -> None:
    """Another process repeats the command: both tasks end as it wants them, as its report says, or as before."""
    for dies_at in range(STEPS_MAX):
        docker = FakeDocker()
        with docker.serving() as answering:
            rig = ComposeRig(docker, answering)
            docker.ill = {"parse": "crash", "count": "crash"} if is_ill else {}
            command = rig.command(deadline_ms=5_000, **AFTER)
            rig.restart(dies_at, is_sent=is_sent)
            try:
                with _QuietThreads():
                    rig.to_the_end(RequirementExecution(command), step_ms=2_000)
            except Killed:
                rig.restart()
                docker.now_ms += 10_000 if is_late else 0
                last = rig.to_the_end(RequirementExecution(command), step_ms=2_000)[-1]
            else:
                return  # it ended before it could die: every request has been tried
            rig.settled()
            assert last.status == "applied" or is_ill or is_late
            wanted = AFTER if last.status == "applied" else last.reached if last.code == "PARTLY" else BEFORE
            assert rig.required == wanted, f"killed at request {dies_at}: {last}"
            assert len(docker.containers) == sum(rig.required.values()), f"killed at request {dies_at}"
    raise AssertionError("it never ends")


class _QuietThreads:
    """Threads that die with the process say nothing."""

    def __enter__(self) -> None:
        self._hook, threading.excepthook = threading.excepthook, lambda args: None

    def __exit__(self, *_: object) -> None:
        threading.excepthook = self._hook


def test_the_engine_is_asked_for_nothing_else(rig: ComposeRig) -> None:
    """So a proxy before its socket can be told what to let through; docs/consumers.md lists it."""
    asked: set[str] = set()

    def note(request: StubRequest) -> None:
        words = request.path.partition("?")[0].split("/")[2:]
        asked.add(f"{request.method} /{'/'.join('ID' if len(word) == 64 or ':' in word else word for word in words)}")

    rig.docker.before = note
    for number, wanted in enumerate((3, 1), start=1):
        rig.to_the_end(RequirementExecution(rig.command(parse=wanted, number=number)))
    assert {each for each in asked if each != "GET /"} == {
        "GET /containers/json", "GET /containers/ID/json", "GET /images/ID/json", "POST /containers/create",
        "POST /containers/ID/start", "POST /containers/ID/rename", "POST /containers/ID/stop", "DELETE /containers/ID",
    }, json.dumps(sorted(asked))  # fmt: skip
