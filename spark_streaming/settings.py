"""The Spark job's own settings."""

from dataclasses import dataclass
from pathlib import Path

from contracts.errors import SettingsError, reason_of
from contracts.settings import PipelineSettings


@dataclass(frozen=True, slots=True)
class SparkSettings(PipelineSettings):
    """Settings of ``surescale spark``, from ``SURESCALE_*`` and its options."""

    spark_master: str = "local[*]"
    """Any Spark master: local[n], spark://host:port, k8s://..., yarn."""
    spark_checkpoint: str = ""
    """Folder for offsets, commits and windows, on a disk that outlives the process; one per pipeline."""
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
        self.check_least(forget_job_after_ms=1, spark_trigger_ms=0, spark_batch_records_max=1)


def checkpoint_folder(settings: SparkSettings) -> Path:
    """Return the checkpoint's folder.

    Raises:
        SettingsError: it is not set.
    """
    if not settings.spark_checkpoint:
        raise SettingsError("SURESCALE_SPARK_CHECKPOINT: not set; set it to a folder, or use --checkpoint")
    return Path(settings.spark_checkpoint).absolute()


def make_folder(folder: Path) -> None:
    """Create a folder of the checkpoint if it is missing.

    Raises:
        SettingsError: it cannot be created; names the setting and the fix.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"SURESCALE_SPARK_CHECKPOINT: {folder} cannot be created ({reason_of(error)}); "
            "set it, or --checkpoint, to a folder this user can write"
        ) from None


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
