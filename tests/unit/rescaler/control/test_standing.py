"""Which commands of the topic the rescaler knows as its own: anybody may write there."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.wire import decode, encode
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.job.memory import CommandStatus
from tests.support.controller_world import MINUTE_MS, OTHER_JOB, START_MS, controller, decision, ended, job, resumed, view

T0 = START_MS
WIDER = {"map": 4, "join": 4}


def commanded() -> tuple[Controller, RescheduleCommand]:
    """A controller with one command under way, and that command as an actuator reads it."""
    of = controller()
    effects = of.on_decision(decision(T0, WIDER), view(), T0)
    (command,) = effects.commands
    return of, decode(encode(command), RescheduleCommand)


def test_the_outstanding_command_is_known_also_after_a_restart() -> None:
    """The memory is written together with it."""
    of = controller()
    effects = of.on_decision(decision(T0, WIDER), view(), T0)
    (command,) = effects.commands
    read = decode(encode(command), RescheduleCommand)
    assert of.status_of(read) is resumed([effects]).status_of(read) is CommandStatus.OUTSTANDING


CHANGED = {
    "command_id": "whatever-i-like",
    "job": OTHER_JOB,
    "desired_generation": 2,
    "step": 1,
    "action": "commit",
    "changes": (),
    "deadline_ms": None,
    "decision_id": "mine",
    "issued_at_ms": 0,
}


@pytest.mark.parametrize("field", sorted(CHANGED))
def test_a_command_that_differs_in_any_field_is_unknown(field: str) -> None:
    """Knowing the id of the command under way is not enough."""
    of, command = commanded()
    assert of.status_of(msgspec.structs.replace(command, **{field: CHANGED[field]})) is CommandStatus.UNKNOWN


@given(generation=st.integers(1, 2**53), step=st.integers(0, 2**53), name=st.text(min_size=1, max_size=20))
def test_an_invented_command_is_never_outstanding(generation: int, step: int, name: str) -> None:
    """Whatever its generation and step."""
    of, command = commanded()
    invented = msgspec.structs.replace(command, command_id=name, desired_generation=generation, step=step)
    assert of.status_of(invented) is not CommandStatus.OUTSTANDING


def test_a_step_that_has_ended_is_over_and_the_next_one_outstanding() -> None:
    """An actuator that starts again may read both."""
    of, prepare = commanded()
    (commit,) = of.on_progress(ended(prepare, T0 + MINUTE_MS), view(), T0 + MINUTE_MS).commands
    assert (of.status_of(prepare), of.status_of(commit)) == (CommandStatus.OVER, CommandStatus.OUTSTANDING)
    of.on_progress(ended(commit, T0 + 2 * MINUTE_MS), view(), T0 + 2 * MINUTE_MS)
    assert (of.status_of(prepare), of.status_of(commit)) == (CommandStatus.OVER, CommandStatus.OVER)
    ahead = msgspec.structs.replace(commit, desired_generation=2**53)
    assert of.status_of(ahead) is CommandStatus.UNKNOWN


def test_a_command_of_a_job_without_decisions_is_unknown() -> None:
    """Nothing is remembered of it."""
    _, command = commanded()
    assert controller().status_of(command) is CommandStatus.UNKNOWN


def test_advice_leaves_nothing_outstanding() -> None:
    """The same command without the mark of advice is not carried out either."""
    of = controller()
    seen = view(job(), mode="advise")
    (advice,) = of.on_decision(decision(T0, WIDER), seen, T0).commands
    assert advice.advice
    assert of.status_of(msgspec.structs.replace(advice, advice=False)) is CommandStatus.OVER
