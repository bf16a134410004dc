"""How roles are started."""

import subprocess
from pathlib import Path

import pytest

from surescale.services.local_stack.roles import surescale


@pytest.mark.parametrize("room", ["services", "monitor", "surescale"])
def test_a_folder_with_the_name_of_one_of_our_packages_runs_no_code_of_its_own(tmp_path: Path, room: str) -> None:
    """Roles start the same from any folder."""
    (tmp_path / room).mkdir()
    (tmp_path / room / "__init__.py").write_text("raise SystemExit(99)")
    done = subprocess.run(
        surescale("run", "monitor", "--help"), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "Usage: surescale run monitor" in done.stdout
