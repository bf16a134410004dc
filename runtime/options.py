"""Command-line options that several commands share. Each is declared here once, so its name, check and help agree everywhere.

Imports no client library, so `surescale COMMAND --help` stays fast.
"""

import getpass
import logging
import math
import os
import socket
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import click

from surescale.contracts.free_text import checked_text
from surescale.contracts.settings import PORT_MAX, PipelineSettings, from_environment

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound=PipelineSettings)


_PLAIN = {
    " is not a valid integer range.": " is not a whole number",
    " is not a valid integer.": " is not a whole number",
    " is not a valid float range.": " is not a number",
    " is not a valid float.": " is not a number",
    " Did you mean ": "; did you mean ",
}


def in_plain_words(message: str) -> str:
    """Return what click says of a wrong command line in one line, without names of its types.

    >>> in_plain_words("'four' is not a valid integer range.")
    "'four' is not a whole number"
    """
    line = " ".join(message.split())
    for said, plain in _PLAIN.items():
        line = line.replace(said, plain)
    return line


class FiniteRange(click.FloatRange):
    """A number within a range. Click's own range accepts ``nan``, and ``inf`` where it has no upper end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; refuse one that is not finite like one outside the range."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number.", param, ctx)
        return number


class ObjectiveType(click.ParamType):
    """A job's objective: a word, or a bound on latency (``contracts.objectives``)."""

    name = "objective"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the objective; refuse a text that names none."""
        from surescale.contracts.errors import SettingsError
        from surescale.contracts.objectives import read_objective

        try:
            return read_objective(value) if isinstance(value, str) else value
        except SettingsError as error:
            self.fail(str(error).removeprefix("--objective: "), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Return how help names the value."""
        return "cost|balanced|latency|latency=SECONDS[@SHARE]"


OBJECTIVE = ObjectiveType()


def grouped(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator that adds these options to a command, in this order."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _gathered(name: str, make: Callable[..., object], *options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds these options to a command, which gets what ``make`` makes of them under one name."""
    add = grouped(*options)

    def decorate(command: F) -> F:
        @wraps(command)
        def call(**given: Any) -> Any:
            return command(**{name: make(**{each: given.pop(each) for each in names})}, **given)

        before = len(getattr(call, "__click_params__", ()))
        decorated: Any = add(cast(F, call))
        names = [parameter.name for parameter in decorated.__click_params__[before:]]
        return cast(F, decorated)

    return decorate


# Where things are.

bootstrap = click.option("--bootstrap", help="Kafka bootstrap servers (default: SURESCALE_BOOTSTRAP).")
prefix = click.option("--prefix", "topic_prefix", help="Prefix of every topic and key (default: SURESCALE_TOPIC_PREFIX).")
redis_url = click.option("--redis", "redis_url", help="Address of Redis (default: SURESCALE_REDIS_URL).")
cluster = click.option(
    "--cluster", help="Name of the cluster: what stands before the slash in a job's name (default: SURESCALE_CLUSTER)."
)
policy_folder = click.option(
    "--policy-folder",
    type=click.Path(exists=True, file_okay=False),
    help="Folder of policy packages (default: SURESCALE_POLICY_FOLDER, else the shipped ones).",
)
health_port = click.option(
    "--health-port", type=click.IntRange(0, PORT_MAX), help="Port of the health endpoint and metrics; 0: none."
)

# Who, what and how.

by = click.option("--by", help="Who makes this change (default: user@host).")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
seed = click.option("--seed", type=int, help="Seed of every decision (default: SURESCALE_SEED, else 0).")
default_policy = click.option(
    "--policy", help="Policy for jobs to which neither settings nor a release give one (default: SURESCALE_POLICY, else sure)."
)


def policies(*default: str, help: str = "Policy by name; repeatable.") -> Callable[[F], F]:
    """Return the option of a command that compares policies."""
    return click.option("--policy", "policies", multiple=True, default=default, show_default=bool(default), help=help)


# Jobs that run under a trace in the simulator.

JOBS = ("clicks", "orders", "payments")
"""Shipped jobs that commands run by default."""
_JOB = "Job by name (surescale demo jobs), or a CSV of a graph, FILE or FILE#JOB"
job = click.option("--job", required=True, help=f"{_JOB}.")


def jobs(default: tuple[str, ...] = JOBS) -> Callable[[F], F]:
    """Return the option that names one job or more."""
    return click.option("--job", "jobs", multiple=True, default=default, show_default=True, help=f"{_JOB}; repeatable.")


def workload(usual: str = "online-shop", *, required: bool = False) -> Callable[[F], F]:
    """Return the option that names the trace, ``usual`` if it is left out."""
    default: dict[str, Any] = {"required": True} if required else {"default": usual, "show_default": True}
    return click.option("--workload", help="Load by name (surescale demo jobs), or a CSV: columns minute,requests.", **default)


def minutes(least: int = 1, most: int | None = None) -> Callable[[F], F]:
    """Return the option that says how much of the trace to run."""
    return click.option(
        "--minutes", type=click.IntRange(least, most), default=240, show_default=True, help="Minutes of the trace to run."
    )


start_minute = click.option(
    "--start-minute",
    type=click.IntRange(min=0),
    help="Minute of the trace to start at (default: a morning ramp; online-shop, clarknet: a Friday, 07:00).",
)
pace = click.option(
    "--pace",
    type=click.Choice(["lockstep", "free"]),
    help="Wait for the pipeline's answers (the same decisions every time), or let the clock run (default: lockstep).",
)
speed = click.option(
    "--speed",
    type=FiniteRange(0.1, 100_000),
    help="Speed of the clock, in event seconds per second (default: free 60, lockstep 6000).",
)


def span_minutes(default: str, choices: Sequence[str] = ()) -> Callable[[F], F]:
    """Return the option that says how often policies decide; ``default`` says what happens without it."""
    allowed = click.Choice(choices) if choices else click.IntRange(min=1)
    return click.option("--span-minutes", type=allowed, help=f"Minutes between decisions (default: {default}).")


load_parallelism = click.option(
    "--load-parallelism",
    type=FiniteRange(min=0.1, max=100),
    default=7.0,
    show_default=True,
    help="Subtasks the heaviest task needs at the workload's P99.",
)
rescale = click.option(
    "--rescale",
    type=click.Choice(["learners", "restart"]),
    default="learners",
    show_default=True,
    help="Restore state on the new hosts first, or restart the job.",
)
restart_ms = click.option(
    "--restart-ms",
    type=int,
    help="How long a restart takes; below 15000, or a multiple of it (default: the world's; calm 60000, pressure 1000).",
)


def _one_world(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> str:
    """Return the only world. Two are refused: `train` and `dev bench worlds` take several, and here the first would be lost."""
    if len(given) > 1:
        raise click.BadParameter(f"give it once; worlds are joined by +, as in {'+'.join(given)[:80]}", ctx, param)
    return given[0]


def _world(form: str, *, more: str = "", besides: str = "") -> Callable[[F], F]:
    return click.option(
        "--world",
        multiple=True,
        callback=_one_world,
        default=("calm",),
        show_default=True,
        metavar=form,
        help="calm; pressure: bounded buffers; drift, slow, skew, starved: capacity that varies; restart; nights: "
        "hours without a record; dealt: whole partitions and key groups; waves: sources, selectivities and timers of "
        f"their own; blind: figures that show less{more}. Joined by +; restart@300 sets the seconds of a restart.{besides}",
    )


world = _world("NAME[+NAME...][@SECONDS]")
world_or_file = _world(
    "NAME[+NAME...][@SECONDS]|FILE", more="; slo", besides=" Or a .json file of surescale recording calibrate."
)
world_seed = click.option(
    "--world-seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Seed of the world's random draws."
)
restart_s = click.option(
    "--restart-s", type=FiniteRange(0.0, 3_600.0), help="Seconds that a restart takes (default: the world's)."
)
restore_mib_per_s = click.option(
    "--restore-mib-per-s",
    type=FiniteRange(min=0.001),
    default=8.0,
    show_default=True,
    help="State that one host restores per second.",
)
sample_interval_ms = click.option(
    "--sample-interval-ms", type=int, default=15_000, show_default=True, help="Time between samples: 15000, 30000 or 60000."
)
checkpoint_interval_ms = click.option(
    "--checkpoint-interval-ms",
    type=click.IntRange(min=60_000),
    default=60_000,
    show_default=True,
    help="Time between checkpoints; whole minutes.",
)
kill_host = click.option(
    "--kill-host",
    "kill_host_minutes",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="MINUTE",
    help="Kill the busiest host at the end of this minute of the run; repeatable.",
)
join_host = click.option(
    "--join-host",
    "join_host_minutes",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="MINUTE",
    help="Add a host at the end of this minute of the run; repeatable.",
)


simulated_run = _gathered(
    "run",
    dict,
    workload(),
    jobs(JOBS[:1]),
    minutes(),
    start_minute,
    load_parallelism,
    sample_interval_ms,
    world,
    world_seed,
    rescale,
    restart_ms,
    restore_mib_per_s,
    checkpoint_interval_ms,
    kill_host,
    join_host,
)
"""What runs in the simulated engine, for how long, and what a rescale costs, for `simulation.engine.cluster.simulated_run`."""


# How a rescaler acts, for the process and its twins. Each is a field of `RescalerSettings`.

standbys = click.option(
    "--standbys", type=click.IntRange(min=0), help="Copies of each unit's state kept on other hosts (default: 0)."
)
control_options = grouped(
    click.option(
        "--cooldown-ms", type=click.IntRange(min=0), help="Minimum time between two rescales of a job (default: 30000)."
    ),
    click.option("--stabilization-ms", type=click.IntRange(min=0), help="How long to wait for missing units (default: 60000)."),
    click.option("--gate", help="Gate parameters: NAME=VALUE,NAME=VALUE (rescale-trigger.max-delay=60000)."),
    click.option(
        "--warm-up-ms-max", type=click.IntRange(min=0), help="Time limit of learners; 0: no learners (default: 600000)."
    ),
    click.option(
        "--warm-up-then",
        type=click.Choice(["elsewhere", "cold"]),
        help="When learners run out of time: try other hosts, or move without them (default: elsewhere).",
    ),
    click.option(
        "--placement",
        type=click.Choice(["cetsa", "lba-ce", "spread"]),
        help="Choose hosts by cost, or spread evenly whatever they cost (default: cetsa).",
    ),
    click.option("--balance", type=click.Choice(["V1", "V2", "off"]), help="What moves when hosts come or go (default: V2)."),
    click.option("--balancing-factor", help="Width of the band around a host's fair share (placement spread) (default: 1)."),
    standbys,
)


def connected(*more: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator for a command that uses Kafka: it gets its settings as ``settings``.

    It adds ``--bootstrap`` and ``--prefix``, and the options of settings given as ``more``.
    """
    return _gathered("settings", pipeline_settings, *more, bootstrap, prefix)


def pipeline_settings(**given: object) -> PipelineSettings:
    """Return the pipeline's settings for a command: what its options say, else the environment."""
    return settings_of(PipelineSettings, **given)


def settings_of(kind: type[S], **given: object) -> S:
    """Return settings for a command: what its options say, else the environment.

    Silences librdkafka's own log: when the broker is away, the command's error says so once.
    """
    logging.getLogger("surescale.librdkafka").setLevel(logging.CRITICAL)
    return from_environment(kind, **given)


def author(by: str | None) -> str:
    """Return who makes a change, as records name them: the given name, else user@host.

    Raises:
        SettingsError: no record can hold the name.
    """
    return checked_text("--by", by or f"{_user()}@{socket.gethostname()}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in containers
        return str(os.getuid())
