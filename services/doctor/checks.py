"""Checks of Redis and the engine, and of their clocks."""

import email.utils
import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import redis

from contracts.addresses import without_password
from contracts.errors import SettingsError
from contracts.settings import PipelineSettings
from engines.groups.chains import read_chains
from engines.source_settings import SourceSettings
from runtime.http import open_url
from services.doctor.compose_checks import services
from services.doctor.findings import Finding
from services.doctor.flink_checks import flink
from services.doctor.flink_operator_checks import operated_jobs
from services.doctor.group_checks import groups
from services.doctor.kubernetes_checks import workloads
from services.doctor.prometheus_checks import figures
from services.state.connection import Credentials, connect

SKEW_S_MAX = 2.0
"""Above the second that an HTTP date leaves out."""
MEMORY_SHARE_MAX = 0.9
ENGINE_TIMEOUT_S = 5.0
_ADDRESS = "set SURESCALE_ENGINE to the engine's kind and SURESCALE_ENGINE_URL to the address of its API"


def view(settings: PipelineSettings) -> Iterator[Finding]:
    """Check Redis: that it answers, has room, and tells the same time."""
    shown = without_password(settings.redis_url)
    with closing(connect(settings.redis_url, Credentials.of(settings))) as client:
        try:
            began_s = time.time()
            seconds, microseconds = client.time()
            skew_s = seconds + microseconds / 1e6 - (began_s + time.time()) / 2
            memory = client.info("memory")
        except redis.RedisError as error:
            yield Finding(
                "problem", "redis", f"{shown} does not answer: {error}",
                "start it, or set SURESCALE_REDIS_URL; decisions continue without it, only the view is missing",
            )  # fmt: skip
            return
    used, limit = int(memory.get("used_memory", 0)), int(memory.get("maxmemory", 0))
    detail = f"{shown}, {used / 2**20:.0f} MiB used{f' of {limit / 2**20:.0f}' if limit else ''}"
    policy = str(memory.get("maxmemory_policy", "noeviction")) if limit else "noeviction"
    if policy.startswith("allkeys"):
        yield Finding(
            "problem", "redis", f"{detail}; it drops keys when it is full (maxmemory-policy {policy})",
            "set maxmemory-policy to noeviction; the state service waits until then, since the view would lose single keys",
        )  # fmt: skip
    elif policy != "noeviction":
        yield Finding(
            "warning", "redis", f"{detail}; it drops keys with an expiry when it is full (maxmemory-policy {policy})",
            "the view's keys have none, so they stay; noeviction keeps it so whatever else lies there",
        )  # fmt: skip
    elif limit and used > MEMORY_SHARE_MAX * limit:
        yield Finding("warning", "redis", detail, "raise maxmemory; docs/state.md says what a job takes")
    else:
        yield Finding("ok", "redis", detail)
    yield from _skew("redis", skew_s)


def engine(settings: SourceSettings) -> Iterator[Finding]:
    """Check that whatever gives figures answers as its kind does, and that the jobs can be rescaled."""
    if settings.source_kind == "prometheus":
        yield from figures(settings)
    if settings.engine == "flink" and settings.actuator_kind == "kubernetes":
        yield from operated_jobs(settings)
    match settings.engine:
        case "flink" if settings.source_kind == "prometheus":
            return  # nobody asks it
        case "flink":
            yield from flink(settings)
        case "kafka":
            yield from _consumer_groups(settings)
        case _:
            yield from _simulated(settings)


def _consumer_groups(settings: SourceSettings) -> Iterator[Finding]:
    """Check the file that names the groups, the groups where they are the source, and what scales them."""
    try:
        chains = read_chains(Path(settings.groups_file)) if settings.groups_file else None
    except SettingsError as error:
        yield Finding("problem", "engine", str(error), "correct the file, or set SURESCALE_GROUPS_FILE to another")
        return
    if settings.source_kind == "prometheus" and chains is None:
        return
    named = "every group with members is a job" if chains is None else f"jobs {', '.join(chains)} of {settings.groups_file}"
    yield Finding("ok", "engine", f"consumer groups: {named}")
    if settings.source_kind == "consumer-group":
        yield from groups(settings, chains)
    if settings.actuator_kind == "compose":
        yield from services(settings, chains or {})
    if settings.actuator_kind == "kubernetes":
        yield from workloads(settings, chains or {})


def _simulated(settings: PipelineSettings) -> Iterator[Finding]:
    url = f"{settings.engine_url.rstrip('/')}/health"
    asked_s = time.time()
    try:
        with open_url(url, timeout_s=ENGINE_TIMEOUT_S) as answer:
            document, date = json.load(answer), answer.headers.get("Date")
        if not isinstance(document, dict):
            raise ValueError("the answer is no JSON object")
    except (OSError, ValueError) as error:
        yield Finding("problem", "engine", f"no simulated engine at {url}: {error}", _ADDRESS)
        return
    yield Finding("ok", "engine", f"simulated, at {settings.engine_url}")
    if date and (told := email.utils.parsedate_to_datetime(date)):
        yield from _skew("engine", told.timestamp() - asked_s)


def _skew(subject: str, skew_s: float) -> Iterator[Finding]:
    if abs(skew_s) > SKEW_S_MAX:
        detail = f"its clock is {abs(skew_s):.1f} s {'ahead of' if skew_s > 0 else 'behind'} this machine's"
        yield Finding("warning", f"{subject} clock", detail, "let both follow one time server (NTP)")
