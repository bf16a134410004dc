"""Settings of the Spark job: defaults, jars, options for Spark."""

import logging
import shlex
import sys
import threading
from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import from_environment
from surescale.spark_streaming.places import place_of
from surescale.spark_streaming.session import spark_options
from surescale.spark_streaming.settings import SparkSettings, jar_paths
from surescale.spark_streaming.streaming_job import Job, _scratch
from surescale.spark_streaming.worker_daemon import without_archives

SCRATCH = Path("scratch")


def test_jars_come_from_folders_and_lists(tmp_path: Path) -> None:
    """A folder stands for the jars in it."""
    for name in ("b.jar", "a.jar", "readme.txt"):
        (tmp_path / name).touch()
    assert [path.name for path in jar_paths(str(tmp_path))] == ["a.jar", "b.jar"]
    assert jar_paths(f"{tmp_path}/b.jar, {tmp_path}/a.jar") == jar_paths(str(tmp_path))


def test_a_jar_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The message names variable and path."""
    with pytest.raises(SettingsError, match=r"SURESCALE_SPARK_JARS: '.*missing\.jar' is neither"):
        jar_paths(str(tmp_path / "missing.jar"))


def test_without_jars_spark_resolves_the_connector_of_its_own_version() -> None:
    """The coordinates follow the installed pyspark."""
    import pyspark

    assert spark_options(SparkSettings(), SCRATCH)["spark.jars.packages"].endswith(
        f"spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    )


def test_only_a_local_master_is_bound_to_loopback() -> None:
    """On a cluster, executors must reach the driver."""
    assert spark_options(SparkSettings(spark_master="local[2]"), SCRATCH)["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in spark_options(SparkSettings(spark_master="spark://host:7077"), SCRATCH)


def test_every_setting_is_read_from_the_environment() -> None:
    """Numbers and truth values are parsed."""
    found = from_environment(SparkSettings, {"SURESCALE_SPARK_TRIGGER_MS": "500", "SURESCALE_SPARK_FAIL_ON_DATA_LOSS": "false"})
    assert (found.spark_trigger_ms, found.spark_fail_on_data_loss) == (500, False)


def test_workers_have_no_archives_on_their_path(tmp_path: Path) -> None:
    """Folders stay, and so does what does not exist yet."""
    (tmp_path / "pyspark.zip").touch()
    path = [str(tmp_path), str(tmp_path / "pyspark.zip"), str(tmp_path / "later"), sys.prefix]
    assert without_archives(path) == [path[0], path[2], path[3]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SURESCALE_FORGET_JOB_AFTER_MS", "0"),
        ("SURESCALE_SPARK_TRIGGER_MS", "-1"),
        ("SURESCALE_SPARK_BATCH_RECORDS_MAX", "0"),
    ],
)
def test_a_number_that_no_pipeline_can_run_with_is_named(name: str, value: str) -> None:
    """Before Spark starts, with what would do."""
    with pytest.raises(SettingsError, match=rf"^{name}: must be at least [01], not {value}$"):
        from_environment(SparkSettings, {name: value})


@pytest.mark.parametrize("master", ["foo", "mesos://host:5050", "local[many]", "spark://"])
def test_a_master_that_spark_does_not_know_is_named(master: str) -> None:
    """Before Spark starts, which would answer with a trace of Java."""
    with pytest.raises(SettingsError, match=r"^SURESCALE_SPARK_MASTER: .* is no Spark master; set local\[N\], spark://HOST:PORT"):
        from_environment(SparkSettings, {"SURESCALE_SPARK_MASTER": master})


def test_a_checkpoint_that_cannot_be_a_folder_names_the_setting(tmp_path: Path) -> None:
    """A file stands in its place."""
    (tmp_path / "file").touch()
    job = Job(SparkSettings(spark_checkpoint=str(tmp_path / "file")), stop=threading.Event(), log=logging.getLogger("test"))
    with pytest.raises(
        SettingsError, match=r"SURESCALE_SPARK_CHECKPOINT: .*file cannot be created \(file exists\).*--checkpoint"
    ):
        job.run()


def test_a_folder_with_spaces_stays_one_option_of_java() -> None:
    """Spark splits the options of its virtual machine at spaces that are not quoted."""
    options = spark_options(SparkSettings(spark_master="local[2]"), Path('/data/my "check" point'))
    assert shlex.split(options["spark.driver.extraJavaOptions"]) == [
        "-XX:+UseSerialGC",
        '-Djava.io.tmpdir=/data/my "check" point',
        '-Duser.dir=/data/my "check" point',
        "-XX:TieredStopAtLevel=1",
    ]


def test_the_scratch_folder_may_be_a_link(tmp_path: Path) -> None:
    """To a faster disk, say; the link stays."""
    (tmp_path / "fast").mkdir()
    (tmp_path / "scratch").symlink_to(tmp_path / "fast")
    with _scratch(place_of(str(tmp_path))) as scratch:
        assert scratch.resolve() == tmp_path / "fast"
