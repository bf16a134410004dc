"""What sources say of the workers that are asked for, and of the actuator behind them."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from surescale.engines.compose import COMPOSE
from surescale.engines.groups.workers import MembersEach, WorkerTopology
from surescale.engines.kubernetes import KUBERNETES
from surescale.engines.ports.source import SourceUnavailable
from surescale.engines.processes.worker_store import Failure, WorkerStore
from surescale.monitor.settings import MonitorSettings
from tests.support.fake_api_server import FakeApiServer
from tests.support.fake_docker import FakeDocker
from tests.support.kubernetes_rig import shipped_rules
from tests.support.role_settings import role_settings
from tests.support.worker_processes import CLUSTER, chain_of

COUNTS = {"parse": 1, "count": 2}


@pytest.fixture
def server() -> FakeApiServer:
    """A cluster behind a proxy, in which the monitor may do what the shipped role allows it."""
    found = FakeApiServer(rules=shipped_rules("surescale-monitor"), asks_token=False)
    for task, count in COUNTS.items():
        found.deploy(task, count)
    return found


@pytest.fixture
def workers(server: FakeApiServer, tmp_path: Path) -> Iterator[WorkerTopology]:
    """Those of a job with two Deployments."""
    groups = {task: {"kubernetes": {"namespace": "shop", "name": task}} for task in COUNTS}
    (tmp_path / "groups.json").write_text(json.dumps({"orders": {"groups": groups}}))
    file = str(tmp_path / "groups.json")
    with server.serving() as answering:
        settings = role_settings(
            MonitorSettings, engine="kafka", actuator="kubernetes", groups_file=file, kubernetes_url=answering.url
        )
        found = WorkerTopology(settings)
        yield found
        found.requirements.close()


def test_what_the_actuator_can_do_is_known(workers: WorkerTopology) -> None:
    """Room is unknown: nobody says how many pods fit before they are asked for."""
    topology = workers.topology()
    assert (topology.engine, topology.hosts) == (KUBERNETES, ())


def test_what_is_asked_for_has_a_name_and_an_epoch(workers: WorkerTopology, server: FakeApiServer) -> None:
    """Equal numbers have one name; objects that are recreated begin an epoch, a status does not."""
    first = workers.requirements.required("orders")
    assert first is not None
    assert first.counts == COUNTS
    parse = next(each for each in server.workloads if each.name == "parse")
    server.scale(parse, 5)
    wider = workers.requirements.required("orders")
    assert wider is not None
    assert (wider.counts["parse"], wider.epoch == first.epoch, wider.id == first.id) == (5, True, False)
    server.scale(parse, COUNTS["parse"])
    server.touch(parse)
    again = workers.requirements.required("orders")
    assert again is not None
    assert (again.id, again.epoch) == (first.id, first.epoch)
    server.deploy("parse", COUNTS["parse"])
    redeployed = workers.requirements.required("orders")
    assert redeployed is not None
    assert redeployed.epoch != first.epoch
    assert server.used == set(shipped_rules("surescale-monitor")) - {("apps", "statefulsets/scale", "get")}


def test_a_right_that_is_missing_holds_the_job(workers: WorkerTopology, server: FakeApiServer) -> None:
    """In one line that names it."""
    server.rules = frozenset()
    said = r'orders: .* cannot get resource "deployments/scale" .*; until then its figures are unknown and it is held'
    with pytest.raises(SourceUnavailable, match=said):
        workers.requirements.required("orders")


def test_a_deployment_that_is_gone_holds_the_job(workers: WorkerTopology, server: FakeApiServer) -> None:
    """In one line that names it and says what to do; once it is there again, so are the figures."""
    server.workloads = [each for each in server.workloads if each.name != "parse"]
    said = (
        r'orders: .*deployments\.apps "parse" not found; create it, or correct SURESCALE_GROUPS_FILE; '
        "until then its figures are unknown and it is held"
    )
    with pytest.raises(SourceUnavailable, match=said) as away:
        workers.requirements.required("orders")
    assert "\n" not in str(away.value)
    server.deploy("parse", 1)
    assert workers.requirements.required("orders") is not None


def test_a_job_that_the_groups_file_does_not_name_is_asked_nothing(workers: WorkerTopology) -> None:
    """Whatever else knows it."""
    assert workers.requirements.required("clicks") is None


Looks = list[tuple[int, int | None]]


def fixed_by(looks: Looks) -> list[bool]:
    """Return whether a size could not be asked for, by looks a minute apart at members and at workers asked for."""
    each = MembersEach()
    return [bool(each.look(range(members), asked, at * 60_000)) for at, (members, asked) in enumerate(looks)]


@pytest.mark.parametrize(
    ("looks", "fixed"),
    [
        ([(12, 4)] * 3, [True] * 3),  # three in each, whatever came before
        ([(10, 4)], [True]),
        ([(4, 4), (12, 4), (12, 4), (12, 4)], [False, False, False, True]),  # somebody set a concurrency
        ([(12, 4), (4, 4)], [True, False]),
        ([(4, 4), (5, 4), (6, 4), (7, 4)], [False, False, False, True]),  # some have more than one, or are nobody's workers
        ([(4, 4), (5, 4), (5, 4), (4, 4), (5, 4)], [False] * 5),  # a new version replaces them one by one
        ([(1, 1), (2, 1), (1, 1), (2, 1), (2, 1), (1, 1)], [False] * 6),  # a worker died, and its place is taken
        ([(8, 8), *[(8, 2)] * 50, (2, 2)], [False] * 52),  # they drain
        ([(8, 8), *[(8, 2)] * 63], [False] * 63 + [True]),  # not for so long
        ([(2, 8), (4, 8), (8, 8)], [False] * 3),  # they start
        ([(12, None), (12, 0), (0, 4)], [False] * 3),
    ],
)
def test_workers_that_are_several_members_cannot_be_sized(looks: Looks, fixed: list[bool]) -> None:
    """The first look counts at once; later it takes three in a row, and what drains or has just died is no member."""
    assert fixed_by(looks) == fixed


@pytest.mark.parametrize(
    ("before", "after", "is_fixed"),
    [
        ((range(12), 12), (range(100, 112), 4), True),  # a concurrency of 3, and a third of the workers
        ((range(12), 12), (range(100, 106), 4), True),
        ((range(12), 12), (range(12), 4), False),  # they drain
        ((range(12), 12), ([*range(8), *range(100, 104)], 4), False),  # and those that stay are replaced meanwhile
        ((range(4), 4), (range(100, 108), 8), False),
        ((range(6), 12), (range(100, 104), 4), False),
    ],
)
def test_a_deployment_that_changes_members_a_worker_and_workers_at_once_is_seen(
    before: tuple[Collection[int], int], after: tuple[Collection[int], int], is_fixed: bool
) -> None:
    """In the third minute: none of those that have come since was ever one of so many workers."""
    each = MembersEach()
    assert not each.look(*before, 0)
    assert [bool(each.look(*after, minute * 60_000)) for minute in range(1, 5)] == [False, False, is_fixed, is_fixed]


def test_what_to_do_about_members_that_are_no_workers_is_said_in_one_line() -> None:
    """With the factor, if it is one."""
    assert MembersEach().look(range(12), 4, 0) == (
        "12 members run where 4 workers are asked for, 3 in each: sizes count members and are asked for in workers; run one "
        "member in each (one thread, a concurrency of 1), and none that is no worker's"
    )
    assert "asked for: sizes" in MembersEach().look(range(10), 4, 0)


def test_containers_of_compose_are_known_by_their_engine(tmp_path: Path) -> None:
    """What drains is not asked for any more; an engine that does not answer holds the job, in one line."""
    docker = FakeDocker()
    for task, count in COUNTS.items():
        docker.scale(task, count)
    groups = {task: {"compose": {"project": "shop", "service": task}} for task in COUNTS}
    (tmp_path / "groups.json").write_text(json.dumps({"orders": {"groups": groups}}))
    file = str(tmp_path / "groups.json")
    with docker.serving() as answering:
        settings = role_settings(MonitorSettings, engine="kafka", actuator="compose", groups_file=file, compose_url=answering.url)
        workers = WorkerTopology(settings)
        first = workers.requirements.required("orders")
        assert first is not None
        assert (first.counts, workers.topology().engine, workers.topology().hosts) == (COUNTS, COMPOSE, ())
        docker.of("count")[-1].name = "shop-count-2.draining.abc"
        fewer = workers.requirements.required("orders")
        assert fewer is not None
        assert (fewer.counts["count"], fewer.epoch == first.epoch, fewer.id == first.id) == (1, True, False)
        assert workers.requirements.required("clicks") is None
        docker.is_away = True
        with pytest.raises(
            SourceUnavailable, match=r"^orders: GET .* answers 503: the engine is starting; until then .* it is held$"
        ):
            workers.requirements.required("orders")
        workers.requirements.close()


def test_a_worker_process_that_crashes_at_its_start_is_told_as_one_printable_line(tmp_path: Path) -> None:
    """Its output comes from outside; places that nobody asks for any more say nothing."""
    file, chain = tmp_path / "groups.json", chain_of({"parse": 1})
    command = list(chain.groups["parse"].workers.command)
    file.write_text(json.dumps({"orders": {"groups": {"parse": {"workers": {"command": command}}}}}))
    settings = role_settings(
        MonitorSettings,
        engine="kafka",
        actuator="processes",
        cluster=CLUSTER,
        groups_file=str(file),
        workers_folder=str(tmp_path / "workers"),
    )
    found, store = WorkerTopology(settings), WorkerStore(tmp_path / "workers", CLUSTER)
    assert found.requirements.failing("orders", "parse") == ""
    store.make(store.file("orders", "parse", 0).parent)
    required = store.deploy(chain)
    store.note_failure("orders", "parse", 0, Failure(1, 2, "ended with exit code 3; its last output: \x1b]0;boo"))
    told = found.requirements.failing("orders", "parse")
    assert told.startswith("worker parse 0 failed to start, 2 times in a row: it ended with exit code 3")
    assert told.isprintable()
    (worker,) = found.requirements.workers("orders", "parse")
    assert (worker.index, worker.pid, worker.started_ms, worker.failures) == (0, None, None, 2)
    assert worker.failure.startswith("ended with exit code 3")
    assert worker.failure.isprintable()
    assert worker.log == str(tmp_path / "workers" / CLUSTER / "orders" / "parse" / "0.log")
    store.change("orders", required, {"parse": 0})
    assert found.requirements.failing("orders", "parse") == ""
    assert found.requirements.workers("orders", "parse") == ()
