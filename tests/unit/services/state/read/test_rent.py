"""What jobs and clusters cost now."""

import msgspec
import pytest

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import Placement, RescheduleCommand
from surescale.contracts.messages import ClusterTopology, Host, JobTopology, TaskSpec
from surescale.services.state.documents import JobRent
from surescale.services.state.fleet_documents import ClusterRent
from surescale.services.state.read.rent import Prices, cluster_rent, job_rent
from tests.support.controller_world import JOB, job

CLUSTER = ClusterTopology(
    cluster="sim",
    version=1,
    at_ms=0,
    hosts=(Host(host="m1", units=(0, 1), price_per_s=0.25), Host(host="l1", units=(4, 5), price_per_s=1.0)),
)


def command(*, advice: bool = False) -> RescheduleCommand:
    """The command for the job's first generation."""
    return RescheduleCommand(
        command_id=f"{JOB}#1.0",
        cluster="sim",
        job=JOB,
        desired_generation=1,
        step=0,
        base_placement_generation=0,
        decision_id="d",
        gate_reason="desired",
        gate_cause="desired",
        issued_at_ms=0,
        changes=(),
        advice=advice,
        placement=Placement(
            algorithm="cetsa", hosts=("m1",), rent_per_s=0.25, rent_round_robin_per_s=1.25, rent_default_per_s=0.75
        ),
    )


def test_a_jobs_rent_and_savings() -> None:
    """Rent comes from where the job stands, savings from the command that led there."""
    rent = job_rent(job(units=(0, 1), generation=1), CLUSTER, command())
    assert rent == JobRent(
        hosts=("m1",),
        per_s=0.25,
        per_day=21_600,
        algorithm="cetsa",
        saved_round_robin_per_day=86_400,
        saved_default_per_day=43_200,
    )


def test_without_a_command_savings_are_not_known() -> None:
    """A job as its engine started it, or one that was only given advice, claims no savings."""
    for led in (None, command(advice=True)):
        rent = job_rent(job(units=(0, 4)), CLUSTER, led)
        assert (rent.per_s, rent.saved_round_robin_per_day, rent.saved_default_per_day) == (1.25, None, None)


def test_a_cluster_pays_a_shared_host_once() -> None:
    """Two jobs on one host cost its rent once."""
    rent = cluster_rent([job(units=(0,)), job(units=(1,))], CLUSTER)
    assert rent == ClusterRent(hosts=("m1",), per_s=0.25, per_day=21_600)


PAID = "so all of them are paid"
ITSELF = Capabilities(engine="flink", acts="counts", places="itself")
TASKS = (
    TaskSpec(task="source", parallelism=2, configured_parallelism=2),
    TaskSpec(task="map", upstream=("source",), parallelism=3, configured_parallelism=8),
    TaskSpec(task="model", upstream=("map",), parallelism=1, configured_parallelism=1, sharing_group="gpu"),
)
FLINK = JobTopology(job="prod/orders", version=1, at_ms=0, tasks=TASKS)
HOUR = 3_600


def where_the_engine_places(*hosts: Host, worker: float | None = None) -> ClusterTopology:
    """Return a cluster of task managers."""
    return ClusterTopology(cluster="prod", version=1, at_ms=0, hosts=hosts, engine=ITSELF, worker_price_per_s=worker)


def manager(name: str, *, free: int, dollars_an_hour: float = 0.4) -> Host:
    """Return a task manager of four slots."""
    return Host(host=name, slots=4, free_slots=free, price_per_s=dollars_an_hour / HOUR)


def test_where_the_engine_places_a_job_pays_for_its_slots() -> None:
    """Tasks of one sharing group share them; saved is what its author's size would have cost more."""
    cluster = where_the_engine_places(manager("a", free=0), manager("b", free=4))
    rent = job_rent(FLINK, cluster, None)
    assert rent is not None
    assert (rent.slots, rent.hosts) == (4, ())
    assert rent.per_day == pytest.approx(4 * 0.1 * 24)
    assert rent.saved_configured_per_day == pytest.approx(5 * 0.1 * 24)
    assert Prices(cluster).per_day(FLINK) == rent.per_day


def test_slots_that_free_no_host_are_paid_all_the_same() -> None:
    """All hosts count; those without a single taken slot could be given back."""
    rent = cluster_rent([FLINK], where_the_engine_places(manager("b", free=4), manager("a", free=1)))
    assert rent is not None
    assert (rent.hosts, rent.free_slots, rent.spare_hosts) == (("a", "b"), 5, ("b",))
    assert rent.per_day == pytest.approx(2 * 0.4 * 24)


def test_days_are_summed_at_the_price_of_now_where_no_other_is_remembered() -> None:
    """Minute by minute, the newest day first; what was saved where the author's size was known, and how much of it is known."""
    cluster = where_the_engine_places(manager("a", free=0))
    sums = {
        "20000.minutes": "1440",
        "20000.slots": "5760",
        "20000.compared": "1440",
        "20000.saved": "7200",
        "20001.minutes": "60",
        "20001.slots": "240",
        "20001.compared": "0",
        "20001.saved": "0",
        "19975.minutes": "1440",
        "19975.slots": "1440",
        "19975.compared": "1",
        "19975.saved": "-60",
        "19971.minutes": "1440",
        "19971.slots": "1440",
        "19971.compared": "1",
        "19971.saved": "0",
        "19970.minutes": "1440",
        "19970.slots": "1440",
        "19000.minutes": "1440",
        "19000.slots": "1440",
        "oops": "x",
    }
    rent = job_rent(FLINK, cluster, None, sums)
    assert rent is not None
    assert [day.since for day in rent.days] == ["2024-10-05", "2024-10-04", "2024-09-09", "2024-09-05"]
    newest, full, old, oldest = rent.days
    assert (newest.dollars, newest.minutes, newest.saved_configured) == (pytest.approx(4 * 0.1), 60, None)
    assert (full.dollars, full.saved_configured) == (pytest.approx(4 * 0.1 * 24), pytest.approx(5 * 0.1 * 24))
    assert old.saved_configured == pytest.approx(-0.1)
    assert rent.month is not None
    assert (rent.month.since, rent.month.minutes) == ("2024-09-09", 2940), "the oldest day is the 31st"
    assert rent.month.dollars == pytest.approx(sum(day.dollars for day in (newest, full, old)))
    assert oldest.minutes == 1440
    assert rent.month.saved_configured == pytest.approx(11.9)
    assert Prices(cluster).saved_per_day(FLINK) == rent.saved_configured_per_day


@pytest.mark.parametrize(
    ("free", "words"),
    [
        ((1, 2), f"3 slots of the cluster are free, but no host is, {PAID}; they are too few to free a host"),
        ((0, 1), f"1 slot of the cluster is free, but no host is, {PAID}; they are too few to free a host"),
        ((2, 2), f"4 slots of the cluster are free, but no host is, {PAID}; packed, they would free 1 host"),
        ((3, 3, 3), f"9 slots of the cluster are free, but no host is, {PAID}; packed, they would free 2 hosts"),
        ((4, 2, 2), f"4 slots of the cluster are free, on hosts that are in use, {PAID}; packed, they would free 1 host"),
        ((4, 1), ""),
        ((4, 4, 3, 3), ""),
        ((0, 0), ""),
    ],
)
def test_freed_slots_that_free_no_host_are_said(free: tuple[int, ...], words: str) -> None:
    """Only of a job that does without more than the free hosts have: here five slots, and a host has four."""
    hosts = [manager(f"tm-{number}", free=each) for number, each in enumerate(free)]
    cluster = where_the_engine_places(*hosts)
    rent = job_rent(FLINK, cluster, None)
    assert rent is not None
    assert rent.frees_no_host.startswith(words)
    assert bool(rent.frees_no_host) == bool(words)
    full = msgspec.structs.replace(FLINK, tasks=tuple(msgspec.structs.replace(each, configured_parallelism=1) for each in TASKS))
    wide = job_rent(full, cluster, None)
    assert wide is not None
    assert wide.frees_no_host == ""


def test_workers_whose_hosts_nobody_knows_have_a_price_of_their_own() -> None:
    """A cluster of such pays for the workers of its jobs."""
    cluster = where_the_engine_places(worker=0.05 / HOUR)
    groups = JobTopology(job="prod/chain", version=1, at_ms=0, tasks=(TaskSpec(task="a", parallelism=3, sharing_group="a"),))
    rent, whole = job_rent(groups, cluster, None), cluster_rent([groups, FLINK], cluster)
    assert rent is not None
    assert whole is not None
    assert (rent.per_day, rent.saved_configured_per_day) == (pytest.approx(3 * 0.05 * 24), None)
    assert (whole.per_day, whole.free_slots) == (pytest.approx(7 * 0.05 * 24), None)


@pytest.mark.parametrize(
    "hosts", [(), (manager("a", free=0, dollars_an_hour=0.0),), (manager("a", free=0), manager("b", free=0, dollars_an_hour=0.0))]
)
def test_what_has_no_price_is_unknown_and_not_free(hosts: tuple[Host, ...]) -> None:
    """One host without a price is enough."""
    cluster = where_the_engine_places(*hosts)
    assert (job_rent(FLINK, cluster, None), cluster_rent([FLINK], cluster), Prices(cluster).per_day(FLINK)) == (None, None, None)
