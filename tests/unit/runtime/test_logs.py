"""Log lines: JSON that programs read, text that people read, and no secret in either."""

import io
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from surescale.contracts.errors import SettingsError
from surescale.runtime.logs import TEXT_CHARACTERS_MAX, JsonLines, LogSettings, TextLines, without_secrets

PASSWORD = "hunter2-and-more"
Lines = tuple[logging.Logger, io.StringIO]


@pytest.fixture
def logger_with() -> Iterator[Callable[[logging.Formatter], Lines]]:
    """A logger of its own that writes into a string."""
    log, written = logging.Logger("surescale.agent"), io.StringIO()

    def make(formatter: logging.Formatter) -> Lines:
        handler = logging.StreamHandler(written)
        handler.setFormatter(formatter)
        log.addHandler(handler)
        return log, written

    yield make
    log.handlers.clear()


def run(code: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run Python with these variables and nothing else; return how it ended."""
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=60)


def lines(text: str) -> list[dict[str, Any]]:
    """Parse every line as an object."""
    return [json.loads(line) for line in text.splitlines()]


def test_a_json_line_has_what_programs_ask_for(logger_with: Callable[[logging.Formatter], Lines]) -> None:
    """Time in UTC, level, role, logger, message, and the fields that were given."""
    log, written = logger_with(JsonLines("agent"))
    log.info("decided %s", "act", extra={"job": "sim/clicks", "tasks": 3})
    (line,) = lines(written.getvalue())
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "INFO",
        "role": "agent",
        "logger": "surescale.agent",
        "message": "decided act",
        "fields": {"job": "sim/clicks", "tasks": 3},
    }


def test_a_field_that_is_no_number_is_json_all_the_same(logger_with: Callable[[logging.Formatter], Lines]) -> None:
    """JSON has no NaN and no infinity: a strict reader would refuse the whole line."""
    log, written = logger_with(JsonLines("agent"))
    log.info("measured", extra={"load": float("nan"), "limit": float("inf")})
    line = json.loads(written.getvalue(), parse_constant=pytest.fail)
    assert line["fields"] == {"limit": "inf", "load": "nan"}


def test_an_exception_is_one_field_of_one_line(logger_with: Callable[[logging.Formatter], Lines]) -> None:
    """However many lines its trace has."""
    log, written = logger_with(JsonLines("agent"))
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("it failed")
    (line,) = lines(written.getvalue())
    assert line["message"] == "it failed"
    assert "Traceback" in line["exception"]
    assert line["exception"].endswith("ValueError: two\nlines")


def test_a_text_line_shows_the_fields(logger_with: Callable[[logging.Formatter], Lines]) -> None:
    """Behind the message, where people look for them."""
    log, written = logger_with(TextLines("agent"))
    log.warning("late", extra={"job": "sim/clicks"})
    assert written.getvalue().endswith("agent WARNING late (job sim/clicks)\n")


def test_text_of_a_record_in_a_text_line_is_escaped(logger_with: Callable[[logging.Formatter], Lines]) -> None:
    """A person's terminal does not obey it, and it makes no line of its own."""
    log, written = logger_with(TextLines("agent"))
    log.warning("late: %s", "x\x1b[2J\nforged", extra={"job": "sim/\x1b]0;owned\x07"})
    assert written.getvalue().endswith("late: x\\x1b[2J\\nforged (job sim/\\x1b]0;owned\\x07)\n")


def test_what_an_error_quotes_is_no_line_and_no_command_of_a_terminal(logger_with: Callable[[logging.Formatter], Lines]) -> None:
    """Its traceback is written, set in below the line."""
    log, written = logger_with(TextLines("agent"))
    try:
        raise ValueError("x\x1b[2J\n2026-01-31 12:00:00,000 agent INFO forged")
    except ValueError:
        log.exception("it failed")
    first, *trace = written.getvalue().splitlines()
    assert first.endswith("agent ERROR it failed")
    assert all(each.startswith("  ") for each in trace)
    assert trace[-2:] == ["  ValueError: x\\x1b[2J", "  2026-01-31 12:00:00,000 agent INFO forged"]


@pytest.mark.parametrize("formatter", [JsonLines, TextLines])
@pytest.mark.parametrize(
    "text",
    [
        f"waiting for redis://:{PASSWORD}@host:6379/0",
        f"https://me:{PASSWORD}@host/path",
        f"sasl.password={PASSWORD}",
        f'{{"api_key": "{PASSWORD}"}}',
        f"a library said {PASSWORD} by itself",
    ],
)
def test_a_secret_is_never_written(
    formatter: type[JsonLines | TextLines], text: str, logger_with: Callable[[logging.Formatter], Lines]
) -> None:
    """Not in the message, not in a field, not in a trace."""
    log, written = logger_with(formatter("agent", frozenset({PASSWORD})))
    try:
        raise ValueError(text)
    except ValueError:
        log.exception(text, extra={"url": text})
    assert PASSWORD not in written.getvalue()
    assert "***" in written.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "http://host:9092/path",
        "a token ring",
        "kafka:9092,kafka:9093",
        "user@host",
        "GET http://127.0.0.1:8070/decisions/sim/clicks@60000/sure",
        "http://host:8090, job sim/clicks@60000",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Ports, ordinary words and mail addresses are left alone."""
    assert without_secrets(text) == text


@pytest.mark.parametrize("unit", ["x", "://a:b", "a://", "password", "password= ", "token  ", "://:", "@:/", "secret:\"'"])
def test_the_text_of_a_record_is_masked_in_time_and_cut(unit: str) -> None:
    """Anybody may have written it: a megabyte takes as long as its length, and does not fill the log."""
    began_s = time.monotonic()
    shown = without_secrets(unit * (2**20 // len(unit)))
    assert time.monotonic() - began_s < 5  # a pattern that backtracks takes hours
    assert len(shown) < TEXT_CHARACTERS_MAX + 100
    assert shown.endswith("more characters)")


@pytest.mark.parametrize("before", range(TEXT_CHARACTERS_MAX - 40, TEXT_CHARACTERS_MAX))
def test_a_secret_at_the_cut_is_masked_as_a_whole(before: int) -> None:
    """Not the beginning of it either."""
    shown = without_secrets("x " * (before // 2) + f"redis://ana:{PASSWORD}@host {PASSWORD} more" * 9, frozenset({PASSWORD}))
    assert PASSWORD[:4] not in shown


@pytest.mark.parametrize("password", ["p/w", "p@w", "s?c#r:t", "6379x/y"])
def test_a_password_in_an_address_may_have_any_character(password: str) -> None:
    """Also those that should be written in percent: whoever forgot that still does not want it in the log."""
    assert without_secrets(f"waiting for redis://ana:{password}@host:6379/0 since 12:00") == (
        "waiting for redis://ana:***@host:6379/0 since 12:00"
    )


@pytest.mark.parametrize(("name", "value"), [("LEVEL", "LOUD"), ("FORMAT", "xml")])
def test_an_unknown_setting_is_named(name: str, value: str) -> None:
    """With what it may be."""
    with pytest.raises(SettingsError, match=rf"SURESCALE_LOG_{name}: '{value}' is none of "):
        LogSettings.from_environment({f"SURESCALE_LOG_{name}": value})


def test_a_crash_is_one_line_of_json_without_the_secrets_of_the_environment() -> None:
    """Also one that nobody caught, in the main thread or another."""
    code = f"""
import threading
from surescale.runtime.logs import set_up_logs
set_up_logs("agent")
thread = threading.Thread(target=lambda: 1 / 0)
thread.start(); thread.join()
raise RuntimeError("refused {PASSWORD}")
"""
    done = run(code, SURESCALE_LOG_FORMAT="json", SURESCALE_SASL_PASSWORD=PASSWORD)
    first, second = lines(done.stderr)
    assert ("ZeroDivisionError" in first["exception"], second["message"]) == (True, "the process ends: refused ***")
    assert done.returncode == 1


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_the_last_words_of_a_role_are_one_line(log_format: str) -> None:
    """An error of the world, here a missing Java or folder, ends a role with a line in the form of its log."""
    code = "import sys; sys.argv = ['surescale', 'run', 'spark']; from surescale.services.cli import main; main()"
    done = run(code, SURESCALE_LOG_FORMAT=log_format)
    assert done.returncode == 1
    if log_format == "json":
        (line,) = lines(done.stderr)
        assert (line["level"], line["role"]) == ("CRITICAL", "spark")
        assert line["message"].startswith("SURESCALE_SPARK_CHECKPOINT: not set")
    else:
        assert done.stderr.splitlines()[-1].startswith("surescale: SURESCALE_SPARK_CHECKPOINT: not set")
