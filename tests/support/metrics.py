"""What a role shows at /metrics, read as Prometheus reads it."""

from typing import Any
from urllib.request import Request, urlopen

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from surescale.runtime.metrics import Metric

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


class Scraped:
    """The samples of one page."""

    def __init__(self, page: str, *, is_open: bool = False) -> None:
        families = list((open_families if is_open else text_families)(page))
        self.names = {family.name for family in families}
        self._samples = [sample for family in families for sample in family.samples]

    def __getitem__(self, metric: Metric) -> float:
        """The value of a counter or gauge, all its series together; of a histogram how many were measured."""
        return self.of(metric)

    def of(self, metric: Metric, **labels: str) -> float:
        """The sum over all series that have these labels; a metric without a series is an error."""
        name = f"{metric.name}_count" if metric.kind == "histogram" else metric.name
        found = [sample for sample in self._samples if sample.name == name and labels.items() <= sample.labels.items()]
        assert found, f"no series of {name} with {labels}"
        return sum(sample.value for sample in found)

    def labels(self, metric: Metric) -> set[tuple[str, ...]]:
        """The label values of all series of a counter or gauge."""
        found = (sample.labels for sample in self._samples if sample.name == metric.name)
        return {tuple(labels[name] for name in metric.labels) for labels in found}


def scraped(port: Any) -> Scraped:
    """Read a role's page, in both forms that Prometheus may ask for; both name the same metrics."""
    url = f"http://127.0.0.1:{port}/metrics"
    with urlopen(Request(url, headers={"Accept": OPEN_METRICS}), timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        modern = Scraped(answer.read().decode(), is_open=True)
    with urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        plain = Scraped(answer.read().decode())
    assert {name.removesuffix("_info") for name in modern.names} == {name.removesuffix("_info") for name in plain.names}
    return plain
