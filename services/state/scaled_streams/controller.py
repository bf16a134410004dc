"""Sets jobs as ScaledStreams say, and keeps the status and the events of these: a thread of the state service.

Everything is compared with what Kafka and the API server have, so a second controller of the same pipeline, or one that died
anywhere, does no harm. One of another pipeline shows something else of the same resources; then both say so. A resource that
goes leaves its job to its labels and its engine; on a real engine that means observing it. Resources of a namespace that cannot
be listed stay as they are.
"""

import logging
import threading
import time
from collections.abc import Collection, Iterator, Sequence

import msgspec
import redis

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings
from surescale.engines.kubernetes.client import client_of
from surescale.engines.kubernetes.errors import ApiUnavailable, Conflict, KubernetesError
from surescale.runtime.backoff import Throttle
from surescale.runtime.beats import beat, pause
from surescale.runtime.kafka import REQUEST_TIMEOUT_S, admin_client
from surescale.runtime.kafka_errors import readable_errors
from surescale.runtime.metrics import Reading
from surescale.runtime.printable import one_line
from surescale.runtime.watchdog import Watchdog
from surescale.services.job_settings.snapshot import read_jobs, write_all
from surescale.services.state import metrics
from surescale.services.state.documents import JobDocument
from surescale.services.state.read.queries import Queries
from surescale.services.state.read.stored import UnreadableView
from surescale.services.state.read.view import NotFound
from surescale.services.state.scaled_streams.definition import API, KIND, ScaledStream, path_in
from surescale.services.state.scaled_streams.plan import plans_of
from surescale.services.state.scaled_streams.status import (
    Happening,
    Verdict,
    event_of,
    happenings,
    rfc3339,
    status_of,
)
from surescale.services.state.settings import StateSettings

LOOK_EVERY_S = 5.0
SET_AGAIN_S = 300.0
"""What somebody changed by hand is taken back so seldom; a change of a resource is seen at the next look."""
EVENTS_OF_EACH = 5
TOLD_AFTER_S = 3_600.0
"""Older happenings are not told: the API server keeps events about an hour."""
SHARED_FOR_S = 300.0
"""So long a resource counts as another pipeline's too, once that has shown it; each shows it only once a minute meanwhile."""
_JOIN_WITHIN_S = 2.0
_UNSEEN = Verdict(None, "Pending", "not looked at yet")


def name_of_pipeline(settings: PipelineSettings) -> str:
    """Return a pipeline's name: the same from wherever Kafka is reached, and whichever of its brokers are named.

    Raises:
        ConnectionError: Kafka does not answer.
    """
    with readable_errors(settings):
        id_ = admin_client(settings).list_topics(timeout=REQUEST_TIMEOUT_S).cluster_id
    where = f"on Kafka cluster {id_ or settings.bootstrap}"
    return f"{settings.topic_prefix!r} {where}" if settings.topic_prefix else where


class StreamController:
    """Follows the ScaledStreams of some namespaces."""

    def __init__(self, settings: StateSettings, queries: Queries, stop: threading.Event, log: logging.Logger) -> None:
        """Connect to nothing yet.

        Raises:
            SettingsError: the API server's address, or a file, cannot be used.
        """
        self._settings, self._queries, self._stop, self._log = settings, queries, stop, log
        self._client = client_of(settings.kubernetes)
        self._seen: dict[str, int] = {}  # generation of each resource whose settings were looked at, by uid
        self._verdicts: dict[str, Verdict] = {}  # by uid
        self._set_s: float | None = None
        self._told: dict[str, set[str]] = {}  # identities of happenings, by uid
        self._pipeline = ""  # unknown until Kafka was asked
        self._shown: set[str] = set()  # uids of resources whose status was written by this process
        self._shared: dict[str, tuple[str, float]] = {}  # the other pipeline of a resource, and when it was seen, by uid
        self._seldom_shown: dict[str, Throttle] = {}  # by uid
        self._seldom = Throttle(60.0)
        self._thread: threading.Thread | None = None

    def start(self, watchdog: Watchdog) -> None:
        """Begin."""
        self._thread = watchdog.thread(self._run, "the controller of ScaledStreams", self._stop.is_set)
        self._thread.start()

    def join(self) -> None:
        """Wait a moment for the end, once told to stop."""
        if self._thread is not None:
            self._thread.join(_JOIN_WITHIN_S)

    def readings(self) -> Iterator[Reading]:
        """Yield the metrics."""
        verdicts = list(self._verdicts.values())
        for label, is_set in (("true", True), ("false", False), ("unknown", None)):
            yield Reading(metrics.SCALED_STREAMS, sum(each.is_set is is_set for each in verdicts), (label,))

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.turn()
                pause(self._stop, LOOK_EVERY_S)
        finally:
            self._client.close()

    def turn(self) -> None:
        """Look at every resource once. What fails is said, and tried again at the next turn."""
        found: dict[str, list[ScaledStream]] = {}
        for namespace in self._settings.namespaces:
            beat()
            try:
                listed = self._client.objects(path_in(namespace), ScaledStream)
            except KubernetesError as problem:
                self._say(f"the ScaledStreams of namespace {namespace} cannot be listed: {problem}")
                continue
            found[namespace] = [
                stream
                for stream in listed
                if stream.metadata.namespace == namespace and stream.metadata.deletion_timestamp is None
            ]
        if len(found) == len(self._settings.namespaces):
            self._forget({stream.metadata.uid for listed in found.values() for stream in listed})
        streams = sorted(
            (stream for listed in found.values() for stream in listed),
            key=lambda stream: (stream.metadata.creation_timestamp, stream.where),
        )
        self._set(streams, found.keys())
        for stream in streams:
            beat()
            try:
                self._show(stream)
            except Conflict:
                pass  # somebody else wrote it: the next turn reads it anew
            except KubernetesError as problem:
                self._say(f"{stream.where}: its status or an event cannot be written: {problem}")
            if self._stop.is_set():
                return

    def _forget(self, there: Collection[str]) -> None:
        """Forget resources that are there no more: in a service that runs for months they would fill the memory."""
        self._shown &= frozenset(there)
        for known in (self._told, self._shared, self._seldom_shown):
            for uid in known.keys() - there:
                del known[uid]

    # Settings

    def _set(self, streams: Sequence[ScaledStream], namespaces: Collection[str]) -> None:
        """Set jobs as the resources say, if one of these has changed, or it is time to look for changes by hand."""
        seen = {stream.metadata.uid: stream.metadata.generation for stream in streams}
        is_due = self._set_s is None or time.monotonic() - self._set_s >= SET_AGAIN_S
        if seen == self._seen and not is_due:
            return
        from surescale.policies.registry import policy_names  # its libraries are large: not for services without resources

        try:
            known = read_jobs(self._settings)
            self._pipeline = self._pipeline or name_of_pipeline(self._settings)
            verdicts, changes = plans_of(streams, known, namespaces, policy_names(self._settings.policy_folder))
            write_all(self._settings, [plan.after for plan in changes])
        except (ConnectionError, SettingsError) as problem:
            self._say(f"ScaledStreams cannot set their jobs now: {problem}")
            why = Verdict(None, "CannotSet", str(problem))
            self._verdicts = {
                uid: self._verdicts.get(uid, why) if self._seen.get(uid) == generation else why
                for uid, generation in seen.items()
            }
            return
        for plan in changes:
            self._log.info("%s: set by %s, settings version %d", plan.after.job, plan.after.set_by, plan.after.version)
        self._verdicts = verdicts
        gone = [plan for plan in changes if not plan.after.applied_from]
        # A job that was let go may be another resource's, which was refused it just now.
        self._seen, self._set_s = ({}, None) if gone else (seen, time.monotonic())

    # Status and events

    def _show(self, stream: ScaledStream) -> None:
        """Write a resource's status where it differs, and the events that are not there yet.

        Raises:
            KubernetesError: not all was written.
        """
        about, verdict = stream.metadata, self._verdicts.get(stream.metadata.uid, _UNSEEN)
        if other := self._other_of(stream):
            why = (
                f"the pipeline {other} sets it too; name namespace {about.namespace} in SURESCALE_STREAM_NAMESPACES of one "
                "pipeline only"
            )
            self._say(f"{stream.where}: {why}")
            verdict = Verdict(None, "OtherPipeline", why)
        job, told = self._looked_up(stream)
        now = rfc3339(round(time.time() * 1000)) or ""
        pipeline = self._pipeline or stream.status.get("pipeline")
        status = {**status_of(stream.status, about.generation, verdict, job, now), "pipeline": pipeline}
        is_news = {name: value for name, value in status.items() if value is not None} != stream.status
        if is_news and (not other or self._seldom_shown.setdefault(about.uid, Throttle(60.0)).is_time()):
            self._client.patch(f"{stream.path}/status", {"status": status}, about.resource_version, msgspec.Raw)
            self._shown.add(about.uid)
        involved = {
            "apiVersion": API,
            "kind": KIND,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        }
        known = self._told.get(about.uid, set())
        self._told[about.uid] = {each.identity for each in told}
        for each in told:
            if each.identity in known or time.time() - each.appended_ms / 1000 > TOLD_AFTER_S:
                continue
            try:
                events = f"/api/v1/namespaces/{about.namespace}/events"
                self._client.create(events, event_of(about.namespace, involved, each), msgspec.Raw)
            except Conflict:
                pass  # told before a restart
            except ApiUnavailable:
                self._told[about.uid] = known
                raise

    def _other_of(self, stream: ScaledStream) -> str:
        """Return the other pipeline that shows a resource since this one has, if there is one; its name."""
        uid, shows = stream.metadata.uid, stream.status.get("pipeline", self._pipeline)
        if uid in self._shown and self._pipeline and shows != self._pipeline:
            self._shared[uid] = one_line(str(shows)), time.monotonic()
        other, seen_s = self._shared.get(uid, ("", 0.0))
        return other if time.monotonic() - seen_s < SHARED_FOR_S else ""

    def _looked_up(self, stream: ScaledStream) -> tuple[JobDocument | None, list[Happening]]:
        """Return what the view holds of a resource's job; nothing while it is away."""
        try:
            job = self._queries.job(stream.job)
            decisions = self._queries.decisions(stream.job, EVENTS_OF_EACH)
            commands = self._queries.commands(stream.job, EVENTS_OF_EACH)
        except NotFound:
            return None, []
        except (redis.RedisError, UnreadableView) as problem:
            self._say(f"the view cannot be read, so ScaledStreams show nothing of their jobs: {problem}")
            return None, []
        return job, list(happenings(decisions, commands))

    def _say(self, words: str) -> None:
        if self._seldom.is_time():
            self._log.warning("%s", words)
