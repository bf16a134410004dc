"""Of librdkafka's log only those lines pass that say why a client is not let in, in words that name the settings."""

import logging

import pytest

from surescale.runtime.logs import RefusalFilter

NO_TOKEN = (
    'OIDC [rdkafka#consumer-1] [thrd:background]: Failed to retrieve OIDC token from "https://h/token": '
    '{"error": "invalid_client"} (401)'
)
REFUSED = (
    "FAIL [rdkafka#producer-2] [thrd:sasl_ssl://h:9/bootstrap]: sasl_ssl://h:9/bootstrap: SASL authentication error: "
    '{"status":"invalid_token"} (after 3ms in state AUTH_REQ)'
)
AWAY = "FAIL [rdkafka#producer-2] [thrd:h:9/bootstrap]: h:9/bootstrap: Connect to ipv4#127.0.0.1:9 failed: Connection refused"


def record(said: str) -> logging.LogRecord:
    """Return what librdkafka's logger writes."""
    return logging.LogRecord("surescale.librdkafka", logging.ERROR, "", 0, "%s", (said,), None)


@pytest.mark.parametrize(
    ("said", "reason", "names"),
    [
        (NO_TOKEN, '({"error": "invalid_client"} (401))', "SURESCALE_KAFKA_OAUTH_TOKEN_URL, _CLIENT_ID, _CLIENT_SECRET_FILE"),
        (REFUSED, '({"status":"invalid_token"})', "SURESCALE_KAFKA_USERNAME and _PASSWORD_FILE"),
    ],
)
def test_a_refusal_passes_once_in_a_while_as_a_warning(said: str, reason: str, names: str) -> None:
    """librdkafka repeats itself several times a second."""
    only = RefusalFilter()
    first = record(said)
    assert only.filter(first)
    assert (reason in first.getMessage(), names in first.getMessage()) == (True, True)
    assert first.levelname == "WARNING"
    assert not only.filter(record(said))


def test_a_broker_that_is_away_is_not_repeated() -> None:
    """``runtime.backoff`` says so."""
    assert not RefusalFilter().filter(record(AWAY))
