"""Checks of the webhook: can its settings be used, does it keep up, does it accept an event."""

import time
import uuid
from collections.abc import Iterator

from contracts.errors import SurescaleError
from services.doctor.findings import Finding, in_words
from services.doctor.kafka_checks import KafkaChecks
from services.state.notify.cloud_event import cloud_event, event_id
from services.state.notify.kinds import TEST, Notice
from services.state.notify.settings import NotifySettings
from services.state.notify.webhook import Webhook

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
        return Finding("warning", "webhook", f"{shown} got nothing yet", "start surescale state-service with these settings")
    behind, oldest_s = found
    if oldest_s is not None and oldest_s > WAITING_S_MAX:
        detail = f"{shown} has not received {behind} record(s) yet; the oldest is {in_words(oldest_s)} old"
        return Finding("warning", "webhook", detail, f"it takes no events, or no state service runs; {_RUNBOOK}")
    return Finding("ok", "webhook", f"{shown} keeps up; {behind} record(s) still to look at")


def _tried(settings: NotifySettings, webhook: Webhook) -> Finding:
    now_ms = round(time.time() * 1000)
    words = "surescale doctor tries this webhook; nothing has happened"
    notice = Notice(TEST, settings.cluster, settings.cluster, str(uuid.uuid4()), words, now_ms, now_ms)
    reply = webhook.send(event_id(notice), cloud_event(notice, f"{settings.topic_prefix}{settings.road}"))
    if reply.verdict == "delivered":
        return Finding("ok", "webhook", f"{webhook.shown} took a test event")
    return Finding("problem", "webhook", reply.words, _RUNBOOK)
