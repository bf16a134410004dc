"""One local Spark for the stages' tests: starting it costs ten seconds and more."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from surescale.services.local_stack.artifacts import SPARK_KAFKA, fetch
from surescale.spark_streaming.session import start_session
from surescale.spark_streaming.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A session with the job's own settings and one executor thread."""
    jars = ",".join(map(str, fetch(SPARK_KAFKA)))
    session = start_session(SparkSettings(spark_master="local[1]", spark_jars=jars), tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
