"""What holds for the controller's balances and copies, whatever happens to it and to the hosts."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from surescale.rescaler.control.settings import Balancing, PlacingSettings
from tests.support.controller_life import lived, said_bytes, steps
from tests.support.reach import reached, reaches

BALANCED: list[dict[str, object]] = [
    {"placing": PlacingSettings("spread"), "balancing": Balancing(factor="0", units_max=2)},
    {"placing": PlacingSettings("spread"), "balancing": Balancing(factor="0.5", standbys=1)},
    {"balancing": Balancing(standbys=2)},
]


@reaches("a change of hosts")
@given(steps, st.sampled_from(BALANCED))
def test_looks_end_and_are_counted_without_gaps(
    happened: list[tuple[int, tuple[object, ...]]], chosen: dict[str, object]
) -> None:
    """Whatever happens, hosts settle; generations and the looks within them are numbered, and moving ones promise a time."""
    looks = lived(happened, settings=chosen).looks
    numbers = [(look.generation, look.sequence) for look in looks]
    assert numbers == sorted(set(numbers))
    assert all((look.until_ms is not None) == (look.status == "moving") for look in looks)
    if looks and looks[-1].generation > 1:
        reached("a change of hosts")
    assert [look.status for look in looks[-1:]] == ["settled"] * bool(looks)


@reaches("a balance that moves state")
@given(steps, st.sampled_from(BALANCED))
def test_a_balance_changes_no_parallelism_and_is_never_cold(
    happened: list[tuple[int, tuple[object, ...]]], chosen: dict[str, object]
) -> None:
    """Its commands replace units one for one, and a commit that moves state follows a preparation."""
    commands = [each for each in lived(happened, settings=chosen).commands if each.decision_id.endswith("/balance")]
    prepared = {(each.job, each.desired_generation) for each in commands if each.action == "prepare"}
    for command in commands:
        assert all(change.before == change.after == len(change.units) for change in command.changes)
        if command.action == "commit" and any(change.vnodes_moved for change in command.changes):
            reached("a balance that moves state")
            assert (command.job, command.desired_generation) in prepared


@reaches("copies")
@given(steps, st.sampled_from(BALANCED))
def test_copies_lie_on_other_hosts_than_their_owners(
    happened: list[tuple[int, tuple[object, ...]]], chosen: dict[str, object]
) -> None:
    """At rest each unit with state has as many copies as were asked for, or one per other host if those are fewer."""
    world = lived(happened, settings=chosen)
    wanted = chosen["balancing"].standbys  # type: ignore[attr-defined]
    host_of = {unit: host.host for host in world.hosts.hosts for unit in host.units}
    for name, memory in world.control.memory.items():
        if not world.looks or memory.outstanding or memory.pending:
            continue
        units = {unit for spec in world.jobs[name].tasks if spec.stateful for unit in spec.units}
        assert {each.unit for each in memory.standby.copies} == (units if wanted else set())
        for each in memory.standby.copies:
            reached("copies")
            assert host_of[each.unit] not in each.hosts
            assert len(each.hosts) == len(set(each.hosts)) == min(wanted, len(world.hosts.hosts) - 1)


CLICKS_WAITS: tuple[int, tuple[object, ...]] = (0, ("decision", "sim/clicks", None, 0))
LOST: tuple[int, tuple[object, ...]] = (0, ("lost", "sim/orders"))


@reaches("a look")
@given(steps, st.sampled_from(BALANCED))
@example([*[CLICKS_WAITS] * 3, LOST, LOST, CLICKS_WAITS, (0, ("decision", "sim/orders", {"map": 1}, 0)), LOST], BALANCED[1])
@settings(max_examples=30)
def test_stopped_anywhere_it_goes_on_with_its_looks(
    happened: list[tuple[int, tuple[object, ...]]], chosen: dict[str, object]
) -> None:
    """Moves, standbys and looks are the same bytes, also if every step is another process's."""
    straight, restarted = (lived(happened, restarts=restarts, settings=chosen) for restarts in (False, True))
    if straight.looks:
        reached("a look")
    assert [said_bytes(effects) for effects in straight.effects] == [said_bytes(effects) for effects in restarted.effects]
