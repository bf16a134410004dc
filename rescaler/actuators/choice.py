"""Which way of carrying a command out fits its engine."""

from contracts.commands import RescheduleCommand
from rescaler.actuators.command_execution import CommandExecution
from rescaler.actuators.requirement_execution import RequirementExecution
from rescaler.actuators.units_execution import UnitsExecution


def execution_of(command: RescheduleCommand) -> CommandExecution:
    """Return the work that a command begins: with a state to compare with where the engine remembers no generation of ours."""
    return UnitsExecution(command) if command.expected is None else RequirementExecution(command)
