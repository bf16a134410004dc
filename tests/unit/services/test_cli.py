"""The command line itself: what is wrong with it is one line, and exit codes tell who is to blame."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.services import command_table
from tests.support.command_line import command_named, surescale


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("job", "set", "sim/a", "--step", "0.5"), "Invalid value for '--step': 0.5 is not in the range"),
        (("job", "set", "sim/a", "--step", "nan"), "Invalid value for '--step': nan is not a finite number"),
        (("recording", "replay"), "Missing argument 'FILE|TOPIC'"),
        (("nosuch",), "No such command 'nosuch'"),
        (("demo", "--seed", "-1"), "'--seed': -1 is not in the range"),
        (("replya",), "No such command 'replya'; did you mean `surescale recording replay`?"),
        (("explain", "sim/a"), "No such command 'explain'; did you mean `surescale job explain`?"),
        (("pause",), "No such command 'pause'; did you mean `surescale job pause` or `surescale cluster pause`?"),
        (("policy", "replay"), "No such command 'replay'; did you mean `surescale recording replay`?"),
        (("run", "demo"), "No such command 'demo'; did you mean `surescale demo`?"),
        (("job", "describe"), "No such command 'describe'; did you mean list or show?"),
        (("cluster", "info"), "No such command 'info'; did you mean show?"),
        (("dev", "bench", "simulater"), "No such command 'simulater'; did you mean simulator?"),
        (("run", "state"), "No such command 'state'; did you mean state-service?"),
        (("policy", "promot"), "No such command 'promot'; did you mean promote?"),
        (("get", "jobs"), "No such command 'get'; `surescale job list` shows all jobs"),
        (("logs",), "No such command 'logs'; `surescale workers list` names the log of each worker"),
        (("help", "job"), "No such command 'help'; `surescale COMMAND --help` explains a command"),
        (("job", "set", "sim/a", "--max", "four"), "'--max': 'four' is not a whole number (see"),
        (("run", "health"), "Choose from: monitor, spark, agent,"),
        (("policy", "zzz"), "No such command 'zzz'. (see"),
        (("policy", "twin", "--outt", "a"), "No such option: --outt; did you mean --out?"),
        (("job", "list", "--watch", "--json"), "--watch is for people"),
        (("job", "list", "--every", "5"), "add --watch"),
        (("run", "agent", "--health-port", "99999"), "'--health-port': 99999 is not in the range"),
        (("run", "monitor", "--health-port", "99999"), "'--health-port': 99999 is not in the range"),
        (("policy", "list", "--policy-folder", "/nowhere"), "'--policy-folder': Directory '/nowhere' does not exist"),
        (
            ("recording", "create", "--job", "sim/a", "--out", "a", "--from", "yesterday"),
            "'yesterday' is not a time; write 1995-08-28T08:00",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: tuple[str, ...], says: str) -> None:
    """Exit code 2, what is wrong, and where help is."""
    done = surescale(*arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("surescale: ")
    assert says in done.stderr
    assert "--help`" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("recording", "replay", "/nowhere.ssrec"), "neither a file nor one of the topics"),
        (
            ("recording", "create", "--job", "sim/a", "--out", "/nowhere/a.ssrec"),
            "--out: folder /nowhere does not exist; create it first",
        ),
        (("job", "list", "--redis", "nowhere"), "SURESCALE_REDIS_URL: 'nowhere' is not an address of Redis"),
        (
            ("job", "list", "--redis", "redis://:secret@[::1"),
            "SURESCALE_REDIS_URL: 'redis://:***@[::1' is not an address of Redis",
        ),
        (("run", "state-service", "--redis", "nowhere"), "SURESCALE_REDIS_URL: 'nowhere' is not an address of Redis"),
        (
            ("run", "rescaler", "--engine-url", "foo"),
            "SURESCALE_ENGINE_URL: 'foo' is not the address of an engine; set one like http://",
        ),
        (("policy", "twin", "--out", "/nowhere/a.json"), "--out: folder /nowhere does not exist; create it first"),
        (("job", "export", "sim"), "JOB: 'sim' is no name of a job; write CLUSTER/NAME, or a pattern like CLUSTER/*"),
        (("demo", "--policy", "nope"), "--policy: there is no policy 'nope'; known: "),
        (("demo", "--policy", "shure"), "--policy: there is no policy 'shure'; did you mean sure?"),
        (("demo", "--standbys", "99"), "--standbys: 99 copies do not fit on 5 other hosts; give at most 5"),
        (("demo", "--workload", "nope"), "workload 'nope' is neither a file nor one of"),
        (("demo", "--job", "ordrs"), "did you mean orders"),
        (
            ("policy", "shadow", "shure"),
            "policy shure: there is no such policy in the folder that ships with surescale; did",
        ),
        (("recording", "create", "--job", "orders", "--out", "a.ssrec"), ": --job: 'orders' is not of the form cluster/name"),
        (("job", "set", "orders", "--max", "4"), "JOB: 'orders' is no name of a job; write CLUSTER/NAME"),
        (("job", "pause", "sim/a", "--for", "2hours", "--why", "x"), "--for: '2hours' is not a duration; write a whole number"),
        (("job", "pause", "sim/a", "--until", "tomorrow", "--why", "x"), "--until: 'tomorrow' is not a time; write one like"),
        (("run", "health", "agent"), "no port: give --port, or set SURESCALE_HEALTH_PORT"),
    ],
)
def test_an_error_of_the_world_and_a_name_found_wrong_are_one_line(arguments: tuple[str, ...], says: str) -> None:
    """Exit code 1, no trace, whichever command looks."""
    done = surescale(*arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert says in done.stderr


NEEDS_EXTRA = [
    (["job", "list", "--watch"], "redis"),
    (["job", "explain", "sim/a"], "kafka"),
    (["policy", "list"], "kafka"),
    (["doctor"], "redis"),
    (["run", "monitor"], "kafka"),
    (["run", "state-service"], "redis"),
    (["run", "agent"], "agent"),
    (["run", "spark"], "spark"),
    (["demo"], "kafka"),
]
WITHOUT_EXTRAS = """
import sys
from surescale.services import command_table

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in command_table.EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from surescale.services.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(("arguments", "extra"), NEEDS_EXTRA, ids=[" ".join(words) for words, _ in NEEDS_EXTRA])
def test_a_command_whose_extra_is_not_installed_names_it(arguments: list[str], extra: str) -> None:
    """As after `pip install surescale` alone: one line, no trace."""
    asked = [sys.executable, "-c", WITHOUT_EXTRAS, *arguments]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    named = re.search(r"this installation lacks '(\w+)'; pip install 'surescale\[(\w+)\]'", done.stderr)
    assert named is not None, done.stderr
    assert command_table.EXTRAS[named[1]] == named[2]
    assert named[2] in {extra, "kafka", "http"}  # some need several, and the first that is missing is named


def test_every_extra_that_is_named_exists_and_brings_its_module() -> None:
    """`all` has every one that a command but train and export needs."""
    extras = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(command_table.EXTRAS.values()) <= set(extras)
    (whole,) = extras["all"]
    roles = set(re.findall(r"[a-z]+", whole.removeprefix("surescale")))
    assert roles == set(command_table.EXTRAS.values()) - {"train", "evidence"}


@pytest.mark.parametrize(
    ("words", "offered"), [("surescale dem", "demo"), ("surescale job dec", "decisions"), ("surescale job list --wa", "--watch")]
)
def test_a_shell_completes_commands_and_options(words: str, offered: str) -> None:
    """As docs/operations.md says."""
    asked = {"_SURESCALE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    command = [sys.executable, "-m", "surescale.services.cli"]
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == [f"plain,{offered}"]


def test_help_and_version_are_no_errors() -> None:
    """Exit code 0, on standard output."""
    for asked in ("--help", "--version"):
        done = surescale(asked)
        assert (done.returncode, done.stderr) == (0, "")
        assert "surescale" in done.stdout


def groups(table: command_table.Group = command_table.ROOT, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield what is typed for each group of the table."""
    yield words
    for name, each in table.commands().items():
        if isinstance(each, command_table.Group):
            yield from groups(each, (*words, name))


GROUPS = pytest.mark.parametrize("words", list(groups()), ids=" ".join)


def listed(words: tuple[str, ...]) -> dict[str, command_table.Command | command_table.Group]:
    """Return what the table has of a group."""
    table = command_table.ROOT
    for word in words:
        below = table.commands()[word]
        assert isinstance(below, command_table.Group)
        table = below
    return table.commands()


def test_a_new_user_sees_few_commands() -> None:
    """First those to begin with."""
    first = listed(())
    assert list(first)[:5] == ["init", "up", "demo", "doctor", "job"]
    assert len(first) <= 12


@GROUPS
def test_each_line_is_the_first_sentence_of_its_command(words: tuple[str, ...]) -> None:
    """What the list promises is what the command says of itself, and its name is the one that is typed."""
    for name, each in listed(words).items():
        command = command_named(" ".join((*words, name)))
        assert (command.name, command.get_short_help_str(limit=200).removesuffix(".")) == (name, each.line)


@GROUPS
def test_help_fits_80_columns_and_imports_no_room(words: tuple[str, ...]) -> None:
    """One command a line, and fast."""
    inside = ("rescaler", "simulation", "policies", "monitor", "spark_streaming", "model_export")
    rooms = {"benchmarks", "reproductions", *(f"surescale.{room}" for room in inside)}
    program = f"""
import sys
from surescale.services.cli import main
try:
    main({[*words, "--help"]})
finally:
    print(*{rooms} & set(sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80
    shown = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert all([name, each.line] in shown for name, each in listed(words).items())


@pytest.mark.parametrize("name", ["simulator", "placement"])
def test_a_benchmark_without_its_room_is_one_line(name: str) -> None:
    """As in the images of the roles, which hold neither benchmarks nor reproductions."""
    program = f"""
import sys
sys.modules.update(benchmarks=None, reproductions=None)
from surescale.services.cli import main
main(["dev", "bench", "{name}"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert "this installation lacks" in done.stderr
    assert "run the command from a checkout" in done.stderr


@pytest.mark.parametrize("group", ["topics", "workers"])
def test_no_line_of_a_group_is_cut(group: str) -> None:
    """The first sentence of each command fits its line."""
    done = surescale(group, "--help")
    assert (done.returncode, "..." in done.stdout.partition("Commands:")[2]) == (0, False)


def test_no_word_of_other_tools_is_a_command_here() -> None:
    """And each line names commands that there are."""
    assert not set(listed(())) & set(command_table.OTHER_WORDS)
    named = {name for line in command_table.OTHER_WORDS.values() for name in re.findall(r"`surescale ([a-z ]+[a-z])", line)}
    assert all(map(command_named, named))
