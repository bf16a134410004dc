"""What jobs and clusters cost now."""

from surescale.contracts.commands import Placement, RescheduleCommand
from surescale.contracts.messages import ClusterTopology, Host
from surescale.services.state.documents import JobRent
from surescale.services.state.fleet_documents import ClusterRent
from surescale.services.state.read.rent import cluster_rent, job_rent
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
