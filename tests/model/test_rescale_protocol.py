"""The rescale protocol, explored in small; ``make model`` explores it in full. And: what is broken on purpose is found."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import msgspec
import pytest

from surescale.contracts.commands import Progress, RescheduleCommand
from surescale.rescaler.control.job import job as job_control
from surescale.rescaler.control.job import rescale
from surescale.rescaler.control.job.context import JobContext
from surescale.rescaler.control.job.memory import RescaleInProgress
from surescale.rescaler.control.world import World
from surescale.rescaler.execution import UnitsExecution
from surescale.simulation.engine import checked_changes
from tests.model import engine as model_engine
from tests.model.explore import Found, explore
from tests.model.pipeline import Pipeline
from tests.model.scenarios import compete, grow, lose, reverse
from tests.model.state import Guards, State
from tests.model.verified import Verified

SMALL = 3_000
"""States at most, of a search that is not to the end."""


def test_one_rescale_without_faults_ends_in_every_order_of_events() -> None:
    """Explored to the end: all invariants hold, and from every state everything that was accepted can still end."""
    found = explore(Verified(grow(0)))
    assert (found.broken, found.is_complete) == ("", True), found.path
    assert found.ends > 0
    assert {"carry-out", "commit", "decision", "effect", "progress", "publish", "read", "restarted"} <= set(found.actions)


@pytest.mark.parametrize("scenario", [grow, compete, reverse, lose])
def test_the_states_nearest_to_the_start_hold_with_two_faults(scenario: Callable[[int], Pipeline]) -> None:
    """No invariant is broken within the first states, crashes and dead hosts included."""
    found = explore(Verified(scenario(2)), states_max=SMALL)
    assert found.broken == "", found.path
    assert {"crash", "activate", "remember"} <= set(found.actions)


def without(**guards: bool) -> Callable[[Pipeline], Pipeline]:
    """Take one of the guards away that keep processes apart."""
    return lambda pipeline: replace(pipeline, guards=Guards(**guards))


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (without(fences=False), "a_decision_ends_once"),
        (without(fences_before_reading=False), "a_decision_ends_once"),
        (without(is_atomic=False), "learners_have_an_owner"),
    ],
    ids=["a transaction of an old epoch counts", "memory is read before the others are fenced", "commands before their memory"],
)
def test_a_missing_guard_between_two_rescalers_is_found(broken: Callable[[Pipeline], Pipeline], rule: str) -> None:
    """Two processes that both believe to be the rescaler make two commands of one name, or lose one."""
    assert_found(broken(grow(1)), rule)


def test_actuators_that_commit_their_own_offsets_are_found() -> None:
    """One of a process that was wrongly taken for dead passes over its successor's command; if that crashes, nobody reads it."""
    pipeline = grow(2)
    pipeline = replace(pipeline, script=pipeline.script[:1], clock=False, guards=Guards(positions_in_transactions=False))
    assert_found(pipeline, "no end can be reached")


def commit_before_the_barrier_is_complete(patch: pytest.MonkeyPatch) -> None:
    """The rescale ends when the engine has accepted its commit, not when it has carried it out."""

    def accepted(context: JobContext, rescaling: RescaleInProgress, _expected_end_ms: int | None) -> None:
        if rescaling.command.action == "commit":
            rescale.end(context, rescaling, ok=True, at_ms=context.now_ms)

    patch.setattr(rescale, "accept", accepted)


def abort_that_forgets_its_learners(patch: pytest.MonkeyPatch) -> None:
    """A preparation that must be given up is forgotten instead of aborted."""

    def refused(context: JobContext, rescaling: RescaleInProgress, progress: Progress) -> None:
        real(context, msgspec.structs.replace(rescaling, accepted=False), progress)

    def forgets(context: JobContext, rescaling: RescaleInProgress, action: rescale.Action, plan: object = None) -> None:
        rescale.end(context, rescaling, ok=False, at_ms=context.now_ms)

    real = rescale.end_step
    patch.setattr(rescale, "end_step", refused)
    patch.setattr(rescale, "_step_on", forgets)


def a_unit_of_another_job_counts_as_free(patch: pytest.MonkeyPatch) -> None:
    """The planner forgets what other jobs hold, and so does the engine."""
    make = World.__init__

    def init(self: World, **fields: object) -> None:
        make(self, **fields | {"units_of_others": frozenset})  # type: ignore[arg-type]

    patch.setattr(World, "__init__", init)


def reports_on_any_command_count(patch: pytest.MonkeyPatch) -> None:
    """A report is taken for one on the present command, whatever command it names."""
    hear = job_control.on_progress

    def on_progress(context: JobContext, progress: Progress) -> None:
        command = context.memory.outstanding
        hear(context, msgspec.structs.replace(progress, command_id=command.command_id) if command else progress)

    patch.setattr("surescale.rescaler.control.controller.job_control.on_progress", on_progress)


def unmerged(faults_max: int) -> Pipeline:
    """The pipeline with two rescales on which reports on commands that are over are kept."""
    return replace(reverse(faults_max), merges=False)


def generations_stand_still(patch: pytest.MonkeyPatch) -> None:
    """The second command of a job has the generation of the first."""
    patch.setattr(rescale, "next_generation", lambda _turn: 1)


def a_repeated_decision_counts_again(patch: pytest.MonkeyPatch) -> None:
    """A decision that was answered is answered again."""
    hear = job_control.on_decision

    def on_decision(context: JobContext, decision: object, *more: object) -> None:
        context.answers = {}
        hear(context, decision, *more)  # type: ignore[arg-type]

    patch.setattr("surescale.rescaler.control.controller.job_control.on_decision", on_decision)


def half_of_a_command_is_carried_out(patch: pytest.MonkeyPatch) -> None:
    """The engine changes the first task and leaves the second at the generation before."""

    def tasks_after(command: RescheduleCommand, *rest: Collection[int]) -> checked_changes.Tasks:
        half = msgspec.structs.replace(command, changes=command.changes[:1])
        return checked_changes.tasks_after(half, *rest)  # type: ignore[arg-type]

    patch.setattr(model_engine, "tasks_after", tasks_after)


def no_end_is_reported(patch: pytest.MonkeyPatch) -> None:
    """The actuator never reports how a command went."""
    patch.setattr(UnitsExecution, "_report_progress", lambda *_: [])


def an_end_that_nobody_reported_is_not_written(patch: pytest.MonkeyPatch) -> None:
    """The memory knows that a command was given up, and the topic does not."""

    def in_silence(context: JobContext, underway: RescaleInProgress, given_up_ms: int) -> None:
        give_up(context, underway, given_up_ms)
        context.effects.progress.clear()

    give_up = job_control._give_up_waiting
    no_end_is_reported(patch)
    patch.setattr(job_control, "_give_up_waiting", in_silence)


def no_end_is_reported_and_nobody_gives_up(patch: pytest.MonkeyPatch) -> None:
    """A command whose end nobody reports is waited for until the end of time."""
    no_end_is_reported(patch)
    patch.setattr("surescale.rescaler.control.job.job.given_up_at_ms", lambda _memory: None)


@pytest.mark.parametrize(
    ("breaks", "scenario", "rule"),
    [
        (commit_before_the_barrier_is_complete, grow, "only_what_happened_is_believed"),
        (abort_that_forgets_its_learners, reverse, "learners_have_an_owner"),
        (a_unit_of_another_job_counts_as_free, compete, "a_unit_has_one_owner"),
        (reports_on_any_command_count, unmerged, "learners_have_an_owner"),
        (generations_stand_still, reverse, "commands_rise"),
        (a_repeated_decision_counts_again, grow, "a_decision_ends_once"),
        (half_of_a_command_is_carried_out, grow, "a_generation_is_whole"),
        (an_end_that_nobody_reported_is_not_written, grow, "a_command_ends_once"),
        (no_end_is_reported_and_nobody_gives_up, grow, "no end can be reached"),
    ],
)
def test_a_broken_transition_is_found(
    breaks: Callable[[pytest.MonkeyPatch], None], scenario: Callable[[int], Pipeline], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search names the invariant that a change of the product's own functions breaks."""
    breaks(monkeypatch)
    assert_found(scenario(0), rule)


def test_a_command_whose_end_is_never_reported_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up after its deadline, and what the engine shows decides how it ended."""
    no_end_is_reported(monkeypatch)
    found = explore(Verified(grow(0)))
    assert (found.broken, found.is_complete) == ("", True), found.path


def assert_found(pipeline: Pipeline, rule: str) -> None:
    """The search ends at a state where this rule does not hold, and shows a way to it."""
    found: Found[State] = explore(Verified(pipeline), states_max=40_000)
    assert found.broken.startswith(rule), (found.broken, found.states, found.is_complete)
    assert found.path
