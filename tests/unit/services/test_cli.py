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
        (("replay",), "Missing option '--from'"),
        (("nosuch",), "No such command 'nosuch'"),
        (("state", "--watch", "--json"), "--watch is for people"),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: tuple[str, ...], says: str) -> None:
    """Exit code 2, what is wrong, and where help is."""
    done = surescale(*arguments)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("surescale: ")
    assert says in done.stderr
    assert "--help` tells more" in done.stderr


def test_an_error_of_the_world_is_one_line() -> None:
    """Exit code 1, no trace."""
    done = surescale("replay", "--from", "/nowhere.ssr")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)


def test_help_and_version_are_no_errors() -> None:
    """Exit code 0, on standard output."""
    for asked in ("--help", "--version"):
        done = surescale(asked)
        assert (done.returncode, done.stderr) == (0, "")
        assert "surescale" in done.stdout
