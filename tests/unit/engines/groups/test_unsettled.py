"""Groups that deal out their partitions: whether they run is told by what moves, not by what their protocol calls it."""

import pytest

from surescale.contracts.messages import JobTopology
from surescale.engines.groups.chains import Chain, Group
from surescale.engines.ports.source import SourceUnavailable
from surescale.engines.processes.worker_store import Requirement
from tests.unit.engines.groups.test_idle import showing
from tests.unit.engines.groups.test_job import Broker, Followed, alone, parts

ORDERS = parts("orders", 6)


def unsettled(job: Followed) -> None:
    """Take the look at which a group is first seen to deal out its partitions: it is asked again in a moment."""
    with pytest.raises(SourceUnavailable, match="group g is rebalancing"):
        job.look()


def topology(job: Followed) -> JobTopology:
    """Return the last topology."""
    assert job.now is not None
    return job.now.topology


@pytest.mark.parametrize("told", [([ORDERS[0]], [ORDERS[2]], [ORDERS[4], ORDERS[5]], []), ([], [], [], [])])
def test_a_group_that_goes_on_committing_while_one_member_is_slow_runs(told: tuple[list[tuple[str, int]], ...]) -> None:
    """KIP-848 tells what each has by now, a cooperative classic group nothing: what was dealt out before counts until then."""
    broker = Broker()
    job = alone(broker)
    for minute in range(2):
        broker.ends.update(dict.fromkeys(ORDERS, 1_000 + 60 * minute))
        broker.group(dict.fromkeys(ORDERS, 50 * minute), ORDERS[:2], ORDERS[2:4], ORDERS[4:])
        job.look()
    for minute in range(2, 5):  # the third member is inside a long record while a fourth waits for its partitions
        broker.ends.update(dict.fromkeys(ORDERS, 1_000 + 60 * minute))
        committed = dict.fromkeys(ORDERS[:4], 50 * minute) | dict.fromkeys(ORDERS[4:], 50)
        assignor = "uniform" if any(told) else ""
        broker.group(committed, *told, state="rebalancing", assignor=assignor)
        if minute == 2:
            unsettled(job)
        else:
            job.look()
            assert topology(job).state == "running"
            assert job.spec().parallelism == 4
            assert job.queued() == 4 * (1_000 + 10 * minute) + 2 * (950 + 60 * minute)
    assert (job.grown("records_in"), job.grown("arrived_records")) == (4 * 50, 6 * 60)
    assert job.now is not None
    assert [each.records_in for each in job.now.samples] == [300, 300, 0, 0]  # since the fourth joined
    broker.group(dict.fromkeys(ORDERS, 400), ORDERS[:2], ORDERS[2:4], ORDERS[4:5], ORDERS[5:])
    job.look()
    assert topology(job).state == "running"
    assert job.grown("records_in") == 4 * 200 + 2 * 350


def test_a_group_whose_commits_stand_still_meanwhile_does_not_run() -> None:
    """All wait for the slow member. It runs again once commits move, at the latest when it has dealt out its partitions."""
    broker = Broker()
    job = alone(broker)
    broker.ends.update(dict.fromkeys(ORDERS, 1_000))
    for minute in range(2):
        broker.group(dict.fromkeys(ORDERS, 50 * minute), ORDERS[:3], ORDERS[3:])
        job.look()
    broker.group(dict.fromkeys(ORDERS, 60), [], [], [], state="rebalancing", assignor="")
    unsettled(job)
    for _ in range(2):
        assert job.look().samples == ()
        assert topology(job).state == "restarting"
    broker.group(dict.fromkeys(ORDERS, 60) | {ORDERS[0]: 61}, [], [], [], state="rebalancing", assignor="")
    assert len(job.look().samples) == 3
    assert topology(job).state == "running"
    assert job.look().samples == ()
    broker.group(dict.fromkeys(ORDERS, 90), ORDERS[:2], ORDERS[2:4], ORDERS[4:])
    job.look()
    assert topology(job).state == "running"


def test_pods_of_several_consumers_are_no_members() -> None:
    """A size in members would be asked for in pods; the topology says so from the first look on."""
    broker = Broker(ends=dict.fromkeys(ORDERS, 1_000))
    job = Followed(broker, Chain("j", {"g": Group()}))
    job.job._requirement = lambda _: Requirement("epoch", 1, {"g": 2})
    broker.group(dict.fromkeys(ORDERS, 50), *([each] for each in ORDERS))
    job.look()
    assert job.spec().fixed.startswith("6 members run where 2 workers are asked for, 3 in each: ")
    broker.group(dict.fromkeys(ORDERS, 50), ORDERS[:3], ORDERS[3:])
    job.look()
    assert job.spec().fixed == ""


def test_a_member_whose_counter_is_no_number_costs_the_busy_time_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Its records, the other members, the other tasks and the minute go on; one line has its address, once in ten minutes."""
    pages = {"/a": "busy_total 3", "/b": "busy_total NaN"}
    broker = Broker(ends=dict.fromkeys([*ORDERS, *parts("clicks", 2)], 1_000))
    with showing(pages) as url:
        groups = {task: Group("g" + task, metrics=f"{url}/{task}", busy="busy_total") for task in ("a", "b")}
        job = Followed(broker, Chain("j", groups))
        for minute in range(4):
            pages["/a"] = f"busy_total {3 + minute}"
            pages["/b"] = ("busy_total 1", "busy_total NaN", "busy_total 1e300", "busy_total 9e15")[minute]
            broker.group(dict.fromkeys(ORDERS, 50 * minute), ORDERS[:3], ORDERS[3:], name="ga")
            broker.group(dict.fromkeys(parts("clicks", 2), 30 * minute), parts("clicks", 2), name="gb", run="b")
            job.look()
            if minute:
                assert job.grown("records_in", "a") in (300, None)
                assert job.now is not None
                assert [each.busy_ms for each in job.now.samples if each.task == "a"] == [1_000 * minute] * 2
                assert [each.busy_ms for each in job.now.samples if each.task == "b"] == [None]
        assert job.grown("records_in", "b") == 60
        said = [record.getMessage() for record in caplog.records if "busy time" in record.getMessage()]
    assert len(said) == 1
    assert f"c/j: the busy time of b is unknown: {url}/b shows NaN for busy_total, which is no time (member c0)" in said[0]
