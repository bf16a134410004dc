"""Where the Spark job is started must not matter to what its Python workers import."""

import subprocess
import sys
from pathlib import Path

import pytest

from surescale.services.local_stack.artifacts import SPARK_KAFKA, fetch

pytestmark = pytest.mark.integration  # starts a Spark

JOB = """
import sys
from pathlib import Path
from surescale.spark_streaming.session import start_session
from surescale.spark_streaming.settings import SparkSettings
session = start_session(SparkSettings(spark_master="local[1]", spark_jars=sys.argv[2]), Path(sys.argv[1]))
print("workers say", session.sparkContext.parallelize([20], 1).map(lambda one: one + 1).collect())
"""


def test_folders_with_the_names_of_packages_run_no_code_of_their_own(tmp_path: Path) -> None:
    """Neither ours nor those that we use; Spark starts its workers with ``-m`` in the folder of the role."""
    for name in ("surescale", "pyspark", "numpy", "services"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not this one')")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-P", "-c", JOB, str(scratch), ",".join(map(str, fetch(SPARK_KAFKA)))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert "workers say [21]" in done.stdout, done.stderr[-3_000:]
