"""A job whose figures stay away grows to the size that its owner calls safe; nothing ever becomes smaller by it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import ExcludedPeriod, PeriodBounds, TaskLimits
from surescale.rescaler.control.effects import Effects
from tests.support.controller_world import JOB, MINUTE_MS, START_MS, controller, decision, job, only, said, view

T0 = START_MS
DUE_MS = T0 + 30 * MINUTE_MS


def held(until_ms: int | None = T0) -> Decision:
    """Return a decision that changes nothing, with figures until then."""
    return msgspec.structs.replace(decision(T0), figures_until_ms=until_ms)


def after_silence(sizes: int = 2, now_ms: int = DUE_MS, **settings: object) -> Effects:
    """Return what comes of a tick at that time, of a job of so many subtasks whose figures ended at the start."""
    control, seen = controller(), view(job(units=range(sizes)), **settings)
    control.on_decision(held(), seen, T0)
    return control.on_tick(seen, now_ms)


def changes(effects: Effects) -> dict[str, int]:
    """Return the sizes that are commanded."""
    return {change.task: change.after for command in effects.commands for change in command.changes}


def test_it_grows_once_figures_have_been_away_for_half_an_hour() -> None:
    """Not a millisecond earlier, by an act of the rescaler's own that says why."""
    assert not after_silence(safe_size=4, now_ms=DUE_MS - 1).commands
    effects = after_silence(safe_size=4)
    assert changes(effects) == {"map": 4, "join": 4}
    outcome = only(effects)
    assert (outcome.status, outcome.decision_id) == ("commanded", f"{JOB}@{DUE_MS}/safe")


def test_the_owner_sets_how_long_figures_may_stay_away() -> None:
    """As the controller wakes up for it."""
    control, seen = controller(), view(job(units=range(2)), safe_size=4, safe_after_minutes=20)
    control.on_decision(held(), seen, T0)
    control.on_tick(seen, T0)
    assert control.wake_at_ms() == T0 + 20 * MINUTE_MS
    assert changes(control.on_tick(seen, T0 + 20 * MINUTE_MS)) == {"map": 4, "join": 4}


def test_figures_that_come_put_it_off() -> None:
    """A decision that knew newer ones."""
    control, seen = controller(), view(job(units=range(2)), safe_size=4)
    control.on_decision(held(), seen, T0)
    newer = msgspec.structs.replace(decision(T0 + 10 * MINUTE_MS), figures_until_ms=T0 + 10 * MINUTE_MS)
    control.on_decision(newer, seen, T0 + 10 * MINUTE_MS)
    assert not control.on_tick(seen, DUE_MS).commands
    assert control.on_tick(seen, DUE_MS + 10 * MINUTE_MS).commands


@given(st.integers(1, 6), st.integers(1, 12), st.none() | st.integers(1, 12))
def test_no_task_ever_shrinks_or_passes_its_maximum(size: int, safe: int, most: int | None) -> None:
    """Whatever the sizes are; a task of the topology has at most ten subtasks, whatever its owner allows."""
    effects = after_silence(size, safe_size=safe, parallelism_max=most)
    wanted = min(safe, most or 10, 10)
    assert changes(effects) == ({"map": wanted, "join": wanted} if wanted > size else {})


def test_the_maximum_of_a_period_holds_as_the_tasks_own_does() -> None:
    """The job grows up to it, and is not refused for wanting more; a job that has it already wants nothing."""
    narrow = (PeriodBounds(period=ExcludedPeriod(), most=3),)
    effects = after_silence(safe_size=4, minimum_within=narrow)
    assert changes(effects) == {"map": 3, "join": 3}
    effects = after_silence(3, safe_size=4, minimum_within=narrow)
    assert (changes(effects), said(effects)) == ({}, [])


def test_once_a_period_with_a_maximum_is_over_the_job_grows_though_nothing_is_heard() -> None:
    """The monitor is away as well: the controller wakes up by itself, and says nothing until then."""
    narrow = (PeriodBounds(period=ExcludedPeriod(starts="00:00", ends="01:00"), most=2),)
    control, seen = controller(), view(job(units=range(2)), safe_size=4, minimum_within=narrow)
    control.on_decision(held(), seen, T0)
    now_ms, done = T0, list[tuple[str, str]]()
    while not done and now_ms < 2 * 60 * MINUTE_MS:
        due_ms = control.wake_at_ms()
        assert due_ms is not None
        assert now_ms < due_ms
        now_ms = due_ms
        effects = control.on_tick(seen, now_ms)
        done = said(effects)
    assert (now_ms, changes(effects)) == (60 * MINUTE_MS, {"map": 4, "join": 4})


@pytest.mark.parametrize(
    "settings",
    [
        {},  # no safe size
        {"safe_size": 4, "mode": "advise"},
        {"safe_size": 4, "mode": "observe"},
        {"safe_size": 4, "tasks": {"map": TaskLimits(pinned=True), "join": TaskLimits(pinned=True)}},
    ],
)
def test_what_nobody_has_allowed_does_not_happen(settings: dict[str, object]) -> None:
    """Nor is anything said of it."""
    effects = after_silence(**settings)  # type: ignore[arg-type]
    assert not effects.commands
    assert not said(effects)


def test_of_a_job_that_never_had_figures_nothing_is_known_to_be_away() -> None:
    """It is left alone."""
    control, seen = controller(), view(job(units=range(2)), safe_size=4)
    control.on_decision(held(None), seen, T0)
    assert not control.on_tick(seen, DUE_MS).commands
