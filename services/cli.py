"""The command ``surescale``. `services.command_table` lists its commands; each is imported when it is called."""

import os
import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import surescale
from surescale.contracts.errors import SurescaleError
from surescale.runtime.options import in_plain_words
from surescale.runtime.printable import printable
from surescale.services import command_table

CHECKOUT = Path(surescale.__file__).parents[2]
"""Where benchmarks/ and reproductions/ lie, which no wheel holds."""
FIND_THEIR_FILE = ("up", "init")
"""Commands that look for the pipeline's file themselves, or write it."""
EXIT_CODES = """\
Exit codes: 0 done; 1 it failed, and the last line says why; 2 the command line cannot be read, or the input document of
`dev gate`, `place`, `reschedule` or `assign` is wrong; 3 `dev place` found no host for some subtasks, or `job apply --dry-run`
would change something; 130 interrupted."""


class LazyGroup(click.Group):
    """A group of the table. Each command is loaded when it is called; help shows the table and loads none."""

    def __init__(self, *args: Any, table: command_table.Group, **kwargs: Any) -> None:
        """``table`` holds a section's title, and in it each command's name and line."""
        kwargs.setdefault("help", "\n\n".join(filter(None, (f"{table.line}.", table.more))))
        super().__init__(*args, **kwargs)
        self._sections = table.sections
        self._listed = table.commands()

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, in the order of help."""
        return list(self._listed)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        match self._listed.get(cmd_name):
            case command_table.Group() as below:
                return LazyGroup(cmd_name, table=below)
            case command_table.Command(at=at):
                module, _, name = at.partition(":")
                if not module.startswith("surescale.") and str(CHECKOUT) not in sys.path and (CHECKOUT / "benchmarks").is_dir():
                    sys.path.append(str(CHECKOUT))
                command: click.Command = getattr(import_module(module), name)
                return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table, its lines aligned over all sections."""
        width = max(map(len, self._listed))
        for title, lines in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), each.line) for name, each in lines.items()])


@click.group(
    cls=LazyGroup,
    table=command_table.ROOT,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--debug", is_flag=True, help="Show the trace of an error.")
@click.version_option(package_name="surescale")
def cli(debug: bool) -> None:
    """Keep streaming jobs at the right size while they run.

    `surescale COMMAND --help` explains a command.
    """


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line. An error is one line on standard error; `EXIT_CODES` says what the exit code means."""
    given = sys.argv[1:] if words is None else words
    debug = "--debug" in given
    arguments = [word for word in given if word != "--debug"]
    try:
        with _file_of(arguments):
            code = cli.main(args=arguments, prog_name="surescale", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        if debug and error.__cause__ is not None:
            raise error.__cause__ from None
        where = error.ctx if isinstance(error, click.UsageError) else None
        hint = f" (see `{where.command_path} --help`)" if where else ""
        _fail(f"{_with_suggestion(error)}{hint}", error.exit_code)
    except click.Abort:
        sys.exit(130)
    except ModuleNotFoundError as error:
        if debug:
            raise
        missing = (error.name or str(error)).partition(".")[0]
        _fail(f"this installation lacks {missing!r}; {_how_to_get(missing)}")
    except (SurescaleError, OSError) as error:
        if debug:
            raise
        if _is_logged(error):
            sys.exit(1)
        _fail(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


def _file_of(arguments: Sequence[str]) -> AbstractContextManager[object]:
    """Check the names of variables, and return what puts the pipeline's file in force; help needs neither."""
    if {"-h", "--help", "--version"} & set(arguments):
        return nullcontext()
    _check_variables()
    named = next((word for word in arguments if not word.startswith("-")), "")
    from surescale.services.pipeline_file import chosen, used

    return nullcontext() if named in FIND_THEIR_FILE else used(chosen(None))


def _check_variables() -> None:
    if any(name.startswith("SURESCALE_") for name in os.environ):
        from surescale.services.pipeline_file import check_names

        check_names(os.environ)


def _with_suggestion(error: click.ClickException) -> str:
    """Return an error's message; of a command that there is not, with what may be meant, however deep in the table."""
    message = error.format_message()
    if isinstance(error, click.UsageError):
        message = in_plain_words(message)
    context = error.ctx if isinstance(error, click.UsageError) else None
    named = re.fullmatch(r"No such command '(.*)'\.?", message)
    if named is None or context is None or not isinstance(context.command, click.Group):
        return message
    said, word = message.rstrip("."), named[1]
    if context.command is cli and word in command_table.OTHER_WORDS:
        return f"{said}; {command_table.OTHER_WORDS[word]}"
    meant = _meant(word, context.command.list_commands(context))
    return f"{said}; did you mean {' or '.join(meant)}?" if meant else message


def _meant(word: str, own: Sequence[str]) -> list[str]:
    """Return what a word may mean: a look, the same word elsewhere, else one that looks like it here, or elsewhere."""
    if word in command_table.LOOKS and (looks := [name for name in ("list", "show") if name in own]):
        return looks
    elsewhere: dict[str, list[str]] = {}
    for name, path in command_table.ROOT.paths():
        elsewhere.setdefault(name, []).append(f"`{path}`")
    if word in elsewhere:
        return elsewhere[word]
    if near := [name for name in own if name.startswith(word)] or get_close_matches(word, own, n=1):
        return near
    return next((elsewhere[name] for name in get_close_matches(word, elsewhere, n=1)), [])


def _how_to_get(module: str) -> str:
    extra = command_table.EXTRAS.get(module)
    if extra is None:
        return "run the command from a checkout of the repository, after `make install`"
    return f"pip install 'surescale[{extra}]', or 'surescale[all]' for every command"


def _fail(message: str, code: int = 1) -> None:
    click.echo("surescale: " + printable(message, keep="\n\t"), err=True)
    sys.exit(code)


def _is_logged(error: Exception) -> bool:
    """Say whether the role's JSON log carries the error already."""
    from surescale.runtime.logs import last_words

    return last_words(error)


if __name__ == "__main__":
    main()
