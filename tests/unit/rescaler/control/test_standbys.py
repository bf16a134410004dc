"""Standbys: copies of state on other hosts, asked for, kept, and replaced."""

from collections import Counter

import msgspec

from surescale.contracts.messages import EngineEvent
from surescale.rescaler.control.hosts import MovableJob, look
from surescale.rescaler.control.settings import Balancing, PlacingSettings
from tests.support.balance_pipeline import COPIED, T0, Pipeline, hosts, spread
from tests.support.controller_world import CLUSTER, JOB, MINUTE_MS, OTHER_JOB, job


def test_copies_are_asked_for_after_the_first_decision() -> None:
    """One a unit, on another host; the command changes nothing else, and the decision's own rescale goes first."""
    pipeline = spread((0, 4), count=3, **COPIED)
    assert [(look.status, look.reason) for look in pipeline.looks] == [("moving", "standbys")]
    (command,) = pipeline.pass_minute().commands
    assert (command.action, command.changes, command.decision_id) == ("standby", (), f"{JOB}@{pipeline.now_ms}/standby")
    assert command.standbys == (
        msgspec.convert({"unit": 0, "hosts": ["h2"]}, type(command.standbys[0])),  # type: ignore[index]
        msgspec.convert({"unit": 4, "hosts": ["h0"]}, type(command.standbys[0])),  # type: ignore[index]
    )


def test_copies_are_settled_once_the_engine_keeps_them() -> None:
    """And never asked for again."""
    pipeline = spread((0, 4), count=3, **COPIED)
    pipeline.settle()
    pipeline.pass_minute(5)
    assert [command.action for command in pipeline.commands] == ["standby"]
    assert [each.unit for each in pipeline.control.memory[JOB].standby.copies] == [0, 4]


def test_a_rescale_is_followed_by_its_copies() -> None:
    """New units get theirs once the job is on them."""
    pipeline = spread((0, 4), count=3, **COPIED)
    pipeline.settle()
    pipeline.now_ms += MINUTE_MS
    pipeline.decide({"map": 3, "join": 3})
    pipeline.settle()
    units = {unit for spec in pipeline.jobs[JOB].tasks if spec.stateful for unit in spec.units}
    assert {each.unit for each in pipeline.control.memory[JOB].standby.copies} == units
    assert [command.action for command in pipeline.commands] == ["standby", "prepare", "commit", "standby"]


def test_copies_follow_hosts_that_die() -> None:
    """A copy on a dead host is replaced elsewhere."""
    pipeline = spread((0, 4), count=3, **COPIED)
    pipeline.settle()
    pipeline.hosts = hosts(3, pipeline.now_ms, without="h2")
    pipeline.settle()
    assert {each.unit: each.hosts for each in pipeline.control.memory[JOB].standby.copies} == {0: ("h1",), 4: ("h0",)}


def test_copies_settle_on_a_new_host() -> None:
    """One is added there; once the engine says that all are complete, the one where most are is dropped, and not before."""
    pipeline = Pipeline(job(units=(0, 1, 2, 3, 4, 5)), count=2, **COPIED | {"placing": PlacingSettings("cetsa")})
    pipeline.settle()

    def kept() -> dict[int, tuple[str, ...]]:
        return {each.unit: each.hosts for each in pipeline.control.memory[JOB].standby.copies}

    def minute(*, complete: bool) -> None:
        pipeline.pass_minute()
        outstanding = pipeline.control.memory[JOB].outstanding
        if outstanding is not None:
            pipeline.end(outstanding)
        elif complete:
            ready = EngineEvent(cluster=CLUSTER, sequence=9, at_ms=pipeline.now_ms, kind="standbys_ready", job=JOB)
            pipeline.control.on_engine_event(ready, pipeline.see(), pipeline.now_ms)

    before = kept()
    assert Counter(copies for copies in before.values()) == {("h0",): 2, ("h1",): 4}
    minute(complete=True)
    pipeline.hosts = hosts(3, pipeline.now_ms)
    for _ in range(8):
        minute(complete=False)
        assert all(set(before[unit]) <= set(copies) for unit, copies in kept().items()), "nothing is dropped yet"
    assert {"h2"} < {host for copies in kept().values() for host in copies}
    assert pipeline.looks[-1].status == "moving"
    for _ in range(20):
        minute(complete=True)
    assert {len(copies) for copies in kept().values()} == {1}
    held = Counter(host for copies in kept().values() for host in copies)
    assert (sum(held.values()), held["h2"]) == (6, 4), "h0 has four units itself, h1 two, h2 none"
    assert pipeline.looks[-1].status == "settled"


def test_a_unit_that_no_host_can_copy_is_counted() -> None:
    """One host only: under-replicated, and no error."""
    pipeline = Pipeline(job(units=(0, 1)), **COPIED)
    pipeline.settle()
    degraded = next(each for each in pipeline.control.memory[JOB].conditions if each.type == "Degraded")
    assert (degraded.status, degraded.reason) == (True, "UnderReplicated")


def test_a_job_that_comes_into_mode_act_gets_its_copies() -> None:
    """They were settled while it was only advised on."""
    pipeline = spread((0, 4), count=3, **COPIED)
    pipeline.mode = "advise"
    pipeline.settle()
    assert pipeline.commands == []
    pipeline.mode = "act"
    pipeline.settle()
    assert {each.unit for each in pipeline.control.memory[JOB].standby.copies} == {0, 4}


def test_a_job_that_comes_later_gets_its_copies() -> None:
    """Without a decision or another host; the others are left as they are."""
    pipeline = spread((0, 4), count=3, **COPIED)
    pipeline.settle()
    pipeline.jobs[OTHER_JOB] = job(OTHER_JOB, (1, 5))
    pipeline.settle()
    assert {each.unit for each in pipeline.control.memory[OTHER_JOB].standby.copies} == {1, 5}
    assert [command.job for command in pipeline.commands] == [JOB, OTHER_JOB]


def test_copies_that_are_ready_are_known_of() -> None:
    """By an event of the engine; before it the job is degraded."""
    pipeline = spread((0, 4), count=3, **COPIED)
    pipeline.settle()

    def reason() -> str:
        return next(each.reason for each in pipeline.control.memory[JOB].conditions if each.type == "Degraded")

    assert reason() == "StandbysWarming"
    for at_ms, after in ((T0, "StandbysWarming"), (pipeline.now_ms, "Healthy")):  # the first one is of an earlier command
        ready = EngineEvent(cluster=CLUSTER, sequence=9, at_ms=at_ms, kind="standbys_ready", job=JOB)
        pipeline.control.on_engine_event(ready, pipeline.see(), pipeline.now_ms)
        assert reason() == after


def test_a_refused_standby_is_asked_for_again() -> None:
    """At the next look; the job itself is not held up."""
    pipeline = spread((0, 4), count=3, **COPIED)
    (command,) = pipeline.pass_minute().commands
    pipeline.end(command, "failed", "UNKNOWN_HOST")
    assert pipeline.control.memory[JOB].outstanding is None
    assert [each.action for each in pipeline.pass_minute().commands] == ["standby"]


def test_copies_of_units_on_a_host_that_goes_are_kept_while_the_job_cannot_leave_it() -> None:
    """A learner that nobody has begun is no copy: the standby that exists would be dropped just when it is needed."""
    copies = {0: ("h2",), 4: ("h0",)}
    resting = MovableJob(job(units=(0, 4)), None, is_pending=False, is_free=False, standbys=copies, units_of_others=frozenset)
    wanted = look([resting], hosts(3, T0, h1="removed_soon").hosts, Balancing(standbys=1), PlacingSettings("spread"))
    assert (wanted.standbys, wanted.under_replicated) == ({}, {})
