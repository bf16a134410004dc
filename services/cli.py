"""The command ``surescale``: finds its commands by the entry-point group ``surescale.commands``, imports one when called."""

import sys
from importlib.metadata import entry_points

import click

from contracts.errors import SurescaleError

GROUP = "surescale.commands"


class _LazyGroup(click.Group):
    """A group whose commands are loaded from entry points, each only when it is called or described."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(point.name for point in entry_points(group=GROUP))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = entry_points(group=GROUP, name=cmd_name)
        return next(iter(found)).load() if found else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # One column of names: a one-line help of each would import every room.
        with formatter.section("Commands (surescale COMMAND --help tells more)"):
            formatter.write_text(", ".join(self.list_commands(ctx)))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the trace of an error.")
@click.version_option(package_name="surescale")
def cli(debug: bool) -> None:
    """Keep streaming jobs at the right size while they run."""


def main() -> None:
    """Run the command line: an error of the world is one line on standard error and exit code 1."""
    debug = "--debug" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        cli.main(args=arguments, prog_name="surescale")
    except (SurescaleError, OSError) as error:
        if debug:
            raise
        click.echo(f"surescale: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
