"""The runtime of ONNX graphs, as we start it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

OPEN = "from surescale.policies.registry import load_policy; print(load_policy('sure').sha256)"


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_a_package_that_is_opened_reports_to_nobody(tmp_path: Path, variable: str) -> None:
    """Since 1.29 the runtime keeps a number of the device and events to send in the user's cache, unless told not to."""
    kept = {name: value for name, value in os.environ.items() if name not in ("ORT_DISABLE_TELEMETRY", "CI", "XDG_CACHE_HOME")}
    opened = subprocess.run(
        [sys.executable, "-c", OPEN],
        env=kept | {variable: str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert len(opened.stdout.strip()) == 64
    assert list(tmp_path.rglob("*onnxruntime*")) == []
