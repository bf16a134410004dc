"""Makes an archive of the classes that a Spark job loads: ``python -m tests.support.spark_archive FILE``.

A JVM that maps them starts in half of its processor time, and ``make live`` starts dozens, to which ``tests.conftest`` hands the
file. One that does not fit, since Java or Spark is another version, is passed over in silence.
"""

import os
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
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={archive} -Xlog:disable"
    with TemporaryDirectory() as scratch:
        settings = SparkSettings(spark_master="local[1]", spark_jars=",".join(map(str, fetch(SPARK_KAFKA))))
        session = start_session(settings, Path(scratch))
        run_a_batch(session)
        gateway = session.sparkContext._gateway
        assert gateway is not None
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
