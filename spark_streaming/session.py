"""Starts the Spark session with measured settings and warms it up. Reads no topic."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from surescale.contracts.errors import SettingsError
from surescale.runtime.kafka_security import jvm_properties, uses_iam
from surescale.spark_streaming.settings import SparkSettings, jar_paths
from surescale.spark_streaming.stages import SOURCE_COLUMNS, parsed

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import SparkSession

# Of Spark's own checkpoint, which is scratch on a local disk. Without the native Hadoop library the default manager forks a
# process per file; this one halves the time of an empty batch.
_LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

MSK_IAM = "software.amazon.msk:aws-msk-iam-auth:2.3.5"
"""AWS' login for Kafka's Java clients."""


def start_session(settings: SparkSettings, scratch: Path) -> "SparkSession":
    """Start or connect to Spark; its temporary files go to the folder ``scratch``.

    Raises:
        SettingsError: no Java, or a jar that does not exist.
    """
    from pyspark.sql import SparkSession

    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        raise SettingsError("no Java runtime found: install Java 17 or newer (Debian: apt-get install default-jre-headless)")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise workers use the first python3 on the path
    os.environ["PYTHONSAFEPATH"] = "yes"  # otherwise workers import from the current folder first
    builder = SparkSession.builder.appName("surescale").master(settings.spark_master)
    for key, value in spark_options(settings, scratch).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def spark_options(settings: SparkSettings, scratch: Path) -> dict[str, str]:
    """Return Spark's own settings for ours."""
    place = _quoted(str(scratch))
    properties = "".join(f" -D{name}={_quoted(value)}" for name, value in jvm_properties(settings).items())
    java = (
        f"-XX:+UseSerialGC -Djava.io.tmpdir={place} -Duser.dir={place}{properties}"  # Spark creates a folder in the current one
    )
    options = {
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.extraJavaOptions": java,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",  # nothing is shuffled
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.checkpointFileManagerClass": _LOCAL_CHECKPOINTS,
        "spark.sql.streaming.noDataProgressEventInterval": "1500",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.python.daemon.module": "surescale.spark_streaming.worker_daemon",
    }
    if properties:
        options["spark.executor.extraJavaOptions"] = properties.strip()
    if settings.spark_master.startswith("local"):
        options |= {
            # Only the fast compiler: the optimising one takes ten seconds of both cores at startup and gains nothing here.
            "spark.driver.extraJavaOptions": f"{java} -XX:TieredStopAtLevel=1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": str(scratch),
        }
    return options | _jar_options(settings)


def _quoted(text: str) -> str:
    """Return a text quoted as one Java option; Spark splits options at spaces."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _jar_options(settings: SparkSettings) -> dict[str, str]:
    jars, iam = jar_paths(settings.spark_jars), uses_iam(settings)
    if jars:
        if iam and not any(jar.name.startswith(MSK_IAM.split(":")[1]) for jar in jars):
            raise SettingsError(
                f"SURESCALE_SPARK_JARS: AWS_MSK_IAM needs the jar {MSK_IAM}, and what it needs; add them, or build the image "
                "with MSK=true"
            )
        return {"spark.jars": ",".join(map(str, jars))}
    import pyspark

    connector = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    return {"spark.jars.packages": f"{connector},{MSK_IAM}" if iam else connector}


def warm_up(session: "SparkSession") -> None:
    """Start Python workers and compile the stage, so the first batch does not have to."""
    from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType, TimestampType

    kinds = (BinaryType(), BinaryType(), IntegerType(), LongType(), TimestampType())
    schema = StructType([StructField(name, kind) for name, kind in zip(SOURCE_COLUMNS, kinds, strict=True)])
    row = (b"warm/up", b"{}", 0, 0, datetime.fromtimestamp(0, UTC))
    frame = session.createDataFrame([row] * session.sparkContext.defaultParallelism, schema)
    frame.mapInArrow(_parsed, "job string").toArrow()


def _parsed(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Parse records as a task does, and keep nothing of them."""
    import pyarrow as pa

    for batch in batches:
        yield pa.record_batch([pa.array(parsed([batch])[0].jobs, pa.string())], names=["job"])
