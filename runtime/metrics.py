"""A role's Prometheus metrics: declared in one table per role, read from the role's own counters at each request.

Only histograms are kept here; counters and gauges stay where the role counts, so nothing is counted twice. The entry-point group
``surescale.metrics`` publishes each role's table; docs and dashboard checks are made from it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from threading import Lock
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Histogram, PlatformCollector, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from surescale.runtime.watchdog import Watchdog

Kind = Literal["counter", "gauge", "histogram"]

# From unnoticeable to waking somebody up.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its full exposed name, its meaning, and its labels.

    Names follow the Prometheus convention: base unit as suffix, ``_total`` for counters.
    """

    name: str
    kind: Kind
    help: str
    unit: str = ""
    """Base unit as in the name: seconds, bytes, dollars; empty for plain numbers."""
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, in the unit."""


def metrics_in(names: Mapping[str, object]) -> tuple[Metric, ...]:
    """Return the metrics that a module has declared, in their order; ``names`` are its ``globals()``."""
    return tuple(each for each in names.values() if isinstance(each, Metric))


@dataclass(frozen=True, slots=True)
class Reading:
    """The current value of a counter or gauge; label values in the order of the metric's labels."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


READY = Metric("surescale_ready", "gauge", "1 when the role is connected, assigned and caught up, else 0.", labels=("role",))
ALIVE = Metric("surescale_alive", "gauge", "1 while every loop of the role turns, 0 when one hangs.", labels=("role",))
BUILD = Metric("surescale_build_info", "gauge", "Always 1; which role of which version answers.", labels=("role", "version"))
COMMON = (READY, ALIVE, BUILD)

# Added by the client library about the process itself; not ours to rename.
PROCESS = (
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
    "python_info",
)


class Tally:
    """Thread-safe counts by key."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, *key: str, by: int = 1) -> None:
        """Increase the count of a key."""
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + by

    def items(self) -> list[tuple[tuple[str, ...], int]]:
        """Return keys and counts, sorted by key."""
        with self._lock:
            return sorted(self._counts.items())

    def sums(self) -> dict[str, int]:
        """Return the counts added up over all but the first part of the key."""
        sums: dict[str, int] = {}
        for key, count in self.items():
            sums[key[0]] = sums.get(key[0], 0) + count
        return sums

    def total(self) -> int:
        """Return the sum of all counts."""
        return sum(count for _, count in self.items())

    def readings(self, metric: Metric) -> list[Reading]:
        """Return one reading per key, whose parts are the metric's labels."""
        return [Reading(metric, count, key) for key, count in self.items()]


class RoleMetrics(Collector):
    """The metrics of one role, in a registry filled from the role's table."""

    def __init__(self, role: str, table: Sequence[Metric], readings: Callable[[], Iterable[Reading]] = tuple) -> None:
        """Declare every metric of ``table``; ``readings`` returns its counters and gauges at each request."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._role, self._readings = role, readings
        self._table = {metric.name: metric for metric in (*COMMON, *table)}
        self._registry = CollectorRegistry()
        self._histograms = {
            metric.name: Histogram(metric.name, metric.help, metric.labels, registry=self._registry, buckets=metric.buckets)
            for metric in table
            if metric.kind == "histogram"
        }
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._registry.register(self)
        self._is_ready: Callable[[], bool] = bool
        self._is_alive: Callable[[], bool] = bool

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        """Add one measurement, in the metric's unit, to its histogram; negative ones (two clocks disagreed) count as 0."""
        histogram = self._histograms[metric.name]
        (histogram.labels(*labels) if labels else histogram).observe(max(value, 0.0))

    def of(self, report: Callable[[], Mapping[str, Any]], watchdog: Watchdog) -> "RoleMetrics":
        """Set readiness from the role's health document, and what says whether it hangs."""
        self._is_ready = lambda: bool(report().get("ready"))
        self._is_alive = lambda: watchdog.is_alive
        return self

    def page(self, accept: str = "") -> tuple[bytes, str]:
        """Return the whole page and its content type, in the format the ``Accept`` header prefers."""
        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # how the library takes a version that is no number; anybody may ask for one
            encode, content_type = choose_encoder("")
        return encode(self._registry), content_type

    def describe(self) -> Iterator[Family]:
        """Describe the metrics without asking the role, which may not be up yet."""
        yield from (_family(metric) for metric in self._table.values() if metric.kind != "histogram")

    def collect(self) -> Iterator[Family]:
        """Yield every counter and gauge of the table, including those without a reading."""
        families = {metric.name: _family(metric) for metric in self._table.values() if metric.kind != "histogram"}
        for reading in (*self._own_readings(), *self._readings()):
            families[reading.metric.name].add_metric(reading.labels, reading.value)
        yield from families.values()

    def _own_readings(self) -> tuple[Reading, ...]:
        return (
            Reading(READY, float(self._is_ready()), (self._role,)),
            Reading(ALIVE, float(self._is_alive()), (self._role,)),
            Reading(BUILD, 1.0, (self._role, version("surescale"))),
        )


def _family(metric: Metric) -> Any:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    return kind(metric.name, metric.help, labels=metric.labels)
