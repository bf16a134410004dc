"""The command line, as a shell runs it, in this process: starting another one takes half a second of the processor's time."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.services.cli import cli, main

SURESCALE = [sys.executable, "-c", "from surescale.services.cli import main; main()"]
"""The command as a process of its own."""


def started(settings: PipelineSettings, log: Path, *words: str, **environment: str) -> "subprocess.Popen[bytes]":
    """Start a command as a process of its own, with a pipeline's settings; what it says goes to the end of a log."""
    env = os.environ | to_environment(settings) | environment
    with log.open("ab") as said:
        return subprocess.Popen([*SURESCALE, *words], env=env, stdout=said, stderr=said)


class Ran(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def command_named(words: str) -> click.Command:
    """Return what runs the commands of a group, or one command."""
    found: click.Command = cli
    for word in words.split():
        assert isinstance(found, click.Group)
        below = found.get_command(click.Context(found), word)
        assert below is not None, words
        found = below
    return found


job_command, policy_command = command_named("job"), command_named("policy")


def surescale(*words: str) -> Ran:
    """Run a command to its end."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(words)
    return Ran(int(ended.value.code or 0), out.getvalue(), err.getvalue())
