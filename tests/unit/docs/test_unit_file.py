"""The unit file for systemd in docs/deploy.md, as systemd reads it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize(("written", "read"), [("", ""), ("KillMode=process", "KillMode=proces"), ("Restart=", "Restarts=")])
def test_systemd_has_nothing_to_object(written: str, read: str, tmp_path: Path) -> None:
    """And it would say so: a slip in a name or a value is told."""
    (unit,) = re.findall(r"```ini\n(.*?)```", (ROOT / "docs/deploy.md").read_text(), re.S)
    unit = unit.replace("/opt/surescale/bin/surescale", shutil.which("true") or "").replace("User=surescale", "User=root")
    assert written in unit
    path = tmp_path / "surescale.service"
    path.write_text(unit.replace(written, read) if written else unit)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    said = [line for line in done.stderr.splitlines() if "surescale.service" in line]
    assert bool(said) is bool(written)
