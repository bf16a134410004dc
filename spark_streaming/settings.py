"""The Spark job's own settings."""

from dataclasses import dataclass
from pathlib import Path

from surescale.contracts.addresses import NO_MASTER, is_spark_master
from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings


@dataclass(frozen=True, slots=True)
class SparkSettings(PipelineSettings):
    """Settings of ``surescale run spark``, from ``SURESCALE_*`` and its options."""

    spark_master: str = "local[*]"
    """Any Spark master: local[n], spark://host:port, k8s://..., yarn."""
    spark_checkpoint: str = ""
    """What outlives the process, one per pipeline: a folder, or a URL of s3, gs, abfs, abfss or hdfs."""
    spark_jars: str = ""
    """Jars of Spark's Kafka connector: paths separated by commas, or a folder; empty: Spark resolves them itself."""
    spark_driver_memory: str = "1g"
    """Heap of the driver; in local mode also of the executors."""
    spark_trigger_ms: int = 100
    """Shortest time between the starts of two batches."""
    spark_batch_records_max: int = 60_000
    """Maximum records per batch: bounds memory and the duration of a catch-up batch."""
    forget_job_after_ms: int = 86_400_000
    """Forget a job after this long without records; fixed for the life of a checkpoint."""
    spark_fail_on_data_loss: bool = True
    """True: stop when records expired before they were read; false: continue with the rest."""

    def __post_init__(self) -> None:
        """Refuse numbers no query can run with.

        Raises:
            SettingsError: names the setting and the fix.
        """
        PipelineSettings.__post_init__(self)
        if not is_spark_master(self.spark_master):
            raise SettingsError(f"SURESCALE_SPARK_MASTER: {NO_MASTER.format(self.spark_master)}")
        self.check_least(forget_job_after_ms=1, spark_trigger_ms=0, spark_batch_records_max=1)


def jar_paths(text: str) -> tuple[Path, ...]:
    """Return the jars in ``spark_jars``, sorted.

    Raises:
        SettingsError: a path does not exist, or a folder holds no jar.
    """
    found: list[Path] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        path = Path(part).absolute()
        jars = sorted(path.glob("*.jar")) if path.is_dir() else [path] * path.is_file()
        if not jars:
            raise SettingsError(f"SURESCALE_SPARK_JARS: {part!r} is neither a jar nor a folder with jars; correct or unset it")
        found += jars
    return tuple(sorted(found))
