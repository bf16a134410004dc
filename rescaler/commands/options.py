"""Options that say how a rescaler acts, alike for the process and for its twins: each is a field of `RescalerSettings`."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--cooldown-ms", type=click.IntRange(min=0), help="Rest of a job after a rescale. [30000]"),
    click.option("--stabilization-ms", type=click.IntRange(min=0), help="Wait for more units when there are too few. [60000]"),
    click.option("--gate", help="Parameters of every gate: NAME=VALUE,NAME=VALUE (rescale-trigger.max-delay=60000)."),
    click.option("--warm-up-ms-max", type=click.IntRange(min=0), help="Bound on learners; 0: none. [600000]"),
    click.option(
        "--warm-up-then", type=click.Choice(["elsewhere", "cold"]), help="After learners that took too long. [elsewhere]"
    ),
    click.option(
        "--placement",
        type=click.Choice(["cetsa", "lba-ce", "spread"]),
        help="Hosts by cost, or evenly whatever they cost. [cetsa]",
    ),
    click.option("--balance", type=click.Choice(["V1", "V2", "off"]), help="What moves when hosts come or go. [V2]"),
    click.option("--balancing-factor", help="Width of the band around a host's fair share (placement spread). [1]"),
    click.option("--standbys", type=click.IntRange(min=0), help="Copies of each unit's state kept on other hosts. [0]"),
)


def control_options(command: F) -> F:
    """Give a command the options, in this order, where the decorator stands."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
