"""Checks of this installation, of Redis and its clock, and of the webhook.

An image holds what its one role needs, and is judged by that.
"""

import os
import platform
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version

import redis

from surescale.contracts.addresses import without_password
from surescale.contracts.errors import SurescaleError
from surescale.contracts.figures import known_count
from surescale.contracts.plurals import counted
from surescale.contracts.settings import PipelineSettings
from surescale.engines.ports.findings import Finding, in_words, skew
from surescale.policies.package import PackageRejected
from surescale.policies.registry import Unavailable, has_graphs, load_policy, package_sha256
from surescale.runtime.limited_graphs import opener_for
from surescale.runtime.printable import one_line
from surescale.services.doctor.kafka_checks import LATE_S, KafkaChecks
from surescale.services.local_stack.errors import JavaError
from surescale.services.local_stack.java import find_java
from surescale.services.state import keys
from surescale.services.state.connection import Credentials, ahead_of_redis_ms, connect
from surescale.services.state.keys import Keys
from surescale.services.state.notify.settings import TEST, Notice, NotifySettings
from surescale.services.state.notify.webhook import Webhook, cloud_event, event_id
from surescale.services.state.redis_guard import what_to_do
from surescale.services.state.text_reader import as_text

MEMORY_SHARE_MAX = 0.9


def view(settings: PipelineSettings) -> Iterator[Finding]:
    """Check Redis: that it answers, has room, and tells the same time."""
    shown = without_password(settings.redis_url)
    with closing(connect(settings.redis_url, Credentials.of(settings))) as client:
        try:
            skew_s = -ahead_of_redis_ms(client) / 1_000
            memory = client.info("memory")
        except redis.RedisError as error:
            yield Finding(
                "problem", "redis", f"{shown} does not answer: {one_line(str(error))}",
                f"{what_to_do(error)}; decisions continue without it, only the view is missing",
            )  # fmt: skip
            return
    used, limit = (known_count(str(memory.get(name, 0))) or 0 for name in ("used_memory", "maxmemory"))
    detail = f"{shown}, {used / 2**20:.0f} MiB used{f' of {limit / 2**20:.0f}' if limit else ''}"
    policy = str(memory.get("maxmemory_policy", "noeviction")) if limit else "noeviction"
    if policy != "noeviction":
        yield Finding(
            "problem", "redis", f"{detail}; it drops keys when it is full (maxmemory-policy {policy})",
            "set maxmemory-policy to noeviction; the state service waits until then, since the view would lose single keys",
        )  # fmt: skip
    elif limit and used > MEMORY_SHARE_MAX * limit:
        yield Finding("warning", "redis", detail, "raise maxmemory; docs/state.md says what a job takes")
    else:
        yield Finding("ok", "redis", detail)
    yield from skew("redis", skew_s)


def keeper(settings: PipelineSettings, kafka: KafkaChecks) -> Iterator[Finding]:
    """Check that the state service keeps the view. Where Kafka or Redis does not answer, that is said of these."""
    if not kafka.answers:
        return
    who, start = "the state service", "start surescale run state-service"
    with closing(connect(settings.redis_url, Credentials.of(settings))) as client, suppress(redis.RedisError):
        key = Keys(settings.topic_prefix)
        kept_ms = known_count(as_text(client).get(key(keys.KEPT)) or "")
        if kept_ms is not None:
            age_s = time.time() - kafka.ahead_s - kept_ms / 1000
            detail = f"brought the view up to date {in_words(max(0.0, age_s))} ago"
            if age_s <= LATE_S:
                yield Finding("ok", who, detail)
            else:
                yield Finding("problem", who, f"last {detail}", f"look at its log and /health; {start} if it does not run")
        elif as_text(client).hgetall(key(keys.POSITIONS)):
            yield Finding("warning", who, "the view is still being built", f"look at its log; {start} if it does not run")
        else:
            yield Finding("problem", who, "there is no view: `surescale job list` and the page show nothing", start)


def clock(settings: PipelineSettings, kafka: KafkaChecks) -> Iterator[Finding]:
    """Check this machine's clock against Kafka's, with that of Redis as a witness."""
    ahead_s: float | None = None
    with closing(connect(settings.redis_url, Credentials.of(settings))) as client, suppress(redis.RedisError):
        ahead_s = ahead_of_redis_ms(client) / 1_000
    yield from kafka.clock(ahead_s)


WAITING_S_MAX = 60.0
"""A webhook that accepts events gets them within seconds."""
_RUNBOOK = "see SurescaleNotificationsFail in docs/runbook.md"


def notifications(settings: NotifySettings, kafka: KafkaChecks, *, is_tried: bool) -> Iterator[Finding]:
    """Check the webhook, if there is one; ``is_tried``: send it an event."""
    if not settings.notify_url:
        if is_tried:
            yield Finding("problem", "webhook", "there is none", "set SURESCALE_NOTIFY_URL, as for the state service")
        return
    try:
        webhook = Webhook(settings)
        webhook.check()
    except SurescaleError as error:
        wrong, _, remedy = str(error).rpartition("; ")
        yield Finding("problem", "webhook", wrong or remedy, remedy)
        return
    yield _progress(webhook.shown, kafka)
    if is_tried:
        yield _tried(settings, webhook)
    webhook.close()


def _progress(shown: str, kafka: KafkaChecks) -> Finding:
    found = kafka.notified()
    if found is None:
        return Finding("warning", "webhook", f"{shown} got nothing yet", "start surescale run state-service with these settings")
    behind, oldest_s = found
    if oldest_s is not None and oldest_s > WAITING_S_MAX:
        detail = f"{shown} has not received {counted(behind, 'record')} yet; the oldest is {in_words(oldest_s)} old"
        return Finding("warning", "webhook", detail, f"it takes no events, or no state service runs; {_RUNBOOK}")
    return Finding("ok", "webhook", f"{shown} keeps up; {counted(behind, 'record')} still to look at")


def _tried(settings: NotifySettings, webhook: Webhook) -> Finding:
    now_ms = round(time.time() * 1000)
    words = "surescale doctor tries this webhook; nothing has happened"
    notice = Notice(TEST, settings.cluster, settings.cluster, str(uuid.uuid4()), words, now_ms, now_ms)
    reply = webhook.send(event_id(notice), cloud_event(notice, f"{settings.topic_prefix}{settings.pipeline}"))
    if reply.verdict == "delivered":
        return Finding("ok", "webhook", f"{webhook.shown} took a test event")
    return Finding("problem", "webhook", reply.words, _RUNBOOK)


_PACKAGES = ("confluent-kafka", "faust-streaming", "pyspark", "redis", "onnxruntime")
_ROLE_OF_THE_IMAGE = "SURESCALE_ROLE"
_ASK_THE_ENGINE = ("monitor", "rescaler")
_INSTALL = "commands that need it name it; pip install 'surescale[all]' brings everything"
_CHOOSE = "a rule decides instead; set SURESCALE_POLICY or SURESCALE_POLICY_FOLDER, or see `surescale policy verify`"


def role_of_the_image() -> str:
    """Return the role whose image this runs in; empty: in none."""
    return os.environ.get(_ROLE_OF_THE_IMAGE, "")


def programs() -> Iterator[Finding]:
    """Check Python's packages, and Java, which the Spark job and the demo need."""
    role = role_of_the_image()
    found = {name: _installed(name) for name in _PACKAGES}
    detail = f"{version('surescale')} on Python {platform.python_version()}"
    shown = "; ".join((detail, ", ".join(f"{name} {found[name]}" for name in _PACKAGES if found[name])))
    missing = ", ".join(name for name in _PACKAGES if not found[name])
    if role:
        yield Finding("ok", "surescale", f"{shown}; image of the {role}")
    elif missing:
        yield Finding("warning", "surescale", f"{shown}; not installed: {missing}", _INSTALL)
    else:
        yield Finding("ok", "surescale", shown)
    if role in ("", "spark"):
        yield _java()


def policy(settings: PipelineSettings) -> Iterator[Finding]:
    """Check that the policy of jobs without one can be loaded; where nothing can run its graphs, that its files are whole."""
    if has_graphs(settings.policy, settings.policy_folder) and not _installed("onnxruntime"):
        yield _files_of(settings)
        return
    found = load_policy(settings.policy, settings.policy_folder, opener=opener_for(settings.policy_folder))
    if isinstance(found, Unavailable):
        yield Finding("problem", "policy", f"{settings.policy} cannot be used: {found.reason}", _CHOOSE)
        return
    yield Finding("ok", "policy", f"{found.name}{f', sha256 {found.sha256[:12]}' if found.sha256 else ''}")


def seen_from_here(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Pass on what was found of the engine; in the image of a role that never asks it, what is wrong is only a warning."""
    role = role_of_the_image()
    for finding in findings:
        if finding.verdict != "problem" or role in ("", *_ASK_THE_ENGINE):
            yield finding
        else:
            where = f"monitor and rescaler have to reach it, not the {role}, from which this was tried"
            yield Finding("warning", finding.subject, finding.detail, f"{where}; see their logs, or {finding.remedy}")


def _files_of(settings: PipelineSettings) -> Finding:
    try:
        sha256 = package_sha256(settings.policy, settings.policy_folder)
    except PackageRejected as rejected:
        return Finding("problem", "policy", f"{settings.policy} cannot be used: {rejected}", _CHOOSE)
    detail = f"{settings.policy}, sha256 {sha256[:12]}; its graphs were not tried, since onnxruntime is not installed"
    if role_of_the_image():
        return Finding("ok", "policy", f"{detail} here")
    return Finding("warning", "policy", detail, _INSTALL)


def _java() -> Finding:
    try:
        java = find_java()
    except JavaError as error:
        return Finding("warning", "java", str(error), "only the Spark job and `surescale demo` need Java")
    return Finding("ok", "java", f"{java.major} at {java.home}")


def _installed(name: str) -> str:
    """Return the version of a package; empty: it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
