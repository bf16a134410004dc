"""Traces from a task metric to the applied change, across processes; off unless ``OTEL_*`` asks for them (docs/telemetry.md)."""
