"""Sends events to the webhook: a thread of its own, with a Kafka client of its own, so that the projector never waits for it.

Of several state services of one pipeline the one that holds the lease sends; a second thread renews it, however long an answer
takes. Delivery is at least once. The mark moves past a record only when its events were taken, were refused for good, or grew
too old. While the webhook is away, the records wait in Kafka.
"""

import logging
import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing

from confluent_kafka import KafkaException

from surescale.runtime.backoff import Stopped, Throttle, wait_for
from surescale.runtime.beats import beat, pause
from surescale.runtime.kafka import wait_for_topics
from surescale.runtime.metrics import Reading, Tally
from surescale.runtime.watchdog import Watchdog
from surescale.services.state import metrics
from surescale.services.state.connection import Credentials, connect
from surescale.services.state.keys import Keys
from surescale.services.state.notify.feed import Feed
from surescale.services.state.notify.lease import NAME, RENEWED_EVERY_S, Lease
from surescale.services.state.notify.settings import Notice, NotifySettings, chosen, names
from surescale.services.state.notify.watch import WATCHED, Watch
from surescale.services.state.notify.webhook import Webhook, cloud_event, event_id

READ_WAIT_S = 0.5
_LOOK_EVERY_S = 0.5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
_HOUR_MS = 3_600_000
_JOIN_WITHIN_S = 2.0  # a request under way may take longer; the thread ends with the process


class _StandsBy(Exception):
    """Another state service tells the webhook from now on."""


class Notifier:
    """Follows the pipeline and tells one webhook."""

    def __init__(self, settings: NotifySettings, stop: threading.Event, log: logging.Logger) -> None:
        """Check what is needed to send events.

        Raises:
            SurescaleError: a file with a secret or a certificate cannot be used; names the setting.
        """
        self._settings, self._stop, self._log = settings, stop, log
        self._kinds = chosen(settings.notify_events, "SURESCALE_NOTIFY_EVENTS")
        self._clusters = frozenset(names(settings.notify_clusters))
        self._keep_ms = round(settings.notify_keep_hours * _HOUR_MS)
        self._webhook = Webhook(settings)
        self._webhook.check()
        self._told, self._attempts = Tally(), Tally()
        self._failing_since_s: float | None = None
        self._has_failed = False
        self._seldom = Throttle(60.0)
        self._redis = connect(settings.redis_url, Credentials.of(settings))
        self._lease = Lease(self._redis, Keys(settings.topic_prefix)(NAME))
        self._thread: threading.Thread | None = None
        self._keeper: threading.Thread | None = None

    def start(self, watchdog: Watchdog) -> None:
        """Begin."""
        self._thread = watchdog.thread(self._run, "the notifier", self._is_over)
        self._keeper = watchdog.thread(self._keep_lease, "the notifier's lease", self._is_over)
        self._thread.start()
        self._keeper.start()

    def _is_over(self) -> bool:
        return self._stop.is_set() or self._has_failed

    def join(self) -> None:
        """Wait a moment for the end, once told to stop."""
        for thread in (self._thread, self._keeper):
            if thread is not None:
                thread.join(_JOIN_WITHIN_S)

    def readings(self) -> Iterator[Reading]:
        """Yield the metrics."""
        yield from self._told.readings(metrics.NOTIFICATIONS)
        yield from self._attempts.readings(metrics.NOTIFY_ATTEMPTS)
        since_s = self._failing_since_s
        yield Reading(metrics.NOTIFY_FAILING, 0.0 if since_s is None else time.monotonic() - since_s)

    def _keep_lease(self) -> None:
        """Renew the lease for as long as events are sent; let it go only when none is on its way any more."""
        assert self._thread is not None, "it is started before its lease is kept"
        with closing(self._redis):
            while not self._stop.is_set() and self._thread.is_alive():
                self._lease.renew()
                pause(self._stop, RENEWED_EVERY_S)
            self._thread.join(_JOIN_WITHIN_S)
            if not self._thread.is_alive():
                self._lease.release()

    def _run(self) -> None:
        is_said = False
        try:
            wait_for_topics(self._settings, WATCHED, stop=self._stop, log=self._log)
            while not self._stop.is_set():
                if not self._lease.is_ours:
                    pause(self._stop, _LOOK_EVERY_S)
                    if self._lease.is_known and not self._lease.is_ours and not is_said:
                        self._log.info("another state service tells %s; this one stands by", self._webhook.shown)
                        is_said = True
                    continue
                is_said = False
                what = f"Kafka at {self._settings.bootstrap}, to tell {self._webhook.shown}"
                wait_for(what, self._follow, expected=(KafkaException, TimeoutError), stop=self._stop, log=self._log)
        except Stopped:
            pass
        except Exception:  # a mistake of ours costs the notifications, and nothing else; the alert sees it
            self._fails()
            self._has_failed = True
            self._log.exception("notifications have stopped; the rest of the state service continues")
        finally:
            self._webhook.close()

    def _follow(self) -> None:
        """Follow the records until told to stop.

        Raises:
            KafkaException, TimeoutError: Kafka is away, or refuses.
        """
        watch = Watch()
        try:
            feed = Feed(self._settings, keep_ms=self._keep_ms)
        except KafkaException:
            self._fails()
            raise
        try:
            feed.prime(watch)
            self._works()
            while not self._stop.is_set() and self._lease.is_ours:
                beat()
                for record in feed.read(READ_WAIT_S):
                    wanted = [notice for notice in watch.take(record) if self._is_wanted(notice)]
                    for notice in wanted:
                        self._tell(notice)
                    feed.done(record, at_once=bool(wanted))
                feed.keep_marks()
        except _StandsBy:
            self._works()
        except (KafkaException, TimeoutError):
            self._fails()
            raise
        finally:
            feed.close()

    def _is_wanted(self, notice: Notice) -> bool:
        return notice.kind in self._kinds and (not self._clusters or notice.cluster in self._clusters)

    def _tell(self, notice: Notice) -> None:
        """Send an event until it is taken, refused for good, or too old.

        Raises:
            Stopped: the service ends; the event is sent at the next start.
            _StandsBy: another service sends it.
        """
        identity, body = event_id(notice), cloud_event(notice, f"{self._settings.topic_prefix}{self._settings.pipeline}")
        pause_s = FIRST_PAUSE_S
        while time.time() * 1000 - notice.appended_ms <= self._keep_ms:
            if self._stop.is_set():
                raise Stopped("notifications")
            if not self._lease.is_ours:
                raise _StandsBy
            reply = self._webhook.send(identity, body)
            self._attempts.add(reply.status)
            if reply.verdict != "failed":
                self._works()
                self._told.add(notice.kind, reply.verdict)
                if reply.verdict == "refused":
                    self._log.warning("an event is left out: %s", reply.words, extra={"event": identity})
                return
            self._fails()
            if self._seldom.is_time():
                self._log.warning("an event waits: %s", reply.words, extra={"event": identity})
            # Not all at once, where several services share a webhook that comes back.
            pause(self._stop, reply.wait_s if reply.wait_s is not None else pause_s * random.uniform(0.8, 1.2))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        self._told.add(notice.kind, "too_old")
        if self._seldom.is_time():
            hours = self._settings.notify_keep_hours
            self._log.warning("events older than %g hours are no longer sent", hours, extra={"event": identity})

    def _works(self) -> None:
        self._failing_since_s = None

    def _fails(self) -> None:
        if self._failing_since_s is None:
            self._failing_since_s = time.monotonic()
