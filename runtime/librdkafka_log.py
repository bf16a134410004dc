"""The few lines of librdkafka's log that a person needs: a client that gets no token, or that the broker refuses while it runs.

Everything else that librdkafka says of a broker that is away, ``runtime.backoff`` says with less noise.
"""

import logging
import re

from runtime.backoff import Throttle

NAME = "surescale.librdkafka"
_SAY_EVERY_S = 30.0
_NO_TOKEN = (
    "no token for Kafka (%s); trying again; see SURESCALE_KAFKA_OAUTH_TOKEN_URL, _CLIENT_ID, _CLIENT_SECRET_FILE, "
    "_SCOPE, _CA_FILE: `surescale doctor` says which is wrong"
)
_REFUSED = (
    "Kafka refuses this client (%s), which tries again; see SURESCALE_KAFKA_USERNAME and _PASSWORD_FILE, or the client at the "
    "issuer of tokens: `surescale doctor` says more"
)
_REASONS = (
    (re.compile(r'OIDC .*?\]: (?:[^"]*"[^"]*": )?(.{1,300})', re.DOTALL), _NO_TOKEN),
    (re.compile(r".*?SASL authentication error: (.{1,300}?)(?: \(after \d+ms|$)", re.DOTALL), _REFUSED),
)


class RefusalFilter(logging.Filter):
    """Passes one record now and then that says why this client cannot authenticate, in our words."""

    def __init__(self) -> None:
        super().__init__()
        self._seldom = Throttle(_SAY_EVERY_S)

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether the record is written."""
        said = record.getMessage()
        for pattern, told in _REASONS:
            found = pattern.match(said)
            if found and self._seldom.is_time():
                record.msg, record.args = told, (found.group(1).strip(),)
                record.levelno, record.levelname = logging.WARNING, "WARNING"
                return True
        return False


def show_only_refusals() -> None:
    """Let librdkafka's logger pass only these lines."""
    log = logging.getLogger(NAME)
    log.setLevel(logging.ERROR)
    if not any(isinstance(each, RefusalFilter) for each in log.filters):
        log.addFilter(RefusalFilter())
