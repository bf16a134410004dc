"""Makes an archive of the classes that a Spark job loads: ``python -m tests.support.spark_archive FILE``.

A JVM that maps them starts in half of its processor time, and ``make live`` starts dozens, to which ``tests.conftest`` hands the
file. One that does not fit, since Java or Spark is another version, is passed over in silence. One that is cut short would
crash whoever maps it, so it gets its name when it is whole.
"""

import os
import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from surescale.services.local_stack.artifacts import SPARK_KAFKA, fetch
from surescale.spark_streaming.session import start_session, warm_up
from surescale.spark_streaming.settings import SparkSettings


def run_a_batch(session: SparkSession) -> None:
    """Use what a job uses: Python workers, and a query over a stream."""
    warm_up(session)
    query = session.readStream.format("rate").load().writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()


def make(archive: Path) -> None:
    """Start Spark, run a batch, and wait for the end of its JVM, which writes the archive."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=archive.parent) as scratch:
        part = Path(scratch) / archive.name
        os.environ["SPARK_SUBMIT_OPTS"] = f"{shlex.quote(f'-XX:ArchiveClassesAtExit={part}')} -Xlog:disable"
        settings = SparkSettings(spark_master="local[1]", spark_jars=",".join(map(str, fetch(SPARK_KAFKA))))
        session = start_session(settings, Path(scratch))
        run_a_batch(session)
        gateway = session.sparkContext._gateway
        assert gateway is not None
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        part.replace(archive)


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
