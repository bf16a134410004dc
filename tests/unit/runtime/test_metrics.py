"""Metric tables follow Prometheus' naming convention, and a role's page shows what the role counts."""

import logging
import re
from importlib.metadata import entry_points
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from surescale.contracts.settings import PipelineSettings
from surescale.runtime.health import HealthServer
from surescale.runtime.metrics import ALIVE, BUILD, COMMON, READY, Metric, Reading, RoleMetrics, Tally
from surescale.runtime.ports import free_port
from surescale.services.tools.health import ROLES
from tests.support.metrics import Scraped, scraped
from tests.support.watched import WatchedTime, idle_watchdog

TABLES: dict[str, tuple[Metric, ...]] = {point.name: point.load() for point in entry_points(group="surescale.metrics")}
EVERY = [pytest.param(role, metric, id=metric.name) for role, table in TABLES.items() for metric in table]
UNITS = ("", "seconds", "bytes", "ratio", "dollars_per_second")  # base units, no multiples
NOT_BASE = re.compile(r"_(ms|millis|milliseconds|minutes|hours|kb|mb|percent)(_|$)")
SEEN = Metric("surescale_test_seen_total", "counter", "Things seen.", labels=("colour",))
WAIT = Metric("surescale_test_wait_seconds", "histogram", "Time waited.", "seconds", buckets=(0.1, 1.0))
SIZE = Metric("surescale_test_size_bytes", "gauge", "Size.", "bytes")


def test_every_role_has_a_table() -> None:
    """The roles that have a health endpoint are those that have metrics."""
    assert set(TABLES) == set(ROLES)


def test_no_name_is_used_twice() -> None:
    """Also not by two roles: they are told apart by name."""
    names = [metric.name for table in (*TABLES.values(), COMMON) for metric in table]
    assert len(names) == len(set(names))


COUNTED_MINUTES = ("surescale_engine_minutes_total", "surescale_monitor_minutes_total", "surescale_monitor_minutes_missing_total")
"""Here a minute is a thing that is counted, not a unit of time."""


@pytest.mark.parametrize(("role", "metric"), EVERY)
def test_a_name_follows_the_convention(role: str, metric: Metric) -> None:
    """Prefix of project and role, snake case, base unit last, ``_total`` for counters and for nothing else."""
    assert re.fullmatch(rf"surescale_{role.removesuffix('-service')}_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.unit in UNITS
    assert metric.name.removesuffix("_total").endswith(metric.unit)
    if metric.name not in COUNTED_MINUTES:
        assert not NOT_BASE.search(metric.name)


@pytest.mark.parametrize(("role", "metric"), EVERY)
def test_a_metric_is_explained_and_its_labels_can_be_used(role: str, metric: Metric) -> None:
    """Help is a sentence; ``job`` and ``instance`` are Prometheus' own labels; only histograms have buckets, ascending."""
    assert re.fullmatch(r"[A-Z0-9].*\.", metric.help)
    assert all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", label) for label in metric.labels)
    assert not {"job", "instance", "le", "quantile"} & set(metric.labels)
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert sorted(set(metric.buckets)) == list(metric.buckets)


def test_a_page_shows_readings_measurements_and_the_process() -> None:
    """Counters and gauges as they are when asked, histograms as they were measured, memory and Python beside them."""
    seen = Tally()
    metrics = RoleMetrics("test", (SEEN, WAIT, SIZE), lambda: [*seen.readings(SEEN), Reading(SIZE, 7)])
    metrics.observe(WAIT, 0.5)
    seen.add("red", by=2)
    seen.add("blue")
    page = Scraped(metrics.page()[0].decode())
    assert (page.of(SEEN, colour="red"), page[SEEN], page[WAIT], page[SIZE]) == (2, 3, 1, 7)
    assert {"process_resident_memory_bytes", "python_info"} <= page.names


def test_a_counter_shows_the_newest_reading() -> None:
    """Nothing is kept between two requests."""
    seen = Tally()
    metrics = RoleMetrics("test", (SEEN,), lambda: seen.readings(SEEN))
    seen.add("red")
    assert Scraped(metrics.page()[0].decode())[SEEN] == 1
    seen.add("red", by=4)
    assert Scraped(metrics.page()[0].decode())[SEEN] == 5


def test_a_measurement_below_zero_counts_as_zero() -> None:
    """Two machines' clocks disagree by a little; a histogram's sum must not shrink."""
    metrics = RoleMetrics("test", (WAIT,))
    metrics.observe(WAIT, -0.2)
    assert b"surescale_test_wait_seconds_sum 0.0" in metrics.page()[0]


def test_a_reading_of_an_undeclared_metric_is_a_mistake() -> None:
    """What is not in the table is not in the docs either."""
    with pytest.raises(KeyError):
        RoleMetrics("test", (SIZE,), lambda: [Reading(SEEN, 1, ("red",))]).page()


def test_the_health_port_shows_health_and_metrics() -> None:
    """Readiness is the health document's, and other paths are unknown."""
    port = free_port()
    report = {"role": "test", "ready": True}
    with HealthServer(PipelineSettings(health_port=port), lambda: report, idle_watchdog(), RoleMetrics("test", (SIZE,))):
        assert scraped(port).of(READY, role="test") == 1
        assert scraped(port).of(BUILD, role="test") == 1
        report["ready"] = False
        assert scraped(port)[READY] == 0
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://127.0.0.1:{port}/other", timeout=5)


def test_a_loop_that_hangs_is_seen_in_the_metrics() -> None:
    """Until then the role is alive."""
    time_of, port = WatchedTime(), free_port()
    metrics = RoleMetrics("test", (SIZE,))
    server = HealthServer(PipelineSettings(health_port=port), lambda: {"ready": True}, time_of.watchdog, metrics)
    with server, time_of.watchdog.loop("the loop"):
        assert scraped(port)[ALIVE] == 1
        time_of.run(121)
        assert scraped(port)[ALIVE] == 0


def test_figures_that_cannot_be_read_are_a_server_error() -> None:
    """The role goes on, and health still answers."""
    port = free_port()
    broken = RoleMetrics("test", (SEEN,), lambda: [Reading(SIZE, 1)])
    with HealthServer(PipelineSettings(health_port=port), lambda: {"ready": True}, idle_watchdog(), broken):
        with pytest.raises(HTTPError, match="500"):
            urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)
        assert urlopen(f"http://127.0.0.1:{port}/health", timeout=5).status == 200


@pytest.mark.parametrize("accept", ["application/openmetrics-text;version=x", "text/plain;version=1.\xb2", ";;=,", "x" * 9_000])
def test_a_format_that_there_is_not_is_the_usual_one(accept: str, caplog: pytest.LogCaptureFixture) -> None:
    """It costs no line of the log: whoever reaches the port could fill the disk."""
    caplog.set_level(logging.INFO)
    settings = PipelineSettings(health_port=free_port())
    metrics = RoleMetrics("test", (SIZE,))
    with HealthServer(settings, lambda: {"ready": True}, idle_watchdog("test"), metrics):
        address = f"http://127.0.0.1:{settings.health_port}/metrics"
        with urlopen(Request(address, headers={"Accept": accept}), timeout=20) as answer:
            assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
    assert caplog.records == []
