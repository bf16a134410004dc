"""The command ``surescale``: finds its commands by the entry-point group ``surescale.commands``, imports one when called."""

import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

import click

from contracts.errors import SurescaleError

COMMANDS = "surescale.commands"
BENCHMARKS = "surescale.bench"


class LazyGroup(click.Group):
    """A group whose commands are the entry points of ``entry_group``, each loaded only when it is called."""

    def __init__(self, *args: Any, entry_group: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._entry_group = entry_group

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, sorted."""
        return sorted(point.name for point in entry_points(group=self._entry_group))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        found = entry_points(group=self._entry_group, name=cmd_name)
        return next(iter(found)).load() if found else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names alone."""
        # One column of names: a one-line help of each would import every room.
        with formatter.section(f"Commands ({ctx.command_path} COMMAND --help tells more)"):
            formatter.write_text(", ".join(self.list_commands(ctx)))


@click.group(cls=LazyGroup, entry_group=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the trace of an error.")
@click.version_option(package_name="surescale")
def cli(debug: bool) -> None:
    """Keep streaming jobs at the right size while they run."""


bench = LazyGroup(
    "bench",
    entry_group=BENCHMARKS,
    help="Measure, or reproduce a published evaluation: targets and published figures beside ours.",
)


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line: an error is one line on standard error; exit code 1, or 2 when the command line itself is wrong."""
    given = sys.argv[1:] if words is None else words
    debug = "--debug" in given
    arguments = [word for word in given if word != "--debug"]
    try:
        code = cli.main(args=arguments, prog_name="surescale", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        if debug and error.__cause__ is not None:
            raise error.__cause__ from None
        told = error.ctx if isinstance(error, click.UsageError) else None
        hint = f" (`{told.command_path} --help` tells more)" if told else ""
        click.echo(f"surescale: {error.format_message()}{hint}", err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except (SurescaleError, OSError) as error:
        if debug:
            raise
        if not _is_logged(error):
            click.echo(f"surescale: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _is_logged(error: Exception) -> bool:
    """A role whose log is JSON says its last words there."""
    from runtime.logs import last_words

    return last_words(error)


if __name__ == "__main__":
    main()
