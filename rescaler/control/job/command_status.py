"""Whether a command that was read from the topic is the one that the rescaler remembers: anybody may have written it there."""

from enum import StrEnum

from contracts.commands import RescheduleCommand
from contracts.wire import encode
from rescaler.control.job.memory import JobMemory


class CommandStatus(StrEnum):
    """What a command is to its job."""

    OUTSTANDING = "outstanding"
    """The command under way, to the last byte: to be carried out."""
    OVER = "over"
    """Of a generation or step that has ended. An actuator that starts again may read it again."""
    UNKNOWN = "unknown"
    """Not made by this rescaler, or by a later one."""


def status_of(command: RescheduleCommand, memory: JobMemory) -> CommandStatus:
    """Compare a command with the memory of its job.

    The memory is written in one transaction with each command and restored before anybody reads commands, so it knows every
    command that may be carried out.
    """
    underway = memory.outstanding
    if underway is None:
        is_over = command.desired_generation <= memory.desired_generation
        return CommandStatus.OVER if is_over else CommandStatus.UNKNOWN
    if encode(command) == encode(underway):
        return CommandStatus.OUTSTANDING
    is_over = (command.desired_generation, command.step) < (underway.desired_generation, underway.step)
    return CommandStatus.OVER if is_over else CommandStatus.UNKNOWN
