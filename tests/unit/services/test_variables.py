"""A slip in the name of an environment variable."""

import subprocess
import sys
from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.services.pipeline_file import check_names

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("SURESCALE_BOOTSTRP", "SURESCALE_BOOTSTRAP"),
        ("SURESCALE_ENGINE_ULR", "SURESCALE_ENGINE_URL"),
        ("SURESCALE_HTTP_PROT", "SURESCALE_HTTP_PORT"),
        ("SURESCALE_LOG_LEVLE", "SURESCALE_LOG_LEVEL"),
        ("SURESCALE_RUNFOLDER", "SURESCALE_RUN_FOLDER"),
    ],
)
def test_a_slip_is_refused_with_what_was_meant(name: str, meant: str) -> None:
    """Whatever reads the variable: every role, one role, an engine, the log, the command line."""
    with pytest.raises(SettingsError, match=f"^{name}: nothing reads a variable of this name; set {meant}, or unset it$"):
        check_names({name: "x"})


def test_no_name_of_the_project_is_refused() -> None:
    """Those in the documents, the manifests, the scripts and the tests."""
    asked = [
        "git",
        "grep",
        "-hoE",
        r"SURESCALE_[A-Z0-9_]*[A-Z0-9]\b",
        "--",
        ":!tests/unit/services/test_variables.py",
        ":!CHANGELOG.md",
    ]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
    if found.returncode:
        pytest.skip("the sources are no checkout")
    names = set(found.stdout.split())
    assert "SURESCALE_TEST_STACK" in names
    check_names({name: "x" for name in names if not any(each.startswith(f"{name}_") for each in names)})


def test_what_kubernetes_tells_of_services_and_what_is_somebody_elses_passes() -> None:
    """A Service `surescale-http` is told to each pod beside it."""
    check_names(
        {
            "SURESCALE_HTTP_PORTS": "tcp://10.0.0.1:8080",
            "SURESCALE_HTTP_SERVICE_PORT": "8080",
            "SURESCALE_HTTP_PORT_8080_TCP": "tcp://10.0.0.1:8080",
            "SURESCALE_WEATHER": "fair",
            "PATH": "/bin",
        }
    )


def test_a_command_ends_with_one_line_and_help_does_not() -> None:
    """Before it connects to anything."""
    given = {"SURESCALE_BOOTSTRP": "kafka:9092"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "surescale.services.cli", *words]
        return subprocess.run(command, env={**given, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True)

    refused = run("job", "list")
    assert refused.returncode == 1
    assert refused.stderr.splitlines() == [
        "surescale: SURESCALE_BOOTSTRP: nothing reads a variable of this name; set SURESCALE_BOOTSTRAP, or unset it"
    ]
    assert run("job", "list", "--help").returncode == 0
