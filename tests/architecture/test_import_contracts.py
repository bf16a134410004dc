"""What the import contracts of ``.importlinter`` cannot say; `make check` holds those by its lint."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from surescale.services.local_stack.roles import surescale

REPOSITORY = Path(__file__).parents[2]


WAITED_FOR = "contracts/foreign_files.py"
"""Its thread reads one file, and whoever started it waits for the end, an error included."""


def test_every_background_thread_is_started_by_the_helper_that_notices_its_end() -> None:
    """An unexpected error in a thread ends its process; a thread that nobody watches would leave a role that only looks well."""
    rooms = [link.resolve() for link in (REPOSITORY / "src" / "surescale").iterdir() if link.is_symlink()]
    found = {
        path.relative_to(REPOSITORY).as_posix() for room in rooms for path in room.rglob("*.py") if "Thread(" in path.read_text()
    }
    plain = {name for name in found if re.search(r"(?<!\w)(threading\.)?Thread\(", (REPOSITORY / name).read_text())}
    assert plain == {"runtime/threads.py", WAITED_FOR}


def test_no_process_of_ours_imports_from_the_folder_in_which_it_is_started(tmp_path: Path) -> None:
    """A folder ``services`` or a file ``json.py`` beside somebody would run: Python itself looks there first."""
    rooms = [link.resolve() for link in (REPOSITORY / "src" / "surescale").iterdir() if link.is_symlink()]
    plain = {
        path.relative_to(REPOSITORY).as_posix()
        for room in rooms
        for path in room.rglob("*.py")
        if re.search(r'\[\s*sys\.executable,(?!\s*"-[PI]")', path.read_text())
    }
    assert plain == set()
    for name in ("json", "msgspec", "services", "monitor", "surescale"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not ours')")
    done = subprocess.run(surescale("--version"), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_the_command_line_imports_no_room_before_a_command_is_called(argument: str) -> None:
    """``surescale --help`` loads neither a role nor numpy."""
    script = f"""
import sys
from surescale.services.cli import cli
try:
    cli.main(args=[{argument!r}], prog_name="surescale")
except SystemExit:
    pass
rooms = {{"surescale." + room for room in ("policies", "simulation", "rescaler", "monitor")}}
loaded = set(sys.modules) & {{"numpy", "confluent_kafka", "pyspark", "faust", *rooms}}
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
