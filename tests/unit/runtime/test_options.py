"""Options that commands share."""

import os
import re
import socket
from dataclasses import fields

import click
import pytest
from click.testing import CliRunner

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings
from surescale.rescaler.service.settings import RescalerSettings
from surescale.runtime import options
from surescale.runtime.options import FiniteRange, author
from surescale.services.cli import cli
from surescale.services.local_stack.artifacts import cache_folder
from surescale.services.local_stack.errors import ArtifactError
from tests.support.command_line import command_named

COMMANDS = ("demo", "job list", "job set", "policy evaluate", "policy twin", "run engine")


def fractions(command: click.Command) -> list[click.Parameter]:
    """Return the options of a command that take a number with a fraction."""
    return [option for option in command.params if isinstance(option.type, click.types.FloatParamType)]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("said", ["nan", "inf"])
def test_what_is_no_finite_number_is_refused_by_every_option(name: str, said: str) -> None:
    """Not a number lies within every range: it would be written to Kafka as null, or end the process with a trace later."""
    found = fractions(command_named(name))
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
    assert author(None) == f"{nobody}@{socket.gethostname()}"
    assert author("ann") == "ann"


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("ann\udcff", r"has '\\udcff'"),  # the terminal's bytes need not be UTF-8
        ("ann\x1b[2J", r"has '\\x1b'"),
        ("ann\0", r"has '\\x00'"),
        ("ann\x9b2J", r"has '\\x9b'"),
        ("x" * 257, "has 257 characters; give at most 256"),
        (" \n ", "is empty"),
    ],
)
def test_a_name_that_no_record_can_hold_is_refused(given: str, wrong: str) -> None:
    """The error names the option and what is wrong."""
    with pytest.raises(SettingsError, match=f"--by: {wrong}"):
        author(given)


@pytest.mark.parametrize(("given", "kept"), [(" ann\n of\tsales ", "ann of sales"), ("Ána 👩\u200d🔬", "Ána 👩\u200d🔬")])
def test_a_name_is_one_line_in_any_script(given: str, kept: str) -> None:
    """White space of any kind is a space, also that which begins a line."""
    assert author(given) == kept


@pytest.mark.usefixtures("nobody")
def test_a_user_without_a_home_is_told_what_to_set() -> None:
    """In one line, with the variable."""
    with pytest.raises(ArtifactError, match="SURESCALE_CACHE"):
        cache_folder({})


def every_command() -> dict[str, click.Command]:
    """Return the commands of the product by what is typed."""

    def below(group: click.Group, path: str) -> dict[str, click.Command]:
        found: dict[str, click.Command] = {}
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            whole = f"{path} {name}".strip()
            found |= below(command, whole) if isinstance(command, click.Group) else {whole: command}
        return found

    return {path: command for path, command in below(cli, "").items() if not path.startswith("dev bench ")}


SHARED = {
    "--redis", "--engine", "--engine-url", "--cluster", "--policy-folder", "--health-port", "--by", "--prefix", "--start-minute",
    "--minutes",
    "--load-parallelism", "--rescale", "--restart-ms", "--restore-mib-per-s", "--kill-host", "--join-host", "--standbys",
    "--pace", "--speed", "--gate", "--placement",
}  # fmt: skip


def test_a_shared_option_says_the_same_everywhere() -> None:
    """One declaration each: a copy would drift."""
    said: dict[str, set[str | None]] = {}
    for command in every_command().values():
        for option in command.params:
            if isinstance(option, click.Option):
                said.setdefault(option.opts[0], set()).add(option.help)
    assert {name: len(said[name]) for name in SHARED} == dict.fromkeys(SHARED, 1)


def test_no_command_has_an_old_spelling() -> None:
    """One name per concept: --out, --policy, --span-minutes, --engine."""
    old = {"--report", "--output", "--write", "--policies", "--span", "--kafka", "--spark-master"}
    for path, command in every_command().items():
        assert not old & {name for option in command.params for name in option.opts}, path


def test_every_option_has_help() -> None:
    """A name alone explains nothing."""
    bare = [
        (path, option.opts[0])
        for path, command in every_command().items()
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert not bare


@pytest.mark.parametrize("name", ["run rescaler", "policy twin"])
def test_defaults_in_help_are_those_of_the_settings(name: str) -> None:
    """A number that is written twice must agree."""
    defaults = {item.name: item.default for item in fields(RescalerSettings)}
    checked = 0
    for option in every_command()[name].params:
        promised = re.search(r"\(default: ([\w.]+)\)\.$", getattr(option, "help", None) or "")
        if promised and option.name in defaults and not promised[1].startswith("SURESCALE"):
            assert str(defaults[option.name]) == promised[1], option.name
            checked += 1
    assert checked >= 8


def test_a_connected_command_gets_its_settings_from_the_options_else_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own options stay its own."""
    seen: list[object] = []

    @click.command()
    @click.option("--days", type=int)
    @options.connected(options.cluster)
    def command(settings: PipelineSettings, days: int) -> None:
        seen.extend((settings.bootstrap, settings.topic_prefix, settings.cluster, days))

    monkeypatch.setenv("SURESCALE_TOPIC_PREFIX", "x-")
    result = CliRunner().invoke(command, ["--bootstrap", "kafka:9", "--cluster", "prod", "--days", "3"])
    assert (result.exit_code, seen) == (0, ["kafka:9", "x-", "prod", 3])
