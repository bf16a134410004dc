"""The JSON commands answer a small request within a second, start included."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"


@pytest.mark.parametrize(
    ("command", "request_file"),
    [
        ("gate", "gate-checkpoint.request.json"),
        ("reschedule", "reschedule-scale-out.request.json"),
        ("assign", "assign-takeover.request.json"),
        ("place", "place-scale-out.json"),
    ],
)
def test_a_small_request_takes_less_than_a_second(command: str, request_file: str) -> None:
    """Processor time of the whole process, so that a busy machine does not matter."""
    arguments = [sys.executable, "-m", "surescale.services.cli", "dev", command]
    before = os.times()
    done = subprocess.run(arguments, input=(EXAMPLES / request_file).read_bytes(), capture_output=True, check=False)
    after = os.times()
    assert done.returncode == 0, done.stderr.decode()
    assert after.children_user + after.children_system - before.children_user - before.children_system < 1.0
