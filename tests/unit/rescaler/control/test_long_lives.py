"""What only shows after a long time or at odd moments: budgets that are used up, hosts that went, jobs that became others."""

import msgspec
import pytest

from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.messages import EngineEvent, TaskSpec
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.hosts import LOOKS_MAX, LookReason, Looks, MovableJob, look
from surescale.rescaler.control.settings import Balancing, ControlSettings, PlacingSettings
from surescale.rescaler.control.units import plan_job
from surescale.rescaler.control.world import View
from surescale.rescaler.gate_settings import GateSettings
from tests.support.balance_pipeline import COPIED, SPREAD, T0, Pipeline, hosts, spread
from tests.support.controller_world import (
    CLUSTER,
    JOB,
    MINUTE_MS,
    OTHER_JOB,
    START_MS,
    checkpoint,
    cluster,
    controller,
    decision,
    ended,
    job,
    only,
    resumed,
    view,
    without_units,
)


def test_looks_are_not_used_up_by_those_that_settled() -> None:
    """A cluster whose hosts never change still gets new copies after the hundredth rescale."""
    looks = Looks.begin(CLUSTER, ControlSettings(), cluster(), T0)
    for turn in range(LOOKS_MAX):
        assert looks.go_on(LookReason.STANDBYS, T0 + turn).balances[0].status == "moving"
        looks.settle(LookReason.BALANCED, T0 + turn)
    assert looks.memory.sequence == 2 * LOOKS_MAX - 1


def test_units_are_balanced_while_more_is_on_leaving_hosts_than_fits_elsewhere() -> None:
    """Twelve units, eight of them on hosts that go, eight usable in all: what others would pay is still worked out."""
    pipeline = spread(tuple(range(12)), count=3)
    pipeline.hosts = hosts(4, T0, h1="removed_soon", h2="removed_soon")
    pipeline.settle()
    assert pipeline.on_hosts() == {"h0": 2, "h1": 4, "h2": 4, "h3": 2}


def begun() -> tuple[Controller, View, RescheduleCommand]:
    """A preparation that the engine has taken on."""
    control, seen = controller(), View(cluster(3, 2), {JOB: job(units=(0, 1))}, {})
    (command,) = control.on_decision(decision(START_MS, {"map": 4, "join": 4}), seen, START_MS).commands
    control.on_progress(ended(command, START_MS, "accepted"), seen, START_MS)
    return control, seen, command


@pytest.mark.parametrize("code", ["WARM_UP_TIMEOUT", "LEARNER_LOST"])
def test_learners_of_a_job_that_has_other_tasks_now_are_dropped(code: str) -> None:
    """Its graph was changed while they warmed up: no plan of before fits it."""
    control, seen, command = begun()
    extra = TaskSpec(task="filter", upstream=("join",), parallelism=2, units=(0, 1))
    other = msgspec.structs.replace(seen.jobs[JOB], tasks=(*seen.jobs[JOB].tasks, extra))
    failed = ended(command, START_MS + 1, "failed", code, (2,))
    (following,) = control.on_progress(failed, View(seen.cluster, {JOB: other}, {}), START_MS + 1).commands
    assert following.action == "abort"


def test_a_host_that_is_avoided_keeps_what_it_has() -> None:
    """Nothing more goes there; what already runs there stays."""
    seen = MovableJob(job(units=(0, 4)), None, is_pending=False, is_free=True, standbys={}, units_of_others=frozenset)
    wanted = look([seen], cluster().hosts, Balancing(), PlacingSettings(), avoided=("h1",))
    assert wanted.moves == {}


def test_a_stateless_task_may_be_wider_than_a_job_has_vnodes() -> None:
    """Only state is laid out by virtual nodes."""
    tasks = (TaskSpec(task="map", parallelism=2, units=(0, 1), max_parallelism=500),)
    plan = plan_job(
        job(tasks=tasks), {"map": 300}, cluster(1, 400).hosts, taken=(), mappings={}, placing=PlacingSettings("spread")
    )
    assert [change.after for change in plan.changes] == [300]


def test_a_command_that_comes_late_has_its_time_still_before_it() -> None:
    """The rescaler was away for an hour while an act rested; its command is not overdue when it is written."""
    settings = {"gate": GateSettings(cooldown_ms=90_000)}
    control, seen = controller(**settings), view()
    young = msgspec.structs.replace(seen.jobs[JOB], at_ms=START_MS)
    seen = view(young)
    effects = control.on_decision(decision(START_MS, {"map": 4}), seen, START_MS)
    assert only(effects).reason == "cooldown"
    now_ms = START_MS + 60 * MINUTE_MS
    (command,) = resumed([effects], **settings).on_tick(seen, now_ms).commands
    assert command.issued_at_ms == START_MS + 90_000
    assert command.deadline_ms == now_ms - MINUTE_MS + 600_000


def test_a_step_that_follows_late_has_its_time_still_before_it() -> None:
    """Learners were ready long before we learned of it."""
    control, seen, command = begun()
    now_ms = START_MS + 12 * MINUTE_MS
    (commit,) = control.on_progress(ended(command, START_MS + MINUTE_MS), seen, now_ms).commands
    assert (commit.action, commit.issued_at_ms) == ("commit", START_MS + MINUTE_MS)
    assert commit.deadline_ms == now_ms - MINUTE_MS + 600_000


def test_a_job_without_state_is_short_of_no_copies() -> None:
    """There is nothing to copy: it is not degraded forever."""
    tasks = (TaskSpec(task="map", parallelism=2, units=(0, 4)),)
    pipeline = Pipeline(job(tasks=tasks), count=3, **COPIED)
    pipeline.settle()
    degraded = next(each for each in pipeline.control.memory[JOB].conditions if each.type == "Degraded")
    assert (degraded.status, degraded.reason) == (False, "Healthy")


def test_several_copies_are_asked_for_once() -> None:
    """In whatever order a round of assignment names their hosts."""
    settings = COPIED | {"balancing": Balancing(factor="0", standbys=2)}
    pipeline = spread((0, 1, 4, 8), count=4, **settings)
    pipeline.settle()
    pipeline.now_ms += MINUTE_MS
    pipeline.decide({"map": 3, "join": 3})
    pipeline.settle()
    assert [command.action for command in pipeline.commands] == ["standby", "prepare", "commit", "standby"]


@pytest.mark.parametrize(("taken_on_ms", "reason"), [(T0 + MINUTE_MS, "Healthy"), (T0 + MINUTE_MS + 2, "StandbysWarming")])
def test_copies_that_are_ready_before_their_command_has_ended_are_known_of(taken_on_ms: int, reason: str) -> None:
    """An event may be heard before the report; one from before the engine took the command on is of other copies."""
    pipeline = spread((0, 4), count=3, **COPIED)
    (command,) = pipeline.pass_minute().commands
    ready = EngineEvent(cluster=CLUSTER, sequence=9, at_ms=pipeline.now_ms + 1, kind="standbys_ready", job=JOB)
    pipeline.now_ms += MINUTE_MS
    pipeline.control.on_engine_event(ready, pipeline.see(), pipeline.now_ms)
    pipeline.control.on_progress(ended(command, taken_on_ms), pipeline.see(), pipeline.now_ms)
    degraded = next(each for each in pipeline.control.memory[JOB].conditions if each.type == "Degraded")
    assert degraded.reason == reason


def test_a_checkpoint_far_ahead_of_the_clock_is_not_believed() -> None:
    """It would put the gate ahead, and a command with a time that has not come."""
    gate = GateSettings(cooldown_ms=0, max_delay_ms=600_000)
    control, seen = controller(gate=gate), view()
    assert only(control.on_decision(decision(START_MS, {"map": 4}), seen, START_MS)).reason == "stabilizing"
    event = checkpoint(START_MS + 9 * MINUTE_MS, 1)
    assert control.on_engine_event(event, seen, START_MS + 1).commands == ()


def test_state_of_tasks_that_cannot_be_scaled_is_not_balanced() -> None:
    """No command could move it: nothing is commanded, instead of an empty change each minute."""

    def tasks(unit: int) -> tuple[TaskSpec, ...]:
        fixed = TaskSpec(task="all", upstream=("map",), scalable=False, max_parallelism=1, units=(unit + 1,), stateful=True)
        return TaskSpec(task="map", units=(unit,)), fixed

    pipeline = Pipeline(job(tasks=tasks(0)), job(OTHER_JOB, tasks=tasks(2)), **SPREAD)
    pipeline.hosts = hosts(2, T0)
    assert pipeline.settle()[-1].reason == "balanced"
    assert pipeline.commands == []


def test_a_wait_without_end_is_told_of_once_a_minute() -> None:
    """Not whenever something of the world changes."""
    control = controller(gate=GateSettings(wait_timeout_ms=-1))
    seen = View(cluster(0), {JOB: without_units(job())}, {})
    first = only(control.on_tick(seen, START_MS))
    assert (first.reason, first.until_ms) == ("not_enough_parallel_units", START_MS + MINUTE_MS)
    assert control.on_tick(seen, START_MS + 1_000).outcomes == ()
    assert only(control.on_tick(seen, START_MS + MINUTE_MS)).until_ms == START_MS + 2 * MINUTE_MS


def test_a_job_that_was_submitted_again_is_seen_as_it_runs_now() -> None:
    """Its generation starts over: what was applied to its predecessor does not count forever."""
    control, now_ms = controller(), START_MS
    (command,) = control.on_decision(decision(now_ms, {"map": 4}), view(), now_ms).commands
    control.on_progress(ended(command, now_ms + MINUTE_MS), view(), now_ms + MINUTE_MS)
    again = view(msgspec.structs.replace(job(units=(8,)), at_ms=now_ms + 5 * MINUTE_MS))
    now_ms += 60 * MINUTE_MS
    (command,) = control.on_decision(decision(now_ms, {"map": 2}), again, now_ms).commands
    (change,) = command.changes
    assert (change.before, change.after, change.removed_units) == (1, 2, ())
    assert (command.desired_generation, set(change.units) > {8}) == (2, True)
