"""Options that commands share."""

import os
import socket

import click
import pytest

from contracts.errors import SettingsError
from runtime.options import FiniteRange
from services.cli import cli
from services.options import whoever
from services.stack.artifacts import cache_folder
from services.stack.errors import ArtifactError

COMMANDS = ("demo", "engine", "evaluate", "job", "state", "twin")


def fractions(command: click.Command) -> list[click.Parameter]:
    """Return the options of a command, and of those below it, that take a number with a fraction."""
    below = [fractions(each) for each in command.commands.values()] if isinstance(command, click.Group) else []
    own = [option for option in command.params if isinstance(option.type, click.types.FloatParamType)]
    return [*own, *(option for options in below for option in options)]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("said", ["nan", "inf"])
def test_what_is_no_finite_number_is_refused_by_every_option(name: str, said: str) -> None:
    """Not a number lies within every range: it would be written to Kafka as null, or end the process with a trace later."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    found = fractions(command)
    assert found
    for option in found:
        with pytest.raises(click.BadParameter, match=f"{said} is not"):
            option.type.convert(said, option, None)


def test_a_number_within_its_range_is_taken() -> None:
    """And one outside is refused as before."""
    assert FiniteRange(1, 2, min_open=True).convert("1.5", None, None) == 1.5
    with pytest.raises(click.BadParameter, match="not in the range"):
        FiniteRange(1, 2, min_open=True).convert("1", None, None)


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> int:
    """A user that no table knows, as containers run under: no name, no home."""
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 987_654_321)
    return 987_654_321


def test_a_user_without_a_name_is_told_by_number(nobody: int) -> None:
    """A job can be paused from within a container; who did it is said as well as it is known."""
    assert whoever(None) == f"{nobody}@{socket.gethostname()}"
    assert whoever("ann") == "ann"


def test_a_name_that_no_record_can_hold_is_refused() -> None:
    """The terminal's bytes need not be UTF-8."""
    with pytest.raises(SettingsError, match=r"--by: 'ann\\udcff' is not UTF-8"):
        whoever("ann\udcff")


@pytest.mark.usefixtures("nobody")
def test_a_user_without_a_home_is_told_what_to_set() -> None:
    """In one line, with the variable."""
    with pytest.raises(ArtifactError, match="SURESCALE_CACHE"):
        cache_folder({})
