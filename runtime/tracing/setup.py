"""Chooses a role's tracer by the standard variables ``OTEL_*``; without them nothing of OpenTelemetry is imported."""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from surescale.contracts.errors import SettingsError
from surescale.runtime.tracing.spans import NO_TRACER, Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
EXPORTERS = ("otlp", "console", "none")
HTTP_PROTOBUF = "http/protobuf"


def tracer_of(role: str, environment: Mapping[str, str] = os.environ) -> Tracer:
    """Return the tracer of a role.

    It traces if ``OTEL_TRACES_EXPORTER`` is ``otlp`` or ``console``, or is not set and an endpoint for OTLP is. Everything else
    that the SDK reads from the environment holds too: sampler, limits, headers, certificates, batches, resource attributes.

    Raises:
        SettingsError: a variable asks for what there is not, or the packages are not installed; names it and the fix.
    """
    exporter = wanted_exporter(environment)
    if exporter is None:
        return NO_TRACER
    try:
        from surescale.runtime.tracing.opentelemetry import OpenTelemetryTracer
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("opentelemetry", "google", "requests"):
            raise
        raise SettingsError(
            f"OTEL_*: traces are asked for, and this installation lacks {error.name!r}; "
            "pip install 'surescale[telemetry]', or set OTEL_SDK_DISABLED=true"
        ) from None
    return OpenTelemetryTracer(role, exporter)


def wanted_exporter(environment: Mapping[str, str]) -> str | None:
    """Return how spans are exported: ``otlp`` or ``console``; None: nothing is traced.

    Raises:
        SettingsError: a variable asks for what there is not.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    endpoint = next((name for name in ENDPOINTS if environment.get(name, "").strip()), None)
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() or ("otlp" if endpoint else "none")
    if exporter not in EXPORTERS:
        raise SettingsError(f"OTEL_TRACES_EXPORTER: {exporter!r} is not one of {', '.join(EXPORTERS)}")
    if exporter == "otlp":
        _check_otlp(environment, endpoint)
    return None if exporter == "none" else exporter


def _check_otlp(environment: Mapping[str, str], endpoint: str | None) -> None:
    name = next((each for each in PROTOCOLS if environment.get(each, "").strip()), None)
    if name is not None and environment[name].strip() != HTTP_PROTOBUF:
        raise SettingsError(f"{name}: {environment[name]!r} is not supported; set {HTTP_PROTOBUF}, or unset it")
    if endpoint is None:
        return
    try:
        parts = urlsplit(environment[endpoint].strip())
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_good = False
    if not is_good:  # the address itself is not shown: it may carry a password
        raise SettingsError(f"{endpoint}: not an address of a receiver; set one like http://127.0.0.1:4318")
