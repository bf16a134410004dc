"""The options of ``surescale job set`` that set limits, one for each field of ``JobSettings``. Imports nothing slow."""

from typing import Any

import click

from runtime import options

DEFAULT = "default"
"""Given for a limit: as if it had never been set."""


class OrDefault(click.ParamType):
    """A value of another type, or the word ``default``."""

    def __init__(self, kind: click.ParamType) -> None:
        self.kind = kind
        self.name = kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word as it is, and anything else as the other type reads it."""
        return value if value == DEFAULT else self.kind.convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return how help names the value."""
        if isinstance(self.kind, options.ObjectiveType):
            return f"{self.kind.get_metavar(param, ctx)}|{DEFAULT}"
        return f"{self.name.upper().removesuffix(' RANGE')}|{DEFAULT}"


_WIDE = click.IntRange(1, 1_000_000)
_FACTOR = options.FiniteRange(1, 1_000_000, min_open=True)
_MINUTES = options.FiniteRange(0, 10_080)
_ABOVE_0 = options.FiniteRange(0, 10_080, min_open=True)

limits = options.grouped(
    click.option("--min", "parallelism_min", type=OrDefault(_WIDE), help="Lowest parallelism of a task."),
    click.option("--max", "parallelism_max", type=OrDefault(_WIDE), help="Highest parallelism of a task."),
    click.option("--total", "total_limit", type=OrDefault(_WIDE), help="Limit on the sum over the job's scalable tasks."),
    click.option(
        "--task",
        "tasks",
        multiple=True,
        metavar="NAME=LIMITS",
        help="Limits of one task, by name or label: MIN..MAX, pinned, or free for none of its own; repeatable.",
    ),
    click.option("--step", type=_FACTOR, help="Sets --step-up and --step-down."),
    click.option("--step-up", "step_up_max", type=OrDefault(_FACTOR), help="Largest factor by which one decision widens a task."),
    click.option(
        "--step-down", "step_down_max", type=OrDefault(_FACTOR), help="Largest factor by which one decision narrows a task."
    ),
    click.option(
        "--backlog-hold",
        "backlog_hold_minutes",
        type=OrDefault(_MINUTES),
        help="While a task has more minutes of work waiting, none shrinks; 0: never held.",
    ),
    click.option(
        "--scale-down-after",
        "scale_down_after_minutes",
        type=OrDefault(click.IntRange(0, 10_080)),
        help="Minutes that a lower need must last before the job shrinks.",
    ),
    click.option(
        "--exclude",
        "excluded",
        multiple=True,
        metavar="PERIOD",
        help="Time without rescales, like 'mon-fri 09:00-17:30 Europe/Berlin'; repeatable, replaces all; none: no such time.",
    ),
    click.option(
        "--rescales-a-day", "rescales_a_day_max", type=OrDefault(click.IntRange(0, 10_000)), help="Most rescales in 24 hours."
    ),
    click.option(
        "--ineffective",
        "block_ineffective",
        type=click.Choice(["block", "allow", DEFAULT]),
        help="Whether growth that brought no throughput may be repeated within an hour.",
    ),
    click.option(
        "--emergency",
        "emergency_growth",
        type=click.Choice(["grow", "wait", DEFAULT]),
        help="Whether a plainly overloaded job grows at once, or at the end of its span.",
    ),
    click.option("--align/--no-align", default=None, help="Prefer sizes that divide key groups or partitions evenly."),
    click.option(
        "--cpu", "cpu_limit", type=OrDefault(options.FiniteRange(0, 1_000_000, min_open=True)), help="Most cores for the job."
    ),
    click.option(
        "--memory", "memory_limit", type=OrDefault(options.FiniteRange(0, 1_000_000, min_open=True)), help="Most GiB for the job."
    ),
    click.option(
        "--feature-drift",
        "feature_drift_max",
        type=OrDefault(options.FiniteRange(0, 100)),
        help="Percent of a learned policy's features outside of its training above which the rule takes over.",
    ),
    click.option(
        "--spread",
        "calibrated_spread",
        type=click.Choice(["calibrated", "shipped", DEFAULT]),
        help="Whether sure plans for the errors of its forecasts on this job's own last day, or for those of its training.",
    ),
    click.option(
        "--catch-up", "catch_up_minutes", type=OrDefault(_ABOVE_0), help="Minutes in which a backlog should be worked off."
    ),
    click.option(
        "--restart-seconds",
        type=OrDefault(options.FiniteRange(0, 86_400)),
        help="How long a rescale stops the job, for policies that weigh it.",
    ),
    click.option(
        "--objective",
        type=OrDefault(options.OBJECTIVE),
        help="Fewer subtasks or less latency, or a bound: latency=30@0.01 is 30 s in 99 % of the minutes.",
    ),
    click.option(
        "--utilisation",
        type=OrDefault(options.FiniteRange(0.05, 1)),
        help="Share of their time that subtasks should be busy, for policies that aim at one.",
    ),
    click.option(
        "--minutes-known",
        "minutes_known_min",
        type=OrDefault(click.IntRange(1, 60)),
        help="Minutes of figures before the first decision (5 unless set).",
    ),
    click.option(
        "--on-drift",
        type=click.Choice(["adopt", "insist", "stop", DEFAULT]),
        help="After somebody else changed the parallelism: take it as it is, change it back, or stop acting.",
    ),
)
