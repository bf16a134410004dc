"""Which way of carrying a command out fits its engine."""

from contracts.commands import RescheduleCommand
from rescaler.actuators.by_requirement import ByRequirement
from rescaler.actuators.one_command import CarryingOut
from rescaler.actuators.work import CommandWork


def work_on(command: RescheduleCommand) -> CommandWork:
    """Return the work that a command begins: with a state to compare with where the engine remembers no generation of ours."""
    return CarryingOut(command) if command.expected is None else ByRequirement(command)
