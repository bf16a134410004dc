"""What the rescaler shows of jobs, commands and rents, from its memory and its view."""

import msgspec

from surescale.contracts.commands import Progress
from surescale.contracts.ids import Cluster
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.settings import ControlSettings
from surescale.rescaler.service import metrics
from surescale.rescaler.service.status import Status
from tests.support.controller_world import CLUSTER, JOB, OTHER_JOB, START_MS, cluster, decision, job, view
from tests.support.metrics import Scraped


def shown(status: Status) -> Scraped:
    """Return what the page shows."""
    return Scraped(status.metrics.page()[0].decode())


def counted(status: Status, report: Progress) -> None:
    """Let a round write a report."""
    status.count_round([], Effects(progress=(report,)), [], 0.0)


def priced() -> object:
    """The cluster of three hosts, at one, two and three dollars a second."""
    known = cluster()
    hosts = tuple(msgspec.structs.replace(host, price_per_s=price) for price, host in enumerate(known.hosts, 1))
    return msgspec.structs.replace(known, hosts=hosts)


def test_a_host_that_jobs_share_counts_for_each_and_once_for_the_cluster() -> None:
    """One job on the hosts of one and two dollars, another on those of two and three."""
    status = Status(CLUSTER)
    status.show({}, view(job(units=(0, 4)), job(OTHER_JOB, (5, 8)), hosts=priced()))  # type: ignore[arg-type]
    page = shown(status)
    assert page.of(metrics.RENT, streaming_job=JOB) == 3
    assert page.of(metrics.RENT, streaming_job=OTHER_JOB) == 5
    assert page.of(metrics.CLUSTER_RENT, streaming_cluster=CLUSTER) == 6


def test_a_command_is_in_flight_until_its_end_is_known() -> None:
    """By the last report on it: issued, accepted, then no more."""
    status, controller = Status(CLUSTER), Controller(Cluster("sim"), ControlSettings())
    (command,) = controller.on_decision(decision(START_MS, {"map": 4}), view(), START_MS).commands
    status.show(controller.memory, view())
    assert shown(status).of(metrics.IN_FLIGHT, status="issued") == 1
    accepted = Progress(
        cluster="sim", job=JOB, command_id=command.command_id, desired_generation=1, status="accepted", at_ms=START_MS
    )
    counted(status, accepted)
    assert (shown(status).of(metrics.IN_FLIGHT, status="accepted"), shown(status)[metrics.IN_FLIGHT]) == (1, 1)
    counted(status, msgspec.structs.replace(accepted, status="applied", duration_ms=30_000))
    status.show({}, view())
    assert (shown(status)[metrics.IN_FLIGHT], shown(status)[metrics.APPLY_DURATION]) == (0, 1)


def test_learners_count_while_they_warm() -> None:
    """As the newest report says, until the preparation has ended."""
    status = Status(CLUSTER)
    warming = Progress(
        cluster="sim", job=JOB, command_id="c", desired_generation=1, status="warming", at_ms=0, learners=3, lag_bytes=900
    )
    counted(status, warming)
    counted(status, msgspec.structs.replace(warming, lag_bytes=100))
    assert (shown(status)[metrics.LEARNERS], shown(status)[metrics.LEARNER_LAG]) == (3, 100)
    counted(status, msgspec.structs.replace(warming, status="applied", lag_bytes=0))
    assert (shown(status)[metrics.LEARNERS], shown(status)[metrics.LEARNER_LAG]) == (0, 0)


def test_learners_of_another_process_are_not_shown() -> None:
    """Whoever is no longer active does not hear how their warming goes on."""
    status = Status(CLUSTER)
    counted(status, Progress(cluster="sim", job=JOB, command_id="c", desired_generation=1, status="warming", at_ms=0, learners=3))
    status.forget()
    assert shown(status)[metrics.LEARNERS] == 0


def test_jobs_are_counted_by_the_phase_of_their_gate() -> None:
    """One that carries a command out is transitioning."""
    status, controller = Status(CLUSTER), Controller(Cluster("sim"), ControlSettings())
    controller.on_decision(decision(START_MS, {"map": 4}), view(), START_MS)
    status.show(controller.memory, view())
    assert shown(status)[metrics.JOBS] == 1
    assert shown(status).of(metrics.JOBS, phase=controller.memory[JOB].gate.phase.lower()) == 1  # type: ignore[union-attr]


def test_one_that_waits_shows_nothing_of_the_world() -> None:
    """Else two processes would count the same jobs and rents."""
    status = Status(CLUSTER)
    status.state = "standby"
    assert (shown(status)[metrics.ACTIVE], shown(status).labels(metrics.RENT)) == (0, set())
