"""The Kubernetes manifests as kustomize renders them."""

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import PATIENT_S

KUBERNETES = Path(__file__).parents[2] / "compose/kubernetes"


def rendered(overlay: str) -> list[dict[str, Any]]:
    """Return what kustomize makes of an overlay."""
    import yaml  # here, so that a test file is skipped by its own words where it is not installed

    return list(yaml.load_all(_text(KUBERNETES / "overlays" / overlay), yaml.CSafeLoader))


@cache
def _text(folder: Path) -> str:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl, which renders kustomize overlays, is not installed")
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False, timeout=PATIENT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout
