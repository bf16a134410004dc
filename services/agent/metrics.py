"""The agent's metrics: names and meanings. The figures come from `services.agent.counts`."""

from surescale.runtime.metrics import SECONDS, Metric, metrics_in

RECORDS_READ = Metric("surescale_agent_records_read_total", "counter", "Windows read, by topic.", labels=("topic",))
RECORDS_WRITTEN = Metric(
    "surescale_agent_records_written_total", "counter", "Records that Kafka has acknowledged, by topic.", labels=("topic",)
)
DECISIONS = Metric(
    "surescale_agent_decisions_total", "counter", "Decisions written, by action and by the policy that answered.",
    labels=("action", "policy"),
)  # fmt: skip
FALLBACKS = Metric(
    "surescale_agent_fallbacks_total", "counter", "Decisions that a rule made because the policy failed, by that policy.",
    labels=("asked",),
)  # fmt: skip
LEFT = Metric(
    "surescale_agent_tournament_left_total",
    "counter",
    "Decisions that a tournament's winner did not make because its job had left what the twin predicted, by who made them.",
    labels=("policy",),
)
DEAD_LETTERS = Metric("surescale_agent_dead_letters_total", "counter", "Windows refused, by reason.", labels=("reason",))
REJECTED = Metric(
    "surescale_agent_rejected_records_total",
    "counter",
    "Records of settings and releases that do not parse, by topic; those before them stay in force.",
    labels=("topic",),
)
PARTITIONS = Metric("surescale_agent_partitions", "gauge", "Partitions of the windows' topic that are assigned to this agent.")
SHADOW_ANSWERS = Metric(
    "surescale_agent_shadow_answers_total",
    "counter",
    "Windows given to shadow policies, by policy and result: answered, failed, late, skipped, lost.",
    labels=("policy", "status"),
)
SHADOWS_WAITING = Metric("surescale_agent_shadows_waiting", "gauge", "Windows that wait for shadow policies.")
SHADOW_DURATION = Metric(
    "surescale_agent_shadow_duration_seconds",
    "histogram",
    "Time that a shadow policy took to answer a window, by policy: features, policy, guardrails.",
    "seconds",
    ("policy",),
    SECONDS,
)
DECISION_DURATION = Metric(
    "surescale_agent_decision_duration_seconds",
    "histogram",
    "Time to answer a window that ends a span: reading settings, features, sampling, policy, guardrails.",
    "seconds",
    buckets=SECONDS,
)
DECISION_DELAY = Metric(
    "surescale_agent_decision_delay_seconds",
    "histogram",
    "Freshness: from the append of the record that closed the window's last minute until the decision is acknowledged.",
    "seconds",
    buckets=SECONDS,
)

METRICS = metrics_in(globals())
