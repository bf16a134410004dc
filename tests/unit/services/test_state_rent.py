"""Rent from documents of the view, and in the demo's summary."""

import json
from typing import Any

import msgspec

from contracts.commands import Placement, RescheduleCommand
from contracts.messages import ClusterTopology, Host
from contracts.wire import encode
from services.stack.demo import rent_lines
from services.state.rent import cluster_rent, job_rent
from tests.support.controller_world import JOB, job

CLUSTER = ClusterTopology(
    cluster="sim",
    version=1,
    at_ms=0,
    hosts=(Host(host="m1", units=(0, 1), price_per_s=0.25), Host(host="l1", units=(4, 5), price_per_s=1.0)),
)


def document(message: msgspec.Struct) -> dict[str, Any]:
    """A record as it stands in the view."""
    return {"appended_ms": 1, "record": json.loads(encode(message))}


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
    rent = job_rent(document(job(units=(0, 1), generation=1)), document(CLUSTER), document(command()))
    assert rent == {
        "hosts": ["m1"],
        "per_s": 0.25,
        "per_day": 21_600,
        "algorithm": "cetsa",
        "saved_round_robin_per_day": 86_400,
        "saved_default_per_day": 43_200,
    }


def test_without_a_command_savings_are_not_known() -> None:
    """A job as its engine started it, or one that was only advised, claims no savings."""
    for led in (None, document(command(advice=True))):
        rent = job_rent(document(job(units=(0, 4))), document(CLUSTER), led)
        assert rent is not None
        assert (rent["per_s"], rent["saved_round_robin_per_day"], rent["saved_default_per_day"]) == (1.25, None, None)


def test_rent_is_not_known_without_hosts() -> None:
    """Before the cluster's topology has come there are no prices."""
    assert job_rent(document(job()), None, None) is None
    assert cluster_rent([document(job())], None) is None


def test_a_cluster_pays_a_shared_host_once() -> None:
    """Two jobs on one host cost its rent once; a job without topology costs nothing."""
    rent = cluster_rent([document(job(units=(0,))), document(job(units=(1,))), None], document(CLUSTER))
    assert rent == {"hosts": ["m1"], "per_s": 0.25, "per_day": 21_600}


def test_the_summary_shows_rent_and_savings_in_money() -> None:
    """One line per job for the policy that acted, and one for the hosts of each policy."""
    rent = {"dollars": 12.5, "per_s": 0.001, "per_day": 86.4, "saved_round_robin": 30.0, "saved_default": 20.25}
    report = {
        "jobs": {"sim/a": {"sure": {"rent": rent}, "static": {"rent": rent}}},
        "rent": {"static": {"dollars": 40.0}, "sure": {"dollars": 12.5}},
    }
    assert rent_lines(report) == [
        "sim/a: hosts for $86.40 a day, $12.50 in this run; saved $30.00 against round robin, $20.25 against Flink's default",
        "all hosts in use, each paid once: static $40.00, sure $12.50",
    ]
