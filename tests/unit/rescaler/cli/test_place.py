"""`surescale dev place`: status, output, and the examples of the documentation."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from surescale.rescaler.cli.place import command

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"
REQUESTS = sorted(path for path in EXAMPLES.glob("place-*.json") if not path.name.endswith(".answer.json"))


def run(*arguments, text=None):
    """The command's result."""
    return CliRunner().invoke(command, list(arguments), input=text)


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.stem)
def test_an_example_gives_exactly_its_answer(path):
    """Byte for byte, with the exit status its answer implies."""
    outcome = run(str(path))
    assert outcome.stdout == path.with_suffix(".answer.json").read_text(encoding="utf-8")
    assert outcome.exit_code == {"ok": 0, "infeasible": 3, "error": 2}[json.loads(outcome.stdout)["status"]]


def test_there_are_examples_of_every_status():
    """The pairs are really there."""
    answers = [json.loads(path.with_suffix(".answer.json").read_text(encoding="utf-8")) for path in REQUESTS]
    assert {answer["status"] for answer in answers} == {"ok", "infeasible", "error"}


def test_standard_input_gives_the_same_bytes_as_the_file():
    """With a dash, or without a file."""
    path = EXAMPLES / "place-scale-out.json"
    for arguments in (["-"], []):
        assert run(*arguments, text=path.read_text(encoding="utf-8")).stdout == run(str(path)).stdout


def test_a_bad_request_is_one_json_object_and_one_line():
    """The error is on standard output as JSON and on standard error as a sentence."""
    outcome = run("-", text='{"schema": "place/1"}')
    assert outcome.exit_code == 2
    assert json.loads(outcome.stdout)["error"].startswith("algorithm: is missing")
    assert outcome.stderr.startswith("surescale: algorithm: is missing")
    assert outcome.stderr.count("\n") == 1


def test_a_missing_file_is_a_wrong_command_line():
    """The error names the file."""
    outcome = run("no-such-file.json")
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert "no-such-file.json" in outcome.stderr


def test_gap_adds_the_distance_to_the_optimum():
    """The answer itself stays as it is."""
    path = str(EXAMPLES / "place-scale-out.json")
    plain, with_gap = json.loads(run(path).stdout), json.loads(run(path, "--gap").stdout)
    gap = with_gap.pop("gap")
    assert with_gap == plain
    assert gap["total"]["method"] == "enumeration"


def test_the_command_starts_without_scipy():
    """A small request is answered without loading the exact solver, so the command starts fast."""
    program = (
        "import sys; from surescale.rescaler.cli.place import command; "
        f"command([{str(EXAMPLES / 'place-scale-out.json')!r}], standalone_mode=False); "
        "sys.exit(any(name.split('.')[0] == 'scipy' for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=60)
    assert done.returncode == 0
