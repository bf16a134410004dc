"""The command line itself: what is wrong with it is one line, and exit codes tell who is to blame."""

import subprocess
import sys

import pytest


def surescale(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    return subprocess.run(
        [sys.executable, "-m", "services.cli", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("job", "set", "sim/a", "--step", "3"), "Invalid value for '--step': 3.0 is not in the range"),
        (("job", "set", "sim/a", "--step", "nan"), "Invalid value for '--step': nan is not a finite number"),
        (("replay",), "Missing option '--from'"),
        (("nosuch",), "No such command 'nosuch'"),
        (("state", "--watch", "--json"), "--watch is for people"),
        (("state", "--every", "5"), "add --watch"),
        (("agent", "--health-port", "99999"), "'--health-port': 99999 is not in the range"),
        (("monitor", "--health-port", "99999"), "'--health-port': 99999 is not in the range"),
        (("policy", "list", "--policy-folder", "/nowhere"), "'--policy-folder': Directory '/nowhere' does not exist"),
        (("record", "--job", "sim/a", "--out", "a", "--from", "yesterday"), "'yesterday' is no time; write 1995-08-28T08:00"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: tuple[str, ...], says: str) -> None:
    """Exit code 2, what is wrong, and where help is."""
    done = surescale(*arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("surescale: ")
    assert says in done.stderr
    assert "--help` tells more" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("replay", "--from", "/nowhere.ssrec"), "neither a file nor one of the topics"),
        (("record", "--job", "sim/a", "--out", "/nowhere/a.ssrec"), "--out: folder /nowhere does not exist; create it first"),
        (("state", "--redis", "nowhere"), "redis_url: 'nowhere' is no address of Redis"),
        (("state", "--redis", "redis://:secret@[::1"), "redis_url: 'redis://***@[::1' is no address of Redis"),
        (("state-service", "--redis", "nowhere"), "redis_url: 'nowhere' is no address of Redis"),
        (("rescaler", "--engine", "foo"), "SURESCALE_ENGINE_URL: 'foo' is no address of an engine; give one like http://"),
        (("rescaler", "--engine-url", "foo"), "SURESCALE_ENGINE_URL: 'foo' is no address of an engine"),
        (("twin", "--output", "/nowhere/a.json"), "--output: folder /nowhere does not exist; create it first"),
    ],
)
def test_an_error_of_the_world_is_one_line(arguments: tuple[str, ...], says: str) -> None:
    """Exit code 1, no trace."""
    done = surescale(*arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert says in done.stderr


def test_help_and_version_are_no_errors() -> None:
    """Exit code 0, on standard output."""
    for asked in ("--help", "--version"):
        done = surescale(asked)
        assert (done.returncode, done.stderr) == (0, "")
        assert "surescale" in done.stdout
