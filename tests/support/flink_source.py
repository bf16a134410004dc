"""The monitor's source for a fake Flink cluster with three jobs."""

from collections.abc import Iterator

import pytest

from surescale.engines.flink.source import FlinkSource
from surescale.engines.ports.minutes import JobSnapshot
from surescale.monitor.settings import MonitorSettings
from tests.support.fake_flink import FakeFlink, QuickClock, fake_flink

ORDERS = "flink/orders"
SOURCE = "ca88eee0095684d687a1b6495617f957"


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    """A cluster with three jobs."""
    with fake_flink("2.3.0", "running") as server:
        yield server


@pytest.fixture
def source(flink: FakeFlink) -> Iterator[FlinkSource]:
    """The source of it."""
    yield from sources(flink)


def sources(flink: FakeFlink, **settings: str) -> Iterator[FlinkSource]:
    """Give a source, and close it."""
    made = FlinkSource(MonitorSettings(engine="flink", engine_url=flink.url, cluster="flink", **settings), QuickClock)
    try:
        yield made
    finally:
        made.close()


def look_at(source: FlinkSource, job: str = ORDERS) -> JobSnapshot:
    """Look at a job once."""
    source.jobs()
    return source.follow(job).look()


def job_of(flink: FakeFlink, name: str = "Orders v17") -> str:
    """Return Flink's id of a job."""
    return next(job["jid"] for job in flink.body("GET /jobs/overview")["jobs"] if job["name"] == name)
