"""Sets up a role's log: one event per line on standard error, as text for people or JSON for programs.

A line's fields (``log.info("...", extra={"job": job})``) follow the text, or are under ``fields`` in JSON. Anything that looks
like a password is masked, whichever library logs it.

Of librdkafka's own log it passes on the few lines that a person needs: a client that gets no token, or that the broker refuses
while it runs. Everything else that librdkafka says of a broker that is away, ``runtime.backoff`` says with less noise.
"""

import json
import logging
import math
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from textwrap import indent
from types import TracebackType
from typing import Any

from surescale.contracts.addresses import SECRET_NAMES, STARS
from surescale.contracts.errors import SettingsError
from surescale.runtime.backoff import Throttle
from surescale.runtime.printable import printable
from surescale.runtime.tracing.spans import span_at_work

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


_NOISY = ("aiokafka", "faust", "mode", "kafka", "py4j", "aiohttp.access")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_FORMATS = ("text", "json")
# Attributes that logging itself sets; any other attribute is a field the caller gave.
_OWN_KEYS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "role"}

# A password may have any character; a port that is followed by a path is none, though that path may have an @.
# Bounded everywhere, so that time grows with the text's length only: it may repeat a record, which anybody may have written.
_IN_URL = re.compile(r"(?<=://)([^\s:/@]{0,256}):(?!\d{1,5}(?:[/?#,\s]|$))[^\s\"']{1,512}@")
_NAMED = re.compile(rf"((?:{SECRET_NAMES})[\"']?\s{{0,8}}[=:]\s{{0,8}}[\"']?)[^\s\"',;&}}\]]+", re.IGNORECASE)
_SECRET_VARIABLE = re.compile(r"PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY")
_SECRET_CHARACTERS_MIN = 6  # shorter values would mask ordinary words
TEXT_CHARACTERS_MAX = 16_384
"""Longer texts are cut: a record may be 8 MiB, and libraries repeat what they cannot read."""
_LOOKED_AHEAD = 1_024  # more than any pattern above takes


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Log settings of every role."""

    log_level: str = "INFO"
    """Lowest level written: DEBUG, INFO, WARNING, ERROR or CRITICAL."""
    log_format: str = "text"
    """text: lines for people; json: one JSON object per line. The images set json."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "LogSettings":
        """Read ``SURESCALE_LOG_LEVEL`` and ``SURESCALE_LOG_FORMAT``.

        Raises:
            SettingsError: there is no such level or format.
        """
        variables = os.environ if environment is None else environment
        found = cls(variables.get("SURESCALE_LOG_LEVEL", cls().log_level).upper(), variables.get("SURESCALE_LOG_FORMAT", "text"))
        for name, value, known in (("LEVEL", found.log_level, _LEVELS), ("FORMAT", found.log_format, _FORMATS)):
            if value not in known:
                raise SettingsError(f"SURESCALE_LOG_{name}: {value!r} is none of {', '.join(known)}; set it or unset it")
        return found


def set_up_logs(role: str, *, shared_by: Collection[str] = ()) -> logging.Logger:
    """Send logs to standard error as `LogSettings` says, and return the role's logger.

    A process that several roles share names them in ``shared_by``; what a role's own logger writes then carries that role.

    Raises:
        SettingsError: there is no such level or format.
    """
    settings = LogSettings.from_environment()
    without = _secrets(os.environ)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(role, without) if settings.log_format == "json" else TextLines(role, without))
    handler.addFilter(_Role(role, shared_by))
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
    show_only_refusals()
    log = logging.getLogger(f"surescale.{role}")
    if settings.log_format == "json":
        _tell_the_log_of_crashes(log)
    return log


def last_words(error: BaseException) -> bool:
    """Log the error that ended the process, if the log is JSON; return whether it was written."""
    handlers = logging.getLogger().handlers
    if not any(isinstance(handler.formatter, JsonLines) for handler in handlers):
        return False
    logging.getLogger("surescale").critical("%s", error)
    return True


class _Role(logging.Filter):
    """Marks each record with the role that wrote it."""

    def __init__(self, process: str, shared_by: Collection[str]) -> None:
        super().__init__()
        self._process = process
        self._names = {f"surescale.{role}": role for role in shared_by}

    def filter(self, record: logging.LogRecord) -> bool:
        """Mark the record and let it pass."""
        record.role = self._names.get(record.name, self._process)
        return True


class TextLines(logging.Formatter):
    """``2026-01-31 12:00:00,000 agent INFO what happened (job sim/clicks)``, with a traceback below it if there is one."""

    def __init__(self, role: str, secrets: frozenset[str] = frozenset()) -> None:
        super().__init__("%(asctime)s %(role)s %(levelname)s %(message)s", defaults={"role": role})
        self._secrets = secrets

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (the name is logging's)
        """Return the line without a traceback."""
        fields = ", ".join(f"{name} {value}" for name, value in {**fields_of(record), **_place_in_trace()}.items())
        return printable(super().formatMessage(record) + (f" ({fields})" if fields else ""))

    def formatException(self, exc_info: Any) -> str:  # noqa: N802  (the name is logging's)
        """Return a traceback, set in: what an error quotes is obeyed by no terminal and taken for no line of the log."""
        return indent(printable(super().formatException(exc_info), keep="\n"), "  ")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without secrets."""
        return without_secrets(super().format(record), self._secrets)


class JsonLines(logging.Formatter):
    """One JSON object: ``ts`` (UTC), ``level``, ``role``, ``logger``, ``message``; if any ``fields``, ``exception`` and such."""

    def __init__(self, role: str, secrets: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._role = role
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON, without secrets."""
        seconds, thousandths = divmod(int(record.created * 1000), 1000)
        document: dict[str, Any] = {
            "ts": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{thousandths:03d}Z",
            "level": record.levelname,
            "role": getattr(record, "role", self._role),
            "logger": record.name,
            "message": self._clean(record.getMessage()),
            **_place_in_trace(),
        }
        if fields := fields_of(record):
            document["fields"] = {name: self._plain(value) for name, value in fields.items()}
        if record.exc_info and record.exc_info[0] is not None:
            document["exception"] = self._clean("".join(traceback.format_exception(*record.exc_info)).rstrip())
        if record.stack_info:
            document["stacks"] = self._clean(record.stack_info)
        return json.dumps(document)

    def _plain(self, value: object) -> object:
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)  # no JSON equivalent
        return value if value is None or isinstance(value, bool | int | float) else self._clean(str(value))

    def _clean(self, text: str) -> str:
        return without_secrets(text, self._secrets)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the ``extra`` fields, sorted by name."""
    return {name: value for name, value in sorted(vars(record).items()) if name not in _OWN_KEYS}


def _place_in_trace() -> dict[str, str]:
    """Return the ids of the work that a line is written in, as OpenTelemetry calls them; nothing where nothing is traced."""
    context = span_at_work().context
    return {} if context is None else {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def without_secrets(text: str, secrets: frozenset[str] = frozenset()) -> str:
    """Return a text with stars for passwords in addresses, values named like secrets, and the given values; a long one is cut."""
    left_out = len(text) - TEXT_CHARACTERS_MAX
    text = text[: TEXT_CHARACTERS_MAX + _LOOKED_AHEAD]  # a secret that begins before the cut is masked as a whole
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, STARS)
    shown = _NAMED.sub(rf"\1{STARS}", _IN_URL.sub(rf"\1:{STARS}@", text))
    return shown if left_out <= 0 else f"{shown[:TEXT_CHARACTERS_MAX]}... (cut: {left_out} more characters)"


def _secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the values of variables named like secrets."""
    named = (value for name, value in environment.items() if _SECRET_VARIABLE.search(name.upper()))
    return frozenset(value for value in named if len(value) >= _SECRET_CHARACTERS_MIN)


def _tell_the_log_of_crashes(log: logging.Logger) -> None:
    """Log uncaught exceptions as one line of JSON instead of a multi-line traceback."""
    logging.captureWarnings(True)

    def process_hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.critical("the process ends: %s", error, exc_info=(kind, error, trace))

    def thread_hook(ended: threading.ExceptHookArgs) -> None:
        error = ended.exc_value or ended.exc_type()
        log.critical("a thread ends: %s", error, exc_info=(ended.exc_type, error, ended.exc_traceback))

    sys.excepthook, threading.excepthook = process_hook, thread_hook
