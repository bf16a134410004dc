"""Log set-up of a role process: one event a line on standard error, as text for people or as JSON for programs.

A line's fields (``log.info("...", extra={"job": job})``) stand behind the text, in JSON under ``fields``. What looks like a
password is never written, whichever library says it.
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
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from contracts.errors import SettingsError

_NOISY = ("aiokafka", "faust", "mode", "kafka", "py4j", "aiohttp.access")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_FORMATS = ("text", "json")
# What logging itself puts into a record; whatever else stands there is a field that somebody gave.
_OWN_KEYS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_IN_URL = re.compile(r"(\w[\w+.-]*://[^\s:/@]*):[^\s/@]+@")
_NAMED = re.compile(r"((?:password|passwd|secret|token|api[_-]?key)[\"']?\s*[=:]\s*[\"']?)[^\s\"',;}\]]+", re.IGNORECASE)
_SECRET_VARIABLE = re.compile(r"PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY")
_SECRET_CHARACTERS_MIN = 6  # a shorter value would blot out ordinary words
_STARS = "***"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What every role reads about its log."""

    log_level: str = "INFO"
    """Least level that is written: DEBUG, INFO, WARNING, ERROR or CRITICAL."""
    log_format: str = "text"
    """text: one line for people; json: one JSON object a line. The images set json."""

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


def set_up_logs(role: str) -> logging.Logger:
    """Send logs to standard error, as `LogSettings` say, and return the role's logger.

    Raises:
        SettingsError: there is no such level or format.
    """
    settings = LogSettings.from_environment()
    without = _secrets(os.environ)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(role, without) if settings.log_format == "json" else TextLines(role, without))
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
    # What librdkafka has to say of a broker that is away is said by runtime.backoff, with less noise.
    logging.getLogger("surescale.librdkafka").setLevel(logging.CRITICAL)
    log = logging.getLogger(f"surescale.{role}")
    if settings.log_format == "json":
        _tell_the_log_of_crashes(log)
    return log


def last_words(error: BaseException) -> bool:
    """Write what ended the process as a line of its log, if that is JSON; say whether it was written."""
    handlers = logging.getLogger().handlers
    if not any(isinstance(handler.formatter, JsonLines) for handler in handlers):
        return False
    logging.getLogger("surescale").critical("%s", error)
    return True


class TextLines(logging.Formatter):
    """``2026-01-31 12:00:00,000 agent INFO what happened (job sim/clicks)``, and a trace below it where there is one."""

    def __init__(self, role: str, secrets: frozenset[str] = frozenset()) -> None:
        super().__init__(f"%(asctime)s {role} %(levelname)s %(message)s")
        self._secrets = secrets

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (the name is logging's)
        """Return the line without a trace."""
        fields = ", ".join(f"{name} {value}" for name, value in fields_of(record).items())
        return super().formatMessage(record) + (f" ({fields})" if fields else "")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without secrets."""
        return without_secrets(super().format(record), self._secrets)


class JsonLines(logging.Formatter):
    """One object: ``ts`` (UTC), ``level``, ``role``, ``logger``, ``message``, and ``fields`` and ``exception`` if any."""

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
            "role": self._role,
            "logger": record.name,
            "message": self._clean(record.getMessage()),
        }
        if fields := fields_of(record):
            document["fields"] = {name: self._plain(value) for name, value in fields.items()}
        if record.exc_info and record.exc_info[0] is not None:
            document["exception"] = self._clean("".join(traceback.format_exception(*record.exc_info)).rstrip())
        return json.dumps(document)

    def _plain(self, value: object) -> object:
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)  # JSON has no word for it
        return value if value is None or isinstance(value, bool | int | float) else self._clean(str(value))

    def _clean(self, text: str) -> str:
        return without_secrets(text, self._secrets)


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return what was given as ``extra``, sorted by name."""
    return {name: value for name, value in sorted(vars(record).items()) if name not in _OWN_KEYS}


def without_secrets(text: str, secrets: frozenset[str] = frozenset()) -> str:
    """Return a text with stars for passwords in addresses, values named as secrets, and the values given."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _STARS)
    return _NAMED.sub(rf"\1{_STARS}", _IN_URL.sub(rf"\1:{_STARS}@", text))


def _secrets(environment: Mapping[str, str]) -> frozenset[str]:
    """The values of variables that are named like secrets."""
    named = (value for name, value in environment.items() if _SECRET_VARIABLE.search(name.upper()))
    return frozenset(value for value in named if len(value) >= _SECRET_CHARACTERS_MIN)


def _tell_the_log_of_crashes(log: logging.Logger) -> None:
    """What nobody catches becomes one line of JSON instead of a trace on many."""
    logging.captureWarnings(True)

    def process_hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        log.critical("the process ends: %s", error, exc_info=(kind, error, trace))

    def thread_hook(ended: threading.ExceptHookArgs) -> None:
        error = ended.exc_value or ended.exc_type()
        log.critical("a thread ends: %s", error, exc_info=(ended.exc_type, error, ended.exc_traceback))

    sys.excepthook, threading.excepthook = process_hook, thread_hook
