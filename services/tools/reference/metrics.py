"""The page of metrics: what each role shows at /metrics."""

from importlib.metadata import entry_points

from runtime.metrics import COMMON, PROCESS, Metric
from services.tools.health import ROLES
from services.tools.reference.markdown import code, page, table


def metrics_page() -> str:
    """Return the page."""
    tables = {point.name: point.load() for point in entry_points(group="surescale.metrics")}
    parts = [
        "Every role shows them at `/metrics` of its health port (`SURESCALE_HEALTH_PORT`, `SURESCALE_HEALTH_HOST`), the engine",
        "at its own; in Prometheus' text form, or as OpenMetrics where that is asked for. Counters begin at 0 with the process,",
        "and a series with labels begins with its first event. The label `streaming_job` is a job's id.\n",
        "## Every role\n",
        _table(COMMON),
        f"And of the process itself, as the Python client names them: {', '.join(map(code, PROCESS))}.\n",
    ]
    for role in ROLES:
        parts += [f"## {role}\n", _table(tables[role])]
    return page("Metrics", *parts)


def _table(metrics: tuple[Metric, ...]) -> str:
    rows = [(code(metric.name), metric.kind, ", ".join(map(code, metric.labels)), metric.help) for metric in metrics]
    return table(["metric", "kind", "labels", "is"], rows)
