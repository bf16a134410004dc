"""What holds for the controller whatever happens to it, and wherever it is stopped and goes on."""

from collections import Counter

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from surescale.contracts.commands import NOT_REPORTED
from surescale.contracts.own_acts import OwnAct, own_act_of
from surescale.rescaler.control.outcomes import REASONS_BY_STATUS
from surescale.rescaler.control.settings import Balancing, PlacingSettings
from tests.support.controller_life import ALL_JOBS, HOSTS, JOBS, World, lived, said_bytes, steps
from tests.support.controller_world import CLUSTER, JOB, controller
from tests.support.reach import reached, reaches

LAST = {"held", "commanded", "superseded", "refused"}


@reaches("an act that waits")
@given(steps)
def test_every_act_has_exactly_one_last_outcome(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """However it comes, an act ends once, as the last of its outcomes, whose sequence has no gap."""
    world = lived(happened)
    for act in world.acts:
        said = [outcome for outcome in world.outcomes if outcome.decision_id == act.decision_id]
        if len(said) > 1:
            reached("an act that waits")
        assert [outcome.sequence for outcome in said] == list(range(len(said)))
        assert [outcome.status in LAST for outcome in said] == [False] * (len(said) - 1) + [True]


@reaches("a second rescale")
@given(steps)
def test_commands_are_unique_and_generations_rise_by_one(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """Per job the rescales have generations 1, 2, 3 ... and steps 0, 1, ...; each belongs to one commanded outcome."""
    world = lived(happened)
    for name in JOBS:
        made = [(command.desired_generation, command.step) for command in world.commands if command.job == name]
        generations = [generation for generation, step in made if step == 0]
        if len(generations) > 1:
            reached("a second rescale")
        assert generations == list(range(1, len(generations) + 1))
        assert made == sorted((generation, step) for generation in generations for step in range(len(steps_of(made, generation))))
    named = Counter(outcome.command_id for outcome in world.outcomes if outcome.status == "commanded")
    assert named == Counter(command.command_id for command in world.commands if command.step == 0)


SILENT: list[tuple[int, tuple[object, ...]]] = [(0, ("decision", JOB, {"map": 3}, 0)), (0, ("silence",))]


@reaches("an end that nobody reported", "a reported end")
@given(steps, st.sampled_from([None, {"placing": PlacingSettings("spread"), "balancing": Balancing(factor="0", standbys=1)}]))
@example(SILENT, None)
def test_every_command_ends_once_on_the_topic(
    happened: list[tuple[int, tuple[object, ...]]], chosen: dict[str, object] | None
) -> None:
    """Written as one record, no matter who reports it, twice or never; and the memory says the same."""
    world = lived(happened, settings=chosen)
    ends = [each for effects in world.effects for each in effects.progress if each.status in ("applied", "failed")]
    carried_out = [command for command in world.commands if not command.advice]
    assert Counter(end.command_id for end in ends) == Counter(command.command_id for command in carried_out)
    for end in ends:
        reached("an end that nobody reported" if end.code == NOT_REPORTED else "a reported end")
    for effects in world.effects:
        over = {each.command_id for each in effects.progress if each.status in ("applied", "failed")}
        assert over <= {each.command_id for each in carried_out}
        assert not over or any(record.key.startswith(f"{CLUSTER}/job/") for record in effects.records), "one transaction"


PAUSED_OWN_ACTS = (OwnAct.BALANCE, OwnAct.STANDBY)


@reaches("an act begun beside a pause", "an act refused by a pause")
@given(steps, st.sampled_from([None, {"placing": PlacingSettings("spread"), "balancing": Balancing(factor="0", standbys=1)}]))
@example([(0, ("pause", ALL_JOBS, "down", None)), (0, ("decision", JOB, {"map": 3, "join": 1}, 0))], None)
@example([(0, ("pause", ALL_JOBS, "up", None)), (0, ("decision", JOB, {"map": 3}, 0))], None)
def test_nothing_begins_against_a_pause(happened: list[tuple[int, tuple[object, ...]]], chosen: dict[str, object] | None) -> None:
    """No decision changes a task in a paused direction, and nothing is moved or copied while both are paused."""
    world = World(settings=chosen or {}, control=controller(**(chosen or {})))
    for pause_ms, what in happened:
        before, said = len(world.commands), len(world.outcomes)
        world.take(pause_ms, what)
        if any(outcome.reason == "paused" for outcome in world.outcomes[said:]):
            reached("an act refused by a pause")
        for command in world.commands[before:]:
            pauses, own = world.see().pauses_of(command.job, world.now_ms), own_act_of(command.decision_id)
            if command.step or not pauses.paused:
                continue
            assert own not in PAUSED_OWN_ACTS or not pauses.stops_all
            if own is None:
                reached("an act begun beside a pause")
                # A job that waits runs nothing yet, so there every change counts from what it ran before.
                assert not any(pauses.stops_change(change.before, change.after) for change in command.changes)


ADVISED: list[tuple[int, tuple[object, ...]]] = [
    (0, ("mode", "advise")),
    (0, ("decision", JOB, {"map": 3}, 0)),
    (60_000, ("approve", JOB, True)),
    (0, ("end", JOB, "applied", True)),
    (60_000, ("approve", JOB, True)),
]


@reaches("an advice carried out", "an approval refused")
@given(steps)
@example(ADVISED)
def test_what_is_approved_was_advised_and_is_done_once(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """In the modes that are not act nothing else begins, and of one advice only exactly what it said, at most once."""
    world, done = World(), Counter[str]()
    for pause_ms, what in happened:
        before, said = len(world.commands), len(world.outcomes)
        idle = {name for name in JOBS if world.outstanding(name) is None}
        world.take(pause_ms, what)
        for command in world.commands[before:]:
            own = own_act_of(command.decision_id)
            if own is not OwnAct.APPROVED:
                assert command.advice or world.mode == "act" or command.job not in idle
            elif not command.step:
                reached("an advice carried out")
                advice = [each for each in world.commands if each.advice and each.job == command.job][-1]
                assert (advice.changes, advice.decision_id) == (command.changes, world.approvals[command.job].decision_id)
                done[advice.decision_id] += 1
        refusals = [each for each in world.outcomes[said:] if each.status == "refused"]
        if any(own_act_of(each.decision_id) is OwnAct.APPROVED for each in refusals):
            reached("an approval refused")
    assert set(done.values()) <= {1}


def steps_of(made: list[tuple[int, int]], generation: int) -> list[int]:
    """The steps of one rescale."""
    return [step for of, step in made if of == generation]


PREPARED: list[tuple[int, tuple[object, ...]]] = [
    (0, ("hosts", HOSTS[2])),
    (0, ("decision", JOB, {"map": 6, "join": 6}, 0)),
    (0, ("accepted", JOB)),
]
"""Learners warm up; there are other hosts for them."""


@reaches("several preparations", "a commit after a preparation", "an abort")
@given(steps)
@example([*PREPARED, (60_000, ("end", JOB, "WARM_UP_TIMEOUT", False))])
@example([*PREPARED, (60_000, ("end", JOB, "JOB_FAILED_OVER", False))])
def test_a_rescale_has_a_bounded_number_of_steps_and_ends_in_one_way(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """Preparations, at most three, then one commit or one abort; a commit is the last step and counts once if applied."""
    world = lived(happened)
    by_rescale: dict[tuple[str, int], list[str]] = {}
    for command in world.commands:
        if not command.advice:
            by_rescale.setdefault((command.job, command.desired_generation), []).append(command.action)
    for actions in by_rescale.values():
        preparations, last = actions.count("prepare"), actions[-1]
        assert preparations <= 3
        assert actions == ["prepare"] * preparations + [last] * (last != "prepare")
        if preparations > 1:
            reached("several preparations")
        if preparations and last != "prepare":
            reached("a commit after a preparation" if last == "commit" else "an abort")
    placed = sum(1 for name in JOBS for _ in range(world.jobs[name].attempt))
    records = [record.record for effects in world.effects for record in effects.records if record.key.endswith("/placement")]
    assert placed == (msgspec.json.decode(records[-1].body)["placement_generation"] if records and records[-1] else 0)


@reaches("a command beside the other job")
@given(steps)
def test_no_unit_is_given_to_two_jobs(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """A command takes no unit that the other job has, and only units of running hosts."""
    world = World()
    for pause_ms, what in happened:
        before = len(world.commands)
        world.take(pause_ms, what)
        running = {unit for host in world.hosts.hosts if host.state == "running" for unit in host.units}
        for command in world.commands[before:]:
            added = {unit for change in command.changes for unit in change.added_units}
            if added:
                reached("a command beside the other job")
            others = {unit for name in JOBS if name != command.job for spec in world.jobs[name].tasks for unit in spec.units}
            assert added <= running - others


@reaches("a command")
@given(steps)
def test_stopped_anywhere_it_goes_on_as_if_nothing_had_happened(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """A controller rebuilt from its records after every single step says the same bytes as one that never stopped."""
    straight, restarted = (lived(happened, restarts=restarts, checkpoints=True) for restarts in (False, True))
    if straight.commands:
        reached("a command")
    assert [said_bytes(effects) for effects in straight.effects] == [said_bytes(effects) for effects in restarted.effects]


@reaches("a pending outcome")
@given(steps)
def test_reasons_come_from_the_closed_set(happened: list[tuple[int, tuple[object, ...]]]) -> None:
    """Every status stands with one of its own reasons; a pending one alone promises a time, which lies ahead."""
    for outcome in lived(happened).outcomes:
        assert outcome.reason in REASONS_BY_STATUS[outcome.status]
        assert (outcome.until_ms is not None) == (outcome.status == "pending")
        if outcome.status == "pending":
            reached("a pending outcome")
