"""The built archives: what is in them, and that the wheel, installed into an environment of its own, needs no checkout."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from surescale.services.local_stack.artifacts import CACHE_VARIABLE

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
INSTALL_S, DEMO_S = 900.0, 900.0  # the first builds pyspark where uv's cache is empty


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the source archive and of the wheel that is built from it."""
    made = tmp_path_factory.mktemp("dist")
    build = (str(UV), "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(made))
    subprocess.run(build, cwd=ROOT, check=True, timeout=INSTALL_S)
    return made


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `surescale` of an environment that holds the wheel with all extras, at the locked versions."""
    environment = tmp_path_factory.mktemp("environment")
    (wheel,) = built.glob("*.whl")
    subprocess.run((str(UV), "venv", "--quiet", "--python", sys.executable, str(environment)), check=True, timeout=INSTALL_S)
    python = str(environment / "bin" / "python")
    wanted = ("--constraint", str(ROOT / "locks" / "runtime.txt"), f"surescale[all] @ {wheel.as_uri()}")
    subprocess.run((str(UV), "pip", "install", "--quiet", "--python", python, *wanted), check=True, timeout=INSTALL_S)
    return environment / "bin" / "surescale"


def test_no_archive_holds_research_data_and_each_holds_the_notices(built: Path) -> None:
    """Data for research only, or without terms, stay in the checkout (reproductions/data/README.md)."""
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive, tarfile.open(source) as sources:
        found = {wheel.name: archive.namelist(), source.name: sources.getnames()}
    research = {path.name for path in (ROOT / "reproductions" / "data").glob("*.csv")}
    assert research
    for name, files in found.items():
        held = {Path(file).name for file in files}
        assert held & research == set(), name
        assert {"LICENSE", "NOTICE", "clarknet_minute.csv"} <= held, name


def test_the_wheel_runs_the_demo_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    """All roles, Kafka, Redis and Spark; it ends with what it cost, and leaves the folder as it was."""
    kept = {name for name in os.environ if not name.startswith(("SURESCALE_", "PYTHON"))} | {CACHE_VARIABLE} & os.environ.keys()
    done = subprocess.run(
        (str(installed), "demo", "--minutes", "30"),
        cwd=tmp_path,
        env={name: os.environ[name] for name in kept},
        capture_output=True,
        text=True,
        timeout=DEMO_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "sure ran 3 jobs on " in done.stdout
    assert list(tmp_path.iterdir()) == []
