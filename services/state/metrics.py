"""The state service's metrics: what they are called and what they mean. The figures are the projector's and the API's own."""

from runtime.metrics import SECONDS, Metric

RECORDS_READ = Metric(
    "surescale_state_records_read_total", "counter", "Records taken into the view, by topic.", labels=("topic",)
)
UNREADABLE = Metric(
    "surescale_state_unreadable_records_total", "counter", "Records that do not parse and are not shown, by topic.",
    labels=("topic",),
)  # fmt: skip
REBUILDS = Metric("surescale_state_rebuilds_total", "counter", "Times that the view was begun anew from Kafka.")
LAG = Metric("surescale_state_lag_records", "gauge", "Records on Kafka that the view does not show yet.")
STEP_DURATION = Metric(
    "surescale_state_step_duration_seconds",
    "histogram",
    "Time to take one batch of records into the view.",
    "seconds",
    buckets=SECONDS,
)
HTTP_REQUESTS = Metric(
    "surescale_state_http_requests_total", "counter", "Answers of the HTTP API, by route and status code.",
    labels=("route", "code"),
)  # fmt: skip
HTTP_DURATION = Metric(
    "surescale_state_http_request_duration_seconds",
    "histogram",
    "Time to answer a request of the HTTP API, by route.",
    "seconds",
    ("route",),
    SECONDS,
)

METRICS = (RECORDS_READ, UNREADABLE, REBUILDS, LAG, STEP_DURATION, HTTP_REQUESTS, HTTP_DURATION)
