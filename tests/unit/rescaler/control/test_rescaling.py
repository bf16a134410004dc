"""The steps of a rescale: learners first, then the change; what follows when learners fail."""

import msgspec
import pytest

from surescale.contracts.commands import Outcome, RescheduleCommand
from surescale.contracts.wire import decode, encode
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.world import View
from tests.support.controller_world import (
    JOB,
    MINUTE_MS,
    START_MS,
    cluster,
    controller,
    decision,
    ended,
    job,
    only,
    resumed,
    view,
)

T0 = START_MS
WIDER = {"map": 4, "join": 4}


def begun(**settings: object) -> tuple[Controller, View, RescheduleCommand]:
    """A controller whose stateful job is being prepared for two units more, on another host than its own."""
    control, seen = controller(**settings), View(cluster(3, 2), {JOB: job(units=(0, 1))}, {})
    (command,) = control.on_decision(decision(T0, WIDER), seen, T0).commands
    accept(control, seen, command)
    return control, seen, command


def accept(control: Controller, seen: View, command: RescheduleCommand) -> None:
    """Let the engine take a command on."""
    assert control.on_progress(ended(command, T0, "accepted"), seen, T0).commands == ()


def given_up(control: Controller, seen: View, command: RescheduleCommand, code: str, units: tuple[int, ...] = ()) -> Effects:
    """Let the learners of a preparation be given up one minute later."""
    return control.on_progress(ended(command, T0 + MINUTE_MS, "failed", code, units), seen, T0 + MINUTE_MS)


def step_of(control: Controller) -> str | None:
    """The step that the memory shows."""
    rescaling = control.memory[JOB].rescaling
    return rescaling.step if rescaling else None


def test_state_that_moves_between_hosts_is_prepared_first() -> None:
    """The first command prepares; it says that another step follows, and when learners are given up."""
    control, _, command = begun()
    assert (command.action, command.step, command.steps) == ("prepare", 0, 2)
    assert command.deadline_ms == T0 + 600_000
    assert (step_of(control), control.memory[JOB].desired_generation) == ("prepare", 1)


def test_a_change_that_moves_no_state_goes_at_once() -> None:
    """A stateless task, and a stateful one that grows on its own hosts only."""
    control, seen = controller(), view()
    (stateless,) = control.on_decision(decision(T0, {"map": 4}), seen, T0).commands
    assert (stateless.action, stateless.step, stateless.steps) == ("commit", 0, 1)
    (within,) = controller().on_decision(decision(T0, WIDER), View(cluster(1, 4), {JOB: job(units=(0, 1))}, {}), T0).commands
    assert within.action == "commit"


def test_without_learners_every_change_goes_at_once() -> None:
    """A bound of 0 turns them off."""
    control = controller(warm_up_ms_max=0)
    (command,) = control.on_decision(decision(T0, WIDER), View(cluster(3, 2), {JOB: job(units=(0, 1))}, {}), T0).commands
    assert command.action == "commit"


def test_advice_is_one_command() -> None:
    """Nothing is warmed for a change that nobody carries out."""
    seen = msgspec.structs.replace(job(units=(0, 1)))
    world = View(cluster(3, 2), {JOB: seen}, view(seen, mode="advise").settings)
    assert controller().on_decision(decision(T0, WIDER), world, T0).commands[0].action == "commit"


def test_ready_learners_are_followed_by_the_change() -> None:
    """The same plan, the next step, and no outcome: the decision was answered when the rescale began."""
    control, seen, first = begun()
    effects = control.on_progress(ended(first, T0 + MINUTE_MS), seen, T0 + MINUTE_MS)
    (second,) = effects.commands
    assert effects.outcomes == ()
    assert (second.command_id, second.action, second.steps) == (f"{JOB}#1.1", "commit", 2)
    assert (second.changes, second.issued_at_ms, second.deadline_ms) == (first.changes, T0 + MINUTE_MS, T0 + 11 * MINUTE_MS)
    assert (step_of(control), control.memory[JOB].applied.generation) == ("barrier", 0)


def test_the_commit_is_one_record() -> None:
    """Units, mappings, generation and the end of the intent are written together, with one commit for the cluster."""
    control, seen, first = begun()
    (second,) = control.on_progress(ended(first, T0 + MINUTE_MS), seen, T0 + MINUTE_MS).commands
    effects = control.on_progress(ended(second, T0 + 3 * MINUTE_MS), seen, T0 + 3 * MINUTE_MS)
    memory = control.memory[JOB]
    assert (memory.underway, memory.applied.generation, memory.failures) == (None, 1, 0)
    assert set(memory.mappings["join"]) == set(memory.applied.units["join"])
    assert [record.key for record in effects.records] == [f"sim/job/{JOB}", "sim/cluster/placement"]


def test_learners_that_took_too_long_are_tried_elsewhere() -> None:
    """On hosts that are not theirs; the intent remembers why."""
    control, seen, first = begun()
    slow = first.changes[0].added_units[:1]
    (second,) = given_up(control, seen, first, "WARM_UP_TIMEOUT", slow).commands
    assert (second.action, second.step, second.steps) == ("prepare", 1, 3)
    assert not set(slow) & set(second.changes[0].units)
    rescaling = control.memory[JOB].rescaling
    assert rescaling is not None
    assert (rescaling.given_up, rescaling.preparations) == ("WARM_UP_TIMEOUT", 2)


def test_where_there_is_no_other_host_the_change_is_done_cold() -> None:
    """All units are needed: the commit goes without learners."""
    control = controller()
    seen = View(cluster(2, 2), {JOB: job(units=(0, 1))}, {})
    (first,) = control.on_decision(decision(T0, WIDER), seen, T0).commands
    accept(control, seen, first)
    (second,) = given_up(control, seen, first, "WARM_UP_TIMEOUT", first.changes[0].added_units).commands
    assert (second.action, second.changes) == ("commit", first.changes)


def test_the_setting_may_ask_for_cold_at_once() -> None:
    """No second try then."""
    control, seen, first = begun(warm_up_then="cold")
    assert given_up(control, seen, first, "WARM_UP_TIMEOUT", first.changes[0].added_units).commands[0].action == "commit"


def test_a_lost_learner_is_planned_again() -> None:
    """The host that died is avoided, also while the topology still lists it."""
    control, seen, first = begun()
    lost = first.changes[0].added_units
    (second,) = given_up(control, seen, first, "LEARNER_LOST", lost).commands
    assert second.action == "prepare"
    assert not set(lost) & set(second.changes[0].units)


def test_learners_are_tried_a_bounded_number_of_times() -> None:
    """Three preparations; then what was lost again and again is given up, and the gate backs off."""
    control, seen = controller(), View(cluster(8, 2), {JOB: job(units=(0, 1))}, {})
    (command,) = control.on_decision(decision(T0, WIDER), seen, T0).commands
    actions = []
    while True:
        actions.append(command.action)
        if command.action != "prepare":
            break
        accept(control, seen, command)
        (command,) = given_up(control, seen, command, "LEARNER_LOST", command.changes[0].added_units[:1]).commands
    assert actions == ["prepare", "prepare", "prepare", "abort"]
    assert step_of(control) == "undo_prepare"
    control.on_progress(ended(command, T0 + MINUTE_MS), seen, T0 + MINUTE_MS)
    memory = control.memory[JOB]
    assert (memory.underway, memory.failures, memory.applied.generation) == (None, 1, 0)


def test_a_job_that_failed_over_ends_its_rescale() -> None:
    """The plan no longer fits what runs: learners are dropped, the next decision sees the job as it is."""
    control, seen, first = begun()
    (second,) = given_up(control, seen, first, "JOB_FAILED_OVER").commands
    assert second.action == "abort"
    waiting = control.on_progress(ended(second, T0 + MINUTE_MS), seen, T0 + MINUTE_MS)
    assert waiting.commands == ()
    assert only(control.on_decision(decision(T0 + MINUTE_MS, WIDER), seen, T0 + MINUTE_MS)).reason == "backoff"


def test_a_preparation_that_was_refused_ends_the_rescale() -> None:
    """There is nothing to drop: no abort."""
    control, seen = controller(), View(cluster(3, 2), {JOB: job(units=(0, 1))}, {})
    (command,) = control.on_decision(decision(T0, WIDER), seen, T0).commands
    effects = given_up(control, seen, command, "UNIT_OCCUPIED")
    assert (effects.commands, control.memory[JOB].underway, control.memory[JOB].failures) == ((), None, 1)


def test_while_learners_warm_up_an_act_is_put_off_minute_by_minute() -> None:
    """Nobody knows how long they take."""
    control, seen, _ = begun()
    waiting = only(control.on_decision(decision(T0 + MINUTE_MS, {"map": 3}), seen, T0 + MINUTE_MS))
    assert (waiting.reason, waiting.until_ms) == ("rescale_in_progress", T0 + 2 * MINUTE_MS)
    again = only(control.on_tick(seen, T0 + 2 * MINUTE_MS))
    assert (again.reason, again.until_ms) == ("rescale_in_progress", T0 + 3 * MINUTE_MS)


def test_news_of_learners_is_awaited_until_it_is_as_new_as_the_clock() -> None:
    """They may be ready by now; news about an earlier command says nothing about them."""
    control, seen, command = begun()
    later_ms = T0 + MINUTE_MS
    assert (control.awaits_news(T0), control.awaits_news(later_ms)) == (False, True)
    control.on_progress(msgspec.structs.replace(ended(command, later_ms, "warming"), command_id=f"{JOB}#0.0"), seen, later_ms)
    assert control.awaits_news(later_ms)
    control.on_progress(ended(command, later_ms, "warming"), seen, later_ms)
    assert not control.awaits_news(later_ms)


def test_decisions_of_all_running_jobs_are_awaited() -> None:
    """Those that have decided on the span, whether that waits or was answered, and those that do not run, hold nobody up."""
    other, rests = f"{JOB}-2", f"{JOB}-3"
    control = controller()
    jobs = {name: job() for name in (JOB, other)} | {rests: msgspec.structs.replace(job(), state="waiting")}
    seen, one = View(cluster(3, 2), jobs, {}), decision(T0, WIDER)
    assert not control.awaits_decisions([], seen)
    assert control.awaits_decisions([one], seen)
    assert not control.awaits_decisions([one, decision(T0, of=other)], seen)
    assert control.awaits_decisions([one, decision(T0 - MINUTE_MS, of=other)], seen)
    control.on_decision(one, seen, T0)
    assert not control.awaits_decisions([decision(T0, of=other)], seen)


def test_silence_about_learners_ends_in_failure_long_after_their_deadline() -> None:
    """Engine and actuator give them up first; only when both are gone the rescaler does."""
    control, seen, command = begun()
    assert command.deadline_ms is not None
    assert control.on_tick(seen, command.deadline_ms).is_empty
    assert control.wake_at_ms() == command.deadline_ms + 180_000
    (end,) = control.on_tick(seen, command.deadline_ms + 180_000).progress
    assert (end.command_id, end.code, end.at_ms) == (command.command_id, "NOT_REPORTED", command.deadline_ms + 180_000)
    assert (control.memory[JOB].underway, control.memory[JOB].failures) == (None, 1)


@pytest.mark.parametrize("after", range(4))
def test_a_rescale_goes_on_from_any_record(after: int) -> None:
    """Stopped after any step, an heir that knows only the records says and does the same."""
    control, seen = controller(), View(cluster(3, 2), {JOB: job(units=(0, 1))}, {})
    written = [control.on_decision(decision(T0, WIDER), seen, T0)]
    news = [("accepted", "", 0), ("failed", "LEARNER_LOST", 1), ("accepted", "", 1), ("applied", "", 2), ("applied", "", 4)]
    heir = control
    for index, (status, code, minute) in enumerate(news):
        if index == after:
            heir = resumed(written)
        outstanding = heir.memory[JOB].outstanding
        assert outstanding is not None
        at_ms = T0 + minute * MINUTE_MS
        units = outstanding.changes[0].added_units if code else ()
        written.append(heir.on_progress(ended(outstanding, at_ms, status, code, units), seen, at_ms))
    commands = [(command.action, command.step) for effects in written for command in effects.commands]
    assert commands == [("prepare", 0), ("prepare", 1), ("commit", 2)]
    assert heir.memory[JOB].applied.generation == 1


def test_a_generation_that_nobody_can_have_reached_ends_nothing() -> None:
    """A forged topology or an engine beside itself: the next command can still be read, and so can the one after it."""
    of = controller()
    seen = view(job(generation=2**53))
    (command,) = of.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    assert decode(encode(command), RescheduleCommand).desired_generation == 1
    shown = controller().on_decision(decision(T0, {"map": 3}), view(job(generation=7)), T0).commands
    assert [command.desired_generation for command in shown] == [8]


def test_what_an_acceptance_promises_lies_within_the_deadline() -> None:
    """A forged report cannot make a promise that its readers refuse, or that nobody lives to see."""
    of = controller()
    (command,) = of.on_decision(decision(T0, {"map": 3}), view(), T0).commands
    forged = msgspec.structs.replace(ended(command, T0, "accepted"), at_ms=2**53, duration_ms=2**53)
    of.on_progress(forged, view(), T0)
    waiting = only(of.on_decision(decision(T0 + 1, {"map": 5}), view(), T0 + 1))
    assert decode(encode(waiting), Outcome).until_ms == command.deadline_ms
    assert of.wake_at_ms() == command.deadline_ms
