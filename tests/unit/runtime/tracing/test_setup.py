"""The variables ``OTEL_*``: off without them, one clear line for what there is not."""

import subprocess
import sys

import pytest

from surescale.contracts.errors import SettingsError
from surescale.runtime.tracing.setup import tracer_of, wanted_exporter
from surescale.runtime.tracing.spans import NO_SPAN, NO_TRACER

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environment", "exporter"),
    [
        ({}, None),
        (ENDPOINT, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://otlp.example:4318/v1/traces"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, None),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, None),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "otlp"),
    ],
)
def test_what_the_variables_ask_for(environment: dict[str, str], exporter: str | None) -> None:
    """An endpoint is enough; nothing is traced without one or an exporter."""
    assert wanted_exporter(environment) == exporter


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER: 'zipkin' is not one of otlp, console, none"),
        (
            {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' is not supported; set http/protobuf, or unset it",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4318/my-password"},
            "OTEL_EXPORTER_OTLP_ENDPOINT: not an address of a receiver; set one like http://127.0.0.1:4318",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:port"},
            "OTEL_EXPORTER_OTLP_ENDPOINT: not an address of a receiver; set one like http://127.0.0.1:4318",
        ),
    ],
)
def test_what_there_is_not_is_named_in_one_line(environment: dict[str, str], message: str) -> None:
    """The variable and the fix; never the address, which may carry a password."""
    with pytest.raises(SettingsError) as raised:
        tracer_of("agent", environment)
    assert str(raised.value) == message


def test_without_variables_nothing_is_traced_and_nothing_imported() -> None:
    """Not one module of OpenTelemetry, in a process that asks for a tracer and uses it."""
    code = (
        "import sys; from surescale.runtime.tracing.setup import tracer_of; tracer = tracer_of('agent', {})\n"
        "with tracer.begin('x') as span: span.note({'a': 1}); assert span.headers() == [] and span.context is None\n"
        "tracer.close(); print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert tracer_of("agent", {}) is NO_TRACER
    assert NO_TRACER.begin("x") is NO_SPAN


def test_an_installation_without_the_extra_says_so_in_one_line() -> None:
    """With what to install, and how to go on without."""
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from surescale.runtime.tracing.setup import tracer_of\n"
        f"tracer_of('agent', {ENDPOINT!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (
        done.stderr.strip()
        .splitlines()[-1]
        .endswith(
            "OTEL_*: traces are asked for, and this installation lacks 'opentelemetry'; "
            "pip install 'surescale[telemetry]', or set OTEL_SDK_DISABLED=true"
        )
    )
